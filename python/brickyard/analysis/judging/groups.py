"""Duty: on which storage and in which condition a run was made, in words, and so that only like is pooled with like.

Refusal: what a file lies on is not looked at; another name is other storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from brickyard.analysis.judging.differing import SCRATCH, asked_hash, places_of
from brickyard.analysis.judging.summary import emulated_disks, model_changes
from brickyard.store import Record, RunInfo
from brickyard.units import format_runs, format_size

NAMED_MOST = 4


class StorageState(NamedTuple):
    """What repetitions have in common, each part in words."""

    targets: str
    changes: str
    """What `--set` changed of a model, and how an emulated disk was made; the condition, which a study sets so, is the
    next part."""
    condition: str

    @property
    def words(self) -> str:
        return ", ".join(part for part in self if part and part != "normal")

    @property
    def in_any_condition(self) -> StorageState:
        return self._replace(condition="")


def group_of(record: Record) -> StorageState:
    info = record.info
    return StorageState(SCRATCH.sub("", places_of(record)), *state_of(info))


def state_of(info: RunInfo) -> tuple[str, str]:
    """What `--set` changed of a model and how an emulated disk was made, and the condition."""
    return ", ".join([*model_changes(info), *emulated_disks(info)]), info.condition.replace("_", " ")


def apart_words(info: RunInfo) -> str:
    """What sets a run apart from others of its profile: what was changed of the load, of a model, and the condition."""
    changes, condition = state_of(info)
    return ", ".join(part for part in (info.called_beside_levels, changes, condition) if part and part != "normal")


def state_words(info: RunInfo) -> str:
    """The state of the storage for a sentence: `members=8, condition rebuilding`."""
    changes, condition = state_of(info)
    return ", ".join(part for part in (changes, f"condition {condition or 'normal'}") if part)


def known_state(state: Sequence[str]) -> tuple[str, ...]:
    """As lists of runs tell states apart: a condition that was not named is the normal one."""
    return tuple("" if words == "normal" else words for words in state)


def series_of(record: Record) -> tuple[str, ...]:
    """Runs on one target with equal words here follow each other: what was asked for, on storage in one state."""
    return asked_hash(record), *known_state(state_of(record.info))


def told_apart(groups: Iterable[StorageState]) -> dict[StorageState, str]:
    """Each group by what not all of them have."""
    several = list(dict.fromkeys(groups))
    parts = [number for number, values in enumerate(zip(*several, strict=True)) if len(set(values)) > 1]
    return {group: ", ".join(group[n] for n in parts if group[n]) or group.words for group in several}


def side_names(before: Sequence[Record], after: Sequence[Record]) -> tuple[str, str]:
    """`before (normal)`, `after (rebuilding)`: with what of the storage is not the same on both sides."""
    sides = [list(dict.fromkeys(map(group_of, side))) for side in (before, after)]
    if set(sides[0]) == set(sides[1]):
        return "before", "after"
    told = told_apart([*sides[0], *sides[1]])
    one, other = ("; ".join(told[group] for group in side) for side in sides)
    return f"before ({one})", f"after ({other})"


def none_shared(before: Mapping[StorageState, Sequence[int]], after: Mapping[StorageState, Sequence[int]]) -> str:
    """Why nothing of two sides is alike, and how to choose."""
    sides = " and ".join(f"{name} {_words(runs)}" for name, runs in (("BEFORE is", before), ("AFTER is", after)))
    chosen = " and ".join(_span(next(iter(side.values()))) for side in (before, after))
    return (
        f"nothing can be compared: {sides}; the sides share no storage in the same condition, and several are never "
        f"pooled; name the runs of one on each side, such as {chosen}"
    )


def _words(runs: Mapping[StorageState, Sequence[int]]) -> str:
    said = [f"{group.words} ({format_runs(found)})" for group, found in list(runs.items())[:NAMED_MOST]]
    return "; ".join([*said, *([f"{len(runs) - NAMED_MOST} more"] if len(runs) > NAMED_MOST else [])])


def _span(runs: Sequence[int]) -> str:
    """The first of these runs as far as their numbers follow each other, which one word names."""
    first, known = min(runs), set(runs)
    last = next(run for run in range(first, first + len(known) + 1) if run + 1 not in known)
    return str(first) if first == last else f"{first}-{last}"


def in_runs(count: int, records: Sequence[Record]) -> str:
    """In how many of them; of one alone nothing."""
    return "" if len(records) == 1 else f" in {count} of {len(records)} runs"


def target_words(records: Sequence[Record]) -> str:
    """What was measured: its name with what was set of a model, or how many targets there were."""
    changes = {", ".join(model_changes(record.info)) for record in records}
    with_words = with_changes(next(iter(changes))) if len(changes) == 1 else ", set differently"
    return f"{_targets(records)}{with_words}"


def with_changes(changes: str) -> str:
    return f" with {changes}" if changes else ""


def _targets(records: Sequence[Record]) -> str:
    targets = sorted({path for record in records for path in record.info.targets})
    if len(targets) != 1:
        return f"{len(targets)} targets"
    place, opened = Path(targets[0]), records[0].info.opened
    if opened and place.name.startswith(("scratch-", "kept-")):
        return f"a scratch file of {format_size(opened[0].data_bytes)} in {place.parent}"
    return targets[0]

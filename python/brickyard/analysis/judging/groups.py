"""Duty: on which storage and in which condition a run was made, so that only like is pooled with like.

Refusal: what a file lies on is not looked at; another name is other storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from brickyard.analysis.judging.differing import SCRATCH, load_hash, places_of
from brickyard.analysis.judging.summary import model_changes
from brickyard.store import Record, RunInfo
from brickyard.units import format_runs

NAMED_MOST = 4


class StorageState(NamedTuple):
    """What repetitions have in common, each part in words."""

    targets: str
    changes: str
    """What `--set` changed of a model; its condition, which a study sets so, is the next part."""
    condition: str

    @property
    def words(self) -> str:
        return ", ".join(part for part in self if part and part != "normal")


def group_of(record: Record) -> StorageState:
    info = record.info
    return StorageState(SCRATCH.sub("", places_of(record)), *state_of(info))


def state_of(info: RunInfo) -> tuple[str, str]:
    """What `--set` changed of a model, and the condition."""
    return ", ".join(model_changes(info)), info.condition.replace("_", " ")


def state_words(info: RunInfo) -> str:
    """The state of the storage for a sentence: `members=8, condition rebuilding`."""
    changes, condition = state_of(info)
    return ", ".join(part for part in (changes, f"condition {condition or 'normal'}") if part)


def known_state(state: Sequence[str]) -> tuple[str, ...]:
    """As lists of runs tell states apart: a condition that was not named is the normal one."""
    return tuple("" if words == "normal" else words for words in state)


def series_of(record: Record) -> tuple[str, ...]:
    """Runs on one target with equal words here follow each other: what was asked for, on storage in one state."""
    return load_hash(record), *known_state(state_of(record.info))


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

"""Duty: which circumstances differed between runs: what a comparison must be told before any figure.

Refusal: what a study varies on purpose is no circumstance; whoever asks names the runs that should be alike.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from brickyard.analysis.summary import circumstance_lines
from brickyard.store import Record

EVERYWHERE = ("Engine", "Host", "Kernel", "Governor", "Brickyard")
"""Alike for all runs of a study, whatever its targets are."""
CHANGING = ("Started", "Generator", "Seed", "Verified", "Clock", "Profile", "Condition", "Target")
"""Different in every run, or told otherwise."""


@dataclass(frozen=True)
class Differing:
    """One circumstance with its values, each with the runs that had it."""

    label: str
    values: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def words(self) -> str:
        return "; ".join(f"{value} ({runs_words(runs)})" for value, runs in self.values)


def load_hash(record: Record) -> str:
    """Of what the run asked for, without the seed, which only chooses among equal loads."""
    plan = {key: value for key, value in record.info.plan.items() if key != "seed"}
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:12]


def differing_in_study(records: Sequence[Record]) -> list[Differing]:
    """What no level explains: circumstances of the whole, and those that changed while the target was the same."""
    found = _differing(records, lambda label: label in EVERYWHERE)
    by_target: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        by_target.setdefault(tuple(record.info.targets), []).append(record)
    for targets, same in by_target.items():
        changed = _differing(same, lambda label: label not in (*EVERYWHERE, *CHANGING))
        found += [Differing(f"{', '.join(targets)}: {item.label}", item.values) for item in changed]
    return found


def differing_between(one: Sequence[Record], other: Sequence[Record]) -> list[Differing]:
    """Between two sides that are compared: everything but what changes from run to run, and the load itself."""
    return [item for item in _differing([*one, *other], lambda label: label not in CHANGING) if _parts(item, one)]


def _parts(item: Differing, one: Sequence[Record]) -> bool:
    """Whether the two sides differ; what varies on both sides alike tells nothing."""
    mine = {record.info.id for record in one}
    sides = [(bool(mine & set(runs)), bool(set(runs) - mine)) for _, runs in item.values]
    return any(here != there for here, there in sides)


def _differing(records: Iterable[Record], is_asked: Callable[[str], bool]) -> list[Differing]:
    values: dict[str, dict[str, list[int]]] = {}
    for record in records:
        for label, text in circumstance_lines(record):
            if is_asked(label):
                values.setdefault(label, {}).setdefault(text, []).append(record.info.id)
    return [
        Differing(label, tuple((text, tuple(runs)) for text, runs in told.items()))
        for label, told in values.items()
        if len(told) > 1
    ]


def runs_words(runs: Sequence[int]) -> str:
    """`run 3`, `runs 3-7, 9`."""
    spans: list[tuple[int, int]] = []
    for run in sorted(set(runs)):
        if spans and run == spans[-1][1] + 1:
            spans[-1] = spans[-1][0], run
        else:
            spans.append((run, run))
    said = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return f"run {said}" if len(set(runs)) == 1 else f"runs {said}"

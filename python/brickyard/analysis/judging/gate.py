"""Duty: a comparison held against a tolerance: what got worse, what held, and what the runs cannot decide.

All figures of a comparison are one family. *Worse* is what is worse by more than the tolerance beyond noise, with the
share of false findings held by Benjamini and Hochberg's procedure: where nothing differs, the gate fails falsely in no
more cases than one test would. *Held* is what is worse by no more than the tolerance over the whole of its interval, as
tables show it. All else is *inconclusive*, and how many repetitions would decide it is said.

Refusal: a figure that either side measured once is not judged. What the noise of that side is, nobody knows; on a day
ten times noisier than the baseline's, a single run is called worse in most cases where nothing changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from brickyard.analysis.figures.samples import CONFIDENCE, POWER, Welch, adjusted_p, family, repetitions_to_decide
from brickyard.analysis.judging.cached import empty_reads
from brickyard.analysis.judging.comparison import Change, Comparison, compare
from brickyard.analysis.judging.pairing import Sides, default_figures, loads_differ
from brickyard.store import Record
from brickyard.units import format_runs

WORSE_MAX = 10.0  # shown as more than tenfold
LOSS_MAX = 0.999999  # a rate loses no more than all of it
BISECTIONS = 30


class Finding(Enum):
    WORSE = "worse"
    HELD = "held"
    INCONCLUSIVE = "inconclusive"
    """Also what some runs lack: a verdict on the others would be on those that were chosen by their outcome."""
    ONCE = "measured once"
    SAME = "same computation"
    """Both sides are one run of a model, which cannot differ."""
    BARRED = "not judged"
    """The figures of a side are not the storage's: `Gate.barred` says why."""


@dataclass(frozen=True)
class Undecided:
    """The test that more repetitions would let decide, how far its figure is beyond the bound, and the level."""

    test: Welch
    margin: float
    level: float


@dataclass(frozen=True)
class Judged:
    change: Change
    finding: Finding
    undecided: Undecided | None = None

    @cached_property
    def repetitions(self) -> int | None:
        """Of an inconclusive figure, how many a side would decide it in four of five cases, if difference and noise
        stay as they were seen; None where a thousand would not. To find it takes longer than to judge."""
        if self.undecided is None:
            return None
        needed = repetitions_to_decide(self.undecided.test, self.undecided.margin, self.undecided.level)
        # As many as there are did not decide it.
        return needed and max(needed, 1 + min(self.change.before.n, self.change.after.n))


@dataclass(frozen=True)
class Gate:
    """`tested` are the figures that were judged, with their tests of the family."""

    judged: list[Judged]
    tested: list[tuple[Change, Welch]]
    tolerance: float
    level: float
    barred: str = ""
    """Why nothing is judged; empty where something may be."""

    @cached_property
    def lone_shares(self) -> list[float]:
        """By how much each figure must be worse for the gate to find it in four of five cases if no other is, the
        tolerance included; the steadiest first."""
        level = self.level / max(1, len(self.tested))
        return sorted(_found_from(change, test, self.tolerance, level) for change, test in self.tested)

    @cached_property
    def all_share(self) -> float | None:
        """By how much all must be worse for every one of them to be found in four of five cases, if their noises are
        independent; None where nothing was judged."""
        return _all_found_from(self.tested, self.tolerance, self.level) if self.tested else None

    @property
    def repetitions(self) -> list[int]:
        """How many a side would decide an inconclusive figure, the fewest first, where any number would."""
        return sorted(item.repetitions for item in self.judged if item.repetitions is not None)

    @property
    def is_decided(self) -> bool:
        """Whether anything is known of any figure: it was judged, or cannot differ."""
        if self.barred:
            return False
        return any(item.finding is not Finding.ONCE and not item.change.is_partial for item in self.judged)

    @cached_property
    def unclear(self) -> list[Change]:
        """Of the figures that were judged, those that are inconclusive."""
        return [change for change in self.of(Finding.INCONCLUSIVE) if not change.is_partial]

    def of(self, finding: Finding) -> list[Change]:
        return [item.change for item in self.judged if item.finding is finding]


@dataclass(frozen=True)
class Compared:
    """Two sides, figure by figure, each with its confidence interval, judged as one family."""

    comparison: Comparison
    judged: Gate
    loads_differ: list[str] = field(default_factory=list)
    """How the loads of the two sides differ; a difference in figures then says nothing of the storage."""
    sides: Sides = field(default_factory=lambda: Sides([], [], {}))
    """The runs that were compared, and those that were left out because they did not end validly; `comparison.unlike`
    has those that were left out for their storage or condition."""


def compared(sides: Sides, tolerance: float, confidence: float, names: Sequence[str] = ()) -> Compared:
    """`names` are those of the figures; without them, the ones that both sides have something to say of."""
    both = sides.before, sides.after
    found = compare(*both, names=names or default_figures(*both), confidence=confidence)
    like = sides.without(found.unlike)
    differ = [*loads_differ(like.before, like.after), *(sizes.words for sizes in found.sizes)]
    judged = gate(found.changes, tolerance, confidence)
    if barred := not_storage_words([*like.before, *like.after]):
        judged = Gate([Judged(change, Finding.BARRED) for change in found.changes], [], tolerance, judged.level, barred)
    return Compared(found, judged, differ, like)


def not_storage_words(records: Sequence[Record]) -> str:
    """Which runs' reads no medium answered, and why; empty where there is no such run."""
    empty = {record.info.id: found for record in records if (found := empty_reads(record))}
    if not empty:
        return ""
    most = max(empty.values(), key=lambda one: one.share)
    return f"{format_runs(list(empty))}: not the rate of the storage: {most.text}"


def is_judged(change: Change) -> bool:
    is_noisy = change.difference.test is not None and not change.difference.is_exact
    return is_noisy and min(change.before.n, change.after.n) > 1


def gate(changes: Sequence[Change], tolerance: float, confidence: float = CONFIDENCE) -> Gate:
    level = 1 - confidence
    tested = [change for change in changes if is_judged(change)]
    tests = family([change.difference.test for change in tested if change.difference.test is not None])
    known = list(zip(tested, tests, strict=True))
    adjusted = adjusted_p([test.p_of(_outside(change, test, tolerance)) for change, test in known])
    worse = [p < level and change.worse_by > tolerance for (change, _), p in zip(known, adjusted, strict=True)]
    # One more worse figure has to be found at the share of the level that falls to it beside those found.
    next_level = level * (1 + sum(worse)) / max(1, len(known))
    found = iter(
        Judged(change, Finding.WORSE) if is_worse else _judged(change, test, tolerance, level, next_level)
        for (change, test), is_worse in zip(known, worse, strict=True)
    )
    judged = [next(found) if is_judged(change) else Judged(change, _unjudged(change)) for change in changes]
    return Gate(judged, known, tolerance, level)


def _found_from(change: Change, test: Welch, tolerance: float, level: float) -> float:
    """By how much a figure must be worse for the test at this level to find it in four of five cases."""
    if change.figure.more_is_better:
        return -test.share_beyond(-tolerance, -test.reach(level))
    return test.share_beyond(tolerance, test.reach(level))


def _all_found_from(known: Sequence[tuple[Change, Welch]], tolerance: float, level: float) -> float:
    """Of changes that are all worse, Benjamini and Hochberg's procedure finds every one where the least sure is found
    at the whole level."""

    def chance(share: float) -> float:
        return math.prod(test.chance_beyond(_beyond(change, test, tolerance, share), level) for change, test in known)

    low, high = tolerance, WORSE_MAX
    for _ in range(BISECTIONS):
        middle = math.sqrt(low * high) if low > 0 else high / 2
        low, high = (low, middle) if chance(middle) >= POWER else (middle, high)
    return high


def _beyond(change: Change, test: Welch, tolerance: float, share: float) -> float:
    """How far a figure that is worse by this share is beyond the tolerance."""
    if change.figure.more_is_better:
        return -test.apart_by(-tolerance, -min(share, LOSS_MAX))
    return test.apart_by(tolerance, share)


def _unjudged(change: Change) -> Finding:
    if change.difference.is_exact:
        return Finding.SAME
    return Finding.INCONCLUSIVE if change.is_partial else Finding.ONCE


def _judged(change: Change, test: Welch, tolerance: float, level: float, next_level: float) -> Judged:
    """Of a figure that is not found to be worse; `test` is that of the family."""
    most = change.most_worse_by
    if most is not None and most <= tolerance:
        return Judged(change, Finding.HELD)
    own = change.difference.test or test
    inside, outside = _inside(change, own, tolerance), _outside(change, test, tolerance)
    # One end of the interval decides, beyond which is half of the level.
    undecided = Undecided(test, outside, next_level) if outside > 0 else Undecided(own, inside, level / 2)
    return Judged(change, Finding.INCONCLUSIVE, undecided)


def _outside(change: Change, test: Welch, tolerance: float) -> float:
    """By how much it is worse than the tolerance allows, on the scale of the test."""
    return test.below(-tolerance) if change.figure.more_is_better else test.above(tolerance)


def _inside(change: Change, test: Welch, tolerance: float) -> float:
    return test.above(-tolerance) if change.figure.more_is_better else test.below(tolerance)

"""Duty: the noise within one run, where there is no other run: batch means of its intervals.

Neighbouring intervals are alike, so their own spread is too small. They are joined into batches, twice as long each
time, until von Neumann's test (1941) sees no correlation between neighbours any more (Fishman 1978: Grouping
observations in digital simulation); what correlation is left lessens the number of batches that count as independent.
`docs/statistics.md` has the coverage that simulation gives.

Refusal: noise between runs is larger than within one, and nothing here can tell it. Where a run is too short, or its
intervals depend on each other over all of its length, there is no answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

from brickyard.analysis.figures.named import PARTS, Figure, measured_of
from brickyard.analysis.figures.samples import quantile
from brickyard.analysis.figures.totals import Totals, full_intervals, totals
from brickyard.store import IntervalCost, Record

INTERVALS_MIN = 30  # with fewer, correlation is not seen, and the interval would cover less than it says
BATCHES_MIN = 10  # fewer leave the variance unknown (Schmeiser 1982 advises 10 to 30)
BATCHES_MAX = 64  # more would tell no more of the mean, and each costs a look at histograms
CORRELATED_Z = 1.28  # one-sided at a tenth, as Fishman has it: to miss correlation is worse than to join once more
INDEPENDENT_MIN = 3.0


@dataclass(frozen=True)
class Within:
    """A figure's half interval within one run, as a share of the figure, and what it was made of."""

    share: float
    batches: int
    independent: float


class Batches:
    """A run in batches of intervals. The totals of a batch are computed once, whatever figures are asked of it."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._made: dict[tuple[int, int], list[list[Totals]]] = {}

    def noise_within(self, figure: Figure, row: Totals, sure: float) -> Within | None:
        """Of one stream and operation; `sure` is the confidence. None where the run cannot tell."""
        named = (("phase", row.phase_name), ("stream", row.stream_name), ("operation", row.operation))
        where: dict[str, tuple[str, ...]] = {key: (name,) for key, name in named}

        def values(count: int) -> list[float]:
            return [
                item.value
                for batch in self._batches(row.phase, count)
                for item in measured_of(self.record, batch, figure, split=PARTS, where=where, lengths={})
                if item.value is not None
            ]

        return batch_means(len(full_intervals(self.record, row.phase)), values, sure)

    def _batches(self, phase: int, count: int) -> list[list[Totals]]:
        if (phase, count) not in self._made:
            spans = full_intervals(self.record, phase)
            edges = [number * len(spans) // count for number in range(count + 1)]
            self._made[phase, count] = [self._totals(phase, spans[a:b]) for a, b in pairwise(edges)]
        return self._made[phase, count]

    def _totals(self, phase: int, spans: Sequence[IntervalCost]) -> list[Totals]:
        chosen = {span.start_ns for span in spans}
        part = replace(
            self.record,
            intervals=[item for item in self.record.intervals if item.phase == phase and item.start_ns in chosen],
            costs=[cost for cost in self.record.costs if cost.phase == phase and cost.start_ns in chosen],
        )
        return totals(part)


def batch_means(intervals: int, values: Callable[[int], Sequence[float]], sure: float) -> Within | None:
    """`values` gives the figure of each of so many batches of equal length."""
    if intervals < INTERVALS_MIN:
        return None
    count = intervals
    while count > BATCHES_MAX:
        count //= 2
    while True:
        found = values(count)
        if len(found) < count or min(found) <= 0:
            return None  # a batch in which nothing ended has no mean time
        r, is_last = _correlation(found), count // 2 < BATCHES_MIN
        if r is None:
            return Within(0.0, count, float(count))
        left = min(max(r + (1 + 4 * r) / count, 0.0), 0.99)  # Marriott and Pope's correction of the bias
        independent = count * (1 - left) / (1 + left)
        if _is_accepted(found) or (is_last and independent >= INDEPENDENT_MIN):
            return Within(_half_share(found, independent, sure), count, independent)
        if is_last:
            return None
        count //= 2


def _half_share(found: Sequence[float], independent: float, sure: float) -> float:
    middle = fmean(found)
    # The spread of correlated values about their own mean is smaller than that about the true one.
    free = max(independent - 1, 1.0)
    spread = sum((value - middle) ** 2 for value in found) / len(found) * independent / free
    return quantile(free, (1 + sure) / 2) * math.sqrt(spread / independent) / middle


def _correlation(found: Sequence[float]) -> float | None:
    """Between neighbours; None where all are equal."""
    middle = fmean(found)
    apart = [value - middle for value in found]
    whole = sum(a * a for a in apart)
    return sum(a * b for a, b in pairwise(apart)) / whole if whole > 0 else None


def _is_accepted(found: Sequence[float]) -> bool:
    middle, n = fmean(found), len(found)
    steps = sum((b - a) ** 2 for a, b in pairwise(found))
    ratio = 1 - steps / (2 * sum((value - middle) ** 2 for value in found))
    return ratio < CORRELATED_Z * math.sqrt((n - 2) / (n * n - 1))

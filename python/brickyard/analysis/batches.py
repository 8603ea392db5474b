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

from brickyard.analysis.figures import Figure, measured
from brickyard.analysis.samples import quantile
from brickyard.analysis.totals import full_intervals, phase_name
from brickyard.store import Record

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


def noise_within(record: Record, figure: Figure, phase: str, stream: str, operation: str, sure: float) -> Within | None:
    """`sure` is the confidence. None where the run cannot tell."""
    names = [phase_name(record, number) for number in range(len(record.info.plan.phase))]
    if phase not in names:
        return None
    spans = full_intervals(record, names.index(phase))
    where: dict[str, tuple[str, ...]] = {"phase": (phase,), "stream": (stream,), "operation": (operation,)}

    def values(count: int) -> list[float]:
        found = []
        for number in range(count):
            chosen = {s.start_ns for s in spans[number * len(spans) // count : (number + 1) * len(spans) // count]}
            part = replace(
                record,
                intervals=[item for item in record.intervals if item.start_ns in chosen],
                costs=[cost for cost in record.costs if cost.start_ns in chosen],
            )
            told = measured(part, figure, split=("phase", "stream", "operation"), where=where)
            found += [item.value for item in told if item.value is not None]
        return found

    return batch_means(len(spans), values, sure)


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

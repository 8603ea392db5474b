"""Duty: the rates of a run in the course of its time, and the one step down in them, if there is one.

Refusal: no meaning: what spent credits and what a full cache looks like stands in `course`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from brickyard.schema import in_rate
from brickyard.store import Record

LEAST_FALL = 1.3  # first rate over lasting rate; less than that is the unrest of a host
STRETCH = 3  # intervals of a steady stretch at the least
STEADY = 0.25  # the deviation of the rates in the parts of a stretch over their mean
CHUNKS = 5  # such parts; what is shorter is the unrest of caches that are emptied in lumps

Course = list[tuple[float, float, float]]
"""(start, end, requests/s) of every interval, in s; warm-up too, since it spends credits and fills caches as well."""


@dataclass(frozen=True)
class Step:
    """A rate that fell once and for good."""

    first_per_s: float
    lasting_per_s: float
    after_s: float

    @property
    def surplus(self) -> float:
        """Requests above the lasting rate."""
        return (self.first_per_s - self.lasting_per_s) * self.after_s

    @property
    def done(self) -> float:
        """Requests until then."""
        return self.first_per_s * self.after_s


def course(record: Record) -> Course:
    drains = {(cost.start_ns, cost.end_ns) for cost in record.costs if cost.drain}
    counts: dict[tuple[int, int], int] = defaultdict(int)
    counted = in_rate({item.operation for item in record.intervals})
    for item in record.intervals:
        if item.measure == "service" and item.operation in counted:
            counts[item.start_ns, item.end_ns] += item.requests
    return [
        (start / 1e9, end / 1e9, count * 1e9 / (end - start))
        for (start, end), count in sorted(counts.items())
        if (start, end) not in drains and end > start
    ]


def done_in(found: Course) -> float:
    return sum((end - start) * rate for start, end, rate in found)


def step(found: Course) -> Step | None:
    """The split into two stretches that explains the course best, if both are steady and the second is slower.

    When the rate fell follows from the requests of the whole run, so that it is known better than to an interval.
    """
    best: tuple[float, int] | None = None
    rates = [rate for _, _, rate in found]
    for split in range(STRETCH, len(found) - STRETCH + 1):
        unrest = _unrest(rates[:split]) + _unrest(rates[split:])
        if best is None or unrest < best[0]:
            best = (unrest, split)
    if best is None:
        return None
    stretches = [found[: best[1]], found[best[1] :]]
    means = [done_in(stretch) / sum(end - start for start, end, _ in stretch) for stretch in stretches]
    if not all(map(_is_steady, stretches, means)) or means[0] < LEAST_FALL * means[1]:
        return None
    whole_s = found[-1][1] - found[0][0]
    after_s = (done_in(found) - means[1] * whole_s) / (means[0] - means[1])
    return Step(means[0], means[1], after_s)


def _is_steady(stretch: Course, mean: float) -> bool:
    return pstdev(parts(stretch, min(len(stretch), CHUNKS))) <= STEADY * mean


def _unrest(rates: Sequence[float]) -> float:
    mean = fmean(rates)
    return sum((rate - mean) ** 2 for rate in rates)


def parts(found: Course, count: int) -> tuple[float, ...]:
    """The rates in so many equal parts of the time."""
    if not found:
        return ()
    begin, whole_s = found[0][0], found[-1][1] - found[0][0]
    length_s = whole_s / count
    done = [0.0] * count
    for start, end, rate in found:
        first = int((start - begin) / length_s)
        for number in range(first, min(int((end - begin) / length_s) + 1, count)):
            inside_s = min(end - begin, (number + 1) * length_s) - max(start - begin, number * length_s)
            done[number] += max(inside_s, 0.0) * rate
    return tuple(requests_ / length_s for requests_ in done)

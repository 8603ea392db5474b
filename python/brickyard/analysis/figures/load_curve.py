"""Duty: response time against offered rate: the points of a load curve, its knee, and the rate within a limit. Pure.

The knee is where throughput over mean response time is greatest, Kleinrock's *power* (Power and deterministic rules of
thumb, ICC 1979), as in Jain's *Art of Computer Systems Performance Analysis* (1991), 3.3: below it response grows
little with the rate, above it more than in proportion. It does not depend on how far beyond saturation was measured,
but saturation must have been seen: where the power still rises at the highest rate, the curve has not bent, and there
is no knee to name.
The *usable* rate is, with Jain again, the highest at which the response time keeps a limit. `analysis.figures.search`
looks for it between the levels.

Refusal: no point is interpolated; what is named has been measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from itertools import combinations, takewhile

from brickyard.analysis.figures.latency import FEW_EVENTS, Latency, latency_of
from brickyard.analysis.figures.search import Step
from brickyard.analysis.figures.sending import is_kept_up, sent
from brickyard.analysis.figures.totals import Totals, asked_stream, errors_of, rated_intervals, totals, waited
from brickyard.schema import CHAIN, Document, is_paced, is_request
from brickyard.store import Record
from brickyard.units import format_iops, format_ns

SOUND_MIN = 3  # rates that were kept up with: two make a line, which has no knee
BEND_SHARE = 0.1  # less power than that is no noise of a mean over thousands of requests
HALVES_MIN = 4  # intervals, below which a measurement has no halves
AGREE_SHARE = 0.8  # of the closed loop's rate, which open loops achieve on storage that stays the same
SHORTFALL_MIN = 0.05  # of the offered rate: what the ends of a run of seconds can lack
SHORTFALL_DEVIATIONS = 3.0  # of a Poisson count, beyond which chance explains no shortfall


@dataclass(frozen=True)
class CurvePoint:
    """One offered rate. A chain of requests counts as one."""

    run: int
    offered_per_s: float
    achieved_per_s: float
    requests: int
    unsent: int
    errors: int
    mean_ns: float | None
    max_ns: int | None
    percentiles: dict[str, int | None] = field(default_factory=dict)
    sent: int | None = None
    """Of which, with `unsent`, the latter is a share: the warm-up and failures are in it; None for `requests`."""
    warmup_ns: int = 0
    measured_ns: int = 0
    """After the warm-up, with the drain."""
    growth: float | None = None
    """As in `Step`."""
    few_events: tuple[str, ...] = ()
    """As in `Latency`, in the order of their names."""
    behind: tuple[str, ...] = ()
    """Names of streams that did not keep up, beside others that did."""
    backlog_grew: bool = False
    """All that was due was sent, and waited ever longer."""

    @property
    def chance(self) -> float | None:
        """Two standard deviations of a Poisson count, as a share: arrivals are random, so that more or fewer than
        offered may have come in the time of a measurement."""
        return 2 / math.sqrt(self.requests) if self.requests else None

    @property
    def overloaded(self) -> bool:
        """More was due than was done, by more than chance explains."""
        due = (self.requests if self.sent is None else self.sent) + self.unsent
        if not self.requests or self.behind or self.backlog_grew or not is_kept_up(self.unsent, due):
            return True
        chance = SHORTFALL_DEVIATIONS / math.sqrt(self.requests)
        return self.achieved_per_s < self.offered_per_s * (1 - max(SHORTFALL_MIN, chance))

    @property
    def saturated(self) -> bool:
        """Overloaded, and less was done than offered: a stall or a burst of arrivals may leave requests unsent at a
        rate that the target sustains."""
        return self.overloaded and self.achieved_per_s < self.offered_per_s

    def is_marked(self, percentile: str) -> bool:
        """Whether it comes from one or two events. No stall explains the times of a queue that grows."""
        return percentile in self.few_events and not self.overloaded

    def percentile_text(self, name: str) -> str:
        return format_ns(self.percentiles.get(name)) + (FEW_EVENTS if self.is_marked(name) else "")

    @property
    def began_with_backlog(self) -> bool:
        """A response longer than the measured time is of a request that was due before it."""
        return (self.max_ns or 0) > self.measured_ns > 0

    def time_ns(self, figure: str) -> float | None:
        """The mean, the maximum or a percentile of the response time; None where it is not known."""
        return {"mean": self.mean_ns, "max": self.max_ns, **self.percentiles}.get(figure)

    def document(self) -> Document:
        return {**asdict(self), "overloaded": self.overloaded}


@dataclass(frozen=True)
class Limit:
    """The mean, the maximum or a percentile of the response time, and what it may be at most."""

    figure: str
    above_ns: int

    def is_kept(self, point: CurvePoint) -> bool:
        if point.overloaded or point.errors or point.max_ns is None or point.mean_ns is None:
            return False
        value = point.time_ns(self.figure)
        # Too few samples for the percentile: the largest of all is no smaller.
        return (point.max_ns if value is None else value) <= self.above_ns


def counted_rows(record: Record) -> list[Totals]:
    """What is offered: chains of a stream that has them, else its requests without the flushes that its writes owe."""
    return [row for row in totals(record) if is_paced(row.operation, asked_stream(record, row.phase, row.stream))]


def stream_rates(record: Record) -> dict[int, float]:
    """Requests (or chains) a second of each stream, over the phase, so that they add up."""
    found: dict[int, float] = {}
    for row in counted_rows(record):
        rate = row.phase_requests / row.phase_ns * 1e9 if row.phase_ns else 0.0
        found[row.stream] = found.get(row.stream, 0.0) + rate
    return found


def curve_point(record: Record, offered_per_s: float) -> CurvePoint:
    rows = counted_rows(record)
    chained = {row.stream for row in rows if row.operation == CHAIN}
    waits = waited(record, (item for item in record.intervals if item.stream not in chained))
    chains = [item for item in record.intervals if item.operation == CHAIN]
    figures: Latency | None = latency_of(
        item for item in (*waits, *chains) if not item.warmup and item.measure == "response"
    )
    span_ns = sum(span.end_ns - span.start_ns for span in rated_intervals(record, 0))
    told = sent(record)
    took_ns = {
        warmup: sum(s.end_ns - s.start_ns for s in record.spans(0) if s.warmup is warmup) for warmup in (True, False)
    }
    return CurvePoint(
        run=record.info.id,
        offered_per_s=offered_per_s,
        achieved_per_s=sum(row.phase_requests for row in rows) / span_ns * 1e9 if span_ns else 0.0,
        requests=sum(row.requests for row in rows),
        unsent=told.unsent,
        sent=told.sent,
        errors=errors_of(row for row in totals(record) if is_request(row.operation)) or 0,
        mean_ns=figures.mean_ns if figures else None,
        max_ns=figures.max_ns if figures else None,
        percentiles=dict(figures.percentiles) if figures else {},
        warmup_ns=took_ns[True],
        measured_ns=took_ns[False],
        growth=growth_of(record),
        few_events=tuple(sorted(figures.few_events)) if figures else (),
        behind=tuple(one.name for one in told.behind),
        backlog_grew=bool(told.growing),
    )


def growth_of(record: Record) -> float | None:
    """Mean response time of requests that ended in the second half of the first phase's measured time, over that of the
    first half; None where it has fewer than four intervals or a half has no requests."""
    spans = sorted(rated_intervals(record, 0), key=lambda span: span.start_ns)
    if len(spans) < HALVES_MIN:
        return None
    middle_ns = spans[len(spans) // 2].start_ns
    timed = [item for item in record.intervals if item.phase == 0 and not item.warmup and item.measure == "response"]
    first, second = (
        latency_of(waited(record, (item for item in timed if (item.start_ns >= middle_ns) is late)))
        for late in (False, True)
    )
    return second.mean_ns / first.mean_ns if first and second and first.mean_ns and second.mean_ns else None


def step_of(point: CurvePoint, limit: Limit) -> Step:
    """A point as a step of the search for a limit."""
    value, holds = point.time_ns(limit.figure), limit.is_kept(point)
    kept_up = not point.overloaded
    of_few = kept_up and limit.figure in point.few_events
    return Step(point.offered_per_s, value, holds, kept_up, point.requests, point.growth, point.achieved_per_s, of_few)


@dataclass(frozen=True)
class Mark:
    """An answer that a load curve or ramp gives, as a place on its axis; with its 95 % interval where there is one."""

    name: str
    value: float
    words: str
    """The value with its unit."""
    low: float | None = None
    high: float | None = None


WITHIN, KNEE, CAPACITY = "within limit", "knee", "capacity"
"""Names of marks."""


class Bend(Enum):
    """What the levels of a curve say of its knee."""

    SEEN = "seen"
    NOT_REACHED = "not reached"
    BELOW = "below"
    TOO_FEW = "too few rates"


@dataclass(frozen=True)
class Knee:
    """`point` is the knee, None unless it was seen; `end` the highest level, None where there is none."""

    bend: Bend
    point: CurvePoint | None = None
    end: CurvePoint | None = None
    near: tuple[CurvePoint, ...] = ()
    """The levels on either side whose power is within `BEND_SHARE` of the knee's, up to the first that is not, itself
    among them: noise could have chosen any."""
    unexplained: tuple[CurvePoint, CurvePoint] | None = None
    """A level that kept up, and one at a higher rate that is faster by `BEND_SHARE`, which load does not explain: the
    pair that lies furthest apart."""


def knee(points: list[CurvePoint]) -> Knee:
    """The point of greatest power among the levels, where a higher rate shows that the curve has bent: the storage did
    not keep up with it, or its power is less by `BEND_SHARE`."""
    levels = sorted(points, key=lambda point: point.offered_per_s)
    sound = [point for point in levels if not point.overloaded and point.mean_ns]
    end = levels[-1] if levels else None
    if len(sound) < SOUND_MIN:
        return Knee(Bend.TOO_FEW, None, end)
    best, odd = max(sound, key=_power), _unexplained(sound)
    beyond = [point for point in levels if point.offered_per_s > best.offered_per_s]
    if not any(point.overloaded or _power(point) <= (1 - BEND_SHARE) * _power(best) for point in beyond):
        return Knee(Bend.NOT_REACHED, None, end, unexplained=odd)
    if best is levels[0]:
        return Knee(Bend.BELOW, None, end, unexplained=odd)
    is_near = [point in sound and _power(point) > (1 - BEND_SHARE) * _power(best) for point in levels]
    return Knee(Bend.SEEN, best, end, _around(levels, is_near, levels.index(best)), odd)


def _around(levels: list[CurvePoint], is_near: list[bool], at: int) -> tuple[CurvePoint, ...]:
    """The levels beside that one which are near without a gap."""
    below = list(takewhile(lambda number: is_near[number], range(at, -1, -1)))
    above = list(takewhile(lambda number: is_near[number], range(at, len(levels))))
    return tuple(levels[below[-1] : above[-1] + 1])


def _unexplained(sound: list[CurvePoint]) -> tuple[CurvePoint, CurvePoint] | None:
    """Of levels in the order of their rates."""
    pairs = [pair for pair in combinations(sound, 2) if _is_slower(*pair)]
    return max(pairs, key=lambda pair: (pair[0].mean_ns or 0.0) / (pair[1].mean_ns or math.inf), default=None)


def _is_slower(one: CurvePoint, other: CurvePoint) -> bool:
    return (one.mean_ns or 0.0) > (1 + BEND_SHARE) * (other.mean_ns or 0.0)


def knee_mark(found: Knee) -> list[Mark]:
    return [] if found.point is None else [rate_mark(KNEE, found.point.offered_per_s)]


def rate_mark(name: str, rate_per_s: float, low: float | None = None, high: float | None = None) -> Mark:
    return Mark(name, rate_per_s, f"{format_iops(rate_per_s)}/s", low, high)


def _power(point: CurvePoint) -> float:
    return point.achieved_per_s / (point.mean_ns or math.inf)


def capacity(points: list[CurvePoint], closed_per_s: float = 0.0, steps: Sequence[Step] = ()) -> float | None:
    """The highest rate that was achieved, by a level, a step of a search or the closed loop, where a level was offered
    that the storage did not keep up with; None where there was none, so that the capacity is higher, and where open and
    closed loops contradict each other."""
    if not any(point.overloaded for point in points) or open_below_closed(points, closed_per_s, steps) is not None:
        return None
    return max(closed_per_s, most_achieved(points, steps))


def most_achieved(points: list[CurvePoint], steps: Sequence[Step] = ()) -> float:
    """By open loops, those of searches among them."""
    return max([*(point.achieved_per_s for point in points), *(step.achieved_per_s for step in steps)])


def open_below_closed(points: list[CurvePoint], closed_per_s: float, steps: Sequence[Step] = ()) -> float | None:
    """The highest rate that open loops achieved, where they overloaded the target far below what the closed loop
    achieved: both had as many requests in flight as it takes, so the target or its host was not the same for both."""
    if not any(point.saturated for point in points):
        return None
    most = most_achieved(points, steps)
    return most if most < AGREE_SHARE * closed_per_s else None


def usable(points: list[CurvePoint], limit: Limit) -> tuple[CurvePoint | None, CurvePoint | None]:
    """The highest rate up to which every one kept the limit, and the lowest that did not."""
    best: CurvePoint | None = None
    for point in sorted(points, key=lambda item: item.offered_per_s):
        if not limit.is_kept(point):
            return best, point
        best = point
    return best, None

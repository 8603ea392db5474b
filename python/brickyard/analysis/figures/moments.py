"""Duty: the intervals of a run as they come, each as the few figures that a live display shows.

Refusal: nothing is summed over intervals, and no percentile is merged; the record's figures are those of `totals`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from brickyard._core import Histogram
from brickyard.analysis.figures.totals import stream_of
from brickyard.schema import in_rate, is_on_data, is_request, is_waited
from brickyard.schema.plan import OtherPlan, Phase, Plan
from brickyard.store import READS, Interval, IntervalCost, RunInfo

BINS_PER_DECADE = 4
HEAT_EDGES_NS = [1, *(round(10 ** (3 + step / BINS_PER_DECADE)) for step in range(8 * BINS_PER_DECADE + 1))]
"""Bins of the live heat map: below 1 µs, then four a decade up to 100 s."""


class Moment(msgspec.Struct, frozen=True, kw_only=True, rename={"in_flight_bound": "depth"}):
    """One interval over all streams. Parts of an interval that come late are moments of their own, to be added.

    `response_sum_ns` is the mean times its count, so that parts can be added. `response_p99_ns` is of all
    requests of a part together, also of few of them; that of lateness is the worst of any stream.
    """

    number: int
    phase: int
    start_ns: int
    end_ns: int
    warmup: bool
    drain: bool
    requests: int
    reads: int
    names: int
    """Operations on names, which are in no IOPS."""
    bytes: int | None
    """None where it is not known."""
    errors: int | None
    """None where it is not known."""
    in_flight_bound: int
    """Of all streams together never more were in flight at once."""
    response_count: int
    response_sum_ns: float
    response_p99_ns: int
    response_max_ns: int
    late_p99_ns: int
    late_max_ns: int
    cpu_ns: int
    loop_busy_share: float
    heat: list[int]
    """Requests in each bin of `HEAT_EDGES_NS`, from the first that has any; `heat_from` is its place."""
    heat_from: int


def moments(info: RunInfo, intervals: Sequence[Interval], costs: Sequence[tuple[int, IntervalCost]]) -> list[Moment]:
    """One for each row of costs, with the cells of its interval; a second row for the same interval has no cells."""
    cells: dict[tuple[int, int, int], list[Interval]] = {}
    for item in intervals:
        cells.setdefault((item.phase, item.start_ns, item.end_ns), []).append(item)
    return [
        _moment(info, number, cost, cells.pop((cost.phase, cost.start_ns, cost.end_ns), [])) for number, cost in costs
    ]


def _moment(info: RunInfo, number: int, cost: IntervalCost, cells: list[Interval]) -> Moment:
    counted = [item for item in cells if item.measure == "service" and is_request(item.operation)]
    named = sum(item.requests for item in counted if not is_on_data(item.operation))
    rated = in_rate({item.operation for item in counted})
    waits = [item for item in cells if is_waited(item.operation, stream_of(info.plan, item.phase, item.stream))]
    waited = [item for item in waits if item.measure == "response"] or counted
    late = [item for item in cells if item.measure == "lateness"]
    bounds: dict[int, int] = {}
    for item in counted:
        bounds[item.stream] = max(bounds.get(item.stream, 0), item.in_flight_bound)
    whole = Histogram.merged(item.histogram for item in waited)
    longest = max((item.max_ns for item in waited), default=0)
    heat, first = _heat(whole)
    return Moment(
        number=number,
        phase=cost.phase,
        start_ns=cost.start_ns,
        end_ns=cost.end_ns,
        warmup=cost.warmup,
        drain=cost.drain,
        requests=sum(item.requests for item in counted if item.operation in rated),
        reads=sum(item.requests for item in counted if item.operation in READS),
        names=named,
        bytes=sum(item.bytes for item in counted) if info.knows_bytes else None,
        errors=info.known_errors(sum(item.errors for item in counted)),
        in_flight_bound=sum(bounds.values()),
        response_count=sum(item.requests for item in waited),
        response_sum_ns=sum(item.requests * item.mean_ns for item in waited),
        response_p99_ns=min(whole.percentiles_ns([99.0])[0], longest) if whole else 0,
        response_max_ns=longest,
        late_p99_ns=max((item.p99_ns for item in late), default=0),
        late_max_ns=max((item.max_ns for item in late), default=0),
        cpu_ns=cost.cpu_user_ns + cost.cpu_system_ns,
        loop_busy_share=cost.loop_busy_share,
        heat=heat,
        heat_from=first,
    )


def _heat(whole: Histogram | None) -> tuple[list[int], int]:
    """Counts without the empty bins at both ends, and where they begin."""
    counts = whole.counts(HEAT_EDGES_NS) if whole else []
    filled = [place for place, count in enumerate(counts) if count]
    return (counts[filled[0] : filled[-1] + 1], filled[0]) if filled else ([], 0)


def planned_ns(plan: Plan | OtherPlan) -> int | None:
    """How long a plan lasts, where time ends every phase."""
    total = 0
    for phase in plan.phase:
        if not phase.duration:
            return None
        total += phase.duration.ns + (phase.warmup.ns if isinstance(phase, Phase) else 0)
    return total


def done_share(planned: int | None, began_ns: int, now_ns: int) -> float | None:
    """How much of a run is over, where its plan says how long it lasts; times are of the run's own clock."""
    return None if not planned else max(0.0, min(1.0, (now_ns - began_ns) / planned))

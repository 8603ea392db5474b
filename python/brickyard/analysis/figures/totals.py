"""Duty: what each stream and operation of a run did in all: sums of intervals, without the warm-up.

Where a phase reached steady state, its figures are of that state alone (`analysis.figures.steady`).

Refusal: failed requests are in no throughput figure.
"""

from __future__ import annotations

import os.path
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean, median, stdev
from typing import TypeVar

from brickyard.analysis.figures.imported import CLAT, as_imported, clat_warnings, imported_figures
from brickyard.analysis.figures.latency import Latency, latency_of
from brickyard.analysis.figures.own_time import own_time
from brickyard.analysis.figures.steady import Steady, headline_from_ns, steady
from brickyard.schema import Timed, in_rate, is_on_data, is_request, is_waited
from brickyard.schema.fio_words import FILE_OF_FIO, file_name, split_names
from brickyard.schema.plan import ClosedPace, OtherKind, OtherPhase, OtherPlan, OtherStream, Phase, Plan, Stream
from brickyard.store import Interval, IntervalCost, Record

MEASURES = ("service", "response", "lateness", "first_byte", "driver_lag")
STUB_SHARE = 0.1  # what an interruption left of a phase tells no rate below this share of an interval
FULL_INTERVAL_SHARE = 0.9  # the last interval of a phase may be a stub; its rate says little
VARIATION_OF_MIN = 3  # two values have a spread, but no more than one step of it


@dataclass(frozen=True)
class Totals:
    """One operation of one stream of one phase.

    `requests` and `bytes` count everything that completed after the warm-up, or in the steady state where there is one;
    the `rated_` ones what completed within the stream's own time, over which its rates are taken, and the `phase_` ones
    within the time of the phase, over which `rate_of` takes the rate of several streams. `errors` are all after the
    warm-up: a failure before the steady state is a failure. They are None where it is not known whether any did.
    """

    phase: int
    phase_name: str
    stream: int
    stream_name: str
    operation: str
    requests: int
    bytes: int
    errors: int | None
    rated_ns: int
    rated_requests: int
    rated_bytes: int
    phase_ns: int
    phase_requests: int
    phase_bytes: int
    in_flight_bound: int
    """Of all intervals the highest."""
    variation: float | None
    measures: dict[str, Latency]
    steady: Steady | None = None
    """What became of the steady state that the phase was to reach; None where it was to reach none."""
    ended_ns: int | None = None
    """How long the stream lasted, where that was less than its phase."""
    is_by_tool: bool = False
    """Whether a tool timed each operation and does not tell when it began."""

    @property
    def service(self) -> Latency | None:
        return self.measures.get(Timed.SERVICE)

    @property
    def response(self) -> Latency | None:
        return self.measures.get(Timed.RESPONSE)

    @property
    def latency(self) -> Latency | None:
        """What an answer gives: the response time, or the service time where a tool reports no other."""
        return self.response or self.service

    @property
    def lateness(self) -> Latency | None:
        """None in a closed loop."""
        return self.measures.get(Timed.LATENESS)

    @property
    def is_rated(self) -> bool:
        """Whether there was any time over which to take a rate. Where all requests ended after it, there is none, nor
        where a stream ended within an interval, and when is not known."""
        return self.rated_ns > 0 and (self.rated_requests > 0 or self.requests == 0)

    @property
    def iops(self) -> float:
        return self.rated_requests / self.rated_ns * 1e9 if self.rated_ns else 0.0

    @property
    def bytes_per_s(self) -> float:
        return self.rated_bytes / self.rated_ns * 1e9 if self.rated_ns else 0.0


def errors_of(rows: Iterable[Totals]) -> int | None:
    """Of rows together; None where it is not known of one of them."""
    found = [row.errors for row in rows]
    return None if None in found else sum(count for count in found if count)


@dataclass(frozen=True)
class Rate:
    iops: float
    bytes_per_s: float
    over_ns: int


def rate_of(rows: Iterable[Totals]) -> Rate | None:
    """Of rows of one phase together: of one stream over its own time, of several, or of operations that a tool timed
    apart, over the time of their phase. None where nothing was rated."""
    every = list(rows)
    if len({row.stream for row in every}) < 2 and len({row.rated_ns for row in every}) < 2:
        if not any(row.is_rated for row in every):
            return None
        over_ns = max(row.rated_ns for row in every)
        return Rate(sum(row.iops for row in every), sum(row.bytes_per_s for row in every), over_ns)
    over_ns, requests = max(row.phase_ns for row in every), sum(row.phase_requests for row in every)
    if not over_ns or (not requests and any(row.requests for row in every)):
        return None
    return Rate(requests / over_ns * 1e9, sum(row.phase_bytes for row in every) / over_ns * 1e9, over_ns)


def asked_phase(record: Record, phase: int) -> Phase | OtherPhase | None:
    """What was asked of a phase; None where the plan does not have it."""
    return _phase_of(record.info.plan, phase)


def _phase_of(plan: Plan | OtherPlan, phase: int) -> Phase | OtherPhase | None:
    return plan.phase[phase] if phase < len(plan.phase) else None


def asked_stream(record: Record, phase: int, stream: int) -> Stream | OtherStream | None:
    """What was asked of a stream; None where the plan does not have it."""
    return stream_of(record.info.plan, phase, stream)


def stream_of(plan: Plan | OtherPlan, phase: int, stream: int) -> Stream | OtherStream | None:
    """What a plan asks of a stream; None where it does not have it."""
    found = _phase_of(plan, phase)
    return found.stream[stream] if found is not None and stream < len(found.stream) else None


def shared_latency(record: Record, row: Totals) -> Latency | None:
    """The latency that this run has in common with those of programs that know no due instants, such as fio.

    Theirs begins when a loop has a request to submit. Without a rate that is when the request is due, so its partner is
    the response time: the whole time that a slot is taken, which times the rate is the depth. Service times have other
    parts of it, as fio's `lat` has the wait of an ended request until fio looks for it. At a rate, theirs has no
    lateness, nor has the service time.
    """
    asked = asked_stream(record, row.phase, row.stream)
    is_closed = isinstance(asked, Stream) and isinstance(asked.pace, ClosedPace) and asked.frames is None
    return (row.response if is_closed else None) or row.service


UNKNOWN_TARGET = -1
"""The number of the target of a stream of which it is not known: that of none."""


def asked_targets(record: Record, phase: int) -> list[int]:
    """The number of the target of each stream of a phase."""
    found = asked_phase(record, phase)
    return [target_of(record, stream) for stream in found.stream] if found else []


def target_of(record: Record, stream: Stream | OtherStream) -> int:
    """The number of a stream's target. Of another program's streams on several targets, it is the one that the stream's
    own options name; a job of that program may have several, and a row of it may be of several jobs."""
    plan, targets = record.info.plan, record.info.targets
    is_imported = isinstance(plan, OtherPlan) and plan.kind is OtherKind.IMPORT
    if not is_imported or len(targets) < 2 or not isinstance(stream, OtherStream):
        return stream.target
    names = split_names((stream.options or {}).get(FILE_OF_FIO, ""))
    if len(names) != 1:
        return UNKNOWN_TARGET
    name = os.path.normpath(file_name(names[0]))
    found = [number for number, path in enumerate(targets) if path == name or path.endswith(f"/{name}")]
    return found[0] if len(found) == 1 else UNKNOWN_TARGET


def profile_phase(record: Record, phase: int) -> Phase | None:
    """A phase of a profile; None where another program was asked for something."""
    found = asked_phase(record, phase)
    return found if isinstance(found, Phase) else None


def profile_stream(record: Record, phase: int, stream: int) -> Stream | None:
    """A stream of a profile; None where another program was asked for something."""
    found = asked_stream(record, phase, stream)
    return found if isinstance(found, Stream) else None


def phase_name(record: Record, phase: int) -> str:
    found = asked_phase(record, phase)
    return (found.name if found else "") or f"phase {phase + 1}"


def stream_name(record: Record, phase: int, stream: int) -> str:
    found = asked_stream(record, phase, stream)
    return (found.name if found else "") or f"stream {stream + 1}"


def full_stream_name(record: Record, phase: int, stream: int) -> str:
    """With the name of its phase where the run has more than one and it has another name."""
    name, of = stream_name(record, phase, stream), phase_name(record, phase)
    return f"{of} / {name}" if len(record.info.plan.phase) > 1 and name != of else name


def rated_intervals(record: Record, phase: int, *, with_transient: bool = False) -> list[IntervalCost]:
    """The intervals over which a phase's rates are taken: those after the warm-up and before the drain, or those of
    the steady state where there is one and the transient before it is not asked for.

    In the drain nothing is issued; what was in flight still completes, and is counted, but the wait for the slowest of
    it is no part of a rate. Intervals in which nothing completed are.
    """
    from_ns = 0 if with_transient else headline_from_ns(record, phase)
    measured = [cost for cost in record.spans(phase) if not cost.warmup and cost.start_ns >= from_ns]
    rated = [cost for cost in measured if not cost.drain]
    if record.info.outcome != "done" and sum(c.end_ns - c.start_ns for c in rated) < STUB_SHARE * _interval_ns(record):
        return []
    return rated or measured


def _interval_ns(record: Record) -> int:
    interval = record.info.plan.interval
    return interval.ns if interval else 0


def full_intervals(record: Record, phase: int, *, with_transient: bool = False) -> list[IntervalCost]:
    """Rated intervals without stubs, whose rate would be that of a moment: nine tenths of the median length or more."""
    rated = rated_intervals(record, phase, with_transient=with_transient)
    if not rated:
        return []
    full_ns = median(cost.end_ns - cost.start_ns for cost in rated) * FULL_INTERVAL_SHARE
    return [cost for cost in rated if cost.end_ns - cost.start_ns >= full_ns]


def rates(
    record: Record,
    phase: int,
    intervals: Iterable[Interval],
    *,
    with_transient: bool = False,
    among: frozenset[int] | None = None,
) -> list[float]:
    """Requests a second in each full interval of a phase, zero where nothing completed. `among` are the starts of those
    that count, where not all do."""
    done: Counter[int] = Counter()
    for interval in intervals:
        done[interval.start_ns] += interval.requests
    return [
        done[span.start_ns] / (span.end_ns - span.start_ns) * 1e9
        for span in full_intervals(record, phase, with_transient=with_transient)
        if span.end_ns > span.start_ns and (among is None or span.start_ns in among)
    ]


def variation(values: Sequence[float]) -> float | None:
    """The coefficient of variation: standard deviation (of a sample, n - 1) over mean. None for fewer than
    `VARIATION_OF_MIN` values or a mean of zero."""
    if len(values) < VARIATION_OF_MIN or not (mean := fmean(values)):
        return None
    return stdev(values) / mean


def totals(record: Record, *, with_transient: bool = False) -> list[Totals]:
    """Rows in the order of phases, streams and operations."""
    return list(record.derived(("totals", with_transient), lambda: _rows(record, with_transient=with_transient)))


def _rows(record: Record, *, with_transient: bool) -> list[Totals]:
    def key(interval: Interval) -> tuple[int, int, str]:
        return interval.phase, interval.stream, interval.operation

    measured = sorted((i for i in record.intervals if not i.warmup), key=key)
    of_streams: dict[tuple[int, int], list[Interval]] = {}
    for item in measured:
        if item.measure == "service":
            of_streams.setdefault((item.phase, item.stream), []).append(item)
    return [
        _totals(record, *group, list(items), of_streams.get(group[:2], []), with_transient=with_transient)
        for group, items in groupby(measured, key=key)
    ]


def _totals(
    record: Record,
    phase: int,
    stream: int,
    operation: str,
    every: list[Interval],
    of_stream: list[Interval],
    *,
    with_transient: bool,
) -> Totals:
    """`every` interval of the operation, and those of all the stream's operations, of one measure."""
    from_ns = 0 if with_transient else headline_from_ns(record, phase)
    items = [item for item in every if item.start_ns >= from_ns]
    # Counts are repeated with each measure; those of the first measure are taken.
    once = [item for item in items if item.measure == "service"]
    spans = rated_intervals(record, phase, with_transient=with_transient)
    starts = {span.start_ns for span in spans}
    in_phase = [item for item in once if item.start_ns in starts]
    own = own_time(record, phase, stream, once if record.info.is_by_tool else of_stream, spans)
    rated = [item for item in in_phase if item.start_ns in own.starts]
    found = {measure: latency_of(item for item in items if item.measure == measure) for measure in MEASURES}
    if len({span.knob for span in spans}) > 1:
        # Each step of a ramp is a load of its own: what lies beyond a percentile is its highest steps, not an event.
        found = {
            measure: figures and replace(figures, few_events=frozenset(), peaks=())
            for measure, figures in found.items()
        }
    printed = imported_figures(record, phase, stream, operation) if record.info.is_by_tool else None
    if printed is not None and (service := found[Timed.SERVICE]) is not None:
        is_clat = bool(clat_warnings(record, phase, stream, operation))
        found[Timed.SERVICE] = as_imported(service, printed, CLAT if is_clat else "")
    return Totals(
        phase=phase,
        phase_name=phase_name(record, phase),
        stream=stream,
        stream_name=stream_name(record, phase, stream),
        operation=operation,
        requests=sum(item.requests for item in once),
        bytes=sum(item.bytes for item in once),
        errors=record.info.known_errors(sum(item.errors for item in every if item.measure == "service")),
        rated_ns=own.ns,
        rated_requests=sum(item.requests for item in rated),
        rated_bytes=sum(item.bytes for item in rated),
        phase_ns=sum(span.end_ns - span.start_ns for span in spans),
        phase_requests=sum(item.requests for item in in_phase),
        phase_bytes=sum(item.bytes for item in in_phase),
        in_flight_bound=_in_flight_bound(once),
        variation=variation(rates(record, phase, once, with_transient=with_transient, among=own.throughout)),
        measures={measure: figures for measure, figures in found.items() if figures is not None},
        steady=steady(record, phase),
        ended_ns=own.ended_ns,
        is_by_tool=record.info.is_by_tool,
    )


def _in_flight_bound(once: Iterable[Interval]) -> int:
    """Where a loop told its part of an interval later than the others, the interval is there twice, and both count."""
    bounds: Counter[int] = Counter()
    for item in once:
        bounds[item.start_ns] += item.in_flight_bound
    return max(bounds.values(), default=0)


def rated_rows(rows: Iterable[Totals]) -> list[Totals]:
    """Those that the IOPS and MiB/s of their phase count, by `schema.in_rate`."""
    every = list(rows)
    found: dict[int, set[str]] = {}
    for row in every:
        found.setdefault(row.phase, set()).add(row.operation)
    counted = {phase: in_rate(operations) for phase, operations in found.items()}
    return [row for row in every if row.operation in counted[row.phase]]


T = TypeVar("T", Totals, Interval)


def waited(record: Record, counted: Iterable[T]) -> list[T]:
    """Of rows or intervals of a record, those that times of all requests are of, by `schema.is_waited`."""
    return [one for one in counted if is_waited(one.operation, asked_stream(record, one.phase, one.stream))]


@dataclass(frozen=True)
class PhaseRate:
    """What all streams and operations of a phase did together: the sums of its `rated_rows`."""

    phase_name: str
    iops: float
    bytes_per_s: float
    errors: int | None
    """None where it is not known."""
    is_rated: bool
    metadata_per_s: float = 0.0
    """Creations, lookups and the like, which `iops` excludes."""
    of: str = ""
    """What of the phase it is, where it is not all of it."""
    phase: int = 0


def phase_rates(record: Record) -> list[PhaseRate]:
    """One for each phase that measured anything, without reading a histogram."""
    counted = [i for i in record.intervals if not i.warmup and i.measure == "service" and is_request(i.operation)]
    found = []
    for phase in sorted({item.phase for item in counted}):
        spans = rated_intervals(record, phase)
        starts, rated_ns = {span.start_ns for span in spans}, sum(span.end_ns - span.start_ns for span in spans)
        rated = [item for item in counted if item.phase == phase and item.start_ns in starts]
        asked = in_rate({item.operation for item in counted if item.phase == phase})
        found.append(
            PhaseRate(
                phase_name=phase_name(record, phase),
                iops=_per_second((i for i in rated if i.operation in asked), rated_ns),
                bytes_per_s=_bytes(rated, asked) / rated_ns * 1e9 if rated_ns else 0.0,
                errors=record.info.known_errors(sum(item.errors for item in counted if item.phase == phase)),
                is_rated=rated_ns > 0 and (bool(_requests(rated)) or not _requests(counted, phase)),
                metadata_per_s=_per_second((i for i in rated if not is_on_data(i.operation)), rated_ns),
                phase=phase,
            )
        )
    return found


def _requests(intervals: Iterable[Interval], phase: int | None = None) -> int:
    return sum(item.requests for item in intervals if phase in (None, item.phase))


def _bytes(intervals: Iterable[Interval], operations: frozenset[str]) -> int:
    return sum(item.bytes for item in intervals if item.operation in operations)


def _per_second(intervals: Iterable[Interval], rated_ns: int) -> float:
    return sum(item.requests for item in intervals) / rated_ns * 1e9 if rated_ns else 0.0


def shares_of_best(values: list[float]) -> list[float | None]:
    """Each value as a share of the largest; None where nothing was measured."""
    best = max(values, default=0.0)
    return [value / best if best > 0 else None for value in values]

"""Duty: what one replay, or several repetitions of one, say of themselves: paces, rates, drivers, what was in the logs.

Refusal: no table and no word for people; pages, headroom, disks and warnings have modules of their own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import msgspec

from brickyard.analysis.figures.cells import DASH
from brickyard.analysis.figures.offered_share import driver_ends
from brickyard.analysis.figures.totals import rated_intervals
from brickyard.errors import BadInputError
from brickyard.schema import Drivers, PhaseEnd, ReplayDriver, StreamCounts
from brickyard.schema.logs import LogCounts, UnmatchedPath, log_counts_of
from brickyard.schema.plan import OtherKind, OtherPlan, OtherStream, PaceKind, ReplayAsked
from brickyard.store import Interval, Record
from brickyard.units import format_count, format_coverage, three_digits

PATHS_TOLD = 5


@dataclass(frozen=True, kw_only=True)
class LogTotals:
    """What the logs held, over all drivers; fields as in `LogCounts`."""

    lines: int
    requests: int
    calls: int
    bad_lines: int
    unmatched: int
    late: int
    outliers: int
    read_on: int
    missed: int
    unusable: int
    """Requests without a usable parameter."""
    at_end: bool
    late_burst_calls: int
    covered_share: float | None
    """Requests that became calls."""
    unmatched_paths: list[tuple[str, int]]
    """The most frequent, with the number of their requests."""


def is_replay(record: Record) -> bool:
    return isinstance(record.info.plan, OtherPlan) and record.info.plan.kind is OtherKind.REPLAY


def replay_asked(record: Record) -> ReplayAsked:
    """How the log was replayed; only of a record that `is_replay`."""
    plan = record.info.plan
    if not isinstance(plan, OtherPlan) or plan.replay is None:
        raise BadInputError(f"run {record.info.id} is not a replay")
    return plan.replay


def streams_of(record: Record) -> list[OtherStream]:
    plan = record.info.plan
    return plan.phase[0].stream if isinstance(plan, OtherPlan) and plan.phase else []


def by_stream(record: Record) -> list[StreamCounts]:
    return [row for end in record.of(PhaseEnd) if end.replay for row in end.replay.by_stream]


def rate_of(records: list[Record], streams: set[int] | None = None) -> float | None:
    """Calls a second over the time in which they were issued, and their databases could be reached and had some."""
    span_ns, calls = 0, 0
    for record in records:
        spans = rated_intervals(record, 0)
        starts = {span.start_ns for span in spans}
        issuing_ns = sum(span.end_ns - span.start_ns for span in spans)
        served_ns = _served_ns(record, streams)
        span_ns += issuing_ns if served_ns is None else min(issuing_ns, served_ns)
        calls += sum(
            i.requests for i in service_cells(record) if i.start_ns in starts and (not streams or i.stream in streams)
        )
    return calls / span_ns * 1e9 if span_ns else None


def _served_ns(record: Record, streams: set[int] | None) -> int | None:
    """For how long a database served, or one of several did; drivers that ended early wait for no other."""
    targets = {stream.target for n, stream in enumerate(streams_of(record)) if not streams or n in streams}
    told = [end for end in ends(record) if end.served_ns is not None]
    if len(targets) == 1:
        return max((end.served_ns[target] for end in told for target in targets if end.served_ns), default=None)
    return max((end.any_served_ns or 0 for end in told), default=None)


def away_s(records: list[Record], target: int) -> float:
    """For how long a database could not be reached while calls were issued; by the driver that lacked it longest."""
    told = [[end.away_ns[target] for end in ends(record) if end.away_ns is not None] for record in records]
    return sum(max(found, default=0) for found in told) / 1e9


def service_cells(record: Record) -> list[Interval]:
    return [item for item in record.intervals if item.measure == "service"]


def calls_per_s(records: list[Record]) -> float | None:
    return rate_of(records)


def driver_name(record: Record, driver: int) -> str:
    """`driver 2`, or `driver 2 on b`."""
    hosts = replay_asked(record).hosts
    return f"driver {driver + 1}" + (f" on {hosts[driver]}" if driver < len(hosts) else "")


def driver_rates(records: list[Record]) -> dict[int, float]:
    """Calls a second of each driver over its own time with a database, counted from 0; repetitions together."""
    calls: Counter[int] = Counter()
    spans: Counter[int] = Counter()
    for record in records:
        own: Counter[int] = Counter()
        for event in record.of(Drivers):
            for share in event.drivers:
                if not share.drain:
                    calls[share.driver] += share.requests
                    own[share.driver] += event.end_ns - event.start_ns
        served = {end.driver: end.any_served_ns for end in ends(record) if end.any_served_ns is not None}
        spans.update({driver: min(span_ns, served.get(driver, span_ns)) for driver, span_ns in own.items()})
    return {driver: calls[driver] / spans[driver] * 1e9 for driver in sorted(calls) if spans[driver]}


def by_pace(records: list[Record]) -> dict[str, list[Record]]:
    """Runs of one pace are repetitions of each other."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(pace_name(record), []).append(record)
    return found


def pace_name(record: Record) -> str:
    pace = replay_asked(record).pace
    name = record.info.plan.phase[0].name
    if pace.kind is PaceKind.TIME_SYNCHRONIZED:
        return name if pace.speed in ("1", "1x") else f"{name} at {pace.speed}"
    return name if pace.rate_per_s is None else f"{name} {three_digits(pace.rate_per_s)}/s"


def pace_kind(record: Record) -> PaceKind:
    return replay_asked(record).pace.kind


def ends(record: Record) -> list[ReplayDriver]:
    """What each driver said at its end."""
    return driver_ends(record)


def error_share(records: list[Record]) -> float | None:
    """Failed calls, of all that were made; None where there were none."""
    cells = [item for record in records for item in service_cells(record)]
    errors = sum(item.errors for item in cells)
    made = errors + sum(item.requests for item in cells)
    return errors / made if made else None


def logs_read(record: Record) -> list[LogCounts]:
    """What each driver read; none of one that did not come to tell it."""
    try:
        return [log_counts_of(end.logs) for end in ends(record) if end.logs]
    except msgspec.ValidationError as error:
        raise BadInputError(f"run {record.info.id}: the record of its logs is damaged: {error}") from error


def torn_logs(record: Record) -> dict[str, str]:
    """Logs that could not be read to their end, and why."""
    return {log.path: log.torn for told in logs_read(record) for log in told.logs if log.torn}


def issued_calls(record: Record) -> int:
    """Those that were answered, those that failed and those that were due and not sent."""
    unsent = sum(end.unsent for end in record.of(PhaseEnd))
    return unsent + sum(end.calls + end.errors for end in ends(record))


def demand_words(record: Record) -> str:
    """How much was asked at a time: `2 drivers, at most 20 calls in flight each`."""
    plan = record.info.plan
    asked = plan.replay if isinstance(plan, OtherPlan) else None
    if asked is None or not asked.drivers or not asked.sessions:
        return ""
    several = asked.drivers > 1
    who = f"{asked.drivers} drivers" if several else "1 driver"
    return f"{who}, at most {format_count(asked.sessions)} calls in flight{' each' if several else ''}"


def log_counts(*records: Record) -> LogTotals:
    told = [logs for record in records for logs in logs_read(record)]
    paths: Counter[str] = Counter()
    for item in (item for logs in told for item in logs.unmatched_paths):
        paths[unmapped_words(item)] += item.requests
    requests, calls = sum(logs.requests for logs in told), sum(logs.calls for logs in told)
    return LogTotals(
        lines=sum(logs.lines for logs in told),
        requests=requests,
        calls=calls,
        bad_lines=sum(logs.bad_lines for logs in told),
        unmatched=sum(logs.unmatched for logs in told),
        late=sum(logs.late for logs in told),
        outliers=sum(logs.outliers for logs in told),
        read_on=sum(logs.read_on for logs in told),
        missed=sum(logs.missed for logs in told),
        unusable=sum(item.requests for logs in told for item in logs.unusable),
        at_end=bool(told) and all(logs.at_end for logs in told),
        late_burst_calls=max((logs.late_burst_calls for logs in told), default=0),
        covered_share=calls / requests if requests else None,
        unmatched_paths=paths.most_common(PATHS_TOLD),
    )


def unmapped_words(item: UnmatchedPath) -> str:
    """`/logo.gif`, or `POST / (GET is mapped)` where only the method is another."""
    if mapped := item.mapped_methods:
        return f"{item.method} {item.path} ({' and '.join(mapped)} {'is' if len(mapped) == 1 else 'are'} mapped)"
    return item.path if item.method in ("GET", "-", "") else f"{item.method} {item.path}"


def share_words(share: float | None) -> str:
    return DASH if share is None else format_coverage(share)

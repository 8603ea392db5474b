"""Duty: replays → figures by page, database and driver; errors, slow and late calls; tables as rows of text. Pure.

Refusal: no percentile is averaged. Repetitions' maxima are, as the study's "mean of the maxima" is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from statistics import fmean

from brickyard.analysis.databases.replay_runs import (
    away_s,
    by_pace,
    by_stream,
    calls_per_s,
    driver_name,
    driver_rates,
    ends,
    rate_of,
    streams_of,
)
from brickyard.analysis.figures.cells import DASH, marked_time, percentile_cell
from brickyard.analysis.figures.latency import Latency, is_of_few_events, latency_of
from brickyard.analysis.figures.sending import FROM_DUE, length_told, sent
from brickyard.analysis.figures.totals import stream_name
from brickyard.percentiles import MEDIAN_AND_P99, PAGE_PERCENTILES, is_supported
from brickyard.schema import Document, PhaseEnd, SlowCall, Timed
from brickyard.store import Interval, Record
from brickyard.units import format_count, format_iops, format_mib_per_s, format_ns, format_seconds, only_percent

SQLSTATES = {
    "08001": "no connection",
    "08006": "connection lost",
    "22": "data exception",
    "23": "constraint violated",
    "28": "not authorized",
    "40001": "serialization failure",
    "40P01": "deadlock",
    "42": "syntax or access rule",
    "53": "out of resources",
    "53100": "disk full",
    "53300": "too many connections",
    "54": "limit exceeded",
    "55P03": "lock not available",
    "57014": "canceled, as by statement_timeout",
    "57P01": "server shut down, or connection ended by an administrator",
    "57P02": "server crashed",
    "57P03": "server starting or shutting down",
    "57P04": "database dropped",
    "57P05": "connection idle too long",
    "58": "system error",
    "XX": "internal error",
}
"""By state, else by its longest known beginning (PostgreSQL manual, appendix A)."""
PAGE_COLUMNS = [
    *("page", "calls", "calls/s", "mean", *PAGE_PERCENTILES, "max", "mean of max"),
    *("first byte", "last byte", "rows", "MiB", "errors", "diverged"),
]


@dataclass(frozen=True)
class PageFigures:
    """One page, on one brick or on all, over one run or several repetitions."""

    page: str
    calls: int
    errors: int
    bytes: int
    rows: int
    diverged: int
    per_s: float | None
    response: Latency | None
    p95_ns: int | None
    p95_is_of_few_events: bool
    first_byte_ns: float | None
    last_byte_ns: float | None
    mean_of_max_ns: float | None
    is_of_length: bool
    """Whether response times tell how long a run was: calls that were due were not sent."""
    away_s: float = 0.0


def pages(records: list[Record], *, by_brick: bool = True) -> list[PageFigures]:
    """Repetitions of one load together; a last line holds all pages."""
    groups: dict[str, list[int]] = {}
    for stream in range(len(streams_of(records[0]))):
        name = stream_name(records[0], 0, stream) if by_brick else streams_of(records[0])[stream].page or ""
        groups.setdefault(name, []).append(stream)
    found = [_figures(name, streams, records) for name, streams in groups.items()]
    every = [stream for streams in groups.values() for stream in streams]
    return [*found, _figures("all", every, records)] if len(found) > 1 else found


def divergence_words(records: list[Record]) -> str:
    """`300 of 2,698 calls returned another number of rows than expected`; nothing where none did."""
    every = [pages([record])[-1] for record in records]
    diverged, calls = sum(one.diverged for one in every), sum(one.calls for one in every)
    if not diverged:
        return ""
    return (
        f"{format_count(diverged)} of {format_count(calls)} calls returned another number of rows than expected "
        "(`expect_rows`, or the rows that the log has)"
    )


def bricks(records: list[Record]) -> list[PageFigures]:
    """The same by database; nothing where there is one."""
    targets = sorted({stream.target for stream in streams_of(records[0])})
    if len(targets) < 2:
        return []
    found = []
    for target in targets:
        own = [n for n, stream in enumerate(streams_of(records[0])) if stream.target == target]
        shown = records[0].info.targets[target]
        figures = _figures(f"brick {target}: {shown}", own, records)
        found.append(replace(figures, away_s=away_s(records, target)))
    return found


def _times(items: Iterable[Interval], measure: Timed) -> list[Interval]:
    return [item for item in items if item.measure == measure]


def _figures(name: str, streams: list[int], records: list[Record]) -> PageFigures:
    wanted = set(streams)
    items = [item for record in records for item in record.intervals if item.stream in wanted]
    # A cell of failures alone is stored under the first measure there is.
    once = _times(items, Timed.SERVICE)
    response = latency_of(_times(items, Timed.RESPONSE))
    maxima = [m for record in records if (m := _max(record, wanted)) is not None]
    extra = [row for record in records for row in by_stream(record) if row.stream in wanted]
    service, first = latency_of(once), latency_of(_times(items, Timed.FIRST_BYTE))
    return PageFigures(
        page=name,
        calls=sum(i.requests for i in once),
        errors=sum(i.errors for i in once),
        bytes=sum(i.bytes for i in once),
        rows=sum(row.rows for row in extra),
        diverged=sum(row.diverged for row in extra),
        per_s=rate_of(records, wanted),
        response=response,
        p95_ns=(p95_ns := _p95(response)),
        p95_is_of_few_events=response is not None
        and p95_ns is not None
        and is_of_few_events(response.peaks, 95, p95_ns),
        first_byte_ns=first.mean_ns if first else None,
        last_byte_ns=service.mean_ns if service else None,
        mean_of_max_ns=fmean(maxima) if maxima else None,
        is_of_length=any(stream in wanted for record in records for _, stream in _lengths(record)),
    )


def _lengths(record: Record) -> Collection[tuple[int, int]]:
    return record.derived("replay lengths", lambda: length_told(record).keys())


def unsent_words(records: list[Record]) -> str:
    """`only 61 % of the calls that were due could be sent`, in so many of several repetitions; nothing where all kept
    up."""
    behind = [one for record in records if not (one := sent(record)).kept_up]
    if not behind:
        return ""
    where = f" in {len(behind)} of {len(records)} repetitions" if len(records) > 1 else ""
    share = sum(one.sent for one in behind) / sum(one.due for one in behind)
    return f"{only_percent(share)} of the calls that were due could be sent{where}"


def _max(record: Record, streams: set[int]) -> int | None:
    found = [i.max_ns for i in record.intervals if i.stream in streams and i.measure == "response"]
    return max(found, default=None)


def _p95(figures: Latency | None) -> int | None:
    if figures is None or not is_supported(figures.count, 95.0):
        return None
    return min(figures.histogram.percentiles_ns([95.0])[0], figures.max_ns)


def page_rows(records: list[Record], *, by_brick: bool = True) -> list[list[str]]:
    """The study's table 8 and what it did not show. Times but the last two are response times."""
    return [_page_row(item) for item in pages(records, by_brick=by_brick)]


def brick_table(records: list[Record]) -> tuple[list[str], list[list[str]]]:
    """The same by database; for how long one was down, where one was."""
    found = bricks(records)
    columns = ["database", *PAGE_COLUMNS[1:]]
    rows = [_page_row(item) for item in found]
    if any(item.away_s for item in found):
        columns.append("down")
        rows = [[*row, _down(item)] for row, item in zip(rows, found, strict=True)]
    return columns, rows


def _down(item: PageFigures) -> str:
    return format_seconds(item.away_s) if item.away_s else DASH


def _page_row(item: PageFigures) -> list[str]:
    response, of_length = item.response, item.is_of_length
    return [
        item.page,
        format_count(item.calls),
        DASH if item.per_s is None else format_iops(item.per_s),
        marked_time(response.mean_ns if response else None, of_length=of_length),
        percentile_cell(response, "p50", of_length=of_length),
        marked_time(item.p95_ns, is_of_few=item.p95_is_of_few_events, of_length=of_length),
        percentile_cell(response, "p99", of_length=of_length),
        marked_time(response.max_ns if response else None, of_length=of_length),
        marked_time(item.mean_of_max_ns, of_length=of_length),
        format_ns(item.first_byte_ns),
        format_ns(item.last_byte_ns),
        format_count(item.rows),
        format_mib_per_s(item.bytes),
        format_count(item.errors),
        format_count(item.diverged),
    ]


def throughput_rows(records: list[Record]) -> tuple[list[str], list[list[str]]]:
    """The study's table 7: calls a second, one line a driver, one column a pace; the last line is all of them."""
    groups = by_pace(records)
    rates = {name: driver_rates(group) for name, group in groups.items()}
    drivers = sorted({driver for found in rates.values() for driver in found})
    rows = [
        [driver_name(records[0], driver), *(_per_s(rates[name].get(driver)) for name in groups)]
        for driver in drivers
        if len(drivers) > 1
    ]
    return ["calls/s", *groups], [*rows, ["all", *(_per_s(calls_per_s(group)) for group in groups.values())]]


def _per_s(value: float | None) -> str:
    return DASH if value is None else format_iops(value)


def errors_by_state(records: list[Record]) -> list[tuple[str, int]]:
    """Errors by SQLSTATE, the most frequent first."""
    counts: Counter[str] = Counter()
    for record in records:
        for end in record.of(PhaseEnd):
            counts.update(end.errors_by_errno)
    return counts.most_common()


def error_rows(records: list[Record]) -> list[list[str]]:
    return [[state, sqlstate_words(state), format_count(count)] for state, count in errors_by_state(records)]


def sqlstate_words(state: str) -> str:
    for length in (5, 3, 2):
        if words := SQLSTATES.get(state[:length]):
            return words
    return ""


def slowest(record: Record, count: int = 10) -> list[SlowCall]:
    found = [call for end in ends(record) for call in end.slowest_calls]
    return sorted(found, key=lambda call: -call.response_ns)[:count]


SLOW_COLUMNS = ["run", "at", "page", "parameters", "service", "response"]


def slow_rows(records: list[Record]) -> list[list[str]]:
    """Of all repetitions, the slowest first; as many as of one."""
    found = [(record, call) for record in records for call in slowest(record)]
    found.sort(key=lambda pair: -pair[1].response_ns)
    most = max((len(slowest(record)) for record in records), default=0)
    return [
        [
            str(record.info.id),
            f"{call.at_ns / 1e9:.3f} s",
            stream_name(record, 0, call.stream),
            call.values,
            format_ns(call.service_ns),
            format_ns(call.response_ns),
        ]
        for record, call in found[:most]
    ]


LATE_COLUMNS = ["", "calls", *MEDIAN_AND_P99, "max"]


def late_rows(records: list[Record]) -> list[list[str]]:
    """How late calls went after their due instants, and how much of it each driver itself added (driver lag)."""
    measures = {"sent after due instant": "lateness", "of that, driver lag": "driver_lag"}
    grew = any(map(_lengths, records))
    return [
        _late_row(name, late, of_length=grew and measure in FROM_DUE)
        for name, measure in measures.items()
        if (late := _measured(records, measure)) is not None
    ]


def _measured(records: list[Record], measure: str) -> Latency | None:
    return latency_of(i for record in records for i in record.intervals if i.measure == measure)


def _late_row(name: str, found: Latency, *, of_length: bool) -> list[str]:
    shown = [percentile_cell(found, percentile, of_length=of_length) for percentile in MEDIAN_AND_P99]
    return [name, format_count(found.count), *shown, marked_time(found.max_ns, of_length=of_length)]


def late_document(records: list[Record]) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {}
    for measure in ("lateness", "driver_lag"):
        late = _measured(records, measure)
        if late is not None:
            percentiles = {f"{name}_ns": value for name, value in late.percentiles.items()}
            found[measure] = {"mean_ns": late.mean_ns, "max_ns": late.max_ns, **percentiles}
    return found


def page_document(item: PageFigures) -> Document:
    shown = item.response
    percentiles = {f"{name}_ns": value for name, value in shown.percentiles.items()} if shown else {}
    return {
        "page": item.page,
        "calls": item.calls,
        "calls_per_s": item.per_s,
        "errors": item.errors,
        "rows": item.rows,
        "bytes": item.bytes,
        "diverged": item.diverged,
        "response": {"mean_ns": shown.mean_ns, "max_ns": shown.max_ns, "p95_ns": item.p95_ns, **percentiles}
        if shown
        else None,
        "mean_of_max_ns": item.mean_of_max_ns,
        "away_s": item.away_s,
        "first_byte_mean_ns": item.first_byte_ns,
        "last_byte_mean_ns": item.last_byte_ns,
    }

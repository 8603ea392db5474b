"""Duty: the course of runs over time: throughput per interval, and latencies as counts on a log axis.

Refusal: no drawing. Cells are aggregated here so that a picture's size does not grow with the run.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from brickyard._core import Histogram
from brickyard.analysis.figures.totals import asked_stream, full_intervals, full_stream_name, phase_name, waited
from brickyard.schema import PhaseEnd, is_request
from brickyard.store import Interval, IntervalCost, Record
from brickyard.units import format_size

BINS_PER_DECADE = 8


@dataclass(frozen=True)
class Point:
    """One interval of one operation of one stream; times are those of `lay_out`.

    The stream is named with its phase where a run has several.
    """

    run: int
    stream: str
    operation: str
    start_s: float
    end_s: float
    iops: float
    bytes_per_s: float
    shared: str = ""
    """The name of the stream alone, where other phases of the run have a stream of this name and operation."""


@dataclass(frozen=True)
class HeatCell:
    """Requests of one span of time whose latency fell into one bin, also as a share of all in that span."""

    start_s: float
    end_s: float
    low_ns: int
    high_ns: int
    count: int
    share: float


def lay_out(records: Iterable[Record]) -> dict[int, float]:
    """Seconds to add to each run's own clock. One run keeps its clock, which its tables have too; the measured parts
    of several follow one another without idle time."""
    records = list(records)
    if len(records) == 1:
        return {records[0].info.id: 0.0}
    shifts, cursor_s = {}, 0.0
    for record in records:
        spans = [cost for cost in record.costs if not cost.warmup]
        first_s = min((cost.start_ns for cost in spans), default=0) / 1e9
        shifts[record.info.id] = cursor_s - first_s
        cursor_s += max((cost.end_ns for cost in spans), default=0) / 1e9 - first_s
    return shifts


def throughput(records: list[Record]) -> list[Point]:
    """Measured intervals of all runs on one time axis; an interval without any completion is a point at zero."""
    points = []
    shifts = lay_out(records)
    for record in records:
        shift = shifts[record.info.id]
        requests: Counter[tuple[int, int, int, str]] = Counter()
        moved: Counter[tuple[int, int, int, str]] = Counter()
        # Where a stream's own threads ended, perhaps within an interval.
        ended_ns = {(end.phase, one.stream): one.end_ns for end in record.of(PhaseEnd) for one in end.ended_by_stream}
        for item in record.intervals:
            if item.measure == "service" and is_request(item.operation):
                key = item.phase, item.start_ns, item.stream, item.operation
                requests[key] += item.requests
                moved[key] += item.bytes
        seen = sorted({(phase, stream, operation) for phase, _, stream, operation in requests})
        shared = _shared_names(record, seen)
        phases = sorted({cost.phase for cost in record.costs})
        for cost in (span for number in phases for span in full_intervals(record, number, with_transient=True)):
            if cost.end_ns <= cost.start_ns:
                continue
            for phase, stream, operation in seen:
                if phase != cost.phase:
                    continue
                key = phase, cost.start_ns, stream, operation
                end_ns = cost.end_ns
                told_ns = ended_ns.get((phase, stream), cost.end_ns)
                if told_ns <= cost.start_ns:
                    continue
                end_ns = min(end_ns, told_ns)
                length_s = (end_ns - cost.start_ns) / 1e9
                points.append(
                    Point(
                        run=record.info.id,
                        stream=full_stream_name(record, phase, stream),
                        operation=operation,
                        start_s=shift + cost.start_ns / 1e9,
                        end_s=shift + end_ns / 1e9,
                        iops=requests[key] / length_s,
                        bytes_per_s=moved[key] / length_s,
                        shared=shared.get((phase, stream, operation), ""),
                    )
                )
    return points


def _shared_names(record: Record, seen: Sequence[tuple[int, int, str]]) -> dict[tuple[int, int, str], str]:
    """By phase, stream and operation. A stream without a name is no other phase's."""
    phases: dict[tuple[str, str], set[int]] = defaultdict(set)
    names = {}
    for phase, stream, operation in seen:
        asked = asked_stream(record, phase, stream)
        if asked is not None and asked.name:
            names[phase, stream, operation] = asked.name
            phases[asked.name, operation].add(phase)
    return {key: name for key, name in names.items() if len(phases[name, key[2]]) > 1}


def phase_spans(record: Record) -> list[tuple[str, float, float]]:
    """Name, start and end in seconds of each phase of a run that has several, without its warm-up."""
    spans: dict[int, list[IntervalCost]] = defaultdict(list)
    for cost in record.costs:
        if not cost.warmup:
            spans[cost.phase].append(cost)
    found = [
        (phase_name(record, phase), min(c.start_ns for c in costs) / 1e9, max(c.end_ns for c in costs) / 1e9)
        for phase, costs in sorted(spans.items())
    ]
    return found if len(found) > 1 else []


def pieces(points: Sequence[Point]) -> list[int]:
    """In which piece of its line each point is: a line has a gap where intervals between two points are not counted,
    such as those in which a ramp settles."""
    ends: dict[tuple[int, str, str], tuple[float, int]] = {}
    found = []
    for point in points:
        line = point.run, point.stream, point.operation
        end_s, piece = ends.get(line, (point.start_s, 0))
        ends[line] = point.end_s, piece + (point.start_s > end_s)
        found.append(ends[line][1])
    return found


def several(points: Sequence[Point]) -> bool:
    """Whether a run has more than one stream or operation."""
    lines = {(point.run, point.stream, point.operation) for point in points}
    return len(lines) > len({point.run for point in points})


APART = 30.0
"""A line that is so much lower than another is one on zero, where the axis is not logarithmic."""


IOPS, MIB_PER_S = "IOPS", "MiB/s"
SMALL_BYTES = 32 << 10
"""Our choice: where requests are smaller on average, storage is asked for requests, and else for bytes."""


def rate_shown(points: Sequence[Point]) -> tuple[str, str]:
    """In what a picture of these rates is, and why: requests/s of small requests, bytes/s of large ones, and of both
    together, whose requests cannot be compared."""
    lines: dict[tuple[int, str, str], list[float]] = {}
    for point in points:
        done = lines.setdefault((point.run, point.stream, point.operation), [0.0, 0.0])
        length_s = point.end_s - point.start_s
        done[0], done[1] = done[0] + point.iops * length_s, done[1] + point.bytes_per_s * length_s
    sizes = [moved / requests for requests, moved in lines.values() if moved and requests]
    if sizes and min(sizes) >= SMALL_BYTES:
        return MIB_PER_S, ""
    if not sizes:
        return IOPS, ""
    if max(sizes) < SMALL_BYTES:
        return IOPS, f", since all requests are smaller than {format_size(SMALL_BYTES)} on average"
    return MIB_PER_S, ", since requests of several sizes are in one picture"


def are_apart(points: Sequence[Point]) -> bool:
    """Whether the throughput of one line of a run is `APART` times that of another."""
    moved: dict[int, dict[tuple[str, str], float]] = {}
    for point in points:
        lines = moved.setdefault(point.run, {})
        line = point.stream, point.operation
        lines[line] = lines.get(line, 0.0) + point.bytes_per_s * (point.end_s - point.start_s)
    known = [[value for value in lines.values() if value > 0] for lines in moved.values()]
    return any(len(values) > 1 and max(values) > APART * min(values) for values in known)


def latency_edges(low_ns: int, high_ns: int) -> list[int]:
    """Bin edges of equal ratio that cover low to high."""
    first = math.floor(math.log10(max(low_ns, 1)) * BINS_PER_DECADE)
    last = math.ceil(math.log10(max(high_ns, 2) + 1) * BINS_PER_DECADE)
    return sorted({round(10 ** (step / BINS_PER_DECADE)) for step in range(first, max(last, first + 1) + 1)})


def has_drain(records: list[Record]) -> bool:
    """Whether requests of a run ended after its time, in a column of their own."""
    ends = {(record.info.id, cost.phase, cost.start_ns) for record in records for cost in record.costs if cost.drain}
    return any((record.info.id, i.phase, i.start_ns) in ends for record in records for i in record.intervals)


def _timed(record: Record) -> list[Interval]:
    measure = "response" if any(i.measure == "response" for i in record.intervals) else "service"
    shown = [i for i in record.intervals if i.measure == measure and i.histograms and not i.warmup]
    return waited(record, shown)


def heat_operations(records: Sequence[Record]) -> tuple[str, ...]:
    """The operations whose times `heat_map` has."""
    return tuple(sorted({interval.operation for record in records for interval in _timed(record)}))


def heat_map(records: list[Record], *, columns: int) -> list[HeatCell]:
    """Response times over time, with the lateness in them. Neighbouring intervals of a run share a column where there
    would be more than `columns`."""
    groups: dict[tuple[int, int], list[tuple[float, float, Interval]]] = defaultdict(list)
    shifts = lay_out(records)
    spans = [
        (record.info.id, shifts[record.info.id] + i.start_ns / 1e9, shifts[record.info.id] + i.end_ns / 1e9, i)
        for record in records
        for i in _timed(record)
    ]
    if not spans:
        return []
    begin, end = min(s[1] for s in spans), max(s[2] for s in spans)
    width = max(end - begin, 1e-9) / columns
    for run, start, stop, interval in spans:
        groups[(run, int(((start + stop) / 2 - begin) / width))].append((start, stop, interval))
    merged = {key: Histogram.merged(item[2].histogram for item in items) for key, items in groups.items()}
    counted = [item for item in merged.values() if item is not None and item.count]
    if not counted:
        return []
    edges = latency_edges(min(item.min_ns for item in counted), max(item.max_ns for item in counted))
    cells = []
    for key, merged_histogram in merged.items():
        if merged_histogram is None:
            continue
        counts = merged_histogram.counts(edges)
        total = sum(counts)
        start, stop = min(i[0] for i in groups[key]), max(i[1] for i in groups[key])
        cells += [
            HeatCell(start, stop, edges[row], edges[row + 1], count, count / total)
            for row, count in enumerate(counts)
            if count
        ]
    return cells

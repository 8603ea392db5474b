"""Duty: a replay second by second beside what the server's disks did meanwhile; a cold start. Pure.

Refusal: no device but those that the servers' file systems lie on; whose traffic it was is `facts.foreign`'s to say.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from brickyard.analysis.figures.cells import DASH
from brickyard.analysis.figures.totals import rated_intervals
from brickyard.schema.watch_sheet import WatchedDevice, WatchSheet, disk_counts
from brickyard.store import Interval, IntervalCost, Record
from brickyard.units import format_count, format_iops, format_mib_per_s, format_ns, format_percent, three_digits

COLD_S = 10  # seconds that a cold start is looked at; the study saw maxima of several seconds in its first ones


@dataclass(frozen=True, kw_only=True)
class DiskUse:
    """What the devices below the servers did in a span of time, whoever asked."""

    reads_per_s: float
    writes_per_s: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    queue: float
    service_ns: float | None
    busy_share: float


@dataclass(frozen=True)
class DiskSpan:
    """The same between two samples."""

    start_s: float
    end_s: float
    use: DiskUse


@dataclass(frozen=True)
class Second:
    """One interval: calls beside what the server's disks did meanwhile."""

    start_s: float
    length_s: float
    calls: int
    errors: int
    mean_ns: float | None
    max_ns: int | None
    disk: DiskUse | None


def course(record: Record) -> list[Second]:
    """Each interval of a run; disks by the samples nearest to its ends."""
    groups: dict[int, list[Interval]] = defaultdict(list)
    for item in record.intervals:
        groups[item.start_ns].append(item)
    disks = disk_course(record)
    found = []
    for cost in _without_stub(rated_intervals(record, 0)):
        items = groups.get(cost.start_ns, [])
        once = [i for i in items if i.measure == "service"]
        responses = [i for i in items if i.measure == "response"]
        calls = sum(i.requests for i in once)
        weighted = sum(i.mean_ns * i.requests for i in responses)
        found.append(
            Second(
                start_s=cost.start_ns / 1e9,
                length_s=(cost.end_ns - cost.start_ns) / 1e9,
                calls=calls,
                errors=sum(i.errors for i in once),
                mean_ns=weighted / calls if calls else None,
                max_ns=max((i.max_ns for i in responses), default=None),
                disk=_nearest(disks, cost.end_ns / 1e9),
            )
        )
    return found


def _without_stub(spans: list[IntervalCost]) -> list[IntervalCost]:
    """Without a last piece shorter than half an interval: the rate of so short a moment looks like a drop."""
    if len(spans) < 2:
        return spans
    usual_ns = median(span.end_ns - span.start_ns for span in spans[:-1])
    return spans[:-1] if (spans[-1].end_ns - spans[-1].start_ns) * 2 < usual_ns else spans


def _nearest(disks: list[DiskSpan], at_s: float) -> DiskUse | None:
    return next((span.use for span in disks if span.start_s < at_s <= span.end_s), None)


def disk_course(record: Record) -> list[DiskSpan]:
    """What the devices below the servers did between two samples: requests, bytes, queue, service and busy share."""
    devices = target_devices(watched_targets(record))
    if not devices:
        return []
    series = [device.series for device in devices]
    stamps = devices[0].at_ns
    found = []
    for i in range(1, min(len(device.at_ns) for device in devices)):
        start_ns, end_ns = stamps[i - 1], stamps[i]
        if end_ns > start_ns:
            deltas = [{k: c[k][i] - c[k][i - 1] for k in c if k not in ("at_ns", "in_flight")} for c in series]
            found.append(DiskSpan(start_ns / 1e9, end_ns / 1e9, _disk(deltas, end_ns - start_ns)))
    return found


def disk_total(record: Record) -> DiskUse | None:
    """The same over the whole run."""
    watched = watched_targets(record)
    deltas = [device.delta for device in target_devices(watched) if device.delta]
    if not deltas or not watched:
        return None
    return _disk(deltas, watched[0].duration_ns)


def watched_targets(record: Record) -> list[WatchSheet]:
    return [item for item in record.info.watch.targets if item]


def target_devices(watched: list[WatchSheet]) -> list[WatchedDevice]:
    """The devices that the servers' file systems lie on, each once."""
    found: dict[str, WatchedDevice] = {}
    for item in watched:
        for number, device in (item.devices or {}).items():
            if "target" in device.roles:
                found.setdefault(number, device)
    return list(found.values())


def _disk(deltas: list[dict[str, int]], span_ns: int) -> DiskUse:
    total = disk_counts(deltas)
    seconds = max(span_ns, 1) / 1e9
    return DiskUse(
        reads_per_s=total.read_requests / seconds,
        writes_per_s=total.write_requests / seconds,
        read_bytes_per_s=total.read_bytes / seconds,
        write_bytes_per_s=total.write_bytes / seconds,
        queue=total.weighted_ms / 1e3 / seconds,
        service_ns=total.service_ns,
        busy_share=min(total.busy_ms / 1e3 / seconds / max(len(deltas), 1), 1.0),
    )


DISK_COLUMNS = ["reads/s", "writes/s", "MiB/s read", "MiB/s written", "queue", "service", "busy"]


def disk_cells(disk: DiskUse | None) -> list[str]:
    if disk is None:
        return [DASH] * len(DISK_COLUMNS)
    return [
        format_iops(disk.reads_per_s),
        format_iops(disk.writes_per_s),
        format_mib_per_s(disk.read_bytes_per_s),
        format_mib_per_s(disk.write_bytes_per_s),
        three_digits(disk.queue),
        format_ns(disk.service_ns),
        format_percent(disk.busy_share),
    ]


WHOLE_DEVICE = "whole device, others included"
"""Samples for each second are the devices' own counters; the servers' share is known only for a whole run."""
WHOLE_READS = f"disk reads/s ({WHOLE_DEVICE})"
COURSE_COLUMNS = ["second", "calls/s", "mean", "max", WHOLE_READS, "errors"]


def cold_rows(record: Record) -> list[list[str]]:
    """The first seconds one by one, and all that came after them; what the disks read tells cold from warm."""
    seconds = course(record)
    first, rest = seconds[:COLD_S], seconds[COLD_S:]
    rows = [_second_row(f"{s.start_s:.0f} to {s.start_s + s.length_s:.3g}", [s]) for s in first]
    return [*rows, _second_row("all later", rest)] if rest else rows


def _second_row(name: str, seconds: list[Second]) -> list[str]:
    calls = sum(s.calls for s in seconds)
    length_s = sum(s.length_s for s in seconds)
    means = sum((s.mean_ns or 0) * s.calls for s in seconds)
    maxima = [s.max_ns for s in seconds if s.max_ns is not None]
    return [
        name,
        format_iops(calls / length_s) if length_s else DASH,
        format_ns(means / calls if calls else None),
        format_ns(max(maxima, default=None)),
        _reads(seconds),
        format_count(sum(s.errors for s in seconds)),
    ]


def _reads(seconds: list[Second]) -> str:
    known = [s for s in seconds if s.disk is not None]
    length_s = sum(s.length_s for s in known)
    reads = sum(s.disk.reads_per_s * s.length_s for s in known if s.disk is not None)
    return format_iops(reads / length_s) if length_s else DASH

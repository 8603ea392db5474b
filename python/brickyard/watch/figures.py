"""Duty: totals → tables and the document of `--json`. Refusal: prints and writes nothing."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

import msgspec

from brickyard.percentiles import MEDIAN_AND_TAILS, percentile_of
from brickyard.printable import printable
from brickyard.units import (
    format_count,
    format_iops,
    format_mib_per_s,
    format_ns,
    format_percent,
    format_size,
    three_digits,
)
from brickyard.watch.causes import MEANINGS, Explained, cause_shares, explained
from brickyard.watch.devices import part_name
from brickyard.watch.seen import NS, OPERATIONS, READS, Pairs, SeenCell, size_words, time_ns
from brickyard.watch.totals import (
    DeviceTotals,
    OwnerTotals,
    WatchTotals,
    ahead_unused_bytes,
    aligned_shares,
    busiest,
    mean_depth,
    percentile_ns,
    share_at_depth_one,
)
from brickyard.watch.verdicts import Opinion

WORDS = {
    "read": "read",
    "write": "write",
    "durable_write": "write, durable",
    "discard": "discard",
    "flush": "flush",
    "flush_command": "flush command",
    "other": "driver's command",
    "write_zeroes": "write zeroes",
}
OWNERS_SHOWN, SLOW_SHOWN = 20, 20
Rows = list[list[str]]


@dataclass
class Watched:
    """A watch at one instant: what is shown, told and reported of it."""

    totals: WatchTotals
    method: str
    not_seen: str
    stripe_bytes: int = 0
    opinions: list[Opinion] = field(default_factory=list)
    cgroups: dict[int, str] = field(default_factory=dict)
    ahead_note: str = ""

    @property
    def told(self) -> list[Explained]:
        return explained(self.totals)


def seek_words(bucket: int) -> str:
    if bucket == 0:
        return "where the last one ended"
    low = 512 << ((bucket - 1) // 2)
    return f"{'back' if (bucket - 1) % 2 else 'ahead'} {format_size(low)} and more"


def operation_rows(device: DeviceTotals, seconds: float) -> Rows:
    rows = []
    for name in OPERATIONS:
        cell = device.cells.get(name)
        if cell is None or not cell.requests:
            continue
        timed = [percentile_ns(cell.total, percentile_of(name)) for name in MEDIAN_AND_TAILS]
        rows.append(
            [
                WORDS[name],
                format_count(cell.requests),
                format_iops(cell.requests / seconds),
                format_mib_per_s(cell.bytes / seconds),
                format_size(cell.bytes / cell.requests) if cell.bytes else "–",
                format_ns(cell.total_ns / max(cell.requests, 1)),
                *(format_ns(value) for value in timed),
                format_ns(cell.total_max_ns or None),
                format_count(cell.errors),
            ]
        )
    return rows


OPERATION_COLUMNS = ("operation", "requests", "/s", "MiB/s", "mean size", "mean", *MEDIAN_AND_TAILS, "max", "errors")


def stage_rows(device: DeviceTotals) -> Rows:
    """Where the time of requests goes."""
    rows = []
    for name in OPERATIONS:
        cell = device.cells.get(name)
        if cell is None or not cell.total:
            continue
        whole = max(cell.total_ns, 1)
        for words, sum_ns, times in (
            ("before the queue", cell.before_ns, cell.before),
            ("in the kernel's queue", cell.queue_ns, cell.queue),
            ("in the device", cell.device_ns, cell.device),
        ):
            if times:
                p99 = percentile_ns(times, 99.0)
                mean = sum_ns / max(sum(number for _, number in times), 1)
                rows.append([WORDS[name], words, format_percent(sum_ns / whole), format_ns(mean), format_ns(p99)])
    return rows


STAGE_COLUMNS = ("operation", "where", "share of time", "mean", "p99")


def shape_rows(device: DeviceTotals, stripe_bytes: int) -> Rows:
    """Name, of reads, of writes."""
    reads, writes = device.cell("read"), device.cell("write", "durable_write")
    both = (reads, writes)
    if not (reads.sizes or writes.sizes):
        return []

    def row(name: str, values: Sequence[str]) -> list[str]:
        return [name, *values]

    def share(part: int, whole: int) -> str:
        return format_percent(part / whole) if whole else "–"

    def number(value: float | None) -> str:
        return "–" if value is None else three_digits(value)

    rows = [
        row("in the device when it is issued, itself included, mean", [number(mean_depth(cell)) for cell in both]),
        row("find no other request in the device", [format_percent(share_at_depth_one(cell)) for cell in both]),
        row("go on where another ended", [share(cell.sequential, cell.requests) for cell in both]),
        row("bytes of those", [share(cell.sequential_bytes, cell.bytes) for cell in both]),
        row("bytes by read-ahead (as the kernel marks it)", [share(reads.read_ahead_bytes, reads.bytes), "–"]),
        # Of a read, the mark depends on how the program asks: everybody waits for a read.
        row("marked synchronous by the kernel (REQ_SYNC)", ["–", share(writes.sync, writes.requests)]),
        row("metadata of a file system", [share(cell.meta, cell.requests) for cell in both]),
    ]
    if stripe_bytes:
        text = format_size(stripe_bytes)
        rows += [
            row(f"begin on a {text} stripe", [share(cell.stripe_aligned, cell.requests) for cell in both]),
            row(f"bytes in whole {text} stripes", [share(cell.stripe_full_bytes, cell.bytes) for cell in both]),
        ]
    return rows


SHAPE_COLUMNS = ("", "reads", "writes")


def ahead_rows(watched: Watched, device: DeviceTotals) -> Rows:
    """What became of the pages that were read ahead, and its share of those that were followed."""
    reads = device.cell(*READS)
    followed = reads.ahead_followed_bytes
    if not watched.totals.sees_ahead or not (followed or reads.ahead_unfollowed_bytes):
        return []
    rows = [("followed in the page cache", followed)]
    rows += [(words, getattr(reads, name)) for name, words in AHEAD_WORDS.items()]
    rows.append(("still in the page cache, not used yet", ahead_unused_bytes(reads)))
    shown = [[words, format_size(part), format_percent(part / followed if followed else None)] for words, part in rows]
    return [*shown, ["could not be followed", format_size(reads.ahead_unfollowed_bytes), "–"]]


AHEAD_WORDS = {
    "ahead_used_bytes": "used",
    "ahead_mapped_bytes": "of these, mapped with a page that a program touched, it included",
    "ahead_dropped_bytes": "dropped from the page cache unused",
}
AHEAD_COLUMNS = ("read ahead", "bytes", "share")


def ahead_line(watched: Watched, device: DeviceTotals) -> str:
    """The same in one line, or nothing."""
    rows = ahead_rows(watched, device)
    if not rows:
        return ""
    (_, size, _), (_, _, used), _, (_, _, dropped), (_, _, left), _ = rows
    return f"{device.name}: of {size} read ahead, {used} is used, {dropped} dropped unused, {left} not used yet"


def size_label(bucket: int) -> str:
    size, exact = size_words(bucket)
    return format_size(size) if exact else f"{format_size(size)}–{format_size(size * 2)}"


def size_rows(device: DeviceTotals) -> Rows:
    return _beside([(size_label(b), b) for b in range(40)], [_shares(cell.sizes) for cell in _both(device)])


def seek_rows(device: DeviceTotals) -> Rows:
    return _beside([(seek_words(b), b) for b in range(79)], [_shares(cell.seeks) for cell in _both(device)])


def alignment_rows(device: DeviceTotals) -> Rows:
    shares = [dict(aligned_shares(cell)) for cell in _both(device)]
    boundaries = sorted(set().union(*shares))
    return [
        [format_size(b), *(format_percent(share.get(b, 0.0) if share else None) for share in shares)]
        for b in boundaries
    ]


def _both(device: DeviceTotals) -> tuple[SeenCell, SeenCell]:
    return device.cell("read"), device.cell("write", "durable_write")


def _shares(pairs: Pairs) -> dict[int, float]:
    whole = sum(number for _, number in pairs)
    return {bucket: number / whole for bucket, number in pairs}


def _beside(names: Sequence[tuple[str, int]], shares: Sequence[dict[int, float]]) -> Rows:
    return [
        [name, *(format_percent(one.get(bucket, 0.0)) for one in shares)]
        for name, bucket in names
        if any(bucket in one for one in shares)
    ]


def run_rows(device: DeviceTotals) -> Rows:
    """Sequential runs that are over, by length."""
    counts = (device.read_runs, device.write_runs)
    buckets = sorted(set(counts[0]) | set(counts[1]))
    return [[f"{format_size(1 << b)} and more", *(format_count(one.get(b, 0)) for one in counts)] for b in buckets]


def owner_rows(watched: Watched) -> Rows:
    return [
        [
            f"{owner.comm or '?'} ({owner.process})",
            part_name(owner.part),
            watched.cgroups.get(owner.cgroup, str(owner.cgroup) if owner.cgroup else "–"),
            format_count(owner.reads),
            format_size(owner.read_bytes),
            format_count(owner.writes),
            format_size(owner.write_bytes),
            format_count(owner.flushes),
            format_ns(owner.total_ns / max(owner.reads + owner.writes + owner.flushes + owner.discards, 1)),
        ]
        for owner in busiest(_asking(watched), OWNERS_SHOWN)
    ]


def _asking(watched: Watched) -> list[OwnerTotals]:
    owners = watched.totals.owners.values()
    return [one for one in owners if one.reads or one.writes or one.flushes or one.discards]


OWNER_COLUMNS = ("process", "on", "cgroup", "reads", "read", "writes", "written", "flushes", "mean time")


def cause_rows(watched: Watched) -> Rows:
    return [
        [cause, format_count(count), format_percent(share), MEANINGS[cause]]
        for cause, count, share in cause_shares(watched.told)
    ]


CAUSE_COLUMNS = ("cause", "requests", "share of their time", "meaning")


def slow_rows(watched: Watched) -> Rows:
    start = watched.totals.start_ns
    return [
        [
            f"{(one.request.arrived_ns - start) / 1e9:.3f} s",
            WORDS.get(one.request.operation, one.request.operation),
            format_size(one.request.bytes),
            one.request.comm,
            format_ns(one.request.total_ns),
            one.cause,
            one.evidence,
        ]
        for one in watched.told[:SLOW_SHOWN]
    ]


def slowest_words(watched: Watched) -> str:
    """So that no page says that nothing stands out above a request that took seconds."""
    cells = [(cell, name) for name, device in watched.totals.devices.items() for cell in device.cells.values()]
    cell, name = max(cells, key=lambda each: each[0].total_max_ns, default=(None, ""))
    if cell is None or not cell.total_max_ns:
        return ""
    operation = WORDS.get(cell.operation, cell.operation)
    return f"The slowest request took {format_ns(cell.total_max_ns)} ({operation}, {name})."


SLOW_COLUMNS = ("at", "operation", "size", "process", "took", "cause", "evidence")


def notes(watched: Watched) -> list[str]:
    """What limits belief."""
    lost, totals = watched.totals.lost, watched.totals
    found = _method_notes(watched)
    if lost.entries:
        found.append(f"{lost.entries:,} requests had no room in the tables; all figures exclude them.")
    if lost.ring:
        found.append(f"{lost.ring:,} records of single requests were lost; the counts include those requests.")
    if lost.owners:
        found.append(f"{lost.owners:,} requests belong to processes beyond the table's room.")
    if lost.unknown:
        found.append(f"{lost.unknown:,} requests began before the watch or unseen; all figures exclude them.")
    if totals.programs.left_out:
        found.append(
            f"The kernel left out {totals.programs.left_out:,} runs of programs that were interrupted by themselves; a"
            " second program sees most of these ends."
        )
    if lost.missed:
        found.append(
            f"{lost.missed:,} requests ended unseen; they are counted, no latency includes them, and depths include"
            " them until that was noticed."
        )
    if totals.slow_count > len(totals.slow):
        found.append(f"Causes are of the {len(totals.slow):,} slowest of {totals.slow_count:,} slow requests.")
    if totals.cpu_ns:
        found.append(f"This watch used {format_percent(totals.cpu_ns / 1e9 / totals.seconds)} of one core for itself.")
    if (cost := totals.programs).runs:
        found.append(
            f"Its programs in the kernel took {format_percent(cost.ns / cost.measured_ns)} of one core,"
            f" {cost.ns / cost.runs:,.0f} ns for each run, measured during"
            f" {format_percent(cost.measured_ns / NS / totals.seconds)} of the time. Calling them takes time as well."
        )
    return found


def _method_notes(watched: Watched) -> list[str]:
    found = [f"Not seen by this method: {watched.not_seen}."] if watched.not_seen else []
    return [*found, watched.ahead_note] if watched.ahead_note else found


def _histogram(pairs: Pairs) -> list[dict[str, int]]:
    return [{"from_ns": time_ns(bucket), "requests": count} for bucket, count in pairs]


def _cell_document(cell: SeenCell, seconds: float) -> dict[str, object]:
    counts = {
        name: getattr(cell, name)
        for name in SeenCell.__struct_fields__
        if isinstance(getattr(cell, name), int) and name != "total_max_ns" and not name.startswith("ahead_")
    }
    return {
        **counts,
        "max_ns": cell.total_max_ns,
        "requests_per_s": cell.requests / seconds,
        "bytes_per_s": cell.bytes / seconds,
        "percentiles_ns": {name: percentile_ns(cell.total, percentile_of(name)) for name in MEDIAN_AND_TAILS},
        "mean_depth": mean_depth(cell),
        "depth_one_share": share_at_depth_one(cell),
        "classes": [
            {"from_bytes": 512 << number, "requests": requests, "device_ns": device_ns}
            for number, requests, device_ns in cell.classes
        ],
        "sizes": [
            {"bytes": size_words(bucket)[0], "is_exact": size_words(bucket)[1], "requests": count}
            for bucket, count in cell.sizes
        ],
        "aligned_shares": [{"boundary_bytes": size, "share": share} for size, share in aligned_shares(cell)],
        "seeks": [{"where": seek_words(bucket), "requests": count} for bucket, count in cell.seeks if bucket < 79],
        "latency": {
            "total": _histogram(cell.total),
            "before_queue": _histogram(cell.before),
            "queue": _histogram(cell.queue),
            "device": _histogram(cell.device),
        },
    }


def _ahead_document(watched: Watched, device: DeviceTotals) -> dict[str, object] | None:
    if not watched.totals.sees_ahead:
        return None
    reads = device.cell(*READS)
    followed = reads.ahead_followed_bytes
    return {
        "followed_bytes": followed,
        "used_bytes": reads.ahead_used_bytes,
        "mapped_bytes": reads.ahead_mapped_bytes,
        "dropped_bytes": reads.ahead_dropped_bytes,
        "unused_bytes": ahead_unused_bytes(reads),
        "unfollowed_bytes": reads.ahead_unfollowed_bytes,
        "used_share": reads.ahead_used_bytes / followed if followed else None,
    }


def document(watched: Watched) -> dict[str, object]:
    """For `--json`."""
    totals = watched.totals
    return {
        "method": watched.method,
        "not_seen": watched.not_seen,
        "seconds": totals.seconds,
        "devices": [
            {
                "name": device.name,
                "in_flight": device.in_flight,
                "merged_bios": device.merged_bios,
                "merged_requests": device.merged_requests,
                "splits": device.splits,
                "requeues": device.requeues,
                "turned_away": device.turned_away,
                "read_ahead": _ahead_document(watched, device),
                "operations": {name: _cell_document(cell, totals.seconds) for name, cell in device.cells.items()},
            }
            for device in totals.devices.values()
        ],
        "processes": [
            {**asdict(owner), "part": part_name(owner.part), "cgroup_name": watched.cgroups.get(owner.cgroup)}
            for owner in busiest(_asking(watched), 1000)
        ],
        "verdicts": [asdict(one) for one in watched.opinions],
        "causes": [
            {"cause": cause, "requests": count, "time_share": share}
            for cause, count, share in cause_shares(watched.told)
        ],
        "slow": [
            {**msgspec.structs.asdict(one.request), "cause": one.cause, "evidence": one.evidence}
            for one in watched.told
        ],
        "lost": msgspec.structs.asdict(totals.lost),
        "cpu_share": totals.cpu_ns / 1e9 / totals.seconds,
        "programs": msgspec.structs.asdict(totals.programs),
        "notes": notes(watched),
    }


CSV_FIELDS = (
    "requests", "bytes", "errors", "before_ns", "queue_ns", "device_ns", "total_ns", "sequential_bytes",
    "read_ahead_bytes", "stripe_full_bytes",
)  # fmt: skip


AHEAD_FIELDS = ("ahead_followed_bytes", *AHEAD_WORDS)
INTERVAL_COLUMNS: dict[str, type] = {
    "start_s": float,
    "end_s": float,
    "device": str,
    "operation": str,
    **dict.fromkeys((*CSV_FIELDS, "p50_ns", "p99_ns", *AHEAD_FIELDS), int),
}


def interval_rows(totals: WatchTotals) -> Iterator[dict[str, object]]:
    """One for each interval, device and operation."""
    for interval in totals.intervals:
        start_s, end_s = ((at - totals.start_ns) / 1e9 for at in (interval.start_ns, interval.end_ns))
        for device in interval.devices:
            for cell in device.cells:
                yield {
                    "start_s": round(start_s, 6),
                    "end_s": round(end_s, 6),
                    "device": printable(device.name),
                    "operation": cell.operation,
                    **{name: getattr(cell, name) for name in CSV_FIELDS},
                    "p50_ns": percentile_ns(cell.total, 50.0),
                    "p99_ns": percentile_ns(cell.total, 99.0),
                    **{name: getattr(cell, name) if _has_ahead(totals, cell) else None for name in AHEAD_FIELDS},
                }


def _has_ahead(totals: WatchTotals, cell: SeenCell) -> bool:
    return totals.sees_ahead and cell.operation in READS


def csv_text(totals: WatchTotals) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(INTERVAL_COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(interval_rows(totals))
    return out.getvalue()

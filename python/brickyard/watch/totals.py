"""Duty: intervals → what a watch saw in all, and figures of it. Refusal: no words, no files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from brickyard.percentiles import is_supported
from brickyard.watch.seen import (
    NS,
    OPERATIONS,
    UNASKED,
    Pairs,
    ProgramsCost,
    SeenCell,
    SeenDevice,
    SeenOwner,
    SlowRequest,
    WatchInterval,
    WatchLosses,
    depth_of,
    time_ns,
)

SLOW_KEPT = 2000
MOST_INTERVALS = 3600
HISTOGRAMS = ("sizes", "alignments", "seeks", "gaps", "depths", "before", "queue", "device", "total")
COUNTS = tuple(
    name for name in SeenCell.__struct_fields__ if name not in (*HISTOGRAMS, "classes", "operation", "total_max_ns")
)


@dataclass
class DeviceTotals:
    name: str
    cells: dict[str, SeenCell] = field(default_factory=dict)
    in_flight: int = 0
    merged_bios: int = 0
    merged_requests: int = 0
    splits: int = 0
    requeues: int = 0
    turned_away: int = 0
    read_runs: Counter[int] = field(default_factory=Counter)
    write_runs: Counter[int] = field(default_factory=Counter)
    slow_from_ns: int = 0
    active_ns: int = 0
    """The length of the intervals in which it ended any request."""

    def cell(self, *operations: str) -> SeenCell:
        """Several operations as one; latencies of all of them."""
        return merged([self.cells[name] for name in operations if name in self.cells], " ".join(operations))

    @property
    def asked(self) -> SeenCell:
        """What programs ask for: no flush commands that the kernel makes of flushes, and no driver's commands."""
        return self.cell(*(name for name in OPERATIONS if name not in UNASKED))

    @property
    def active_per_s(self) -> float:
        """Requests that ended per second, of the intervals in which any did."""
        return self.asked.requests * NS / self.active_ns if self.active_ns else 0.0


@dataclass
class OwnerTotals:
    device: int
    part: int
    process: int
    cgroup: int
    comm: str = ""
    reads: int = 0
    read_bytes: int = 0
    writes: int = 0
    write_bytes: int = 0
    flushes: int = 0
    discards: int = 0
    total_ns: int = 0


@dataclass
class WatchTotals:
    """All intervals of a watch."""

    devices: dict[str, DeviceTotals] = field(default_factory=dict)
    owners: dict[tuple[int, int, int, int], OwnerTotals] = field(default_factory=dict)
    slow: list[SlowRequest] = field(default_factory=list)
    slow_count: int = 0
    lost: WatchLosses = field(default_factory=WatchLosses)
    cpu_ns: int = 0
    programs: ProgramsCost = field(default_factory=ProgramsCost)
    start_ns: int = 0
    end_ns: int = 0
    intervals: list[WatchInterval] = field(default_factory=list)
    sees_ahead: bool = False
    """Whether it is seen how much of what is read ahead is used."""

    @property
    def seconds(self) -> float:
        return max((self.end_ns - self.start_ns) / NS, 1e-9)

    def add(self, interval: WatchInterval) -> None:
        self.start_ns = self.start_ns or interval.start_ns
        self.end_ns = interval.end_ns
        self.intervals.append(interval)
        if len(self.intervals) > MOST_INTERVALS:  # they lengthen, so that a watch of weeks stays small
            pairs = zip(self.intervals[::2], self.intervals[1::2], strict=False)
            left = self.intervals[-1:] if len(self.intervals) % 2 else []
            self.intervals = [joined(first, second) for first, second in pairs] + left
        for seen in interval.devices:
            self._add_device(seen, interval.end_ns - interval.start_ns)
        for owner in interval.owners:
            self._add_owner(owner)
        self.slow += interval.slow
        if len(self.slow) > 2 * SLOW_KEPT:
            self.slow = sorted(self.slow, key=lambda one: -one.total_ns)[:SLOW_KEPT]
        self.slow_count += interval.slow_count
        for name in WatchLosses.__struct_fields__:
            setattr(self.lost, name, getattr(self.lost, name) + getattr(interval.lost, name))
        self.cpu_ns += interval.cpu_ns
        self.programs = self.programs.and_then(interval.programs)

    def _add_device(self, seen: SeenDevice, lasts_ns: int) -> None:
        totals = self.devices.setdefault(seen.name, DeviceTotals(seen.name))
        if any(cell.requests for cell in seen.cells):
            totals.active_ns += lasts_ns
        for cell in seen.cells:
            before = totals.cells.get(cell.operation)
            totals.cells[cell.operation] = merged([before, cell] if before else [cell], cell.operation)
        totals.in_flight = seen.in_flight
        totals.slow_from_ns = seen.slow_from_ns or totals.slow_from_ns
        for name in ("merged_bios", "merged_requests", "splits", "requeues", "turned_away"):
            setattr(totals, name, getattr(totals, name) + getattr(seen, name))
        totals.read_runs.update(dict(seen.read_runs))
        totals.write_runs.update(dict(seen.write_runs))

    def _add_owner(self, seen: SeenOwner) -> None:
        key = (seen.device, seen.part, seen.process, seen.cgroup)
        owner = self.owners.setdefault(key, OwnerTotals(*key))
        owner.comm = seen.comm or owner.comm
        for name in ("reads", "read_bytes", "writes", "write_bytes", "flushes", "discards", "total_ns"):
            setattr(owner, name, getattr(owner, name) + getattr(seen, name))


def joined(first: WatchInterval, second: WatchInterval) -> WatchInterval:
    """Two neighbours as one; single slow requests are kept elsewhere."""
    both = WatchTotals()
    both.add(first)
    both.add(second)
    devices = [SeenDevice(one.name, list(one.cells.values()), in_flight=one.in_flight) for one in both.devices.values()]
    owners = [SeenOwner(**vars(one)) for one in both.owners.values()]
    return WatchInterval(first.start_ns, second.end_ns, devices, owners)


def merged(cells: Iterable[SeenCell], operation: str) -> SeenCell:
    sum_ = SeenCell(operation)
    histograms: dict[str, Counter[int]] = {name: Counter() for name in HISTOGRAMS}
    classes: dict[int, tuple[int, int]] = {}
    for cell in cells:
        for number, requests, device_ns in cell.classes:
            before = classes.get(number, (0, 0))
            classes[number] = (before[0] + requests, before[1] + device_ns)
        for name in COUNTS:
            setattr(sum_, name, getattr(sum_, name) + getattr(cell, name))
        sum_.total_max_ns = max(sum_.total_max_ns, cell.total_max_ns)
        for name in HISTOGRAMS:
            histograms[name].update(dict(getattr(cell, name)))
    for name, counts in histograms.items():
        setattr(sum_, name, sorted(counts.items()))
    sum_.classes = [(number, *sums) for number, sums in sorted(classes.items())]
    return sum_


def percentile_ns(times: Pairs, percentile: float) -> int | None:
    """The middle of the bucket where it lies, so at most 6 % off; None where fewer than ten samples lie beyond."""
    return _middle_ns(times, percentile) if is_supported(sum(number for _, number in times), percentile) else None


def median_ns(times: Pairs) -> int | None:
    """Of any number of samples, to compare single requests with; what is shown is `percentile_ns`."""
    return _middle_ns(times, 50.0)


def _middle_ns(times: Pairs, percentile: float) -> int | None:
    left = sum(number for _, number in times) * percentile / 100
    for bucket, number in times:
        left -= number
        if left <= 0:
            return (time_ns(bucket) + time_ns(bucket + 1)) // 2
    return None


def ahead_unused_bytes(cell: SeenCell) -> int:
    """Of what was read ahead, what is in the page cache and was not used yet."""
    return max(cell.ahead_followed_bytes - cell.ahead_used_bytes - cell.ahead_dropped_bytes, 0)


def mean_depth(cell: SeenCell) -> float | None:
    count = sum(number for _, number in cell.depths)
    return sum(depth_of(bucket) * number for bucket, number in cell.depths) / count if count else None


def share_at_depth_one(cell: SeenCell) -> float | None:
    count = sum(number for _, number in cell.depths)
    return sum(number for bucket, number in cell.depths if bucket == 0) / count if count else None


def aligned_shares(cell: SeenCell) -> list[tuple[int, float]]:
    """Boundary in bytes, and the share of requests that begin on it; each boundary holds those of the larger ones."""
    count = sum(number for _, number in cell.alignments)
    if not count:
        return []
    most = max(bucket for bucket, _ in cell.alignments)
    counts = dict(cell.alignments)
    return [
        (512 << boundary, sum(counts.get(bucket, 0) for bucket in range(boundary, most + 1)) / count)
        for boundary in range(max(most, 7) + 1)
    ]


def aligned_share(cell: SeenCell, boundary_bytes: int) -> float | None:
    """Of a power of two up to 16 MiB; None without requests or for other boundaries."""
    if not 512 <= boundary_bytes <= 512 << 15 or boundary_bytes & (boundary_bytes - 1) or not cell.alignments:
        return None
    return dict(aligned_shares(cell)).get(boundary_bytes, 0.0)


def busiest(totals: Sequence[OwnerTotals], most: int) -> list[OwnerTotals]:
    return sorted(totals, key=lambda one: -(one.total_ns or one.read_bytes + one.write_bytes))[:most]

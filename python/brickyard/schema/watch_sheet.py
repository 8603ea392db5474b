"""The sheet of what happened on host and devices while a run went on, one for each target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from brickyard.ready import ready
from brickyard.schema.sheets import FactSheet
from brickyard.schema.target_sheet import TemperatureSheet

T = TypeVar("T")
AT = "at_ns"


class StartAndEnd(msgspec.Struct, Generic[T], kw_only=True):
    """The same at the beginning of a run and at its end; None where it could not be seen."""

    start: T | None = None
    end: T | None = None


class Identity(msgspec.Struct, kw_only=True, omit_defaults=True):
    """By what a file is known again, whatever lies at its path."""

    exists: bool
    device: int | None = None
    inode: int | None = None
    size_bytes: int | None = None
    """Of a regular file, as is the next."""
    links: int | None = None


class ArrayState(msgspec.Struct, kw_only=True, omit_defaults=True):
    under_way: str | None
    """What it did beside its work: resync, recover, check, repair, reshape."""
    degraded: int | None
    """Members that were missing."""
    done_share: float | msgspec.UnsetType | None = msgspec.UNSET
    """Of md, as is the next."""
    array_state: str | msgspec.UnsetType | None = msgspec.UNSET


class CpuShares(msgspec.Struct, kw_only=True):
    """Shares of the time that went by, None where none did; steal is in neither of the others."""

    busy_share: float | None = None
    steal_share: float | None = None
    steal_of_demand_share: float | None = None
    """Of the time in which a CPU was wanted."""


class CpuSeries(msgspec.Struct, kw_only=True):
    at_ns: list[int] = msgspec.field(default_factory=list)
    busy_share: list[float | None] = msgspec.field(default_factory=list)
    steal_share: list[float | None] = msgspec.field(default_factory=list)


class CpuSheet(msgspec.Struct, kw_only=True):
    busy_share: float | None = None
    steal_share: float | None = None
    steal_of_demand_share: float | None = None
    worst_steal_share: float | None = None
    """Of the CPU that it hit most."""
    worst_steal_ticks: int | msgspec.UnsetType = msgspec.UNSET
    """Of the kernel's clock, on the CPU that lost most; older records lack it."""
    each: dict[str, CpuShares] = msgspec.field(default_factory=dict)
    series: CpuSeries = msgspec.field(default_factory=CpuSeries)


class ThrottleSheet(FactSheet, kw_only=True):
    cpu_events: int | None = None
    """Of cores and packages that were too hot."""
    cgroup_events: int | None = None
    """Periods in which the control group had used its CPU quota up."""


class DiskCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What one or several block devices counted in a span. Other counters of the kernel are left out."""

    read_requests: int = 0
    read_bytes: int = 0
    read_ms: int = 0
    write_requests: int = 0
    write_bytes: int = 0
    write_ms: int = 0
    busy_ms: int = 0
    weighted_ms: int = 0

    @property
    def requests(self) -> int:
        return self.read_requests + self.write_requests

    @property
    def size_bytes(self) -> int:
        return self.read_bytes + self.write_bytes

    @property
    def service_ns(self) -> float | None:
        """The mean of reads and writes; None where there was none."""
        return (self.read_ms + self.write_ms) * 1e6 / self.requests if self.requests else None


def disk_counts(deltas: Iterable[Mapping[str, int]]) -> DiskCounts:
    """The sum over devices of what each counted, by counter."""
    total: Counter[str] = Counter()
    for delta in deltas:
        total.update(delta)
    return msgspec.convert(total, DiskCounts)


class WatchedDevice(msgspec.Struct, kw_only=True):
    name: str
    roles: list[str] = msgspec.field(default_factory=list)
    """`target` of those that the file system lies on, `bottom` of drives."""
    delta: dict[str, int] | None = None
    """By counter (`facts.counters.STAT_FIELDS`); None where one went back, as of a device that was replaced."""
    series: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """`at_ns`, and by counter the counts since the start."""

    @property
    def at_ns(self) -> list[int]:
        """The instants of the series."""
        return self.series.get(AT, [])


class ForeignPart(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One direction: what the devices counted beside what was asked of them."""

    device_bytes: int
    device_requests: int
    ours_bytes: int
    ours_requests: int
    copies: int | None
    """How often the devices see each byte; None where nobody can tell, and then nothing is called foreign."""
    foreign_bytes: int | None
    seen: bool | None
    """More than the tolerance."""
    unseen_bytes: int | None = None
    """Asked for, and not counted by the devices: a cache took them."""
    own_beside_bytes: int | None = None
    """By this process beside its load, as by its store."""
    tolerance_bytes: int | None = None
    reason: str | None = None


class ForeignIo(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Who else used the devices; not known with a reason, or known with both directions."""

    known: bool
    reason: str | None = None
    devices: list[str] | None = None
    seen: bool | None = None
    read: ForeignPart | None = None
    write: ForeignPart | None = None
    whose: str | None = None
    """Whose the counted bytes are: `our own` or `the server's`."""


class ProcessUse(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What this process has used; bytes are those that it caused storage to read and write, where the kernel counts
    them."""

    user_ns: int
    system_ns: int
    read_bytes: int | None = None
    write_bytes: int | None = None

    def since(self, first: ProcessUse) -> ProcessUse:
        return ProcessUse(
            user_ns=self.user_ns - first.user_ns,
            system_ns=self.system_ns - first.system_ns,
            read_bytes=_gap(first.read_bytes, self.read_bytes),
            write_bytes=_gap(first.write_bytes, self.write_bytes),
        )


def _gap(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


class SlowAtDevice(msgspec.Struct, kw_only=True):
    """A request that was slow, as the kernel saw it, and why."""

    end_unix_ns: int
    total_ns: int
    operation: str
    offset_bytes: int
    bytes: int
    cause: str
    evidence: str


class HeldBack(msgspec.Struct, kw_only=True):
    """When the run's control group had reached its limit on a device."""

    device: str
    cgroup: str
    kind: str
    """rbps, wbps, riops or wiops."""
    per_s: int
    spans_unix_ns: list[tuple[int, int]]


class SlowSheet(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The slow requests of the devices below a target, by programs in the kernel beside the run."""

    devices: list[str]
    whose: str
    """`our own` or `all processes`; the latter where the run's requests are made by other programs."""
    requests: int
    """Requests of these devices that ended meanwhile."""
    slow: int
    """How many of them were slow; `slowest` has the slowest of them."""
    slowest: list[SlowAtDevice] = msgspec.field(default_factory=list)
    held: list[HeldBack] = msgspec.field(default_factory=list)
    cpu_ns: int = 0
    """What this watch itself used."""
    duration_ns: int = 0
    stopped: str = ""
    """Why it ended before the run; empty where it did not."""


class WatchSheet(FactSheet, kw_only=True):
    duration_ns: int = 0
    samples: int = 0
    sample_stride: int = 1
    """Every so many samples was kept."""
    devices: dict[str, WatchedDevice] | None = None
    """By MAJOR:MINOR."""
    cpu: CpuSheet | None = None
    throttle: ThrottleSheet | None = None
    temperature: StartAndEnd[dict[str, TemperatureSheet]] | None = None
    """By the drives' names."""
    identity: StartAndEnd[Identity] | None = None
    arrays: StartAndEnd[dict[str, ArrayState]] | None = None
    """By the arrays' names."""
    late: StartAndEnd[dict[str, int]] | None = None
    """Requests that emulated disks had answered late, by the names of their devices."""
    faults: dict[str, list[str]] | None = None
    """What was wrong with emulated disks meanwhile, as the orders to `brickyard lab`, by the names of their devices."""
    process: ProcessUse | None = None
    foreign: ForeignIo | None = None
    slow: SlowSheet | None = None


ready(DiskCounts)

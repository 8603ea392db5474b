"""The sheet of a host: the machine that asks. Shares are of 1; a size in bytes or KiB has its unit in its name."""

from __future__ import annotations

import msgspec

from brickyard.schema.sheets import FactSheet


class ProcessorSheet(FactSheet, kw_only=True):
    model: str | None = None
    vendor: str | None = None
    microcode: str | None = None
    sockets: int | None = None
    physical_cores: int | None = None
    current_mhz: float | None = None
    """The fastest core's when it was looked at."""
    architecture: str | None = None
    logical_cores: int | None = None
    usable_cores: int | None = None
    """Those that this process may run on."""
    invariant_tsc: bool | None = None
    smt: str | None = None


class FrequencySheet(FactSheet, kw_only=True):
    governors: dict[str, int] | None = None
    """The number of cores that have each."""
    min_khz: int | None = None
    max_khz: int | None = None
    driver: str | None = None
    energy_preference: str | None = None
    turbo: bool | None = None
    idle_states: list[str] | None = None


class MemorySheet(FactSheet, kw_only=True):
    total_bytes: int | None = None
    available_bytes: int | None = None
    cached_bytes: int | None = None
    dirty_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_free_bytes: int | None = None
    huge_pages: int | None = None
    huge_page_bytes: int | None = None
    transparent_huge_pages: str | None = None
    """`always`, `madvise` or `never`."""


class VirtualizationSheet(FactSheet, kw_only=True):
    hypervisor_flag: bool = False
    """What the processor says."""
    product: str | None = None
    product_vendor: str | None = None
    hypervisor: str | None = None
    container: str | None = None
    """Its kind, or `none seen`."""
    virtual_machine: bool | None = None


class UringSheet(FactSheet, kw_only=True):
    disabled: int | None = None
    """kernel.io_uring_disabled: 0 for nobody, 1 for all but a group, 2 for all."""
    setup: str | None = None
    """`ok`, or the name of the error that setting a ring up gave."""
    usable: bool | None = None


class LimitsSheet(FactSheet, kw_only=True):
    """Soft limits of this process; `unlimited` where there is none."""

    memlock_bytes: int | str | None = None
    open_files: int | str | None = None


class IoLimit(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a control group allows of one device each second; absent where it limits nothing."""

    device: str
    """MAJOR:MINOR."""
    rbps: int | None = None
    wbps: int | None = None
    riops: int | None = None
    wiops: int | None = None

    def words(self) -> str:
        """As the kernel writes the limits in io.max."""
        told = {"rbps": self.rbps, "wbps": self.wbps, "riops": self.riops, "wiops": self.wiops}
        return " ".join(f"{name}={count}" for name, count in told.items() if count is not None)


class GroupSheet(FactSheet, kw_only=True):
    """Limits of the control groups above this process; None means that none is set."""

    version: str | None = None
    groups: dict[str, str] = msgspec.field(default_factory=dict)
    """Path by controller; that of version 2 has none."""
    cpu_cores_limit: float | None = None
    memory_limit_bytes: int | None = None
    io_limits: list[IoLimit] = msgspec.field(default_factory=list)
    cpuset: str | None = None

    def plain_nulls(self) -> tuple[str, ...]:
        return ("cpu_cores_limit", "memory_limit_bytes")


class DirtySheet(msgspec.Struct, kw_only=True):
    """How much a buffered write may leave in memory; 0 in a bytes setting means that the ratio counts."""

    dirty_ratio: int | None = None
    dirty_background_ratio: int | None = None
    dirty_bytes: int | None = None
    dirty_background_bytes: int | None = None
    swappiness: int | None = None


class HostSheet(FactSheet, kw_only=True):
    name: str | None = None
    cpu: ProcessorSheet | None = None
    frequency: FrequencySheet | None = None
    memory: MemorySheet | None = None
    kernel: str | None = None
    kernel_version: str | None = None
    boot_options: list[str] | None = None
    """Those that change how fast storage is."""
    os: str | None = None
    virtualization: VirtualizationSheet | None = None
    uptime_s: float | None = None
    load_average: list[float] | None = None
    """Over 1, 5 and 15 minutes."""
    io_uring: UringSheet | None = None
    clock_source: str | None = None
    clock_sources: list[str] | None = None
    timer_slack_ns: int | None = None
    limits: LimitsSheet | None = None
    cgroup: GroupSheet | None = None
    root: bool | None = None
    boot_id: str | None = None
    vm_dirty: DirtySheet | None = None

    @property
    def memory_bytes(self) -> int | None:
        return self.memory.total_bytes if self.memory else None

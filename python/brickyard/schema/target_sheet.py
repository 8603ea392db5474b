"""The sheet of a target: what it is, its file system, and the tree of devices below it.

Which fields a device has depends on its kind; the others are None without a reason.
"""

from __future__ import annotations

import msgspec

from brickyard.schema.sheets import FactSheet


class QueueSheet(FactSheet, kw_only=True):
    """A device's queue limits, as the kernel names them with units added."""

    logical_block_bytes: int | None = None
    physical_block_bytes: int | None = None
    minimum_io_bytes: int | None = None
    optimal_io_bytes: int | None = None
    nr_requests: int | None = None
    max_sectors_kib: int | None = None
    max_hw_sectors_kib: int | None = None
    max_segments: int | None = None
    max_segment_bytes: int | None = None
    rq_affinity: int | None = None
    nomerges: int | None = None
    wbt_lat_us: int | None = None
    read_ahead_kib: int | None = None
    discard_granularity_bytes: int | None = None
    discard_max_bytes: int | None = None
    write_zeroes_max_bytes: int | None = None
    dma_alignment_mask: int | None = None
    chunk_sectors: int | None = None
    atomic_write_max_bytes: int | None = None
    rotational: bool | None = None
    fua: bool | None = None
    io_poll: bool | None = None
    iostats: bool | None = None
    add_random: bool | None = None
    stable_writes: bool | None = None
    scheduler: str | None = None
    write_cache: str | None = None
    """`write back` or `write through`."""
    zoned: str | None = None
    discard: bool | None = None

    @property
    def has_volatile_write_cache(self) -> bool | None:
        """The kernel says 'write back' of a device that needs a flush before what it acknowledged is safe."""
        return None if self.write_cache is None else self.write_cache == "write back"


class PcieLink(FactSheet, kw_only=True):
    current_speed_gt_per_s: float | None = None
    current_width: int | None = None
    """Lanes."""
    current_bytes_per_s: int | None = None
    max_speed_gt_per_s: float | None = None
    max_width: int | None = None
    max_bytes_per_s: int | None = None


class NarrowestLink(msgspec.Struct, kw_only=True):
    address: str
    bytes_per_s: int


class AdapterSheet(FactSheet, kw_only=True):
    """The PCI function that a device hangs on."""

    address: str | None = None
    vendor_id: str | None = None
    device_id: str | None = None
    subsystem_vendor_id: str | None = None
    subsystem_device_id: str | None = None
    class_id: str | None = None
    revision: str | None = None
    driver: str | None = None
    numa_node: int | None = None
    vendor: str | None = None
    device: str | None = None
    link: PcieLink | None = None
    narrowest_link: NarrowestLink | None = None
    """The slowest on the way to the processor; None where no function tells its link."""

    def plain_nulls(self) -> tuple[str, ...]:
        return ("narrowest_link",)


class PortSheet(FactSheet, kw_only=True):
    """Speed of the cable between adapter and drive, where it is not PCIe."""

    words: str | None = None
    limit: str | None = None
    """What the adapter could do; of SATA alone."""


class MdMember(msgspec.Struct, kw_only=True):
    name: str
    state: str | None = None
    slot: int | None = None
    """None of a spare."""
    errors: int | None = None
    recovery_start: str | None = None


class MdSheet(FactSheet, kw_only=True):
    level: str | None = None
    raid_disks: int | None = None
    chunk_bytes: int | None = None
    layout: str | None = None
    array_state: str | None = None
    sync_action: str | None = None
    sync_completed: str | None = None
    sync_speed_kib_per_s: int | None = None
    degraded: int | None = None
    """Members that are missing."""
    mismatch_count: int | None = None
    stripe_cache_size: int | None = None
    consistency_policy: str | None = None
    bitmap: str | None = None
    metadata_version: str | None = None
    uuid: str | None = None
    sync_done_share: float | None = None
    members: list[MdMember] = msgspec.field(default_factory=list)


class DmRaid(msgspec.Struct, kw_only=True):
    level: str | None = None
    raid_disks: int | None = None
    degraded: int | None = None
    in_sync_share: float | None = None
    sync_action: str | None = None


class DmSheet(FactSheet, kw_only=True):
    """A mapping of the device mapper."""

    mapping: str | None = None
    uuid: str | None = None
    suspended: bool | None = None
    owner: str | None = None
    """`lvm`, `crypt`, `multipath`, `partition` or `vdo`."""
    targets: list[str] | None = None
    """Its kinds of target, each once."""
    raid: DmRaid | None = None
    """Of a mapping with a target `raid`."""


class BcacheSheet(FactSheet, kw_only=True):
    cache_mode: str | None = None
    state: str | None = None
    dirty_data: str | None = None
    sequential_cutoff: str | None = None
    writeback_percent: str | None = None


class EmulatedSheet(msgspec.Struct, kw_only=True):
    """A disk of `brickyard lab`, as it was made."""

    name: str
    model: str
    """`none` where it has no delays."""
    cache: str
    """What it does with flushes: honest, off, lying, or lossy."""
    speed: float = 1.0
    """Of the model's time, relative to real time."""


class LoopSheet(FactSheet, kw_only=True):
    deleted: bool | None = None
    backing_file: str | None = None
    offset_bytes: int | None = None
    size_limit_bytes: int | None = None
    direct_io: bool | None = None
    emulated: EmulatedSheet | None = None

    def plain_nulls(self) -> tuple[str, ...]:
        return ("emulated",)


class HealthSheet(FactSheet, kw_only=True):
    """What a drive says of itself; `available` is whether it said anything."""

    available: bool | None = None
    passed: bool | None = None
    temperature_celsius: int | None = None
    percentage_used: int | None = None
    """Of its life, by its own count."""
    power_on_hours: int | None = None
    bytes_written: int | None = None
    media_errors: int | None = None
    reallocated_sectors: int | None = None
    available_spare_percent: int | None = None
    critical_warning: int | None = None
    warning_temperature_minutes: int | None = None
    rotation_rate_per_min: int | None = None


class TemperatureSheet(FactSheet, kw_only=True):
    """In degrees Celsius; the limits are those from which a drive slows down or stops."""

    celsius: float | None = None
    max_celsius: float | None = None
    critical_celsius: float | None = None
    sensor: str | None = None


class SpaceSheet(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Room in a file system; `unknown` alone where it could not be asked."""

    size_bytes: int | None = None
    free_bytes: int | None = None
    available_bytes: int | None = None
    """To an ordinary user."""
    block_bytes: int | None = None
    unknown: dict[str, str] = msgspec.field(default_factory=dict)


class BtrfsSheet(FactSheet, kw_only=True):
    uuid: str | None = None
    members: list[str] = msgspec.field(default_factory=list)
    profiles: dict[str, list[str]] | None = None
    """By kind (data, metadata, system). Several of a kind: a conversion is under way or stopped half way."""
    device_errors: dict[str, dict[str, int]] | None = None
    """Counters of each member by their names."""
    missing_members: int | None = None
    exclusive_operation: str | None = None


class ZfsSheet(FactSheet, kw_only=True):
    pool: str | None = None
    state: str | None = None
    scan: str | None = None


class MountSheet(FactSheet, kw_only=True):
    mount_point: str | None = None
    file_system: str | None = None
    source: str | None = None
    options: str | None = None
    super_options: str | None = None
    major_minor: str | None = None
    space: SpaceSheet | None = None
    said: str | None = None
    """Why there is no device below that could be looked at; empty where there is one."""
    btrfs: BtrfsSheet | None = None
    zfs: ZfsSheet | None = None
    upper_directory: str | None = None
    """Of an overlay."""

    def plain_nulls(self) -> tuple[str, ...]:
        return ("upper_directory",) if self.file_system == "overlay" else ()


class DeviceSheet(FactSheet, kw_only=True):
    """A device or a file in the tree below a target, with what is below it."""

    name: str
    path: str | None = None
    type: str | None = None
    """`disk`, `partition`, `md`, `dm`, `bcache`, `loop`, `zram`, `ram`, `nbd`, `drbd`, `null` or `file`."""
    major_minor: str | None = None
    size_bytes: int | None = None
    read_only: bool | None = None
    partition: int | None = None
    start_bytes: int | None = None
    alignment_offset_bytes: int | None = None
    queue: QueueSheet | None = None
    vendor: str | None = None
    model: str | None = None
    firmware: str | None = None
    controller: str | None = None
    """Of an NVMe drive, as is the next."""
    controller_paths: int | None = None
    serial: str | None = None
    """Its hash, unless it was to be shown."""
    serial_salt: str | None = None
    """What the hash is salted with."""
    transport: str | None = None
    virtual: bool | None = None
    """A hypervisor serves it."""
    adapter: AdapterSheet | None = None
    port: PortSheet | None = None
    device_queue_depth: int | None = None
    compression: str | None = None
    """Of zram."""
    holders: list[str] | None = None
    allocated_bytes: int | None = None
    """Of a file, as are the next two."""
    hole_bytes: int | None = None
    unwritten_bytes: int | None = None
    mount: MountSheet | None = None
    md: MdSheet | None = None
    dm: DmSheet | None = None
    loop: LoopSheet | None = None
    bcache: BcacheSheet | None = None
    health: HealthSheet | None = None
    """Of disks at the bottom of a tree."""
    temperature: TemperatureSheet | None = None
    """Of every device there."""
    below: list[DeviceSheet] = msgspec.field(default_factory=list)

    def plain_nulls(self) -> tuple[str, ...]:
        kind = {"partition": ("partition", "start_bytes", "alignment_offset_bytes"), "zram": ("compression",)}
        return (*kind.get(self.type or "", ()), *(("health",) if self.temperature else ()))

    @property
    def number(self) -> str:
        """MAJOR:MINOR; empty of a file, and of a device that the kernel does not tell of."""
        return self.major_minor or ""

    @property
    def has_volatile_write_cache(self) -> bool | None:
        return self.queue.has_volatile_write_cache if self.queue else None

    @property
    def is_in_memory(self) -> bool:
        """What it holds is gone with the power, whatever it answers."""
        return self.type in ("zram", "ram", "null")

    @property
    def maker_and_model(self) -> str:
        return " ".join(word for word in (self.vendor, self.model) if word)


class TargetSheet(FactSheet, kw_only=True):
    path: str = ""
    real_path: str | None = None
    """The file that it was, without links; None of what is no path."""
    kind: str | None = None
    """`block`, `file`, `directory`, `missing`, `other`, `sim` or `service`."""
    place: str | None = None
    """The path, or the nearest directory above one that is not there yet."""
    size_bytes: int | None = None
    allocated_bytes: int | None = None
    hole_bytes: int | None = None
    unwritten_bytes: int | None = None
    never_written: list[list[int]] | None = None
    """Start and end of each piece of a file that was never written."""
    looked_at_blocks: int | None = None
    """Of a device: so many blocks, spread evenly, were read to see whether they hold anything."""
    looked_at_bytes: int | None = None
    """How much of the device these stand for: what the run may read. None in older records, where it is all of it."""
    blank_blocks: int | None = None
    """Of these blocks, the ones that hold only zeros."""
    mount: MountSheet | None = None
    mounted_at: list[str] | None = None
    """Where a device's own file system is mounted."""
    stack: list[DeviceSheet] = msgspec.field(default_factory=list)
    device: str | None = None
    major_minor: str | None = None
    devices: list[str] | None = None
    """Names of all devices below, each once."""
    leaf_devices: list[str] = msgspec.field(default_factory=list)
    """MAJOR:MINOR of the drives at the bottom."""
    virtual: bool | None = None
    volatile_write_cache: bool | None = None
    cache_bytes: int | None = None
    """Of all drives below, or of their controllers; 0 where all of it is in memory."""

    def plain_nulls(self) -> tuple[str, ...]:
        return ("cache_bytes",) if "health" in self.unknown else ()

    @property
    def cache_was_asked(self) -> bool:
        return self.cache_bytes is not None or not self.unknown.keys().isdisjoint(("cache_bytes", "health"))


class StorePlace(msgspec.Struct, kw_only=True):
    """Where a store lies."""

    path: str
    place: str | None = None
    devices: list[str] = msgspec.field(default_factory=list)
    """MAJOR:MINOR of the drives below."""


class DriveCache(msgspec.Struct, kw_only=True):
    """What the kernel and a drive tell of the drive's write cache."""

    name: str
    model: str | None = None
    medium: str
    """`rotating`, `solid`, `virtual`, `memory` or `unknown`."""
    rotation_per_min: int | None = None
    write_cache: str | None = None
    """As the kernel has it: `write back` or `write through`."""
    fua: bool | None = None
    drive_cache_type: str | None = None
    """As the drive has it."""
    logical_block_bytes: int


class WriteCaches(msgspec.Struct, kw_only=True):
    drives: list[DriveCache]
    no_barrier: bool
    """A file system above was mounted without flushes."""
    reason: str
    """Why there is no drive, or nothing."""

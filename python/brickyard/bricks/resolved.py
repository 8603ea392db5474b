"""Duty: what a brick comes to, as types: its drives, who keeps its redundancy, its state and capacity.

Refusal: no parsing of brick files and no defaults; the core resolves them (`crates/sim/src/brick`), and only what is
asked for here is taken from its answer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from brickyard.ready import ready
from brickyard.schema import Duration, read_duration, tag_of


class _Drive(msgspec.Struct, frozen=True, kw_only=True):
    """What all drives have; a cloud volume has no cache of its own."""

    capacity_bytes: int
    write_cache: bool = False
    power_loss_protection: bool = False

    @property
    def kind(self) -> str:
        """In the words of the files: rotating, ssd, cloud."""
        return tag_of(type(self))


class RotatingDrive(_Drive, frozen=True, kw_only=True, tag_field="kind", tag="rotating"):
    """A drive with arms."""

    write_cache: bool
    rpm: int
    outer_mb_per_s: float
    inner_mb_per_s: float
    interface_mb_per_s: float
    seek_average_read: Duration
    command_overhead: Duration
    cache_bytes: int
    write_cache_entries: int

    @property
    def cached_bytes(self) -> int:
        return self.cache_bytes

    @property
    def own_mb_per_s(self) -> float:
        """The mean of its outer and inner rate."""
        return (self.outer_mb_per_s + self.inner_mb_per_s) / 2

    @property
    def access_s(self) -> float:
        """A seek and half a turn."""
        return self.seek_average_read.ns / 1e9 + 30 / self.rpm


class FlashDrive(_Drive, frozen=True, kw_only=True, tag_field="kind", tag="ssd"):
    """A solid state drive."""

    write_cache: bool
    power_loss_protection: bool
    dram_cache_bytes: int
    slc_cache_bytes: int = 0
    """Flash that is written faster than the rest until it is full; a power cut takes nothing of it."""
    interface_mb_per_s: float
    half_duplex: bool = False
    read_time: Duration

    @property
    def cached_bytes(self) -> int:
        return self.dram_cache_bytes

    @property
    def own_mb_per_s(self) -> float:
        """Its interface."""
        return self.interface_mb_per_s

    @property
    def access_s(self) -> float:
        return self.read_time.ns / 1e9


class CloudVolume(_Drive, frozen=True, kw_only=True, tag_field="kind", tag="cloud"):
    """A volume of a provider, within its limits."""

    iops: float
    burst_ios: int
    peak_iops: float
    write_iops: float
    """Of writes, where they have a limit of their own; so `write_mb_per_s`."""
    io_unit_bytes: int
    merge_from_bytes: int
    mb_per_s: float
    burst_bytes: int
    peak_mb_per_s: float
    write_mb_per_s: float
    read_latency: Duration

    @property
    def cached_bytes(self) -> int:
        return 0

    @property
    def own_mb_per_s(self) -> float:
        return self.mb_per_s

    @property
    def access_s(self) -> float:
        return self.read_latency.ns / 1e9


ModelledDrive = RotatingDrive | FlashDrive | CloudVolume


class ModelledZfs(msgspec.Struct, frozen=True, kw_only=True):
    """What ZFS is set to."""

    recordsize: int
    fill_percent: float
    dirty_data_max: int
    vdev_aggregation_limit: int
    vdev_aggregation_limit_non_rotating: int


class ModelledKeeper(msgspec.Struct, frozen=True, kw_only=True):
    """A controller, or an operating system's software array."""

    software: bool
    bus_mb_per_s: float
    """0 where it has none."""
    cache_bytes: int
    write_back: bool
    battery: bool
    drive_write_cache: bool
    rebuild_chunk_bytes: int
    rebuild_min_mb_per_s: float
    """Beside users."""
    rebuild_max_mb_per_s: float
    rebuild_writing_mb_per_s: float
    """Beside users who write."""
    rebuild_drains: bool
    zfs: ModelledZfs | None = None


class ModelledFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A member fails at an instant of the run."""

    at_ns: int


class ModelledBrick(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a complete brick."""

    name: str
    title: str
    level: str
    members: int
    spares: int
    draid_data: int
    """Data disks of a dRAID's groups; 0 for OpenZFS's default."""
    draid_spares: int
    drive: ModelledDrive
    other_drive: ModelledDrive | None
    """The last members are of another kind."""
    other_members: int
    controller: ModelledKeeper | None
    controllers: int
    software: ModelledKeeper | None
    write_cache: bool | None
    condition: str
    rebuild_position: float
    failures: list[ModelledFailure]
    power_cut_ns: int | None

    @property
    def keeper(self) -> ModelledKeeper | None:
        """Who keeps the volume: software, else a controller, else nobody."""
        return self.software or self.controller

    @property
    def drives(self) -> list[ModelledDrive]:
        """One of each kind."""
        return [self.drive] if self.other_drive is None else [self.drive, self.other_drive]


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """A brick with its capacity, and the texts that it is made of."""

    brick: ModelledBrick
    capacity_bytes: int
    texts: dict[str, str]


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """The same with every value that the model has, to be shown."""

    brick: dict[str, Any]
    capacity_bytes: int
    texts: dict[str, str]


_RESOLVED: msgspec.json.Decoder[Resolved] = msgspec.json.Decoder(Resolved, dec_hook=read_duration)


def read_resolved(text: str) -> Resolved:
    """As the core tells it."""
    return _RESOLVED.decode(text)


def read_described(text: str) -> Described:
    return msgspec.json.decode(text, type=Described)


ready(Described)

"""What the kernel knows of the write caches below a target.

Duty: each drive's kind, rotation, write cache and FUA, as the kernel and the drive tell them. Refusal: no judgement of
whether a drive keeps its word; that takes a measurement.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from brickyard.schema.target_sheet import DeviceSheet, DriveCache, MountSheet, TargetSheet, WriteCaches

from . import stack
from .block import parse_vpd_rotation
from .roots import SECTOR_BYTES, Roots, binary, entries, text
from .target import drives

STACK = "stack"  # the field of a target whose reason says why no drive is seen
# Mount options with which a file system asks for no flushes (the kernel's Documentation/filesystems).
NO_BARRIER = ("nobarrier", "barrier=0")


def kind_of_medium(node: DeviceSheet) -> str:
    """`rotating`, `solid`, `virtual`, `memory` or `unknown`. That a virtual disk says rotational means nothing."""
    if node.is_in_memory:
        return "memory"
    if node.virtual or node.type in ("nbd", "loop"):
        return "virtual"
    rotational = node.queue.rotational if node.queue else None
    if node.type != "disk" or rotational is None:
        return "unknown"
    return "rotating" if rotational else "solid"


def drive_cache_type(roots: Roots, name: str) -> str | None:
    """What a SCSI or ATA drive itself says; the kernel's own setting may have been changed behind it."""
    base = roots.at_sys("class", "block", name, "device", "scsi_disk")
    return next((found for entry in entries(base) if (found := text(base, entry, "cache_type"))), None)


def rotation_of(roots: Roots, name: str) -> int | None:
    """Revolutions a minute as the drive reports them, where smartctl could not be asked."""
    return parse_vpd_rotation(binary(os.path.join(roots.at_sys("class", "block", name, "device"), "vpd_pgb1")))


def write_cache_facts(target: TargetSheet, roots: Roots | None = None) -> WriteCaches:
    place = roots or Roots()
    found = [_drive(node, place) for node in drives(target)]
    words = {word for mount in _mounts(target) for word in _options(mount)}
    return WriteCaches(
        drives=found,
        no_barrier=any(option in words for option in NO_BARRIER),
        reason="" if found else target.unknown.get(STACK, "no drive can be seen"),
    )


def _drive(node: DeviceSheet, place: Roots) -> DriveCache:
    told = node.health.rotation_rate_per_min if node.health else None
    queue = node.queue
    return DriveCache(
        name=node.name,
        model=node.maker_and_model or None,
        medium=kind_of_medium(node),
        rotation_per_min=told or rotation_of(place, node.name),
        write_cache=queue.write_cache if queue else None,
        fua=queue.fua if queue else None,
        drive_cache_type=drive_cache_type(place, node.name),
        logical_block_bytes=(queue.logical_block_bytes if queue else None) or SECTOR_BYTES,
    )


def _mounts(target: TargetSheet) -> Iterator[MountSheet]:
    """Of the target, and of every file below it."""
    for mount in (target.mount, *(node.mount for node in stack.walk(target.stack))):
        if mount:
            yield mount


def _options(mount: MountSheet) -> list[str]:
    return f"{mount.options or ''},{mount.super_options or ''}".split(",")

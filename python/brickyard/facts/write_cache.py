"""What the kernel knows of the write caches below a target.

Duty: each drive's kind, rotation, write cache and FUA, as the kernel and the drive tell them. Refusal: no judgement of
whether a drive keeps its word; that takes a measurement.
"""

from __future__ import annotations

import os

from . import stack
from .block import SECTOR_BYTES, parse_vpd_rotation
from .roots import Json, Roots, binary, entries, text
from .target import drives

MEMORY = ("zram", "ram", "null")  # what they hold is gone with the power, whatever they answer
# Mount options with which a file system asks for no flushes (the kernel's Documentation/filesystems).
NO_BARRIER = ("nobarrier", "barrier=0")


def kind_of_medium(node: Json) -> str:
    """`rotating`, `solid`, `virtual`, `memory` or `unknown`. That a virtual disk says rotational means nothing."""
    if node.get("type") in MEMORY:
        return "memory"
    if node.get("virtual") or node.get("type") in ("nbd", "loop"):
        return "virtual"
    rotational = (node.get("queue") or {}).get("rotational")
    if node.get("type") != "disk" or rotational is None:
        return "unknown"
    return "rotating" if rotational else "solid"


def drive_cache_type(roots: Roots, name: str) -> str | None:
    """What a SCSI or ATA drive itself says; the kernel's own setting may have been changed behind it."""
    base = roots.at_sys("class", "block", name, "device", "scsi_disk")
    return next((found for entry in entries(base) if (found := text(base, entry, "cache_type"))), None)


def rotation_of(roots: Roots, name: str) -> int | None:
    """Revolutions a minute as the drive reports them, where smartctl could not be asked."""
    return parse_vpd_rotation(binary(os.path.join(roots.at_sys("class", "block", name, "device"), "vpd_pgb1")))


def write_cache_facts(target: Json, roots: Roots | None = None) -> Json:
    """Of the "target" of collect(): {"drives": [...], "no_barrier": bool, "reason": why there is no drive or ""}."""
    place = roots or Roots()
    found = []
    for node in drives(target):
        queue, health = node.get("queue") or {}, node.get("health") or {}
        found.append(
            {
                "name": node.get("name"),
                "model": " ".join(str(node[key]) for key in ("vendor", "model") if node.get(key)) or None,
                "medium": kind_of_medium(node),
                "rotation_per_min": health.get("rotation_rate_per_min") or rotation_of(place, str(node.get("name"))),
                "write_cache": queue.get("write_cache"),
                "fua": queue.get("fua"),
                "drive_cache_type": drive_cache_type(place, str(node.get("name"))),
                "logical_block_bytes": queue.get("logical_block_bytes") or SECTOR_BYTES,
            }
        )
    above = [target, *stack.walk(target.get("stack") or [])]
    mounts = [node.get("mount") or {} for node in above]
    words = {word for mount in mounts for key in ("options", "super_options") for word in _words(mount.get(key))}
    reason = str((target.get("unknown") or {}).get("stack") or "no drive can be seen") if not found else ""
    return {"drives": found, "no_barrier": any(option in words for option in NO_BARRIER), "reason": reason}


def _words(options: object) -> list[str]:
    if isinstance(options, list):
        return [str(item) for item in options]
    return str(options or "").split(",")

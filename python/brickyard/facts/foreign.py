"""Who else used the device: its own counters minus what the run asked for.

Duty: compare bytes and say what exceeds the tolerance. Refusal: where a file system writes a byte more than once, or
a cache stands between, it says that a comparison means nothing instead of accusing a neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import stack
from .roots import Json

# A file system's journal and metadata, and a request in flight at either end, are no neighbour: 1 % of ours, as the
# agreement that a test demands of us and the block layer, and 4 MiB, a journal's commits over a short run.
TOLERANCE_SHARE = 0.01
TOLERANCE_BYTES = 4 << 20
# ext4 commits every 5 s, XFS's log works every 30 s: some blocks each time. 64 KiB a second covers an idle system disk.
TOLERANCE_BYTES_PER_S = 64 << 10

# Block groups of these profiles keep every byte twice or more.
COPIES = {"single": 1, "raid0": 1, "dup": 2, "raid1": 2, "raid10": 2, "raid1c3": 3, "raid1c4": 4}


def tolerance_bytes(ours: int, duration_ns: int) -> int:
    return int(ours * TOLERANCE_SHARE) + TOLERANCE_BYTES + int(TOLERANCE_BYTES_PER_S * duration_ns / 1e9)


def write_copies(facts: Json) -> int | None:
    """How often the devices directly below see each byte written, or None where this cannot be told."""
    mount = facts.get("mount") or {}
    if mount.get("file_system") == "zfs":
        return None
    if mount.get("file_system") != "btrfs":
        return 1
    profiles = ((mount.get("btrfs") or {}).get("profiles") or {}).get("data") or []
    known = [COPIES.get(name) for name in profiles]
    return known[0] if len(known) == 1 else None


def compare(
    facts: Json,
    deltas: Mapping[str, dict[str, int] | None],
    ours: dict[str, int],
    process: dict[str, int],
    *,
    duration_ns: int,
    unknown: dict[str, str],
    dirty_bytes: int = 0,
) -> Json:
    """Foreign bytes by direction; `seen` is whether either exceeds the tolerance.

    `dirty_bytes` were written before the run and may have reached the device in it.

    `process` holds what the kernel accounts to this process and to its children that have ended: a store or a database
    of our own may lie on the same device, and is no neighbour.
    """
    tops = stack.tops(facts.get("stack") or [])
    if not tops:
        return {"known": False, "reason": unknown.get("devices", "not known: no device is below the target")}
    counted = [deltas.get(node["major_minor"]) for node in tops]
    silent = [unknown[node["name"]] for node in tops if node["name"] in unknown]
    if silent or any(delta is None for delta in counted):
        return {"known": False, "reason": silent[0] if silent else "not known: a device went away or was replaced"}
    result: Json = {"known": True, "devices": [node["name"] for node in tops], "seen": False}
    for direction in ("read", "write"):
        device_bytes = sum((delta or {}).get(f"{direction}_bytes", 0) for delta in counted)
        device_requests = sum((delta or {}).get(f"{direction}_requests", 0) for delta in counted)
        copies = write_copies(facts) if direction == "write" else 1
        mine = ours.get(f"{direction}_bytes", 0)
        part: Json = {
            "device_bytes": device_bytes,
            "device_requests": device_requests,
            "ours_bytes": mine,
            "ours_requests": ours.get(f"{direction}_requests", 0),
            "copies": copies,
        }
        if copies is None:
            part.update(foreign_bytes=None, seen=None, reason="not known: how often this file system writes each byte")
        else:
            beside = max(0, process.get(f"{direction}_bytes", 0) - mine)
            surplus = device_bytes - (mine + beside) * copies
            # The kernel splits and merges requests, so their number accuses nobody; bytes do.
            part.update(
                foreign_bytes=max(0, surplus),
                unseen_bytes=max(0, mine * copies - device_bytes),
                own_beside_bytes=beside,
                tolerance_bytes=tolerance_bytes(mine * copies, duration_ns),
            )
            if direction == "write":
                part["tolerance_bytes"] += dirty_bytes * copies
            part["seen"] = part["foreign_bytes"] > part["tolerance_bytes"]
            result["seen"] = result["seen"] or part["seen"]
        result[direction] = part
    return result

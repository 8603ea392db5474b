"""Who else used the device: its own counters minus what the run asked for.

Duty: compare bytes and say what exceeds the tolerance. Refusal: where a file system writes a byte more than once, or
a cache stands between, it says that a comparison means nothing instead of accusing a neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brickyard.schema.sheets import not_known
from brickyard.schema.target_sheet import TargetSheet
from brickyard.schema.watch_sheet import ForeignIo, ForeignPart, ProcessUse, WatchSheet

from . import stack

# A file system's journal and metadata, and a request in flight at either end, are no neighbour: 1 % of ours, as the
# agreement that a test demands of us and the block layer, and 4 MiB, a journal's commits over a short run.
TOLERANCE_SHARE = 0.01
TOLERANCE_BYTES = 4 << 20
# ext4 commits every 5 s, XFS's log works every 30 s: some blocks each time. 64 KiB a second covers an idle system disk.
TOLERANCE_BYTES_PER_S = 64 << 10

# Under this name, beside the names of devices, stands why there is none.
DEVICES = "devices"
# Block groups of these profiles keep every byte twice or more.
COPIES = {"single": 1, "raid0": 1, "dup": 2, "raid1": 2, "raid10": 2, "raid1c3": 3, "raid1c4": 4}


def tolerance_bytes(ours: int, duration_ns: int) -> int:
    return int(ours * TOLERANCE_SHARE) + TOLERANCE_BYTES + int(TOLERANCE_BYTES_PER_S * duration_ns / 1e9)


@dataclass(frozen=True)
class OwnIo:
    """What was asked of the devices by those whom the traffic belongs to."""

    read_bytes: int = 0
    read_requests: int = 0
    write_bytes: int = 0
    write_requests: int = 0
    dirty_bytes: int = 0
    """Written before the run; they may have reached the device in it."""
    whose: str = "our own"


def write_copies(facts: TargetSheet) -> int | None:
    """How often the devices directly below see each byte written, or None where this cannot be told."""
    file_system = facts.mount.file_system if facts.mount else None
    if file_system == "zfs":
        return None
    if file_system != "btrfs":
        return 1
    btrfs = facts.mount.btrfs if facts.mount else None
    kinds = (btrfs.profiles if btrfs else None) or {}
    known = [COPIES.get(name) for kind, names in kinds.items() if kind == "data" for name in names]
    return known[0] if len(known) == 1 else None


def compare(
    facts: TargetSheet,
    deltas: Mapping[str, dict[str, int] | None],
    ours: OwnIo,
    process: ProcessUse | None,
    *,
    duration_ns: int,
    unknown: dict[str, str],
) -> ForeignIo:
    """Foreign bytes by direction; `seen` is whether either exceeds the tolerance.

    `process` holds what the kernel accounts to this process and to its children that have ended: a store or a database
    of our own may lie on the same device, and is no neighbour.
    """
    tops = stack.tops(facts.stack)
    if not tops:
        none = not_known("no device is below the target")
        return ForeignIo(known=False, reason=unknown.get(DEVICES, none))
    counted = [delta for node in tops if (delta := deltas.get(node.number)) is not None]
    silent = [unknown[node.name] for node in tops if node.name in unknown]
    if silent or len(counted) < len(tops):
        return ForeignIo(known=False, reason=silent[0] if silent else not_known("a device went away or was replaced"))

    def part(direction: str, mine: int, requests: int, beside: int, copies: int | None, dirty: int) -> ForeignPart:
        found = ForeignPart(
            device_bytes=sum(delta.get(f"{direction}_bytes", 0) for delta in counted),
            device_requests=sum(delta.get(f"{direction}_requests", 0) for delta in counted),
            ours_bytes=mine,
            ours_requests=requests,
            copies=copies,
            foreign_bytes=None,
            seen=None,
        )
        if copies is None:
            found.reason = not_known("how often this file system writes each byte")
            return found
        # The kernel splits and merges requests, so their number accuses nobody; bytes do.
        found.own_beside_bytes = max(0, beside - mine)
        found.foreign_bytes = max(0, found.device_bytes - (mine + found.own_beside_bytes) * copies)
        found.unseen_bytes = max(0, mine * copies - found.device_bytes)
        found.tolerance_bytes = tolerance_bytes(mine * copies, duration_ns) + dirty * copies
        found.seen = found.foreign_bytes > found.tolerance_bytes
        return found

    by_process = process or ProcessUse(user_ns=0, system_ns=0)
    read = part("read", ours.read_bytes, ours.read_requests, by_process.read_bytes or 0, 1, 0)
    write = part(
        "write", ours.write_bytes, ours.write_requests, by_process.write_bytes or 0, write_copies(facts),
        ours.dirty_bytes,
    )  # fmt: skip
    names = [node.name for node in tops]
    seen = bool(read.seen or write.seen)
    return ForeignIo(known=True, devices=names, seen=seen, read=read, write=write, whose=ours.whose)


def foreign_of(facts: TargetSheet, watched: WatchSheet, ours: OwnIo) -> ForeignIo:
    """The same of a target that was watched on another host."""
    deltas = {number: device.delta for number, device in (watched.devices or {}).items()}
    return compare(facts, deltas, ours, watched.process, duration_ns=watched.duration_ns or 0, unknown=watched.unknown)

"""Duty: one look at everything that a watch is about: arrays, drives, file systems. Refusal: it judges nothing.

Refusal: a drive that sleeps is not woken, and no drive is asked more often than its caller says.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from brickyard.arrays.array import Sheet
from brickyard.arrays.find import every_array
from brickyard.arrays.host import Host
from brickyard.arrays.lock import Holder, current
from brickyard.arrays.peers import MemberCounters
from brickyard.errors import BrickyardError, one_line
from brickyard.facts import mounts
from brickyard.facts.counters import parse_stat
from brickyard.facts.health import parse_smartctl, tells_anything
from brickyard.facts.roots import binary, entries, text
from brickyard.schema.target_sheet import HealthSheet
from brickyard.store import Store

# Kinds that lie on drives; others are full or read-only by nature.
DISK_FILE_SYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "reiserfs", "ntfs", "ntfs3", "vfat")

DRIVES_EVERY_S = 600.0  # smartd asks every 30 minutes; a question costs the drive a moment


@dataclass(frozen=True)
class Drive:
    name: str
    told: HealthSheet
    """What smartctl tells, as `facts.health` reads it."""


@dataclass(frozen=True)
class FileSystem:
    place: str
    kind: str
    read_only: bool
    used_share: float | None


@dataclass(frozen=True)
class StoreSeen:
    """The store of runs."""

    place: str
    problem: str
    """Why it cannot be opened; empty where it can."""
    free_bytes: int | None


@dataclass(frozen=True)
class Seen:
    arrays: tuple[Sheet, ...] = ()
    drives: tuple[Drive, ...] = ()
    file_systems: tuple[FileSystem, ...] = ()
    problems: tuple[str, ...] = field(default=())
    """What could not be looked at, and why."""
    unread: dict[str, str] = field(default_factory=dict)
    """The same by what it is: the name of an array, or a kind of which no array could be listed."""
    holders: dict[str, Holder] = field(default_factory=dict)
    """By the arrays' keys: the process of ours that has each in its hands."""
    left: dict[str, str] = field(default_factory=dict)
    """By the arrays' keys: what a killed run has left of each; whoever knows the journal fills it in."""
    counted: dict[str, dict[str, MemberCounters]] = field(default_factory=dict)
    """By the arrays' keys: what the kernel has counted of each member, where it knows all of them as devices."""
    store: StoreSeen | None = None

    def problem_of(self, key: str, name: str) -> str:
        """Why an array could not be read."""
        return self.unread.get(name) or self.unread.get(key.split(" ", maxsplit=1)[0], "")


def look(host: Host, *, drives: bool = True) -> Seen:
    """One array that cannot be read does not hide the others."""
    sheets: list[Sheet] = []
    unread: dict[str, str] = {}
    for array in every_array(host, unread):
        try:
            sheets.append(array.sheet())
        except BrickyardError as error:
            unread[array.name] = str(error)
    holders = {sheet.key: holder for sheet in sheets if (holder := current(sheet.key)) is not None}
    found = tuple(look_at_drives(host)) if drives else ()
    problems = tuple(dict.fromkeys(unread.values()))
    counted = {sheet.key: told for sheet in sheets if (told := look_at_members(host, sheet))}
    return Seen(tuple(sheets), found, tuple(look_at_file_systems(host)), problems, unread, holders, counted=counted)


def look_at_members(host: Host, sheet: Sheet) -> dict[str, MemberCounters]:
    """Of the active members; nothing where one is unknown to the kernel, or where some rotate and others do not."""
    found: dict[str, MemberCounters] = {}
    kinds = set()
    for member in sheet.members:
        if member.state != "active":
            continue
        base = host.roots.at_sys("class", "block", os.path.basename(os.path.realpath(member.name)))
        told = parse_stat(binary(os.path.join(base, "stat")))
        if told is None:
            return {}
        whole = os.path.dirname(os.path.realpath(base)) if os.path.exists(os.path.join(base, "partition")) else base
        kinds.add(text(whole, "queue", "rotational"))
        requests, busy_ms, size = (told[f"read_{of}"] + told[f"write_{of}"] for of in ("requests", "ms", "bytes"))
        found[member.name] = MemberCounters(requests, busy_ms, size, told["read_requests"])
    return found if len(kinds) == 1 else {}


def look_at_store(place: Path) -> StoreSeen | None:
    """None where there is no store yet."""
    if not place.exists():
        return None
    problem = ""
    try:
        with Store(place) as store:
            store.baselines()
    except (BrickyardError, sqlite3.Error, OSError) as error:
        problem = one_line(error)
    try:
        told = os.statvfs(place)
        free = told.f_bavail * told.f_frsize
    except OSError:
        free = None
    return StoreSeen(str(place), problem, free)


def look_at_drives(host: Host) -> list[Drive]:
    if host.roots.tools.find("smartctl") is None:
        return []
    found = []
    for name in entries(host.roots.at_sys("class", "block")):
        base = host.roots.at_sys("class", "block", name)
        # Disks have a device below them; partitions, loops, md and mappings have none.
        if not os.path.exists(os.path.join(base, "device")) or os.path.exists(os.path.join(base, "partition")):
            continue
        if text(base, "removable") == "1":
            continue
        answer, _ = host.roots.tools.run("smartctl", "-n", "standby", "-j", "-x", os.path.join(host.roots.dev, name))
        told = parse_smartctl(answer)
        if tells_anything(told):
            found.append(Drive(name, told))
    return found


def look_at_file_systems(host: Host) -> list[FileSystem]:
    found: dict[str, FileSystem] = {}
    for row in mounts.parse_mountinfo(text(host.roots.at_proc("self", "mountinfo")) or ""):
        kind, place = row.file_system, row.mount_point
        if kind not in DISK_FILE_SYSTEMS:
            continue
        words = f"{row.options},{row.super_options}".split(",")
        found[place] = FileSystem(place, kind, "ro" in words, _used(place))
    return list(found.values())


def _used(place: str) -> float | None:
    """As df counts: what an ordinary user can still write is what is free."""
    try:
        told = os.statvfs(place)
    except OSError:
        return None
    usable = told.f_blocks - told.f_bfree + told.f_bavail
    return (told.f_blocks - told.f_bfree) / usable if usable > 0 else None

"""Duty: one look at everything that a watch is about: arrays, drives, file systems. Refusal: it judges nothing.

Refusal: a drive that sleeps is not woken, and no drive is asked more often than its caller says.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from brickyard.arrays.array import Sheet
from brickyard.arrays.find import every_array
from brickyard.arrays.host import Host
from brickyard.arrays.lock import Holder, current
from brickyard.errors import BrickyardError
from brickyard.facts import mounts
from brickyard.facts.health import parse_smartctl, tells_anything
from brickyard.facts.roots import entries, text
from brickyard.schema.target_sheet import HealthSheet

# Kinds that lie on drives; others are full or read-only by nature.
DISK_FILE_SYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "reiserfs", "ntfs", "ntfs3", "vfat")


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
    return Seen(tuple(sheets), found, tuple(look_at_file_systems(host)), problems, unread, holders)


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

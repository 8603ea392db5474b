"""Which file system holds a path, and on which devices.

Duty: mount table, free space, allocation of a file, the devices below a file system. Refusal: it describes no device;
that is `stack`.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
from dataclasses import dataclass

from brickyard.schema.sheets import Reasons, not_known
from brickyard.schema.target_sheet import BtrfsSheet, MountSheet, SpaceSheet, ZfsSheet

from .roots import Roots, as_number, entries, text

# linux/fs.h, linux/fiemap.h: _IOWR('f', 11, struct fiemap), whose head is 32 bytes and whose extents are 56.
FS_IOC_FIEMAP = 0xC020660B
FIEMAP_FLAG_SYNC = 0x1
FIEMAP_EXTENT_LAST = 0x1
FIEMAP_EXTENT_UNWRITTEN = 0x800
FIEMAP_EXTENT_BYTES = 56
FIEMAP_BATCH = 512
# A file of more pieces than this is left half read rather than hold up a run.
FIEMAP_EXTENTS_MAX = 200_000
PIECES_MAX = 256  # of a file that are kept in a record

NETWORK = {"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "afs", "beegfs"}
MEMORY = {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}


def unescape(word: str) -> str:
    """mountinfo writes blanks and the like as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), word)


@dataclass(frozen=True)
class MountPoint:
    """A line of mountinfo."""

    major_minor: str
    root: str
    mount_point: str
    options: str
    file_system: str
    source: str
    super_options: str


def parse_mountinfo(content: str) -> list[MountPoint]:
    mounts: list[MountPoint] = []
    for line in content.splitlines():
        head, dash, tail = line.partition(" - ")
        first, last = head.split(" "), tail.split(" ")
        if not dash or len(first) < 6 or len(last) < 2:
            continue
        mounts.append(
            MountPoint(
                major_minor=first[2],
                root=unescape(first[3]),
                mount_point=unescape(first[4]),
                options=first[5],
                file_system=last[0],
                source=unescape(last[1]),
                super_options=last[2] if len(last) > 2 else "",
            )
        )
    return mounts


def mount_of(roots: Roots, path: str) -> MountPoint | None:
    """The mount that holds a path: the longest mount point above it, and the topmost of several at one place."""
    real, best = os.path.realpath(path), None
    for mount in parse_mountinfo(text(roots.at_proc("self", "mountinfo")) or ""):
        point = mount.mount_point.rstrip("/")
        if (real == point or real.startswith(point + "/")) and (
            best is None or len(point) >= len(best.mount_point.rstrip("/"))
        ):
            best = mount
    return best


def mounted_at(roots: Roots, major_minor: str) -> list[str]:
    """Where a device's own file system is mounted; its traffic would be foreign to a run on the device."""
    rows = parse_mountinfo(text(roots.at_proc("self", "mountinfo")) or "")
    return [mount.mount_point for mount in rows if mount.major_minor == major_minor]


def space(path: str) -> SpaceSheet:
    try:
        answer = os.statvfs(path)
    except (OSError, ValueError) as error:
        return SpaceSheet(unknown={"space": not_known(f"statvfs failed ({type(error).__name__}: {error})")})
    return SpaceSheet(
        size_bytes=answer.f_blocks * answer.f_frsize,
        free_bytes=answer.f_bfree * answer.f_frsize,
        available_bytes=answer.f_bavail * answer.f_frsize,
        block_bytes=answer.f_bsize,
    )


def written_extents(path: str) -> list[tuple[int, int, bool]] | None:
    """Start and end of each extent of a file, and whether it was written: one that has a place and was not answers
    reads without touching the device. None where there are too many.

    Dirty pages are written back first: until then, what was written into preallocated space counts as not written."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        start, found = 0, list[tuple[int, int, bool]]()
        while len(found) < FIEMAP_EXTENTS_MAX:
            request = bytearray(struct.pack("=QQIIII", start, 2**64 - 1 - start, FIEMAP_FLAG_SYNC, 0, FIEMAP_BATCH, 0))
            request += bytes(FIEMAP_BATCH * FIEMAP_EXTENT_BYTES)
            fcntl.ioctl(handle, FS_IOC_FIEMAP, request)
            count = struct.unpack_from("=I", request, 20)[0]
            if count == 0:
                return found
            for index in range(count):
                logical, _, length, _, _, flags = struct.unpack_from(
                    "=QQQQQI", request, 32 + index * FIEMAP_EXTENT_BYTES
                )
                start = logical + length
                found.append((logical, start, not flags & FIEMAP_EXTENT_UNWRITTEN))
                if flags & FIEMAP_EXTENT_LAST:
                    return found
        return None
    finally:
        os.close(handle)


def unwritten_bytes(path: str) -> int | None:
    """Of extents that have a place but were never written."""
    found = written_extents(path)
    return None if found is None else sum(end - start for start, end, is_written in found if not is_written)


def never_written(path: str) -> list[list[int]] | None:
    """Start and end of what was never written, holes included; None where there are too many pieces."""
    found = written_extents(path)
    if found is None:
        return None
    pieces, at = list[list[int]](), 0
    size = os.stat(path).st_size
    for start, end in [*((start, end) for start, end, is_written in found if is_written), (size, size)]:
        if min(start, size) > at:
            pieces.append([at, min(start, size)])
        at = max(at, end)
    return pieces if len(pieces) <= PIECES_MAX else None


@dataclass(frozen=True)
class Allocation:
    """Size against allocated bytes: what was never written is read without the device. `unknown` has reasons."""

    size_bytes: int | None
    allocated_bytes: int | None
    hole_bytes: int | None
    unwritten_bytes: int | None
    never_written: list[list[int]] | None
    unknown: dict[str, str]


def allocation(path: str) -> Allocation:
    reasons = Reasons()
    try:
        status = os.stat(path)
    except OSError as error:
        for field in ("size_bytes", "allocated_bytes", "hole_bytes", "unwritten_bytes", "never_written"):
            reasons.of(field, None, f"the file cannot be looked at: {error.strerror}")
        return Allocation(None, None, None, None, None, reasons.unknown)
    return Allocation(
        size_bytes=status.st_size,
        # st_blocks counts 512 bytes whatever the file system's block is (stat(2)).
        allocated_bytes=status.st_blocks * 512,
        hole_bytes=max(0, status.st_size - status.st_blocks * 512),
        unwritten_bytes=reasons.ask(
            "unwritten_bytes", lambda: unwritten_bytes(path), "the file system does not list extents, or too many"
        ),
        never_written=reasons.ask("never_written", lambda: never_written(path), "the file has too many extents"),
        unknown=reasons.unknown,
    )


def btrfs_devices(roots: Roots, mount: MountPoint) -> tuple[str | None, list[str]]:
    """File system id and the members of the btrfs that has the mount's source among its devices."""
    source = os.path.basename(os.path.realpath(mount.source))
    for uuid in entries(roots.at_sys("fs", "btrfs")):
        names = entries(roots.at_sys("fs", "btrfs", uuid, "devices"))
        if source in names:
            return uuid, names
    return None, []


def option(options: str, name: str) -> str | None:
    for word in options.split(","):
        key, equals, value = word.partition("=")
        if key == name and equals:
            return value
    return None


def plain_words(file_system: str) -> str | None:
    """What is to be said of a file system that has no device below it which could be looked at."""
    if file_system in MEMORY:
        return f"{file_system} is in memory: there is no device below"
    if file_system in NETWORK:
        return f"{file_system} is on another host: its devices cannot be seen from here"
    if file_system in ("9p", "virtiofs"):
        return f"{file_system} is a directory of the host of this virtual machine: its devices cannot be seen from here"
    if file_system.startswith("fuse") and file_system != "fuseblk":
        return f"{file_system} is served by a program: what lies below it cannot be seen"
    return None


def device_id(roots: Roots, name: str) -> str | None:
    """MAJOR:MINOR of a kernel device name such as sda1."""
    return text(roots.at_sys("class", "block", name, "dev"))


def device_id_of_node(path: str) -> str | None:
    try:
        number = os.stat(path).st_rdev
    except (OSError, ValueError):
        return None
    return f"{os.major(number)}:{os.minor(number)}" if number else None


def devices_below(roots: Roots, mount: MountPoint) -> tuple[list[str], str]:
    """MAJOR:MINOR of every device directly below a file system, else an empty list and why."""
    file_system = mount.file_system
    said = plain_words(file_system)
    if said:
        return [], said
    if file_system == "btrfs":
        names = btrfs_devices(roots, mount)[1]
        found = [number for name in names if (number := device_id(roots, name))]
        return found, "" if found else "the members of this btrfs are not listed in sysfs"
    if file_system == "zfs":
        return zfs_devices(roots, mount.source.split("/")[0])
    if as_number(mount.major_minor.split(":")[0]):
        return [mount.major_minor], ""
    number = device_id_of_node(mount.source)
    return ([number], "") if number else ([], f"{file_system} names no block device")


def zfs_devices(roots: Roots, pool: str) -> tuple[list[str], str]:
    answer, reason = roots.tools.run("zpool", "list", "-v", "-H", "-P", pool)
    if answer is None:
        return [], reason
    paths = re.findall(r"^\s+(/\S+)", answer, re.MULTILINE)
    found = [number for path in paths if (number := device_id_of_node(path))]
    return found, "" if found else "zpool names no device that is here"


def btrfs_facts(roots: Roots, mount: MountPoint) -> BtrfsSheet:
    """Members, profiles of data and metadata, error counters of each member."""
    reasons = Reasons()
    uuid, names = btrfs_devices(roots, mount)
    base = roots.at_sys("fs", "btrfs", uuid or "none")
    profiles = reasons.ask("profiles", lambda: btrfs_profiles(roots, uuid), "sysfs names no profile")
    if profiles is None:
        answer, reason = roots.tools.run("btrfs", "filesystem", "df", mount.mount_point)
        reasons.unknown.clear()
        profiles = reasons.of("profiles", parse_btrfs_df(answer) if answer else None, reason)
    answer, reason = roots.tools.run("btrfs", "device", "stats", mount.mount_point)
    missing = [name for name in entries(base, "devinfo") if text(base, "devinfo", name, "missing") == "1"]
    return BtrfsSheet(
        uuid=uuid,
        members=names,
        profiles=profiles,
        device_errors=parse_btrfs_stats(answer) if answer else None,
        missing_members=len(missing),
        exclusive_operation=text(base, "exclusive_operation"),
        unknown=reasons.unknown,
    ).explained(
        uuid="this btrfs is not listed in sysfs", device_errors=reason, exclusive_operation="this kernel does not tell"
    )


def btrfs_profiles(roots: Roots, uuid: str | None) -> dict[str, list[str]] | None:
    """Profiles that have space: more than one of a kind means that a conversion is under way or stopped half way."""
    found: dict[str, list[str]] = {}
    for kind in ("data", "metadata", "system"):
        base = roots.at_sys("fs", "btrfs", uuid or "none", "allocation", kind)
        names = [name for name in entries(base) if (as_number(text(base, name, "total_bytes")) or 0) > 0]
        if names:
            found[kind] = names
    return found or None


def parse_btrfs_df(content: str) -> dict[str, list[str]] | None:
    found: dict[str, list[str]] = {}
    for kind, profile in re.findall(r"^(\w+), ([\w/]+): total=", content, re.MULTILINE):
        if kind != "GlobalReserve":
            found.setdefault(kind.lower(), []).append(profile.lower())
    return found or None


def parse_btrfs_stats(content: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for device, name, count in re.findall(r"^\[(.+?)\]\.(\w+)\s+(\d{1,20})\s*$", content, re.MULTILINE):
        found.setdefault(device, {})[name] = int(count)
    return found


def zfs_facts(roots: Roots, pool: str) -> ZfsSheet:
    answer, reason = roots.tools.run("zpool", "status", pool)
    state = re.search(r"^\s*state:\s*(\w+)", answer or "", re.MULTILINE)
    scan = re.search(r"^\s*scan:\s*(.+)$", answer or "", re.MULTILINE)
    return ZfsSheet(
        pool=pool, state=state.group(1) if state else None, scan=scan.group(1).strip() if scan else None
    ).explained(
        state=reason or "zpool status names no state",
        scan=reason or "zpool status names no scan",
    )


def mount_facts(roots: Roots, path: str) -> MountSheet:
    """The file system below a path as a fact sheet."""
    mount = mount_of(roots, path)
    if mount is None:
        return MountSheet(unknown={"file_system": not_known("no mount point holds this path")})
    sheet = MountSheet(
        mount_point=mount.mount_point,
        file_system=mount.file_system,
        source=mount.source,
        options=mount.options,
        super_options=mount.super_options,
        major_minor=mount.major_minor,
        space=space(path),
        said=plain_words(mount.file_system) or "",
    )
    if mount.file_system == "btrfs":
        sheet.btrfs = btrfs_facts(roots, mount)
    elif mount.file_system == "zfs":
        sheet.zfs = zfs_facts(roots, mount.source.split("/")[0])
    elif mount.file_system == "overlay":
        sheet.upper_directory = option(mount.super_options, "upperdir")
    return sheet

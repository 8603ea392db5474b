"""Duty: what is mounted from a disk of the lab, and which mounts of others stand in the way of taking it away.

Refusal: nothing is mounted or unmounted here.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SOURCE = "brickyard-lab"
"""What the disk's program names as the source of its own mount."""


@dataclass(frozen=True)
class Mount:
    """A line of mountinfo."""

    number: int
    above: int
    """The number of the mount that it stands on."""
    major_minor: str
    place: Path
    kind: str
    source: str
    groups: frozenset[str] = frozenset()
    """Those that it shares what is mounted and unmounted with."""


def all_mounts(process: str = "self") -> list[Mount]:
    found = []
    for line in Path(f"/proc/{process}/mountinfo").read_text("utf-8", "replace").splitlines():
        head, _, rest = line.partition(" - ")
        first, last = head.split(" "), rest.split(" ")
        place = Path(_unescaped(first[4]))
        groups = frozenset(re.findall(r" (?:shared|master):(\d+)", head))
        found.append(Mount(int(first[0]), int(first[1]), first[2], place, last[0], _unescaped(last[1]), groups))
    return found


def _unescaped(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), word)


def of_devices(everything: list[Mount], devices: list[str]) -> list[Mount]:
    """Where file systems on these devices are mounted, the newest first."""
    numbers = {_number(device) for device in devices}
    return [mount for mount in everything if mount.source in devices or mount.major_minor in numbers][::-1]


def _number(device: str) -> str:
    with suppress(OSError):
        number = os.stat(device).st_rdev
        return f"{os.major(number)}:{os.minor(number)}"
    return ""


def of_program(everything: list[Mount], place: Path) -> list[Mount]:
    """Where the disk's program has its file."""
    return [mount for mount in everything if mount.place == place and mount.source == SOURCE][::-1]


def of_disks(everything: list[Mount]) -> list[Mount]:
    """Of all disks of the lab, their file systems and the files of their programs, the newest first."""
    programs = [mount for mount in everything if mount.source == SOURCE]
    files = {str(mount.place / "disk") for mount in programs}
    devices = []
    for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if entry.read_text("utf-8", "replace").strip() in files:
                devices.append(f"/dev/{entry.parts[3]}")
    found = {*programs, *of_devices(everything, devices)}
    return [mount for mount in everything[::-1] if mount in found]


def elsewhere(devices: list[str]) -> str | None:
    """A process with mounts of its own, where these devices stay mounted when they are unmounted here."""
    groups = frozenset[str]().union(*(mount.groups for mount in of_devices(all_mounts(), devices)))
    seen = {os.readlink("/proc/self/ns/mnt")}
    for place in sorted(Path("/proc").glob("[1-9]*")):
        with suppress(OSError):  # it has ended
            space = os.readlink(place / "ns/mnt")
            if space in seen:
                continue
            seen.add(space)
            if any(not mount.groups & groups for mount in of_devices(all_mounts(place.name), devices)):
                return f"process {place.name} ({(place / 'comm').read_text('utf-8', 'replace').strip()})"
    return None


def in_the_way(everything: list[Mount], ours: list[Mount], room: Path) -> str | None:
    """What somebody else mounted on a mount of ours, below it or over it; nothing of it may be unmounted."""
    own = {mount.number for mount in ours}
    for mount in everything[::-1]:
        if mount.number not in own and (mount.above in own or mount.place.is_relative_to(room)):
            top = _topmost(everything, mount)
            return f"{top.kind} is mounted on {top.place}; unmount it first"
    for mount in ours:
        if number_at(mount.place) not in own:
            return f"{mount.place} is hidden by what is mounted on {_cover(everything, mount)}; unmount that first"
    return None


def _topmost(everything: list[Mount], mount: Mount) -> Mount:
    """Of what stands on a mount, one that carries no other."""
    while children := [other for other in everything if other.above == mount.number]:
        mount = children[-1]
    return mount


def _cover(everything: list[Mount], mount: Mount) -> Path:
    for place in (mount.place, *mount.place.parents):
        number = number_at(place)
        for other in everything:
            if other.number == number:
                return other.place
    return mount.place


def number_at(place: Path) -> int | None:
    """The mount that a path leads to; none where nothing is there."""
    with suppress(OSError):
        handle = os.open(place, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for line in Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines():
                name, _, value = line.partition(":")
                if name == "mnt_id":
                    return int(value)
        finally:
            os.close(handle)
    return None

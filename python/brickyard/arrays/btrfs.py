"""Duty: btrfs over several devices: read from sysfs and from the text of its tools, changed by them.

Refusal: a member is taken out only by mounting the file system again without it, so nothing may have a file open.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from brickyard.arrays.array import Array, KindFacts, Member, Scrub, Sheet, State
from brickyard.arrays.host import Host, persistently
from brickyard.arrays.steps import MountStep
from brickyard.errors import BadInputError, BrickyardError
from brickyard.facts import mounts
from brickyard.facts.roots import entries, number, text

# mkfs.btrfs(8): how many devices each profile can lose.
LOSABLE = {"raid1": 1, "raid1c3": 2, "raid1c4": 3, "raid10": 1, "raid5": 1, "raid6": 2}
# mkfs.btrfs(8): how often data are stored, and the share of devices that hold parity instead of data.
COPIES = {"single": 1, "raid0": 1, "dup": 2, "raid1": 2, "raid1c3": 3, "raid1c4": 4, "raid10": 2}
PARITY = {"raid5": 1, "raid6": 2}
# Options of mountinfo that mount(8) does not take, or that would name the devices again.
NO_OPTIONS = ("degraded", "subvol=", "device=", "seclabel")


class Btrfs(Array):
    kind = "btrfs"

    def __init__(self, place: str, host: Host | None = None) -> None:
        self.host = host or Host()
        found = mounts.mount_of(self.host.roots, os.path.realpath(place))
        if found is None or found.file_system != "btrfs":
            raise BadInputError(f"{place}: no btrfs is mounted there; name its mount point")
        self.mount = found
        self.place = found.mount_point
        self.name = f"btrfs:{self.place}"
        uuid, _ = mounts.btrfs_devices(self.host.roots, found)
        self.uuid = uuid or self._uuid_by_tool()
        self.base = self.host.roots.at_sys("fs", "btrfs", self.uuid)

    def _uuid_by_tool(self) -> str:
        match = re.search(r"uuid: ([0-9a-f-]{36})", self.host.must("btrfs", "filesystem", "show", self.place))
        if match is None:
            raise BrickyardError(f"{self.place}: `btrfs filesystem show` names no file system")
        return match.group(1)

    def identity(self) -> str:
        return f"btrfs {self.uuid}"

    def profiles(self) -> list[str]:
        """Of data and metadata; more than one of a kind after writes without a member."""
        return sorted({name for kind in ("data", "metadata") for name in self._profiles_of(kind)})

    def _profiles_of(self, kind: str) -> list[str]:
        return (mounts.btrfs_profiles(self.host.roots, self.uuid) or {}).get(kind, [])

    def redundancy(self) -> int:
        return min((LOSABLE.get(profile, 0) for profile in self.profiles()), default=0)

    def members(self) -> list[Member]:
        shown = parse_show(self.host.must("btrfs", "filesystem", "show", "--raw", self.place))
        errors = mounts.parse_btrfs_stats(self.host.run("btrfs", "device", "stats", self.place).out)
        found = []
        for devid, path in sorted(shown.items()):
            missing = path is None or text(self.base, "devinfo", str(devid), "missing") == "1"
            target = text(self.base, "devinfo", str(devid), "replace_target") == "1"
            state = "missing" if missing else "rebuilding" if target else "active"
            count = sum(errors.get(path or "", {}).values())
            found.append(Member(path or "–", state, devid, count))
        return found

    def state(self) -> State:
        missing = sum(text(self.base, "devinfo", devid, "missing") == "1" for devid in entries(self.base, "devinfo"))
        busy = text(self.base, "exclusive_operation")
        # Before Linux 5.10 sysfs does not tell, and the tool has to be asked each time.
        if busy is None or "replace" in busy:
            replacing = parse_replace_status(self.host.run("btrfs", "replace", "status", "-1", self.place).out)
            if replacing is not None:
                return State("rebuilding", replacing, "replace", max(missing, 1))
        if missing:
            return State("degraded", missing=missing)
        if "balance" in (busy or ""):
            return State("reshaping", None, "balance")
        scrub = parse_scrub_status(self.host.run("btrfs", "scrub", "status", "--raw", self.place).out)
        return State("normal") if scrub is None else State("scrubbing", scrub, "scrub")

    def sheet(self) -> Sheet:
        members = tuple(self.members())
        sizes = [number(self.host.roots.at_sys("class", "block", os.path.basename(m.name), "size")) for m in members]
        known = [size * 512 for size in sizes if size is not None]
        data = self._profiles_of("data")
        return Sheet(
            kind=self.kind,
            name=self.name,
            level="+".join(self.profiles()) or "unknown",
            size_bytes=usable_bytes(known, data[0]) if len(known) == len(members) and len(data) == 1 else None,
            state=self.state(),
            members=members,
            wanted=len(members),
            extra=KindFacts(uuid=self.uuid),
            identity=self.identity(),
            scrub=parse_scrub(self.host.run("btrfs", "scrub", "status", "--raw", self.place).out),
        )

    def fail_steps(self, member: str) -> list[MountStep]:
        """For a journal: between unmounting and mounting again the file system is nowhere."""
        others = [found.name for found in self.members() if found.state == "active" and not _same(found.name, member)]
        options = ",".join(["degraded", *self._options(), *(f"device={other}" for other in others)])
        return [MountStep(source=others[0], place=self.place, options=options, type="btrfs")]

    def _options(self) -> list[str]:
        words = [*self.mount.options.split(","), *self.mount.super_options.split(",")]
        kept = [word for word in dict.fromkeys(words) if word and not word.startswith(NO_OPTIONS)]
        subvolume = mounts.option(self.mount.super_options, "subvolid")
        return [word for word in kept if not word.startswith("subvolid=")] + (
            [f"subvolid={subvolume}"] if subvolume else []
        )

    def fail(self, member: str) -> None:
        step = self.fail_steps(member)[0]
        done = self.host.run("umount", self.place)
        if done.code != 0:
            raise BadInputError(
                f"{self.place}: is in use, so no member can be taken out: close what has files open there"
            )
        try:
            self.host.must("btrfs", "device", "scan", "--forget", member)
        finally:
            self.host.must("mount", "-t", step.type, "-o", step.options, step.source, step.place)

    def give_back(self, member: str) -> None:
        missing = next((found for found in self.members() if found.state == "missing"), None)
        if missing is None:
            return
        # Its own superblock from before makes btrfs think that it is mounted; any other one makes btrfs refuse it.
        if self.was_member(member):
            persistently(lambda: self.host.must("wipefs", "--quiet", "--all", "--types", "btrfs", member))
        self.host.must("btrfs", "replace", "start", str(missing.slot), member, self.place)

    def was_member(self, device: str) -> bool:
        return self.host.run("blkid", "-p", "-o", "value", "-s", "UUID", device).out.strip() == self.uuid

    def settle(self) -> None:
        """What was written while a member was missing may have fewer copies; it is given all of them."""
        found = mounts.btrfs_profiles(self.host.roots, self.uuid) or {}
        filters = []
        for kind, letter in (("data", "d"), ("metadata", "m")):
            names = found.get(kind, [])
            best = max(names, key=lambda name: LOSABLE.get(name, 0), default="")
            if len(names) > 1 and best in LOSABLE:
                filters.append(f"-{letter}convert={best},soft")
        if filters:
            self.host.must("btrfs", "balance", "start", *filters, self.place, timeout_s=3600)

    def replace(self, old: str, new: str) -> str:
        self.host.must("btrfs", "replace", "start", old, new, self.place)
        return f"{old} is copied to {new}, and what it cannot read is taken from its other copies"

    def add(self, device: str) -> None:
        self.host.must("btrfs", "device", "add", device, self.place)

    def start_scrub(self) -> None:
        self.host.must("btrfs", "scrub", "start", self.place)

    def stop_scrub(self) -> None:
        self.host.run("btrfs", "scrub", "cancel", self.place)

    def limit_settings(self, rate_bytes_per_s: int) -> list[tuple[str, str]]:
        """Since Linux 5.14: how fast each device is scrubbed, and read for a replacement."""
        paths = [os.path.join(self.base, "devinfo", name, "scrub_speed_max") for name in entries(self.base, "devinfo")]
        if not paths or not all(os.path.exists(path) for path in paths):
            raise self.cannot("accept a rebuild rate (before Linux 5.14)")
        return [(path, str(rate_bytes_per_s)) for path in paths]


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def usable_bytes(sizes: Sequence[int], profile: str) -> int | None:
    """Room for data on members of these sizes, before metadata; copies of a block are on different devices. None of a
    profile that is not known."""
    every, largest = sum(sizes), max(sizes, default=0)
    if parity := PARITY.get(profile):
        return max(0, len(sizes) - parity) * min(sizes, default=0)
    copies = COPIES.get(profile)
    if copies is None:
        return None
    room = every // copies
    return min(room, every - largest) if profile == "raid1" else room


def parse_show(content: str) -> dict[int, str | None]:
    """Device ids and paths of `btrfs filesystem show`; None where the device is missing."""
    found: dict[int, str | None] = {}
    for devid, path in re.findall(r"^\s*devid\s+(\d{1,9})\s+size .*? path (.*?)\s*$", content, re.MULTILINE):
        found[int(devid)] = None if "missing" in path.lower() or not path.startswith("/") else path
    return found


def parse_replace_status(content: str) -> float | None:
    """The share done while a replacement goes on."""
    match = re.match(r"\s*(\d{1,3}(?:\.\d{1,3})?)% done", content)
    return min(float(match.group(1)) / 100, 1.0) if match else None


def parse_scrub_status(content: str) -> float | None:
    """The share done while a scrub goes on; 0 where the tool does not tell yet."""
    # One that has just begun has no status yet, yet a time left.
    if not re.search(r"^(Status:\s+running|Time left:)", content, re.MULTILINE):
        return None
    match = re.search(r"Bytes scrubbed:.*\((\d{1,3}(?:\.\d{1,3})?)%\)", content)
    return min(float(match.group(1)) / 100, 1.0) if match else 0.0


def parse_scrub(content: str) -> Scrub:
    """The last scrub: whether it was whole, and how many errors it counted."""
    status = re.search(r"^Status:\s+(\w+)", content, re.MULTILINE)
    if status is None or status.group(1) == "running":
        return Scrub()
    summary = re.search(r"^Error summary:\s+(.*)$", content, re.MULTILINE)
    if summary is None:
        return Scrub(None, status.group(1) == "finished")
    errors = sum(int(count) for count in re.findall(r"=(\d{1,18})", summary.group(1)))
    return Scrub(errors, status.group(1) == "finished")


def btrfs_mounts(host: Host) -> list[str]:
    """The mount points of btrfs over several devices, each file system once."""
    found: dict[str, str] = {}
    for row in mounts.parse_mountinfo(text(host.roots.at_proc("self", "mountinfo")) or ""):
        if row.file_system == "btrfs":
            uuid, names = mounts.btrfs_devices(host.roots, row)
            several = len(names) > 1 or len(entries(host.roots.at_sys("fs", "btrfs", uuid or "", "devinfo"))) > 1
            if uuid and several:
                found.setdefault(uuid, row.mount_point)
    return list(found.values())

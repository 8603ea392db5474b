"""Duty: Linux software RAID: read from sysfs, changed through sysfs where that can do it and through mdadm where not.

Refusal: it does not decide whether a change is allowed or safe; `Array.check_redundant` and the verbs do.
"""

from __future__ import annotations

import os
import re

from brickyard.arrays.array import Array, KindFacts, Member, Scrub, Sheet, State, StateName
from brickyard.arrays.host import Host, persistently, wait_until
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.facts.arrays import parse_progress
from brickyard.facts.roots import as_number, entries, number, text
from brickyard.units import format_size

# Documentation/admin-guide/md.rst: what sync_action may say.
ACTIONS: dict[str, StateName] = {
    "resync": "initializing",
    "check": "scrubbing",
    "repair": "scrubbing",
    "reshape": "reshaping",
    "recover": "rebuilding",
}
KIB = 1024
LEVELS = ("raid0", "raid1", "raid4", "raid5", "raid6", "raid10", "linear")


class Md(Array):
    kind = "md"

    def __init__(self, name: str, host: Host | None = None) -> None:
        self.host = host or Host()
        self.device = name
        self.name = os.path.join(self.host.roots.dev, name)
        self.base = self.host.roots.at_sys("class", "block", name, "md")
        if not os.path.isdir(self.base):
            raise BadInputError(f"{self.name}: is no md array; `brickyard array list` shows what there is")

    def at(self, *parts: str) -> str:
        return os.path.join(self.base, *parts)

    def identity(self) -> str:
        uuid = text(self.at("uuid")) or ""
        # Metadata that the kernel does not manage (IMSM, DDF) show zeros here, the same for every array.
        return f"md {uuid if uuid.strip('0:-') else self.name}"

    def level(self) -> str:
        return text(self.at("level")) or "unknown"

    def state(self) -> State:
        held = text(self.at("array_state")) or "clear"
        action = text(self.at("sync_action")) or "idle"  # before `degraded`: a rebuild may end in between
        missing = number(self.at("degraded")) or 0
        if held in ("clear", "inactive", "suspended"):
            return State("inactive", detail=held, missing=missing)
        members = self.present()
        if held == "broken" or (missing and not self.has_data(members)):
            return State(
                "failed", detail=f"{missing} {'member is' if missing == 1 else 'members are'} missing", missing=missing
            )
        done = text(self.at("sync_completed")) or "none"
        # md says `recover` for a moment where a rebuild is needed and no spare is there (admin-guide/md.rst).
        empty = action == "recover" and not any(member.state == "rebuilding" for member in members)
        if action not in ACTIONS or empty:
            return State("degraded" if missing else "normal", missing=missing)
        if done == "delayed":
            return State(
                "delayed", 0.0, f"{action} waits until another array on the same disks has had its turn", missing
            )
        speed = number(self.at("sync_speed"))
        rate = None if speed is None else speed * KIB
        return State(ACTIONS[action], parse_progress(done), action, missing, rate)

    def sheet(self) -> Sheet:
        size = number(self.host.roots.at_sys("class", "block", self.device, "size"))
        component = number(self.at("component_size"))
        return Sheet(
            kind=self.kind,
            name=self.name,
            level=self.level(),
            size_bytes=None if size is None else size * 512,
            state=self.state(),
            members=tuple(self.members()),
            wanted=number(self.at("raid_disks")),
            extra=KindFacts(
                uuid=text(self.at("uuid")),
                component_bytes=None if component is None else component * KIB,
                chunk_bytes=number(self.at("chunk_size")),
                mismatches=number(self.at("mismatch_cnt")),
                last_sync_action=text(self.at("last_sync_action")),
            ),
            scrub=self.scrub(),
            identity=self.identity(),
            frozen=self.frozen(),
        )

    def scrub(self) -> Scrub:
        """What the last scrub found, where the last work was one: `repair` and `resync` count what they mended.

        md_do_sync() in drivers/md/md.c sets sync_min back to 0 at the end of a scrub, and leaves it where one stopped.
        """
        last = text(self.at("last_sync_action")) if text(self.at("sync_action")) == "idle" else None
        if last not in ("check", "repair", "resync"):
            return Scrub()
        whole = (text(self.at("sync_min")) or "0") == "0"
        return Scrub(number(self.at("mismatch_cnt")) if last == "check" else 0, whole)

    def frozen(self) -> str:
        """`sync_max` lets a rebuild or scrub wait at a sector; `frozen` lets none begin."""
        if text(self.at("sync_action")) == "frozen":
            return f"no rebuild or scrub begins (frozen); `echo idle > {self.at('sync_action')}` lets it"
        limit = text(self.at("sync_max")) or "max"
        if limit != "max":
            lets = f"`echo max > {self.at('sync_max')}` lets them go on"
            return f"rebuilds and scrubs wait at sector {limit} (sync_max); {lets}"
        return ""

    def has_data(self, members: list[Member]) -> bool:
        """Whether the active members still hold every block."""
        active = {member.slot for member in members if member.state == "active"}
        disks = number(self.at("raid_disks")) or 0
        if self.level() == "raid10":
            near, copies = self._copies()
            return raid10_has_data(active, disks, near, copies)
        return disks - len(active) <= self.redundancy()

    def _copies(self) -> tuple[int, int]:
        """Near copies, and all. The low byte counts near copies, the next one far ones (raid10.c, setup_geo)."""
        layout = number(self.at("layout")) or 0
        return layout & 0xFF, (layout & 0xFF) * (layout >> 8 & 0xFF)

    def present(self) -> list[Member]:
        found = [self._member(entry) for entry in entries(self.base) if entry.startswith("dev-")]
        return sorted(found, key=lambda member: (member.slot is None, member.slot or 0, member.name))

    def members(self) -> list[Member]:
        """Those it has; a slot without a member is told as `missing`."""
        found = self.present()
        taken = {member.slot for member in found if member.state in ("active", "rebuilding")}
        wanted = number(self.at("raid_disks")) or 0
        return found + [Member("–", "missing", slot) for slot in range(wanted) if slot not in taken]

    def _member(self, entry: str) -> Member:
        words = (text(self.at(entry, "state")) or "").split(",")
        slot = as_number(text(self.at(entry, "slot")))
        if "faulty" in words:
            state = "faulty"
        elif "in_sync" in words:
            state = "active"
        else:
            state = "spare" if slot is None else "rebuilding"
        path = os.path.join(self.host.roots.dev, entry.removeprefix("dev-").replace("!", "/"))
        return Member(path, state, slot, number(self.at(entry, "errors")))

    def redundancy(self) -> int:
        disks = number(self.at("raid_disks")) or 0
        level = self.level()
        if level == "raid1":
            return disks - 1
        if level == "raid10":
            return self._copies()[1] - 1
        return {"raid4": 1, "raid5": 1, "raid6": 2}.get(level, 0)

    def _entry(self, member: str) -> str:
        name = os.path.basename(os.path.realpath(member))
        entry = self.at(f"dev-{name}")
        if not os.path.isdir(entry):
            raise BadInputError(f"{member}: is no member of {self.name}")
        return entry

    def fail(self, member: str) -> None:
        entry = self._entry(member)
        self.host.must("mdadm", "--manage", self.name, "--fail", member)
        # md takes a failed member out of its slot first, and refuses to let go of it until then.
        wait_until(lambda: text(entry, "slot") in (None, "none"), f"{self.name}: the release of {member}")
        persistently(lambda: self.host.must("mdadm", "--manage", self.name, "--remove", member))

    def remove(self, member: str) -> None:
        """A faulty member or a spare; what its device carries stays."""
        entry = self._entry(member)
        if self._member(os.path.basename(entry)).state in ("active", "rebuilding"):
            raise BadInputError(f"{member}: is in use by {self.name}; `brickyard array fail` takes a member out")
        wait_until(lambda: text(entry, "slot") in (None, "none"), f"{self.name}: the release of {member}")
        persistently(lambda: self.host.must("mdadm", "--manage", self.name, "--remove", member))

    def give_back(self, member: str) -> None:
        """The old superblock goes first: with a write-intent bitmap md would copy only what has changed meanwhile."""
        if os.path.isdir(self.at(f"dev-{os.path.basename(os.path.realpath(member))}")):
            return
        persistently(lambda: self.forget_superblock(member))
        persistently(lambda: self.host.must("mdadm", "--manage", self.name, "--add", member))

    def was_member(self, device: str) -> bool:
        told = self.host.run("mdadm", "--examine", "--export", device).out
        uuid = next((line.removeprefix("MD_UUID=") for line in told.splitlines() if line.startswith("MD_UUID=")), "")
        return bool(uuid) and _digits(uuid) == _digits(text(self.at("uuid")) or "")

    def forget_superblock(self, member: str) -> None:
        done = self.host.run("mdadm", "--zero-superblock", member)
        if done.code != 0 and "Unrecognised" not in done.error:
            raise BrickyardError(f"mdadm --zero-superblock {member}: {one_line(done.error)}")

    def add(self, device: str) -> None:
        persistently(lambda: self.host.must("mdadm", "--manage", self.name, "--add", device))

    def replace(self, old: str, new: str) -> str:
        """An active member is copied while it serves. A faulty one cannot be read: it goes, and `new` is rebuilt."""
        state = self._member(os.path.basename(self._entry(old))).state
        is_spare = os.path.isdir(self.at(f"dev-{os.path.basename(os.path.realpath(new))}"))
        if state == "active":
            if self.state().missing:
                raise BadInputError(
                    f"{self.name}: a member is missing, and {new} would be rebuilt in its place first; add a member"
                    " with `brickyard array spare`, and replace after the rebuild"
                )
            if not is_spare:
                self.add(new)
            self.host.must("mdadm", "--manage", self.name, "--replace", old, "--with", new)
            return f"{old} is copied to {new}, and serves until the copy is whole"
        if state == "rebuilding":
            raise BadInputError(f"{old}: is being rebuilt; wait until it is active, or take it out with `array fail`")
        self.remove(old)
        if not is_spare:
            self.give_back(new)
        rebuilt = any(member.state == "rebuilding" for member in self.present())
        what = f"{self.name} rebuilds its content" if rebuilt else "no slot was empty"
        return f"{old} was {state} and is removed; {new} takes its place: {what}"

    def start_scrub(self) -> None:
        self.host.write(self.at("sync_action"), "check")

    def stop_scrub(self) -> None:
        if text(self.at("sync_action")) in ("check", "repair"):
            self.host.write(self.at("sync_action"), "idle")

    def start_initialization(self) -> None:
        """Forgets that the members agree: md brings them into agreement from the start, as it does with a new array."""
        self.host.write(self.at("sync_action"), "frozen")
        try:
            self.host.write(self.at("resync_start"), "0")
        finally:
            self.host.write(self.at("sync_action"), "idle")
        persistently(self._resync)

    def _resync(self) -> None:
        """md may have begun by itself, and is then too busy to be told."""
        if text(self.at("sync_action")) != "resync":
            self.host.write(self.at("sync_action"), "resync")

    def prepare_work(self) -> None:
        """A check that was broken off would go on where it stopped; work of ours begins at the start."""
        if (text(self.at("sync_min")) or "0") != "0":
            self.host.write(self.at("sync_min"), "0")

    def limit_settings(self, rate_bytes_per_s: int) -> list[tuple[str, str]]:
        if rate_bytes_per_s < KIB:
            raise BadInputError(f"a rebuild at {format_size(rate_bytes_per_s)}/s: md counts in KiB/s; at least 1 KiB/s")
        rate = str(rate_bytes_per_s // KIB)
        # Equal limits: md keeps the rate also while it competes with the load, and does not exceed it when idle.
        return [(self.at("sync_speed_min"), rate), (self.at("sync_speed_max"), rate)]

    def pause_settings(self) -> list[tuple[str, str]]:
        return [(self.at("sync_max"), "0")]


def _digits(uuid: str) -> str:
    """mdadm and the kernel group them differently."""
    return uuid.replace(":", "").replace("-", "").lower()


def restored_value(path: str, value: str | None) -> str:
    """What to write to a file of md so that it says again what it said: `1000 (system)` is written `system`."""
    match = re.search(r"\((system|local)\)$", value or "")
    if match:
        return "system" if match.group(1) == "system" else (value or "").split(" ")[0]
    return value or ("max" if path.endswith("sync_max") else "system")


def raid10_has_data(active: set[int | None], disks: int, near: int, copies: int) -> bool:
    """Whether each set of copies has an active member, as `_enough()` in drivers/md/raid10.c goes through them."""
    first = 0
    while near > 0 and disks > 0:
        if not any((first + copy) % disks in active for copy in range(copies)):
            return False
        first = (first + near) % disks
        if first == 0:
            return True
    return False


def md_names(host: Host) -> list[str]:
    """An md device that was stopped may stay for a while, cleared of its array."""
    base = host.roots.at_sys("class", "block")
    return [name for name in entries(base) if text(base, name, "md", "array_state") not in (None, "clear")]

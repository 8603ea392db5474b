"""Duty: pools of ZFS, from `zpool status -j` (OpenZFS 2.3 and later). Refusal: older versions tell no JSON; they are
refused rather than guessed at."""

from __future__ import annotations

import os
from collections.abc import Iterator

from brickyard.arrays.array import Array, Member, Scrub, Sheet, State
from brickyard.arrays.host import Host
from brickyard.errors import BadInputError
from brickyard.facts.health import dig, parse_json, whole
from brickyard.store import Json

LEAVES = ("disk", "file")
# zpool-status(8): what a leaf may say.
MEMBER_STATES = {
    "ONLINE": "active",
    "OFFLINE": "missing",
    "REMOVED": "missing",
    "UNAVAIL": "missing",
    "FAULTED": "faulty",
}
LOSABLE = {
    "mirror": 1,
    "raidz1": 1,
    "raidz": 1,
    "raidz2": 2,
    "raidz3": 3,
    "draid": 1,
    "draid1": 1,
    "draid2": 2,
    "draid3": 3,
}


class Zfs(Array):
    kind = "zfs"

    def __init__(self, pool: str, host: Host | None = None) -> None:
        self.host = host or Host()
        self.pool = pool
        self.name = f"zfs:{pool}"

    def _status(self) -> Json:
        done = self.host.run("zpool", "status", "-j", "--json-int", "-P", self.pool)
        found = dig(parse_json(done.out), "pools", self.pool)
        if not isinstance(found, dict):
            words = " ".join(done.error.split()) or "it tells no JSON; OpenZFS 2.3 or later is needed"
            raise BadInputError(f"{self.name}: zpool status: {words}")
        return found

    def identity(self) -> str:
        return f"zfs {self._status().get('pool_guid') or self.pool}"

    def state(self) -> State:
        return pool_state(self._status())

    def sheet(self) -> Sheet:
        told = self._status()
        members = tuple(pool_members(told))
        kinds = sorted({str(group.get("vdev_type")) for group in groups(told)})
        names = sorted({group_level(group) for group in groups(told)})
        return Sheet(
            kind=self.kind,
            name=self.name,
            level="+".join(names or kinds) or "unknown",
            size_bytes=None,
            state=pool_state(told),
            members=members,
            wanted=len(members),
            extra={"guid": told.get("pool_guid"), "errors": whole(told.get("error_count"))},
            identity=f"zfs {told.get('pool_guid') or self.pool}",
            scrub=scrub_of(told),
        )

    def redundancy(self) -> int:
        found = []
        for group in groups(self._status()):
            level = group_level(group)
            found.append(len(list(leaves(group))) - 1 if level == "mirror" else LOSABLE.get(level, 0))
        return min(found, default=0)

    def fail(self, member: str) -> None:
        self.host.must("zpool", "offline", self.pool, member)

    def give_back(self, member: str) -> None:
        """Without its label the pool rebuilds it whole; with it, only what has changed meanwhile."""
        self.host.run("zpool", "labelclear", "-f", member)
        self.host.must("zpool", "replace", "-f", self.pool, member)

    def start_scrub(self) -> None:
        self.host.must("zpool", "scrub", self.pool)

    def stop_scrub(self) -> None:
        if self.state().name == "scrubbing":
            self.host.run("zpool", "scrub", "-s", self.pool)


def children(node: Json) -> list[Json]:
    found = node.get("vdevs")
    return [child for child in found.values() if isinstance(child, dict)] if isinstance(found, dict) else []


def leaves(node: Json, depth: int = 0) -> Iterator[Json]:
    if node.get("vdev_type") in LEAVES:
        yield node
    elif depth < 8:  # root, group, replacing, spare, disk: five at the most
        for child in children(node):
            yield from leaves(child, depth + 1)


def groups(told: Json) -> list[Json]:
    """The top-level devices that carry data: mirrors, raidz groups, single disks."""
    return [group for root in children(told) for group in children(root)]


def group_level(group: Json) -> str:
    kind = str(group.get("vdev_type") or "")
    if kind in ("raidz", "draid"):
        return str(group.get("name") or kind).split("-")[0].split(":")[0]
    return kind


def pool_members(told: Json) -> Iterator[Member]:
    for slot, leaf in enumerate(leaf for group in groups(told) for leaf in leaves(group)):
        errors = [whole(leaf.get(f"{kind}_errors")) for kind in ("read", "write", "checksum")]
        known = [count for count in errors if count is not None]
        name = str(leaf.get("path") or leaf.get("name") or "–")
        state = MEMBER_STATES.get(str(leaf.get("state")), str(leaf.get("state") or "unknown").lower())
        yield Member(name, state, slot, sum(known) if known else None)


def scrub_of(told: Json) -> Scrub:
    """What the last scrub could not mend; a resilver that came after it hides it."""
    scan = told.get("scan_stats")
    if not isinstance(scan, dict) or scan.get("function") != "SCRUB" or scan.get("state") == "SCANNING":
        return Scrub()
    return Scrub(whole(scan.get("errors")), scan.get("state") == "FINISHED")


def pool_state(told: Json) -> State:
    missing = sum(member.state in ("missing", "faulty") for member in pool_members(told))
    scan = told.get("scan_stats")
    if isinstance(scan, dict) and scan.get("state") == "SCANNING":
        total = whole(scan.get("to_examine"))
        done = whole(scan.get("issued"))
        share = min(done / total, 1.0) if total and done is not None else None
        if scan.get("function") in ("RESILVER", "ERASERESILVER"):
            return State("rebuilding", share, "resilver", max(missing, 1))
        return State("scrubbing", share, "scrub", missing)
    health = str(told.get("state") or "")
    if health in ("FAULTED", "UNAVAIL", "SUSPENDED"):
        return State("failed", detail=health, missing=missing)
    if health == "DEGRADED" or missing:
        return State("degraded", detail=health, missing=missing)
    return State("normal" if health == "ONLINE" else "unknown", detail="" if health == "ONLINE" else health)


def zfs_pools(host: Host) -> list[str]:
    base = host.roots.at_proc("spl", "kstat", "zfs")
    if not os.path.isdir(base):
        return []
    return sorted(name for name in os.listdir(base) if os.path.isdir(os.path.join(base, name)))

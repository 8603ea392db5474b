"""Duty: pools of ZFS, from `zpool status -j` (OpenZFS 2.3 and later). Refusal: older versions tell no JSON; they are
refused rather than guessed at."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from brickyard.arrays.array import Array, KindFacts, Member, Scrub, Sheet, State
from brickyard.arrays.host import Host, told_as
from brickyard.errors import BadInputError
from brickyard.facts.health import whole

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


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """The last scrub or resilver. Counts are numbers or text, by release; `whole` reads them."""

    function: str = ""
    state: str = ""
    to_examine: object = None
    issued: object = None
    errors: object = None


class Vdev(msgspec.Struct, frozen=True, kw_only=True):
    """A device of a pool, with those that it is made of."""

    vdev_type: str = ""
    name: str = ""
    path: str = ""
    state: str = ""
    read_errors: object = None
    write_errors: object = None
    checksum_errors: object = None
    vdevs: dict[str, Vdev] = msgspec.field(default_factory=dict)


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    state: str = ""
    pool_guid: str | int | None = None
    error_count: object = None
    scan_stats: Scan | None = None
    vdevs: dict[str, Vdev] = msgspec.field(default_factory=dict)


class ZpoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    pools: dict[str, Pool] = msgspec.field(default_factory=dict)


class Zfs(Array):
    kind = "zfs"

    def __init__(self, pool: str, host: Host | None = None) -> None:
        self.host = host or Host()
        self.pool = pool
        self.name = f"zfs:{pool}"

    def _status(self) -> Pool:
        done = self.host.run("zpool", "status", "-j", "--json-int", "-P", self.pool)
        found = parse_status(done.out).get(self.pool)
        if found is None:
            words = " ".join(done.error.split()) or "its answer is not the JSON of OpenZFS 2.3 or later"
            raise BadInputError(f"{self.name}: zpool status: {words}")
        return found

    def identity(self) -> str:
        return f"zfs {self._status().pool_guid or self.pool}"

    def state(self) -> State:
        return pool_state(self._status())

    def sheet(self) -> Sheet:
        told = self._status()
        members = tuple(pool_members(told))
        kinds = sorted({group.vdev_type for group in groups(told)})
        names = sorted({group_level(group) for group in groups(told)})
        return Sheet(
            kind=self.kind,
            name=self.name,
            level="+".join(names or kinds) or "unknown",
            size_bytes=None,
            state=pool_state(told),
            members=members,
            wanted=len(members),
            extra=KindFacts(guid=told.pool_guid, errors=whole(told.error_count)),
            identity=f"zfs {told.pool_guid or self.pool}",
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


def parse_status(content: str) -> dict[str, Pool]:
    """The pools of `zpool status -j` by name; none where it tells no JSON."""
    told = told_as(content, ZpoolStatus)
    return told.pools if told else {}


def leaves(node: Vdev, depth: int = 0) -> Iterator[Vdev]:
    if node.vdev_type in LEAVES:
        yield node
    elif depth < 8:  # root, group, replacing, spare, disk: five at the most
        for child in node.vdevs.values():
            yield from leaves(child, depth + 1)


def groups(told: Pool) -> list[Vdev]:
    """The top-level devices that carry data: mirrors, raidz groups, single disks."""
    return [group for root in told.vdevs.values() for group in root.vdevs.values()]


def group_level(group: Vdev) -> str:
    if group.vdev_type in ("raidz", "draid"):
        return (group.name or group.vdev_type).split("-")[0].split(":")[0]
    return group.vdev_type


def pool_members(told: Pool) -> Iterator[Member]:
    for slot, leaf in enumerate(leaf for group in groups(told) for leaf in leaves(group)):
        errors = [whole(count) for count in (leaf.read_errors, leaf.write_errors, leaf.checksum_errors)]
        known = [count for count in errors if count is not None]
        state = MEMBER_STATES.get(leaf.state, leaf.state.lower() or "unknown")
        yield Member(leaf.path or leaf.name or "–", state, slot, sum(known) if known else None)


def scrub_of(told: Pool) -> Scrub:
    """What the last scrub could not mend; a resilver that came after it hides it."""
    scan = told.scan_stats
    if scan is None or scan.function != "SCRUB" or scan.state == "SCANNING":
        return Scrub()
    return Scrub(whole(scan.errors), scan.state == "FINISHED")


def pool_state(told: Pool) -> State:
    missing = sum(member.state in ("missing", "faulty") for member in pool_members(told))
    scan = told.scan_stats
    if scan is not None and scan.state == "SCANNING":
        total, done = whole(scan.to_examine), whole(scan.issued)
        share = min(done / total, 1.0) if total and done is not None else None
        if scan.function in ("RESILVER", "ERASERESILVER"):
            return State("rebuilding", share, "resilver", max(missing, 1))
        return State("scrubbing", share, "scrub", missing)
    health = told.state
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

"""Duty: what an array is to the rest of the house. Refusal: it knows no kind of array; the modules beside it do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType

from brickyard.arrays.steps import MountStep
from brickyard.errors import BadInputError
from brickyard.schema import Document, SampledState

StateName = Literal[
    "normal",
    "degraded",
    "rebuilding",
    "delayed",
    "scrubbing",
    "initializing",
    "reshaping",
    "failed",
    "inactive",
    "unknown",
]
"""The words that every kind shares. `delayed` is a rebuild that waits."""
STATE_NAMES: tuple[StateName, ...] = get_args(StateName)
UNDER_WAY: tuple[StateName, ...] = ("rebuilding", "delayed", "scrubbing", "initializing", "reshaping")


@dataclass(frozen=True)
class State:
    """What an array says of itself now."""

    name: StateName | SampledState
    """The latter of write caches, and of a neighbour's array (`conditions.hold`)."""
    progress_share: float | None = None
    detail: str = ""
    missing: int = 0
    """Members that it lacks; those being rebuilt count as missing."""
    rate_bytes_per_s: int | None = None


@dataclass(frozen=True)
class Member:
    name: str
    state: str
    """`active`, `spare`, `rebuilding`, `faulty`, `missing`, or the word of a controller that is none of these."""
    slot: int | None = None
    errors: int | None = None


@dataclass(frozen=True)
class Scrub:
    """What an array reports of its last scrub."""

    mismatches: int | None = None
    """Sectors of 512 bytes (md, LVM) or errors (btrfs, ZFS) that it found and left; None where nothing is reported."""
    complete: bool | None = None
    """Whether it read all; None where the array does not report it, or has had no scrub since it was started."""


class KindFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What some kinds of array report and others do not know: unset is what the kind does not have, None what it could
    not read."""

    uuid: str | UnsetType | None = UNSET
    component_bytes: int | UnsetType | None = UNSET
    """Of each member, the part that belongs to the array."""
    chunk_bytes: int | UnsetType | None = UNSET
    mismatches: int | UnsetType | None = UNSET
    last_sync_action: str | UnsetType | None = UNSET
    guid: str | int | UnsetType | None = UNSET
    errors: int | UnsetType | None = UNSET
    device: str | UnsetType | None = UNSET
    """Of a controller's array, how the kernel calls it."""
    write_cache: str | UnsetType | None = UNSET


NO_FACTS = KindFacts()


@dataclass(frozen=True)
class Sheet:
    """An array, its members and its state at one moment."""

    kind: str
    name: str
    level: str
    size_bytes: int | None
    state: State
    members: tuple[Member, ...]
    wanted: int | None = None
    """How many members it has when none is missing."""
    extra: KindFacts = NO_FACTS
    scrub: Scrub = Scrub()
    identity: str = ""
    """What `Array.identity` says; the name where it is empty."""
    frozen: str = ""
    """Why no rebuild or scrub can go on, and the command that lets it; empty where nothing holds it up."""

    @property
    def key(self) -> str:
        return self.identity or f"{self.kind} {self.name}"

    @property
    def active(self) -> int:
        return sum(member.state == "active" for member in self.members)

    @property
    def is_whole(self) -> bool:
        """Positive evidence only: it runs, reports no loss, and shows as many active members as it wants."""
        runs = self.state.name in ("normal", "scrubbing", "reshaping", "rebuilding", "delayed")
        return runs and self.state.missing == 0 and (self.wanted is None or self.active >= self.wanted)

    def document(self) -> Document:
        return {
            "kind": self.kind,
            "name": self.name,
            "identity": self.key,
            "level": self.level,
            "size_bytes": self.size_bytes,
            "state": self.state.name,
            "progress_share": self.state.progress_share,
            "detail": self.state.detail,
            "missing": self.state.missing,
            "rate_bytes_per_s": self.state.rate_bytes_per_s,
            "members_wanted": self.wanted,
            "members": [asdict(member) for member in self.members],
            "scrub": asdict(self.scrub),
            "frozen": self.frozen,
            **msgspec.to_builtins(self.extra),
        }


class Array:
    """One array. What its kind cannot do is refused by name."""

    kind = ""
    name = ""
    rebuilds_in_place = False
    """Whether a member is rebuilt without having been taken out."""

    def sheet(self) -> Sheet:
        raise NotImplementedError

    def state(self) -> State:
        return self.sheet().state

    def identity(self) -> str:
        """What stays the same when names change; a journal knows an array by it."""
        return f"{self.kind} {self.name}"

    def redundancy(self) -> int:
        """How many members it can lose when none is missing."""
        return 0

    def fail(self, member: str) -> None:
        raise self.cannot("take a member out")

    def give_back(self, member: str) -> None:
        """Puts a member that was taken out by `fail` back; the array then rebuilds it."""
        raise self.cannot("take a member back")

    def fail_steps(self, member: str) -> list[MountStep]:
        """What a journal must know beside the member, because `fail` itself might be cut short."""
        return []

    def was_member(self, device: str) -> bool:
        """Whether what a device carries is only what this array has left on it."""
        return False

    def rebuild(self, member: str) -> None:
        """Rebuilds a member where it is, for kinds that can."""
        raise self.cannot("rebuild a member in place")

    def settle(self) -> None:
        """Called when a rebuild has ended: whatever is left to be done until all is as it was."""

    def remove(self, member: str) -> None:
        """Lets go of a member that is faulty or a spare."""
        raise self.cannot("let go of a member")

    def start_scrub(self) -> None:
        raise self.cannot("scrub itself")

    def stop_scrub(self) -> None:
        raise self.cannot("end a scrub")

    def start_initialization(self) -> None:
        raise self.cannot("be initialized anew")

    def prepare_work(self) -> None:
        """Whatever must be so before work is begun or paused."""

    def limit_settings(self, rate_bytes_per_s: int) -> list[tuple[str, str]]:
        """Files and what to write to them so that a rebuild goes at this rate."""
        raise self.cannot("accept a rebuild rate")

    def pause_settings(self) -> list[tuple[str, str]]:
        """Files and what to write to them so that work that begins waits at its start; empty where it can't."""
        return []

    def cannot(self, what: str) -> BadInputError:
        return BadInputError(f"{self.name}: Brickyard cannot make {self.kind} {what}; do it with the array's own tool")

    def failable(self) -> str:
        """The member to take out: the last active one, as the first often boots the machine."""
        active = [member for member in self.sheet().members if member.state == "active"]
        if not active:
            raise BadInputError(f"{self.name}: no active member is known, so none can be taken out")
        return max(active, key=lambda member: -1 if member.slot is None else member.slot).name

    def check_redundant(self) -> None:
        """Refuses where one member less would be one too many, or where something goes on already."""
        state = self.state()
        if state.name != "normal":
            what = f"{state.name} ({state.detail})" if state.detail else state.name
            raise BadInputError(f"{self.name}: is {what}; a member is only taken out of an array that is normal")
        if self.redundancy() < 1:
            raise BadInputError(f"{self.name}: is {self.sheet().level}, which can lose no member; nothing was changed")

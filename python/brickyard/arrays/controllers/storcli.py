"""Duty: MegaRAID and PERC controllers by the JSON of StorCLI and perccli. Refusal: a rebuild rate is a share of the
controller's time there, so a rate in bytes is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from brickyard.arrays.array import Array, KindFacts, Member, Sheet, State, StateName
from brickyard.arrays.host import Host, told_as
from brickyard.errors import BadInputError, BrickyardError
from brickyard.facts.health import whole
from brickyard.ready import ready

T = TypeVar("T")
PROGRAMS = {"storcli": ("storcli64", "storcli"), "perccli": ("perccli64", "perccli")}
# StorCLI Reference Manual, legends below its tables.
VOLUME_STATES: dict[str, StateName] = {
    "Optl": "normal",
    "Dgrd": "degraded",
    "Pdgd": "degraded",
    "OfLn": "failed",
    "Rec": "rebuilding",
}
OPERATIONS: dict[str, StateName] = {"cc": "scrubbing", "init": "initializing", "migrate": "reshaping"}
DRIVE_STATES = {
    "Onln": "active",
    "Rbld": "rebuilding",
    "Offln": "faulty",
    "UBad": "faulty",
    "Failed": "faulty",
    "Msng": "missing",
    "GHS": "spare",
    "DHS": "spare",
    "UGood": "spare",
    "Cpybck": "rebuilding",
}
LOSABLE = {"RAID1": 1, "RAID5": 1, "RAID6": 2, "RAID10": 1, "RAID50": 1, "RAID60": 2}


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    words: str = msgspec.field(name="ErrMsg", default="")


class CommandStatus(msgspec.Struct, frozen=True, kw_only=True):
    controller: object = msgspec.field(name="Controller", default=None)
    status: str = msgspec.field(name="Status", default="Failure")
    description: str = msgspec.field(name="Description", default="")
    details: object = msgspec.field(name="Detailed Status", default=None)


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    status: CommandStatus = msgspec.field(name="Command Status")
    data: object = msgspec.field(name="Response Data", default=None)


class ToolAnswers(msgspec.Struct, frozen=True, kw_only=True):
    controllers: list[ToolAnswer] = msgspec.field(name="Controllers", default_factory=list)


class VolumeRow(msgspec.Struct, frozen=True, kw_only=True):
    group_and_volume: str = msgspec.field(name="DG/VD", default="")
    level: str = msgspec.field(name="TYPE", default="unknown")
    state: str = msgspec.field(name="State", default="")


class DriveRow(msgspec.Struct, frozen=True, kw_only=True):
    place: str = msgspec.field(name="EID:Slt", default="")
    state: str = msgspec.field(name="State", default="")


class Properties(msgspec.Struct, frozen=True, kw_only=True):
    """Of a volume. Counts are numbers or text, by release; `whole` reads them."""

    blocks: object = msgspec.field(name="Number of Blocks", default=None)
    spans: object = msgspec.field(name="Span Depth", default=None)
    drives_per_span: object = msgspec.field(name="Number of Drives Per Span", default=None)
    device: str | None = msgspec.field(name="OS Drive Name", default=None)
    naa: str | None = msgspec.field(name="SCSI NAA Id", default=None)
    write_cache: str | None = msgspec.field(name="Write Cache(initial setting)", default=None)


class OperationRow(msgspec.Struct, frozen=True, kw_only=True):
    share: object = msgspec.field(name="Progress%", default=None)
    status: str = msgspec.field(name="Status", default="")


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What one controller answered: whether it obeyed, its words, and the data, by headings or as rows."""

    controller: int
    status: str
    description: str
    data: object

    def part(self, heading: str, kind: type[T]) -> T | None:
        """What stands below a heading; None where that is not there, or is something else."""
        found = self.data.get(heading) if isinstance(self.data, dict) else None
        return _converted(found, kind)


@dataclass(frozen=True, kw_only=True)
class StorcliVolume:
    level: str
    state: str
    size_bytes: int | None
    members: tuple[Member, ...]
    wanted: int | None
    device: str | None
    naa: str | None
    write_cache: str | None


class Storcli(Array):
    def __init__(self, kind: str, path: str, host: Host) -> None:
        match = re.fullmatch(r"/c(\d{1,3})/v(\d{1,3})", path)
        if match is None:
            raise BadInputError(f"{kind}:{path}: write for example {kind}:/c0/v1")
        self.kind, self.path, self.host = kind, path, host
        self.controller, self.volume = int(match.group(1)), int(match.group(2))
        self.name = f"{kind}:{path}"

    @classmethod
    def all_of(cls, kind: str, host: Host) -> Iterator[Storcli]:
        program = _program(kind, host)
        if program is None:
            return
        done = host.run(program, "/call/vall", "show", "J")
        replies = parse_replies(done.out)
        if not replies:
            words = " ".join(done.error.split()) or "no JSON came back"
            raise BrickyardError(f"{program} /call/vall show: {words}")
        for told in replies:
            for row in told.part("Virtual Drives", list[VolumeRow]) or []:
                volume = row.group_and_volume.rpartition("/")[2]
                if volume.isdigit():
                    yield cls(kind, f"/c{told.controller}/v{volume}", host)

    def _ask(self, *arguments: str) -> list[Reply]:
        program = _program(self.kind, self.host)
        if program is None:
            raise BadInputError(f"{self.kind} is not installed; install it to look at {self.name}")
        done = self.host.run(program, *arguments, "J")
        replies = parse_replies(done.out)
        bad = next((reply for reply in replies if reply.status != "Success"), None)
        if not replies or bad is not None:
            words = bad.description if bad else " ".join(done.error.split()) or "no JSON came back"
            raise BrickyardError(f"{program} {' '.join(arguments)}: {words}")
        return replies

    def _volume(self) -> StorcliVolume | None:
        return parse_volume(self._ask(self.path, "show", "all")[0], self.path)

    def identity(self) -> str:
        told = self._volume()
        return f"{self.kind} {(told.naa if told else None) or self.path}"

    def sheet(self) -> Sheet:
        told = self._volume()
        if told is None:
            raise BadInputError(f"{self.name}: the controller has no such volume")
        members = told.members
        return Sheet(
            kind=self.kind,
            name=self.name,
            level=told.level.lower(),
            size_bytes=told.size_bytes,
            state=self._state(told, members),
            members=members,
            wanted=told.wanted or len(members) or None,
            extra=KindFacts(device=told.device, write_cache=told.write_cache),
            identity=f"{self.kind} {told.naa or self.path}",
        )

    def _state(self, told: StorcliVolume, members: tuple[Member, ...]) -> State:
        missing = sum(member.state in ("faulty", "missing", "rebuilding") for member in members)
        missing = max(missing, (told.wanted or 0) - len(members))
        rebuilt = [member for member in members if member.state == "rebuilding"]
        if rebuilt:
            drive = drive_path(self.controller, rebuilt[0].name)
            return State("rebuilding", parse_progress(self._ask(drive, "show", "rebuild")), "rebuild", missing)
        for operation, name in OPERATIONS.items():
            share = parse_progress(self._ask(self.path, "show", operation))
            if share is not None:
                return State(name, share, operation, missing)
        state = VOLUME_STATES.get(told.state, "unknown")
        return State(state, detail="" if state == "normal" else told.state, missing=missing)

    def redundancy(self) -> int:
        told = self._volume()
        return LOSABLE.get(told.level, 0) if told else 0

    def fail(self, member: str) -> None:
        self._ask(drive_path(self.controller, member), "set", "offline")

    def give_back(self, member: str) -> None:
        """Never `set online`, which would take the stale data for good."""
        self._ask(drive_path(self.controller, member), "start", "rebuild")

    def start_scrub(self) -> None:
        self._ask(self.path, "start", "cc", "force")

    def stop_scrub(self) -> None:
        self._ask(self.path, "stop", "cc")


def _program(kind: str, host: Host) -> str | None:
    return next((name for name in PROGRAMS[kind] if host.roots.tools.find(name)), None)


def drive_path(controller: int, member: str) -> str:
    """`252:3` (enclosure and slot) as the tool names it; a drive without an enclosure has a slot alone."""
    match = re.fullmatch(r"(\d{1,4})?\s*:(\d{1,4})", member)
    if match is None:
        raise BadInputError(f"{member}: is no drive of a controller; write ENCLOSURE:SLOT, such as 252:3")
    enclosure = f"/e{match.group(1)}" if match.group(1) else ""
    return f"/c{controller}{enclosure}/s{match.group(2)}"


def _converted(value: object, kind: type[T]) -> T | None:
    ready(kind)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None


def parse_replies(content: str) -> list[Reply]:
    """Of each controller; none where the tool tells no JSON."""
    told = told_as(content, ToolAnswers)
    found = []
    for answer in told.controllers if told else []:
        status = answer.status
        details = _converted(status.details, list[Detail]) or []
        words = "; ".join(detail.words for detail in details if detail.words)
        found.append(
            Reply(
                controller=whole(status.controller) or 0,
                status=status.status,
                description=words or status.description or "it failed without a word",
                data=answer.data,
            )
        )
    return found


def parse_volume(told: Reply, path: str) -> StorcliVolume | None:
    """One volume of `show all`; None where it is not among them."""
    volume = path.rpartition("/v")[2]
    rows = told.part(path, list[VolumeRow])
    if not rows:
        return None
    properties = told.part(f"VD{volume} Properties", Properties) or Properties()
    drives = told.part(f"PDs for VD {volume}", list[DriveRow]) or []
    spans, each, blocks = whole(properties.spans), whole(properties.drives_per_span), whole(properties.blocks)
    return StorcliVolume(
        level=rows[0].level,
        state=rows[0].state,
        size_bytes=None if blocks is None else blocks * 512,
        members=tuple(
            Member(drive.place.strip() or "–", DRIVE_STATES.get(drive.state, drive.state or "unknown"), number)
            for number, drive in enumerate(drives)
        ),
        wanted=spans * each if spans and each else None,
        device=properties.device,
        naa=properties.naa,
        write_cache=properties.write_cache,
    )


def parse_progress(replies: list[Reply]) -> float | None:
    """The share done where something is in progress; 0 where it has begun and does not tell yet."""
    for reply in replies:
        rows = _converted(reply.data, list[OperationRow]) or reply.part("VD Operation Status", list[OperationRow]) or []
        share = next((whole(row.share) or 0 for row in rows if row.status.lower() == "in progress"), None)
        if share is not None:
            return min(share / 100, 1.0)
    return None

"""Duty: Adaptec controllers by the text of arcconf. Refusal: a drive is told by channel and number, never by guess."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from brickyard.arrays.array import Array, KindFacts, Member, Sheet, State, StateName
from brickyard.arrays.host import Host
from brickyard.errors import BadInputError, BrickyardError
from brickyard.ready import ready
from brickyard.units import MIB

STATES: dict[str, StateName] = {
    "optimal": "normal",
    "degraded": "degraded",
    "suboptimal": "degraded",
    "failed": "failed",
    "offline": "failed",
    "impacted": "initializing",
}
TASKS: dict[str, StateName] = {
    "rebuild": "rebuilding",
    "build/verify": "initializing",
    "build": "initializing",
    "clear": "initializing",
    "verify": "scrubbing",
    "verify with fix": "scrubbing",
    "modification": "reshaping",
    "migration": "reshaping",
}
SEGMENTS = {
    "present": "active",
    "missing": "missing",
    "rebuilding": "rebuilding",
    "inconsistent": "rebuilding",
    "failed": "faulty",
}
LOSABLE = {"1": 1, "10": 1, "1e": 1, "5": 1, "5ee": 1, "50": 1, "6": 2, "60": 2}


@dataclass(frozen=True, kw_only=True)
class LogicalDevice:
    """A part of `getconfig N ld`."""

    level: str
    status: str
    size_bytes: int | None
    device: str | None
    members: tuple[Member, ...]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is in progress on one, as `getstatus N` says."""

    operation: str
    share: float | None


class Arcconf(Array):
    kind = "arcconf"

    def __init__(self, path: str, host: Host) -> None:
        match = re.fullmatch(r"(\d{1,3})/(\d{1,3})", path)
        if match is None:
            raise BadInputError(f"arcconf:{path}: write CONTROLLER/LOGICAL DEVICE, such as arcconf:1/0")
        self.host, self.controller, self.device = host, match.group(1), int(match.group(2))
        self.name = f"arcconf:{path}"

    @classmethod
    def all_of(cls, host: Host) -> Iterator[Arcconf]:
        if host.roots.tools.find("arcconf") is None:
            return
        count = re.search(r"Controllers found:\s*(\d{1,3})", _ask(host, "getversion"))
        for controller in range(1, int(count.group(1)) + 1 if count else 1):
            for number in parse_logical(_ask(host, "getconfig", str(controller), "ld")):
                yield cls(f"{controller}/{number}", host)

    def _ask(self, *arguments: str) -> str:
        return _ask(self.host, *arguments)

    def _told(self) -> LogicalDevice:
        found = parse_logical(self._ask("getconfig", self.controller, "ld")).get(self.device)
        if found is None:
            raise BadInputError(f"{self.name}: the controller has no such logical device")
        return found

    def sheet(self) -> Sheet:
        told = self._told()
        members = told.members
        missing = sum(member.state != "active" for member in members)
        task = parse_tasks(self._ask("getstatus", self.controller)).get(self.device)
        state = STATES.get(told.status.split(",")[0].strip().lower(), "unknown")
        shown = State(state, None, "" if state == "normal" else told.status, missing)
        if task is not None:
            shown = State(TASKS.get(task.operation.lower(), "unknown"), task.share, task.operation, missing)
        return Sheet(
            kind=self.kind,
            name=self.name,
            level=f"raid{told.level}" if told.level else "unknown",
            size_bytes=told.size_bytes,
            state=shown,
            members=members,
            wanted=len(members) or None,
            extra=KindFacts(device=told.device),
        )

    def redundancy(self) -> int:
        return LOSABLE.get(self._told().level.lower(), 0)

    def _address(self, member: str) -> list[str]:
        """A segment is known by its drive's serial number; commands want channel and number."""
        found = parse_drives(self._ask("getconfig", self.controller, "pd")).get(member)
        if found is None:
            raise BadInputError(f"{member}: no drive of controller {self.controller} has this serial number")
        return list(found)

    def fail(self, member: str) -> None:
        self._ask("setstate", self.controller, "device", *self._address(member), "ddd", "noprompt")

    def give_back(self, member: str) -> None:
        """As a spare of this logical device, which the controller rebuilds onto at once."""
        address = self._address(member)
        self._ask("setstate", self.controller, "device", *address, "rdy", "noprompt")
        spare = ["hsp", "logicaldrive", str(self.device), "noprompt"]
        self._ask("setstate", self.controller, "device", *address, *spare)

    def start_scrub(self) -> None:
        self._ask("task", "start", self.controller, "logicaldrive", str(self.device), "verify", "noprompt")

    def stop_scrub(self) -> None:
        self._ask("task", "stop", self.controller, "logicaldrive", str(self.device))


def _ask(host: Host, *arguments: str) -> str:
    done = host.run("arcconf", *arguments)
    if done.code != 0 or not done.out.strip():
        words = " ".join((done.error or done.out).split())
        raise BrickyardError(f"arcconf {' '.join(arguments)}: {words or f'no answer, exit code {done.code}'}")
    return done.out


class _LogicalFields(msgspec.Struct, frozen=True):
    level: str = msgspec.field(name="raid level", default="")
    status: str = msgspec.field(name="status of logical device", default="unknown")
    size: str = ""
    names: str = msgspec.field(name="disk name", default="")


class _TaskFields(msgspec.Struct, frozen=True):
    device: str = msgspec.field(name="logical device", default="")
    percentage: str = msgspec.field(name="percentage complete", default="")
    status: str = ""
    operation: str = msgspec.field(name="current operation", default="unknown")


class _DriveFields(msgspec.Struct, frozen=True):
    serial: str = msgspec.field(name="serial number", default="")


ready(_LogicalFields, _TaskFields, _DriveFields)


def parse_logical(content: str) -> dict[int, LogicalDevice]:
    """The logical devices of `getconfig N ld`."""
    found: dict[int, LogicalDevice] = {}
    for part in re.split(r"^\s*Logical Device number\s+", content, flags=re.MULTILINE | re.IGNORECASE)[1:]:
        number = re.match(r"\d{1,3}", part)
        if number is None:
            continue
        fields = msgspec.convert(_fields(part), _LogicalFields)
        size = re.match(r"(\d{1,12}) MB", fields.size)
        found[int(number.group(0))] = LogicalDevice(
            level=fields.level.split(" ")[0],
            status=fields.status,
            size_bytes=int(size.group(1)) * MIB if size else None,
            device=next((word for word in fields.names.split() if word.startswith("/dev/")), None),
            members=tuple(_segments(part)),
        )
    return found


def _segments(part: str) -> Iterator[Member]:
    pattern = r"^\s*(?:Group \d{1,3}, )?Segment (\d{1,3})\s*:\s*(\w+)\s*(?:\([^)\n]*\))?[ \t]*(\S*)[ \t]*$"
    for match in re.finditer(pattern, part, re.MULTILINE):
        state = SEGMENTS.get(match.group(2).lower(), match.group(2).lower())
        yield Member(match.group(3) or "–", state, int(match.group(1)))


def _fields(part: str) -> dict[str, str]:
    """The first `name : value` of each name."""
    found: dict[str, str] = {}
    for match in re.finditer(r"^\s*([A-Za-z][\w /,()-]*?)\s*: (.*)$", part, re.MULTILINE):
        found.setdefault(match.group(1).lower(), match.group(2).strip())
    return found


def parse_tasks(content: str) -> dict[int, Task]:
    """What `getstatus N` says is in progress, by logical device."""
    found: dict[int, Task] = {}
    for part in re.split(r"^\s*Logical device Task\s*:?", content, flags=re.MULTILINE | re.IGNORECASE)[1:]:
        fields = msgspec.convert(_fields(part), _TaskFields)
        number = re.match(r"\d{1,3}", fields.device)
        share = re.match(r"\d{1,3}", fields.percentage)
        if number and fields.status.lower() == "in progress":
            found[int(number.group(0))] = Task(
                operation=fields.operation,
                share=min(int(share.group(0)) / 100, 1.0) if share else None,
            )
    return found


def parse_drives(content: str) -> dict[str, tuple[str, str]]:
    """Channel and number of each drive of `getconfig N pd`, by serial number."""
    found: dict[str, tuple[str, str]] = {}
    for part in re.split(r"^\s*Device #\d{1,4}\s*$", content, flags=re.MULTILINE)[1:]:
        serial = msgspec.convert(_fields(part), _DriveFields).serial
        place = re.search(r"Reported Channel,Device\(T:L\)\s*:\s*(\d{1,4}),(\d{1,4})", part)
        if place and serial:
            found[serial] = (place.group(1), place.group(2))
    return found

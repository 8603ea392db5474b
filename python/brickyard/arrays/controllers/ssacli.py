"""Duty: HPE Smart Array controllers by the text of ssacli (also hpssacli and hpacucli, its older names).

Refusal: ssacli has no command that drops a member or begins a rebuild, so these arrays are only watched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from brickyard.arrays.array import Array, KindFacts, Member, Sheet, State
from brickyard.arrays.host import Host
from brickyard.errors import BadInputError, BrickyardError

PROGRAMS = ("ssacli", "hpssacli", "hpacucli")
UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
DRIVES = {"ok": "active", "failed": "faulty", "rebuilding": "rebuilding", "predictive failure": "active"}


@dataclass
class LogicalDrive:
    """A part of `ld all show detail`, with the array that it is in."""

    array: str
    level: str = ""
    status: str = ""
    size_bytes: int | None = None
    device: str | None = None
    parity: str = ""


class Ssacli(Array):
    kind = "ssacli"

    def __init__(self, path: str, host: Host) -> None:
        match = re.fullmatch(r"(\d{1,3})/(\d{1,3})", path)
        if match is None:
            raise BadInputError(f"ssacli:{path}: write SLOT/LOGICAL DRIVE, such as ssacli:0/1")
        self.host, self.slot, self.drive = host, match.group(1), int(match.group(2))
        self.name = f"ssacli:{path}"

    @classmethod
    def all_of(cls, host: Host) -> Iterator[Ssacli]:
        program = _program(host)
        if program is None:
            return
        for slot in re.findall(r"in Slot (\d{1,3})", _ask(host, program, "ctrl", "all", "show")):
            for number in parse_logical(_ask(host, program, "ctrl", f"slot={slot}", "ld", "all", "show", "detail")):
                yield cls(f"{slot}/{number}", host)

    def sheet(self) -> Sheet:
        program = _program(self.host)
        if program is None:
            raise BadInputError(f"ssacli is not installed; install it to look at {self.name}")
        done = self.host.run(program, "ctrl", f"slot={self.slot}", "ld", "all", "show", "detail")
        told = parse_logical(done.out).get(self.drive)
        if told is None:
            words = " ".join((done.error or done.out).split())[:200]
            if done.code != 0:
                raise BrickyardError(f"{program}: {words or f'exit code {done.code}'}")
            raise BadInputError(f"{self.name}: the controller has no such logical drive")
        drives = self.host.run(program, "ctrl", f"slot={self.slot}", "pd", "all", "show").out
        members = tuple(parse_drives(drives).get(told.array, []))
        missing = sum(member.state in ("faulty", "rebuilding") for member in members)
        return Sheet(
            kind=self.kind,
            name=self.name,
            level=f"raid{told.level}" if told.level else "unknown",
            size_bytes=told.size_bytes,
            state=drive_state(told, missing),
            members=members,
            wanted=sum(member.state != "spare" for member in members) or None,
            extra=KindFacts(device=told.device),
        )


def _program(host: Host) -> str | None:
    return next((name for name in PROGRAMS if host.roots.tools.find(name)), None)


def _ask(host: Host, program: str, *arguments: str) -> str:
    done = host.run(program, *arguments)
    if not done.out.strip():
        words = " ".join(done.error.split()) or f"no answer, exit code {done.code}"
        raise BrickyardError(f"{program} {' '.join(arguments)}: {words}")
    return done.out


def parse_logical(content: str) -> dict[int, LogicalDrive]:
    """The logical drives of `ld all show detail`, with the array that each is in."""
    found: dict[int, LogicalDrive] = {}
    array, current = "", None
    for line in content.splitlines():
        words = line.strip()
        if match := re.match(r"[Aa]rray:? (\w{1,3})\b", words):
            array, current = match.group(1), None
        elif match := re.fullmatch(r"Logical Drive: (\d{1,3})", words):
            current = LogicalDrive(array)
            found[int(match.group(1))] = current
        elif current is not None and (match := re.match(r"([\w ()/]{1,60}): (.*)$", words)):
            _put(current, match.group(1), match.group(2).strip())
    return found


def _put(current: LogicalDrive, name: str, value: str) -> None:
    if name == "Fault Tolerance":
        current.level = value.split(" ", maxsplit=1)[0].removeprefix("RAID").replace("+", "").lower()
    elif name == "Status":
        current.status = value
    elif name == "Size":
        match = re.match(r"(\d{1,9}(?:\.\d{1,4})?) (MB|GB|TB|PB)", value)
        current.size_bytes = int(float(match.group(1)) * UNITS[match.group(2)]) if match else None
    elif name == "Disk Name":
        current.device = value.split(" ", maxsplit=1)[0] if value.startswith("/dev/") else None
    elif name.startswith("Parity Initialization"):
        current.parity = f"{current.parity} {value}".strip()


def drive_state(told: LogicalDrive, missing: int) -> State:
    """Out of the words that its user guide lists for the status of a logical drive."""
    status = told.status
    lower = status.lower()
    match = re.search(r"(\d{1,3}(?:\.\d{1,3})?)\s?%", status)
    share = min(float(match.group(1)) / 100, 1.0) if match else None
    if lower.startswith(("recovering", "rebuilding")):
        return State("rebuilding", share, status, max(missing, 1))
    if lower.startswith(("ready for rebuild", "waiting for rebuild")):
        return State("delayed", share, status, max(missing, 1))
    if lower.startswith(("interim recovery", "degraded", "ready for recovery")):
        return State("degraded", detail=status, missing=max(missing, 1))
    if "expan" in lower or "transform" in lower:
        return State("reshaping", share, status, missing)
    if lower.startswith("failed") or "disabled" in lower:
        return State("failed", detail=status, missing=missing)
    if "in progress" in told.parity.lower():
        match = re.search(r"(\d{1,3}(?:\.\d{1,3})?)\s?%", told.parity)
        return State("initializing", min(float(match.group(1)) / 100, 1.0) if match else None, "parity initialization")
    return State("normal" if lower == "ok" else "unknown", detail="" if lower == "ok" else status, missing=missing)


def parse_drives(content: str) -> dict[str, list[Member]]:
    """The drives of `pd all show` by array; each line ends with its state, and spares say so."""
    found: dict[str, list[Member]] = {}
    array = ""
    for line in content.splitlines():
        words = line.strip()
        if match := re.match(r"[Aa]rray:? (\w{1,3})\b", words):
            array = match.group(1)
        elif words.lower().startswith("unassigned"):
            array = ""
        elif array and (match := re.match(r"physicaldrive (\S+) \((.*)\)$", words)):
            cells = [cell.strip().lower() for cell in match.group(2).split(",")]
            is_spare = cells[-1] == "spare"
            state = cells[-2] if is_spare and len(cells) > 1 else cells[-1]
            members = found.setdefault(array, [])
            members.append(Member(match.group(1), "spare" if is_spare else DRIVES.get(state, state), len(members)))
    return found

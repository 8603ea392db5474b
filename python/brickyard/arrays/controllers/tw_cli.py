"""Duty: 3ware controllers by the text of tw_cli. Refusal: it tells no device names, so a unit must be named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from brickyard.arrays.array import Array, Member, Sheet, State, StateName
from brickyard.arrays.host import Host
from brickyard.errors import BadInputError, BrickyardError
from brickyard.units import GIB

# tw_cli(8): states of a unit; a paused one has not ended.
UNIT_STATES: dict[str, StateName] = {
    "OK": "normal",
    "DEGRADED": "degraded",
    "INOPERABLE": "failed",
    "REBUILDING": "rebuilding",
    "REBUILD-PAUSED": "delayed",
    "RECOVERY": "rebuilding",
    "INITIALIZING": "initializing",
    "INIT-PAUSED": "delayed",
    "VERIFYING": "scrubbing",
    "VERIFY-PAUSED": "delayed",
    "MIGRATING": "reshaping",
    "MIGRATE-PAUSED": "delayed",
}
DISK_STATES = {"OK": "active", "DEGRADED": "missing", "REBUILDING": "rebuilding", "SMARTFAIL": "faulty"}
LOSABLE = {"RAID-1": 1, "RAID-5": 1, "RAID-6": 2, "RAID-10": 1, "RAID-50": 1}


@dataclass(frozen=True, kw_only=True)
class UnitRow:
    """A row of `show unitstatus`."""

    level: str
    status: str
    share: float | None
    size_bytes: int | None


class TwCli(Array):
    kind = "tw_cli"

    def __init__(self, path: str, host: Host) -> None:
        match = re.fullmatch(r"/c(\d{1,3})/u(\d{1,3})", path)
        if match is None:
            raise BadInputError(f"tw_cli:{path}: write for example tw_cli:/c0/u0")
        self.path, self.host = path, host
        self.controller = f"/c{match.group(1)}"
        self.unit = f"u{match.group(2)}"
        self.name = f"tw_cli:{path}"

    @classmethod
    def all_of(cls, host: Host) -> Iterator[TwCli]:
        if host.roots.tools.find("tw_cli") is None:
            return
        for controller in parse_controllers(_ask(host, "show")):
            for unit in parse_units(_ask(host, f"/{controller}", "show", "unitstatus")):
                yield cls(f"/{controller}/{unit}", host)

    def _ask(self, *arguments: str) -> str:
        return _ask(self.host, *arguments)

    def sheet(self) -> Sheet:
        told = parse_units(self._ask(self.controller, "show", "unitstatus")).get(self.unit)
        if told is None:
            raise BadInputError(f"{self.name}: the controller has no such unit")
        members = tuple(parse_subunits(self._ask(self.path, "show")))
        missing = sum(member.state in ("missing", "rebuilding", "faulty") for member in members)
        state = UNIT_STATES.get(told.status, "unknown")
        return Sheet(
            kind=self.kind,
            name=self.name,
            level=told.level.lower(),
            size_bytes=told.size_bytes,
            state=State(state, told.share, "" if state == "normal" else told.status, missing),
            members=members,
            wanted=len(members) or None,
        )

    def redundancy(self) -> int:
        told = parse_units(self._ask(self.controller, "show", "unitstatus")).get(self.unit)
        return LOSABLE.get(told.level, 0) if told else 0

    def fail(self, member: str) -> None:
        self._ask(f"{self.controller}/{_port(member)}", "remove", "quiet")

    def give_back(self, member: str) -> None:
        """A rescan finds the drive again; it belongs to no unit then, and is rebuilt into this one."""
        self._ask(self.controller, "rescan", "noscan")
        self._ask(self.path, "start", "rebuild", f"disk={_port(member).removeprefix('p')}")

    def start_scrub(self) -> None:
        self._ask(self.path, "start", "verify")

    def stop_scrub(self) -> None:
        self._ask(self.path, "stop", "verify")


def _ask(host: Host, *arguments: str) -> str:
    done = host.run("tw_cli", *arguments)
    if done.code != 0 or not done.out.strip() or re.search(r"^(Error|error):", done.out, re.MULTILINE):
        words = " ".join((done.error + done.out).split())
        raise BrickyardError(f"tw_cli {' '.join(arguments)}: {words or 'it answers nothing'}")
    return done.out


def _port(member: str) -> str:
    if not re.fullmatch(r"p\d{1,3}", member):
        raise BadInputError(f"{member}: is no port of a 3ware controller; write for example p3")
    return member


def parse_controllers(content: str) -> list[str]:
    return re.findall(r"^(c\d{1,3})\s", content, re.MULTILINE)


def parse_units(content: str) -> dict[str, UnitRow]:
    """The rows of `show unitstatus`; its columns have changed between releases, so they are found by their headings."""
    heading = re.search(r"^Unit\s+UnitType\s+Status.*$", content, re.MULTILINE)
    if heading is None:
        return {}
    names = heading.group(0).split()
    found: dict[str, UnitRow] = {}
    for line in content[heading.end() :].splitlines():
        cells = line.split()
        if len(cells) < 3 or not re.fullmatch(r"u\d{1,3}", cells[0]):
            continue
        row = dict(zip(names, cells, strict=False))
        shares = [_share(row.get(name)) for name in ("%RCmpl", "%V/I/M", "%Cmpl")]
        size = re.fullmatch(r"\d{1,9}(\.\d{1,6})?", row.get("Size(GB)") or "")
        found[cells[0]] = UnitRow(
            level=cells[1],
            status=cells[2],
            share=next((share for share in shares if share is not None), None),
            size_bytes=int(float(size.group(0)) * GIB) if size else None,
        )
    return found


def parse_subunits(content: str) -> Iterator[Member]:
    """The drives of `/cX/uY show`: rows whose type is DISK, with a port or a dash where it is gone."""
    for number, match in enumerate(re.finditer(r"^u\d{1,3}-\d[\d-]*\s+DISK\s+(\S+)\s+(.*)$", content, re.MULTILINE)):
        port = re.search(r"(?<!\S)(p\d{1,3})(?!\S)", match.group(2))
        state = DISK_STATES.get(match.group(1), match.group(1).lower())
        yield Member(port.group(1) if port else "–", state, number)


def _share(words: str | None) -> float | None:
    match = re.match(r"(\d{1,3})%", words or "")
    return min(int(match.group(1)) / 100, 1.0) if match else None

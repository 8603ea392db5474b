"""Duty: MegaRAID and PERC controllers by the JSON of StorCLI and perccli. Refusal: a rebuild rate is a share of the
controller's time there, so a rate in bytes is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

from brickyard.arrays.array import Array, Member, Sheet, State
from brickyard.arrays.host import Host
from brickyard.errors import BadInputError, BrickyardError
from brickyard.facts.health import dig, parse_json, whole
from brickyard.store import Json

PROGRAMS = {"storcli": ("storcli64", "storcli"), "perccli": ("perccli64", "perccli")}
# StorCLI Reference Manual, legends below its tables.
VOLUME_STATES = {"Optl": "normal", "Dgrd": "degraded", "Pdgd": "degraded", "OfLn": "failed", "Rec": "rebuilding"}
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
            for row in told.get("Virtual Drives") or []:
                volume = str(row.get("DG/VD") if isinstance(row, dict) else "").rpartition("/")[2]
                if volume.isdigit():
                    yield cls(kind, f"/c{told['controller']}/v{volume}", host)

    def _ask(self, *arguments: str) -> list[Json]:
        program = _program(self.kind, self.host)
        if program is None:
            raise BadInputError(f"{self.kind} is not installed; install it to look at {self.name}")
        done = self.host.run(program, *arguments, "J")
        replies = parse_replies(done.out)
        bad = next((reply for reply in replies if reply["status"] != "Success"), None)
        if not replies or bad is not None:
            words = str(bad["description"]) if bad else " ".join(done.error.split()) or "no JSON came back"
            raise BrickyardError(f"{program} {' '.join(arguments)}: {words}")
        return replies

    def identity(self) -> str:
        told = parse_volume(self._ask(self.path, "show", "all")[0], self.path)
        return f"{self.kind} {told.get('naa') or self.path}"

    def sheet(self) -> Sheet:
        told = parse_volume(self._ask(self.path, "show", "all")[0], self.path)
        if not told:
            raise BadInputError(f"{self.name}: the controller has no such volume")
        members = tuple(told["members"])
        return Sheet(
            kind=self.kind,
            name=self.name,
            level=str(told["level"]).lower(),
            size_bytes=told["size_bytes"],
            state=self._state(told, members),
            members=members,
            wanted=told["wanted"] or len(members) or None,
            extra={"device": told["device"], "write_cache": told["write_cache"]},
            identity=f"{self.kind} {told.get('naa') or self.path}",
        )

    def _state(self, told: Json, members: tuple[Member, ...]) -> State:
        missing = sum(member.state in ("faulty", "missing", "rebuilding") for member in members)
        missing = max(missing, (told["wanted"] or 0) - len(members))
        rebuilt = [member for member in members if member.state == "rebuilding"]
        if rebuilt:
            drive = drive_path(self.controller, rebuilt[0].name)
            return State("rebuilding", parse_progress(self._ask(drive, "show", "rebuild")), "rebuild", missing)
        for operation, name in (("cc", "scrubbing"), ("init", "initializing"), ("migrate", "reshaping")):
            share = parse_progress(self._ask(self.path, "show", operation))
            if share is not None:
                return State(name, share, operation, missing)
        state = VOLUME_STATES.get(str(told["state"]), "unknown")
        return State(state, detail="" if state == "normal" else str(told["state"]), missing=missing)

    def redundancy(self) -> int:
        told = parse_volume(self._ask(self.path, "show", "all")[0], self.path)
        return LOSABLE.get(str(told.get("level")), 0)

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


def parse_replies(content: str) -> list[Json]:
    """Of each controller: its number, whether it obeyed, its words, and the data with their headings."""
    found = []
    replies = dig(parse_json(content), "Controllers")
    for reply in replies if isinstance(replies, list) else []:
        status, data = dig(reply, "Command Status"), dig(reply, "Response Data")
        if not isinstance(status, dict):
            continue
        errors = status.get("Detailed Status")
        words = [str(dig(row, "ErrMsg")) for row in errors if dig(row, "ErrMsg")] if isinstance(errors, list) else []
        found.append(
            {
                **(data if isinstance(data, dict) else {}),
                "rows": data if isinstance(data, list) else [],
                "controller": whole(status.get("Controller")) or 0,
                "status": str(status.get("Status") or "Failure"),
                "description": "; ".join(words) or str(status.get("Description") or "it failed without a word"),
            }
        )
    return found


def parse_volume(told: Json, path: str) -> Json:
    """One volume of `show all`; empty where it is not among them."""
    volume = path.rpartition("/v")[2]
    rows = told.get(path)
    row = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else None
    if row is None:
        return {}
    properties = told.get(f"VD{volume} Properties")
    drives = told.get(f"PDs for VD {volume}")
    spans, each = whole(dig(properties, "Span Depth")), whole(dig(properties, "Number of Drives Per Span"))
    blocks = whole(dig(properties, "Number of Blocks"))
    return {
        "level": str(row.get("TYPE") or "unknown"),
        "state": str(row.get("State") or ""),
        "size_bytes": None if blocks is None else blocks * 512,
        "members": [
            Member(
                str(drive.get("EID:Slt") or "–").strip(),
                DRIVE_STATES.get(str(drive.get("State")), str(drive.get("State") or "unknown")),
                number,
            )
            for number, drive in enumerate(drives if isinstance(drives, list) else [])
            if isinstance(drive, dict)
        ],
        "wanted": spans * each if spans and each else None,
        "device": dig(properties, "OS Drive Name"),
        "naa": dig(properties, "SCSI NAA Id"),
        "write_cache": dig(properties, "Write Cache(initial setting)"),
    }


def parse_progress(replies: list[Json]) -> float | None:
    """The share done where something is in progress; 0 where it has begun and does not tell yet."""
    for reply in replies:
        rows = reply["rows"] or reply.get("VD Operation Status") or []
        for row in rows if isinstance(rows, list) else []:
            if not isinstance(row, dict) or str(row.get("Status")).lower() != "in progress":
                continue
            share = whole(row.get("Progress%"))
            return min((share or 0) / 100, 1.0)
    return None

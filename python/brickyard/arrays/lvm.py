"""Duty: RAID volumes of LVM, from its JSON reports. Refusal: LVM cannot be told to drop a member, so this doesn't."""

from __future__ import annotations

import os
import re

from brickyard.arrays.array import Array, Member, Scrub, Sheet, State
from brickyard.arrays.host import Host
from brickyard.errors import BadInputError, BrickyardError
from brickyard.facts.health import dig, parse_json
from brickyard.store import Json

FIELDS = (
    "vg_name,lv_name,lv_uuid,segtype,lv_size,raid_sync_action,raid_mismatch_count,sync_percent,lv_health_status,stripes,"
    "devices"
)
ACTIONS = {
    "resync": "initializing",
    "recover": "rebuilding",
    "check": "scrubbing",
    "repair": "scrubbing",
    "reshape": "reshaping",
}
# lvmraid(7).
LOSABLE = {"raid1": 1, "raid4": 1, "raid5": 1, "raid6": 2, "raid10": 1}


class LvmRaid(Array):
    kind = "lvm"
    rebuilds_in_place = True

    def __init__(self, volume: str, host: Host | None = None) -> None:
        self.host = host or Host()
        self.volume = volume.removeprefix(self.host.roots.dev + "/")
        self.name = f"lvm:{self.volume}"
        self._row()  # refuses what is none

    @classmethod
    def of_mapping(cls, mapping: str, host: Host) -> LvmRaid:
        return cls("/".join(split_mapping(mapping)), host)

    def _row(self) -> Json:
        rows = report(self.host, self.volume)
        row = next((row for row in rows if f"{row.get('vg_name')}/{row.get('lv_name')}" == self.volume), None)
        if row is None or not str(row.get("segtype", "")).startswith("raid"):
            raise BadInputError(f"{self.name}: is no RAID volume of LVM; write lvm:VG/LV")
        return row

    def identity(self) -> str:
        return f"lvm {self._row().get('lv_uuid')}"

    def state(self) -> State:
        return state_of(self._row())

    def redundancy(self) -> int:
        segment = str(self._row().get("segtype"))
        if segment == "raid1":
            return max(0, len(self.sheet().members) - 1)
        return next((count for name, count in LOSABLE.items() if segment.startswith(name)), 0)

    def sheet(self) -> Sheet:
        row = self._row()
        state = state_of(row)
        size = str(row.get("lv_size") or "")
        members = tuple(
            Member(device, "missing" if "unknown" in device else "active", slot)
            for slot, device in enumerate(self._devices())
        )
        return Sheet(
            kind=self.kind,
            name=self.name,
            level=str(row.get("segtype")),
            size_bytes=int(size) if size.isdigit() else None,
            state=state,
            members=members,
            wanted=len(members),
            extra={"uuid": row.get("lv_uuid")},
            identity=f"lvm {row.get('lv_uuid')}",
            scrub=scrub_of(row),
        )

    def _devices(self) -> list[str]:
        """The physical volumes below the images of the data."""
        rows = report(self.host, self.volume.split("/")[0], hidden=True)
        name = re.escape(self.volume.split("/")[-1])
        found = []
        for row in rows:
            if re.fullmatch(rf"\[?{name}_rimage_\d+\]?", str(row.get("lv_name"))):
                found.append(re.sub(r"\(\d+\)$", "", str(row.get("devices") or "unknown").split(",")[0]))
        return found

    def rebuild(self, member: str) -> None:
        self.host.must("lvchange", "--yes", "--rebuild", member, self.volume)

    def start_scrub(self) -> None:
        self.host.must("lvchange", "--syncaction", "check", self.volume)

    def stop_scrub(self) -> None:
        if self.state().name == "scrubbing":
            self.host.run("dmsetup", "message", mapping_of(self.volume), "0", "idle")


def split_mapping(mapping: str) -> list[str]:
    """`vg-lv` as device mapper writes it: hyphens inside a name are doubled."""
    parts = re.split(r"(?<!-)-(?!-)", mapping, maxsplit=1)
    return [part.replace("--", "-") for part in parts]


def mapping_of(volume: str) -> str:
    return "-".join(part.replace("-", "--") for part in volume.split("/"))


def report(host: Host, what: str, *, hidden: bool = False) -> list[Json]:
    options = ["--all"] if hidden else []
    done = host.run("lvs", "--reportformat", "json", "--units", "b", "--nosuffix", "-o", FIELDS, *options, what)
    rows = parse_lvs(done.out)
    if done.code != 0 and not rows:
        raise BrickyardError(f"lvs {what}: {' '.join(done.error.split()) or f'exit code {done.code}'}")
    return rows


def parse_lvs(content: str) -> list[Json]:
    """The rows of `lvs --reportformat json`."""
    rows: list[Json] = []
    reports = dig(parse_json(content), "report")
    for part in reports if isinstance(reports, list) else []:
        found = part.get("lv") if isinstance(part, dict) else None
        rows += [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    return rows


def scrub_of(row: Json) -> Scrub:
    """lvmraid(7): the count is that of the last scrub. Whether one was whole, and of which kind, is not reported."""
    count = str(row.get("raid_mismatch_count") or "")
    idle = str(row.get("raid_sync_action") or "idle") == "idle"
    return Scrub(int(count) if idle and count.isdigit() and int(count) else None)


def state_of(row: Json) -> State:
    health = str(row.get("lv_health_status") or "")
    action = str(row.get("raid_sync_action") or "idle")
    share = _share(row.get("sync_percent"))
    missing = 1 if health in ("partial", "refresh needed") else 0
    if action in ACTIONS:
        return State(ACTIONS[action], share, action, missing or int(action == "recover"))
    if missing:
        return State("degraded", detail=health, missing=missing)
    return State("normal", detail=health)


def _share(words: object) -> float | None:
    match = re.fullmatch(r"(\d{1,3})(?:\.(\d{1,6}))?", str(words or ""))
    return min(float(match.group(0)) / 100, 1.0) if match else None


def lvm_names(host: Host) -> list[str]:
    """Volumes whose mapping is a RAID; LVM is asked only where device mapper has any."""
    base = host.roots.at_sys("class", "block")
    if not os.path.isdir(base) or host.roots.tools.find("lvs") is None:
        return []
    if not any(name.startswith("dm-") for name in os.listdir(base)):
        return []
    done = host.run("lvs", "--reportformat", "json", "--units", "b", "--nosuffix", "-o", FIELDS)
    if '"report"' not in done.out:
        raise BrickyardError(f"lvs: {' '.join(done.error.split()) or f'no answer, exit code {done.code}'}")
    rows = parse_lvs(done.out)
    return [f"{row['vg_name']}/{row['lv_name']}" for row in rows if str(row.get("segtype", "")).startswith("raid")]

"""Duty: RAID volumes of LVM, from its JSON reports. Refusal: LVM cannot be told to drop a member, so this doesn't."""

from __future__ import annotations

import os
import re

import msgspec

from brickyard.arrays.array import Array, KindFacts, Member, Scrub, Sheet, State, StateName
from brickyard.arrays.host import Host, told_as
from brickyard.errors import BadInputError, BrickyardError

ACTIONS: dict[str, StateName] = {
    "resync": "initializing",
    "recover": "rebuilding",
    "check": "scrubbing",
    "repair": "scrubbing",
    "reshape": "reshaping",
}
# lvmraid(7).
LOSABLE = {"raid1": 1, "raid4": 1, "raid5": 1, "raid6": 2, "raid10": 1}


class LvRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `lvs`, which writes every value as text and leaves empty what does not apply."""

    vg_name: str = ""
    lv_name: str = ""
    lv_uuid: str = ""
    segtype: str = ""
    lv_size: str = ""
    raid_sync_action: str = ""
    raid_mismatch_count: str = ""
    sync_percent: str = ""
    lv_health_status: str = ""
    devices: str = ""

    @property
    def volume(self) -> str:
        return f"{self.vg_name}/{self.lv_name}"


class LvRows(msgspec.Struct, frozen=True, kw_only=True):
    lv: list[LvRow] = msgspec.field(default_factory=list)


class LvReport(msgspec.Struct, frozen=True, kw_only=True):
    report: list[LvRows]


FIELDS = ",".join(LvRow.__struct_fields__)


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

    def _row(self) -> LvRow:
        rows = report(self.host, self.volume)
        row = next((row for row in rows if row.volume == self.volume), None)
        if row is None or not row.segtype.startswith("raid"):
            raise BadInputError(f"{self.name}: is no RAID volume of LVM; write lvm:VG/LV")
        return row

    def identity(self) -> str:
        return f"lvm {self._row().lv_uuid}"

    def state(self) -> State:
        return state_of(self._row())

    def redundancy(self) -> int:
        segment = self._row().segtype
        if segment == "raid1":
            return max(0, len(self.sheet().members) - 1)
        return next((count for name, count in LOSABLE.items() if segment.startswith(name)), 0)

    def sheet(self) -> Sheet:
        row = self._row()
        state = state_of(row)
        members = tuple(
            Member(device, "missing" if "unknown" in device else "active", slot)
            for slot, device in enumerate(self._devices())
        )
        return Sheet(
            kind=self.kind,
            name=self.name,
            level=row.segtype,
            size_bytes=int(row.lv_size) if row.lv_size.isdigit() else None,
            state=state,
            members=members,
            wanted=len(members),
            extra=KindFacts(uuid=row.lv_uuid),
            identity=f"lvm {row.lv_uuid}",
            scrub=scrub_of(row),
        )

    def _devices(self) -> list[str]:
        """The physical volumes below the images of the data."""
        rows = report(self.host, self.volume.split("/")[0], hidden=True)
        name = re.escape(self.volume.split("/")[-1])
        found = []
        for row in rows:
            if re.fullmatch(rf"\[?{name}_rimage_\d+\]?", row.lv_name):
                found.append(re.sub(r"\(\d+\)$", "", (row.devices or "unknown").split(",")[0]))
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


def report(host: Host, what: str, *, hidden: bool = False) -> list[LvRow]:
    options = ["--all"] if hidden else []
    done = host.run("lvs", "--reportformat", "json", "--units", "b", "--nosuffix", "-o", FIELDS, *options, what)
    rows = parse_lvs(done.out)
    if rows is None or (done.code != 0 and not rows):
        raise BrickyardError(f"lvs {what}: {' '.join(done.error.split()) or f'no answer, exit code {done.code}'}")
    return rows


def parse_lvs(content: str) -> list[LvRow] | None:
    """The rows of `lvs --reportformat json`; None where it is none."""
    told = told_as(content, LvReport)
    return None if told is None else [row for part in told.report for row in part.lv]


def scrub_of(row: LvRow) -> Scrub:
    """lvmraid(7): the count is that of the last scrub. Whether one was whole, and of which kind, is not reported."""
    count, idle = row.raid_mismatch_count, row.raid_sync_action in ("", "idle")
    return Scrub(int(count) if idle and count.isdigit() and int(count) else None)


def state_of(row: LvRow) -> State:
    health, action = row.lv_health_status, row.raid_sync_action or "idle"
    share = _share(row.sync_percent)
    missing = 1 if health in ("partial", "refresh needed") else 0
    if action in ACTIONS:
        return State(ACTIONS[action], share, action, missing or int(action == "recover"))
    if missing:
        return State("degraded", detail=health, missing=missing)
    return State("normal", detail=health)


def _share(words: str) -> float | None:
    match = re.fullmatch(r"(\d{1,3})(?:\.(\d{1,6}))?", words)
    return min(float(match.group(0)) / 100, 1.0) if match else None


def lvm_names(host: Host) -> list[str]:
    """Volumes whose mapping is a RAID; LVM is asked only where device mapper has any."""
    base = host.roots.at_sys("class", "block")
    if not os.path.isdir(base) or host.roots.tools.find("lvs") is None:
        return []
    if not any(name.startswith("dm-") for name in os.listdir(base)):
        return []
    done = host.run("lvs", "--reportformat", "json", "--units", "b", "--nosuffix", "-o", FIELDS)
    rows = parse_lvs(done.out)
    if rows is None:
        raise BrickyardError(f"lvs: {' '.join(done.error.split()) or f'no answer, exit code {done.code}'}")
    return [row.volume for row in rows if row.segtype.startswith("raid")]

"""Health, temperature and rated endurance of drives.

Duty: read smartctl's JSON, the NVMe logs and hwmon. Refusal: it invents no rating: endurance is a drive's own
statement, the caller's, or unknown.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import Any

from brickyard.schema.target_sheet import DeviceSheet, HealthSheet, TargetSheet, TemperatureSheet

from . import bus
from .roots import Roots, entries, number, text
from .target import drives, target_facts

# One NVMe data unit is 1000 blocks of 512 bytes (NVM Express Base Specification, SMART / Health log page).
DATA_UNIT_BYTES = 512_000
# The endurance group log counts in billions of bytes (same specification, Endurance Group Information).
ENDURANCE_UNIT_BYTES = 1_000_000_000
# "Percentage used" is a whole number, so below 5 an estimate from it is off by a fifth and more.
WEAR_PERCENT_MIN = 5
# Of ATA's device statistics, by smartctl's words.
WRITTEN_STATISTIC = "Logical Sectors Written"
USED_STATISTIC = "Percentage Used Endurance Indicator"


def parse_json(content: str | None) -> object:
    """What a tool printed, to be read by `dig`; None where it is no JSON."""
    try:
        return json.loads(content or "")
    except (ValueError, RecursionError):
        return None


def dig(value: Any, *keys: str) -> Any:
    """A nested value of a tool's JSON, or None where any step is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def whole(value: object) -> int | None:
    """An integer of a tool's JSON; nvme-cli writes large ones as text or as a float."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if abs(value) < 1e30 else None
    if isinstance(value, str) and re.fullmatch(r"\d{1,40}", value.strip()):
        return int(value)
    return None


def parse_smartctl(content: str | None) -> HealthSheet:
    """What we want of `smartctl -j -x`, for ATA, SCSI and NVMe alike."""
    told = parse_json(content)
    statistics = device_statistics(told)
    nvme = dig(told, "nvme_smart_health_information_log")
    used = whole(dig(nvme, "percentage_used"))
    if used is None:
        used = whole(dig(told, "scsi_percentage_used_endurance_indicator"))
    if used is None:
        used = statistics.get(USED_STATISTIC)
    units, sectors = whole(dig(nvme, "data_units_written")), statistics.get(WRITTEN_STATISTIC)
    written = units * DATA_UNIT_BYTES if units is not None else None
    if written is None and sectors is not None:
        written = sectors * (whole(dig(told, "logical_block_size")) or 512)
    passed = dig(told, "smart_status", "passed")
    return HealthSheet(
        passed=passed if isinstance(passed, bool) else None,
        temperature_celsius=whole(dig(told, "temperature", "current")),
        percentage_used=used,
        power_on_hours=whole(dig(told, "power_on_time", "hours")),
        bytes_written=written,
        media_errors=whole(dig(nvme, "media_errors")),
        reallocated_sectors=raw_attribute(told, 5),
        available_spare_percent=whole(dig(nvme, "available_spare")),
        critical_warning=whole(dig(nvme, "critical_warning")),
        warning_temperature_minutes=whole(dig(nvme, "warning_temp_time")),
        rotation_rate_per_min=whole(dig(told, "rotation_rate")),
    )


def tells_anything(told: HealthSheet) -> bool:
    return any(
        getattr(told, name) is not None for name in told.__struct_fields__ if name not in ("available", "unknown")
    )


def device_statistics(told: object) -> dict[str, int]:
    found: dict[str, int] = {}
    pages = dig(told, "ata_device_statistics", "pages")
    for page in pages if isinstance(pages, list) else []:
        rows = dig(page, "table")
        for row in rows if isinstance(rows, list) else []:
            name, value = dig(row, "name"), whole(dig(row, "value"))
            if isinstance(name, str) and value is not None:
                found[name] = value
    return found


def raw_attribute(told: object, identifier: int) -> int | None:
    rows = dig(told, "ata_smart_attributes", "table")
    for row in rows if isinstance(rows, list) else []:
        if dig(row, "id") == identifier:
            return whole(dig(row, "raw", "value"))
    return None


def smart(roots: Roots, path: str) -> HealthSheet:
    """Health of one drive; `available` says whether it was read at all."""
    answer, reason = roots.tools.run("smartctl", "-j", "-x", path)
    told = parse_smartctl(answer)
    told.available = tells_anything(told) if answer is not None else None
    return told.explained(reason or "the drive does not tell", available=reason or "smartctl is not installed")


def hwmon_directories(roots: Roots, name: str) -> list[str]:
    """The sensors of a drive: under the NVMe controller, or drivetemp's under the SCSI device."""
    places = [roots.at_sys("class", "block", name, "device")]
    if name.startswith("nvme"):
        places += bus.controllers_of_nvme(roots, name)
    found: list[str] = []
    for place in places:
        for base in (os.path.join(place, "hwmon"), place):
            found += [
                os.path.realpath(os.path.join(base, entry))
                for entry in entries(base)
                if re.fullmatch(r"hwmon\d+", entry)
            ]
    return list(dict.fromkeys(found))


def temperature(roots: Roots, name: str) -> TemperatureSheet:
    """Temperature now, and the limits at which the drive slows down, in degrees."""
    base = next(iter(hwmon_directories(roots, name)), "")

    def degrees(file_name: str) -> float | None:
        value = number(base, file_name) if base else None
        return None if value is None else value / 1000

    return TemperatureSheet(
        celsius=degrees("temp1_input"),
        max_celsius=degrees("temp1_max"),
        critical_celsius=degrees("temp1_crit"),
        sensor=text(base, "name") if base else None,
    ).explained("no hwmon sensor belongs to this drive")


def rated_bytes(roots: Roots, node: DeviceSheet) -> tuple[int | None, str]:
    """Bytes that may be written in a drive's life, and where this figure is from, else None and why."""
    if node.name.startswith("nvme"):
        path = os.path.join(roots.dev, node.controller or node.name)
        answer, reason = roots.tools.run("nvme", "endurance-log", path, "-g", "1", "-o", "json")
        billions = whole(dig(parse_json(answer), "endurance_estimate"))
        if billions:
            return billions * ENDURANCE_UNIT_BYTES, "the drive's endurance group log"
    else:
        reason = "this kind of drive reports no rating"
    used, written = (node.health.percentage_used, node.health.bytes_written) if node.health else (None, None)
    if used is not None and written and used >= WEAR_PERCENT_MIN:
        return written * 100 // used, f"estimated: {used} % of its life was used by what has been written so far"
    return None, reason or "the drive does not tell"


def decimal(count: int) -> str:
    """Bytes as vendors rate drives, in powers of 1000."""
    for unit, factor in (("PB", 10**15), ("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


@dataclass(frozen=True)
class Endurance:
    """What writing costs of a drive's rated life."""

    write_bytes: int
    rated_bytes: int | None
    source: str
    """Where the rating is from, or why there is none."""

    @property
    def share(self) -> float | None:
        return self.write_bytes / self.rated_bytes if self.rated_bytes else None

    @property
    def text(self) -> str:
        if self.share is None or not self.rated_bytes:
            return f"rated endurance unknown ({self.source.removeprefix('not known: ')})"
        return (
            f"writing {decimal(self.write_bytes)} costs {self.share:.2%} of the rated endurance of "
            f"{decimal(self.rated_bytes)} ({self.source})"
        )


def endurance(
    target: str | TargetSheet, write_bytes: int, rated: int | None = None, roots: Roots | None = None
) -> Endurance:
    """Share of the rated endurance that writing so many bytes to a target costs.

    `rated` is a rating out of a data sheet, which goes before what the drive tells. With several drives each is taken
    to get all the bytes, as in a mirror: never too low.
    """
    place = roots or Roots()
    if rated:
        return Endurance(write_bytes, rated, "the caller")
    try:
        facts = target_facts(target, False, place) if isinstance(target, str) else target
        told = [rated_bytes(place, node) for node in drives(facts)]
    except Exception as error:
        return Endurance(write_bytes, None, f"{type(error).__name__}: {error}")
    if told and all(rating for rating, _ in told):
        least, source = min((rating or 0, source) for rating, source in told)
        return Endurance(write_bytes, least, source)
    return Endurance(write_bytes, None, next((source for rating, source in told if not rating), "no drive can be seen"))

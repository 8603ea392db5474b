"""Duty: what a watch has seen, in Prometheus' text format, under the names of node_exporter and smartctl_exporter.

What they have no name for is told as `brickyard_…`. Refusal: nothing is looked at anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from brickyard.arrays.array import STATE_NAMES, Sheet
from brickyard.arrays.health import Health
from brickyard.arrays.looking import Drive, Seen

# collector/mdadm_linux.go of node_exporter lists these as the values of `state`.
MD_STATES = ("active", "inactive", "recovering", "resync", "check")
MD_STATE_OF = {
    "normal": "active",
    "degraded": "active",
    "rebuilding": "recovering",
    "delayed": "recovering",
    "initializing": "resync",
    "reshaping": "resync",
    "scrubbing": "check",
    "inactive": "inactive",
    "failed": "inactive",
}
BLOCK_BYTES = 1024  # /proc/mdstat, whose figures node_exporter passes on, counts in KiB

Row = tuple[dict[str, str], float]
HELP = {
    "node_md_state": "Indicates the state of md-device.",
    "node_md_disks": "Number of active/failed/spare disks of device.",
    "node_md_disks_required": "Total number of disks of device.",
    "node_md_blocks": "Total number of blocks on device.",
    "node_md_blocks_synced": "Number of blocks synced on device.",
    "brickyard_array_state": "Whether an array is in a state.",
    "brickyard_array_health": "What the watch told last of an array; also of one that is gone.",
    "brickyard_array_mismatches": "Mismatches that the last scrub found: sectors, or errors of btrfs and ZFS.",
    "brickyard_array_scrub_complete": "Whether the last scrub read all.",
    "brickyard_array_progress_ratio": "How far a rebuild, scrub or initial resync is.",
    "brickyard_array_members_missing": "Members that an array lacks; those being rebuilt count.",
    "brickyard_array_member_errors_total": "Errors of a member, as its array counts them.",
    "node_filesystem_readonly": "Filesystem read-only status.",
    "brickyard_filesystem_used_ratio": "Used share of a file system, as df counts.",
    "smartctl_device_smart_status": "General smart status.",
    "smartctl_device_temperature": "Device temperature celsius.",
    "smartctl_device_percentage_used": "Device write percentage used.",
    "smartctl_device_available_spare": "Normalized percentage of the remaining spare capacity.",
    "smartctl_device_critical_warning": "Critical warnings for the state of the controller.",
    "smartctl_device_media_errors": "Unrecovered data integrity errors detected by the controller.",
    "smartctl_device_power_on_seconds": "Device power on seconds.",
}
DRIVE_NAMES = {
    "percentage_used": "smartctl_device_percentage_used",
    "available_spare_percent": "smartctl_device_available_spare",
    "critical_warning": "smartctl_device_critical_warning",
    "media_errors": "smartctl_device_media_errors",
}


def exposition(seen: Seen, healths: Mapping[str, Health] | None = None) -> str:
    """One text for a scrape."""
    found: dict[str, list[Row]] = {}
    for name, labels, value in chain(_all(seen), _healths(healths or {})):
        found.setdefault(name, []).append((labels, value))
    lines = []
    for name, rows in found.items():
        lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"]
        lines += [f"{name}{{{_labels(labels)}}} {value:g}" for labels, value in rows]
    return "\n".join(lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _healths(healths: Mapping[str, Health]) -> Iterator[tuple[str, dict[str, str], float]]:
    for name, told in healths.items():
        for health in Health:
            yield "brickyard_array_health", {"array": name, "health": health.value}, float(health is told)


def _all(seen: Seen) -> Iterator[tuple[str, dict[str, str], float]]:
    for sheet in seen.arrays:
        if sheet.kind == "md":
            yield from _md(sheet)
        yield from _array(sheet)
    for system in seen.file_systems:
        labels = {"mountpoint": system.place, "fstype": system.kind}
        yield "node_filesystem_readonly", labels, float(system.read_only)
        if system.used_share is not None:
            yield "brickyard_filesystem_used_ratio", labels, system.used_share
    for drive in seen.drives:
        yield from _drive(drive)


def _drive(drive: Drive) -> Iterator[tuple[str, dict[str, str], float]]:
    labels, told = {"device": drive.name}, drive.told
    if told.passed is not None:
        yield "smartctl_device_smart_status", labels, float(told.passed)
    if told.temperature_celsius is not None:
        yield "smartctl_device_temperature", {**labels, "temperature_type": "current"}, float(told.temperature_celsius)
    if told.power_on_hours is not None:
        yield "smartctl_device_power_on_seconds", labels, told.power_on_hours * 3600.0
    for field, name in DRIVE_NAMES.items():
        value: int | None = getattr(told, field)
        if value is not None:
            yield name, labels, float(value)


def _md(sheet: Sheet) -> Iterator[tuple[str, dict[str, str], float]]:
    device = {"device": sheet.name.removeprefix("/dev/")}
    now = MD_STATE_OF.get(sheet.state.name, "active")
    for state in MD_STATES:
        yield "node_md_state", {**device, "state": state}, float(state == now)
    counts = {"active": 0, "failed": 0, "spare": 0}
    for member in sheet.members:
        word = {"active": "active", "faulty": "failed", "spare": "spare", "rebuilding": "spare"}.get(member.state)
        if word:
            counts[word] += 1
    for state, count in counts.items():
        yield "node_md_disks", {**device, "state": state}, float(count)
    yield "node_md_disks_required", device, float(sheet.wanted or 0)
    if sheet.size_bytes is not None:
        blocks = sheet.size_bytes // BLOCK_BYTES
        share = sheet.state.progress_share
        yield "node_md_blocks", device, float(blocks)
        yield "node_md_blocks_synced", device, float(blocks if share is None else int(blocks * share))


def _array(sheet: Sheet) -> Iterator[tuple[str, dict[str, str], float]]:
    labels = {"array": sheet.name, "kind": sheet.kind}
    for state in STATE_NAMES:
        yield "brickyard_array_state", {**labels, "state": state}, float(state == sheet.state.name)
    yield "brickyard_array_members_missing", labels, float(sheet.state.missing)
    if sheet.scrub.mismatches is not None:
        yield "brickyard_array_mismatches", labels, float(sheet.scrub.mismatches)
    if sheet.scrub.complete is not None:
        yield "brickyard_array_scrub_complete", labels, float(sheet.scrub.complete)
    if sheet.state.progress_share is not None:
        yield "brickyard_array_progress_ratio", labels, sheet.state.progress_share
    for member in sheet.members:
        if member.errors is not None and member.name != "–":
            yield "brickyard_array_member_errors_total", {**labels, "member": member.name}, float(member.errors)

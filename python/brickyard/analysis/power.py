"""Duty: what a power cut took from a modelled brick, in words. Refusal: no layout, no guess what a host made of it."""

from __future__ import annotations

from brickyard.store import Json, Record
from brickyard.units import format_size


def power_words(record: Record) -> list[str]:
    """One line for each power cut."""
    return [_words(record, event) for event in record.events_of("power_cut")]


def _words(record: Record, event: Json) -> str:
    target = record.info.targets[int(event["target"])]
    drives, extents = int(event["drives"]), int(event["drive_extents"])
    lost = []
    if drives:
        of = "drive" if drives == 1 else "drives"
        pieces = "piece" if extents == 1 else "pieces"
        lost.append(f"{format_size(int(event['drive_bytes']))} in {extents:,} {pieces} in the caches of {drives} {of}")
    if event["controller_bytes"]:
        lost.append(f"{format_size(int(event['controller_bytes']))} in the controller's cache")
    failed = f"{int(event['failed_requests']):,} requests under way failed"
    what = "; ".join(lost) if lost else "nothing"
    return f"{target}: the power failed at {int(event['at_ns']) / 1e9:g} s. Acknowledged writes lost: {what}. {failed}."

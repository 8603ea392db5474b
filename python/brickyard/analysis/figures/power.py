"""Duty: what a power cut took from a modelled brick: words, and which acknowledged writes are gone.

Refusal: no layout, no guess what a host made of it.
"""

from __future__ import annotations

from brickyard.schema import LostWrite, PowerCut
from brickyard.store import Record
from brickyard.units import format_count, format_ns, format_size

CUT_COLUMNS = ("power cut of", "at", "writes lost", "promised", "oldest", "in drives", "in controllers", "failed")
LOST_COLUMNS = ("acknowledged", "offset", "size", "age at the cut")


def power_words(record: Record) -> list[str]:
    """One line for each power cut."""
    return [_words(record, event) for event in record.of(PowerCut)]


def cut_rows(record: Record) -> list[list[str]]:
    """A row for each power cut; records of before lost writes were counted have dashes there."""
    return [
        [
            record.info.targets[event.target],
            _seconds(event),
            *_counted(event),
            format_size(event.drive_bytes),
            format_size(event.controller_bytes),
            format_count(event.failed_requests),
        ]
        for event in record.of(PowerCut)
    ]


def lost_tables(record: Record) -> list[tuple[str, list[list[str]]]]:
    """For each cut that took something: a title, and the lost writes that had been acknowledged first."""
    found = []
    for event in record.of(PowerCut):
        oldest = event.oldest_lost
        if oldest:
            count = event.lost_writes or 0
            which = f"the first {len(oldest)} of {count:,}" if count > len(oldest) else "all of them"
            title = f"Acknowledged writes lost at {_seconds(event)} ({which})"
            found.append((title, [_lost_row(event.at_ns, write) for write in oldest]))
    return found


def _lost_row(cut_ns: int, write: LostWrite) -> list[str]:
    acknowledged = f"{(cut_ns - write.age_ns) / 1e9:.3f} s"
    return [acknowledged, format_count(write.offset_bytes), format_size(write.bytes), format_ns(write.age_ns)]


def _seconds(event: PowerCut) -> str:
    return f"{event.at_ns / 1e9:g} s"


def _counted(event: PowerCut) -> list[str]:
    if event.lost_writes is None or event.lost_promised is None:
        return ["–", "–", "–"]
    age = format_ns(event.oldest_lost[0].age_ns) if event.oldest_lost else "–"
    return [format_count(event.lost_writes), format_count(event.lost_promised), age]


def _words(record: Record, event: PowerCut) -> str:
    target = record.info.targets[event.target]
    return f"{target}: the power failed at {_seconds(event)}. {_lost_words(event)}{_failed_words(event)}"


def _lost_words(event: PowerCut) -> str:
    where = " and ".join(_places(event))
    if event.lost_writes is None:
        return f"Acknowledged writes lost: {where or 'nothing'}. "
    count, promised = event.lost_writes, event.lost_promised
    if count == 0:
        rest = f": {where} were parity, or belonged to requests in flight" if where else ""
        return f"No acknowledged write was lost{rest}. "
    writes = "write was" if count == 1 else "writes were"
    age = format_ns(event.oldest_lost[0].age_ns)
    said = f"{count:,} acknowledged {writes} lost, the oldest {age} after its acknowledgement"
    said += f": {where}. " if where else ". "
    if promised:
        return f"{said}{promised:,} of them had been flushed or requested as durable: this brick breaks its promise. "
    return f"{said}None of them had been flushed or requested as durable. "


def _places(event: PowerCut) -> list[str]:
    drives, extents = event.drives, event.drive_extents
    lost = []
    if drives:
        of = "drive" if drives == 1 else "drives"
        pieces = "piece" if extents == 1 else "pieces"
        lost.append(f"{format_size(event.drive_bytes)} in {extents:,} {pieces} in the caches of {drives} {of}")
    if event.controller_bytes:
        lost.append(f"{format_size(event.controller_bytes)} in the controller's cache")
    return lost


def _failed_words(event: PowerCut) -> str:
    failed = event.failed_requests
    return f"{failed:,} {'request' if failed == 1 else 'requests'} in flight failed."

"""Duty: the document of all replays of one command. Refusal: no figure that the modules beside it did not give."""

from __future__ import annotations

from typing import Any

import msgspec

from brickyard.analysis.databases.replay_disks import DiskUse, disk_total
from brickyard.analysis.databases.replay_head_room import HeadRoomDocument, Within, head_room, spoilt, within
from brickyard.analysis.databases.replay_pages import bricks, errors_by_state, late_document, page_document, pages
from brickyard.analysis.databases.replay_runs import LogTotals, by_pace, calls_per_s, driver_rates, log_counts
from brickyard.analysis.databases.replay_served import ServedDocument, served
from brickyard.analysis.figures.load_curve import Limit
from brickyard.store import Record


class PaceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """All runs of one pace."""

    runs: list[int]
    calls_per_s: float | None
    driver_calls_per_s: list[float]
    pages: list[dict[str, Any]]
    bricks: list[dict[str, Any]]
    errors_by_sqlstate: dict[str, int]
    late: dict[str, dict[str, float | None]]
    disk: DiskUse | None
    served: ServedDocument
    logs: LogTotals


class ReplayDocument(msgspec.Struct, frozen=True, kw_only=True):
    paces: dict[str, PaceDocument]
    head_room: HeadRoomDocument | None
    no_head_room: str | None
    """Why there is none."""
    limit: Within | None


def replay_document(records: list[Record], limit: Limit | None = None) -> ReplayDocument:
    """What belongs to all runs of one command."""
    room = head_room(records)
    return ReplayDocument(
        paces={name: _pace_document(group) for name, group in by_pace(records).items()},
        head_room=None if room is None else room.document(),
        no_head_room=spoilt(records) or None,
        limit=within(records, limit),
    )


def _pace_document(group: list[Record]) -> PaceDocument:
    return PaceDocument(
        runs=[record.info.id for record in group],
        calls_per_s=calls_per_s(group),
        driver_calls_per_s=[rate for _, rate in sorted(driver_rates(group).items())],
        pages=[page_document(item) for item in pages(group)],
        bricks=[page_document(item) for item in bricks(group)],
        errors_by_sqlstate=dict(errors_by_state(group)),
        late=late_document(group),
        disk=disk_total(group[0]),
        served=served(group).document(),
        logs=log_counts(group[0]),
    )

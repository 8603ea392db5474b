"""Duty: the document of all replays of one command. Refusal: no figure that the modules beside it did not give."""

from __future__ import annotations

from brickyard.analysis.load_curve import Limit
from brickyard.analysis.replay_disks import disk_total
from brickyard.analysis.replay_head_room import head_room, spoilt, within
from brickyard.analysis.replay_pages import bricks, error_rows, late_document, page_document, pages
from brickyard.analysis.replay_runs import by_pace, calls_per_s, driver_rates, log_counts
from brickyard.analysis.replay_served import served
from brickyard.store import Json, Record


def replay_document(records: list[Record], limit: Limit | None = None) -> Json:
    """What belongs to all runs of one command."""
    room = head_room(records)
    return {
        "paces": {
            name: {
                "runs": [record.info.id for record in group],
                "calls_per_s": calls_per_s(group),
                "driver_calls_per_s": [rate for _, rate in sorted(driver_rates(group).items())],
                "pages": [page_document(item) for item in pages(group)],
                "bricks": [page_document(item) for item in bricks(group)],
                "errors_by_sqlstate": {state: int(count.replace(",", "")) for state, _, count in error_rows(group)},
                "late": late_document(group),
                "disk": disk_total(group[0]),
                "served": served(group).document(),
                "logs": log_counts(group[0]),
            }
            for name, group in by_pace(records).items()
        },
        "head_room": None if room is None else room.document(),
        "no_head_room": spoilt(records) or None,
        "limit": within(records, limit),
    }

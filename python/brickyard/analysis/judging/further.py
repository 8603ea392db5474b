"""Duty: the tables that only some runs have (targets, frames, ramps, conditions, power cuts), for terminal and report
alike.

Refusal: no layout.
"""

from __future__ import annotations

from brickyard.analysis.databases import pgbench
from brickyard.analysis.figures import background, conditions, frames, hosts, power, ramp
from brickyard.analysis.judging import targets
from brickyard.schema import Document, DropEvent, PageCache, PowerCut, RampEnd
from brickyard.store import Record

FurtherTable = tuple[str, tuple[str, ...], list[list[str]]]


def further_tables(record: Record) -> list[FurtherTable]:
    """Title, columns and rows of each; the first column is text."""
    found: list[FurtherTable] = []
    by_host = hosts.host_rows(record)
    for phase in dict.fromkeys(row.phase_name for row in by_host):
        many = f" in {phase}" if len(record.info.plan.phase) > 1 else ""
        own = [row for row in by_host if row.phase_name == phase]
        found.append((f"Hosts{many}, the slowest first (response times)", hosts.COLUMNS, hosts.row_cells(own)))
    rows = targets.target_rows(record)
    for phase in dict.fromkeys(row.phase for row in rows):
        many = f" in {phase}" if len(record.info.plan.phase) > 1 else ""
        mine = [row for row in rows if row.phase == phase]
        found.append((f"Targets{many} (latency: mean service time)", targets.COLUMNS, targets.row_cells(mine)))
    if players := frames.players(record):
        found.append(("Frames", frames.COLUMNS, frames.player_rows(players)))
    for name, steps in ramp.by_phase(ramp.steps(record)).items():
        found.append((f"Ramp of {name} (response times)", ramp.COLUMNS, ramp.step_rows(steps)))
    for target, rows_of in conditions.condition_rows(record).items():
        of = f" of {record.info.targets[target]}" if len(record.info.targets) > 1 else ""
        found.append((f"Conditions{of} (response times)", conditions.COLUMNS, rows_of))
    found += [(title, power.LOST_COLUMNS, lost) for title, lost in power.lost_tables(record)]
    return found


def further_words(record: Record) -> list[str]:
    """What follows from these tables, one line each."""
    return [
        *frames.frame_words(record),
        *ramp.found_words(record),
        *background.background_words(record),
        *power.power_words(record),
    ]


def further_document(record: Record) -> Document:
    return {
        **hosts.host_documents(record),
        "targets_together": targets.target_rows(record),
        "frames": [player.document() for player in frames.players(record)],
        "dropped_frames": record.documents_of(DropEvent),
        "ramp": [ramp.step_document(step) for step in ramp.steps(record)],
        "background": background.background_documents(record),
        "power_cuts": record.documents_of(PowerCut),
        "page_caches": record.documents_of(PageCache),
        **({"pgbench": told} if (told := pgbench.document(record)) is not None else {}),
        "ramp_found": record.documents_of(RampEnd),
    }

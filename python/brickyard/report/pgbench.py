"""Duty: a run of pgbench as a picture: transactions, response times, flushes of the log with checkpoints, and disks.

Refusal: no figure of its own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import altair as alt

from brickyard.analysis.databases import pgbench, replay_disks
from brickyard.analysis.figures.cells import mark_words
from brickyard.analysis.judging.answers import Answer, belief
from brickyard.report import replay, theme
from brickyard.report.pictures import draw
from brickyard.report.replay import HEIGHT, PANEL, SERVICE, Drawn, Panel
from brickyard.report.tables import Table
from brickyard.store import Record

CHECKPOINT = "checkpoint"
RUNS_DRAWN = 6  # of many runs, as in a study, the tables tell


def figures(records: list[Record], wide: int, narrow: int) -> list[Drawn]:
    made: list[Drawn] = []
    for record in records[:RUNS_DRAWN]:
        if not replay_disks.course(record):
            continue
        panels = _panels(record)
        name = f"pgbench-{record.info.id}"
        words = "Transactions, response times, the server's log and its disks"
        pictures = [
            draw(f"{name}{suffix}", words, replay.stacked([panel(width) for panel in panels]), width=width)
            for suffix, width in (("", wide), ("-narrow", narrow))
        ]
        title = f"Over time: {record.info.plan.title}"
        title += f", run {record.info.id}" if len(records) > 1 else ""
        caption = "Flushes of the log are the server's own count; dashed lines are where a checkpoint had begun."
        made.append((title, caption, pictures[0], pictures[1]))
    return made


def _panels(record: Record) -> list[Panel]:
    seconds = replay_disks.course(record)
    server = pgbench.server_course(record)
    end_s = max(s.start_s + s.length_s for s in seconds)
    rates = [
        replay.LinePoint(at, s.calls / s.length_s, "tps")
        for s in seconds
        if s.length_s > 0
        for at in (s.start_s, s.start_s + s.length_s)
    ]
    disks = replay_disks.disk_course(record)
    made: list[Panel] = [partial(replay.line_panel, rates, "transactions/s", end_s, HEIGHT, last=False)]
    if replay.response_rows(record):
        made.append(partial(replay.response, record, end_s, last=not server and not disks))
    if server:
        made.append(partial(_log, server, end_s, last=not disks))
    if disks:
        service = next(rows for title, rows in replay.disk_rows(disks) if title == SERVICE)
        made.append(partial(replay.line_panel, service, SERVICE, end_s, PANEL, last=True, is_time=True))
    return made


def _log(server: list[pgbench.ServerSpan], end_s: float, width: int, *, last: bool) -> Any:
    """Flushes of the log, or its writes where each of them is durable, with marks where a checkpoint had begun."""
    has_flushes = any(span.wal_flushes_per_s for span in server)
    name = "WAL flushes/s" if has_flushes else "WAL writes/s"
    rows = [
        replay.LinePoint(at, value, name)
        for span in server
        if (value := span.wal_flushes_per_s if has_flushes else span.wal_writes_per_s) is not None
        for at in (span.start_s, span.end_s)
    ]
    lines = replay.line_panel(rows, name, end_s, PANEL, width, last=last)
    marks = [{"time_s": span.end_s, "what": CHECKPOINT} for span in server if span.checkpoints]
    if not marks:
        return lines
    rules = (
        alt.Chart(alt.InlineData(values=marks))
        .mark_rule(strokeDash=[4, 3], color=theme.VERMILLION, strokeWidth=1.5)
        .encode(x=alt.X("time_s:Q"))
    )
    return alt.layer(lines, rules)


def tables(records: list[Record]) -> list[Table]:
    made = []
    for record in records:
        name = f"Run {record.info.id}: " if len(records) > 1 else ""
        for title, columns, rows in pgbench.tables(record):
            text_columns = 1 if columns[0] == "" else 0
            note = "; ".join(mark_words(rows))
            made.append(Table(f"{name}{title}", list(columns), rows, text_columns=text_columns, note=note))
    return made


def pgbench_answer(records: list[Record]) -> Answer:
    said = []
    for record in records[:RUNS_DRAWN]:
        name = f"{record.info.plan.title}: " if len(records) > 1 else ""
        said += [f"{name}{' '.join(told)}" for told in [pgbench.words(record)] if told]
    return Answer("", tuple(said), belief(records))

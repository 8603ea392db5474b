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
from brickyard.units import format_seconds

CHECKPOINT = "checkpoint"
RUNS_DRAWN = 6  # of many runs, as in a study, the tables tell


def figures(records: list[Record], wide: int, narrow: int) -> list[Drawn]:
    made: list[Drawn] = []
    for record in records[:RUNS_DRAWN]:
        if not replay_disks.course(record):
            continue
        panels = _panels(record)
        name = f"pgbench-{record.info.id}"
        log = "the server's log and its disks" if pgbench.server_course(record) else "the server's disks"
        words = f"Transactions, response times, {log}"
        pictures = [
            draw(f"{name}{suffix}", words, replay.stacked([panel(width) for panel in panels]), width=width)
            for suffix, width in (("", wide), ("-narrow", narrow))
        ]
        title = f"Over time: {record.info.plan.title}"
        title += f", run {record.info.id}" if len(records) > 1 else ""
        caption = _caption(record)
        made.append((title, caption, pictures[0], pictures[1]))
    return made


def _caption(record: Record) -> str:
    said = []
    if server := pgbench.server_course(record):
        shortest = min(span.end_s - span.start_s for span in server)
        mean = f"the mean of at least {format_seconds(shortest)}"
        said.append(f"Each step of the server's log is {mean}, since its counters come late.")
    elif words := pgbench.no_course_words(record):
        said.append(words)
    if pgbench.checkpoints_seen_s(record):
        said.append("Dashed lines are where a checkpoint had begun.")
    return " ".join(said)


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
    marks = pgbench.checkpoints_seen_s(record)
    has_response = bool(replay.response_rows(record))
    is_last = not has_response and not server and not disks
    made: list[Panel] = [
        partial(_marked, marks, partial(replay.line_panel, rates, "transactions/s", end_s, HEIGHT, last=is_last))
    ]
    if has_response:
        made.append(partial(replay.response, record, end_s, last=not server and not disks))
    if server:
        made.append(partial(_marked, marks, partial(_log, server, end_s, last=not disks)))
    if disks:
        service = next(rows for title, rows in replay.disk_rows(disks) if title == SERVICE)
        made.append(partial(replay.line_panel, service, SERVICE, end_s, PANEL, last=True, is_time=True))
    return made


def _log(server: list[pgbench.ServerSpan], end_s: float, width: int, *, last: bool) -> Any:
    """Flushes of the log, or its writes where each of them is durable."""
    has_flushes = any(span.wal_flushes_per_s for span in server)
    name = "WAL flushes/s" if has_flushes else "WAL writes/s"
    rows = [
        replay.LinePoint(at, value, name)
        for span in server
        if (value := span.wal_flushes_per_s if has_flushes else span.wal_writes_per_s) is not None
        for at in (span.start_s, span.end_s)
    ]
    return replay.line_panel(rows, name, end_s, PANEL, width, last=last)


def _marked(at_s: list[float], panel: Panel, width: int) -> Any:
    """With a line where each checkpoint had begun."""
    if not at_s:
        return panel(width)
    rules = (
        alt.Chart(alt.InlineData(values=[{"time_s": at, "what": CHECKPOINT} for at in at_s]))
        .mark_rule(strokeDash=[4, 3], color=theme.VERMILLION, strokeWidth=1.5)
        .encode(x=alt.X("time_s:Q"))
    )
    return alt.layer(panel(width), rules)


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

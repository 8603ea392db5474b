"""Duty: the table of a tool that people know as text, alike in the terminal and in the report. Refusal: no layout."""

from __future__ import annotations

from dataclasses import dataclass, field

from brickyard.analysis.figures.cells import DASH
from brickyard.analysis.figures.server_tables import file_name, jetstress_cells, sqliosim_note, sqliosim_rows
from brickyard.analysis.figures.servers import test_files
from brickyard.analysis.figures.tools import (
    FAILED_LINES,
    ToolFigure,
    has_failures,
    postmark_seconds,
    tool_figures,
    tool_of,
)
from brickyard.schema.plan import Stream, WriteFile
from brickyard.store import Record
from brickyard.units import format_count, format_size, three_digits


@dataclass(frozen=True)
class ToolTable:
    """`groups` are headings over so many columns each; the first `text_columns` hold words."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    text_columns: int = 0
    groups: tuple[tuple[str, int], ...] = field(default=())
    note: str = ""


def tool_table(record: Record) -> ToolTable | None:
    tool, figures = tool_of(record), tool_figures(record)
    if tool in ("sqliosim", "jetstress"):
        return _server(record, tool) if figures else None
    if tool is None or not any(figure.per_s is not None or (figure.count and tool == "mdtest") for figure in figures):
        return None
    if tool == "bonnie":
        return _bonnie(record, figures)
    if tool == "postmark":
        return _postmark(record, figures)
    if tool == "mdtest":
        rows = [[f.group, f.name, format_count(f.count or 0), _rate(f), _cpu(f)] for f in figures]
        return ToolTable(
            "In mdtest's format",
            ["", "", "operations", "a second", "% CPU"],
            rows,
            2,
            note=MDTEST_FAILED_WORDS if has_failures(record) else "",
        )
    rows = [[f.name, format_count(f.count or 0), _rate(f), _cpu(f)] for f in figures]
    return ToolTable("iowork, in the study's order", ["", "calls", "MiB/s", "% CPU"], rows, text_columns=1)


def _server(record: Record, tool: str) -> ToolTable:
    if tool == "jetstress":
        columns, rows, note = jetstress_cells(record)
        return ToolTable("Jetstress, in Demartek's columns", columns, rows, note=note)
    files = test_files(record)
    several = len({file.database for file in files}) > 1
    names = [file_name(file, several) for file in files]
    rows = [[name, *values] for name, values in sqliosim_rows(record)]
    return ToolTable("SQLIOSim's summary", ["", *names], rows, text_columns=1, note=sqliosim_note(record))


def _rate(figure: ToolFigure) -> str:
    return DASH if figure.per_s is None else three_digits(figure.per_s)


def _cpu(figure: ToolFigure) -> str:
    return DASH if figure.cpu_percent is None else f"{figure.cpu_percent:.1f}"


def _bonnie(record: Record, figures: list[ToolFigure]) -> ToolTable:
    streams = [stream for phase in record.info.plan.phase for stream in phase.stream]
    programs = [stream.program for stream in streams if isinstance(stream, Stream)]
    size = max((program.size for program in programs if isinstance(program, WriteFile)), default=0)
    columns, cells = ["file"], [format_size(size)]
    groups: list[tuple[str, int]] = [("", 1)]
    for figure in figures:
        columns += [f"{figure.name} {figure.unit}", "% CPU"]
        # Whole K/s with thousands, as Bonnie prints them.
        cells += [DASH if figure.per_s is None else format_count(round(figure.per_s)), _cpu(figure)]
        if groups[-1][0] == figure.group:
            groups[-1] = (figure.group, groups[-1][1] + 2)
        else:
            groups.append((figure.group, 2))
    note = (
        "K/s is KiB per second; % CPU is the share of one processor, user and system time of all threads together, so"
        " it may exceed 100."
    )
    return ToolTable("In Bonnie's order", columns, [cells], text_columns=1, groups=tuple(groups), note=note)


PARTS = frozenset({"creation alone", "mixed with transactions", "deletion alone"}) | FAILED_LINES
FAILED_WORDS = (
    "Calls failed: transactions are counted when they begin; transactions and all other operations of which some "
    "failed have no rate; a file that was left incomplete is deleted like the others."
)
MDTEST_FAILED_WORDS = (
    "Calls failed: only operations that succeeded are counted; operations of which some failed have no rate."
)


def _postmark(record: Record, figures: list[ToolFigure]) -> ToolTable:
    failed = any(figure.name in FAILED_LINES for figure in figures)
    rows = []
    for figure in figures:
        is_data = figure.group == "data"
        name = f"  {figure.name}" if figure.name in PARTS else figure.name
        count = format_size(figure.count or 0) if is_data else format_count(figure.count or 0)
        rate = DASH if figure.per_s is None else f"{_rate(figure)} {figure.unit}"
        rows.append([figure.group, name, count, rate])
    whole_s, mixed_s = postmark_seconds(record)
    note = f"{three_digits(whole_s)} s in all, {three_digits(mixed_s)} s of transactions."
    note += f" {FAILED_WORDS}" if failed else ""
    return ToolTable("PostMark's report", ["", "", "count", "rate"], rows, text_columns=2, note=note)

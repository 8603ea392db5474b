"""Duty: the tables of SQLIOSim and Jetstress as text, alike in the terminal and in the report. Refusal: no layout."""

from __future__ import annotations

from brickyard.analysis.figures.cells import DASH
from brickyard.analysis.figures.servers import Jetstress, damage_lines, jetstress, test_files, warnings_of_15_s
from brickyard.analysis.figures.tools import ToolFigure
from brickyard.schema.generated import ServerFileEnd
from brickyard.store import Record
from brickyard.units import format_count, three_digits

LIGHT_IOPS, HEAVY_IOPS = 0.3, 0.5
"""Of a mailbox, as Demartek took them in 2009."""
LENIENT_WORDS = "Strict limits; the lenient ones of runs beyond six hours are not published where we could find them."


def sqliosim_rows(record: Record) -> list[tuple[str, list[str]]]:
    """SQLIOSim's counters by name, a value for each file, and warnings."""
    files = test_files(record)

    def row(name: str, value: object) -> tuple[str, list[str]]:
        return name, [str(value(file)) for file in files] if callable(value) else [str(value)]

    return [
        row("target I/O duration, ms", lambda f: format_count(f.target_io_ns // 1_000_000)),
        row("running average I/O duration, ms", lambda f: format_count(round(f.running_average_ns / 1e6))),
        row("times I/O was throttled", lambda f: format_count(f.throttled)),
        row("I/O request blocks", lambda f: format_count(f.request_blocks)),
        row("reads", lambda f: format_count(f.reads)),
        row("scatter reads", lambda f: format_count(f.scatter_reads)),
        row("writes", lambda f: format_count(f.writes)),
        row("gather writes", lambda f: format_count(f.gather_writes)),
        row("total I/O time, ms", lambda f: format_count(round(f.total_io_ns / 1e6))),
        row("longest I/O, ms", lambda f: format_count(round(f.longest_io_ns / 1e6))),
        row("warnings of I/O over 15 s", lambda f: format_count(f.warnings)),
        row("times it grew", lambda f: format_count(f.grown)),
        row("times it shrank", lambda f: format_count(f.shrunk)),
    ]


def file_name(file: ServerFileEnd, several: bool) -> str:
    name = "log" if file.log else "database"
    return f"{name} {file.database + 1}" if several else name


def sqliosim_figures(record: Record) -> list[ToolFigure]:
    files = test_files(record)
    several = len({file.database for file in files}) > 1
    names = [file_name(file, several) for file in files]
    rows = sqliosim_rows(record)
    found = []
    for index, file in enumerate(names):
        found += [ToolFigure(file, name, int(values[index].replace(",", "")), None, "") for name, values in rows]
    return found


def sqliosim_note(record: Record) -> str:
    late = warnings_of_15_s(record)
    warned = f"{late} requests took 15 s or more." if late else "No request took 15 s or more."
    return "\n".join([warned, *damage_lines(record)])


def jetstress_figures(record: Record) -> list[ToolFigure]:
    found = jetstress(record)
    if found is None:
        return []
    made = [
        ToolFigure("", "achieved IOPS", None, found.achieved_iops, "/s"),
        ToolFigure("", "database reads", None, found.db_reads_per_s, "/s"),
        ToolFigure("", "database writes", None, found.db_writes_per_s, "/s"),
        ToolFigure("", "log writes", None, found.log_writes_per_s, "/s"),
    ]
    times = (
        ("mean database read", found.db_read_s),
        ("mean database write", found.db_write_s),
        ("mean log write", found.log_write_s),
        ("longest sample of database reads", found.db_read_max_s),
        ("longest sample of log writes", found.log_write_max_s),
    )
    made += [ToolFigure("", name, None, value, "s") for name, value in times]
    each = (found.mailbox_iops,) if found.mailbox_iops else (HEAVY_IOPS, LIGHT_IOPS)
    made += [
        ToolFigure("", f"mailboxes of {iops:g} IOPS it supports", found.supportable(iops), None, "") for iops in each
    ]
    return made


JETSTRESS_COLUMNS = (
    "achieved IOPS",
    "DB reads/s",
    "DB writes/s",
    "log writes/s",
    "DB read, s",
    "DB write, s",
    "log write, s",
)
"""Demartek's."""


def jetstress_cells(record: Record) -> tuple[list[str], list[list[str]], str]:
    """Demartek's columns, and the verdict as a note."""
    found = jetstress(record)
    assert found is not None
    rates = (found.achieved_iops, found.db_reads_per_s, found.db_writes_per_s, found.log_writes_per_s)
    times = (found.db_read_s, found.db_write_s, found.log_write_s)
    cells = [*(three_digits(rate) for rate in rates), *(_seconds(time) for time in times)]
    return list(JETSTRESS_COLUMNS), [cells], "\n".join([_verdict(found), LENIENT_WORDS, *damage_lines(record)])


def _seconds(value: float | None) -> str:
    return DASH if value is None else f"{value:.6f}"


def _verdict(found: Jetstress) -> str:
    if not found.passed:
        return f"failed: {'; '.join(found.failures)}"
    each = (found.mailbox_iops,) if found.mailbox_iops else (HEAVY_IOPS, LIGHT_IOPS)
    told = [f"{format_count(found.supportable(iops))} mailboxes of {iops:g} IOPS" for iops in each]
    return f"passed with {found.threads} threads: {' or '.join(told)}"

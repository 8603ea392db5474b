"""Duty: what `durable`, `honesty`, `census` and `crosscheck` found as tables, alike for the terminal and the report.

Refusal: no figure that `honesty` or `analysis` did not give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brickyard.analysis.figures.cells import DASH
from brickyard.analysis.figures.difference_words import UNKNOWN, WITHIN_NOISE, difference_text
from brickyard.analysis.figures.named import LATENCY_TOLD
from brickyard.analysis.figures.workload import requests_of, workload_words
from brickyard.analysis.judging.crosscheck import JUDGED, TIMES, Comparison, TwoPrograms, cursor_words
from brickyard.analysis.studies.census import Census
from brickyard.analysis.studies.census_answer import SHOWN
from brickyard.honesty.answers import LINUX_DEFAULT, WritePath, interval_words
from brickyard.honesty.durable import PAGE_BYTES, SIZES_BYTES, WRITERS, Method, WriteCell
from brickyard.honesty.durable_figures import Commits, DurableWrite, find, methods
from brickyard.honesty.figures import Figures
from brickyard.percentiles import MEDIAN_AND_P99
from brickyard.report.tables import Table
from brickyard.store import Record
from brickyard.units import format_count, format_iops, format_mib_per_s, format_ns, format_size, three_digits

AT_MOST = (
    "commits/s at most: a server makes one log flush at a time, and every fdatasync serves one commit of each client "
    "(95 % interval of its rate in brackets); the server's processors, locks and data files allow fewer, on a fast "
    "device far fewer. Writers that each flush their own place have several flushes in flight, so they may reach more "
    "than that."
)


MARKS = {
    WITHIN_NOISE: "no difference is seen",
    UNKNOWN: "whether they differ is not known, since noise between runs is unknown",
}
"""Of differences."""


def _has_mark(rows: Sequence[Sequence[str]], mark: str) -> bool:
    return any(cell.endswith(f" {mark}") for row in rows for cell in row)


def run_words(records: Sequence[Record]) -> str:
    """What was run, for a heading: the profile's title with what was changed of it, its requests, and how they were
    sent."""
    first = records[0]
    titles = dict.fromkeys(record.info.title or record.info.profile for record in records)
    return "; ".join(filter(None, (*titles, requests_of(first), workload_words(records))))


def crosscheck_tables(of: TwoPrograms, records: Sequence[Record]) -> list[Table]:
    rows = []
    for item in of.found:
        place = (item.phase, item.stream, item.operation)
        for name, side in (("brickyard", item.ours), (of.version, item.theirs)):
            times = [format_ns(side.time_ns(time)) for time in TIMES]
            rows.append([*place, name, format_iops(side.iops), format_mib_per_s(side.bytes_per_s), *times])
        share = difference_text(item.difference_of("iops"))
        rows.append([*place, "difference", share, share, *(_time_difference(item, time) for time in TIMES)])
    if not rows:
        return []
    columns = ("phase", "stream", "operation", "by", "IOPS", "MiB/s", "mean", *MEDIAN_AND_P99)
    return [
        Table(
            "The workload with both, all runs together; places of requests differ"
            if cursor_words(records)
            else "The same workload with both, all runs together",
            columns,
            rows,
            text_columns=4,
            note="; ".join(
                [run_words(records), LATENCY_TOLD, *(f"{m}: {w}" for m, w in MARKS.items() if _has_mark(rows, m))]
            ),
        )
    ]


def _time_difference(item: Comparison, time: str) -> str:
    """With its interval where it is judged."""
    if (judged := f"latency_{time}") in JUDGED:
        return difference_text(item.difference_of(judged))
    share = item.time_difference(time)
    return DASH if share is None else f"{share * 100:+.1f} %"


def census_tables(found: Census, records: Sequence[Record]) -> list[Table]:
    loads = {item.name: item.load for item in found.spreads}
    note, made = run_words(records) if records else "", []
    if found.findings:
        slow = [
            [
                item.unit,
                item.figure,
                loads.get(item.figure, ""),
                f"{three_digits(item.factor)} ×",
                three_digits(item.score),
            ]
            for item in found.findings[:SHOWN]
        ]
        heads = ("unit", "figure", "workload", "slower than its peers", "score")
        made.append(Table("Slow units, the slowest first", heads, slow, text_columns=3))
    rows = [
        [
            item.name,
            item.load,
            str(item.count),
            *(_value(value, item.unit) for value in (item.low, item.median, item.high)),
            f"{item.mad_share:.1%}",
        ]
        for item in found.spreads
    ]
    columns = ("figure", "workload", "units", "least", "median", "most", "spread (1.4826 × MAD)")
    return [*made, Table("All units", columns, rows, text_columns=2, note=note)] if rows else made


def _value(value: float, unit: str) -> str:
    return format_ns(value) if unit == "ns" else three_digits(value)


def honesty_tables(measured: Figures) -> list[Table]:
    made = []
    if measured.groups:
        rows = [[f"{g.writes:,}", format_iops(g.writes_per_s), format_ns(g.flush_ns)] for g in measured.groups]
        made.append(Table("Group commits", ("writes per flush", "writes/s", "flush"), rows, keys=1))
    return [*made, *_dirty(measured)]


def _dirty(measured: Figures) -> list[Table]:
    if not measured.dirty:
        return []
    rows = [
        [
            format_size(d.dirty_bytes),
            f"{d.flushes:,}",
            format_ns(d.writes_ns),
            format_ns(d.flush_ns),
            format_mib_per_s(d.bytes_per_s) if d.dirty_bytes else DASH,
        ]
        for d in measured.dirty
    ]
    columns = ("dirty data", "flushes", "writes", "flush", "MiB/s with flush")
    return [Table("Flush time against dirty data", columns, rows, keys=1)]


def durable_tables(found: WritePath, beside: Mapping[str, float] | None = None, note: str = "") -> list[Table]:
    """`beside`: what pg_test_fsync measured, by method, which no store keeps; `note` says how."""
    costs = [_costs(found.writes), _methods(found.writes, beside or {}, note), _writers(found)] if found.writes else []
    return [*costs, *_dirty(found.measured)]


def _costs(writes: list[DurableWrite]) -> Table:
    rows = []
    for size in SIZES_BYTES:
        of_size = [find(writes, WriteCell(method, size)) for method in Method]
        if any(of_size):
            rows.append([format_size(size), *(format_ns(item.each_ns) if item else DASH for item in of_size)])
    return Table(
        "What a durable write costs (one writer; mean of write and flush)",
        ("write", *map(str, Method)),
        rows,
        keys=1,
        note="–: smaller than the target's sector, or not measured" if any(DASH in row for row in rows) else "",
    )


def _methods(writes: list[DurableWrite], per_s: Mapping[str, float], note: str) -> Table:
    rows = [
        [
            f"{method}{' (default on Linux)' if method is LINUX_DEFAULT else ''}",
            format_iops(item.per_s),
            interval_words(item),
            format_ns(item.each_ns),
            format_count(item.writes),
            *([format_iops(per_s[method])] if method in per_s else [DASH] if per_s else []),
        ]
        for method, item in methods(writes)
    ]
    names = ("wal_sync_method", "writes/s", "95 % interval", "each", "writes")
    return Table(
        f"PostgreSQL's choices, for a page of {format_size(PAGE_BYTES)}",
        (*names, *(["pg_test_fsync, writes/s"] if per_s else [])),
        rows,
        text_columns=1,
        note=note,
    )


def _writers(found: WritePath) -> Table:
    rows = []
    for number, writers in enumerate(WRITERS):
        sides = [
            find(found.writes, WriteCell(m, PAGE_BYTES, writers)) for m in (Method.FDATASYNC, Method.OPEN_DATASYNC)
        ]
        rows.append(
            [
                format_count(writers),
                *(format_iops(item.per_s) if item else DASH for item in sides),
                _range(found.commits[number]) if found.commits else DASH,
            ]
        )
    columns = ("clients", "each with its own fdatasync", "each with O_DSYNC", "commits/s at most")
    return Table("Many writers, in durable writes/s", columns, rows, keys=1, note=AT_MOST)


def _range(group: Commits) -> str:
    if group.low_per_s is None or group.high_per_s is None:
        return format_iops(group.most_per_s)
    return f"{format_iops(group.most_per_s)} ({format_iops(group.low_per_s)} to {format_iops(group.high_per_s)})"


def finding_table(found: WritePath) -> Table:
    """Each judgement with its figures."""
    rows = [[item.state, item.text] for item in found.findings]
    if found.proof:
        rows.append([found.proof.word or "no proof", found.proof.text])
    return Table("What this rests on", ("verdict", "finding"), rows, text_columns=2, keys=1)

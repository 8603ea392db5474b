"""Duty: replays in a report: pictures over time, tables, the paragraph. Refusal: no figure of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import altair as alt
import msgspec

from brickyard.analysis.databases import replay_disks, replay_head_room, replay_pages, replay_runs, terraserver
from brickyard.analysis.databases.replay_disks import DiskSpan
from brickyard.analysis.figures.cells import mark_words
from brickyard.analysis.figures.latency import latency_of
from brickyard.analysis.figures.load_curve import knee, knee_mark
from brickyard.analysis.figures.totals import rated_intervals
from brickyard.percentiles import MEDIAN_AND_P99
from brickyard.report import charts, theme
from brickyard.report.load_curve import load_curve
from brickyard.report.picture import Picture
from brickyard.report.pictures import draw, inlined
from brickyard.report.tables import Table
from brickyard.store import Interval, Record
from brickyard.units import MIB

COLUMNS = 160  # of a picture over time; finer is more than a reader sees
FEW = 20  # columns up to which each has its point
HEIGHT, PANEL = 230, 120
FIGURES = (*MEDIAN_AND_P99, "max")
COLOURS = dict(zip(FIGURES, (theme.BLUE, theme.ORANGE, theme.VERMILLION), strict=True))
DASHES = dict(zip(FIGURES, ([1, 0], [6, 3], [2, 2]), strict=True))

SERVICE = "disk service"

Panel = Callable[[int], Any]
Drawn = tuple[str, str, Picture, Picture]


class LinePoint(msgspec.Struct, frozen=True):
    """Of a line over time; `what` names the line."""

    time_s: float
    value: float
    what: str


class _ResponsePoint(msgspec.Struct, frozen=True):
    time_s: float
    value: float
    what: str
    segment: int


def figures(records: list[Record], wide: int, narrow: int) -> list[Drawn]:
    """For each pace its first run: calls, response times, and the server's disks, on one axis of time."""
    made: list[Drawn] = []
    for number, (name, group) in enumerate(replay_runs.by_pace(records).items()):
        record = group[0]
        if not replay_disks.course(record):
            continue
        file = f"replay-{number + 1}"
        panels = _panels(record)
        words = f"Calls and response times, {name}"
        who = ", ".join(filter(None, (f"Run {record.info.id}", replay_runs.demand_words(record))))
        caption = f"{who}. Response time counts from the instant at which a call was due, so it holds every queue."
        if replay_disks.disk_course(record):
            words = f"Calls, response times and the server's disks, {name}"
            caption += " Below: what the devices under the server's data did meanwhile."
        pictures = [
            draw(f"{file}{suffix}", words, stacked([panel(width) for panel in panels]), width=width)
            for suffix, width in (("", wide), ("-narrow", narrow))
        ]
        made.append((f"Over time: {name}", caption, pictures[0], pictures[1]))
    return [*_curve(records), *made]


def _curve(records: list[Record]) -> list[Drawn]:
    points = replay_head_room.offered_points(records)
    if len(points) < 2:
        return []
    marks = knee_mark(knee(points))
    drawn, small = (load_curve(points, marks, None, narrow=is_narrow) for is_narrow in (False, True))
    who = f"{words}. " if (words := replay_runs.demand_words(records[0])) else ""
    caption = f"{who}Response time counts from the due instant; rates that were not reached are hollow."
    return [("Response time against offered rate", caption, drawn, small)]


def _panels(record: Record) -> list[Panel]:
    seconds = replay_disks.course(record)
    end_s = max(s.start_s + s.length_s for s in seconds)
    rates = [
        LinePoint(at, s.calls / s.length_s, "calls")
        for s in seconds
        if s.length_s > 0
        for at in (s.start_s, s.start_s + s.length_s)
    ]
    disks = replay_disks.disk_course(record)
    # Where all calls failed there is no response time, and no scale for one.
    has_response = bool(response_rows(record))
    made: list[Panel] = [partial(line_panel, rates, "calls/s", end_s, HEIGHT, last=not disks and not has_response)]
    if has_response:
        made.append(partial(response, record, end_s, last=not disks))
    for title, rows in disk_rows(disks) if disks else []:
        is_last = title == SERVICE
        made.append(partial(line_panel, rows, title, end_s, PANEL, last=is_last, is_time=is_last))
    return made


def stacked(panels: list[Any]) -> Any:
    """One above the other; each has colours and a legend of its own."""
    return alt.vconcat(*panels, spacing=14).resolve_scale(color="independent", strokeDash="independent")


def disk_rows(disks: list[DiskSpan]) -> list[tuple[str, list[LinePoint]]]:
    def rows(*columns: tuple[str, str, float]) -> list[LinePoint]:
        return [
            LinePoint(at, value / unit, name)
            for name, key, unit in columns
            for disk in disks
            if (value := getattr(disk.use, key)) is not None
            for at in (disk.start_s, disk.end_s)
        ]

    return [
        ("disk IOPS", rows(("read", "reads_per_s", 1), ("write", "writes_per_s", 1))),
        ("disk MiB/s", rows(("read", "read_bytes_per_s", MIB), ("write", "write_bytes_per_s", MIB))),
        ("disk queue", rows(("queue", "queue", 1))),
        (SERVICE, rows(("service", "service_ns", 1))),
    ]


def line_panel(
    rows: list[LinePoint], title: str, end_s: float, height: int, width: int, *, last: bool, is_time: bool = False
) -> Any:
    names = list(dict.fromkeys(row.what for row in rows)) or ["none"]
    label = theme.TIME_LABEL if is_time else theme.COUNT_LABEL
    return (
        alt.Chart(inlined(rows))
        .mark_line(strokeWidth=1.8, clip=True)
        .encode(
            x=_time(end_s, last=last),
            y=alt.Y("value:Q", title=title, axis=alt.Axis(labelExpr=label, tickCount=4), scale=alt.Scale(zero=True)),
            color=alt.Color(
                "what:N",
                title=None,
                sort=names,
                scale=alt.Scale(domain=names, range=theme.LINE_COLOURS[: len(names)]),
                legend=alt.Legend(symbolType="stroke", symbolStrokeWidth=3) if len(names) > 1 else None,
            ),
        )
        .properties(width=width, height=height)
    )


def _time(end_s: float, *, last: bool) -> Any:
    axis = charts.time_axis(0, end_s)
    return axis if last else axis.title(None).axis(grid=False, labels=False, ticks=False)


def response(record: Record, end_s: float, width: int, *, last: bool) -> Any:
    rows = response_rows(record)
    values = [row.value for row in rows] or [1]
    low, high = max(min(values) * 0.8, 1), max(values) * 1.25
    present = [name for name in FIGURES if any(row.what == name for row in rows)]
    return (
        alt.Chart(inlined(rows))
        .mark_line(strokeWidth=1.8, clip=True, point=len(rows) < 3 * FEW)
        .encode(
            x=_time(end_s, last=last),
            detail="segment:N",
            y=alt.Y(
                "value:Q",
                title="response time",
                scale=alt.Scale(type="log", domain=[low, high], nice=False),
                axis=alt.Axis(labelExpr=theme.TIME_LABEL, values=theme.log_ticks(low, high)),
            ),
            color=alt.Color(
                "what:N",
                title=None,
                sort=present,
                scale=alt.Scale(domain=present, range=[COLOURS[n] for n in present]),
                legend=alt.Legend(symbolType="stroke", symbolStrokeWidth=3),
            ),
            strokeDash=alt.StrokeDash(
                "what:N", title=None, sort=present, scale=alt.Scale(domain=present, range=[DASHES[n] for n in present])
            ),
        )
        .properties(width=width, height=HEIGHT)
    )


def response_rows(record: Record) -> list[_ResponsePoint]:
    """Percentiles of merged histograms; neighbouring intervals share a column where there are many."""
    spans = rated_intervals(record, 0)
    width = -(-len(spans) // COLUMNS) or 1
    groups: dict[int, list[Interval]] = {}
    for item in record.intervals:
        if item.measure == "response":
            groups.setdefault(item.start_ns, []).append(item)
    rows: list[_ResponsePoint] = []
    segments = dict.fromkeys(FIGURES, 0)  # a line ends where a value is missing
    for at in range(0, len(spans), width):
        piece = spans[at : at + width]
        found = latency_of(item for span in piece for item in groups.get(span.start_ns, []))
        if found is None:
            segments = {name: number + 1 for name, number in segments.items()}
            continue
        figures_of = {**{name: found.percentiles[name] for name in MEDIAN_AND_P99}, "max": found.max_ns}
        middle_s = (piece[0].start_ns + piece[-1].end_ns) / 2e9
        for what, value in figures_of.items():
            if value:
                rows.append(_ResponsePoint(middle_s, value, what, segments[what]))
            else:
                segments[what] += 1
    return rows


def tables(records: list[Record]) -> list[Table]:
    made = [
        Table(title, columns, rows, text_columns=1, note="; ".join(mark_words(rows)))
        for title, columns, rows in terraserver.study_tables(records)
    ]
    columns, rows = replay_pages.throughput_rows(records)
    made.append(Table("Calls per second", columns, rows, text_columns=1))
    points = replay_head_room.offered_points(records)
    if len(points) > 1:
        rows = [replay_head_room.curve_row(point) for point in points]
        title, columns = "Response time against offered rate", replay_head_room.CURVE_COLUMNS
        made.append(Table(title, columns, rows, note="; ".join(mark_words(rows))))
    for name, group in replay_runs.by_pace(records).items():
        title = f"{name[0].upper()}{name[1:]}" + (f", {len(group)} repetitions" if len(group) > 1 else "")
        pages = _cut(group, 0, 9)
        marks = "; ".join(mark_words(pages))
        made.append(
            Table(f"{title}: response time by page", replay_pages.PAGE_COLUMNS[:9], pages, text_columns=1, note=marks)
        )
        result = ["page", *replay_pages.PAGE_COLUMNS[9:]]
        made.append(Table(f"{title}: results and failures", result, _cut(group, 9, None), text_columns=1))
        columns, bricks = replay_pages.brick_table(group)
        if bricks:
            # Beside what every page has: errors, and where one was down, for how long.
            kept = [*range(9), *(n for n, column in enumerate(columns) if column in ("errors", "down"))]
            cut = [[row[n] for n in kept] for row in bricks]
            heads, marks = [columns[n] for n in kept], "; ".join(mark_words(cut))
            made.append(Table(f"{title}: by database", heads, cut, text_columns=1, note=marks))
        late = replay_pages.late_rows(group)
        if late:
            made.append(
                Table(
                    f"{title}: how late calls were sent",
                    replay_pages.LATE_COLUMNS,
                    late,
                    text_columns=1,
                    note="; ".join(mark_words(late)),
                )
            )
        errors = replay_pages.error_rows(group)
        if errors:
            made.append(Table(f"{title}: failed calls", ["SQLSTATE", "what it is", "calls"], errors, text_columns=2))
        for record in group:
            made += _disks(f"{title}, run {record.info.id}" if len(group) > 1 else title, record)
        slow = replay_pages.slow_rows(group)
        if slow:
            made.append(Table(f"{title}: slowest calls", replay_pages.SLOW_COLUMNS, slow, text_columns=4))
    return made


def _disks(title: str, record: Record) -> list[Table]:
    """Of one repetition: another one may have found the server's cache warm."""
    made = []
    cold = replay_disks.cold_rows(record)
    if len(cold) > 1:
        made.append(Table(f"{title}: the first seconds", replay_disks.COURSE_COLUMNS, cold, text_columns=1))
    disk = replay_disks.disk_total(record)
    if disk is not None:
        name = f"{title}: the server's disks, {replay_disks.WHOLE_DEVICE}"
        made.append(Table(name, replay_disks.DISK_COLUMNS, [replay_disks.disk_cells(disk)]))
    return made


def _cut(group: list[Record], start: int, end: int | None) -> list[list[str]]:
    return [[row[0], *row[max(start, 1) : end]] for row in replay_pages.page_rows(group)]

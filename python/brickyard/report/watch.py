"""Duty: a watch → a page with pictures. Refusal: no arithmetic beyond unit conversion and shares for a scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt

from brickyard import _core
from brickyard.outputs import report_place
from brickyard.report import charts, theme
from brickyard.report.export import arrow_table
from brickyard.report.picture import Pair, Picture, pair
from brickyard.report.pictures import draw
from brickyard.report.tables import Table
from brickyard.report.written import templates, write_page
from brickyard.units import MIB, format_seconds
from brickyard.watch import figures
from brickyard.watch.causes import CAUSES, cause_shares
from brickyard.watch.figures import Watched
from brickyard.watch.seen import NS, WatchInterval, time_ns
from brickyard.watch.totals import DeviceTotals

WIDTHS = 640, 270
HEIGHT = 220
TICK = 60  # pixels from one label of time to the next
BESIDE_BAR = 90
"""What the name of a bar takes of the width."""
MOST_DEVICES = 8
"""Pictures of so many devices, the busiest; tables of all."""
MOST_COLUMNS = 200
"""Columns of a heat map; several intervals share one where there are more."""


@dataclass(frozen=True)
class WatchSection:
    title: str
    pictures: list[Pair]
    tables: list[Table]


def write_watch_report(watched: Watched, place: Path) -> Path:
    where = report_place(place)
    busiest = sorted(watched.totals.devices.values(), key=lambda one: -one.asked.requests)
    sections = [_device(watched, device, drawn=number < MOST_DEVICES) for number, device in enumerate(busiest)]
    whole = _whole(watched)
    names = ", ".join(watched.totals.devices)
    html = (
        templates()
        .get_template("watch.html.j2")
        .render(
            title=f"Watch of {names}",
            summary=f"{format_seconds(watched.totals.seconds)}, seen by {METHOD_WORDS[watched.method]}",
            opinions=watched.opinions,
            slowest=figures.slowest_words(watched),
            sections=[*sections, *([whole] if whole.pictures or whole.tables else [])],
            notes=figures.notes(watched),
            version=_core.version(),
            pictures=where.pictures.name,
        )
    )
    return write_page(
        where, html, (picture for section in [*sections, whole] for both in section.pictures for picture in both)
    )


def watch_table(watched: Watched) -> Any:
    """Intervals as a pyarrow.Table, for Parquet."""
    return arrow_table(list(figures.interval_rows(watched.totals)), figures.INTERVAL_COLUMNS)


METHOD_WORDS = {
    "bpf": "programs in the kernel, request by request",
    "tracepoints": "the kernel's tracepoints, request by request",
    "counters": "the kernel's counters",
}


def _table(
    title: str, columns: tuple[str, ...], rows: figures.Rows, words: int = 1, keys: int | None = None
) -> list[Table]:
    return [Table(title, columns, rows, text_columns=words, keys=keys)] if rows else []


def _words_first(columns: Sequence[str], rows: figures.Rows) -> tuple[tuple[str, ...], figures.Rows]:
    """The last column, which explains the first, beside it."""
    moved = [[row[0], row[-1], *row[1:-1]] for row in (columns, *rows)]
    return tuple(moved[0]), moved[1:]


def _device(watched: Watched, device: DeviceTotals, *, drawn: bool) -> WatchSection:
    sides = ("reads", "writes")
    tables = [
        *_table(
            "Requests (time from arrival)",
            figures.OPERATION_COLUMNS,
            figures.operation_rows(device, watched.totals.seconds),
        ),
        *_table("Where the time goes", figures.STAGE_COLUMNS, figures.stage_rows(device), 2),
        *_table("Shape of requests", figures.SHAPE_COLUMNS, figures.shape_rows(device, watched.stripe_bytes)),
        *_table("Read ahead", figures.AHEAD_COLUMNS, figures.ahead_rows(watched, device)),
        *_table("Begin on a boundary", ("boundary", *sides), figures.alignment_rows(device)),
        *_table("Distance from the request before", ("distance", *sides), figures.seek_rows(device)),
        *_table("Sequential runs that ended", ("length", *sides), figures.run_rows(device)),
    ]
    if not drawn or not device.cells:
        return WatchSection(device.name, [], tables)
    drawings = (partial(_rates, watched, device.name), partial(_heat, watched, device), partial(_sizes, device))
    return WatchSection(device.name, [both for drawn in drawings for both in pair(drawn, WIDTHS)], tables)


def _whole(watched: Watched) -> WatchSection:
    tables = [
        *_table("By process", figures.OWNER_COLUMNS, figures.owner_rows(watched), 3),
        *_table("Causes of slow requests", *_words_first(figures.CAUSE_COLUMNS, figures.cause_rows(watched)), 2, 1),
        *_table("The slowest requests", figures.SLOW_COLUMNS, figures.slow_rows(watched), 7, 2),
    ]
    return WatchSection("Processes and slow requests", pair(partial(_causes, watched), WIDTHS), tables)


def _along(field: str, watched: Watched, width: int) -> alt.X:
    scale = alt.Scale(nice=False, domain=[0, watched.totals.seconds])
    axis = alt.Axis(tickCount=width // TICK, format="~r", labelFlush=False)
    return alt.X(f"{field}:Q", title="time in s", scale=scale, axis=axis)


def _at(watched: Watched, interval: WatchInterval) -> float:
    return (interval.end_ns - watched.totals.start_ns) / NS


def _rates(watched: Watched, name: str, width: int, suffix: str) -> Picture | None:
    rows = []
    for interval in watched.totals.intervals:
        seconds = max((interval.end_ns - interval.start_ns) / NS, 1e-9)
        for device in interval.devices:
            if device.name == name:
                moved = {"read": 0, "written": 0}
                for cell in device.cells:
                    moved["read"] += cell.bytes if cell.operation == "read" else 0
                    moved["written"] += cell.bytes if cell.operation in ("write", "durable_write") else 0
                rows += [
                    {"at": _at(watched, interval), "what": what, "mib_per_s": moved_bytes / seconds / MIB}
                    for what, moved_bytes in moved.items()
                ]
    if not rows:
        return None
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=2, point={"size": 24})
        .encode(
            x=_along("at", watched, width),
            y=alt.Y("mib_per_s:Q", title="MiB/s"),
            color=alt.Color(
                "what:N", title=None, scale=alt.Scale(domain=["read", "written"], range=[theme.BLUE, theme.VERMILLION])
            ),
            strokeDash=alt.StrokeDash("what:N", title=None, legend=None),
        )
        .properties(width=width, height=HEIGHT, title=theme.folded("Read and written over time", width))
    )
    return draw(f"{name}-rates{suffix}", f"MiB/s read from and written to {name} over time", chart, width=width)


def _heat(watched: Watched, device: DeviceTotals, width: int, suffix: str) -> Picture | None:
    """Requests by time and latency; a cell is an interval wide and two buckets high."""
    group = max(1, -(-len(watched.totals.intervals) // MOST_COLUMNS))
    counts: dict[tuple[float, float, int], int] = {}
    for number in range(0, len(watched.totals.intervals), group):
        some = watched.totals.intervals[number : number + group]
        span = ((some[0].start_ns - watched.totals.start_ns) / NS, _at(watched, some[-1]))
        for seen in (one for interval in some for one in interval.devices if one.name == device.name):
            for cell in seen.cells:
                if cell.operation == "flush_command":
                    continue
                for bucket, count in cell.total:
                    key = (*span, bucket // 2 * 2)
                    counts[key] = counts.get(key, 0) + count
    if not counts:
        return None
    rows = [
        {
            "from": start,
            "to": end,
            "low": max(time_ns(bucket), 1),
            "high": max(time_ns(bucket + 2), 2),
            "requests": count,
        }
        for (start, end, bucket), count in counts.items()
    ]
    buckets = [bucket for _, _, bucket in counts]
    low, high = max(time_ns(min(buckets)), 1), max(time_ns(max(buckets) + 2), 2)
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    title = theme.folded("Time of requests from their arrival, flushes included", width)
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_rect()
        .encode(
            x=_along("from", watched, width),
            x2="to:Q",
            y=alt.Y(
                "low:Q",
                title="time of a request",
                scale=scale,
                axis=alt.Axis(labelExpr=theme.TIME_LABEL, values=theme.log_ticks(low, high)),
            ),
            y2="high:Q",
            color=alt.Color(
                "requests:Q",
                title="requests",
                scale=alt.Scale(type="log", range=["#d9e6f2", "#56B4E9", "#0072B2", "#08304d"]),
                legend=alt.Legend(gradientLength=220, titleLimit=200, format="~s", tickCount=4),
            ),
        )
        .properties(
            width=width,
            height=HEIGHT + 60,
            title=title,
        )
    )
    return draw(
        f"{device.name}-latency{suffix}",
        f"How many requests to {device.name} took how long, over time",
        chart,
        width=width,
    )


def _sizes(device: DeviceTotals, width: int, suffix: str) -> Picture | None:
    rows: list[dict[str, Any]] = []
    for what, cell in (("reads", device.cell("read")), ("writes", device.cell("write", "durable_write"))):
        whole = sum(count for _, count in cell.sizes)
        rows += [
            {"size": figures.size_label(bucket), "what": what, "share": count / whole} for bucket, count in cell.sizes
        ]
    if not rows:
        return None
    order = [figures.size_label(bucket) for bucket, _ in device.asked.sizes]
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("size:N", title="request size", sort=order, axis=alt.Axis(labelAngle=-35, labelOverlap=False)),
            xOffset=alt.XOffset("what:N"),
            y=alt.Y("share:Q", title="share of requests", axis=alt.Axis(format="%")),
            color=alt.Color(
                "what:N", title=None, scale=alt.Scale(domain=["reads", "writes"], range=[theme.BLUE, theme.VERMILLION])
            ),
        )
        .properties(width=width, height=HEIGHT, title=theme.folded("Sizes of requests", width))
    )
    return draw(f"{device.name}-sizes{suffix}", f"Shares of request sizes of {device.name}", chart, width=width)


def _causes(watched: Watched, width: int, suffix: str) -> Picture | None:
    shares = cause_shares(watched.told)
    if not shares:
        return None
    rows = [{"cause": cause, "share": share, "row": "slow requests"} for cause, _, share in shares]
    present = [cause for cause in CAUSES if any(cause == one for one, _, _ in shares)]
    colours = [charts.CAUSE_COLOURS[CAUSES.index(cause)] for cause in present]
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(size=34)
        .encode(
            x=alt.X("share:Q", title="share of their time", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("row:N", title=None),
            color=alt.Color("cause:N", title=None, scale=alt.Scale(domain=present, range=colours)),
        )
        .properties(width=width - BESIDE_BAR, height=60, title=theme.folded("Why requests were slow", width))
    )
    said = ", ".join(f"{cause} {share:.0%}" for cause, _, share in shares)
    return draw(f"causes{suffix}", f"Shares of the time of slow requests by cause: {said}", chart, width=width)

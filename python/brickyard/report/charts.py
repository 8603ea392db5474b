"""Duty: analysed figures → charts. Refusal: no arithmetic beyond unit conversion, and no files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import altair as alt
import msgspec

from brickyard.analysis import HeatCell, Point, RankedCell
from brickyard.analysis.figures.series import IOPS, pieces
from brickyard.analysis.judging.slow import CauseShare
from brickyard.analysis.judging.without_rate import Key
from brickyard.analysis.studies.characterization import latency_name
from brickyard.percentiles import SHOWN_NAMES
from brickyard.report import theme
from brickyard.report.pictures import LETTER, inlined
from brickyard.units import MIB

PATTERN = tuple[str, str]
Band = tuple[str, float, float]
"""Name, start and end in seconds of one of the loads that follow one another."""
SYMBOL = 34  # pixels of the stroke of a legend and of the gaps beside it
BAND_LINE = 14  # line height of the names above a picture, in pixels
DECADES_LABELLED = 5  # labels of decades below the gradient of a narrow picture
LINES_NAMED = 16  # a legend of more lines is larger than its picture: they are named by operation
DASHES = [[1, 0], [8, 8], [3, 7], [12, 4, 2, 4]]
ZERO_SHARE = 0.5  # on a log axis, an interval without completions is drawn at this share of the smallest rate


def pattern_name(pattern: PATTERN) -> str:
    return " ".join(pattern)


def _unbroken(
    pattern: PATTERN,
    cells: list[RankedCell],
    without: Collection[Key],
    value: Callable[[RankedCell], float | None],
) -> Iterator[tuple[RankedCell, float, int]]:
    """Points with the number of the line that they belong to: a line ends at a size `without` a rate, whether its
    run failed or was never started."""
    of_size = {item.cell.request_bytes: item for item in cells}
    missing = {size for *other, size in without if tuple(other) == pattern} - set(of_size)
    sizes = sorted({*of_size, *missing})
    values = [value(of_size[size]) if size in of_size else None for size in sizes]
    for size, known, segment in theme.unbroken(sizes, values):
        yield of_size[size], known, segment


class _SizePoint(msgspec.Struct, frozen=True):
    request_bytes: int
    iops: float
    mib_per_s: float
    fills_caches: bool
    segment: int


def characterization(
    pattern: PATTERN,
    cells: list[RankedCell],
    *,
    sizes: tuple[int, int],
    without: Collection[Key] = (),
    width: int = 380,
    height: int = 250,
) -> Any:
    """Request size on a log axis, IOPS left, MiB/s right; lines end where a cell has no rate."""
    rows = [
        _SizePoint(item.cell.request_bytes, rate, item.cell.row.bytes_per_s / MIB, item.cell.fills_caches, segment)
        for item, rate, segment in _unbroken(pattern, cells, without, lambda item: item.cell.row.iops)
    ]
    base = alt.Chart(inlined(rows)).encode(x=theme.size_axis(*sizes), detail="segment:N")

    def hollow(field: str, colour: str, shape: str) -> Any:
        """Points whose rate does not last."""
        points = base.transform_filter("datum.fills_caches")
        return points.mark_point(
            filled=True, fill="white", stroke=colour, strokeWidth=1.6, size=42, shape=shape, opacity=1
        ).encode(y=f"{field}:Q")

    def axis(field: str, title: str, colour: str, orient: str) -> Any:
        return alt.Y(
            f"{field}:Q",
            title=title,
            scale=alt.Scale(zero=True, nice=True),
            axis=alt.Axis(
                orient=orient,  # type: ignore[arg-type]
                titleColor=colour,
                titleFontWeight=600,
                labelColor=colour,
                labelExpr=theme.COUNT_LABEL,
                grid=orient == "left",
                tickCount=5,
            ),
        )

    iops = base.mark_line(color=theme.BLUE, strokeWidth=2.2, point={"color": theme.BLUE, "size": 42}).encode(
        y=axis("iops", "IOPS", theme.BLUE, "left")
    )
    throughput = base.mark_line(
        color=theme.VERMILLION,
        strokeWidth=2.2,
        strokeDash=[6, 3],
        point={"color": theme.VERMILLION, "size": 42, "shape": "square"},
    ).encode(y=axis("mib_per_s", "MiB/s", theme.VERMILLION, "right"))
    if any(row.fills_caches for row in rows):
        iops += hollow("iops", theme.BLUE, "circle")
        throughput += hollow("mib_per_s", theme.VERMILLION, "square")
    return (
        alt.layer(iops, throughput)
        .resolve_scale(y="independent")
        .properties(width=width, height=height, title=pattern_name(pattern).capitalize())
    )


class _PercentilePoint(msgspec.Struct, frozen=True):
    request_bytes: int
    figure: str
    time_ns: float
    segment: int


def _percentile(item: RankedCell, name: str) -> float | None:
    figures = item.cell.row.latency
    return figures.percentiles[name] if figures else None


def latency(
    pattern: PATTERN,
    cells: list[RankedCell],
    *,
    sizes: tuple[int, int],
    without: Collection[Key] = (),
    width: int = 380,
    height: int = 250,
) -> Any:
    """Percentiles of the latency against request size; a point is missing where too few samples lie beyond."""
    rows = [
        _PercentilePoint(item.cell.request_bytes, name, value, segment)
        for name in SHOWN_NAMES
        for item, value, segment in _unbroken(pattern, cells, without, partial(_percentile, name=name))
    ]
    low = min((row.time_ns for row in rows), default=1)
    high = max((row.time_ns for row in rows), default=10)
    present = [name for name in SHOWN_NAMES if any(row.figure == name for row in rows)]
    # From dark to light with rising percentile would say "less"; viridis from light to dark says "further out".
    colours = ["#a5bf00", "#35b779", "#26828e", "#3e4989", "#440154"]
    shapes = ["circle", "square", "triangle-up", "diamond", "cross"]
    number = [SHOWN_NAMES.index(name) for name in present]
    return (
        alt.Chart(inlined(rows))
        .mark_line(strokeWidth=2, point={"size": 46, "filled": True})
        .encode(
            x=theme.size_axis(*sizes),
            detail="segment:N",
            y=alt.Y(
                "time_ns:Q",
                title=latency_name({pattern: cells}),
                scale=alt.Scale(type="log", nice=False, domain=[low * 0.8, high * 1.25]),
                axis=alt.Axis(labelExpr=theme.TIME_LABEL, values=theme.log_ticks(low * 0.8, high * 1.25)),
            ),
            color=alt.Color(
                "figure:N",
                title=None,
                sort=present,
                scale=alt.Scale(domain=present, range=[colours[n] for n in number]),
                legend=alt.Legend(columns=5, symbolType="circle"),
            ),
            shape=alt.Shape(
                "figure:N",
                title=None,
                sort=present,
                scale=alt.Scale(domain=present, range=[shapes[n] for n in number]),
                legend=alt.Legend(columns=5),
            ),
        )
        .properties(width=width, height=height, title=pattern_name(pattern).capitalize())
    )


class _RatePoint(msgspec.Struct, frozen=True):
    rate: float
    series: str
    line: str
    time_s: float


def throughput(
    points: list[Point],
    series_of: dict[int, str],
    unit: str,
    clock: Clock,
    *,
    log: bool,
    width: int,
    height: int = 260,
    bands: Sequence[Band] = (),
) -> Any:
    """The rate of each interval as steps, in IOPS or MiB/s; `series_of` names the line to which a run belongs. Lines
    have gaps where intervals are not counted."""

    def value(point: Point) -> float:
        return point.iops if unit == IOPS else point.bytes_per_s / MIB

    rates = [value(point) for point in points if value(point) > 0]
    floor = min(rates, default=1.0) * ZERO_SHARE
    span = floor, max(rates, default=1.0) * 1.25
    loads = {(p.run, p.stream, p.operation) for p in points}
    many_operations = len(loads) > len({run for run, _, _ in loads})
    rows: list[_RatePoint] = []
    operation_of: dict[str, str] = {}
    for point, piece in zip(points, pieces(points), strict=True):
        rate = value(point)
        whole = name = series_of.get(point.run, "")
        if many_operations or not name:
            # One stream has one look over all phases, which the bands name, and a line in each.
            whole = " ".join(filter(None, (name, point.stream, point.operation)))
            name = " ".join(filter(None, (name, point.shared or point.stream, point.operation)))
        line = f"{point.run} {whole} {piece}"
        operation_of[line] = point.operation
        drawn = max(rate, floor) if log else rate
        rows += [_RatePoint(drawn, name, line, round(at, 4)) for at in (point.start_s, point.end_s)]
    names = list(dict.fromkeys(row.series for row in rows))
    if len(names) > LINES_NAMED:
        rows = [msgspec.structs.replace(row, series=operation_of[row.line]) for row in rows]
        names = list(dict.fromkeys(row.series for row in rows))
    colours = theme.line_colours(names)
    # Operations of one run may have one rate: a line that lies on another is dashed, so that both are seen.
    run_of = {row.series: row.line.split(" ", 1)[0] for row in rows}
    place = [sum(run_of[before] == run_of[name] for before in names[:at]) for at, name in enumerate(names)]
    patterns = alt.Scale(domain=names, range=[DASHES[number % len(DASHES)] for number in place])
    dashes = alt.StrokeDash("series:N", sort=names, legend=None, scale=patterns)
    apart = {"strokeDash": dashes} if many_operations else {}
    times = [row.time_s for row in rows] or [0.0, 1.0]
    span_s = min(times), max(times)
    drawn = (
        alt.Chart(inlined(rows))
        .mark_line(strokeWidth=1.8, clip=True)
        .encode(
            x=time_axis(*span_s, clock.title),
            y=alt.Y(
                "rate:Q",
                title=unit,
                scale=alt.Scale(type="log", domain=span, nice=False) if log else alt.Scale(zero=True, nice=True),
                axis=alt.Axis(labelExpr=theme.COUNT_LABEL, values=theme.log_ticks(*span))
                if log
                else alt.Axis(labelExpr=theme.COUNT_LABEL, tickCount=5),
            ),
            detail="line:N",
            color=alt.Color(
                "series:N",
                title=None,
                sort=names,
                scale=alt.Scale(domain=names, range=colours),
                legend=alt.Legend(columns=_columns(names, width), symbolType="stroke", symbolStrokeWidth=3)
                if len(names) > 1
                else None,
            ),
            **apart,
        )
    )
    layers = [drawn, *_changed(clock, span_s)]
    if len(bands) > 1:
        layers += _bands(bands, span_s, width)
    return alt.layer(*layers).properties(width=width, height=height)


def _columns(names: Sequence[str], width: int) -> int:
    """Of a legend that is no wider than its plot: a wider one would make the plot small."""
    return max(1, int(width / (max(map(len, names)) * LETTER + SYMBOL)))


@dataclass(frozen=True)
class Clock:
    """What the time of a picture counts from, and the changes that are marked in it."""

    title: str = "measured time in seconds"
    changes: tuple[tuple[str, float], ...] = ()
    """Names and seconds, in the order of time."""


SINCE_START = "time since the run began in seconds"


def time_axis(start_s: float, end_s: float, title: str = Clock.title) -> Any:
    return alt.X(
        "time_s:Q",
        title=title,
        scale=alt.Scale(domain=[start_s, end_s], nice=False),
        axis=alt.Axis(grid=False, format=",~r", tickCount=8, labelFlush=False),
    )


class _HeatBin(msgspec.Struct, frozen=True):
    time_s: float
    end_s: float
    low_ns: float
    high_ns: float
    share: float


def heat_map(
    cells: Iterable[HeatCell], bands: Sequence[Band], clock: Clock, timed: str, *, width: int, height: int = 300
) -> Any:
    """Response times over time: how large a share of an interval's requests, or of what else `timed` names, fell into
    each bin of a log axis."""
    rows = [
        _HeatBin(round(cell.start_s, 4), round(cell.end_s, 4), max(cell.low_ns, 1), cell.high_ns, cell.share)
        for cell in cells
    ]
    low, high = min(row.low_ns for row in rows), max(row.high_ns for row in rows)
    start_s, end_s = min(row.time_s for row in rows), max(row.end_s for row in rows)
    least = min(row.share for row in rows)
    picture = (
        alt.Chart(inlined(rows))
        .mark_rect(strokeWidth=0, aria=False)
        .encode(
            x=time_axis(start_s, end_s, clock.title),
            x2="end_s:Q",
            y=alt.Y(
                "low_ns:Q",
                title="response time",
                scale=alt.Scale(type="log", domain=[low, high], nice=False),
                axis=alt.Axis(labelExpr=theme.TIME_LABEL, values=theme.log_ticks(low, high), grid=False),
            ),
            y2="high_ns:Q",
            color=alt.Color(
                "share:Q",
                title=f"share of the {timed} in an interval",
                scale=alt.Scale(type="log", domain=[min(least, 0.1), 1], scheme="viridis", reverse=True, nice=False),
                legend=alt.Legend(
                    format=".4~%",
                    gradientLength=min(width - 40, 360),
                    gradientThickness=12,
                    values=_share_ticks(min(least, 0.1)),
                ),
            ),
        )
    )
    layers = [picture, *_changed(clock, (start_s, end_s))]
    if len(bands) > 1:
        layers += _bands(bands, (start_s, end_s), width)
    return alt.layer(*layers).properties(width=width, height=height)


def _share_ticks(least: float) -> list[float]:
    """Decades from 1 down; every second one where the labels of all would touch."""
    decades = [value for value in (1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6) if value >= least]
    return decades[:: 2 if len(decades) > DECADES_LABELLED else 1]


class _Band(msgspec.Struct, frozen=True):
    time_s: float
    middle_s: float
    name: str


def _bands(bands: Sequence[Band], span_s: tuple[float, float], width: int) -> list[Any]:
    """Names above the picture where loads follow one another, and lines between them; a name without room is left
    out."""
    pixels_per_s = width / max(span_s[1] - span_s[0], 1e-9)

    def fits(name: str, length_s: float) -> bool:
        return max(map(len, name.split("\n"))) * LETTER <= length_s * pixels_per_s

    rows = [_Band(start, (start + end) / 2, name if fits(name, end - start) else "") for name, start, end in bands]
    x_scale = alt.Scale(domain=span_s, nice=False)
    lines = (
        alt.Chart(inlined(rows[1:]))
        .mark_rule(color="#7b8794", strokeDash=[3, 3], aria=False)
        .encode(x=alt.X("time_s:Q", scale=x_scale))
    )
    # A text of several lines hangs down from its anchor, so that it is lifted by all lines but the first.
    extra = max(row.name.count("\n") for row in rows)
    names = (
        alt.Chart(inlined(rows))
        .mark_text(
            baseline="bottom",
            dy=-4 - BAND_LINE * extra,
            fontSize=12,
            color=theme.PALE,
            lineBreak="\n",
            lineHeight=BAND_LINE,
        )
        .encode(x=alt.X("middle_s:Q", scale=x_scale), y=alt.value(0), text="name:N")
    )
    return [lines, names]


class _Change(msgspec.Struct, frozen=True):
    time_s: float
    name: str


def _changed(clock: Clock, span_s: tuple[float, float]) -> list[Any]:
    """A line at each change, and its name above the picture, each in a line of text of its own; the names end at
    their lines where there is less room after them."""
    start_s, end_s = span_s
    rows = [_Change(at_s, name) for name, at_s in clock.changes if start_s <= at_s <= end_s]
    layers: list[Any] = []
    for number, row in enumerate(rows, 1):
        x = alt.X("time_s:Q", scale=alt.Scale(domain=span_s, nice=False))
        at = alt.Chart(inlined([row])).encode(x=x)
        is_late = row.time_s - start_s > end_s - row.time_s
        text = at.mark_text(
            align="right" if is_late else "left",
            baseline="bottom",
            dy=-4 - BAND_LINE * (len(rows) - number),
            fontSize=12,
            color=theme.INK,
        )
        # Seen on the dark cells of a heat map too.
        under = at.mark_rule(color="white", opacity=0.8, strokeWidth=3.5)
        rule = at.mark_rule(color=theme.INK, strokeDash=[5, 3], strokeWidth=1.4)
        layers += [under, rule, text.encode(y=alt.value(0), text="name:N")]
    return layers


BAR, BAR_ROOM = 24, 34  # of one run, and with the gap to the next
LEGEND_COLUMNS = 130  # pixels a name of a cause takes


class _ShareOfRun(msgspec.Struct, frozen=True):
    run: str
    cause: str
    share: float
    order: int


def causes(told: dict[str, list[CauseShare]], *, width: int) -> Any:
    """One bar of shares for each run."""
    rows = [
        _ShareOfRun(run, one.cause, one.time_share, number)
        for run, shares in told.items()
        for number, one in enumerate(shares)
    ]
    names = list(dict.fromkeys(one.cause for shares in told.values() for one in shares))
    colours = [CAUSE_COLOURS[number % len(CAUSE_COLOURS)] for number in range(len(names))]
    legend = alt.Legend(orient="top", columns=max(width // LEGEND_COLUMNS, 1), symbolType="square")
    return (
        alt.Chart(inlined(rows))
        .mark_bar(size=BAR)
        .encode(
            x=alt.X(
                "share:Q",
                title="share of response time",
                axis=alt.Axis(format="%", tickCount=5),
                scale=alt.Scale(domain=[0, 1]),
            ),
            y=alt.Y("run:N", title=None, sort=None),
            color=alt.Color("cause:N", title=None, scale=alt.Scale(domain=names, range=colours), legend=legend),
            order="order:Q",
        )
        .properties(width=width, height=BAR_ROOM * len(told))
    )


CAUSE_COLOURS = [*theme.LINE_COLOURS, "#999999", "#66512c", "#c0c6cc"]

"""Duty: SNIA's tests as the pictures that its report format asks for: the steady state of each test, and its own plot.

Refusal: no figure is computed here; a picture of rounds that were not steady says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import altair as alt
import msgspec

from brickyard.analysis.studies.pts import RANGE_MAX, Measured, Point, complete
from brickyard.analysis.studies.pts_points import OperatingPoint
from brickyard.report import theme
from brickyard.report.picture import Picture
from brickyard.report.pictures import draw, inlined
from brickyard.study.snia import tests
from brickyard.study.snia.tables import cell_words, window_words
from brickyard.study.snia.test import Found, Rounds
from brickyard.study.snia.tests import TITLES
from brickyard.units import MB, format_size

Drawn = tuple[str, str, Picture, Picture]
"""Title, caption, and the picture for a wide and for a narrow page."""
Chart = Callable[[bool], Any]
WIDE, NARROW = 660, 330
PLOT, NARROW_PLOT, HEIGHT = 570, 235, 300
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [10, 4], [3, 1])
BINS_PER_DECADE = 12
COURSE = {"iops": "IOPS", "bytes_per_s": "10^6 bytes/s", "mean_ns": "mean response time"}


class _Mark(msgspec.Struct, frozen=True):
    """A point of a line that has a name."""

    x: float
    y: float
    line: str
    order: int = 0


class _Span(msgspec.Struct, frozen=True):
    """A rectangle: the band of a window, or a bin of a histogram."""

    x: float
    end: float
    y: float
    high: float


class _Bar(msgspec.Struct, frozen=True):
    size: str
    y: float
    group: str


def figures(found: Found, io: str) -> list[Drawn]:
    """Of each test its own plot, then its steady state; `io` says what all figures depend on."""
    made: list[Drawn] = []
    for name, rounds in found.rounds.items():
        own = _OWN[name](rounds)
        load = _load(rounds, io)
        made += [_drawn(f"pts-{key}", title, caption, chart, rounds, load) for key, title, caption, chart in own]
        if name == "dirth" and found.operating:
            made += _histogram(found.operating, io)
        if rounds.window is not None:
            title = f"{TITLES[name]}: rounds until steady"
            caption = (
                "The dots are rounds. Shaded: the mean of the measurement window ± 10 %, the range that PTS allows. "
                "Dashed: the line that fits the window best, whose slope PTS limits."
            )
            made.append(_drawn(f"pts-steady-{name}", title, caption, _steady(rounds), rounds, io))
    if found.saturation:
        made.append(_saturation(found.saturation, io))
    return made + ([_stimuli(found, io)] if found.stimuli else [])


def _drawn(key: str, title: str, caption: str, chart: Chart, rounds: Rounds, io: str) -> Drawn:
    return _both(key, title, caption, chart, ", ".join(part for part in (window_words(rounds), io) if part))


def _load(rounds: Rounds, io: str) -> str:
    """What all cells of a test depend on; where its queue varies, that is an axis."""
    queues = {cell.queue_words for cell in rounds.test.cells}
    return f"{queues.pop()}, {io}" if len(queues) == 1 else io


def _both(key: str, title: str, caption: str, chart: Chart, note: str) -> Drawn:
    wide, narrow = (
        draw(f"{key}{'-narrow' if is_narrow else ''}", title, chart(is_narrow), width=width, note=note)
        for is_narrow, width in ((False, WIDE), (True, NARROW))
    )
    return title, caption, wide, narrow


def _sized(chart: Any, *, narrow: bool, title: str | list[str] = "", height: int = HEIGHT) -> Any:
    return chart.properties(width=NARROW_PLOT if narrow else PLOT, height=height, **({"title": title} if title else {}))


def _value(rounds: Rounds, figures: Measured) -> float:
    value = float(getattr(figures, rounds.test.figure))
    return value / MB if rounds.test.figure == "bytes_per_s" else value


def _label(figure: str) -> str:
    return theme.TIME_OR_0_LABEL if figure == "mean_ns" else theme.COUNT_LABEL


def _steady(rounds: Rounds) -> Chart:
    """PTS's plot of the measurement window: rounds, mean, best-fit line, and the band of the allowed range."""
    window, at = rounds.window, rounds.test.cells.index(rounds.test.steady)
    assert window is not None
    scale = MB if rounds.test.figure == "bytes_per_s" else 1.0
    mean, half = window.mean / scale, window.slope / scale / 2
    last = len(rounds.rounds)
    first = last - len(window.values) + 1
    values = [_value(rounds, cells[at]) for cells in rounds.rounds]
    names = ["rounds", "mean of the window", "best-fit line"]
    rows = [_Mark(number, value, names[0]) for number, value in enumerate(values, 1)]
    lines = [_Mark(number, mean, names[1]) for number in (first, last)]
    lines += [_Mark(first, mean - half, names[2]), _Mark(last, mean + half, names[2])]
    low, high = mean * (1 - RANGE_MAX / 2), mean * (1 + RANGE_MAX / 2)
    band = [_Span(first, last, low, high)]
    least, most = min([*values, low]), max([*values, high])

    def chart(narrow: bool) -> Any:
        x = alt.X(
            "x:Q",
            title="round",
            scale=alt.Scale(domain=[0.5, last + 0.5], nice=False),
            axis=alt.Axis(values=list(range(1, last + 1)), format="d", grid=False),
        )
        y = alt.Y(
            "y:Q",
            title=COURSE[rounds.test.figure],
            scale=alt.Scale(
                domain=[least - (most - least) * 0.15, most + (most - least) * 0.15], nice=True, zero=False
            ),
            axis=alt.Axis(labelExpr=_label(rounds.test.figure), tickCount=6),
        )
        colours = alt.Scale(domain=names, range=[theme.BLUE, theme.GREEN, theme.VERMILLION])
        dashes = alt.Scale(domain=names, range=[[1, 0], [1, 0], [6, 4]])
        look = {
            "color": alt.Color(
                "line:N",
                title=None,
                scale=colours,
                legend=alt.Legend(columns=1 if narrow else 3, symbolType="stroke", symbolStrokeWidth=3),
            ),
            "strokeDash": alt.StrokeDash("line:N", title=None, scale=dashes, legend=None),
        }
        shade = alt.Chart(inlined(band)).mark_rect(color=theme.SKY, opacity=0.25)
        dots = {"size": 60, "filled": True, "color": theme.BLUE}
        layers = [
            shade.encode(x=x, x2="end:Q", y=y, y2="high:Q"),
            alt.Chart(inlined(rows)).mark_line(strokeWidth=1.2, point=dots).encode(x=x, y=y, **look),
            alt.Chart(inlined(lines)).mark_line(strokeWidth=2).encode(x=x, y=y, **look),
        ]
        state = "steady" if window.is_steady else "NOT steady"
        words = [f"{cell_words(rounds.test.steady)}:", f"{state} in rounds {first} to {last}"]
        return _sized(alt.layer(*layers), narrow=narrow, title=words if narrow else " ".join(words))

    return chart


Own = list[tuple[str, str, str, Chart]]


def _iops(rounds: Rounds) -> Own:
    rows = [_Mark(cell.size_bytes, rounds.of(cell).iops, cell.mix) for cell in rounds.test.cells]
    names = [f"{reads}/{100 - reads}" for reads in tests.MIXES]
    sizes = sorted({cell.size_bytes for cell in rounds.test.cells})
    values = [row.y for row in rows if row.y]
    low, high = min(values, default=1) * 0.8, max(values, default=10) * 1.25

    def chart(narrow: bool) -> Any:
        x = alt.X(
            "x:Q",
            title="block size",
            scale=alt.Scale(type="log", base=2, domain=[sizes[0] * 0.85, sizes[-1] * 1.15], nice=False),
            axis=alt.Axis(values=sizes[:: 2 if narrow else 1], labelExpr=theme.SIZE_LABEL, labelOverlap="greedy"),
        )
        y = alt.Y(
            "y:Q",
            title="IOPS",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=alt.Axis(labelExpr=theme.COUNT_LABEL, values=theme.log_ticks(low, high)),
        )
        return _sized(_lines([row for row in rows if row.y], x, y, names, "read/write", narrow=narrow), narrow=narrow)

    caption = "Each line is a mix of reads and writes, in per cent; means of the measurement window."
    return [("iops", "IOPS by block size and read/write mix", caption, chart)]


def _lines(rows: list[_Mark], x: Any, y: Any, names: list[str], title: str, *, narrow: bool) -> Any:
    """Lines that differ in colour, dash and mark, with one legend below."""
    legend = alt.Legend(columns=3 if narrow else len(names), titleLimit=300)
    look: dict[str, Any] = {"title": title, "sort": names, "legend": legend}
    return (
        alt.Chart(inlined(rows))
        .mark_line(strokeWidth=1.8, point={"size": 46, "filled": True})
        .encode(
            x=x,
            y=y,
            color=alt.Color("line:N", scale=alt.Scale(domain=names, range=theme.LINE_COLOURS[: len(names)]), **look),
            shape=alt.Shape("line:N", scale=alt.Scale(domain=names, range=list(SHAPES[: len(names)])), **look),
            strokeDash=alt.StrokeDash(
                "line:N", scale=alt.Scale(domain=names, range=list(DASHES[: len(names)])), title=title, legend=None
            ),
        )
    )


def _throughput(rounds: Rounds) -> Own:
    rows = [
        _Bar(format_size(cell.size_bytes), rounds.of(cell).bytes_per_s / MB, "read" if cell.reads else "write")
        for cell in rounds.test.cells
    ]

    def chart(narrow: bool) -> Any:
        return _sized(_bars(rows, "10^6 bytes/s", theme.COUNT_LABEL), narrow=narrow)

    return [("throughput", "Throughput by block size", "Means of the measurement window.", chart)]


def _latency(rounds: Rounds) -> Own:
    def rows(figure: str) -> list[_Bar]:
        return [
            _Bar(format_size(cell.size_bytes), getattr(rounds.of(cell), figure), cell.mix)
            for cell in reversed(rounds.test.cells)
        ]

    def chart(narrow: bool) -> Any:
        panels = [
            _sized(
                _bars(rows(figure), "response time", theme.TIME_OR_0_LABEL),
                narrow=narrow,
                title=title,
                height=HEIGHT * 2 // 3,
            )
            for figure, title in (("mean_ns", "Average"), ("max_ns", "Maximum"))
        ]
        return alt.vconcat(*panels, spacing=24).resolve_scale(y="independent", color="shared")

    caption = "Each colour is a mix of reads and writes, in per cent. Maximum: the longest of all rounds of the window."
    return [("latency", "Response time by block size and read/write mix", caption, chart)]


def _bars(rows: list[_Bar], heading: str, label: str) -> Any:
    sizes = list(dict.fromkeys(row.size for row in rows))
    groups = list(dict.fromkeys(row.group for row in rows))
    colours = alt.Scale(domain=groups, range=theme.LINE_COLOURS[: len(groups)])
    return (
        alt.Chart(inlined(rows))
        .mark_bar(opacity=1)
        .encode(
            x=alt.X("size:N", sort=sizes, title="block size", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("group:N", sort=groups),
            y=alt.Y("y:Q", title=heading, axis=alt.Axis(labelExpr=label, tickCount=5), scale=alt.Scale(zero=True)),
            color=alt.Color("group:N", title=None, sort=groups, scale=colours, legend=alt.Legend(symbolType="square")),
        )
    )


def _demand(rounds: Rounds) -> Own:
    known = [(cell, figures) for cell in rounds.test.cells if (figures := rounds.of(cell)).iops]
    by_depth = [_Mark(cell.depth, figures.iops, str(cell.workers)) for cell, figures in known]
    by_rate = [_Mark(figures.iops, figures.mean_ns, str(cell.workers), cell.depth) for cell, figures in known]
    names = [str(number) for number in tests.DEMAND]
    most = max((row.y for row in by_depth), default=1.0)
    times = [row.y for row in by_rate]
    low, high = min(times, default=1) * 0.8, max(times, default=10) * 1.25
    by_iops = alt.Scale(domain=[0, most * 1.05], nice=True)

    def variation(narrow: bool) -> Any:
        x = alt.X(
            "x:Q",
            title="queue depth of each thread",
            scale=alt.Scale(type="log", base=2, domain=[0.9, tests.DEMAND[0] * 1.1], nice=False),
            axis=alt.Axis(values=sorted(tests.DEMAND), format="d"),
        )
        y = alt.Y("y:Q", title="IOPS", scale=by_iops, axis=alt.Axis(labelExpr=theme.COUNT_LABEL, tickCount=6))
        return _sized(_lines(by_depth, x, y, names, "threads", narrow=narrow), narrow=narrow)

    def intensity(narrow: bool) -> Any:
        x = alt.X("x:Q", title="IOPS", scale=by_iops, axis=alt.Axis(labelExpr=theme.COUNT_LABEL, tickCount=4))
        y = alt.Y(
            "y:Q",
            title="mean response time",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=alt.Axis(labelExpr=theme.TIME_LABEL, values=theme.log_ticks(low, high)),
        )
        drawn = _lines(by_rate, x, y, names, "threads", narrow=narrow).encode(order="order:Q")
        return _sized(drawn, narrow=narrow)

    return [
        ("demand-variation", "Demand variation", "IOPS by queue depth; each line is a number of threads.", variation),
        (
            "demand-intensity",
            "Demand intensity",
            "The mean response time that each rate costs; along a line, the queue depth of its threads grows.",
            intensity,
        ),
    ]


_OWN: dict[str, Callable[[Rounds], Own]] = {
    "iops": _iops,
    "throughput": _throughput,
    "latency": _latency,
    "dirth": _demand,
}


def histogram_bins(figures: Measured) -> list[_Span]:
    """Response times on a log axis, each bin with its share of the requests."""
    edges = sorted({round(10 ** (step / BINS_PER_DECADE)) for step in range(BINS_PER_DECADE * 12)})
    counts = figures.histogram.counts(edges) if figures.histogram else [0] * (len(edges) - 1)
    return [
        _Span(low_ns, high_ns, 0, count / figures.requests)
        for (low_ns, high_ns), count in zip(pairwise(edges), counts, strict=True)
        if count
    ]


def _histogram(points: Sequence[OperatingPoint], io: str) -> list[Drawn]:
    """PTS's response time histogram of the operating points, as shares of their requests."""
    known = [point for point in points if point.figures.histogram]
    if not known:
        return []
    bins = [histogram_bins(point.figures) for point in known]
    low, high = min(one.x for own in bins for one in own), max(one.end for own in bins for one in own)

    def chart(narrow: bool) -> Any:
        x = alt.X(
            "x:Q",
            title="response time",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=alt.Axis(
                labelExpr=theme.TIME_LABEL,
                values=[tick for tick in theme.log_ticks(low, high) if not narrow or _is_decade(tick)],
            ),
        )
        y = alt.Y("high:Q", title="share of requests", axis=alt.Axis(format="%", tickCount=3))
        panels = [
            _sized(
                alt.Chart(inlined(own)).mark_rect(color=colour).encode(x=x, x2="end:Q", y=y, y2="y:Q"),
                narrow=narrow,
                title=f"{point.name}: {point.load}",
                height=HEIGHT * 2 // 5,
            )
            for point, own, colour in zip(known, bins, theme.LINE_COLOURS, strict=False)
        ]
        return alt.vconcat(*panels, spacing=18)

    title = "Response time histogram"
    caption = "Of each operating point, the share of its requests that took so long."
    return [_both("pts-histogram", title, caption, chart, io)]


def _is_decade(tick: float) -> bool:
    return f"{tick:e}".startswith("1.0")


def _saturation(points: Sequence[Point], io: str) -> Drawn:
    rows = [_Mark(point.end_s, point.figures.iops, "4 KiB") for point in complete(points)]
    chart = _course(rows, "IOPS", ["4 KiB"])
    caption = "Random writes of 4 KiB, without preconditioning of their own. Each value is that of a round."
    if len(rows) < len(points):
        caption += " A round that the end of the test cut short is left out."
    return _both("pts-saturation", "Write saturation", caption, chart, io)


def _stimuli(found: Found, io: str) -> Drawn:
    names = {
        name: f"{name}: {'random' if is_random else 'sequential'} {format_size(size)}"
        for name, size, is_random, _ in tests.STIMULI
    }
    rows = [
        _Mark(point.end_s, point.figures.bytes_per_s / MB, names[name])
        for name, group in found.stimuli.items()
        for point in complete(group)
    ]
    caption = "Writes of one kind, then of another, then of the first again, without preconditioning of their own."
    return _both(
        "pts-cross-stimulus",
        "Cross-stimulus recovery",
        caption,
        _course(rows, "10^6 bytes/s", list(names.values())),
        io,
    )


HOURS_FROM_S = 2 * 3600
DOTS_MOST = 60  # more would make a band of the line


def _course(rows: list[_Mark], heading: str, names: list[str]) -> Chart:
    """A figure over time, each line in its own colour."""
    end_s = max((row.x for row in rows), default=1.0)
    unit, divided = ("h", 3600.0) if end_s >= HOURS_FROM_S else ("s", 1.0)
    scaled = [msgspec.structs.replace(row, x=row.x / divided) for row in rows]

    def chart(narrow: bool) -> Any:
        legend = alt.Legend(columns=1 if narrow else 3, symbolType="stroke", symbolStrokeWidth=3)
        drawn = (
            alt.Chart(inlined(scaled))
            .mark_line(strokeWidth=1.6, point={"size": 14, "filled": True} if len(scaled) <= DOTS_MOST else False)
            .encode(
                x=alt.X("x:Q", title=f"time in {unit}", axis=alt.Axis(tickCount=6, format=",~r", grid=False)),
                y=alt.Y(
                    "y:Q",
                    title=heading,
                    scale=alt.Scale(zero=True, nice=True),
                    axis=alt.Axis(labelExpr=theme.COUNT_LABEL, tickCount=6),
                ),
                color=alt.Color(
                    "line:N",
                    title=None,
                    sort=names,
                    scale=alt.Scale(domain=names, range=theme.LINE_COLOURS[: len(names)]),
                    legend=legend if len(names) > 1 else None,
                ),
            )
        )
        return _sized(drawn, narrow=narrow)

    return chart

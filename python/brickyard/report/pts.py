"""Duty: SNIA's tests as the pictures that its report format asks for: the steady state of each test, and its own plot.

Refusal: no figure is computed here; a picture of rounds that were not steady says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt

from brickyard import _core
from brickyard.analysis.pts import RANGE_MAX, Measured, Point
from brickyard.analysis.pts_points import OperatingPoint
from brickyard.report import theme
from brickyard.report.pictures import Picture, draw
from brickyard.study import pts_tests as tests
from brickyard.study.pts import Found, Rounds
from brickyard.study.pts_tables import MB, cell_words, window_words
from brickyard.study.pts_tests import TITLES
from brickyard.units import format_size

Drawn = tuple[str, str, Picture, Picture]
"""Title, caption, and the picture for a wide and for a narrow page."""
Chart = Callable[[bool], Any]
WIDE, NARROW = 660, 330
PLOT, NARROW_PLOT, HEIGHT = 570, 235, 300
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [10, 4], [3, 1])
BINS_PER_DECADE = 12
COURSE = {"iops": "IOPS", "bytes_per_s": "10^6 bytes/s", "mean_ns": "mean response time"}
TIME_0 = f"datum.value == 0 ? '0' : {theme.TIME_LABEL}"


def figures(found: Found, io: str) -> list[Drawn]:
    """Of each test its own plot, then its steady state; `io` says what all figures depend on."""
    made: list[Drawn] = []
    for name, rounds in found.rounds.items():
        own = _OWN[name](rounds)
        made += [_drawn(f"pts-{key}", title, caption, chart, rounds, io) for key, title, caption, chart in own]
        if name == "dirth" and found.operating:
            made += _histogram(found.operating, io)
        if rounds.window is not None:
            title = f"{TITLES[name]}: rounds until steady"
            caption = (
                "The dots are rounds. Shaded: the measurement window, as wide as PTS allows its values to be apart. "
                "Dashed: the line that fits the window best."
            )
            made.append(_drawn(f"pts-steady-{name}", title, caption, _steady(rounds), rounds, io))
    if found.saturation:
        made.append(_saturation(found.saturation, io))
    return made + ([_stimuli(found, io)] if found.stimuli else [])


def _drawn(key: str, title: str, caption: str, chart: Chart, rounds: Rounds, io: str) -> Drawn:
    return _both(key, title, caption, chart, ", ".join(part for part in (window_words(rounds), io) if part))


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
    return TIME_0 if figure == "mean_ns" else theme.COUNT_LABEL


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
    rows = [{"round": number, "value": value, "line": names[0]} for number, value in enumerate(values, 1)]
    lines = [{"round": number, "value": mean, "line": names[1]} for number in (first, last)]
    lines += [
        {"round": first, "value": mean - half, "line": names[2]},
        {"round": last, "value": mean + half, "line": names[2]},
    ]
    low, high = mean * (1 - RANGE_MAX / 2), mean * (1 + RANGE_MAX / 2)
    band = [{"round": first, "end": last, "value": low, "high": high}]
    least, most = min([*values, low]), max([*values, high])

    def chart(narrow: bool) -> Any:
        x = alt.X(
            "round:Q",
            title="round",
            scale=alt.Scale(domain=[0.5, last + 0.5], nice=False),
            axis=alt.Axis(values=list(range(1, last + 1)), format="d", grid=False),
        )
        y = alt.Y(
            "value:Q",
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
        shade = alt.Chart(alt.InlineData(values=band)).mark_rect(color=theme.SKY, opacity=0.25)
        dots = {"size": 60, "filled": True, "color": theme.BLUE}
        layers = [
            shade.encode(x=x, x2="end:Q", y=y, y2="high:Q"),
            alt.Chart(alt.InlineData(values=rows)).mark_line(strokeWidth=1.2, point=dots).encode(x=x, y=y, **look),
            alt.Chart(alt.InlineData(values=lines)).mark_line(strokeWidth=2).encode(x=x, y=y, **look),
        ]
        state = "steady" if window.is_steady else "NOT steady"
        words = [f"{cell_words(rounds.test.steady)}:", f"{state} in rounds {first} to {last}"]
        return _sized(alt.layer(*layers), narrow=narrow, title=words if narrow else " ".join(words))

    return chart


Own = list[tuple[str, str, str, Chart]]


def _iops(rounds: Rounds) -> Own:
    rows = [{"size": cell.size_bytes, "value": rounds.of(cell).iops, "line": cell.mix} for cell in rounds.test.cells]
    names = [f"{reads}/{100 - reads}" for reads in tests.MIXES]
    sizes = sorted({cell.size_bytes for cell in rounds.test.cells})
    values = [row["value"] for row in rows if row["value"]]
    low, high = min(values, default=1) * 0.8, max(values, default=10) * 1.25

    def chart(narrow: bool) -> Any:
        x = alt.X(
            "size:Q",
            title="block size",
            scale=alt.Scale(type="log", base=2, domain=[sizes[0] * 0.85, sizes[-1] * 1.15], nice=False),
            axis=alt.Axis(values=sizes[:: 2 if narrow else 1], labelExpr=theme.SIZE_LABEL, labelOverlap="greedy"),
        )
        y = alt.Y(
            "value:Q",
            title="IOPS",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=alt.Axis(labelExpr=theme.COUNT_LABEL, values=theme.log_ticks(low, high)),
        )
        return _sized(
            _lines([row for row in rows if row["value"]], x, y, names, "read/write", narrow=narrow), narrow=narrow
        )

    caption = "Each line is a mix of reads and writes, in per cent; means of the measurement window."
    return [("iops", "IOPS by block size and read/write mix", caption, chart)]


def _lines(rows: list[dict[str, Any]], x: Any, y: Any, names: list[str], title: str, *, narrow: bool) -> Any:
    """Lines that differ in colour, dash and mark, with one legend below."""
    legend = alt.Legend(columns=3 if narrow else len(names), titleLimit=300)
    look: dict[str, Any] = {"title": title, "sort": names, "legend": legend}
    return (
        alt.Chart(alt.InlineData(values=rows))
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
        {
            "size": format_size(cell.size_bytes),
            "value": rounds.of(cell).bytes_per_s / MB,
            "group": "read" if cell.reads else "write",
        }
        for cell in rounds.test.cells
    ]

    def chart(narrow: bool) -> Any:
        return _sized(_bars(rows, "10^6 bytes/s", theme.COUNT_LABEL), narrow=narrow)

    return [("throughput", "Throughput by block size", "Means of the measurement window.", chart)]


def _latency(rounds: Rounds) -> Own:
    def rows(figure: str) -> list[dict[str, Any]]:
        return [
            {
                "size": format_size(cell.size_bytes),
                "value": getattr(rounds.of(cell), figure),
                "group": cell.mix,
            }
            for cell in reversed(rounds.test.cells)
        ]

    def chart(narrow: bool) -> Any:
        panels = [
            _sized(_bars(rows(figure), "response time", TIME_0), narrow=narrow, title=title, height=HEIGHT * 2 // 3)
            for figure, title in (("mean_ns", "Average"), ("max_ns", "Maximum"))
        ]
        return alt.vconcat(*panels, spacing=24).resolve_scale(y="independent", color="shared")

    caption = "Each colour is a mix of reads and writes, in per cent. Maximum: the longest of all rounds of the window."
    return [("latency", "Response time by block size and read/write mix", caption, chart)]


def _bars(rows: list[dict[str, Any]], heading: str, label: str) -> Any:
    sizes = list(dict.fromkeys(row["size"] for row in rows))
    groups = list(dict.fromkeys(row["group"] for row in rows))
    colours = alt.Scale(domain=groups, range=theme.LINE_COLOURS[: len(groups)])
    return (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(opacity=1)
        .encode(
            x=alt.X("size:N", sort=sizes, title="block size", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("group:N", sort=groups),
            y=alt.Y("value:Q", title=heading, axis=alt.Axis(labelExpr=label, tickCount=5), scale=alt.Scale(zero=True)),
            color=alt.Color("group:N", title=None, sort=groups, scale=colours, legend=alt.Legend(symbolType="square")),
        )
    )


def _demand(rounds: Rounds) -> Own:
    rows = [
        {
            "depth": cell.depth,
            "iops": (figures := rounds.of(cell)).iops,
            "time_ns": figures.mean_ns,
            "line": str(cell.workers),
        }
        for cell in rounds.test.cells
    ]
    rows = [row for row in rows if row["iops"]]
    names = [str(number) for number in tests.DEMAND]
    most = max((row["iops"] for row in rows), default=1.0)
    times = [row["time_ns"] for row in rows]
    low, high = min(times, default=1) * 0.8, max(times, default=10) * 1.25
    by_iops = alt.Scale(domain=[0, most * 1.05], nice=True)

    def variation(narrow: bool) -> Any:
        x = alt.X(
            "depth:Q",
            title="queue depth of each thread",
            scale=alt.Scale(type="log", base=2, domain=[0.9, tests.DEMAND[0] * 1.1], nice=False),
            axis=alt.Axis(values=sorted(tests.DEMAND), format="d"),
        )
        y = alt.Y("iops:Q", title="IOPS", scale=by_iops, axis=alt.Axis(labelExpr=theme.COUNT_LABEL, tickCount=6))
        return _sized(_lines(rows, x, y, names, "threads", narrow=narrow), narrow=narrow)

    def intensity(narrow: bool) -> Any:
        x = alt.X("iops:Q", title="IOPS", scale=by_iops, axis=alt.Axis(labelExpr=theme.COUNT_LABEL, tickCount=4))
        y = alt.Y(
            "time_ns:Q",
            title="mean response time",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=alt.Axis(labelExpr=theme.TIME_LABEL, values=theme.log_ticks(low, high)),
        )
        drawn = _lines(rows, x, y, names, "threads", narrow=narrow).encode(order="depth:Q")
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


def _histogram(points: Sequence[OperatingPoint], io: str) -> list[Drawn]:
    """PTS's response time histogram of the operating points, as shares of their requests."""
    known = [point for point in points if point.figures.histogram]
    if not known:
        return []
    edges = sorted({round(10 ** (step / BINS_PER_DECADE)) for step in range(BINS_PER_DECADE * 12)})
    rows: list[dict[str, Any]] = []
    for point in known:
        counts = _core.histogram_counts(point.figures.histogram, edges)
        rows += [
            {"low_ns": edges[at - 1], "high_ns": edges[at], "share": count / point.figures.requests, "line": point.name}
            for at, count in enumerate(counts)
            if count and 0 < at < len(edges)
        ]
    low, high = min(row["low_ns"] for row in rows), max(row["high_ns"] for row in rows)

    def chart(narrow: bool) -> Any:
        x = alt.X(
            "low_ns:Q",
            title="response time",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=alt.Axis(
                labelExpr=theme.TIME_LABEL,
                values=[tick for tick in theme.log_ticks(low, high) if not narrow or _is_decade(tick)],
            ),
        )
        y = alt.Y("share:Q", title="share of requests", axis=alt.Axis(format="%", tickCount=3))
        panels = [
            _sized(
                alt.Chart(alt.InlineData(values=[row for row in rows if row["line"] == point.name]))
                .mark_rect(color=colour)
                .encode(x=x, x2="high_ns:Q", y=y, y2=alt.datum(0)),
                narrow=narrow,
                title=f"{point.name}: {point.load}",
                height=HEIGHT * 2 // 5,
            )
            for point, colour in zip(known, theme.LINE_COLOURS, strict=False)
        ]
        return alt.vconcat(*panels, spacing=18)

    title = "Response time histogram"
    caption = "Of each operating point, the share of its requests that took so long."
    return [_both("pts-histogram", title, caption, chart, io)]


def _is_decade(tick: float) -> bool:
    return f"{tick:e}".startswith("1.0")


def _saturation(points: Sequence[Point], io: str) -> Drawn:
    rows = [{"time": point.end_s, "value": point.figures.iops, "line": "4 KiB"} for point in points]
    chart = _course(rows, "IOPS", ["4 KiB"])
    caption = "Random writes of 4 KiB from the first byte on, not preconditioned."
    return _both("pts-saturation", "Write saturation", caption, chart, io)


def _stimuli(found: Found, io: str) -> Drawn:
    names = {
        name: f"{name}: {'random' if is_random else 'sequential'} {format_size(size)}"
        for name, size, is_random, _ in tests.STIMULI
    }
    rows = [
        {"time": point.end_s, "value": point.figures.bytes_per_s / MB, "line": names[name]}
        for name, group in found.stimuli.items()
        for point in group
    ]
    caption = "Writes of one kind, then of another, then of the first again, not preconditioned."
    return _both(
        "pts-cross-stimulus", TITLES["cross-stimulus"], caption, _course(rows, "10^6 bytes/s", list(names.values())), io
    )


HOURS_FROM_S = 2 * 3600
DOTS_MOST = 60  # more would make a band of the line


def _course(rows: list[dict[str, Any]], heading: str, names: list[str]) -> Chart:
    """A figure over time, each line in its own colour."""
    end_s = max((row["time"] for row in rows), default=1.0)
    unit, divided = ("h", 3600.0) if end_s >= HOURS_FROM_S else ("s", 1.0)
    scaled = [{**row, "time": row["time"] / divided} for row in rows]

    def chart(narrow: bool) -> Any:
        legend = alt.Legend(columns=1 if narrow else 3, symbolType="stroke", symbolStrokeWidth=3)
        drawn = (
            alt.Chart(alt.InlineData(values=scaled))
            .mark_line(strokeWidth=1.6, point={"size": 14, "filled": True} if len(scaled) <= DOTS_MOST else False)
            .encode(
                x=alt.X("time:Q", title=f"time in {unit}", axis=alt.Axis(tickCount=6, format=",~r", grid=False)),
                y=alt.Y(
                    "value:Q",
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

"""Duty: a load curve → a picture. Refusal: no arithmetic beyond unit conversion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import altair as alt

from brickyard.analysis.figures.load_curve import CAPACITY, KNEE, WITHIN, CurvePoint, Limit, Mark
from brickyard.analysis.figures.search import Step
from brickyard.percentiles import MEDIAN_AND_P99
from brickyard.report import theme
from brickyard.report.picture import Picture
from brickyard.report.pictures import LETTER, draw
from brickyard.units import format_iops

FIGURES = ("mean", *MEDIAN_AND_P99)
COLOURS = dict(zip(FIGURES, (theme.BLACK, theme.BLUE, theme.VERMILLION), strict=True))
SHAPES = dict(zip(FIGURES, ("circle", "square", "triangle-up"), strict=True))
WIDTH, NARROW_WIDTH, HEIGHT = 640, 330, 340
LINE, GAP = 17, 5  # pixels of a line of text, and between words and a rule
NAMED_SHARE = 0.2
"""Of the rates, the lowest, where the name of a limit takes its place."""
MARK_COLOURS = {WITHIN: theme.PURPLE, KNEE: theme.GREEN, CAPACITY: theme.PALE}
MARK_DASHES = {WITHIN: [1, 0], KNEE: [5, 4], CAPACITY: [1, 3]}
TICKS, TICKS_NARROW = 8, 4  # labels such as 10,000 stay apart
DRAWN_NARROW = 255  # the plot in a narrow picture: what its axis leaves


@dataclass(frozen=True, slots=True)
class CurvePointRow:
    """A point of the picture, by the names that its axes have."""

    rate: float
    figure: str
    time_ns: float
    overloaded: bool
    segment: int


def load_curve(
    points: list[CurvePoint],
    marks: Sequence[Mark],
    limit: Limit | None,
    *,
    name: str = "load-curve",
    against: str = "offered rate",
    unit: str = " in 1/s",
    note: str = "",
    narrow: bool = False,
    steps: Sequence[Step] = (),
    is_whole: bool = False,
) -> Picture:
    """Response time on a log axis against the offered rate; overloaded rates are hollow, each answer is a labelled
    line. Steps of searches have the limited figure alone, and no line. `is_whole`: there is nothing between two whole
    numbers on the axis, as of workers."""
    limited = [limit.figure] if limit and limit.figure not in FIGURES else []
    figures = [*FIGURES, *limited]
    rows = [
        CurvePointRow(point.offered_per_s, figure, value, point.overloaded, segment)
        for figure in figures
        for point, value, segment in theme.unbroken(points, [point.time_ns(figure) for point in points])
    ]
    searched = _search_rows(steps, limit)
    figures += list(dict.fromkeys(row.figure for row in searched))
    colours, shapes = _styles(figures, searched, limit)
    times = [row.time_ns for row in (*rows, *searched)] + ([limit.above_ns] if limit else [])
    # An interval may be many times as wide as what was measured: it ends at the edge, and its label says where.
    reached = [point.offered_per_s for point in points] + [row.rate for row in searched]
    end = max(reached + [mark.value for mark in marks], default=1.0) * 1.03
    marks = [mark for mark in marks if mark.value > 0]
    low, high = min(times, default=1) * 0.8, max(times, default=10) * 1.25
    # Above all times there is room for a line of text for each mark.
    beyond = _beyond(marks, end)
    lines = (len(marks) + len(beyond)) * LINE
    high *= (high / low) ** (lines / (HEIGHT - lines))
    present = [name for name in figures if any(row.figure == name for row in (*rows, *searched))]
    x_scale = alt.Scale(domain=[0, end], nice=False)
    ticks = alt.Axis(
        labelExpr=theme.COUNT_LABEL,
        tickCount=TICKS_NARROW if narrow else TICKS,
        labelOverlap="greedy",
        labelSeparation=10,
        tickMinStep=1 if is_whole else alt.Undefined,
    )
    x = alt.X("rate:Q", title=against + unit, scale=x_scale, axis=ticks)
    y_scale = alt.Scale(type="log", domain=[low, high], nice=False)
    y = alt.Y(
        "time_ns:Q",
        title="response time",
        scale=y_scale,
        axis=alt.Axis(labelExpr=theme.TIME_LABEL, values=theme.log_ticks(low, high)),
    )
    colour = alt.Color(
        "figure:N",
        title=None,
        sort=present,
        scale=alt.Scale(domain=present, range=[colours[n] for n in present]),
        legend=alt.Legend(columns=3 if narrow else 4),
    )
    shape = alt.Shape(
        "figure:N",
        title=None,
        sort=present,
        scale=alt.Scale(domain=present, range=[shapes[n] for n in present]),
        legend=alt.Legend(columns=3 if narrow else 4),
    )
    base = alt.Chart(alt.InlineData(values=[asdict(row) for row in rows])).encode(
        x=x, y=y, color=colour, detail="segment:N"
    )
    layers: list[Any] = [base.mark_line(strokeWidth=2)]
    for overloaded in (False, True):
        only = [asdict(row) for row in (*rows, *searched) if row.overloaded is overloaded]
        if only:
            marked = alt.Chart(alt.InlineData(values=only)).mark_point(
                size=52, opacity=1, filled=not overloaded, strokeWidth=2
            )
            layers.append(marked.encode(x=x, y=y, color=colour, shape=shape))
    plot = DRAWN_NARROW if narrow else WIDTH
    layers += [_at_edge(number, mark, words, plot) for number, (mark, words) in enumerate(beyond)]
    layers += [layer for label in _labels(marks, end, plot, len(beyond)) for layer in _marked(label, end, plot)]
    layers += _limit_line(limit, (*rows, *searched), end, plot, y_scale)
    hollow = " (hollow: overloaded)" if any(row.overloaded for row in (*rows, *searched)) else ""
    # Of a ramp's knob nobody asks for saturation; of a rate a reader would take the last point for it.
    is_open = not any(mark.name == KNEE for mark in marks) and against == "offered rate" and not hollow
    ends = [text for text in (hollow.strip(), "(not saturated)" if is_open else "") if text]
    head = f"Response time against {against}"
    title = [head, *ends] if narrow else " ".join([head, *ends])
    chart = alt.layer(*layers).properties(width=plot, height=HEIGHT, title=title)
    width = NARROW_WIDTH if narrow else WIDTH
    suffix = "-narrow" if narrow else ""
    return draw(name + suffix, _alt_text(points, marks, against), chart, width=width, note=note)


def _search_rows(steps: Sequence[Step], limit: Limit | None) -> list[CurvePointRow]:
    if limit is None:
        return []
    name = f"{limit.figure}, steps of searches"
    return [CurvePointRow(step.rate_per_s, name, step.value_ns, not step.kept_up, 0) for step in steps if step.value_ns]


def _styles(
    figures: Sequence[str], searched: Sequence[CurvePointRow], limit: Limit | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Colours and shapes; a step of a search has the colour of its figure and a shape of its own."""
    colours = {figure: COLOURS.get(figure, theme.PURPLE) for figure in figures}
    shapes = {figure: SHAPES.get(figure, "diamond") for figure in figures}
    for name in {row.figure for row in searched}:
        colours[name], shapes[name] = colours[limit.figure if limit else name], "cross"
    return colours, shapes


@dataclass(frozen=True)
class _Label:
    """The words of a mark in a line of their own, which end where its rule is; where they have no room, they begin at
    the axis and the rule begins below them."""

    mark: Mark
    line: int
    right: float
    has_room: bool


def _labels(marks: Sequence[Mark], end: float, plot: int, first_line: int) -> list[_Label]:
    """In an order in which no rule crosses the words of another mark."""
    found = []
    for mark in marks:
        at, letters = mark.value / end * plot - GAP, LETTER * len(_words(mark))
        found.append(_Label(mark, 0, max(at, letters + GAP), at >= letters))
    found.sort(key=lambda label: (label.has_room, -label.mark.value if label.has_room else label.mark.value))
    return [replace(label, line=line) for line, label in enumerate(found, first_line)]


def _words(mark: Mark) -> str:
    return f"{mark.name}: {mark.words}"


def _beyond(marks: Sequence[Mark], end: float) -> list[tuple[Mark, str]]:
    """The intervals that end beyond the edge, with the words that stand there."""
    ends = [(mark, mark.high) for mark in marks if mark.high is not None and mark.high > end]
    return [(mark, f"95 % interval to {format_iops(high)} →") for mark, high in ends]


def _marked(label: _Label, end: float, plot: int) -> list[Any]:
    """A rule where the answer is, its name and value beside it, and its interval as a band."""
    mark, colour = label.mark, MARK_COLOURS[label.mark.name]
    at = alt.Chart(alt.InlineData(values=[{}]))
    top, bottom = alt.value((label.line + (not label.has_room)) * LINE), alt.value(HEIGHT)
    layers: list[Any] = []
    if mark.low is not None and mark.high is not None:
        low, high = (min(value / end, 1.0) * plot for value in (mark.low, mark.high))
        band = at.mark_rect(color=colour, opacity=0.15)
        layers.append(band.encode(x=alt.value(low), x2=alt.value(high), y=top, y2=bottom))
    rule = at.mark_rule(color=colour, strokeDash=MARK_DASHES[mark.name], strokeWidth=1.5)
    layers.append(rule.encode(x=alt.value(mark.value / end * plot), y=top, y2=bottom))
    text = at.mark_text(align="right", baseline="top", color=colour, fontSize=12, text=_words(mark))
    return [*layers, text.encode(x=alt.value(label.right), y=alt.value(label.line * LINE + 3))]


def _at_edge(line: int, mark: Mark, words: str, plot: int) -> Any:
    at = alt.Chart(alt.InlineData(values=[{}]))
    text = at.mark_text(align="right", baseline="top", color=MARK_COLOURS[mark.name], fontSize=12, text=words)
    return text.encode(x=alt.value(plot - GAP), y=alt.value(line * LINE + 3))


def _limit_line(limit: Limit | None, rows: Sequence[CurvePointRow], end: float, plot: int, y_scale: Any) -> list[Any]:
    """Its name stands where no points lie: above the line at low rates, if all of their times are well below it; else
    below the line at the highest rates."""
    if limit is None:
        return []
    slowest_ns = max((row.time_ns for row in rows if row.rate <= end * NAMED_SHARE), default=0)
    is_above = slowest_ns * 1.5 < limit.above_ns
    at = alt.Chart(alt.InlineData(values=[{"rate": 0, "time_ns": limit.above_ns}]))
    height = alt.Y("time_ns:Q", scale=y_scale)
    name = f"limit of the {limit.figure}"
    placed = partial(at.mark_text, color=theme.PURPLE, fontSize=12, text=name)
    text = placed(align="left", baseline="bottom", dy=-4) if is_above else placed(align="right", baseline="top", dy=4)
    rule = at.mark_rule(color=theme.PURPLE, strokeDash=[2, 3], strokeWidth=1.5)
    return [rule.encode(y=height), text.encode(x=alt.value(GAP if is_above else plot - GAP), y=height)]


def _alt_text(points: list[CurvePoint], marks: Sequence[Mark], against: str) -> str:
    said = f"Mean, median and p99 of the response time at {len(points)} values of the {against}"
    return "; ".join([said, *(f"{mark.name}: {mark.words}" for mark in marks)]) + "."

"""Duty: a load curve → a picture. Refusal: no arithmetic beyond unit conversion."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import altair as alt

from brickyard.analysis.load_curve import CurvePoint, Limit
from brickyard.report import theme
from brickyard.report.picture import Picture
from brickyard.report.pictures import draw

FIGURES = ("mean", "p50", "p99")
COLOURS = {"mean": theme.BLACK, "p50": theme.BLUE, "p99": theme.VERMILLION}
SHAPES = {"mean": "circle", "p50": "square", "p99": "triangle-up"}
WIDTH, NARROW_WIDTH, HEIGHT = 640, 330, 340
TICKS, TICKS_NARROW = 8, 4  # labels such as 10,000 stay apart
DRAWN_NARROW = 255  # the plot in a narrow picture: what its axis leaves


@dataclass(frozen=True, slots=True)
class CurveMark:
    """A point of the picture, by the names that its axes have."""

    rate: float
    figure: str
    time_ns: float
    overloaded: bool
    segment: int


def load_curve(
    points: list[CurvePoint],
    knee: CurvePoint | None,
    limit: Limit | None,
    *,
    name: str = "load-curve",
    against: str = "offered rate",
    unit: str = " in 1/s",
    note: str = "",
    narrow: bool = False,
) -> Picture:
    """Response time on a log axis against the offered rate; overloaded rates are hollow, the knee is a line."""
    marks = [
        CurveMark(point.offered_per_s, figure, value, point.overloaded, segment)
        for figure in FIGURES
        for point, value, segment in theme.unbroken(
            points, [point.mean_ns if figure == "mean" else point.percentiles.get(figure) for point in points]
        )
    ]
    times = [mark.time_ns for mark in marks] + ([limit.above_ns] if limit else [])
    low, high = min(times, default=1) * 0.8, max(times, default=10) * 1.25
    present = [name for name in FIGURES if any(mark.figure == name for mark in marks)]
    end = max((point.offered_per_s for point in points), default=1.0) * 1.03
    x_scale = alt.Scale(domain=[0, end], nice=False)
    ticks = alt.Axis(
        labelExpr=theme.COUNT_LABEL,
        tickCount=TICKS_NARROW if narrow else TICKS,
        labelOverlap="greedy",
        labelSeparation=10,
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
        scale=alt.Scale(domain=present, range=[COLOURS[n] for n in present]),
        legend=alt.Legend(columns=3),
    )
    shape = alt.Shape(
        "figure:N",
        title=None,
        sort=present,
        scale=alt.Scale(domain=present, range=[SHAPES[n] for n in present]),
        legend=alt.Legend(columns=3),
    )
    base = alt.Chart(alt.InlineData(values=[asdict(mark) for mark in marks])).encode(
        x=x, y=y, color=colour, detail="segment:N"
    )
    layers: list[Any] = [base.mark_line(strokeWidth=2)]
    for overloaded in (False, True):
        only = [asdict(mark) for mark in marks if mark.overloaded is overloaded]
        if only:
            marked = alt.Chart(alt.InlineData(values=only)).mark_point(
                size=52, opacity=1, filled=not overloaded, strokeWidth=2
            )
            layers.append(marked.encode(x=x, y=y, color=colour, shape=shape))
    layers += _lines(knee, limit, x_scale, y_scale, high)
    hollow = " (hollow: overloaded)" if any(point.overloaded for point in points) else ""
    # Of a ramp's knob nobody asks for saturation; of a rate a reader would take the last point for it.
    is_open = knee is None and against == "offered rate" and not hollow
    ends = [text for text in (hollow.strip(), "(not saturated)" if is_open else "") if text]
    head = f"Response time against {against}"
    title = [head, *ends] if narrow else " ".join([head, *ends])
    chart = alt.layer(*layers).properties(width=DRAWN_NARROW if narrow else WIDTH, height=HEIGHT, title=title)
    width = NARROW_WIDTH if narrow else WIDTH
    suffix = "-narrow" if narrow else ""
    return draw(name + suffix, _alt_text(points, knee, against), chart, width=width, note=note)


def _lines(knee: CurvePoint | None, limit: Limit | None, x_scale: Any, y_scale: Any, high: float) -> list[Any]:
    layers: list[Any] = []
    if knee:
        at = alt.Chart(alt.InlineData(values=[{"rate": knee.offered_per_s, "time_ns": high, "name": "knee"}]))
        where = alt.X("rate:Q", scale=x_scale)
        layers.append(at.mark_rule(color=theme.GREEN, strokeDash=[5, 4], strokeWidth=1.5).encode(x=where))
        text = at.mark_text(align="right", baseline="top", dx=-5, dy=4, color=theme.GREEN, fontSize=12, text="knee")
        layers.append(text.encode(x=where, y=alt.Y("time_ns:Q", scale=y_scale)))
    if limit:
        at = alt.Chart(alt.InlineData(values=[{"rate": 0, "time_ns": limit.above_ns}]))
        height = alt.Y("time_ns:Q", scale=y_scale)
        layers.append(at.mark_rule(color=theme.PURPLE, strokeDash=[2, 3], strokeWidth=1.5).encode(y=height))
        name = f"limit of the {limit.figure}"
        text = at.mark_text(align="left", baseline="bottom", dx=6, dy=-3, color=theme.PURPLE, fontSize=12, text=name)
        layers.append(text.encode(x=alt.X("rate:Q", scale=x_scale), y=height))
    return layers


def _alt_text(points: list[CurvePoint], knee: CurvePoint | None, against: str) -> str:
    said = f"Mean, median and p99 of the response time at {len(points)} values of the {against}"
    return f"{said}; the knee is at {knee.offered_per_s:,.0f} a second." if knee else f"{said}."

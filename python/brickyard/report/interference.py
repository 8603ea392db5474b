"""Duty: the latency of reads against the rates of reads and writes, as a picture. Refusal: nothing is measured."""

from __future__ import annotations

from typing import Any

import altair as alt

from brickyard.report import theme
from brickyard.report.pictures import Picture, draw
from brickyard.study.interference import InterferenceMap
from brickyard.units import format_ns

WIDTH, HEIGHT = 560, 360
FACTORS = (0.25, 0.5, 1.0, 2.0, 5.0)  # of the limit, each a contour


def interference_picture(found: InterferenceMap, target: str) -> Picture:
    """Every run is a disc in the colour of its latency; contours join the highest rates that held a limit."""
    limits = [found.limit_ns * factor for factor in FACTORS]
    names = [format_ns(limit) for limit in limits]
    lines = [
        {"writes": writes, "reads": reads or 0.0, "limit": name}
        for limit, name in zip(limits, names, strict=True)
        for writes, reads in found.frontier(limit)
        if _is_bounded(found, writes, reads or 0.0, limit)
    ]
    points = [
        {
            "writes": p.writes_per_s,
            "reads": p.reads_per_s,
            "limit": _band(p.value_ns if p.kept_up else None, limits, names),
        }
        for p in found.points
    ]
    domain = [*names, OVER]
    colours = [theme.GREEN, theme.SKY, theme.BLUE, theme.ORANGE, theme.VERMILLION, theme.BLACK]
    colour = alt.Color("limit:N", title=f"{found.figure} of reads up to", scale=alt.Scale(domain=domain, range=colours))
    x = alt.X("writes:Q", title="writes/s", scale=alt.Scale(zero=True), axis=_axis())
    y = alt.Y("reads:Q", title="reads/s", scale=alt.Scale(zero=True), axis=_axis())
    contours = alt.Chart(alt.InlineData(values=lines)).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour)
    discs = alt.Chart(alt.InlineData(values=points)).mark_point(filled=True, size=60).encode(x=x, y=y, color=colour)
    title = f"Read latency beside writes: {target}"
    chart = alt.layer(contours, discs).properties(width=WIDTH, height=HEIGHT, title=title)
    said = f"{found.figure} of reads at {len(points)} pairs of rates of reads and writes on {target}"
    return draw("interference", said, chart)


OVER = "more, or overloaded"


def _is_bounded(found: InterferenceMap, writes: float, reads: float, limit_ns: float) -> bool:
    """Whether a higher rate was tried and broke the limit: otherwise the contour lies somewhere above."""
    return reads > 0 and any(
        p.reads_per_s > reads and not p.holds(limit_ns) for p in found.points if p.writes_per_s == writes
    )


def _band(value_ns: float | None, limits: list[float], names: list[str]) -> str:
    if value_ns is None:
        return OVER
    return next((name for limit, name in zip(limits, names, strict=True) if value_ns <= limit), OVER)


def _axis() -> Any:
    return alt.Axis(labelExpr=theme.COUNT_LABEL)

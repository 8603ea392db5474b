"""Duty: the latency of reads against the rates of reads and writes, as a page with its map. Refusal: nothing is
measured."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import Any

import altair as alt

from brickyard.analysis.judging.answers import Answer
from brickyard.outputs import report_place
from brickyard.report import theme
from brickyard.report.page import Figure, Lead, render
from brickyard.report.picture import Picture
from brickyard.report.pictures import draw
from brickyard.report.tables import Table
from brickyard.report.written import write_page
from brickyard.store import Record
from brickyard.study.shipped.interference import InterferenceMap
from brickyard.units import format_ns

WIDTH, HEIGHT = 560, 360
SUBTITLE = 90  # characters a line
FACTORS = (0.25, 0.5, 1.0, 2.0, 5.0)  # of the limit, each a colour


def write_interference(place: Path, records: list[Record], answer: Answer, table: Table, drawn: Picture | None) -> Path:
    """Writes `report.html` and `pictures/`; gives back the page's absolute path. Before the first point of the map was
    measured there is no picture of it."""
    pictures = [drawn] if drawn else []
    caption = "Each disc is a run; the line joins the highest rates that kept the limit."
    figures = [Figure(table.title, caption, pictures, [])] if drawn else []
    where = report_place(place)
    html = render(records, None, figures, lead=Lead(answer, figures, [table]), pictures=where.pictures.name)
    return write_page(where, html, pictures)


def interference_picture(found: InterferenceMap, target: str, load: str) -> Picture:
    """Every run is a disc in the colour of its latency. The line joins the highest rates that held the limit that was
    asked for; other limits were not searched, so they have none."""
    limits = [found.limit_ns * factor for factor in FACTORS]
    names = [format_ns(limit) for limit in limits]
    lines = [
        {"writes": writes, "reads": reads or 0.0, "limit": format_ns(found.limit_ns)}
        for writes, reads in found.frontier(found.limit_ns)
    ]
    bands = [_band(p.value_ns if p.kept_up else None, limits, names) for p in found.points]
    points = [
        {"writes": p.writes_per_s, "reads": p.reads_per_s, "limit": band}
        for p, band in zip(found.points, bands, strict=True)
    ]
    shown = {*bands, format_ns(found.limit_ns)}
    colours_of = dict(zip([*names, OVER], COLOURS, strict=True))
    domain = [name for name in colours_of if name in shown]
    colours = [colours_of[name] for name in domain]
    colour = alt.Color("limit:N", title=f"{found.figure} of reads up to", scale=alt.Scale(domain=domain, range=colours))
    x = alt.X("writes:Q", title="writes/s", scale=alt.Scale(zero=True), axis=_axis())
    y = alt.Y("reads:Q", title="reads/s", scale=alt.Scale(zero=True), axis=_axis())
    contours = alt.Chart(alt.InlineData(values=lines)).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour)
    discs = alt.Chart(alt.InlineData(values=points)).mark_point(filled=True, size=60).encode(x=x, y=y, color=colour)
    title = alt.Title(f"Read latency beside writes: {target}", subtitle=wrap(load, SUBTITLE))
    chart = alt.layer(contours, discs).properties(width=WIDTH, height=HEIGHT, title=title)
    said = f"{found.figure} of reads at {len(points)} pairs of rates of reads and writes on {target}: {load}"
    return draw("interference", said, chart)


OVER = "more, or overloaded"
COLOURS = (theme.GREEN, theme.SKY, theme.BLUE, theme.ORANGE, theme.VERMILLION, theme.BLACK)


def _band(value_ns: float | None, limits: list[float], names: list[str]) -> str:
    if value_ns is None:
        return OVER
    return next((name for limit, name in zip(limits, names, strict=True) if value_ns <= limit), OVER)


def _axis() -> Any:
    return alt.Axis(labelExpr=theme.COUNT_LABEL, tickCount=8)

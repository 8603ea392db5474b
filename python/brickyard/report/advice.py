"""Duty: what a search for a brick found, as a page and as a chart: cost against delivered rate.

Refusal: no arithmetic beyond unit conversion; bricks without a price have no place on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import altair as alt
import msgspec

from brickyard import _core
from brickyard.advise.buy import Found, Trial
from brickyard.analysis.judging.answers import Answer
from brickyard.outputs import report_place
from brickyard.report import theme
from brickyard.report.picture import Picture
from brickyard.report.pictures import draw, inlined
from brickyard.report.tables import Table
from brickyard.report.written import templates, write_page
from brickyard.units import MIB, three_digits

PICTURE = "cost-against-rate"
NAMED = 8  # the best ones are named; more names would cover each other
KINDS = ["meets the requirements", "does not"]
COLOURS = dict(zip(KINDS, (theme.BLUE, theme.VERMILLION), strict=True))
TITLE = "Cost against delivered rate"
NORMAL = "normal"
NEAR = 0.04  # of an axis: the height of a name
WIDTH, HEIGHT = 640, 360
NARROW, LETTERS_NARROW = 290, 46
"""The plot in a narrow picture, and the letters in a line of its names."""
TICKS, TICKS_NARROW = 7, 4
LOG_FROM = 40.0  # times the least rate: beyond, slow bricks would lie on the axis


class _PricedBrick(msgspec.Struct):
    usd: float
    worst: float
    normal: float
    several: bool
    kind: str
    place_in_ranking: int
    label: str


class _Mark(msgspec.Struct, frozen=True):
    usd: float
    rate: float
    mark: str
    kind: str


@dataclass(frozen=True)
class AdviceWords:
    """What the page says in the words of the terminal."""

    answer: Answer
    asked: list[str]
    table: Table
    notes: list[str]
    assumptions: list[str]


def write_advice(place: Path, said: AdviceWords, drawn: Picture | None, narrow: Picture | None) -> Path:
    """Writes `report.html` and `pictures/`, with the picture also for a phone; gives back the page's absolute path."""
    where = report_place(place)
    page = templates().get_template("advice.html.j2")
    html = page.render(
        title=said.answer.question,
        version=_core.version(),
        answer=said.answer,
        asked=said.asked,
        picture=drawn,
        narrow=narrow,
        pictures=where.pictures.name,
        table=said.table,
        notes=said.notes,
        assumptions=said.assumptions,
    )
    return write_page(where, html, [picture for picture in (drawn, narrow) if picture])


def cost_against_rate(
    found: Found, *, throughput: bool, required: float | None = None, narrow: bool = False
) -> Picture | None:
    """For each simulated brick a disc at its rate in the slowest condition and a triangle in normal condition,
    joined; `required` is the rate that was asked for, in requests or bytes a second."""
    priced = [trial for trial in found.trials if trial.candidate.cost_usd is not None and trial.states]
    if not priced:
        return None
    shown = _named(found, priced)
    rows = [_row(trial, shown, throughput) for trial in priced]
    asked = None if required is None else required / (MIB if throughput else 1)
    scale = _scale_of(rows, asked)
    _join_names(rows, scale)
    years = priced[0].candidate.terms.years
    x, along = _axes(scale, years, "MiB/s" if throughput else "requests/s", TICKS_NARROW if narrow else TICKS)
    y = along("worst")
    kinds = [kind for kind in KINDS if any(row.kind == kind for row in rows)]
    colour = alt.Color("kind:N", title=None, scale=alt.Scale(domain=kinds, range=[COLOURS[kind] for kind in kinds]))
    base = alt.Chart(inlined(rows))
    layers = [
        *_line_of(asked, y),
        base.mark_rule(strokeWidth=1.2).encode(x=x, y=y, y2="normal:Q", color=colour),
        *_marks(rows, x, along("rate"), colour, above=narrow),
        base.transform_filter("datum.label != ''")
        .mark_text(align="left", dx=9, fontSize=12, fontWeight=600, color=theme.INK)
        .encode(x=x, y=along(NORMAL), text="label:N"),
    ]
    best = found.ranked[0].candidate.name if found.ranked else "none meets the requirements"
    named = [f"{number}: {_words(trial, found)}" for number, trial in enumerate(shown, 1)]
    others = len(priced) - len(shown)
    if others:
        named.append(f"without a number: {others} more that {'were' if others > 1 else 'was'} simulated")
    lines = named if found.ranked else [best, *named]
    if narrow:
        lines = [part for line in lines for part in wrap(line, LETTERS_NARROW, subsequent_indent="    ")]
    title = alt.TitleParams(TITLE, subtitle=lines, subtitleColor=theme.PALE)
    chart = alt.layer(*layers).properties(width=NARROW if narrow else WIDTH, height=HEIGHT, title=title)
    name, alike = f"{PICTURE}-narrow" if narrow else PICTURE, f"Price against rate of {len(rows)} modelled bricks"
    return draw(name, f"{alike}; best: {best}", chart, width=NARROW if narrow else None)


def _named(found: Found, priced: list[Trial]) -> list[Trial]:
    """Those with a number: the best, and then others that meet the requirements and that none of these is."""
    best = [trial for trial in found.ranked if trial in priced]
    return [*best, *(trial for trial in priced if trial.met and trial not in best)][:NAMED]


def _words(trial: Trial, found: Found) -> str:
    """Its name, and what puts it behind others."""
    if trial.is_risky:
        return f"{trial.candidate.name} (may lose data)"
    better = "" if trial in found.ranked else " (a better one has its drive and level)"
    return f"{trial.candidate.name}{better}"


@dataclass(frozen=True)
class _Scale:
    """The ends of both axes, and where a point lies on them."""

    usd: float
    low: float
    high: float

    @property
    def is_log(self) -> bool:
        return 0 < LOG_FROM * self.low < self.high

    def place(self, row: _PricedBrick) -> tuple[float, float]:
        """In shares of both axes."""
        if not self.is_log:
            return row.usd / self.usd, row.normal / self.high
        return row.usd / self.usd, math.log(max(row.normal, self.low) / self.low) / math.log(self.high / self.low)


def _scale_of(rows: list[_PricedBrick], asked: float | None = None) -> _Scale:
    rates = [rate for row in rows for rate in (row.worst, row.normal) if rate > 0] + ([asked] if asked else [])
    return _Scale(max(row.usd for row in rows) or 1.0, min(rates, default=0.0), max(rates, default=1.0))


def _axes(ends: _Scale, years: float, unit: str, ticks: int) -> tuple[alt.X, Callable[[str], alt.Y]]:
    """The axis of costs, and that of rates for any column with one."""
    axis: dict[str, Any] = {"labelExpr": theme.COUNT_LABEL}
    if ends.is_log:
        low, high = ends.low / 1.3, ends.high * 1.3
        scale = alt.Scale(type="log", domain=[low, high], nice=False, clamp=True)
        axis["values"] = theme.log_ticks(low, high)
    else:
        scale = alt.Scale(zero=True, nice=True)

    def along(column: str) -> alt.Y:
        return alt.Y(f"{column}:Q", title=unit, scale=scale, axis=alt.Axis(**axis))

    x = alt.X(
        "usd:Q",
        title=f"cost in USD over {years:g} years",
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(format=",~r", tickCount=ticks, grid=False),
    )
    return x, along


def _marks(rows: list[_PricedBrick], x: alt.X, y: alt.Y, colour: alt.Color, *, above: bool) -> list[Any]:
    """What fails in the first condition already has one mark. `above`: the legend of the marks has no room beside that
    of the colours."""
    worst = "slowest of the conditions"
    points = [
        _Mark(row.usd, rate, mark, row.kind)
        for row in rows
        for rate, mark in ((row.normal, NORMAL), (row.worst, worst))
        if mark == worst or row.several
    ]
    base = alt.Chart(inlined(points))
    several = any(row.several for row in rows)
    scale = alt.Scale(domain=[worst, NORMAL], range=["circle", "triangle-up"])
    legend = alt.Legend(orient="top") if above else alt.Legend()
    shape = alt.Shape("mark:N", title=None, scale=scale, legend=legend if several else None)
    size = alt.condition(f"datum.kind == '{KINDS[0]}'", alt.value(80), alt.value(38))
    return [base.mark_point(filled=True, opacity=0.85).encode(x=x, y=y, color=colour, shape=shape, size=size)]


def _line_of(asked: float | None, y: alt.Y) -> list[Any]:
    if asked is None:
        return []
    base = alt.Chart(alt.InlineData(values=[{"worst": asked, "text": f"{three_digits(asked)} required"}]))
    rule = base.mark_rule(strokeDash=[6, 3], color=theme.INK, strokeWidth=1.2).encode(y=y)
    words = base.mark_text(align="left", dy=-7, fontSize=12, color=theme.INK).encode(x=alt.value(4), y=y, text="text:N")
    return [rule, words]


def _row(trial: Trial, shown: list[Trial], throughput: bool) -> _PricedBrick:
    rates = {name: (s.bytes_per_s / MIB if throughput else s.iops) for name, s in trial.states.items()}
    place = shown.index(trial) + 1 if trial in shown else 0
    return _PricedBrick(
        usd=trial.candidate.cost_usd or 0.0,
        worst=min(rates.values()),
        normal=rates.get(NORMAL, max(rates.values())),
        several=len(rates) > 1,
        kind=KINDS[0 if trial.met else 1],
        place_in_ranking=place,
        label=str(place) if place else "",
    )


def _join_names(rows: list[_PricedBrick], scale: _Scale) -> None:
    """Names that would lie on each other become one, at the first of their points."""
    kept: list[_PricedBrick] = []
    named = (row for row in rows if row.place_in_ranking)
    for row in sorted(named, key=lambda row: row.place_in_ranking):
        near = [
            one for one in kept if all(abs(a - b) <= NEAR for a, b in zip(*map(scale.place, (one, row)), strict=True))
        ]
        if near:
            near[0].label += f", {row.place_in_ranking}"
            row.label = ""
        else:
            kept.append(row)

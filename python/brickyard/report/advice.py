"""Duty: what a search for a brick found, as a chart: cost against delivered rate.

Refusal: no arithmetic beyond unit conversion; bricks without a price have no place on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt
import msgspec

from brickyard.advise.buy import Found, Trial
from brickyard.report import theme
from brickyard.report.picture import Picture
from brickyard.report.pictures import draw, inlined
from brickyard.units import MIB, three_digits

PICTURE = "cost-against-rate"
NAMED = 4  # the best ones are named; more names would cover each other
KINDS = ["meets the requirements", "does not"]
NORMAL = "normal"
NEAR = 0.04  # of an axis: the height of a name
WIDTH, HEIGHT = 640, 360
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


def cost_against_rate(found: Found, *, throughput: bool, required: float | None = None) -> Picture | None:
    """For each simulated brick a disc at its rate in the slowest condition and a triangle in normal condition,
    joined; `required` is the rate that was asked for, in requests or bytes a second."""
    priced = [trial for trial in found.trials if trial.candidate.cost_usd is not None and trial.states]
    if not priced:
        return None
    rows = [_row(trial, found, throughput) for trial in priced]
    _join_names(rows)
    asked = None if required is None else required / (MIB if throughput else 1)
    years = priced[0].candidate.terms.years
    x, along = _scales(rows, asked, years, "MiB/s" if throughput else "requests/s")
    y = along("worst")
    colour = alt.Color("kind:N", title=None, scale=alt.Scale(domain=KINDS, range=[theme.BLUE, theme.VERMILLION]))
    base = alt.Chart(inlined(rows))
    layers = [
        *_line_of(asked, y),
        base.mark_rule(strokeWidth=1.2).encode(x=x, y=y, y2="normal:Q", color=colour),
        *_marks(rows, x, along("rate"), colour),
        base.transform_filter("datum.label != ''")
        .mark_text(align="left", dx=9, fontSize=12, fontWeight=600, color=theme.INK)
        .encode(x=x, y=along(NORMAL), text="label:N"),
    ]
    best = found.ranked[0].candidate.name if found.ranked else "none meets the requirements"
    named = [f"{number}: {trial.candidate.name}" for number, trial in enumerate(found.ranked[:NAMED], 1)]
    title = alt.TitleParams("Cost against delivered rate", subtitle=named or [best], subtitleColor=theme.PALE)
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=title)
    return draw(PICTURE, f"Price against rate of {len(rows)} modelled bricks; best: {best}", chart)


def _scales(
    rows: list[_PricedBrick], asked: float | None, years: float, unit: str
) -> tuple[alt.X, Callable[[str], alt.Y]]:
    """The axis of costs, and that of rates for any column with one."""
    rates = [rate for row in rows for rate in (row.worst, row.normal) if rate > 0] + ([asked] if asked else [])
    low, high = (min(rates), max(rates)) if rates else (0.0, 1.0)
    axis: dict[str, Any] = {"labelExpr": theme.COUNT_LABEL}
    if rates and high > LOG_FROM * low:
        scale = alt.Scale(type="log", domain=[low / 1.3, high * 1.3], nice=False, clamp=True)
        axis["values"] = theme.log_ticks(low / 1.3, high * 1.3)
    else:
        scale = alt.Scale(zero=True, nice=True)

    def along(column: str) -> alt.Y:
        return alt.Y(f"{column}:Q", title=unit, scale=scale, axis=alt.Axis(**axis))

    x = alt.X(
        "usd:Q",
        title=f"cost in USD over {years:g} years",
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(format=",~r", tickCount=7, grid=False),
    )
    return x, along


def _marks(rows: list[_PricedBrick], x: alt.X, y: alt.Y, colour: alt.Color) -> list[Any]:
    """What fails in the first condition already has one mark."""
    worst = "slowest of the conditions"
    points = [
        _Mark(row.usd, rate, mark, row.kind)
        for row in rows
        for rate, mark in ((row.normal, NORMAL), (row.worst, worst))
        if mark == worst or row.several
    ]
    base = alt.Chart(inlined(points))
    shape = alt.Shape(
        "mark:N", title=None, scale=alt.Scale(domain=[worst, NORMAL], range=["circle", "triangle-up"])
    )  # fmt: skip
    size = alt.condition(f"datum.kind == '{KINDS[0]}'", alt.value(80), alt.value(38))
    return [base.mark_point(filled=True, opacity=0.85).encode(x=x, y=y, color=colour, shape=shape, size=size)]


def _line_of(asked: float | None, y: alt.Y) -> list[Any]:
    if asked is None:
        return []
    base = alt.Chart(alt.InlineData(values=[{"worst": asked, "text": f"{three_digits(asked)} required"}]))
    rule = base.mark_rule(strokeDash=[6, 3], color=theme.INK, strokeWidth=1.2).encode(y=y)
    words = base.mark_text(align="left", dy=-7, fontSize=12, color=theme.INK).encode(x=alt.value(4), y=y, text="text:N")
    return [rule, words]


def _row(trial: Trial, found: Found, throughput: bool) -> _PricedBrick:
    rates = {name: (s.bytes_per_s / MIB if throughput else s.iops) for name, s in trial.states.items()}
    place = found.ranked.index(trial) + 1 if trial in found.ranked[:NAMED] else 0
    return _PricedBrick(
        usd=trial.candidate.cost_usd or 0.0,
        worst=min(rates.values()),
        normal=rates.get(NORMAL, max(rates.values())),
        several=len(rates) > 1,
        kind=KINDS[0 if trial.met else 1],
        place_in_ranking=place,
        label=str(place) if place else "",
    )


def _join_names(rows: list[_PricedBrick]) -> None:
    """Names that would lie on each other become one, at the first of their points."""
    wide = max(row.usd for row in rows) * NEAR
    high = max(row.normal for row in rows) * NEAR
    kept: list[_PricedBrick] = []
    named = (row for row in rows if row.place_in_ranking)
    for row in sorted(named, key=lambda row: row.place_in_ranking):
        near = [one for one in kept if abs(one.usd - row.usd) <= wide and abs(one.normal - row.normal) <= high]
        if near:
            near[0].label += f", {row.place_in_ranking}"
            row.label = ""
        else:
            kept.append(row)

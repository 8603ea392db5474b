"""Duty: what a search for a brick found, as a chart: cost against delivered rate.

Refusal: no arithmetic beyond unit conversion; bricks without a price have no place on it.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from brickyard.advise.buy import Found, Trial
from brickyard.report import theme
from brickyard.report.pictures import Picture, draw
from brickyard.units import MIB

NAMED = 4  # the best ones are named; more names would cover each other
KINDS = ["meets the rulers", "does not"]
NEAR = 0.04  # of an axis: the height of a name
WIDTH, HEIGHT = 640, 360


def cost_against_rate(found: Found, *, throughput: bool) -> Picture | None:
    """A point for each simulated brick at its rate in the worst condition, a line up to that in normal condition."""
    priced = [trial for trial in found.trials if trial.candidate.usd is not None]
    if not priced:
        return None
    unit = "MiB/s" if throughput else "requests a second"
    rows = [_row(trial, found, throughput) for trial in priced]
    _join_names(rows)
    base = alt.Chart(alt.InlineData(values=rows))
    x = alt.X("usd:Q", title="price in USD", scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(format=",~r"))
    rate = alt.Y(
        "worst:Q",
        title=f"{unit}: worst condition (mark) to best (line)",
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(labelExpr=theme.COUNT_LABEL),
    )
    met = alt.Color("kind:N", title=None, scale=alt.Scale(domain=KINDS, range=[theme.BLUE, theme.VERMILLION]))
    shape = alt.Shape("kind:N", title=None, scale=alt.Scale(domain=KINDS, range=["circle", "cross"]))
    spans = base.mark_rule(strokeWidth=1.2, opacity=1).encode(x=x, y=rate, y2="best:Q", color=met)
    marks = base.mark_point(size=80, filled=True, opacity=1).encode(x=x, y=rate, color=met, shape=shape)
    names = (
        base.transform_filter("datum.label != ''")
        .mark_text(align="left", dx=9, fontSize=12, fontWeight=600, color=theme.INK)
        .encode(x=x, y=rate, text="label:N")
    )
    best = found.ranked[0].candidate.name if found.ranked else "none meets the rulers"
    named = [f"{number}: {trial.candidate.name}" for number, trial in enumerate(found.ranked[:NAMED], 1)]
    title = alt.TitleParams("Cost against delivered rate", subtitle=named or [best], subtitleColor=theme.PALE)
    chart = alt.layer(spans, marks, names).properties(width=WIDTH, height=HEIGHT, title=title)
    return draw("cost-against-rate", f"Price against {unit} of {len(rows)} modelled bricks; best: {best}", chart)


def _row(trial: Trial, found: Found, throughput: bool) -> dict[str, Any]:
    rates = [(s.bytes_per_s / MIB if throughput else s.iops) for s in trial.states.values()]
    place = found.ranked.index(trial) + 1 if trial in found.ranked[:NAMED] else 0
    return {
        "usd": trial.candidate.usd,
        "worst": min(rates, default=0.0),
        "best": max(rates, default=0.0),
        "kind": KINDS[0 if trial.met else 1],
        "place": place,
        "label": str(place) if place else "",
    }


def _join_names(rows: list[dict[str, Any]]) -> None:
    """Names that would lie on each other become one, at the first of their points."""
    wide = max(row["usd"] for row in rows) * NEAR
    high = max(row["best"] for row in rows) * NEAR
    kept: list[dict[str, Any]] = []
    for row in sorted((row for row in rows if row["place"]), key=lambda row: int(row["place"])):
        near = [k for k in kept if abs(k["usd"] - row["usd"]) <= wide and abs(k["worst"] - row["worst"]) <= high]
        if near:
            near[0]["label"] += f", {row['place']}"
            row["label"] = ""
        else:
            kept.append(row)

"""Duty: the rule-of-thumb charts, published against computed, as one self-contained page and a folder of pictures.

Refusal: it simulates nothing and rates nothing; `advise.charts` does. The page runs no script.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import msgspec

from brickyard import _core
from brickyard.advise import drive_chart, level_chart, suitability
from brickyard.advise.charts import SUITABILITY, Cell, Charts, footnotes
from brickyard.outputs import report_place
from brickyard.report import theme
from brickyard.report.picture import Picture
from brickyard.report.pictures import draw, inlined
from brickyard.report.tables import Table
from brickyard.report.written import templates, write_page

TITLE = "Rules of thumb, computed from models"
WIDTH = 560
PUBLISHED, COMPUTED = "published", "computed"
SOURCES = [PUBLISHED, COMPUTED]
VERDICTS = ["YES", "NO (cost)", "NO"]
AGREES = 4  # the column that says so


@dataclass(frozen=True)
class Shown:
    """One chart of a study on the page."""

    name: str
    pictures: tuple[Picture, ...]
    table: Table
    notes: list[str]


def write_charts(charts: Charts, directory: Path) -> Path:
    """Writes `report.html` and `pictures/`; gives back the page's absolute path."""
    shown = [
        _shown(charts, "RAID", (_levels(charts),)),
        _shown(
            charts, "drive class", tuple(_ranges(charts, "drive class", c) for c in _criteria(charts, "drive class"))
        ),
        _shown(charts, "interface", tuple(_ranges(charts, "interface", c) for c in _criteria(charts, "interface"))),
        _shown(charts, SUITABILITY, (_costs(charts),)),
    ]
    pictures = (picture for item in shown for picture in item.pictures)
    return write_page(report_place(directory), _render(charts, shown), pictures)


def _render(charts: Charts, shown: list[Shown]) -> str:
    pairs = [item for item in charts.ordered if item.basis == level_chart.PER_DATA]
    return (
        templates()
        .get_template("charts.html.j2")
        .render(
            title=TITLE,
            version=_core.version(),
            summary="Published ratings that agree with what the models give: " + ", ".join(_agreeing(charts)) + ". "
            f"{sum(item.agree for item in pairs)} of {sum(item.pairs for item in pairs)} pairs of RAID levels are"
            " ordered as published, compared at the same usable capacity.",
            shown=shown,
        )
    )


def _agreeing(charts: Charts) -> Iterator[str]:
    """Chart by chart: some hold a rate against a rate, others a rule against a rule, and a sum would hide which."""
    for chart in dict.fromkeys(cell.chart for cell in charts.cells):
        told = [cell.agrees for cell in charts.cells if cell.chart == chart and cell.agrees is not None]
        yield f"{chart}, {sum(told)} of {len(told)}"


def _shown(charts: Charts, chart: str, pictures: tuple[Picture, ...]) -> Shown:
    cells = [cell for cell in charts.cells if cell.chart == chart]
    title = f"{chart[0].upper()}{chart[1:]} ({cells[0].study})"
    return Shown(title, pictures, _table(title, cells, explains=chart == SUITABILITY), footnotes(charts, chart))


def _table(title: str, cells: list[Cell], *, explains: bool) -> Table:
    columns = ["", "criterion", "published", "computed", "agrees", "from", *(["changes at"] if explains else [])]
    rows = [
        [c.item, c.criterion, c.published, c.computed or "–", c.agrees_word, c.figure, *([c.why] if explains else [])]
        for c in cells
    ]
    far = frozenset((number, AGREES) for number, cell in enumerate(cells) if cell.agrees is False)
    return Table(title, columns, rows, text_columns=len(columns), keys=2, far=far)


def _criteria(charts: Charts, chart: str) -> list[str]:
    return list(dict.fromkeys(cell.criterion for cell in charts.cells if cell.chart == chart))


def _levels(charts: Charts) -> Picture:
    """The share of the best level for both drives, a panel a criterion, the published rating beside the level."""
    said = {(cell.item, cell.criterion): cell.published for cell in charts.cells if cell.chart == "RAID"}
    panels = [_level_panel(charts, criterion, said) for criterion in level_chart.CRITERIA]
    chart = alt.vconcat(*panels, spacing=16).properties(
        title="RAID levels: published rating, computed share of the best"
    )
    return draw("raid-levels", "The share of the best RAID level's figure beside the published ratings", chart)


class _LevelMark(msgspec.Struct, frozen=True):
    label: str
    rank: int
    drive: str
    share: float


class _Range(msgspec.Struct, frozen=True):
    item: str
    source: str
    low: float
    high: float
    text: str


class _Cost(msgspec.Struct, frozen=True):
    item: str
    application: str
    cost: float
    verdict: str
    text: str
    offer: str


def _level_panel(charts: Charts, criterion: str, said: dict[tuple[str, str], str]) -> Any:
    rows: list[_LevelMark] = []
    for kind, levels in charts.levels.items():
        best = max(figures.figure(criterion) for figures in levels.values())
        for level, figures in levels.items():
            item = suitability.level_name(level)
            rated = said[item, criterion]
            rank = level_chart.ORDER.index(rated)
            rows.append(_LevelMark(f"{item}: {rated}", rank, f"{kind} drives", figures.figure(criterion) / best))
    order = [row.label for row in sorted(rows, key=lambda row: (row.rank, -row.share))]
    y = alt.Y("label:N", title=None, sort=list(dict.fromkeys(order)), axis=alt.Axis(labelLimit=200))
    x = alt.X(
        "share:Q",
        title=criterion,
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format=".0%", values=[0, 0.2, 0.4, 0.6, 0.8, 0.9, 1]),
    )
    kinds = [f"{kind} drives" for kind in charts.levels]
    shade = alt.Color("drive:N", title=None, scale=alt.Scale(domain=kinds, range=[theme.BLUE, theme.ORANGE]))
    shape = alt.Shape("drive:N", title=None, scale=alt.Scale(domain=kinds, range=["circle", "square"]))
    marks = alt.Chart(inlined(rows)).mark_point(size=75, filled=True, opacity=0.9)
    encoded = marks.encode(x=x, y=y, yOffset=alt.YOffset("drive:N", sort=kinds), color=shade, shape=shape)
    return encoded.properties(width=WIDTH - 100, height=alt.Step(13))


def _ranges(charts: Charts, chart: str, criterion: str) -> Picture:
    """Published ranges above computed ones, a pair of bars for each class."""
    rows: list[_Range] = []
    for cell in charts.cells:
        if (cell.chart, cell.criterion) != (chart, criterion):
            continue
        for source, text in ((PUBLISHED, cell.published), (COMPUTED, cell.computed)):
            if text is not None:
                low, high = drive_chart.ends_of(text)
                rows.append(_Range(cell.item, source, low, high, text))
    items = list(dict.fromkeys(row.item for row in rows))
    base = alt.Chart(inlined(rows))
    y = alt.Y("item:N", title=None, sort=items, axis=alt.Axis(labelLimit=200))
    beside = alt.YOffset("source:N", sort=SOURCES)
    x = alt.X("low:Q", title=criterion, scale=alt.Scale(zero=True, nice=True))
    shade = alt.Color("source:N", title=None, scale=alt.Scale(domain=SOURCES, range=[theme.BLACK, theme.BLUE]))
    lines = base.mark_rule(strokeWidth=6).encode(x=x, x2="high:Q", y=y, yOffset=beside, color=shade)
    shape = alt.Shape("source:N", title=None, scale=alt.Scale(domain=SOURCES, range=["square", "circle"]))
    ends = [
        base.mark_point(size=55, filled=True, opacity=1).encode(
            x=alt.X(f"{end}:Q"), y=y, yOffset=beside, color=shade, shape=shape
        )
        for end in ("low", "high")
    ]
    words = base.mark_text(align="left", dx=9, fontSize=11.5, color=theme.INK).encode(
        x="high:Q", y=y, yOffset=beside, text="text:N"
    )
    picture = alt.layer(lines, *ends, words).properties(
        width=WIDTH - 100, height=alt.Step(20), title=f"{chart[0].upper()}{chart[1:]}: {criterion}"
    )
    slug = f"{chart}-{criterion}".lower().replace("/", "-per-").replace(" ", "-")
    return draw(slug, f"{criterion} by {chart}, published and computed", picture)


def _costs(charts: Charts) -> Picture:
    """What each class costs for each application, coloured by the computed verdict; the published one in words."""
    said = {(c.item, c.criterion): c.published for c in charts.cells if c.chart == SUITABILITY}
    rows = [
        _Cost(
            item=found.item,
            application=found.application.criterion,
            cost=found.offer.cost if found.offer else 0.0,
            verdict=_kind(found.verdict),
            text=f"{found.verdict}; published {said[found.item, found.application.criterion]}",
            offer="" if found.offer is None else found.offer.name,
        )
        for found in charts.suited
    ]
    panels = [
        _cost_panel([row for row in rows if row.application == application.criterion], rows, application)
        for application in charts.assumed.applications
    ]
    prices = ", ".join(f"{kind.item} {kind.price:g}" for kind in charts.assumed.classes)
    title = alt.TitleParams(
        "The cheapest bricks that meet the requirements, also while rebuilding",
        subtitle=f"cost in prices of a drive, assumed: {prices}",
        subtitleColor=theme.PALE,
    )
    chart = alt.vconcat(*panels, spacing=16).properties(title=title)
    return draw("suitability", "Cost of the cheapest brick of each class for each application, with its verdict", chart)


def _kind(verdict: str) -> str:
    return next(kind for kind in VERDICTS[1:] + VERDICTS[:1] if verdict.startswith(kind))


def _cost_panel(rows: Sequence[_Cost], every: Sequence[_Cost], given: suitability.Application) -> Any:
    items = [row.item for row in rows]
    # Words stand right of the bars, so the axis goes further than its labels.
    most = max(row.cost for row in every) or 1.0
    step = 10.0 ** math.floor(math.log10(most))
    ticks = [step * number for number in range(10) if step * number <= most]
    scale = alt.Scale(domain=[0, most * 1.9], nice=False)
    base = alt.Chart(inlined(rows))
    y = alt.Y("item:N", title=None, sort=items, axis=alt.Axis(labelLimit=200))
    x = alt.X(
        "cost:Q",
        title=f"{given.criterion}: {given.asked}",
        scale=scale,
        axis=alt.Axis(titleFontSize=11.5, values=ticks),
    )
    shade = alt.Color(
        "verdict:N",
        title=None,
        scale=alt.Scale(domain=VERDICTS, range=[theme.BLUE, theme.ORANGE, theme.VERMILLION]),
    )
    bars = base.mark_bar(size=16).encode(x=x, y=y, color=shade)
    words = base.mark_text(align="left", dx=6, fontSize=11.5, color=theme.INK).encode(x=x, y=y, text="label:N")
    words = words.transform_calculate(label="datum.offer == '' ? datum.text : datum.text + ' · ' + datum.offer")
    return alt.layer(bars, words).properties(width=WIDTH, height=alt.Step(26))

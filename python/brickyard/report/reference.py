"""Duty: the published tables beside their simulation, as one self-contained page and a folder of pictures.

Refusal: it simulates nothing and computes no error; `study.shipped.reference` does. The page runs no script.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import msgspec

from brickyard import _core
from brickyard.outputs import report_place
from brickyard.report import theme
from brickyard.report.picture import Picture
from brickyard.report.pictures import draw, inlined
from brickyard.report.tables import Table as PageTable
from brickyard.report.written import templates, write_page
from brickyard.study.shipped.reference import Outcome, Rankings, Table
from brickyard.units import format_size, three_digits

NEAR, FAR = 0.10, 0.25
"""The bands: what the normal condition is held to in the median, and what no cell of it may pass."""
TITLE = "Published tables, repeated on modelled bricks"
WIDTH, ROW = 560, 19
ERROR_ENDS = 0.65  # the largest error that is drawn to scale
TICKS = [digit * 10**power for power in range(6) for digit in (1, 3)]
STUDIES = {
    "MSR": theme.BLUE,
    "Overland": theme.VERMILLION,
    "Network Computing": theme.GREEN,
    "openBench": theme.ORANGE,
    "solid-state drives": theme.BLACK,
}
SIDES = ["simulated higher", "simulated lower"]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross"]


class _CellMark(msgspec.Struct, frozen=True):
    table: str
    study: str
    label: str
    published: float
    simulated: float
    error: float
    side: str
    rebuilt: str


class _CellSpan(msgspec.Struct, frozen=True):
    cell: str
    published: float
    simulated: float
    far: str


class _SpanEnd(msgspec.Struct, frozen=True):
    cell: str
    kind: str
    value: float


@dataclass(frozen=True)
class Shown:
    """One table on the page."""

    name: str
    words: str
    picture: Picture
    table: PageTable


def write_reference(tables: list[Table], ranked: Rankings, directory: Path) -> Path:
    """Writes `report.html` and `pictures/`; gives back the page's absolute path."""
    scatter, errors = _scatter(tables), _errors(tables)
    shown = [_shown(number, table) for number, table in enumerate(tables, 1)]
    pictures = [scatter, errors, *(item.picture for item in shown)]
    return write_page(report_place(directory), _render(tables, ranked, scatter, errors, shown), pictures)


def _render(tables: list[Table], ranked: Rankings, scatter: Picture, errors: Picture, shown: list[Shown]) -> str:
    every = [abs(outcome.error) for table in tables for outcome in table.outcomes]
    within = [sum(error <= bound for error in every) for bound in (NEAR, FAR)]
    agreed = ranked.pairs - len(ranked.disagreements)
    return (
        templates()
        .get_template("reference.html.j2")
        .render(
            title=TITLE,
            version=_core.version(),
            summary=f"{len(every)} published figures: {within[0]} simulated within {NEAR:.0%}, {within[1]} within "
            f"{FAR:.0%}. docs/models.md says what was fitted to what, and why the others miss.",
            scatter=scatter,
            errors=errors,
            tables=shown,
            rankings=f"Of {ranked.pairs} pairs whose published figures differ by more than 10 %, {agreed} have the "
            f"published order.",
            disagreements=ranked.disagreements
            and PageTable(
                "Pairs in another order",
                ("published as higher", "than"),
                [(high.name, low.name) for high, low in ranked.disagreements],
                text_columns=2,
                keys=0,
            ),
        )
    )


def _study(table: str) -> str:
    return next((name for name in STUDIES if table.startswith(name)), "solid-state drives")


def _point(table: Table, outcome: Outcome) -> _CellMark:
    return _CellMark(
        table=table.name,
        study=_study(table.name),
        label=outcome.label,
        published=outcome.published,
        simulated=outcome.simulated,
        error=min(ERROR_ENDS, abs(outcome.error)),
        side=SIDES[0 if outcome.error >= 0 else 1],
        rebuilt="while rebuilding" if outcome.cell.condition != "normal" else "normal",
    )


def _colour() -> alt.Color:
    return alt.Color("study:N", title=None, scale=alt.Scale(domain=list(STUDIES), range=list(STUDIES.values())))


def _scatter(tables: list[Table]) -> Picture:
    points = [_point(table, outcome) for table in tables for outcome in table.outcomes]
    low = min(min(p.published, p.simulated) for p in points) / 1.5
    high = max(max(p.published, p.simulated) for p in points) * 1.5
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = alt.Axis(labelExpr=theme.COUNT_LABEL, values=TICKS)
    x = alt.X("published:Q", title="published (requests/s or MiB/s)", scale=scale, axis=axis)
    y = alt.Y("simulated:Q", title="simulated", scale=scale, axis=axis)
    layers = [_diagonal(low, high, factor, dash) for factor, dash in _BANDS]
    shape = alt.Shape("study:N", title=None, scale=alt.Scale(domain=list(STUDIES), range=SHAPES))
    marks = alt.Chart(inlined(points)).mark_point(size=45, filled=True, opacity=0.75)
    chart = alt.layer(*layers, marks.encode(x=x, y=y, color=_colour(), shape=shape))
    chart = chart.properties(width=WIDTH, height=WIDTH * 0.8, title="Simulated against published")
    return draw("scatter", f"{len(points)} published figures against their simulation, on logarithmic axes", chart)


_BANDS = (
    (1.0, [1, 0]),
    (1 + NEAR, [6, 3]),
    (1 - NEAR, [6, 3]),
    (1 + FAR, [2, 3]),
    (1 - FAR, [2, 3]),
)


def _diagonal(low: float, high: float, factor: float, dash: list[int]) -> Any:
    drawn = [min(max(value * factor, low), high) for value in (low / min(factor, 1), high)]
    ends = [{"published": value / factor, "simulated": value} for value in drawn]
    line = alt.Chart(alt.InlineData(values=ends)).mark_line(color=theme.PALE, strokeWidth=1, strokeDash=dash, clip=True)
    return line.encode(x="published:Q", y="simulated:Q")


def _errors(tables: list[Table]) -> Picture:
    """A strip of marks for each table."""
    points = [_point(table, outcome) for table in tables for outcome in table.outcomes]
    order = [table.name for table in tables]
    medians = [{"table": t.name, "error": t.median_error} for t in tables]
    x = alt.X(
        "error:Q",
        title="size of the error, simulated against published",
        scale=alt.Scale(domain=[0, ERROR_ENDS]),
        axis=alt.Axis(format=".0%", values=[0, NEAR, 0.2, FAR, 0.3, 0.4, 0.5, 0.6]),
    )
    y = alt.Y("table:N", title=None, sort=order, axis=alt.Axis(labelLimit=320))
    bands = [
        alt.Chart(alt.InlineData(values=[{"error": e}]))
        .mark_rule(color=theme.PALE, strokeDash=[6, 3] if e == NEAR else [2, 3], strokeWidth=1)
        .encode(x=x)
        for e in (NEAR, FAR)
    ]
    marks = alt.Chart(inlined(points)).mark_point(size=40, filled=True, opacity=0.6)
    median = alt.Chart(alt.InlineData(values=medians)).mark_tick(color=theme.INK, thickness=2, size=16)
    side = alt.Shape("side:N", title=None, scale=alt.Scale(domain=SIDES, range=["triangle-up", "triangle-down"]))
    chart = alt.layer(*bands, marks.encode(x=x, y=y, color=_colour(), shape=side), median.encode(x=x, y=y))
    title = alt.TitleParams("Errors by table", subtitle="upright lines: medians", subtitleColor=theme.PALE)
    chart = chart.properties(width=WIDTH - 100, height=alt.Step(ROW + 3), title=title)
    return draw("errors", "The errors of all cells by table", chart)


def _shown(number: int, table: Table) -> Shown:
    rows = [[o.label, f"{o.published:g}", three_digits(o.simulated), f"{o.error:+.1%}"] for o in table.outcomes]
    far = frozenset((line, 3) for line, outcome in enumerate(table.outcomes) if abs(outcome.error) > FAR)
    figures = PageTable(table.name, ("cell", "published", "simulated", "error"), rows, text_columns=1, far=far)
    used = "Values of its products were fitted to it" if table.fitted else "Nothing was fitted to it"
    words = (
        f"Median error {table.median_error:.1%}, largest {table.largest_error:.1%}; "
        f"left out {table.left_out_median:.1%} and {table.left_out_largest:.1%}. {used}."
    )
    return Shown(table.name, words, _dumbbells(number, table), figures)


def _dumbbells(number: int, table: Table) -> Picture:
    """A line a cell from what was published to what is simulated, one panel a unit."""
    units = list(dict.fromkeys(outcome.cell.unit for outcome in table.outcomes))
    panels = [_panel([o for o in table.outcomes if o.cell.unit == unit], unit) for unit in units]
    chart = alt.vconcat(*panels, spacing=18).properties(title=table.name)
    slug = re.sub(r"[^a-z0-9]+", "-", table.name.lower()).strip("-")
    return draw(f"table-{number:02}-{slug}", f"{table.name}: published and simulated figures", chart)


KINDS = ["published", "simulated"]


def _sizes_in_words(label: str) -> str:
    return re.sub(r"\b(\d+) B\b", lambda found: format_size(int(found[1])), label)


def _panel(outcomes: list[Outcome], unit: str) -> Any:
    spans = [
        _CellSpan(
            cell=_sizes_in_words(o.label.removesuffix(f", {unit}")),
            published=o.published,
            simulated=o.simulated,
            far="beyond 25 %" if abs(o.error) > FAR else "within 25 %",
        )
        for o in outcomes
    ]
    ends = [
        _SpanEnd(span.cell, kind, value)
        for span in spans
        for kind, value in zip(KINDS, (span.published, span.simulated), strict=True)
    ]
    values = [end.value for end in ends]
    wide = max(values) > 20 * min(values)
    ends_of_axis = [min(values) / 1.2, max(values) * 1.2]
    scale = alt.Scale(type="log", nice=False, domain=ends_of_axis) if wide else alt.Scale(zero=True)
    ticks: dict[str, Any] = {"values": theme.log_ticks(*ends_of_axis)} if wide else {}
    order = [span.cell for span in spans]
    y = alt.Y("cell:N", title=None, sort=order, axis=alt.Axis(labelLimit=600))
    x = alt.X("value:Q", title=unit, scale=scale, axis=alt.Axis(labelExpr=theme.COUNT_LABEL, **ticks))
    shade = alt.Color(
        "kind:N", title=None, scale=alt.Scale(domain=KINDS, range=[theme.BLACK, theme.BLUE])
    )  # fmt: skip
    shape = alt.Shape("kind:N", title=None, scale=alt.Scale(domain=KINDS, range=["square", "circle"]))
    lines = alt.Chart(inlined(spans)).mark_rule(strokeWidth=2)
    line = lines.encode(
        x=alt.X("published:Q", title=unit, scale=scale), x2="simulated:Q", y=y,
        color=alt.condition("datum.far == 'beyond 25 %'", alt.value(theme.VERMILLION), alt.value(theme.SKY)),
    )  # fmt: skip
    marks = alt.Chart(inlined(ends)).mark_point(size=70, filled=True, opacity=1, strokeWidth=2)
    return alt.layer(line, marks.encode(x=x, y=y, color=shade, shape=shape)).properties(
        width=WIDTH - 160, height=alt.Step(ROW)
    )

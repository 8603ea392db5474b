"""Duty: pivots → grouped bars with intervals, as small multiples over the outer factors; two figures as a trade-off.

Refusal: no arithmetic beyond unit conversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import msgspec

from brickyard.analysis.figures.pivot import Axis, Entry, Key, Pivot
from brickyard.analysis.figures.samples import Sample
from brickyard.report import theme
from brickyard.report.picture import Picture
from brickyard.report.pictures import draw, inlined

CUT_AT = 2.0  # times the largest figure
ACROSS = 3  # multiples side by side: what a page's column holds
WHOLE_WIDTH, NARROW_WIDTH, HEIGHT = 780, 330, 210
LABEL_LIMIT = 120
LETTER = 7.5  # width of a letter of a label, in pixels


class _Bar(msgspec.Struct, frozen=True):
    along: str
    colour: str
    value: float
    low: float
    high: float


class _TradePoint(msgspec.Struct, frozen=True):
    x: float
    y: float
    low: float
    high: float
    name: str


def matrix_picture(pivot: Pivot, workload: str = "", *, narrow: bool = False) -> Picture | None:
    """Colours are the column factor, groups the innermost row factor, multiples what is left."""
    if not pivot.entries:
        return None
    outer, inner = pivot.row_axes[:-1], pivot.row_axes[-1:]
    colours = [" ".join(_labels(pivot.column_axes, column)) for column in pivot.columns]
    groups: dict[Key, list[Key]] = {}
    for row in pivot.rows:
        groups.setdefault(row[: len(outer)], []).append(row)
    along = [inner[0].label(level) for level in inner[0].labels] if inner else [""]
    whole_width = NARROW_WIDTH if narrow else WHOLE_WIDTH
    across = 1 if narrow else min(len(groups), ACROSS)
    width = (whole_width - 60 * across) // across
    charts = []
    for number, (key, rows) in enumerate(groups.items()):
        cells = [
            _row(entry, _labels(inner, row[len(outer) :])[0] if inner else "", colour)
            for row in rows
            for column, colour in zip(pivot.columns, colours, strict=True)
            if (entry := pivot.at(row, column)) is not None
        ]
        present = [level for level in along if any(cell.along == level for cell in cells)]
        charts.append(
            _bars(
                cells,
                present,
                colours,
                pivot,
                inner[0].title if inner else "",
                top=_top(pivot, key),
                width=width,
                title=_named(outer, key),
                first=number % across == 0,
            )
        )
    whole = charts[0] if len(charts) == 1 else alt.concat(*charts, columns=across, spacing=28)
    if len(charts) > 1:
        # Groups have other numbers of bars in each multiple, so that neither places nor offsets may be shared.
        whole = whole.resolve_scale(x="independent", xOffset="independent", y="independent")
    name = f"table-{pivot.spec.name}".lower().replace(" ", "-") + ("-narrow" if narrow else "")
    return draw(
        name, f"{pivot.spec.title}: {pivot.figure.heading} as grouped bars", whole, width=whole_width, note=workload
    )


def _top(pivot: Pivot, key: Key) -> float:
    """One scale for all multiples that show the same load, so that their bars can be held against each other."""
    outer = pivot.row_axes[:-1]
    loads = [number for number, axis in enumerate(outer) if axis.changes_load]
    shown = [
        entry.sample for (row, _), entry in pivot.entries.items() if all(row[number] == key[number] for number in loads)
    ]
    return reach([(found.centre, found.high) for found in shown])


def reach(shown: Sequence[tuple[float, float | None]]) -> float:
    """The top of a scale for figures with the upper ends of their intervals. Two noisy repetitions have one that
    would leave no room for the figures: its line is cut at twice the largest figure, and the tables have its ends."""
    most = CUT_AT * max((centre for centre, _ in shown), default=0.5)
    return max((min(max(high or 0.0, centre), most) for centre, high in shown), default=1.0)


def _labels(axes: Sequence[Axis], key: Key) -> list[str]:
    return [axis.label(level) for axis, level in zip(axes, key, strict=False)]


def _named(axes: Sequence[Axis], key: Key) -> list[str]:
    return [axis.named(level) for axis, level in zip(axes, key, strict=False)]


def _row(entry: Entry, along: str, colour: str) -> _Bar:
    return _Bar(along, colour, entry.sample.centre, *_ends(entry.sample))


def _ends(sample: Sample) -> tuple[float, float]:
    """Of the interval; a figure without one ends where it stands."""
    low, high, centre = sample.low, sample.high, sample.centre
    return centre if low is None else low, centre if high is None else high


def _bars(
    cells: list[_Bar],
    along: list[str],
    colours: list[str],
    pivot: Pivot,
    heading: str,
    *,
    top: float,
    width: int,
    title: list[str],
    first: bool,
) -> Any:
    many, axes = len(colours) > 1, pivot.column_axes
    fits = sum(len(level) + 2 for level in along) * LETTER <= width
    x = alt.X(
        "along:N",
        sort=along,
        title=heading,
        axis=alt.Axis(labelAngle=0 if fits else -35, labelLimit=LABEL_LIMIT, labelOverlap=False),
    )
    label = theme.TIME_OR_0_LABEL if pivot.figure.kind == "time" else theme.COUNT_LABEL
    if pivot.figure.kind == "span":
        label = "format(datum.value / 3600, ',.3~r') + ' h'"
    y = alt.Y(
        "value:Q",
        title=pivot.figure.heading if first else None,
        scale=alt.Scale(domain=[0, top * 1.05], nice=True, zero=True),
        axis=alt.Axis(labelExpr=label, tickCount=5),
    )
    colour = alt.Color(
        "colour:N",
        title=" ".join(axis.title for axis in axes) if any(axis.is_bare for axis in axes) else None,
        sort=colours,
        scale=alt.Scale(domain=colours, range=[theme.LINE_COLOURS[n % 7] for n in range(len(colours))]),
        legend=alt.Legend(symbolType="square") if many else None,
    )
    base = alt.Chart(inlined(cells))
    offset = {"xOffset": alt.XOffset("colour:N", sort=colours)} if many else {}
    bars = base.mark_bar(opacity=1).encode(x=x, y=y, color=colour, **offset)
    layers = [bars]
    if any(cell.high > cell.low for cell in cells):
        layers.append(
            base.mark_rule(color=theme.BLACK, strokeWidth=1.4, clip=True).encode(
                x=x, y=alt.Y("low:Q"), y2="high:Q", **offset
            )
        )
    return alt.layer(*layers).properties(
        width=width, height=HEIGHT, title=alt.TitleParams(title, limit=width + 40, fontSize=13)
    )


def trade_picture(x: Pivot, y: Pivot, title: str, workload: str = "", *, narrow: bool = False) -> Picture | None:
    """Two figures of the same cells against each other, each point with its level."""
    seconds = 3600.0 if x.figure.kind == "span" else 1
    rows = [
        _TradePoint(
            one.sample.centre / seconds,
            other.sample.centre,
            *_ends(other.sample),
            ", ".join(_named(x.row_axes, row)),
        )
        for row in x.rows
        for column in (x.columns or ((),))
        if (one := x.at(row, column)) is not None and (other := y.at(row, column)) is not None
    ]
    if len(rows) < 2:
        return None
    top = reach([(row.y, row.high) for row in rows]) * 1.1
    far = max(row.x for row in rows)
    near = min(row.x for row in rows)
    unit = "hours" if x.figure.kind == "span" else x.figure.unit
    x_axis = alt.X(
        "x:Q",
        title=f"{x.figure.title} in {unit}" if unit else x.figure.title,
        scale=alt.Scale(type="log", domain=[near * 0.8, far * 1.6], nice=False),
        axis=alt.Axis(values=theme.log_ticks(near * 0.8, far * 1.6), format=",~r"),
    )
    label = theme.TIME_OR_0_LABEL if y.figure.kind == "time" else theme.COUNT_LABEL
    y_axis = alt.Y(
        "y:Q", title=y.figure.heading, scale=alt.Scale(domain=[0, top], nice=True), axis=alt.Axis(labelExpr=label)
    )
    base = alt.Chart(inlined(rows))
    chart = alt.layer(
        base.mark_line(color=theme.BLUE, strokeWidth=2).encode(x=x_axis, y=y_axis),
        base.mark_rule(color=theme.BLACK, clip=True).encode(x=x_axis, y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_point(color=theme.BLUE, filled=True, size=70, opacity=1).encode(x=x_axis, y=y_axis),
        base.mark_text(align="left", dx=8, dy=-9, fontSize=12, color=theme.INK).encode(
            x=x_axis, y=y_axis, text="name:N"
        ),
    ).properties(width=260 if narrow else 640, height=320)
    return draw(
        f"trade-{y.spec.name}-{x.spec.name}" + ("-narrow" if narrow else ""),
        f"{title}: {y.figure.title} against {x.figure.title}",
        chart,
        width=NARROW_WIDTH if narrow else 640,
        note=workload,
    )

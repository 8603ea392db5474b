"""Duty: what a durable write costs by size and method → a picture. Refusal: no arithmetic beyond unit conversion."""

from __future__ import annotations

import altair as alt
import msgspec

from brickyard.honesty.durable import Method
from brickyard.honesty.durable_figures import DurableWrite
from brickyard.report import theme
from brickyard.report.picture import Picture
from brickyard.report.pictures import draw, inlined

HEIGHT = 280
AXES = 90  # pixels that labels beside the plot take
NARROW_FROM = 400
COLOURS = dict(zip(Method, theme.LINE_COLOURS, strict=False))
SHAPES = dict(zip(Method, ("circle", "square", "triangle-up", "diamond"), strict=True))


class _Cost(msgspec.Struct, frozen=True):
    request_bytes: int
    method: str
    each_ns: float


def durable_costs(writes: list[DurableWrite], width: int) -> Picture:
    """Of one writer: a line for each method; sizes on a log axis, times from 0."""
    rows = [
        _Cost(item.cell.request_bytes, str(item.cell.method), item.each_ns) for item in writes if item.cell.writers == 1
    ]
    present = [method for method in Method if any(row.method == method for row in rows)]
    sizes = [row.request_bytes for row in rows]
    is_narrow = width < NARROW_FROM
    columns = 2 if is_narrow else len(present)
    domain = [str(method) for method in present]
    chart = (
        alt.Chart(inlined(rows))
        .mark_line(strokeWidth=2, point={"size": 52, "filled": True})
        .encode(
            x=theme.size_axis(min(sizes, default=512), max(sizes, default=65536)),
            y=alt.Y(
                "each_ns:Q",
                title="time of a durable write",
                scale=alt.Scale(zero=True, nice=True),
                axis=alt.Axis(labelExpr=theme.TIME_OR_0_LABEL, tickCount=5),
            ),
            color=alt.Color(
                "method:N",
                title=None,
                sort=domain,
                scale=alt.Scale(domain=domain, range=[COLOURS[method] for method in present]),
                legend=alt.Legend(columns=columns, symbolType="circle"),
            ),
            shape=alt.Shape(
                "method:N",
                title=None,
                sort=domain,
                scale=alt.Scale(domain=domain, range=[SHAPES[method] for method in present]),
                legend=alt.Legend(columns=columns),
            ),
        )
        .properties(width=width - AXES, height=HEIGHT, title="Time of a durable write against its size")
    )
    said = "Mean time of a durable write against its size, a line for each wal_sync_method"
    return draw("durable-costs-narrow" if is_narrow else "durable-costs", said, chart, width=width)

"""Duty: how every picture looks: colours, fonts, scales and axis labels in the field's units. Refusal: no data.

Colours are Okabe and Ito's palette, which people with the common kinds of colour blindness can tell apart; lines also
differ in dash or mark, so that a black-and-white print can be read.
"""

from __future__ import annotations

from typing import Any

import altair as alt

BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#56B4E9",
    "#CC79A7",
    "#222222",
)
LINE_COLOURS = [BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE, BLACK]
PATTERN_COLOURS = {
    "sequential read": BLUE,
    "random read": SKY,
    "sequential write": VERMILLION,
    "random write": ORANGE,
}
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
GRID, INK, PALE = "#e4e7eb", "#1f2933", "#52606d"

SIZE_LABEL = (
    "datum.value >= 1048576 ? format(datum.value / 1048576, ',') + ' MiB' : "
    "datum.value >= 1024 ? format(datum.value / 1024, ',') + ' KiB' : datum.value + ' B'"
)
TIME_LABEL = (
    "datum.value >= 1e9 ? format(datum.value / 1e9, ',') + ' s' : "
    "datum.value >= 1e6 ? format(datum.value / 1e6, ',') + ' ms' : "
    "datum.value >= 1e3 ? format(datum.value / 1e3, ',') + ' µs' : format(datum.value, ',') + ' ns'"
)
COUNT_LABEL = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, ',') + ' M' : "
    "datum.value >= 1e4 ? format(datum.value / 1e3, ',') + ' k' : format(datum.value, ',')"
)


def dressed(chart: Any, *, width: int | None = None) -> Any:
    """The common look. Legends wrap below the picture, so that they never cover data or widen a phone's page."""
    return (
        chart.configure(font=FONT, background="white", padding=6)
        .configure_view(stroke=None)
        .configure_axis(
            labelFontSize=12,
            titleFontSize=12.5,
            titleFontWeight="normal",
            titleColor=PALE,
            labelColor=INK,
            gridColor=GRID,
            domainColor="#9aa5b1",
            tickColor="#9aa5b1",
            titlePadding=8,
            labelOverlap="greedy",
        )
        .configure_legend(
            orient="bottom",
            direction="horizontal",
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            titleColor=PALE,
            labelColor=INK,
            symbolSize=90,
            columns=2 if width and width < 450 else 0,
            labelLimit=400,
            titleLimit=400,
        )
        .configure_title(fontSize=14, fontWeight=600, color=INK, anchor="start", offset=10)
    )


def size_axis(low: int, high: int) -> Any:
    """Request sizes on a log axis, labelled at every second power of two."""
    scale = alt.Scale(type="log", base=2, domain=[low, high] if low < high else [low / 2, high * 2], nice=False)
    ticks = [512 << step for step in range(1, 20, 2)]
    return alt.X(
        "request_bytes:Q",
        scale=scale,
        title="request size",
        axis=alt.Axis(values=[t for t in ticks if low <= t <= high] or [low], labelExpr=SIZE_LABEL, grid=True),
    )


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a log axis: decades, with 2 and 5 between where the axis spans few of them."""
    powers = [10.0**power for power in range(-3, 13)]
    decades = [value for value in powers if low <= value <= high]
    if len(decades) >= 3:
        return decades
    return [value * factor for value in powers for factor in (1, 2, 5) if low <= value * factor <= high]

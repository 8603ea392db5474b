"""Duty: how every picture looks: colours, fonts, scales and axis labels in the field's units. Refusal: no data.

Colours are Okabe and Ito's palette, which people with the common kinds of colour blindness can tell apart; lines also
differ in dash or mark, so that a black-and-white print can be read.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

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
# The widest first: pictures are laid out by its letters, so that labels have room in whatever a reader has.
FONT = "'DejaVu Sans', Verdana, 'Liberation Sans', Arial, sans-serif"
TITLE_LETTER = 9.2  # pixels of a letter of a title
LABELS_APART = 7  # pixels between labels of an axis, about the width of a letter
GRID, INK, PALE = "#e4e7eb", "#1f2933", "#52606d"

Item = TypeVar("Item")
SHADES = [
    "#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#7ad151", "#bddf26",
    "#d9a514", "#e07b00", "#c43c00",
]  # fmt: skip
"""Viridis and on to red, dark enough to be seen on white."""

SIZE_LABEL = (
    "datum.value >= 1048576 ? format(datum.value / 1048576, ',') + ' MiB' : "
    "datum.value >= 1024 ? format(datum.value / 1024, ',') + ' KiB' : datum.value + ' B'"
)
TIME_LABEL = (
    "datum.value >= 1e9 ? format(datum.value / 1e9, ',') + ' s' : "
    "datum.value >= 1e6 ? format(datum.value / 1e6, ',') + ' ms' : "
    "datum.value >= 1e3 ? format(datum.value / 1e3, ',') + ' µs' : format(datum.value, ',') + ' ns'"
)
TIME_OR_0_LABEL = f"datum.value == 0 ? '0' : {TIME_LABEL}"
COUNT_LABEL = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, ',') + ' M' : "
    "datum.value >= 1e4 ? format(datum.value / 1e3, ',') + ' k' : format(datum.value, ',')"
)


def line_colours(names: Sequence[str]) -> list[str]:
    """One for each line; of more lines than there are colours, shades in their order."""
    if len(names) > len(LINE_COLOURS):
        return [SHADES[round(n * (len(SHADES) - 1) / (len(names) - 1))] for n in range(len(names))]
    return [PATTERN_COLOURS.get(name, LINE_COLOURS[n]) for n, name in enumerate(names)]


def unbroken(items: Sequence[Item], values: Sequence[float | None]) -> Iterator[tuple[Item, float, int]]:
    """Points with the number of the line that they belong to: a line ends where a value is missing."""
    segment = 0
    for item, value in zip(items, values, strict=True):
        if value:
            yield item, value, segment
        else:
            segment += 1


def dressed(chart: Any, *, width: int | None = None) -> Any:
    """The common look. Legends wrap below the picture, so that they never cover data or widen a phone's page."""
    return chart.configure(  # at once: each call copies the chart with its data
        font=FONT,
        background="white",
        padding=6,
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
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
            labelSeparation=LABELS_APART,
        ),
        legend=alt.LegendConfig(
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
        ),
        title=alt.TitleConfig(
            fontSize=14,
            fontWeight=600,
            color=INK,
            anchor="start",
            offset=10,
            subtitleFontSize=12,
            subtitleColor=PALE,
            frame="group",
        ),
    )


def folded(title: str, width: int) -> list[str]:
    """A title in as many lines as a picture of this width needs."""
    return textwrap.wrap(title, int(width / TITLE_LETTER))


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

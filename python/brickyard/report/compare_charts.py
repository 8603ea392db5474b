"""Duty: a comparison and a history → pictures. Refusal: no arithmetic beyond unit conversion."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

import altair as alt
import msgspec

from brickyard.analysis.judging.comparison import Comparison
from brickyard.analysis.judging.history import History
from brickyard.analysis.judging.pairing import Name
from brickyard.percentiles import SHOWN_NAMES
from brickyard.report import theme
from brickyard.report.picture import Picture
from brickyard.report.pictures import draw, inlined
from brickyard.units import format_name

WIDTH, HEIGHT = 640, 300
TITLE_WIDTH = 32  # characters of a panel's title in a line
CUT_AT = 3  # times the largest difference, at least 100 %: a longer interval would leave no room for the others
LABEL_LETTERS, LABEL_LINES = 48, 3  # of a load's name beside its figures; a longer one is cut in the middle
LINE = 14  # CSS pixels
CHANGES_SHOWN = 30  # more rows than this are no picture any more; the table has all


class _ChangeLine(msgspec.Struct, frozen=True):
    name: str
    share: float
    low: float
    high: float
    kind: str

    def within(self, most: float) -> _ChangeLine:
        return msgspec.structs.replace(self, low=max(self.low, -most), high=min(self.high, most))


class _CutEnd(msgspec.Struct, frozen=True):
    name: str
    share: float
    kind: str
    way: str


class _SidePercentile(msgspec.Struct, frozen=True):
    percentile: str
    time_ns: float
    side: str


def changes_picture(found: Comparison, note: str = "", sides: tuple[str, str] = ("before", "after")) -> Picture | None:
    """A line for each figure: its difference with the interval, and zero in the middle. A load that all of them are of
    is named once."""
    rows: list[_ChangeLine] = []
    loads = list(dict.fromkeys(change.name for change in found.changes[:CHANGES_SHOWN]))
    labels = _labels(loads) if len(loads) > 1 else {load: [] for load in loads}
    for change in found.changes[:CHANGES_SHOWN]:
        item = change.difference
        kind = "noise unknown" if item.seen is None else "seen" if item.seen else "not seen beyond noise"
        low = item.share if item.low is None else item.low
        high = item.share if item.high is None else item.high
        name = "\n".join([*labels[change.name], change.figure.title])
        rows.append(_ChangeLine(name, item.share, low, high, kind))
    if not rows:
        return None
    most = max(1.0, *(CUT_AT * abs(row.share) for row in rows))
    cut = [
        _CutEnd(row.name, end, row.kind, way)
        for row in rows
        for is_cut, end, way in ((row.low < -most, -most, "left"), (row.high > most, most, "right"))
        if is_cut
    ]
    rows = [row.within(most) for row in rows]
    kinds = [k for k in ("seen", "not seen beyond noise", "noise unknown") if any(row.kind == k for row in rows)]
    colours = {"seen": theme.BLUE, "not seen beyond noise": "#9aa5b1", "noise unknown": theme.ORANGE}
    lines = max(row.name.count("\n") + 1 for row in rows)
    y = alt.Y("name:N", sort=[row.name for row in rows], title=None, axis=_lines_axis(lines))
    x = alt.X("share:Q", title=f"difference, {sides[1]} against {sides[0]}", axis=alt.Axis(format="+.3~p", tickCount=6))
    colour = alt.Color(
        "kind:N", title=None, sort=kinds, scale=alt.Scale(domain=kinds, range=[colours[k] for k in kinds])
    )
    base = alt.Chart(inlined(rows))
    zero = alt.Chart(alt.InlineData(values=[{"share": 0}])).mark_rule(color=theme.BLACK).encode(x="share:Q")
    chart = alt.layer(
        zero,
        base.mark_rule(strokeWidth=2).encode(y=y, x=alt.X("low:Q"), x2="high:Q", color=colour),
        base.mark_point(filled=True, size=70, opacity=1).encode(y=y, x=x, color=colour),
        *_arrows(cut, y, colour),
    ).properties(width=420, height=max(60, (10 + LINE * lines) * len(rows)))
    said = f"Differences of {len(rows)} figures with their intervals"
    titles = wrap(format_name(loads[0]), 2 * LABEL_LETTERS) if len(loads) == 1 else []
    if cut:
        names = len({row.name for row in cut})
        words = f"▶ ◀ {names} of {len(rows)} intervals reach further than is shown; the table has their ends"
        titles.append(words)
        said += f", {names} of them cut"
    if titles:
        chart = chart.properties(title=alt.TitleParams(titles, anchor="start", fontSize=12, fontWeight="normal"))
    return draw("compare", said, chart, width=WIDTH, note=note)


def _lines_axis(lines: int) -> alt.Axis:
    """Labels of so many lines; Vega puts the first of them beside the tick."""
    return alt.Axis(labelExpr="split(datum.label, '\\n')", labelLimit=380, labelOffset=LINE / 2 * (1 - lines))


def _labels(loads: Sequence[Name]) -> dict[Name, list[str]]:
    """Of each load as many lines, so that the figure follows at one height."""
    found = {load: _label_lines(load) for load in loads}
    most = max(map(len, found.values()))
    return {load: [*[""] * (most - len(lines)), *lines] for load, lines in found.items()}


def _label_lines(name: Name) -> list[str]:
    """A load in a few lines; of a longer name both ends, which tell loads of one profile apart."""
    lines = wrap(format_name(name), LABEL_LETTERS)
    if len(lines) <= LABEL_LINES:
        return lines
    end = format_name(name)[2 - LABEL_LETTERS :].partition(" ")[2]
    return [*lines[: LABEL_LINES - 1], f"… {end}"]


def _arrows(cut: list[_CutEnd], y: alt.Y, colour: alt.Color) -> list[alt.Chart]:
    """At the ends of intervals that are longer than the picture is wide."""
    return [
        alt.Chart(inlined(ends))
        .mark_point(shape=f"triangle-{way}", filled=True, size=90, opacity=1)
        .encode(y=y, x="share:Q", color=colour)
        for way in ("left", "right")
        if (ends := [row for row in cut if row.way == way])
    ]


def shifts_picture(found: Comparison, note: str = "", sides: tuple[str, str] = ("before", "after")) -> Picture | None:
    """Percentiles of the latencies, before and after, as small multiples."""
    charts = []
    for shift in found.shifts[:9]:
        rows = [
            _SidePercentile(name, value, side)
            for side, item in zip(sides, (shift.before, shift.after), strict=True)
            for name in SHOWN_NAMES
            if (value := item.percentiles.get(name))
        ]
        if not rows:
            continue
        times = [row.time_ns for row in rows]
        low, high = min(times) * 0.8, max(times) * 1.25
        is_wide = high > 10 * low
        present = [name for name in SHOWN_NAMES if any(row.percentile == name for row in rows)]
        colour = alt.Color(
            "side:N",
            title=None,
            sort=sides,
            scale=alt.Scale(domain=sides, range=[theme.BLUE, theme.VERMILLION]),
        )
        charts.append(
            alt.Chart(inlined(rows))
            .mark_line(strokeWidth=2, point={"size": 50, "filled": True})
            .encode(
                x=alt.X("percentile:N", sort=present, title=None, axis=alt.Axis(labelAngle=0)),
                y=alt.Y(
                    "time_ns:Q",
                    title=shift.words,
                    scale=alt.Scale(type="log", domain=[low, high], nice=False)
                    if is_wide
                    else alt.Scale(zero=True, nice=True),
                    axis=alt.Axis(labelExpr=theme.TIME_OR_0_LABEL, values=theme.log_ticks(low, high))
                    if is_wide
                    else alt.Axis(labelExpr=theme.TIME_OR_0_LABEL, tickCount=5),
                ),
                color=colour,
                strokeDash=alt.StrokeDash("side:N", sort=sides, legend=None),
            )
            .properties(width=240, height=180, title=wrap(format_name(shift.name), TITLE_WIDTH))
        )
    if not charts:
        return None
    whole = charts[0] if len(charts) == 1 else alt.concat(*charts, columns=3, spacing=24)
    measures = " and ".join(dict.fromkeys(shift.words for shift in found.shifts))
    return draw("distributions", f"Percentiles of the {measures} before and after", whole, width=WIDTH, note=note)


def history_picture(history: History, number: int, note: str = "") -> Picture:
    """Each run a point, each stretch its mean, each change a line."""
    rows = [{"run": p.run, "place": n, "value": p.value} for n, p in enumerate(history.points)]
    levels = [{"place": first - 0.4, "end": last + 0.4, "value": mean} for first, last, mean in history.levels]
    places = {point.run: number for number, point in enumerate(history.points)}
    turns = [{"place": places[turn.run] - 0.5, "name": f"{turn.share * 100:+.1f} %"} for turn in history.turns]
    label = theme.TIME_OR_0_LABEL if history.figure.kind == "time" else theme.COUNT_LABEL
    labels = [point.run for point in history.points]
    x = alt.X(
        "place:Q",
        title="run",
        scale=alt.Scale(domain=[-0.6, len(rows) - 0.4], nice=False),
        axis=alt.Axis(
            values=list(range(0, len(rows), max(1, len(rows) // 12))),
            labelExpr=f"{labels}[datum.value]",
            grid=False,
        ),
    )
    y = alt.Y(
        "value:Q",
        title=history.figure.heading,
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(labelExpr=label, tickCount=5),
    )
    layers = [
        alt.Chart(alt.InlineData(values=levels))
        .mark_rule(color=theme.VERMILLION, strokeWidth=2.5, opacity=1)
        .encode(x=x, x2="end:Q", y=y),
        alt.Chart(alt.InlineData(values=rows)).mark_point(color=theme.BLUE, filled=True, size=50).encode(x=x, y=y),
    ]
    if turns:
        at = alt.Chart(alt.InlineData(values=turns))
        layers += [
            at.mark_rule(color=theme.INK, strokeDash=[4, 4]).encode(x=x),
            at.mark_text(align="left", baseline="top", dx=4, fontSize=12, fontWeight=600).encode(
                x=x, y=alt.value(2), text="name:N"
            ),
        ]
    title = format_name(history.name)
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=title)
    said = f"{history.figure.title} of {title} over {len(rows)} runs with {len(turns)} changes"
    return draw(f"history-{number}", said, chart, width=WIDTH, note=note)

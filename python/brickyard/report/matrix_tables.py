"""Duty: pivots as tables of text, alike for the terminal and the report. Refusal: no arithmetic but that of units."""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.analysis.figures.cells import DASH
from brickyard.analysis.figures.difference_words import EXACTLY_NONE, UNKNOWN, WITHIN_NOISE, difference_text
from brickyard.analysis.figures.pivot import Axis, Entry, Key, Pivot
from brickyard.report.tables import Table
from brickyard.schema.warning import listed
from brickyard.units import format_percent, three_digits

NOISE_UNKNOWN = (
    f"{UNKNOWN}: measured once, or not in all runs, so its noise is unknown; 3 or more repetitions that have it show it"
)
SAME_COMPUTATION = f"{EXACTLY_NONE}: both sides are the same computation (same seed, modelled target)"
NOT_SEEN = f"{WITHIN_NOISE}: not seen beyond noise; the true difference may be anywhere within the range"
LOPSIDED = 0.5  # from such a half width on, ± would hide that the interval reaches farther up than down
COMPARED = ("difference", "penalty")
HEADINGS = {"percent_of_best": "% of best", "rank": "rank"}


def matrix_table(pivot: Pivot) -> Table:
    """One block of columns for each thing that is shown."""
    blocks = [(what, column) for what in pivot.spec.show for column in _columns(pivot, what)]
    names = [" ".join(_labels(pivot.column_axes, column)) for _, column in blocks]
    heads = {what: f"{_heading(pivot, what)}{_factors(pivot, what)}" for what in pivot.spec.show}
    rows = [
        [*_labels(pivot.row_axes, row), *(entry_text(pivot, pivot.at(row, column), what) for what, column in blocks)]
        for row in pivot.rows
        if any(_is_told(pivot, row, column, what) for what, column in blocks)
    ]
    spans = [(heads[what], sum(one == what for one, _ in blocks)) for what in pivot.spec.show]
    one = not any(names)
    return Table(
        title=pivot.spec.title,
        columns=[*(axis.title for axis in pivot.row_axes), *([heads[what] for what, _ in blocks] if one else names)],
        rows=_merged(rows, len(pivot.row_axes)),
        text_columns=len(pivot.row_axes),
        groups=() if one else (("", len(pivot.row_axes)), *(span for span in spans if span[1])),
    )


def _columns(pivot: Pivot, what: str) -> list[Key]:
    """Without those that have nothing to tell: a baseline has no difference to itself."""
    return [c for c in pivot.columns or ((),) if any(_is_told(pivot, row, c, what) for row in pivot.rows)]


def _is_told(pivot: Pivot, row: Key, column: Key, what: str) -> bool:
    """A cell that was measured and has no figure is told by a dash."""
    entry = pivot.at(row, column)
    if entry is None:
        return what == "value" and (row, column) in pivot.blanks
    return what not in COMPARED or entry.difference is not None


def _merged(rows: list[list[str]], names: int) -> list[list[str]]:
    """A level of an outer factor stands once, above those that it holds."""
    shown: list[list[str]] = []
    for number, row in enumerate(rows):
        before = rows[number - 1] if number else []
        same = 0
        while number and same < names - 1 and row[same] == before[same]:
            same += 1
        shown.append([*[""] * same, *row[same:]])
    return shown


def _labels(axes: Sequence[Axis], key: Key) -> list[str]:
    return [axis.label(level) for axis, level in zip(axes, key, strict=True)]


def _factors(pivot: Pivot, what: str) -> str:
    """Those of the columns, where neither their labels nor the heading says them."""
    said = pivot.spec.baseline if what in COMPARED else {}
    axes = [axis for axis in pivot.column_axes if axis.name not in said]
    return f" by {listed([axis.title for axis in axes])}" if any(axis.is_bare for axis in axes) else ""


def _heading(pivot: Pivot, what: str) -> str:
    if what == "value":
        return pivot.figure.heading
    if what in COMPARED:
        axes = {axis.name: axis for axis in (*pivot.row_axes, *pivot.column_axes)}
        base = ", ".join(
            axes[name].named(level) if name in axes else level
            for name, levels in pivot.spec.baseline.items()
            for level in levels
        )
        return f"difference to {base}" if what == "difference" else f"penalty against {base}"
    return HEADINGS[what]


def entry_text(pivot: Pivot, entry: Entry | None, what: str) -> str:
    if entry is None:
        return DASH
    if what == "value":
        spread = _spread(pivot, entry)
        return pivot.figure.text(entry.sample.centre) + spread
    if what == "percent_of_best":
        return format_percent(entry.share_of_best)
    if what == "rank":
        return DASH if entry.rank is None else str(entry.rank)
    return difference_text(entry.difference, negated=what == "penalty")


def _spread(pivot: Pivot, entry: Entry) -> str:
    found = entry.sample
    width = found.relative_width
    if found.is_outside or (width is not None and width > LOPSIDED):
        return f" ({pivot.figure.text(found.low)} to {pivot.figure.text(found.high)})"
    return "" if width is None else f" ± {_share(width)}"


def _share(width: float) -> str:
    return "0 %" if width == 0 else f"{three_digits(width * 100)} %"


def footnotes(pivots: Sequence[Pivot]) -> list[str]:
    """What must be said below the tables."""
    said = []
    cells = [cell for pivot in pivots for row in matrix_table(pivot).rows for cell in row]
    if any(UNKNOWN in cell for cell in cells):
        said.append(NOISE_UNKNOWN)
    if any(WITHIN_NOISE in cell for cell in cells):
        said.append(NOT_SEEN)
    if any(pivot.repetitions > 1 for pivot in pivots):
        said.append("±: half of the 95 % t interval over repetitions, as a share of the figure (their geometric mean)")
        if any(pivot.figure.is_percentile for pivot in pivots):
            said.append(
                "percentiles are of all repetitions together; their intervals are of the repetitions' own percentiles, "
                "and are written out where the figure of all lies outside"
            )
    return said

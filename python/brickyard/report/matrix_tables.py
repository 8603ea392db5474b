"""Duty: pivots as tables of text, alike for the terminal and the report. Refusal: no arithmetic but that of units."""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.analysis.pivot import Axis, Entry, Key, Pivot
from brickyard.analysis.samples import Difference
from brickyard.report.tables import Table
from brickyard.units import format_percent, three_digits

DASH = "–"
UNKNOWN = "?"
NO_DIFFERENCE = "no difference seen"
NOISE_UNKNOWN = f"{UNKNOWN}: measured once, so its noise is unknown; repetitions = 3 or more tell it"
HEADINGS = {"percent_of_best": "% of best", "rank": "rank"}


def matrix_table(pivot: Pivot) -> Table:
    """One block of columns for each thing that is shown."""
    shown = pivot.spec.show
    columns = pivot.columns or ((),)
    names = [" ".join(_labels(pivot.column_axes, column)) for column in columns]
    one = len(columns) == 1 and not names[0]
    heads = [_heading(pivot, what) for what in shown]
    rows = [
        [
            *_labels(pivot.row_axes, row),
            *(entry_text(pivot, pivot.at(row, column), what) for what in shown for column in columns),
        ]
        for row in pivot.rows
    ]
    return Table(
        title=pivot.spec.title,
        columns=[*(axis.title for axis in pivot.row_axes), *(heads if one else names * len(shown))],
        rows=_merged(rows, len(pivot.row_axes)),
        text_columns=len(pivot.row_axes),
        groups=() if one else (("", len(pivot.row_axes)), *((head, len(columns)) for head in heads)),
    )


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


def _heading(pivot: Pivot, what: str) -> str:
    if what == "value":
        return pivot.figure.heading
    if what in ("difference", "penalty"):
        axes = {axis.name: axis for axis in (*pivot.row_axes, *pivot.column_axes)}
        base = ", ".join(
            axes[name].label(level) if name in axes else level
            for name, levels in pivot.spec.baseline.items()
            for level in levels
        )
        return f"difference to {base}" if what == "difference" else f"penalty against {base}"
    return HEADINGS[what]


def entry_text(pivot: Pivot, entry: Entry | None, what: str) -> str:
    if entry is None:
        return DASH
    if what == "value":
        width = entry.sample.relative_width
        spread = "" if width is None else f" ± {_share(width)}"
        return pivot.figure.text(entry.sample.centre) + spread
    if what == "percent_of_best":
        return format_percent(entry.share_of_best)
    if what == "rank":
        return DASH if entry.rank is None else str(entry.rank)
    return difference_text(entry.difference, negated=what == "penalty")


def difference_text(found: Difference | None, *, negated: bool = False) -> str:
    if found is None:
        return DASH
    sign = -1 if negated else 1
    share = f"{sign * found.share * 100:+.1f} %" if not negated else f"{-found.share * 100:.1f} %"
    if found.seen is None:
        return f"{share} {UNKNOWN}"
    if not found.seen:
        return NO_DIFFERENCE
    low, high = sorted((sign * (found.low or 0.0), sign * (found.high or 0.0)))
    return f"{share} ({low * 100:+.1f} to {high * 100:+.1f})"


def _share(width: float) -> str:
    return "0 %" if width == 0 else f"{three_digits(width * 100)} %"


def footnotes(pivots: Sequence[Pivot]) -> list[str]:
    """What must be said below the tables."""
    said = []
    if any(UNKNOWN in cell for pivot in pivots for row in matrix_table(pivot).rows for cell in row):
        said.append(NOISE_UNKNOWN)
    if any(pivot.repetitions > 1 for pivot in pivots):
        said.append("±: half of the 95 % bootstrap interval over repetitions, as a share of the figure")
    return said

"""Duty: pivots as documents for `--json` and as rows for CSV. Refusal: no figure is rounded."""

from __future__ import annotations

from brickyard.analysis.figures.pivot import Entry, Key, Pivot
from brickyard.analysis.figures.samples import Difference
from brickyard.schema import Document


def pivot_document(pivot: Pivot) -> Document:
    return {
        "table": pivot.spec.name,
        "title": pivot.spec.title,
        "figure": pivot.figure.name,
        "unit": unit_of(pivot),
        "rows": [axis.name for axis in pivot.row_axes],
        "columns": [axis.name for axis in pivot.column_axes],
        "cells": [cell_document(pivot, row, column) for row in pivot.rows for column in pivot.columns],
    }


def cell_document(pivot: Pivot, row: Key, column: Key) -> Document:
    entry = pivot.at(row, column)
    return {"levels": named_levels(pivot, row, column), **(_entry(entry) if entry else {"value": None, "n": 0})}


def named_levels(pivot: Pivot, row: Key, column: Key) -> dict[str, str]:
    """The level of each factor that a cell has."""
    return dict(zip((a.name for a in (*pivot.row_axes, *pivot.column_axes)), (*row, *column), strict=True))


def unit_of(pivot: Pivot) -> str:
    return pivot.figure.unit or ("ns" if pivot.figure.kind == "time" else pivot.figure.title)


def _entry(entry: Entry) -> Document:
    return {
        "value": entry.sample.centre,
        "low": entry.sample.low,
        "high": entry.sample.high,
        "n": entry.sample.repetitions,
        "runs": list(entry.runs),
        "share_of_best": entry.share_of_best,
        "rank": entry.rank,
        "difference": difference_document(entry.difference),
    }


def difference_document(found: Difference | None) -> Document | None:
    if found is None:
        return None
    return {"share": found.share, "low": found.low, "high": found.high, "seen": found.seen}

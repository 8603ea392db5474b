"""Duty: the figures of a row as text, alike in the terminal and in the report. Refusal: no layout."""

from __future__ import annotations

from brickyard.analysis.latency import PERCENTILES, Latency, percentile_name
from brickyard.analysis.totals import Totals
from brickyard.store import CHAINS, METADATA
from brickyard.units import format_iops, format_mib_per_s, format_ns

DASH = "–"
LATENCY_COLUMNS = ["mean", *(percentile_name(p) for p in PERCENTILES), "max"]


def iops(row: Totals) -> str:
    return format_iops(row.iops) if row.is_rated else DASH


def mib_per_s(row: Totals) -> str:
    """A chain moves nothing by itself: its requests have rows of their own."""
    return format_mib_per_s(row.bytes_per_s) if row.is_rated and row.operation not in CHAINS | METADATA else DASH


def latency_cells(figures: Latency | None) -> list[str]:
    if figures is None:
        return [DASH] * len(LATENCY_COLUMNS)
    values = [figures.percentiles[percentile_name(p)] for p in PERCENTILES]
    return [format_ns(value) for value in (figures.mean_ns, *values, figures.max_ns)]

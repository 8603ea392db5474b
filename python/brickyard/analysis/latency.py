"""Duty: latency figures out of histograms. Histograms are merged; percentiles are never averaged.

Refusal: no percentile that rests on fewer than ten samples beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from brickyard import _core
from brickyard.store import Interval

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
MIN_SAMPLES_BEYOND = 10  # with fewer, the figure is the luck of a few requests


def percentile_name(percentile: float) -> str:
    return f"p{percentile:g}"


@dataclass(frozen=True)
class Latency:
    """Figures of one measure. `percentiles` goes by name (`p99.9`); None where too few samples lie beyond."""

    count: int
    mean_ns: float
    min_ns: int
    max_ns: int
    percentiles: dict[str, int | None]
    histogram: str


def is_supported(count: int, percentile: float) -> bool:
    """Whether at least ten samples lie beyond a percentile of `count` samples."""
    # In units of 1e-4 of a sample, because 100 - 99.99 is not 0.01 in binary.
    return count * round((100 - percentile) * 10_000) >= MIN_SAMPLES_BEYOND * 1_000_000


def least_count(percentile: float) -> int:
    """The fewest samples of which ten lie beyond a percentile."""
    return -(-MIN_SAMPLES_BEYOND * 1_000_000 // round((100 - percentile) * 10_000))


def merge(histograms: Iterable[str]) -> str | None:
    """One histogram out of several; None where there is nothing in them."""
    items = [item for item in histograms if item]
    if not items:
        return None
    return items[0] if len(items) == 1 else _core.histogram_merge(items)


def latency(histogram: str | None) -> Latency | None:
    if histogram is None:
        return None
    stats = _core.histogram_stats(histogram)
    if stats["count"] == 0:
        return None
    values = _core.histogram_percentiles(histogram, list(PERCENTILES))
    return Latency(
        count=stats["count"],
        mean_ns=stats["mean_ns"],
        min_ns=stats["min_ns"],
        max_ns=stats["max_ns"],
        percentiles={
            percentile_name(p): value if is_supported(stats["count"], p) else None
            for p, value in zip(PERCENTILES, values, strict=True)
        },
        histogram=histogram,
    )


def latency_of(intervals: Iterable[Interval]) -> Latency | None:
    rows = list(intervals)
    return with_max(latency(merge(row.histogram for row in rows)), max((row.max_ns for row in rows), default=0))


def with_max(figures: Latency | None, max_ns: int) -> Latency | None:
    """The exact maximum, which rows keep beside their histograms, whose buckets only bound it."""
    if figures is None:
        return None
    capped = {name: value and min(value, max_ns) for name, value in figures.percentiles.items()}
    return replace(figures, max_ns=max_ns, percentiles=capped)


def together(figures: Iterable[Latency]) -> Latency | None:
    """Several as one."""
    found = list(figures)
    if len(found) <= 1:
        return found[0] if found else None
    return with_max(latency(merge(item.histogram for item in found)), max(item.max_ns for item in found))

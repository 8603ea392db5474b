"""Duty: the names of percentiles, which of them a view shows, and how many samples each needs.

Refusal: no histogram is read. A percentile needs `MIN_SAMPLES_BEYOND` samples beyond it, whoever measured them.
"""

from __future__ import annotations

MIN_SAMPLES_BEYOND = 10
"""With fewer, the figure is the luck of a few requests."""
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)


def percentile_name(percentile: float) -> str:
    return f"p{percentile:g}"


def is_percentile(figure: str) -> bool:
    """Whether a figure's name is that of a percentile, listed here or not: `p95`, but not `max`."""
    return figure.startswith("p")


def percentile_of(name: str) -> float:
    """99.9 of `p99.9`."""
    return float(name.removeprefix("p"))


PERCENTILE_NAMES = tuple(map(percentile_name, PERCENTILES))
SHOWN_NAMES = tuple(name for name in PERCENTILE_NAMES if name != "p95")
"""In tables and pictures, which have no room for all; requirements, documents and exports have p95 as well."""
TO_P99_9 = SHOWN_NAMES[:-1]
"""Without the one that needs 100,000 samples."""
TO_P99 = SHOWN_NAMES[:3]
MEDIAN = PERCENTILE_NAMES[0]
MEDIAN_AND_TAILS = ("p50", "p99", "p99.9")
MEDIAN_AND_P99 = MEDIAN_AND_TAILS[:2]
PAGE_PERCENTILES = ("p50", "p95", "p99")
"""Of the pages of a site: p95 is what their operators agree on."""


def is_supported(count: int, percentile: float) -> bool:
    """Whether at least ten samples lie beyond a percentile of `count` samples."""
    return count >= least_count(percentile)


def least_count(percentile: float) -> int:
    """The fewest samples of which ten lie beyond a percentile."""
    # In units of 1e-4 of a sample, because 100 - 99.99 is not 0.01 in binary.
    return -(-MIN_SAMPLES_BEYOND * 1_000_000 // round((100 - percentile) * 10_000))

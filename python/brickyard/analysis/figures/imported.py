"""Duty: figures that another program printed, in place of those that its histogram would give.

Refusal: where several jobs make up one row their figures are not combined; the merged histogram tells.
"""

from __future__ import annotations

from dataclasses import replace

from brickyard.analysis.figures.latency import Latency, within
from brickyard.percentiles import is_supported, percentile_of
from brickyard.schema import Imported
from brickyard.store import Record


def imported_figures(record: Record, phase: int, stream: int, operation: str) -> Imported | None:
    """The one `imported` event of a row, if there is exactly one."""
    wanted = (phase, stream, operation)
    found = [told for told in record.of(Imported) if (told.phase, told.stream, told.operation) == wanted]
    return found[0] if len(found) == 1 else None


def as_imported(figures: Latency, printed: Imported) -> Latency:
    """With the mean, the extremes and the percentiles that were printed; without bins no others are known.

    fio reads percentiles from buckets as well, and one that it printed beyond its maximum is given as the maximum.
    """
    percentiles = {
        name: (printed.percentiles.get(name, value if printed.has_bins else None))
        if is_supported(figures.count, percentile_of(name))
        else None
        for name, value in figures.percentiles.items()
    }
    return within(
        replace(
            figures,
            mean_ns=printed.mean_ns,
            min_ns=printed.min_ns,
            max_ns=printed.max_ns,
            percentiles=percentiles,
        )
    )

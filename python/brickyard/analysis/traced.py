"""Duty: what a run did of a trace, by operation. Refusal: it reads no trace."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from brickyard.analysis.totals import totals
from brickyard.store import Record


@dataclass(frozen=True)
class TraceDone:
    ended: dict[str, int]
    """Requests by operation, those that failed among them."""
    failed: int
    late_p50_ns: int | None
    """Of each kind the largest of all operations."""
    late_p99_ns: int | None
    late_max_ns: int | None


def done_of(record: Record) -> TraceDone:
    ended: Counter[str] = Counter()
    rows = totals(record)
    for row in rows:
        ended[row.operation] += row.requests + row.errors
    late = [item for row in rows for name, item in row.measures.items() if name == "lateness"]

    def largest(name: str) -> int | None:
        return max((n for item in late if (n := item.percentiles.get(name)) is not None), default=None)

    return TraceDone(
        dict(ended),
        sum(row.errors for row in rows),
        largest("p50"),
        largest("p99"),
        max((item.max_ns for item in late), default=None),
    )

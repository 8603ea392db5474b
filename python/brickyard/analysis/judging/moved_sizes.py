"""Duty: whether the requests of two sides were of one size in the mean, as their loads ask: IOPS of others are no IOPS
of this load. fio, for one, shortens requests that meet blocks of its map.

Refusal: says nothing where the plan does not tell the sizes (`schema.request_sizes`), nor where the plans themselves
differ in them, which `pairing.loads_differ` tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from brickyard.analysis.figures.totals import Totals, asked_stream
from brickyard.analysis.judging.pairing import Name, Pooled
from brickyard.schema import Document
from brickyard.schema.request_sizes import AskedSizes, MovedSizes, asked_sizes
from brickyard.units import format_mean_size, format_name


@dataclass(frozen=True)
class SizesApart:
    """One stream and operation whose mean request was another one on each side."""

    name: Name
    before: MovedSizes
    after: MovedSizes

    @property
    def words(self) -> str:
        means = (format_mean_size(side.mean_bytes) for side in (self.before, self.after))
        return f"{format_name(self.name)}: mean request size: {' → '.join(means)}"

    def document(self) -> Document:
        return {
            "load": list(self.name),
            "mean_bytes_before": self.before.mean_bytes,
            "mean_bytes_after": self.after.mean_bytes,
        }


def sizes_apart(name: Name, one: Pooled, other: Pooled) -> SizesApart | None:
    """None where both sides moved the same, as far as chance lets anyone tell."""
    asked = {size for side in (one, other) for size in _asked(side)}
    if len(asked) != 1:
        return None
    before, after = _moved(one), _moved(other)
    if not (before.is_known and after.is_known and before.is_apart_from(after, asked.pop())):
        return None
    return SizesApart(name, before, after)


def _asked(side: Pooled) -> set[AskedSizes]:
    found = (asked_sizes(asked_stream(record, row.phase, row.stream), row.operation) for record, row in side.found)
    return {sizes for sizes in found if sizes is not None}


def _moved(side: Pooled) -> MovedSizes:
    return reduce(MovedSizes.with_other, (_moved_by(row) for _, row in side.found))


def _moved_by(row: Totals) -> MovedSizes:
    """Runs of ours count requests and their bytes at once."""
    return MovedSizes(row.requests, row.bytes, row.in_flight_bound + (row.errors or 0) if row.is_by_tool else 0)

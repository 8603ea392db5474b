"""Duty: how far figures of models are off, as an interval around each: by the kind of storage, from the published
figures that were simulated with models that their table had taught nothing.

`left_out.csv` is written by `brickyard study reference --errors`. An interval reaches from a figure divided by a
factor to the figure times it; the factor is the one that holds nine tenths of the kind's left-out figures, and no less
than of all kinds together where a kind has few tables. Whether intervals made so hold what they promise is tested by
leaving whole tables out (`tests/test_advise_spread.py`).

Refusal: no interval for a kind that nothing published was compared with.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

COVERAGE = 0.9
FILE = "left_out.csv"
COLUMNS = ("table", "kind", "cell", "published", "simulated")
KINDS = {"rotating": "disks", "ssd": "flash", "cloud": "volumes"}


@dataclass(frozen=True)
class SpreadRow:
    """One published figure beside that of a model that its table taught nothing."""

    table: str
    kind: str
    published: float
    simulated: float

    @property
    def distance(self) -> float:
        return abs(math.log(self.simulated / self.published))


@dataclass(frozen=True)
class Spread:
    """The interval of a kind of storage."""

    kind: str
    factor: float
    figures: int
    tables: int

    def ends(self, value: float) -> tuple[float, float]:
        return value / self.factor, value * self.factor

    @property
    def words(self) -> str:
        """A rate may be this much lower or higher."""
        return f"a factor of {self.factor:.2f} ({1 / self.factor - 1:+.0%} to {self.factor - 1:+.0%})"


@cache
def rows() -> tuple[SpreadRow, ...]:
    text = (resources.files("brickyard.advise") / FILE).read_text("utf-8")
    lines = list(csv.reader(text.splitlines()))[1:]
    return tuple(SpreadRow(table, kind, float(printed), float(found)) for table, kind, _, printed, found in lines)


def spread_of(drive_kind: str) -> Spread | None:
    """By the kind of a brick's drives; None for one that nothing published was compared with."""
    return spread(KINDS[drive_kind], rows())


def spread(kind: str, every: Iterable[SpreadRow]) -> Spread | None:
    of_kind = [row for row in every if row.kind == kind]
    if not of_kind:
        return None
    factor = math.exp(bound([row.distance for row in of_kind]))
    return Spread(kind, factor, len(of_kind), len({row.table for row in of_kind}))


def bound(distances: Iterable[float]) -> float:
    """The least that holds `COVERAGE` of them and of one more like them (split conformal prediction)."""
    ordered = sorted(distances)
    return ordered[min(len(ordered) - 1, math.ceil((len(ordered) + 1) * COVERAGE) - 1)]

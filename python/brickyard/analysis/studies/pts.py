"""Duty: figures of PTS tests out of records: cells of rounds, steady state, operating points, recovery.

Refusal: nothing is run here; and no percentile without ten samples beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import median

from brickyard._core import Histogram
from brickyard.analysis.figures.latency import as_one
from brickyard.analysis.figures.totals import Totals, totals
from brickyard.percentiles import is_supported
from brickyard.schema import Document, is_request
from brickyard.store import Record

RANGE_MAX, SLOPE_MAX = 0.20, 0.10  # of the mean of the window (PTS, "Steady State")
NINES = 99.999
WHOLE = 0.99
"""The share of its length at which a round counts as complete: the clock cuts rounds a little early or late."""


@dataclass(frozen=True)
class Measured:
    """One load in one round: reads and writes together."""

    iops: float
    bytes_per_s: float
    mean_ns: float
    max_ns: int
    nines_ns: int | None
    """The time that 99,999 of 100,000 requests keep; None where fewer than ten took longer."""
    requests: int = 0
    histogram: Histogram | None = field(default=None, repr=False)
    """Response times of `requests`; empty where they are not known."""

    def document(self) -> Document:
        return {
            "iops": self.iops,
            "bytes_per_s": self.bytes_per_s,
            "mean_ns": self.mean_ns,
            "p99.999_ns": self.nines_ns,
            "max_ns": self.max_ns,
        }


def measured_phases(record: Record) -> list[Measured | None]:
    """One for each phase of the plan, in order; None for a phase in which nothing ended."""
    rows = {phase: list(group) for phase, group in groupby(totals(record), key=lambda row: row.phase)}
    return [_measured(rows.get(phase, [])) for phase in range(len(record.info.plan.phase))]


def _measured(rows: list[Totals]) -> Measured | None:
    whole = as_one(row.response for row in rows if row.response and is_request(row.operation))
    if whole is None:
        return None
    return Measured(
        iops=sum(row.iops for row in rows),
        bytes_per_s=sum(row.bytes_per_s for row in rows),
        mean_ns=whole.mean_ns,
        max_ns=whole.max_ns,
        nines_ns=_nines(whole.histogram, whole.count, whole.max_ns),
        requests=whole.count,
        histogram=whole.histogram,
    )


def _nines(histogram: Histogram | None, count: int, max_ns: int) -> int | None:
    if histogram is None or not is_supported(count, NINES):
        return None
    return min(histogram.percentiles_ns([NINES])[0], max_ns)


def mean_of(items: Sequence[Measured]) -> Measured:
    """PTS reports the mean of the rounds of the measurement window, and the longest of the longest times. Percentiles
    are never averaged: that of the window is of all its requests, and there is none where a round lacks its times."""
    requests = sum(item.requests for item in items)
    max_ns = max(item.max_ns for item in items)
    times = [item.histogram for item in items if item.histogram is not None]
    whole = Histogram.merged(times) if len(times) == len(items) else None
    return Measured(
        iops=sum(item.iops for item in items) / len(items),
        bytes_per_s=sum(item.bytes_per_s for item in items) / len(items),
        mean_ns=sum(item.mean_ns for item in items) / len(items),
        max_ns=max_ns,
        nines_ns=_nines(whole, requests, max_ns),
        requests=requests,
        histogram=whole,
    )


@dataclass(frozen=True)
class Steadiness:
    """A window held against both criteria; `slope` is the fitted line's change over the window."""

    values: tuple[float, ...]
    mean: float
    excursion: float
    slope: float

    @property
    def is_steady(self) -> bool:
        return self.mean > 0 and self.excursion <= self.excursion_allowed and abs(self.slope) <= self.slope_allowed

    @property
    def excursion_allowed(self) -> float:
        return RANGE_MAX * self.mean

    @property
    def slope_allowed(self) -> float:
        return SLOPE_MAX * self.mean

    def document(self) -> Document:
        return {
            "values": list(self.values),
            "mean": self.mean,
            "range": self.excursion,
            "range_allowed": self.excursion_allowed,
            "slope": self.slope,
            "slope_allowed": self.slope_allowed,
            "is_steady": self.is_steady,
        }


def steadiness(values: Sequence[float]) -> Steadiness:
    """Range and least-squares slope over a window of rounds."""
    count = len(values)
    mean = sum(values) / count
    middle = (count - 1) / 2
    spread = sum((k - middle) ** 2 for k in range(count))
    slope = sum((k - middle) * value for k, value in enumerate(values)) / spread if spread else 0.0
    return Steadiness(tuple(values), mean, max(values) - min(values), slope * (count - 1))


@dataclass(frozen=True)
class Point:
    """One round of a test that goes on and on: what was done in it, and what had been written until its end."""

    end_s: float
    written_bytes: int
    figures: Measured
    partial_s: float | None = None
    """How long it lasted, if the test ended before the round did: its rate is not that of a round."""


def points(record: Record, phase: int, shift_s: float = 0.0, written_bytes: int = 0) -> list[Point]:
    """The intervals of a phase, each a round."""
    by_start: dict[int, list[tuple[int, int, float, int, str]]] = {}
    for item in record.intervals:
        if item.phase == phase and item.measure == "response" and not item.warmup:
            row = (item.requests, item.bytes, item.mean_ns, item.max_ns, item.histogram)
            by_start.setdefault(item.start_ns, []).append(row)
    found = []
    interval = record.info.plan.interval
    round_s = interval.ns / 1e9 if interval is not None else 0.0
    began_ns = min((cost.start_ns for cost in record.costs if cost.phase == phase), default=0)
    for cost in record.spans(phase):
        rows = by_start.get(cost.start_ns, [])
        requests = sum(row[0] for row in rows)
        if cost.drain or not requests:
            continue
        length_s = (cost.end_ns - cost.start_ns) / 1e9
        moved = sum(row[1] for row in rows)
        written_bytes += moved
        max_ns = max(row[3] for row in rows)
        figures = Measured(
            iops=requests / length_s,
            bytes_per_s=moved / length_s,
            mean_ns=sum(row[0] * row[2] for row in rows) / requests,
            max_ns=max_ns,
            nines_ns=_nines(Histogram.merged(row[4] for row in rows), requests, max_ns),
        )
        partial_s = length_s if length_s < WHOLE * round_s else None
        found.append(Point(shift_s + (cost.end_ns - began_ns) / 1e9, written_bytes, figures, partial_s))
    return found


def complete(points: Sequence[Point]) -> list[Point]:
    """The rounds that lasted as long as a round; all of them if none did."""
    return [point for point in points if point.partial_s is None] or list(points)


@dataclass(frozen=True)
class Saturation:
    """Where write saturation began and ended, by complete rounds alone."""

    first: float
    last: float
    """The median of the last `window` rounds: one slow round is not the end."""
    window: int

    def words(self, rate: str) -> str:
        """`rate` is the last one."""
        of = "the last complete round" if self.window == 1 else f"median of the last {self.window} complete rounds"
        return f"{rate} ({of}), {self.last / self.first * 100:.0f} % of its first round"


def saturation_of(points: Sequence[Point], window: int) -> Saturation | None:
    """None where fewer than two rounds came to their ends, or the first had no rate to compare with."""
    rates = [point.figures.iops for point in points if point.partial_s is None]
    if len(rates) < 2 or not rates[0]:
        return None
    last = rates[1:][-window:]
    return Saturation(rates[0], median(last), len(last))


def recovery(before: Sequence[Point], after: Sequence[Point], window: int) -> int | None:
    """After how many rounds the last group is back within 10 % of what the first had at its end; None if never."""
    if not before or not after:
        return None
    known = complete(before)[-window:]
    wanted = 0.9 * sum(point.figures.bytes_per_s for point in known) / len(known)
    return next((k + 1 for k, point in enumerate(after) if point.figures.bytes_per_s >= wanted), None)

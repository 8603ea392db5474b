"""Duty: etcd's rule of p99 of fdatasync, also where there were too few flushes for a p99. Pure.

A lower percentile beyond the limit, or the fastest of all flushes, says that p99 is beyond it too: the slower a disk,
the fewer flushes it makes in the time, and the surer it fails.

Refusal: too few flushes that were fast enough pass nothing and fail nothing.
"""

from __future__ import annotations

from dataclasses import replace

from brickyard.analysis.figures.latency import Latency, as_one
from brickyard.analysis.figures.totals import totals
from brickyard.analysis.judging.verdict import Finding, Verdict
from brickyard.percentiles import PERCENTILE_NAMES, least_count
from brickyard.store import Record
from brickyard.units import format_count, format_ns

P99 = 99.0


def judged(record: Record, held: Verdict) -> Verdict:
    """The verdict by a ruler that asks for p99 of flushes; `held` is what is known where there is one."""
    finding = held.decided
    if finding.value is not None:
        return held
    asked = finding.requirement
    rows = [row for row in totals(record) if row.operation == asked.operation]
    return replace(held, findings=(without_p99(finding, as_one(row.measures[asked.measure] for row in rows)),))


def without_p99(finding: Finding, flushes: Latency | None) -> Finding:
    limit = finding.requirement.threshold
    slow = _beyond(flushes, limit) if flushes else None
    if flushes and slow:
        name, value = slow
        return replace(finding, note=f"{name} of {format_count(flushes.count)} flushes is {format_ns(value)} already")
    count = format_count(flushes.count) if flushes else "0"
    note = f"{count} flushes were measured, and p99 needs {format_count(least_count(P99))}"
    return replace(finding, note=note, asked=False)


def _beyond(flushes: Latency, limit: float) -> tuple[str, float] | None:
    """The lowest percentile beyond the limit."""
    if flushes.min_ns is not None and flushes.min_ns > limit:
        return "the fastest", flushes.min_ns
    known = [(name, flushes.percentiles[name]) for name in PERCENTILE_NAMES]
    return next(((name, value) for name, value in known if value is not None and value > limit), None)

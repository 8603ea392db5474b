"""Duty: figures that another program printed, in place of those that its histogram would give.

Refusal: where several jobs make up one row their figures are not combined; the merged histogram tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from brickyard.analysis.figures.latency import Latency, within
from brickyard.percentiles import is_supported, percentile_of
from brickyard.schema import FLUSH, Imported, RunWarning, Timed
from brickyard.schema.plan import OtherPhase, Phase
from brickyard.store import Interval, Record
from brickyard.store.record import OF_CLAT

CLAT = "fio's clat"


def imported_figures(record: Record, phase: int, stream: int, operation: str) -> Imported | None:
    """The one `imported` event of a row, if there is exactly one."""
    wanted = (phase, stream, operation)
    found = [told for told in record.of(Imported) if (told.phase, told.stream, told.operation) == wanted]
    return found[0] if len(found) == 1 else None


def clat_warnings(record: Record, phase: int, stream: int, operation: str) -> frozenset[str]:
    """Those of `OF_CLAT` that are of this row; flushes have no `clat`."""
    if operation == FLUSH:
        return frozenset()
    found = (warning for warning in record.info.warnings if warning.id in OF_CLAT)
    return frozenset(warning.id for warning in found if _is_of(warning, record, phase, stream))


def _is_of(warning: RunWarning, record: Record, phase: int, stream: int) -> bool:
    """A warning that names jobs is of their streams; where a name is that of no stream, it is of all."""
    jobs = {name for names in warning.wording.names.values() for name in names} if warning.wording else set[str]()
    phases: Sequence[Phase | OtherPhase] = record.info.plan.phase
    streams = {
        (at, number): of.stream[number].name or of.name or ""
        for at, of in enumerate(phases)
        for number in range(len(of.stream))
    }
    if not jobs or not all(any(_is_called(name, job) for name in streams.values()) for job in jobs):
        return True
    return any(_is_called(streams.get((phase, stream), ""), job) for job in jobs)


def _is_called(name: str, job: str) -> bool:
    """Whether a stream has the name of a job: clones are numbered, and a phase that reads back says so."""
    return name == job or name.startswith((f"{job} (", f"{job}-verify", f"{job} and others"))


def as_imported(figures: Latency, printed: Imported, percentiles_of: str = "") -> Latency:
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
            has_bins=printed.has_bins,
            percentiles_of=percentiles_of,
        )
    )


class IntervalTimes(NamedTuple):
    """What exports give of the times of an interval; a percentile that is not known is None."""

    p50_ns: int | None
    p99_ns: int | None
    histogram: str


def interval_times(record: Record, item: Interval) -> IntervalTimes:
    """Those of the interval; where a tool printed percentiles and no distribution, its own and no histogram."""
    if not record.info.is_by_tool or item.measure != Timed.SERVICE or not item.histograms:
        return IntervalTimes(item.p50_ns, item.p99_ns, item.histogram)
    printed = imported_figures(record, item.phase, item.stream, item.operation)
    if printed is None:
        return IntervalTimes(item.p50_ns, item.p99_ns, item.histogram)

    def held(name: str, of_bins_ns: int) -> int | None:
        found_ns = printed.percentiles.get(name, of_bins_ns if printed.has_bins else None)
        return None if found_ns is None else min(found_ns, item.max_ns)

    histogram = item.histogram if printed.has_bins else ""
    return IntervalTimes(held("p50", item.p50_ns), held("p99", item.p99_ns), histogram)

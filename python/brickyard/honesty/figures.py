"""Duty: the records of the honesty profiles → the few figures that are judged. Pure functions.

Refusal: no judgement.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from brickyard import analysis
from brickyard.analysis import Totals
from brickyard.analysis.figures.totals import profile_stream
from brickyard.schema import Document, IoPath, is_request, reasons_of
from brickyard.store import Record

OVERWRITE, GROUP, DIRTY = "honesty-overwrite", "honesty-group", "honesty-dirty"
PROFILES = (OVERWRITE, GROUP, DIRTY)


@dataclass(frozen=True)
class OverwriteFigures:
    """One block overwritten again and again."""

    request_bytes: int
    plain_write_ns: float
    flushed_write_ns: float
    flush_ns: float
    durable_per_s: float
    dsync_per_s: float | None


@dataclass(frozen=True)
class GroupFigures:
    writes: int
    writes_per_s: float
    flush_ns: float


@dataclass(frozen=True)
class DirtyFigures:
    """So much was written, then flushed: mean times of the writes together and of the flush."""

    dirty_bytes: int
    writes_ns: float
    flush_ns: float
    flushes: int

    @property
    def bytes_per_s(self) -> float:
        """From the first write to the end of the flush: this long the medium had for all of it."""
        return self.dirty_bytes / (self.writes_ns + self.flush_ns) * 1e9 if self.dirty_bytes else 0.0


@dataclass(frozen=True)
class Figures:
    overwrite: OverwriteFigures | None = None
    groups: list[GroupFigures] = field(default_factory=list)
    dirty: list[DirtyFigures] = field(default_factory=list)
    buffered_reason: str = ""
    errors: int = 0

    def document(self) -> Document:
        dirty = [{**asdict(item), "bytes_per_s": item.bytes_per_s} for item in self.dirty]
        return {**asdict(self), "dirty": dirty}


def figures(records: Iterable[Record]) -> Figures:
    """What the honesty profiles measured; of what was not run, or failed, there is no figure."""
    overwrite, groups, dirty, reason, errors = None, [], [], "", 0
    for record in records:
        rows = analysis.totals(record)
        errors += analysis.errors_of(row for row in rows if is_request(row.operation)) or 0
        if (start := record.info.start) and start.io is IoPath.BUFFERED:
            reason = reasons_of(start).io or "buffered I/O was requested"
        if record.info.profile == OVERWRITE:
            overwrite = _overwrite(record, rows)
        elif record.info.profile == GROUP:
            groups = [
                GroupFigures(_writes_a_flush(record, write.phase), write.iops, flush_ns)
                for write, flush_ns, _ in _pairs(rows)
            ]
        elif record.info.profile == DIRTY:
            dirty = _dirty(record, rows)
    return Figures(overwrite, groups, dirty, reason, errors)


def _mean_ns(row: Totals | None) -> float | None:
    service = row.service if row else None
    return service.mean_ns if service else None


def _find(rows: list[Totals], phase: str, operation: str) -> Totals | None:
    return next((row for row in rows if (row.phase_name, row.operation) == (phase, operation)), None)


def _overwrite(record: Record, rows: list[Totals]) -> OverwriteFigures | None:
    plain = _mean_ns(_find(rows, "plain", "write"))
    write = _mean_ns(_find(rows, "flush", "write"))
    flush_row, dsync = _find(rows, "flush", "flush"), _find(rows, "dsync", "write")
    flush = _mean_ns(flush_row)
    if plain is None or write is None or flush is None or flush_row is None:
        return None
    first = profile_stream(record, 0, 0)
    size = first.request[0].size if first and first.request else 0
    return OverwriteFigures(size, plain, write, flush, flush_row.iops, dsync.iops if dsync else None)


def _writes_a_flush(record: Record, phase: int) -> int:
    stream = profile_stream(record, phase, 0)
    return stream.flush_every.writes if stream and stream.flush_every else 0


def _pairs(rows: list[Totals]) -> list[tuple[Totals, float, int]]:
    """Of each phase that had both: its writes, the mean time of its flushes, and how many there were."""
    found = []
    for row in rows:
        flush = _find(rows, row.phase_name, "flush")
        flush_ns = _mean_ns(flush)
        if row.operation == "write" and flush is not None and flush_ns is not None and _mean_ns(row):
            found.append((row, flush_ns, flush.requests))
    return found


def _dirty(record: Record, rows: list[Totals]) -> list[DirtyFigures]:
    found = []
    for row in rows:
        if row.operation == "flush" and _find(rows, row.phase_name, "write") is None and (ns := _mean_ns(row)):
            found.append(DirtyFigures(0, 0.0, ns, row.requests))
    for write, flush_ns, count in _pairs(rows):
        writes = _writes_a_flush(record, write.phase)
        size = write.bytes // write.requests if write.requests else 0
        found.append(DirtyFigures(writes * size, writes * (_mean_ns(write) or 0.0), flush_ns, count))
    return sorted(found, key=lambda item: item.dirty_bytes)

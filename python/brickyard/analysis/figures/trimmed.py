"""Duty: what share of a run's reads may have met blocks that the run had trimmed itself, which no medium answers.

Refusal: nobody knows which blocks were trimmed; it follows from the amounts and the order of phases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from brickyard.analysis.figures.reach import joined_places, overlap_bytes, places_bytes, region_place
from brickyard.analysis.figures.totals import asked_stream
from brickyard.schema.plan import PermutationAddress, Plan, SequentialAddress, Stream
from brickyard.store import Record

Places = list[tuple[int, int]]


@dataclass(frozen=True)
class TrimmedReads:
    """`share`: at most so much of what a phase read of a target had been trimmed by then."""

    target: int
    phase: int
    share: float


@dataclass(frozen=True)
class _Moved:
    """What one kind of operation moved in a phase, and where."""

    bytes: int
    places: Places
    in_order: bool


def trimmed_reads(record: Record) -> list[TrimmedReads]:
    """Of each target the phase where the share is greatest; targets without such reads are left out."""
    start = record.info.start
    if start is None or not isinstance(record.info.plan, Plan):
        return []
    if not any(item.operation == "trim" and item.bytes for item in record.intervals):
        return []
    lengths = [opened.data_bytes or opened.size_bytes or 0 for opened in start.targets]
    found = [max(_of_target(record, number, length), key=_share, default=None) for number, length in enumerate(lengths)]
    return [one for one in found if one is not None and one.share > 0]


def _share(one: TrimmedReads) -> float:
    return one.share


def _of_target(record: Record, target: int, length: int) -> list[TrimmedReads]:
    trimmed, area, found = 0.0, list[tuple[int, int]](), []
    for phase in sorted({item.phase for item in record.intervals}):
        trims, writes, reads = (_moved(record, phase, target, length, name) for name in ("trim", "write", "read"))
        area = joined_places([*area, *trims.places])
        whole = places_bytes(area)
        if not whole:
            continue
        trimmed = _after(trimmed, whole, trims, writes, overlap_bytes(writes.places, area))
        if reads.bytes:
            share = trimmed / whole * overlap_bytes(reads.places, area) / max(places_bytes(reads.places), 1)
            found.append(TrimmedReads(target, phase, min(share, 1.0)))
    return found


def _moved(record: Record, phase: int, target: int, length: int, operation: str) -> _Moved:
    """A program, a trace or a chain chooses places of its own."""
    moved: dict[int, int] = {}
    for item in record.intervals:
        if (item.phase, item.operation, item.measure) == (phase, operation, "service"):
            moved[item.stream] = moved.get(item.stream, 0) + item.bytes
    asked = {number: asked_stream(record, phase, number) for number, size in moved.items() if size}
    here = {number: one for number, one in asked.items() if isinstance(one, Stream) and one.target == target}
    edges = [_place(one, length) for one in here.values()]
    return _Moved(
        sum(moved[number] for number in here),
        joined_places(edges),
        all(isinstance(one.address, SequentialAddress | PermutationAddress) for one in here.values()),
    )


def _place(stream: Stream, length: int) -> tuple[int, int]:
    is_own = stream.program or stream.trace or stream.chain
    return (0, length) if is_own else region_place(stream.region, length)


def _after(before: float, whole: int, trims: _Moved, writes: _Moved, written_here: int) -> float:
    """How much of a part of so many bytes is trimmed after a phase. Uniform requests meet what was trimmed or written
    before by chance; requests in order do not, within a pass."""
    trim = float(trims.bytes)
    write = writes.bytes * written_here / max(places_bytes(writes.places), 1)
    if not write and trims.in_order:
        return min(float(whole), before + trim)
    if not trim and writes.in_order:
        return max(0.0, before - write)
    if not trim + write:
        return before
    lasting = whole * trim / (trim + write)
    return lasting + (before - lasting) * math.exp(-(trim + write) / whole)

"""Duty: reads of addresses that favour some blocks, which a cache may hold although it does not hold the whole target.

Refusal: what a cache answered is not known; how many blocks were read is what the distribution is expected to touch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from brickyard.analysis.figures.distinct import distinct_bytes
from brickyard.analysis.figures.totals import asked_stream
from brickyard.schema.plan import Stream
from brickyard.store import Record

DISTINCT_SHARE = 1 - 1 / math.e
"""Uniform requests for as much as there is touch this share of it; below it, as much was read again as there."""


@dataclass(frozen=True)
class Repeated:
    read_bytes: float
    distinct_bytes: float
    cache_bytes: int | None
    """Below the targets of these reads; None where that is not known."""


def repeated_reads(record: Record) -> Repeated | None:
    """Of the streams that read mostly what they had read before."""
    reads: dict[tuple[int, int], tuple[int, int]] = {}
    for item in record.intervals:
        if item.operation == "read" and item.measure == "service":
            requests, moved = reads.get((item.phase, item.stream), (0, 0))
            reads[item.phase, item.stream] = requests + item.requests, moved + item.bytes
    found: list[tuple[int, float, int]] = []
    for (phase, number), (requests, moved) in reads.items():
        asked = asked_stream(record, phase, number)
        own = _distinct(record, asked, requests, moved) if isinstance(asked, Stream) and requests else None
        if isinstance(asked, Stream) and own is not None and own < DISTINCT_SHARE * moved:
            found.append((moved, own, asked.target))
    if not found:
        return None
    below = [_cache_below(record, target) for target in {target for _, _, target in found}]
    held = None if None in below else sum(size for size in below if size)
    return Repeated(sum(moved for moved, _, _ in found), sum(own for _, own, _ in found), held)


def _distinct(record: Record, asked: Stream, requests: int, moved: int) -> float | None:
    start = record.info.start
    opened = start.targets[asked.target] if start and asked.target < len(start.targets) else None
    length = opened.data_bytes if opened else 0
    return distinct_bytes(asked, length, requests, moved / requests) if length else None


def _cache_below(record: Record, target: int) -> int | None:
    sheets = record.info.facts.targets
    return sheets[target].cache_bytes if target < len(sheets) else None

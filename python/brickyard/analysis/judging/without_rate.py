"""Duty: which cells of a characterization have no rate, and why: a highest rate is no answer for those that have none.

Refusal: no figure; what the others have is in `studies.characterization`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from brickyard.analysis.figures.totals import totals
from brickyard.analysis.judging.failing import without_figures
from brickyard.schema import tag_of
from brickyard.schema.operations import shares
from brickyard.schema.plan import Stream
from brickyard.store import Record

SIZES_BYTES = tuple(512 << step for step in range(12))
"""512 B to 1 MiB, the x axis of the characterization graph in Overland's guide."""
PATTERNS = (("sequential", "read"), ("random", "read"), ("sequential", "write"), ("random", "write"))
"""Reads first, so that no read waits for what the writes have left behind in caches. Each has every size."""
NOT_MEASURED = "not measured"
Key = tuple[str, str, int]
"""Address, operation and request size of a cell."""


def asked_cell(record: Record) -> Key | None:
    """The cell that a run was to measure: one phase, one stream, one size, one operation, sequential or random."""
    phases = record.info.plan.phase
    if len(phases) != 1 or len(phases[0].stream) != 1:
        return None
    stream = phases[0].stream[0]
    if not isinstance(stream, Stream):
        return None  # a page of a replay
    operations = [name for name, share in shares(stream.operations).items() if share > 0]
    address = tag_of(type(stream.address))
    if (
        stream.chain
        or stream.program
        or len(stream.request) != 1
        or len(operations) != 1
        or address not in ("sequential", "random")
    ):
        return None
    return address, operations[0], stream.request[0].size


def without_rate(records: Sequence[Record], planned: int | None = None) -> dict[Key, str]:
    """Cells that were asked for and have no rate, with the reason; the latest run of a cell speaks. Where all cells of
    the characterization were `planned`, also those that no run measured, but for sizes below the target's alignment."""
    found = {asked: _why(record, asked[1]) for record in records if (asked := asked_cell(record)) is not None}
    if planned == len(PATTERNS) * len(SIZES_BYTES):
        align_bytes = max((one.align_bytes or 0 for record in records for one in record.info.opened), default=0)
        sizes = [size for size in SIZES_BYTES if size >= align_bytes]
        found = {(*pattern, size): NOT_MEASURED for pattern in PATTERNS for size in sizes} | found
    return {asked: why for asked, why in found.items() if why}


def _why(record: Record, operation: str) -> str:
    if not record.info.is_valid:
        return "run invalid" if record.info.invalid else f"run {record.info.outcome}"
    rows = [row for row in totals(record) if row.operation == operation]
    if not any(row.requests or row.errors for row in rows):
        return "ended during its warm-up" if without_figures(record) else "no request ended"
    if not any(row.requests for row in rows):
        return "all requests failed"
    return "" if rows[0].is_rated else "all requests ended after the measured time"


def without_words(records: Sequence[Record], without: dict[Key, str]) -> str:
    """How many cells have no rate, and why; empty where each has one."""
    if not without:
        return ""
    asked = {key for record in records if (key := asked_cell(record)) is not None} | set(without)
    return f"{len(without)} of {len(asked)} cells have no rate, so higher rates may be missing: {reasons(without)}."


def reasons(without: dict[Key, str]) -> str:
    """`run failed (2), not measured (12)`."""
    return ", ".join(f"{why} ({count})" for why, count in Counter(without.values()).most_common())

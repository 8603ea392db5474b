"""Duty: runs of single loads → the characterization of a target by request size, pattern and operation.

Refusal: runs that mix sizes, operations or streams belong to no cell and are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from brickyard.analysis.figures.totals import Totals, shares_of_best, totals
from brickyard.analysis.figures.workload import workload_words
from brickyard.analysis.judging.cached import doubt
from brickyard.analysis.judging.without_rate import PATTERNS, asked_cell
from brickyard.store import Record

FILLS = "†"
FILLS_WORDS = (
    f"{FILLS}: not in steady state, so this rate may not last: less was written than the caches hold, or the rate fell "
    "by more than a fifth"
)
LATE_WORDS = "– instead of a rate: all requests ended after the measured time, so there is no rate; measure for longer"


@dataclass(frozen=True)
class Cell:
    """One point of the characterization graph."""

    run: int
    address: str
    operation: str
    request_bytes: int
    row: Totals
    fills_caches: bool = False
    """Its rate may be that of a cache, and then does not last (`cached`)."""

    @property
    def mark(self) -> str:
        """What stands beside its figures."""
        return FILLS if self.fills_caches and self.row.is_rated else ""


@dataclass(frozen=True)
class RankedCell:
    """A cell with its shares of the best cell of the same pattern and operation."""

    cell: Cell
    iops_share: float | None
    throughput_share: float | None


def pattern_words(records: Sequence[Record], ranked: Iterable[RankedCell]) -> str:
    """Of the cells of one pattern of a characterization: nothing of the writes of another stands beside its reads."""
    runs = {item.cell.run for item in ranked}
    return workload_words([record for record in records if record.info.id in runs], "cell")


def latency_name(patterns: Mapping[tuple[str, str], Sequence[RankedCell]]) -> str:
    """Which time the latencies of cells are; a tool may report no other than the service time."""
    rows = [item.cell.row for ranked in patterns.values() for item in ranked]
    return "service time" if any(row.latency is not row.response for row in rows) else "response time"


def cell_of(record: Record) -> Cell | None:
    """The cell that a run measured."""
    asked = asked_cell(record)
    if asked is None:
        return None
    rows = [row for row in totals(record) if row.operation == asked[1]]
    return Cell(record.info.id, *asked, rows[0], doubt(record) is not None) if rows else None


def characterization(records: Iterable[Record]) -> dict[tuple[str, str], list[RankedCell]]:
    """Cells by (address, operation), each list in the order of request sizes; patterns without a cell are absent.

    A run that did not end validly is no cell: what it had measured until then is no answer to the question.
    """
    finished = (record for record in records if record.info.is_valid)
    cells = [cell for record in finished if (cell := cell_of(record)) is not None]
    found = {}
    for pattern in PATTERNS:
        # Where a size was measured more than once, the latest run speaks.
        latest = {c.request_bytes: c for c in cells if (c.address, c.operation) == pattern}
        if latest:
            found[pattern] = ranked([latest[size] for size in sorted(latest)])
    return found


def ranked(cells: list[Cell]) -> list[RankedCell]:
    iops = shares_of_best([cell.row.iops for cell in cells])
    throughput = shares_of_best([cell.row.bytes_per_s for cell in cells])
    return [
        RankedCell(cell, *(shares if cell.row.is_rated else (None, None)))
        for cell, *shares in zip(cells, iops, throughput, strict=True)
    ]


def footnotes(cells: Iterable[RankedCell]) -> list[str]:
    """What the marks beside figures mean."""
    found = list(cells)
    return [
        *([FILLS_WORDS] if any(item.cell.fills_caches for item in found) else []),
        *([LATE_WORDS] if any(not item.cell.row.is_rated for item in found) else []),
    ]


def is_graph(patterns: dict[tuple[str, str], list[RankedCell]]) -> bool:
    """Whether there is a curve to draw: at least two sizes of one pattern."""
    return any(len(cells) > 1 for cells in patterns.values())

"""Duty: what all streams and operations of a phase did together, as rows of their own in the tables of a run.

Refusal: no formula of its own: rates are those of the run's closing line, times those of all requests that somebody
waits for, as lists of runs show both. A phase that has a ramp with a limit has a table of its steps instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from brickyard.analysis.figures.cells import DASH, latency_cells, part_words
from brickyard.analysis.figures.cells import errors as error_cell
from brickyard.analysis.figures.latency import Latency
from brickyard.analysis.figures.named import FIGURES, measured_of
from brickyard.analysis.figures.ramp import ramp_limit
from brickyard.analysis.figures.ramp_result import closing_rates
from brickyard.analysis.figures.sending import length_told
from brickyard.analysis.figures.totals import Totals, full_stream_name, phase_name, rated_rows, waited
from brickyard.store import Record
from brickyard.units import format_count, format_iops, format_mib_per_s

EVERY = "all"


@dataclass(frozen=True)
class AllRow:
    """A phase's row, of rates or, with `times`, of response times. `stream_name` and `operation` are the only ones, or
    `all`."""

    phase: int
    phase_name: str
    stream_name: str
    full_stream: str
    """With the name of the phase, as `full_stream_name` has it."""
    operation: str
    over: str
    requests: int = 0
    errors: int | None = 0
    iops: float | None = None
    bytes_per_s: float | None = None
    times: Latency | None = None

    @property
    def figures(self) -> list[str]:
        """Cells: of rates requests, IOPS, MiB/s, two that only one stream has, errors; of times those of a latency."""
        if self.times is not None:
            return latency_cells(self.times)
        iops = DASH if self.iops is None else format_iops(self.iops)
        moved = DASH if self.bytes_per_s is None else format_mib_per_s(self.bytes_per_s)
        return [format_count(self.requests), iops, moved, DASH, DASH, error_cell(self.errors)]


def all_rates(record: Record, rows: Sequence[Totals]) -> list[AllRow]:
    """One for each phase of which IOPS counts several rows."""
    several, found = _of_several(record, rated_rows(rows)), []
    of_phase = {rate.phase: rate for rate in closing_rates(record)} if several else {}
    for phase, own in several.items():
        rate, requests = of_phase[phase], sum(row.requests for row in own)
        row = replace(_row(record, phase, own), requests=requests, errors=rate.errors)
        found.append(replace(row, iops=rate.iops, bytes_per_s=rate.bytes_per_s) if rate.is_rated else row)
    return found


def all_times(record: Record, rows: Sequence[Totals]) -> list[AllRow]:
    """One for each phase in which the response times of several rows count, and none of them tells its length."""
    found = []
    several = _of_several(record, [row for row in waited(record, rows) if row.response])
    lengths = length_told(record) if several else {}
    for phase, own in several.items():
        of_phase = (row for row in rows if row.phase == phase)
        (item,) = measured_of(record, of_phase, FIGURES["response_p99"], lengths=lengths)
        if item.times is not None:
            found.append(replace(_row(record, phase, own), times=item.times))
    return found


def _of_several(record: Record, rows: Sequence[Totals]) -> dict[int, list[Totals]]:
    found: dict[int, list[Totals]] = {}
    for row in rows:
        if row.requests or row.errors:
            found.setdefault(row.phase, []).append(row)
    return {phase: own for phase, own in found.items() if len(own) > 1 and ramp_limit(record, phase) is None}


def _row(record: Record, phase: int, own: Sequence[Totals]) -> AllRow:
    name = phase_name(record, phase)
    streams, operations = {row.stream for row in own}, {row.operation for row in own}
    many = len(record.info.plan.phase) > 1
    return AllRow(
        phase,
        name,
        own[0].stream_name if len(streams) == 1 else EVERY,
        full_stream_name(record, phase, own[0].stream) if len(streams) == 1 else f"{name} / {EVERY}" if many else EVERY,
        own[0].operation if len(operations) == 1 else EVERY,
        part_words(own[0]),
    )

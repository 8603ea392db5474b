"""Duty: what each target of a run did, and all of them together, in the columns of xdd's summary.

Refusal: latencies of targets are merged, never averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.analysis.databases.replay_runs import is_replay
from brickyard.analysis.figures import cells
from brickyard.analysis.figures.latency import as_one
from brickyard.analysis.figures.totals import (
    UNKNOWN_TARGET,
    Totals,
    asked_phase,
    errors_of,
    rate_of,
    rated_intervals,
    rated_rows,
    target_of,
    totals,
    waited,
)
from brickyard.schema import in_flight_total, is_request, is_timed
from brickyard.schema.plan import OtherStream, Stream
from brickyard.store import Record
from brickyard.units import (
    format_count,
    format_iops,
    format_mib_per_s,
    format_ns,
    format_percent,
    three_digits,
)

COLUMNS = ("target", "queue", "bytes", "ops", "elapsed", "MiB/s", "IOPS", "latency", "% CPU", "errors")


@dataclass(frozen=True)
class TargetRow:
    """One target in one phase; `target` is empty for all of them together. The share of CPU is the process's."""

    phase: str
    target: str
    queue: int
    bytes: int
    requests: int
    errors: int | None
    """None where it is not known."""
    elapsed_ns: int
    bytes_per_s: float
    iops: float
    mean_ns: float | None
    cpu_share: float | None


def target_rows(record: Record) -> list[TargetRow]:
    """Where a run has several targets: for each phase a row a target, then their sum; none of a phase where it is not
    known which stream was on which."""
    if len(record.info.targets) < 2 or is_replay(record):  # whose tables tell its databases apart themselves
        return []
    rows = [row for row in totals(record) if is_timed(row.operation)]
    found: list[TargetRow] = []
    for phase in sorted({row.phase for row in rows}):
        asked = asked_phase(record, phase)
        streams: Sequence[Stream | OtherStream] = asked.stream if asked else ()
        of = [target_of(record, stream) for stream in streams]
        if UNKNOWN_TARGET in of:
            continue
        queues = {
            target: sum(in_flight_total(s) for s, own in zip(streams, of, strict=True) if own == target)
            for target in set(of)
        }
        own = [row for row in rows if row.phase == phase]
        counted = {row.operation for row in rated_rows(own)}
        for target in sorted(queues):
            name = record.info.targets[target]
            mine = [row for row in own if row.stream < len(of) and of[row.stream] == target]
            if mine:
                found.append(_row(record, phase, name, queues[target], mine, counted, None))
        found.append(_row(record, phase, "", sum(queues.values()), own, counted, _cpu_share(record, phase)))
    return found


def _row(
    record: Record, phase: int, name: str, queue: int, rows: list[Totals], counted: set[str], cpu: float | None
) -> TargetRow:
    figures = as_one(row.service for row in waited(record, rows) if row.service)
    rows = [row for row in rows if is_request(row.operation)]
    rate = rate_of(row for row in rows if row.operation in counted)
    return TargetRow(
        phase=rows[0].phase_name,
        target=name,
        queue=queue,
        # All that ended, as in the totals; what ended in the drain is in these counts and in no rate.
        bytes=sum(row.bytes for row in rows),
        requests=sum(row.requests for row in rows),
        errors=errors_of(rows),
        elapsed_ns=rate.over_ns
        if rate
        else sum(span.end_ns - span.start_ns for span in rated_intervals(record, phase)),
        bytes_per_s=rate.bytes_per_s if rate else 0.0,
        iops=rate.iops if rate else 0.0,
        mean_ns=figures.mean_ns if figures else None,
        cpu_share=cpu,
    )


def _cpu_share(record: Record, phase: int) -> float | None:
    spans = rated_intervals(record, phase)
    elapsed_ns = sum(span.end_ns - span.start_ns for span in spans)
    used_ns = sum(span.cpu_user_ns + span.cpu_system_ns for span in spans)
    return used_ns / elapsed_ns if elapsed_ns and used_ns else None


def row_cells(found: list[TargetRow]) -> list[list[str]]:
    """Rows for `COLUMNS`."""
    return [
        [
            row.target or "all",
            format_count(row.queue) if row.queue else cells.DASH,  # another tool's result does not always have it
            format_count(row.bytes),
            format_count(row.requests),
            f"{three_digits(row.elapsed_ns / 1e9)} s",
            format_mib_per_s(row.bytes_per_s),
            format_iops(row.iops),
            format_ns(row.mean_ns),
            "" if row.cpu_share is None else format_percent(row.cpu_share),
            cells.errors(row.errors),
        ]
        for row in found
    ]

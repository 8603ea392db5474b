"""Duty: how much of what was due programs did not begin in time, where they do not count all of it.

pgbench counts none: at the end of its time it drops what is due, and with a number of transactions it begins all of
them, later and later. A driver of a replay counts what it has read of its log, which it reads only so far ahead.

Refusal: knows no stream of a profile; the engine counts what these leave.
"""

from __future__ import annotations

import math

from brickyard.analysis.figures.offered_share import offered, replay_rate
from brickyard.analysis.figures.search import CHANCE_DEVIATIONS
from brickyard.analysis.figures.totals import asked_phase
from brickyard.schema import PhaseEnd, PhaseReason
from brickyard.schema.plan import OtherPlan, PgbenchAsked
from brickyard.store import Record


def pgbench_asked(record: Record) -> PgbenchAsked | None:
    plan = record.info.plan
    return plan.pgbench if isinstance(plan, OtherPlan) else None


def pgbench_rate(record: Record) -> float | None:
    """Transactions/s that pgbench was to begin; None of other runs, and of a closed loop."""
    asked = pgbench_asked(record)
    return asked.rate_per_s if asked is not None else None


def begins_all(record: Record, end: PhaseEnd) -> bool:
    """Whether the run went on until all its transactions had been begun, however late."""
    return pgbench_rate(record) is not None and end.reason is PhaseReason.REQUESTS


def not_begun(record: Record, end: PhaseEnd, begun: int) -> int:
    """Transactions of a phase that were due and had not been begun in the time in which they were due; 0 where chance
    explains it, as pgbench draws Poisson arrivals. `begun` are those that ended or failed."""
    rate, asked = pgbench_rate(record), asked_phase(record, end.phase)
    if rate is None or asked is None:
        return 0
    lasted_ns = min(end.end_ns, asked.duration.ns) if asked.duration is not None else end.end_ns
    due = rate * lasted_ns / 1e9
    left = due - begun
    if not due or left <= CHANCE_DEVIATIONS * math.sqrt(due):
        return 0
    # All were begun over a longer time than that in which they were due: of these, the same share was late.
    return round(left / due * begun) if begins_all(record, end) else round(left)


def not_read(record: Record, end: PhaseEnd, begun: int) -> int:
    """Calls that were due within the time of a replay at a rate and were not sent, by that rate; 0 where the log may
    have had no more."""
    rate, asked = replay_rate(record), asked_phase(record, end.phase)
    if rate is None or asked is None or asked.duration is None or end.reason is not PhaseReason.DURATION:
        return 0
    return max(0, round(rate * offered(record).share * min(end.end_ns, asked.duration.ns) / 1e9) - begun)

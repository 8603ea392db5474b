"""Duty: what simulated database servers did in a run, as SQLIOSim and Jetstress report it, and Jetstress's verdict.

Refusal: no layout; figures are of the phase in which users work, not of the checks after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from brickyard.analysis.figures.totals import (
    Totals,
    errors_of,
    full_stream_name,
    profile_phase,
    rated_intervals,
    totals,
)
from brickyard.schema import is_request
from brickyard.schema.generated import ErrorEvent, HangEvent, PhaseEnd, ServerFileEnd
from brickyard.schema.plan import Checkpoint, LazyWriter, LogWriter, MailboxUser, Phase, Plan, Table
from brickyard.store import Record
from brickyard.units import format_counted

READ_MEAN_MOST_S, LOG_MEAN_MOST_S, MAXIMUM_MOST_S = 0.020, 0.010, 0.050
"""Jetstress prints them at its start: average and maximum of database reads and log writes."""
SHORT_SHARE = 0.01
"""As for every rate here: what is kept up with to 1 % is achieved."""
JUDGED_LEAST = 100
"""Requests that a mean is judged by at least: of fewer, one stall of 2 s decides about a limit of 20 ms."""
Kinds = tuple[type, ...]
USERS: Kinds = (MailboxUser,)
WRITERS: Kinds = (LazyWriter, Checkpoint)
LOG_WRITERS: Kinds = (LogWriter,)


def test_files(record: Record) -> list[ServerFileEnd]:
    """Every file of the phase in which users worked; the phases after it only write and check."""
    for end in record.of(PhaseEnd):
        if end.server_files:
            return list(end.server_files)
    return []


def warnings_of_15_s(record: Record) -> int:
    """Requests that took 15 s or more, those that never ended among them."""
    ended = sum(file.warnings for end in record.of(PhaseEnd) for file in end.server_files)
    unended = sum(end.outstanding for end in record.of(PhaseEnd)) if record.of(HangEvent) else 0
    return ended + unended


def damage_lines(record: Record, most: int = 10) -> list[str]:
    """Each damaged block with the bytes that were written, those that were read, and where they differ."""
    lines = []
    for error in [error for error in record.of(ErrorEvent) if error.dump is not None][:most]:
        dump = error.dump
        assert dump is not None
        lines += [
            f"{full_stream_name(record, error.phase, error.stream)}: {error.text}",
            f"  {dump.differing_bytes} of {dump.block_bytes} bytes differ, the first is byte {dump.at_byte}",
            f"  written {dump.written}",
            f"  read    {dump.read}",
            f"  differ  {dump.differing}",
        ]
    return lines


@dataclass(frozen=True)
class Jetstress:
    """One database in Jetstress's terms: rates a second, mean times in seconds; None where nothing was measured."""

    db_reads_per_s: float
    db_writes_per_s: float
    log_writes_per_s: float
    db_read_s: float | None
    db_write_s: float | None
    log_write_s: float | None
    db_read_max_s: float | None
    log_write_max_s: float | None
    asked_iops: float
    mailboxes: int
    mailbox_iops: float
    threads: int
    failures: tuple[str, ...]

    @property
    def achieved_iops(self) -> float:
        return self.db_reads_per_s + self.db_writes_per_s

    @property
    def passed(self) -> bool:
        return not self.failures

    def supportable(self, iops_each: float) -> int:
        """Mailboxes that so many requests a second are enough for; none where a limit was broken."""
        return int(self.achieved_iops / iops_each) if self.passed else 0


def jetstress(record: Record) -> Jetstress | None:
    """Of the phase in which mailboxes' threads work."""
    for phase in range(len(record.info.plan.phase)):
        plan = profile_phase(record, phase)
        users = [s.program for s in plan.stream if isinstance(s.program, MailboxUser)] if plan else []
        if plan and users:
            return _jetstress(record, phase, plan, users[0])
    return None


def server_failures(record: Record) -> tuple[str, ...]:
    """Why SQLIOSim or Jetstress failed, a line each; nothing where they passed, or where another load ran."""
    plan = record.info.plan
    if not isinstance(plan, Plan) or plan.table not in (Table.JETSTRESS, Table.SQLIOSIM):
        return ()
    if plan.table is Table.JETSTRESS and (found := jetstress(record)):
        return tuple(f"Jetstress failed: {line}" for line in found.failures)
    return tuple(f"SQLIOSim failed: {line}" for line in _damage(record))


def _damage(record: Record) -> list[str]:
    """Nothing where every request succeeded and every page was as it was written."""
    count = errors_of(row for row in totals(record) if is_request(row.operation))
    return [f"{format_counted(count, 'requests')} failed or returned damaged pages"] if count else []


def _jetstress(record: Record, phase: int, plan: Phase, program: MailboxUser) -> Jetstress | None:
    rows = [row for row in totals(record) if row.phase == phase]

    def chosen(kinds: Kinds, operation: str) -> list[Totals]:
        return [r for r in rows if isinstance(plan.stream[r.stream].program, kinds) and r.operation == operation]

    reads, writes = chosen(USERS, "read"), chosen(WRITERS, "write")
    logs = chosen(LOG_WRITERS, "write")
    if not any(row.is_rated for row in rows):
        return None
    read_s, log_s = _mean_s(reads), _mean_s(logs)
    read_max_s = _max_mean_s(record, phase, plan, USERS, "read")
    log_max_s = _max_mean_s(record, phase, plan, LOG_WRITERS, "write")
    limits = (
        ("mean database read", read_s, READ_MEAN_MOST_S),
        ("mean log write", log_s, LOG_MEAN_MOST_S),
        ("longest sample of database reads", read_max_s, MAXIMUM_MOST_S),
        ("longest sample of log writes", log_max_s, MAXIMUM_MOST_S),
    )
    failures = [
        f"{name} {found * 1e3:.1f} ms, limit {most * 1e3:.0f} ms"
        for name, found, most in limits
        if found is not None and found > most
    ]
    counted = (limits[0][0], _count(reads)), (limits[1][0], _count(logs))
    failures += [
        f"{name}: not measured, {count} requests are too few ({JUDGED_LEAST} are needed)"
        for name, count in counted
        if count < JUDGED_LEAST
    ]
    if not sum(row.requests for row in writes):
        failures.append("no database page was written: the cache holds all changed pages, so use a larger database")
    failures += _damage(record)
    if record.info.outcome != "done":
        failures.append("the run did not end normally")
    mailboxes, each = program.mailboxes, program.mailbox_iops
    made = Jetstress(
        db_reads_per_s=sum(row.iops for row in reads),
        db_writes_per_s=sum(row.iops for row in writes),
        log_writes_per_s=sum(row.iops for row in logs),
        db_read_s=read_s,
        db_write_s=_mean_s(writes),
        log_write_s=log_s,
        db_read_max_s=read_max_s,
        log_write_max_s=log_max_s,
        asked_iops=mailboxes * each,
        mailboxes=mailboxes,
        mailbox_iops=each,
        threads=sum(stream.workers for stream in plan.stream if isinstance(stream.program, USERS)),
        failures=tuple(failures),
    )
    if made.achieved_iops < made.asked_iops * (1 - SHORT_SHARE):
        short = f"{made.achieved_iops:.1f} IOPS achieved, {made.asked_iops:.1f} required"
        made = replace(made, failures=(*made.failures, short))
    return made


def _count(rows: list[Totals]) -> int:
    return sum(row.requests for row in rows if row.service)


def _mean_s(rows: list[Totals]) -> float | None:
    parts = [(row.requests, row.service.mean_ns) for row in rows if row.service]
    count = sum(requests for requests, _ in parts)
    return sum(requests * mean for requests, mean in parts) / count / 1e9 if count else None


def _max_mean_s(record: Record, phase: int, plan: Phase, kinds: Kinds, operation: str) -> float | None:
    """The longest mean of an interval. Jetstress's maximum is of its samples too, and not of single requests."""
    rated = {cost.start_ns for cost in rated_intervals(record, phase)}
    means = [
        item.mean_ns
        for item in record.intervals
        if item.phase == phase
        and item.measure == "service"
        and item.operation == operation
        and item.requests
        and item.start_ns in rated
        and isinstance(plan.stream[item.stream].program, kinds)
    ]
    return max(means) / 1e9 if means else None

"""Duty: whether a generator had a CPU when it wanted one: how long it waited, and whether other processes were on them.

Refusal: only of a run whose requests this process made; drivers, fio and servers are processes of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.schema import Engine, PhaseEnd, Start, Unit, WatchSheet
from brickyard.schema.plan import OpenPace, OtherPlan, Plan
from brickyard.schema.warning import Value, wording_of
from brickyard.store import Record

BUSY_SHARE_MAX = 0.85
OTHERS_SHARE_MAX = 0.2
"""Where the CPUs are this busy and others have this part of them, a thread that wants to run often waits for one."""
CROWDED = "the CPUs were {busy} busy; other processes took {others}"
CPU_WAITED = "cpu_waited"
CPU_SHARED = "cpu_shared"
CPU_FULL = "cpu_full"
CPU_WAIT_SHARE = 0.1
"""Our choice: with waits of this part of the time, neither a rate nor a latency is that of the storage alone."""


def waited(end: PhaseEnd) -> bool:
    """Whether a phase's figures depend on how long the generator waited for a CPU, and not on its own work."""
    return (end.cpu_wait_share or 0.0) >= CPU_WAIT_SHARE and not end.generator_bound


BUSY_LOOPS_SHARE = 0.9
"""Our choice: storage that answered at once could not make loops faster by more than a ninth that waited for it in a
tenth of their time."""
JUDGED_NS = 100_000_000  # CPU time is counted in ticks of up to 10 ms


def is_busy(record: Record, end: PhaseEnd) -> bool:
    """Whether the threads of a phase hardly waited for the storage: they were on a CPU, in their own work or in the
    kernel's, or for a short time waited for one. Not known of other programs, of open loops, whose rate the profile
    sets, and where something took the CPUs."""
    start = record.info.start
    is_own = start is not None and start.engine in (Engine.IO_URING, Engine.PSYNC)
    if not is_own or not end.loops or waited(end) or _has_open_loop(record):
        return False
    costs = [cost for cost in record.costs if cost.phase == end.phase and not cost.drain]
    lasted_ns = sum(cost.end_ns - cost.start_ns for cost in costs)
    on_cpu_ns = sum(cost.cpu_user_ns + cost.cpu_system_ns for cost in costs)
    if lasted_ns < JUDGED_NS:
        return False
    return on_cpu_ns / (lasted_ns * end.loops) + (end.cpu_wait_share or 0.0) >= BUSY_LOOPS_SHARE


def _has_open_loop(record: Record) -> bool:
    plan = record.info.plan
    streams = [stream for phase in plan.phase for stream in phase.stream] if isinstance(plan, Plan) else []
    return any(isinstance(stream.pace, OpenPace) for stream in streams)


def is_limit(record: Record, end: PhaseEnd) -> bool:
    """Whether the generator, or the processor that it ran on, may have been the limit of a phase."""
    return end.generator_bound or is_busy(record, end)


def full_host(plan: Plan | OtherPlan | None, watches: Sequence[WatchSheet]) -> float | None:
    """How busy the CPUs were during a run of databases, where it was nearly all of the time; else None. The server,
    pgbench and drivers are processes of their own: whose time it was, and whether they waited for more, nobody
    counted."""
    if not isinstance(plan, OtherPlan):
        return None
    busy = max((watch.cpu.busy_share or 0.0 for watch in watches if watch.cpu and watch.cpu.each), default=0.0)
    return busy if busy > BUSY_SHARE_MAX else None


def is_host_full(record: Record) -> bool:
    watches = [watch for watch in record.info.watch.targets if watch]
    return full_host(record.info.plan, watches) is not None


def wait_share(ends: Sequence[PhaseEnd]) -> float | None:
    """The longest wait for a CPU of a phase; None where those of some phase were not counted."""
    counted = [end.cpu_wait_share for end in ends if end.cpu_wait_share is not None]
    return max(counted) if counted and len(counted) == len(ends) else None


@dataclass(frozen=True)
class Crowding:
    """Shares of the time of all CPUs."""

    busy: float
    others: float

    @property
    def values(self) -> dict[str, Value]:
        return {"busy": Unit.SHARE.of(self.busy), "others": Unit.SHARE.of(self.others)}

    @property
    def words(self) -> str:
        return wording_of(CROWDED, also=self.values).words()


def crowding(start: Start | None, watch: WatchSheet) -> Crowding | None:
    """None where the CPUs had time for the run, or nobody looked."""
    if start is None or start.engine not in (Engine.IO_URING, Engine.PSYNC):
        return None
    cpu, own = watch.cpu, watch.process
    if own is None or cpu is None or not cpu.each or not watch.duration_ns:
        return None
    busy = cpu.busy_share or 0.0
    others = busy - (own.user_ns + own.system_ns) / watch.duration_ns / len(cpu.each)
    return Crowding(busy, others) if busy > BUSY_SHARE_MAX and others > OTHERS_SHARE_MAX else None

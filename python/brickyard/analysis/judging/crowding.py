"""Duty: whether a generator had a CPU when it wanted one: how long it waited, and whether other processes were on them.

Refusal: only of a run whose requests this process made; drivers, fio and servers are processes of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.schema import Engine, PhaseEnd, Start, Unit, WatchSheet
from brickyard.schema.warning import Value, wording_of

BUSY_SHARE_MAX = 0.85
OTHERS_SHARE_MAX = 0.2
"""Where the CPUs are this busy and others have this part of them, a thread that wants to run often waits for one."""
CROWDED = "the CPUs were {busy} busy, {others} with other processes"
CPU_WAITED = "cpu_waited"
CPU_SHARED = "cpu_shared"
CPU_WAIT_SHARE = 0.1
"""Our choice: with waits of this part of the time, neither a rate nor a latency is that of the storage alone."""


def waited(end: PhaseEnd) -> bool:
    """Whether a phase's figures depend on how long the generator waited for a CPU, and not on its own work."""
    return (end.cpu_wait_share or 0.0) >= CPU_WAIT_SHARE and not end.generator_bound


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

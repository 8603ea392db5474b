"""Duty: whether other processes kept the CPUs busy beside a run, so that its requests may have waited for one.

Refusal: only of a run whose requests this process made; drivers, fio and servers are processes of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from brickyard.schema import Engine, Start, Unit, WatchSheet
from brickyard.schema.warning import Value, wording_of

BUSY_SHARE_MAX = 0.85
OTHERS_SHARE_MAX = 0.2
"""Where the CPUs are this busy and others have this part of them, a thread that wants to run often waits for one."""
CROWDED = "the CPUs were {busy} busy, {others} with other processes"


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

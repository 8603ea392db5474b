"""Duty: how much CPU time the hypervisor took away, where it is more than the clock's rounding. Refusal: no causes."""

from __future__ import annotations

from brickyard.schema.watch_sheet import CpuSheet

# One tick may be no more than the rounding of two readings, and is 1 % of a second.
TICKS_MIN = 3


def stolen_shares(cpu: CpuSheet | None) -> tuple[float, float]:
    """Of the time of all CPUs, and of the CPU that lost most; 0 where it lost fewer than three ticks."""
    if cpu is None or (isinstance(cpu.worst_steal_ticks, int) and cpu.worst_steal_ticks < TICKS_MIN):
        return 0.0, 0.0
    return cpu.steal_share or 0.0, cpu.worst_steal_share or 0.0

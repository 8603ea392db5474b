"""Duty: what of a fixed or Poisson rate the drivers of a replay offered: each has a part of it, and may have no calls.

Refusal: how much of that was sent is `sending`'s.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from msgspec import UnsetType

from brickyard.schema import Drivers, PhaseEnd, ReplayDriver
from brickyard.schema.plan import OtherPlan
from brickyard.store import Record


def replay_rate(record: Record) -> float | None:
    """Calls/s that a replay was to send; None at any other pace, and of other runs."""
    plan = record.info.plan
    return plan.replay.pace.rate_per_s if isinstance(plan, OtherPlan) and plan.replay is not None else None


def driver_ends(record: Record) -> list[ReplayDriver]:
    """What each driver said at its end."""
    return [driver for end in record.of(PhaseEnd) if end.replay for driver in end.replay.drivers]


@dataclass(frozen=True)
class Offered:
    """What of a rate was offered: each driver has an even part of it, and offers it while it has calls."""

    share: float = 1.0
    idle: tuple[int, ...] = ()
    """Drivers without any call."""
    early: tuple[int, ...] = ()
    """Drivers whose calls ended more than an interval before those of the others."""


def offered(record: Record) -> Offered:
    """Of a fixed or Poisson rate, by the time that each driver sent calls and its part of the rate; all of any other
    pace."""
    told = driver_ends(record)
    if replay_rate(record) is None or len(told) < 2:
        return Offered()
    idle = tuple(end.driver for end in told if not end.calls + end.errors + sum(end.unsent_by_brick))
    spans: Counter[int] = Counter()
    lengths: Counter[int] = Counter()
    for event in record.of(Drivers):
        for share in event.drivers:
            if share.driver not in idle and not share.drain:
                spans[share.driver] += event.end_ns - event.start_ns
                lengths[share.driver] = max(lengths[share.driver], event.end_ns - event.start_ns)
    longest_ns = max(spans.values(), default=0)
    parts = _rate_parts(record, len(told))
    if not longest_ns:
        return Offered(share=1 - sum(parts[driver] for driver in idle), idle=idle)
    early = tuple(driver for driver, span_ns in sorted(spans.items()) if longest_ns - span_ns > lengths[driver])
    counted = [parts[driver] * (longest_ns if driver not in early else span_ns) for driver, span_ns in spans.items()]
    return Offered(sum(counted) / longest_ns, idle, early)


def _rate_parts(record: Record, drivers: int) -> list[float]:
    """Each driver's part of a rate; equal ones in stores from before it was kept."""
    parts = record.info.asked.rate_parts
    return [1 / drivers] * drivers if isinstance(parts, UnsetType) else parts

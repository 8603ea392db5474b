"""Duty: how long a load would have to last to show what a model of this class may have: credits, or a cache that fills.

Refusal: it measures nothing, and knows no product: sizes are the largest that are usual, so shorter may do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.advise.fitting.model import Model, both, deep, read, sequential, small, write
from brickyard.advise.fitting.seen import Seen
from brickyard.units import format_size

CREDITS = 5_400_000  # of a gp2 volume, full at the start (EBS user guide)
CONTROLLER_BYTES = 8 << 30  # what RAID controllers of the 2020s have at the most
SLC_SHARE = 1 / 3  # cells that take three bits, used for one each
ROUND_S = (10, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200, 14_400, 28_800, 86_400)


@dataclass(frozen=True)
class Hint:
    """A load of `grid.LONG`, and for how long."""

    load: str
    seconds: int
    why: str

    @property
    def option(self) -> str:
        return f"--long {span(self.seconds)} --long-load {self.load}"


def span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:g}s"
    return f"{seconds / 60:g}m" if seconds < 7200 else f"{seconds / 3600:g}h"


def hint(model: Model, loads: Sequence[Seen], capacity_bytes: int) -> Hint | None:
    """None where a fall was seen, or where nothing of the class could fall."""
    if any(s.step for s in loads):
        return None
    if model.kind == "cloud":
        rate = max((s.iops for s in loads if deep(s) and small(s)), default=0.0)
        return _hint("random-reads", CREDITS, rate, "credits of gp2's kind (5.4 million) would be spent")
    if model.kind == "ssd" and model.said.write_cache:
        rate = max((s.bytes_per_s for s in loads if both(write, sequential)(s)), default=0.0)
        room = capacity_bytes * SLC_SHARE
        return _hint(
            "sequential-writes", room, rate, f"an SLC cache of a third, {format_size(round(room))}, would be full"
        )
    if model.said.write_back:
        rate = max((s.bytes_per_s for s in loads if both(write, deep, small)(s)), default=0.0)
        why = f"a controller's {format_size(CONTROLLER_BYTES)} would be full"
        return _hint("random-writes", CONTROLLER_BYTES, rate, why)
    return None


def _hint(load: str, room: float, rate: float, why: str) -> Hint | None:
    if rate <= 0:
        return None
    needed_s = room / rate * 1.2
    seconds = next((s for s in ROUND_S if s >= needed_s), ROUND_S[-1])
    return Hint(load, seconds, f"at the measured rate {why} after {span(round(room / rate))}")


def unspent(loads: Sequence[Seen]) -> str:
    """What the longest of the loads did without a fall."""
    steady = [s for s in loads if not s.parts]
    longest = max(steady, key=lambda s: s.iops * s.seconds, default=None)
    if longest is None:
        return ""
    done = longest.iops * longest.seconds
    what = f"{done:,.0f} reads" if read(longest) else f"{format_size(round(done * longest.request_bytes))} of writes"
    return f"no fall in {what} ({longest.label})"

"""Duty: the highest rates that modelled storage can have by what is known of it for certain: what a volume is sold
with, what the links to drives carry, and what a controller's bus does.

An interval that is made of other products' errors knows nothing of such a cap, so it ends there (`spread.Spread.ends`).

Refusal: nothing that is fitted, and no cap of what a cache above it may answer by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from brickyard.bricks.resolved import CloudVolume, FlashDrive, ModelledBrick, ModelledDrive
from brickyard.schema.operations import writes
from brickyard.schema.plan import (
    IoMode,
    MixedAddress,
    Plan,
    RunsAddress,
    SequentialAddress,
    StepWord,
    Stream,
    StridedAddress,
)
from brickyard.units import MB

CONTIGUOUS = (SequentialAddress, MixedAddress, RunsAddress, StridedAddress)
"""Providers merge requests that follow one another, and count them as one."""


@dataclass(frozen=True)
class Caps:
    """None where no cap is known."""

    requests_per_s: float | None = None
    bytes_per_s: float | None = None


NO_CAPS = Caps()


def caps_of(brick: ModelledBrick, plan: Plan) -> Caps:
    """Of what a plan asks of a brick. Buffered requests may be answered by memory."""
    streams = [stream for phase in plan.phase for stream in phase.stream]
    if plan.io is IoMode.BUFFERED or any(stream.program for stream in streams):
        return NO_CAPS
    ways = sum((any(map(writes, streams)), any(map(_reads, streams))))
    bytes_per_s = _least(_sum(brick, lambda drive: _link(brick, drive, ways)), _bus(brick))
    requests_per_s = _sum(brick, lambda drive: _sold(drive, streams))
    sizes = [part.size for stream in streams for part in stream.request]
    if not sizes or any(map(_moves_nothing, streams)):
        return Caps(None, bytes_per_s)
    return Caps(
        _least(requests_per_s, None if bytes_per_s is None else bytes_per_s / min(sizes)),
        _least(bytes_per_s, None if requests_per_s is None else requests_per_s * max(sizes)),
    )


def _least(*rates: float | None) -> float | None:
    return min((rate for rate in rates if rate is not None), default=None)


def _reads(stream: Stream) -> bool:
    return stream.operations.read > 0 or StepWord.READ in stream.chain


def _moves_nothing(stream: Stream) -> bool:
    """Whether there are requests of which no provider counts any: flushes and discards."""
    asked = stream.operations
    return bool(asked.flush or asked.trim or stream.flush_every is not None or stream.chain)


def _sum(brick: ModelledBrick, rate: Callable[[ModelledDrive], float | None]) -> float | None:
    """Over all members; none where one of them has no cap."""
    other = brick.other_members if brick.other_drive is not None else 0
    of = [(brick.drive, brick.members - other), *([(brick.other_drive, other)] if brick.other_drive else [])]
    rates = [(rate(drive), count) for drive, count in of]
    return None if any(one is None for one, _ in rates) else sum((one or 0.0) * count for one, count in rates)


def _link(brick: ModelledBrick, drive: ModelledDrive, ways: int) -> float | None:
    """Bytes/s. A cache of the controller answers without the drive; links of flash move both ways but for SATA."""
    if isinstance(drive, CloudVolume):
        sold = _with_credits(drive.mb_per_s, drive.peak_mb_per_s, has_credits=drive.burst_bytes > drive.io_unit_bytes)
        return None if sold is None else (sold + drive.write_mb_per_s) * MB
    if brick.keeper is not None and brick.keeper.cache_bytes:
        return None
    both = ways if isinstance(drive, FlashDrive) and not drive.half_duplex else 1
    return drive.interface_mb_per_s * max(both, 1) * MB


def _sold(drive: ModelledDrive, streams: Sequence[Stream]) -> float | None:
    """Requests/s that a volume is sold with."""
    if not isinstance(drive, CloudVolume):
        return None
    merged = drive.merge_from_bytes and any(
        isinstance(stream.address, CONTIGUOUS) and any(part.size >= drive.merge_from_bytes for part in stream.request)
        for stream in streams
    )
    sold = _with_credits(drive.iops, drive.peak_iops, has_credits=drive.burst_ios > 1)
    return None if merged or sold is None else sold + drive.write_iops


def _with_credits(base: float, peak: float, *, has_credits: bool) -> float | None:
    """What lasts, or what credits allow; they may allow any rate."""
    if not has_credits:
        return base
    return max(base, peak) if peak else None


def _bus(brick: ModelledBrick) -> float | None:
    """Bytes/s of all controllers' buses together, which stand before their caches."""
    card = brick.controller
    return card.bus_mb_per_s * brick.controllers * MB if card is not None and card.bus_mb_per_s else None

"""Duty: the highest rates that modelled storage can have by what is known of it for certain: what a volume is sold
with, what the links to drives carry, and what a controller's bus does.

An interval that is made of other products' errors knows nothing of such a cap, so it ends there (`spread.Spread.ends`).

Refusal: nothing that is fitted, and no cap of what a cache above it may answer by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

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
    costs = [_Cost(_units(brick, stream, part.size), part.size) for stream in streams for part in stream.request]
    if not costs or any(map(_moves_nothing, streams)):
        return Caps(None, bytes_per_s)
    limits = _Cost(_or_any(_sum(brick, _sold)), _or_any(bytes_per_s))
    mixes = _mixes(costs, limits)
    return Caps(_most(sum(mix.values()) for mix in mixes), _most(sum(c.size * r for c, r in m.items()) for m in mixes))


@dataclass(frozen=True)
class _Cost:
    """What a request takes of what a provider counts, and its bytes; or what there is of both in a second."""

    units: float
    size: float


def _or_any(rate: float | None) -> float:
    return math.inf if rate is None else rate


def _most(rates: Iterable[float]) -> float | None:
    most = max(rates)
    return None if math.isinf(most) else most


def _mixes(costs: Sequence[_Cost], limits: _Cost) -> list[dict[_Cost, float]]:
    """Rates at the corners of what both limits let pass: one request's alone, or two requests' that use up both. Which
    share of a load each stream gets is not known beforehand, so the best for the figure counts."""
    found = [{cost: _least(limits.units / cost.units, limits.size / cost.size) or 0.0} for cost in costs]
    if math.isinf(limits.units) or math.isinf(limits.size):
        return found
    for one, other in combinations(set(costs), 2):
        of_both = one.units * other.size - other.units * one.size
        if of_both:
            ones = (limits.units * other.size - other.units * limits.size) / of_both
            others = (one.units * limits.size - limits.units * one.size) / of_both
            found += [{one: ones, other: others}] if min(ones, others) > 0 else []
    return found


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


def _sold(drive: ModelledDrive) -> float | None:
    """What a volume is sold with, of what its provider counts, in a second."""
    if not isinstance(drive, CloudVolume):
        return None
    sold = _with_credits(drive.iops, drive.peak_iops, has_credits=drive.burst_ios > 1)
    return None if sold is None else sold + drive.write_iops


def _units(brick: ModelledBrick, stream: Stream, size: int) -> float:
    """What a request counts for, at the least: the whole units that it fills, or a part of one that it is merged in."""
    volumes = [drive for drive in brick.drives if isinstance(drive, CloudVolume)]
    return min((_counted(volume, stream, size) for volume in volumes), default=1.0)


def _counted(volume: CloudVolume, stream: Stream, size: int) -> float:
    is_merged = volume.merge_from_bytes and size >= volume.merge_from_bytes and isinstance(stream.address, CONTIGUOUS)
    together = max(1, volume.io_unit_bytes // size) if is_merged else 1
    return max(1, math.ceil(size / volume.io_unit_bytes)) / together


def _with_credits(base: float, peak: float, *, has_credits: bool) -> float | None:
    """What lasts, or what credits allow; they may allow any rate."""
    if not has_credits:
        return base
    return max(base, peak) if peak else None


def _bus(brick: ModelledBrick) -> float | None:
    """Bytes/s of all controllers' buses together, which stand before their caches."""
    card = brick.controller
    return card.bus_mb_per_s * brick.controllers * MB if card is not None and card.bus_mb_per_s else None

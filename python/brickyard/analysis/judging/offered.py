"""Duty: the rate that a profile offers, as a required rate has it, and whether the storage answered all of it. What was
measured then is the profile's rate, give or take what is in flight at the ends, and not the storage's limit.

Refusal: says nothing of chains, frames, programs, traces and ramps, whose rates are not one number of the profile.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from brickyard.analysis.figures.sending import UNSENT_MIN, is_kept_up
from brickyard.analysis.figures.totals import Totals, profile_phase, profile_stream
from brickyard.rulers import Requirement
from brickyard.schema import PhaseEnd
from brickyard.schema.plan import Arrivals, Moves, OpenPace, Stream
from brickyard.store import Record
from brickyard.units import format_iops, format_mib_per_s


@dataclass(frozen=True)
class OfferedRate:
    """`per_s` is in the unit of the requirement: requests/s or bytes/s."""

    per_s: float
    is_all_sent: bool
    """But for the few that are due in the last moment of any phase."""
    words: str
    is_by_chance: bool
    """Whether arrivals or the mix are drawn: the mean is the profile's, and what a run was offered is what it drew."""


def offer(record: Record, rows: Sequence[Totals], requirement: Requirement) -> OfferedRate | None:
    """Of the streams of one phase that a required rate counts; None where one of them has no rate of its own."""
    per_s, is_by_chance = 0.0, False
    streams = {(row.phase, row.stream) for row in rows}
    for phase, number in streams:
        asked, stream = profile_phase(record, phase), profile_stream(record, phase, number)
        if asked is None or stream is None or asked.ramp is not None or not isinstance(stream.pace, OpenPace):
            return None
        if stream.chain or stream.frames or stream.program or stream.trace:
            return None
        counted = {row.operation for row in rows if row.stream == number}
        if not counted <= set(Moves):
            return None
        each = _each(stream, counted, in_bytes=requirement.figure == "throughput")
        per_s += stream.pace.rate * each
        is_by_chance |= _is_drawn(stream, counted, in_bytes=requirement.figure == "throughput")
    if not per_s:
        return None
    rate = f"{format_iops(per_s)}/s" if requirement.figure == "iops" else f"{format_mib_per_s(per_s)} MiB/s"
    return OfferedRate(per_s, _unsent(record, streams) < UNSENT_MIN, rate, is_by_chance)


def is_near(rate: float, offered: float) -> bool:
    """As near as a load that counts as kept up."""
    return is_kept_up(offered - rate, offered)


def _unsent(record: Record, streams: Collection[tuple[int, int]]) -> int:
    phases = {phase for phase, _ in streams}
    left = 0
    for end in record.of(PhaseEnd):
        if end.phase in phases:
            of_each = [told.unsent for told in end.unsent_by_stream if (end.phase, told.stream) in streams]
            left += sum(of_each) if end.unsent_by_stream else end.unsent
    return left


def _each(stream: Stream, counted: Collection[str], *, in_bytes: bool) -> float:
    """What a request of the stream is on average of what is counted: a share of a request, or bytes."""
    total = 0.0
    for operation in Moves:
        share = getattr(stream.operations, operation) / 100 if operation in counted else 0.0
        total += share * (_mean_bytes(stream, operation) if in_bytes else 1.0)
    return total


def _is_drawn(stream: Stream, counted: Collection[str], *, in_bytes: bool) -> bool:
    """Whether what a request counts for depends on what was drawn for it."""
    if isinstance(stream.pace, OpenPace) and stream.pace.arrivals is not Arrivals.CONSTANT:
        return True
    asked = [operation for operation in Moves if getattr(stream.operations, operation)]
    sizes = {size.size for size in stream.request if in_bytes and (size.of is None or size.of in counted)}
    return bool(set(asked) - set(counted)) or len(sizes) > 1


def _mean_bytes(stream: Stream, operation: Moves) -> float:
    own = [size for size in stream.request if size.of in (None, operation)]
    weight = sum(size.share for size in own)
    return sum(size.size * size.share for size in own) / weight if weight else 0.0

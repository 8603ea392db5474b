"""Duty: the rate that a profile offers, as a required rate has it, and whether the storage answered all of it. What was
measured then is the profile's rate, give or take what is in flight at the ends, and not the storage's limit. Likewise
the rate that the pauses of closed loops allow.

Refusal: says nothing of chains, frames, programs, traces and ramps, whose rates are not one number of the profile.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from brickyard.analysis.figures.hosts import fleet_of
from brickyard.analysis.figures.scheduled import pgbench_rate
from brickyard.analysis.figures.sending import UNSENT_MIN, is_kept_up, sent
from brickyard.analysis.figures.totals import Totals, asked_targets, profile_phase, profile_stream, stream_name
from brickyard.rulers import Requirement
from brickyard.schema import PhaseEnd, in_flight_total
from brickyard.schema.plan import Arrivals, ClosedPace, Moves, OpenPace, Stream
from brickyard.schema.request_sizes import asked_sizes
from brickyard.schema.warning import listed
from brickyard.store import Record
from brickyard.units import format_count, format_iops, format_mib_per_s, format_ns


@dataclass(frozen=True)
class OfferedRate:
    """`per_s` is in the unit of the requirement: requests/s or bytes/s."""

    per_s: float
    unsent: int
    words: str
    is_by_chance: bool
    """Whether arrivals or the mix are drawn: the mean is the profile's, and what a run was offered is what it drew."""

    @property
    def is_all_sent(self) -> bool:
        """But for the few that are due in the last moment of any phase."""
        return self.unsent < UNSENT_MIN


def offer(record: Record, rows: Sequence[Totals], requirement: Requirement) -> OfferedRate | None:
    """Of the streams of one phase that a required rate counts; None where one of them has no rate of its own."""
    if (of_program := pgbench_rate(record)) is not None and requirement.figure == "iops":
        unsent = sum(sent(record, phase).unsent for phase in {row.phase for row in rows})
        return OfferedRate(of_program, unsent, rate_words(of_program, requirement), is_by_chance=True)
    per_s, is_by_chance = 0.0, False
    streams = _streams(record, rows)
    for stream, counted in streams.values():
        if stream is None or not isinstance(stream.pace, OpenPace):
            return None
        each = _each(stream, counted, in_bytes=requirement.figure == "throughput")
        per_s += stream.pace.rate * each
        is_by_chance |= _is_drawn(stream, counted, in_bytes=requirement.figure == "throughput")
    if not per_s:
        return None
    rate = rate_words(per_s, requirement)
    return OfferedRate(per_s, _unsent(record, streams), rate, is_by_chance)


def rate_words(per_s: float, requirement: Requirement) -> str:
    return f"{format_iops(per_s)}/s" if requirement.figure == "iops" else f"{format_mib_per_s(per_s)} MiB/s"


@dataclass(frozen=True)
class AllowedRate:
    """The most that closed loops with pauses can do, where requests take no time at all."""

    per_s: float
    """In the unit of the requirement."""
    words: str
    """Each pause, and after how many requests in flight."""


def allowed(record: Record, rows: Sequence[Totals], requirement: Requirement) -> AllowedRate | None:
    """Of the streams of one phase that a required rate counts; None where one of them has no pauses, or may have more
    in flight than its plan tells, as on many hosts."""
    per_s, pauses = 0.0, list[str]()
    if fleet_of(record) is not None:
        return None
    for (phase, number), (stream, counted) in _streams(record, rows).items():
        if stream is None or not isinstance(stream.pace, ClosedPace) or not stream.think.ns:
            return None
        slots = in_flight_total(stream)
        per_s += slots / (stream.think.ns / 1e9) * _each(stream, counted, in_bytes=requirement.figure == "throughput")
        pause = f"{format_ns(stream.think.ns)} after each request, with up to {format_count(slots)} in flight"
        pauses.append(
            f"{pause} in {stream_name(record, phase, number)}" if len(asked_targets(record, phase)) > 1 else pause
        )
    return AllowedRate(per_s, listed(sorted(pauses))) if per_s else None


def _streams(record: Record, rows: Sequence[Totals]) -> dict[tuple[int, int], tuple[Stream | None, set[str]]]:
    """By phase and number, with the operations that are counted; None for one whose rate is not one of its profile."""
    found = dict[tuple[int, int], tuple[Stream | None, set[str]]]()
    for phase, number in {(row.phase, row.stream) for row in rows}:
        asked, stream = profile_phase(record, phase), profile_stream(record, phase, number)
        counted = {row.operation for row in rows if row.stream == number}
        is_simple = asked is not None and asked.ramp is None and counted <= set(Moves)
        if stream is not None and (stream.chain or stream.frames or stream.program or stream.trace):
            stream = None
        found[phase, number] = (stream if is_simple else None), counted
    return found


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
        asked = asked_sizes(stream, operation) if in_bytes and share else None
        total += share * ((asked.mean_bytes if asked else 0.0) if in_bytes else 1.0)
    return total


def _is_drawn(stream: Stream, counted: Collection[str], *, in_bytes: bool) -> bool:
    """Whether what a request counts for depends on what was drawn for it."""
    if isinstance(stream.pace, OpenPace) and stream.pace.arrivals is not Arrivals.CONSTANT:
        return True
    asked = [operation for operation in Moves if getattr(stream.operations, operation)]
    sizes = {size.size for size in stream.request if in_bytes and (size.of is None or size.of in counted)}
    return bool(set(asked) - set(counted)) or len(sizes) > 1

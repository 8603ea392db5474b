"""Duty: how much of what was due in a phase was sent, in the units of its pace: chains of a stream that has them, else
requests without the flushes that its writes owe.

Refusal: nothing of a steady state. What was not sent is only known of a whole phase, and so is what it is a share of.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from brickyard.analysis.figures.totals import asked_stream, profile_phase
from brickyard.schema import PhaseEnd, is_paced
from brickyard.schema.plan import ClosedPace, OtherKind, OtherPlan, OtherStream, Stream
from brickyard.store import Record

UNSENT_SHARE_MAX = 0.01
"""More that was due and not sent makes another load of it: percentiles up to p99 are then those of what was sent."""


@dataclass(frozen=True)
class Sent:
    """`sent` is also what failed and what was never answered."""

    sent: int
    unsent: int
    noun: str = "requests"

    @property
    def due(self) -> int:
        return self.sent + self.unsent

    @property
    def kept_up(self) -> bool:
        return is_kept_up(self.unsent, self.due)


def is_kept_up(unsent: int, due: int) -> bool:
    return unsent <= UNSENT_SHARE_MAX * due


def sent(record: Record, phase: int | None = None) -> Sent:
    """Of a phase with its warm-up and its last answers, or of all phases."""
    ends = [end for end in record.of(PhaseEnd) if phase in (None, end.phase)]
    done = Counter[bool]()
    for item in record.intervals:
        asked = asked_stream(record, item.phase, item.stream)
        if phase in (None, item.phase) and item.measure == "service" and is_paced(item.operation, asked):
            done[_is_closed(asked)] += item.requests + item.errors
    return Sent(
        sent=(done[False] or done[True]) + sum(end.outstanding for end in ends),
        unsent=sum(end.unsent for end in ends),
        noun=_noun(record, [end.phase for end in ends]),
    )


def _is_closed(asked: Stream | OtherStream | None) -> bool:
    """A closed loop leaves nothing unsent, so that its requests would hide what an open one beside it leaves."""
    return isinstance(asked, Stream) and isinstance(asked.pace, ClosedPace) and asked.trace is None


def _noun(record: Record, phases: list[int]) -> str:
    plan = record.info.plan
    if isinstance(plan, OtherPlan):
        return "calls" if plan.kind is OtherKind.REPLAY else "requests"
    found = (profile_phase(record, phase) for phase in phases)
    streams = [stream for asked in found if asked for stream in asked.stream]
    chained = {bool(stream.chain) for stream in [s for s in streams if not _is_closed(s)] or streams}
    return {(True,): "chains", (False, True): "requests and chains"}.get(tuple(sorted(chained)), "requests")

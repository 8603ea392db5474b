"""Duty: over what time a stream's own rate is taken, where the stream may have ended before its phase.

A phase that ends by a count of requests, bytes or passes goes on until the last of its streams has done its own. A
stream that was done earlier, and had loops of its own, has its rate over all of its time: its last interval ends where
they ended. One that shared a loop has it over the intervals in which it ran throughout, without the one in which it
ended. Where it ended in its first interval, its end is known only of a closed loop without pauses: there every slot
always has a request, so that the response times of all requests add up to slots × time. Else it has no rate of its own.

Refusal: rates of several streams together are over the phase, and are not made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from brickyard.schema import PhaseEnd, PhaseReason, in_flight_total, is_request
from brickyard.schema.plan import OpenPace, Phase, Stream
from brickyard.store import Interval, IntervalCost, Record

BY_COUNT = (PhaseReason.REQUESTS, PhaseReason.BYTES, PhaseReason.PASSES, PhaseReason.PROGRAM)
"""Every stream had done all that it was to do."""
IN_USE_SHARE = 0.9
"""Slots that were in use for less of an interval than this ended in it; an interval itself may be a tenth short."""
LOOP_BUSY_MOST = 0.1
"""Between a completion and the next submission a slot is empty for the loop's own time."""


@dataclass(frozen=True)
class OwnTime:
    """`starts` are those of the intervals whose requests are counted; `ns` is 0 where the time is not known."""

    starts: frozenset[int]
    ns: int
    ended_ns: int | None = None
    """How long a stream lasted that ended before its phase; None of one that lasted as long."""
    cut_start_ns: int | None = None
    """Start of the counted interval in which it ended, which is shorter than the others."""

    @property
    def throughout(self) -> frozenset[int]:
        """Starts of the intervals in which it ran to their ends."""
        return self.starts - {self.cut_start_ns}


def own_time(
    record: Record, phase: int, stream: int, items: Sequence[Interval], spans: Sequence[IntervalCost]
) -> OwnTime:
    """`items` are all intervals of one measure of the stream (of one operation, where fio ran it), `spans` those over
    which the phase is rated."""
    starts = [span.start_ns for span in spans]
    whole = OwnTime(frozenset(starts), sum(map(_length_ns, spans)))
    done = {item.start_ns for item in items if item.requests or item.errors}
    places = [place for place, start_ns in enumerate(starts) if start_ns in done]
    if not places:
        return whole
    if record.info.is_by_tool:
        return _by_fio(items, whole)
    last, ends = places[-1], [end for end in record.of(PhaseEnd) if end.phase == phase]
    asked = _asked(record, phase)
    if not ends or asked is None or len(asked.stream) < 2 or asked.ramp is not None:
        return whole
    is_last, in_use_ns = last == len(spans) - 1, None
    if (told_ns := _told_ns(ends, stream)) is not None and starts[last] < told_ns < spans[last].end_ns:
        ended_ns = sum(map(_length_ns, spans[:last])) + told_ns - starts[last]
        is_early = not is_last or told_ns - starts[last] < IN_USE_SHARE * _length_ns(spans[last])
        return OwnTime(frozenset(starts[: last + 1]), ended_ns, ended_ns, starts[last]) if is_early else whole
    if all(end.reason in BY_COUNT for end in ends):
        at = [item for item in record.intervals if _is_of(item, phase, stream, starts[last])]
        in_use_ns = _in_use_ns(asked.stream[stream], at)
        if in_use_ns is None and len(spans) == 1:
            return OwnTime(frozenset(), 0)
        is_early = not is_last or (in_use_ns is not None and in_use_ns < IN_USE_SHARE * _length_ns(spans[last]))
    else:
        # A closed loop that had not ended has requests in flight when its phase ends.
        is_early = (
            not is_last
            and bool(asked.requests or asked.bytes or asked.passes)
            and not isinstance(asked.stream[stream].pace, OpenPace)
            and not any(end.outstanding for end in ends)
            and max(done) <= starts[last]
        )
    if not is_early:
        return whole
    before = spans[:last]
    before_ns = sum(map(_length_ns, before))
    ended_ns = before_ns + min(_length_ns(spans[last]), round(in_use_ns) if in_use_ns else _length_ns(spans[last]))
    if before:
        return OwnTime(frozenset(starts[:last]), before_ns, ended_ns)
    if in_use_ns and spans[0].loop_busy_share <= LOOP_BUSY_MOST:
        return OwnTime(frozenset(starts[:1]), ended_ns, ended_ns)
    return OwnTime(frozenset(), 0, ended_ns)


def _told_ns(ends: Sequence[PhaseEnd], stream: int) -> int | None:
    """When the last request of a stream ended that had threads of its own, in a phase that ended by a count."""
    if not all(end.reason in BY_COUNT for end in ends):
        return None
    return next((one.end_ns for end in ends for one in end.ended_by_stream if one.stream == stream), None)


def _by_fio(items: Sequence[Interval], whole: OwnTime) -> OwnTime:
    """fio prints how long each job ran, and takes its rates over that."""
    own_ns = max(item.end_ns for item in items) - min(item.start_ns for item in items)
    if own_ns >= whole.ns:
        return whole
    return OwnTime(whole.starts, own_ns, own_ns if own_ns < IN_USE_SHARE * whole.ns else None)


def _length_ns(span: IntervalCost) -> int:
    return span.end_ns - span.start_ns


def _is_of(item: Interval, phase: int, stream: int, start_ns: int) -> bool:
    return (item.phase, item.stream, item.start_ns) == (phase, stream, start_ns)


def _asked(record: Record, phase: int) -> Phase | None:
    phases = record.info.plan.phase
    found = phases[phase] if phase < len(phases) else None
    return found if isinstance(found, Phase) else None


def in_flight_ns(cells: Iterable[Interval]) -> float:
    """For how long requests were in flight, added up. Over a time, this is the mean in flight (Little's law)."""
    return sum(cell.requests * cell.mean_ns for cell in cells)


def _in_use_ns(asked: Stream, items: Sequence[Interval]) -> float | None:
    """For how long the slots of a stream were in use in an interval; None where the record does not say."""
    if (
        isinstance(asked.pace, OpenPace)
        or asked.think.ns
        or asked.chain
        or asked.program
        or asked.trace
        or asked.frames
    ):
        return None
    answered = [item for item in items if item.measure == "response" and is_request(item.operation)]
    if not answered or any(item.errors for item in items):
        return None
    return in_flight_ns(answered) / in_flight_total(asked)

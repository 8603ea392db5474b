"""Duty: whether what waits for an answer grew from the begin of a phase to its end, so that its response times say how
long it was. Refusal: what was never sent is `sending`'s.

By Little's law, the mean number of requests that wait for an answer is the sum of their response times over the time
in which they ended. If a rate is above what the storage does by `d` requests a second, this number grows by `d` each
second: its means over the quarters of a phase of `T` seconds are 1, 3, 5 and 7 eighths of `d T` above the first. A
stall raises one or two of them, and chance all of them in no order, so the less of the later two is held against the
greater of the earlier two; four times their difference is then `d T`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.analysis.figures.scheduled import pgbench_rate
from brickyard.analysis.figures.totals import full_stream_name, profile_phase, rated_intervals, waited
from brickyard.schema.plan import OpenPace, Stream, TraceTiming
from brickyard.store import CHAIN, Interval, Record

QUARTERS = 4
GROWN_SHARE_MAX = 0.01
"""Of what was done: as much as `sending` lets pass of what was due and not sent, the same lack once all slots wait."""
GROWN_MIN = 10
"""Requests: of a few, chance is a good part."""


@dataclass(frozen=True)
class Growing:
    """A stream whose requests came faster than they were answered. The means are of the response times of the first
    and the last quarter of the measured time."""

    phase: int
    stream: int
    name: str
    first_mean_ns: float
    last_mean_ns: float
    share: float
    """By how much of the rate that was done, more was due."""


def growing(record: Record, phase: int) -> tuple[Growing, ...]:
    """The streams of a phase with an open loop, the instants of a trace, or a program's rate, whose backlog grew; none
    over several steps of a ramp, whose rate changes on purpose, and none where there are fewer than four intervals."""
    paced = _paced(record, phase)
    spans = sorted(rated_intervals(record, phase), key=lambda span: span.start_ns)
    if not paced or len(spans) < QUARTERS or len({span.knob for span in spans}) > 1:
        return ()
    starts = [spans[len(spans) * number // QUARTERS].start_ns for number in range(QUARTERS)]
    edges = list(zip(starts, [*starts[1:], spans[-1].end_ns], strict=True))
    timed = [one for one in record.intervals_of(phase) if not one.warmup and one.measure == "response"]
    found = (_growing(record, (phase, number), edges, timed) for number in paced)
    return tuple(one for one in found if one is not None)


def _paced(record: Record, phase: int) -> list[int]:
    if pgbench_rate(record) is not None:
        return [0]
    asked = profile_phase(record, phase)
    return [number for number, stream in enumerate(asked.stream) if _has_instants(stream)] if asked else []


def _has_instants(stream: Stream) -> bool:
    """Whether each request is due at an instant of its own."""
    return stream.trace.timing is TraceTiming.TIMED if stream.trace else isinstance(stream.pace, OpenPace)


def _growing(
    record: Record, key: tuple[int, int], edges: Sequence[tuple[int, int]], timed: Sequence[Interval]
) -> Growing | None:
    of_stream = [one for one in timed if (one.phase, one.stream) == key]
    own = [one for one in of_stream if one.operation == CHAIN] or waited(record, of_stream)
    quarters = [[one for one in own if start <= one.start_ns < end] for start, end in edges]
    done = [sum(one.requests for one in quarter) for quarter in quarters]
    if not all(done):
        return None
    time_ns = [sum(one.requests * one.mean_ns for one in quarter) for quarter in quarters]
    waiting = [total / (end - start) for total, (start, end) in zip(time_ns, edges, strict=True)]
    grown = QUARTERS * (min(waiting[2:]) - max(waiting[:2]))
    share = grown / sum(done)
    if grown < GROWN_MIN or share <= GROWN_SHARE_MAX:
        return None
    name = full_stream_name(record, *key)
    return Growing(*key, name, time_ns[0] / done[0], time_ns[-1] / done[-1], share)

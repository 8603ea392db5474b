"""Duty: times in which no request of a phase ended although one was in flight all the while.

Refusal: no cause, no time that is shorter than an interval, and nothing of a ramp, whose steps begin anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from brickyard.analysis.figures.totals import profile_phase
from brickyard.schema import is_request
from brickyard.store import Record
from brickyard.store.record import IntervalCost

STALL_MIN_NS = 1_000_000_000
"""The default interval: the course over time shows what lasts as long."""
MISSING_MIN = 10
"""A time in which less is missing than so many requests, at the phase's own rate, is one of slow requests."""


@dataclass(frozen=True)
class Stall:
    phase: int
    at_ns: int
    lasted_ns: int
    """At the least: whole intervals."""


def stalls(record: Record) -> list[Stall]:
    """By phase and time."""
    ended, longest_ns = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for item in record.intervals:
        if item.measure == "service" and is_request(item.operation):
            key = item.phase, item.start_ns
            ended[key] += item.requests + item.errors
            longest_ns[key] = max(longest_ns[key], item.max_ns if item.histograms else 0)
    found: list[Stall] = []
    for phase in sorted({phase for phase, _ in ended}):
        asked = profile_phase(record, phase)
        if asked is not None and asked.ramp is None:
            spans = sorted(record.spans(phase), key=lambda span: span.start_ns)
            found += _of_phase(spans, ended, longest_ns)
    return found


def _of_phase(
    spans: list[IntervalCost], ended: Counter[tuple[int, int]], longest_ns: Counter[tuple[int, int]]
) -> Iterator[Stall]:
    """A request that ends next and took as long was in flight all the while, whatever the pace is."""
    took_ns = sum(span.end_ns - span.start_ns for span in spans)
    count = sum(ended[span.phase, span.start_ns] for span in spans)
    for first, then in _silences(spans, ended):
        lasted_ns = then.start_ns - first.start_ns
        missing = count * lasted_ns / max(took_ns - lasted_ns, 1)
        in_flight_ns = longest_ns[then.phase, then.start_ns]
        if lasted_ns >= STALL_MIN_NS and missing >= MISSING_MIN and in_flight_ns >= lasted_ns:
            yield Stall(first.phase, first.start_ns, lasted_ns)


def _silences(
    spans: Iterable[IntervalCost], ended: Counter[tuple[int, int]]
) -> Iterator[tuple[IntervalCost, IntervalCost]]:
    """Each first interval in which nothing ended, with the next one in which something did."""
    first: IntervalCost | None = None
    for is_silent, group in groupby(spans, lambda span: not ended[span.phase, span.start_ns]):
        head = next(group)
        if first is not None and not is_silent:
            yield first, head
        first = head if is_silent and not head.drain else None

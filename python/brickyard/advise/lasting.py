"""Duty: a workload on a modelled brick in one condition, simulated until its rate no longer falls.

Caches, queues and what software keeps in memory fill while a workload runs: Linux md serves users ever more slowly
while its stripe cache grows beside a rebuild, for many minutes. A rate is taken to last where the second half of what
is counted has no lower one than the first. Each further length of `LENGTHS_S` begins anew; its first half is warm-up.

Refusal: what was still falling at the end says so, and nobody calls it sure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec import structs

from brickyard.analysis.figures.totals import rated_intervals, waited
from brickyard.schema import Duration, in_rate
from brickyard.schema.plan import Phase, Plan
from brickyard.store import Record

LENGTHS_S = (10, 60, 240, 960)
"""Virtual time with the warm-up. Random reads from a RAID-6 of 8 disks behind Linux md fall from 136/s to 52/s beside
its rebuild; after 480 s they are within 5 % of that."""
LEAST_S = 60
"""The stripe cache of Linux md grows from 20 s on, so that a shorter look finds a rate that seems to last."""
FEWEST = 4_000
"""Fewer requests would hide a slow fall: between halves of 2,000, one of 5 % shows."""
PLENTY = 1_000_000
"""Requests after which a shorter time is enough: what fills, has filled."""
MOST_REQUESTS = 8_000_000
"""Of one simulation: about ten seconds of a processor."""
FALL = 0.03
"""Less than this between two halves is no fall, besides one standard deviation of a count of independent arrivals."""
SLOWER = 1.2
"""Response times of an open loop whose mean grows by more than this have not settled."""
LEAST_OF_FILL = 10
"""What is counted lasts at least this part of the time in which caches are filled."""


@dataclass(frozen=True)
class Lasted:
    """A simulation of `seconds` of virtual time. `holds`: whether its rate no longer fell at the end."""

    record: Record
    seconds: float
    holds: bool


def until_it_holds(run: Callable[[Plan], Record], plan: Plan, fill_s: int, meets: Callable[[Record], bool]) -> Lasted:
    """Ever longer, until the rate holds; a falling rate that is too low already is not looked at any longer."""
    lengths = [length for length in LENGTHS_S if length * LEAST_OF_FILL >= 2 * fill_s]
    for number, length_s in enumerate(lengths):
        lasted = looked_at(run(_for_time(plan, length_s)))
        requests = sum(half.requests for half in _halves(lasted.record))
        enough = requests >= (FEWEST if length_s >= LEAST_S else PLENTY)
        known = lasted.holds and enough
        following = lengths[number + 1] if number + 1 < len(lengths) else None
        too_many = following is not None and requests * following / length_s > MOST_REQUESTS
        if known or following is None or too_many or (not meets(lasted.record) and not _rises(lasted.record)):
            break
    return lasted


def looked_at(record: Record) -> Lasted:
    """A simulation of a given length."""
    seconds = max((cost.end_ns for cost in record.costs if not cost.drain), default=0) / 1e9
    return Lasted(record, seconds, not any(half.falls for half in _halves(record)))


def without_amount(phase: Phase) -> Phase:
    """A phase that ends by time alone: one of 22 MiB would be over before the warm-up is."""
    return structs.replace(phase, requests=None, bytes=None, passes=None)


def _for_time(plan: Plan, length_s: int) -> Plan:
    """Half of it warm-up, but of the shortest, which only finds out how many requests there are. Ramps end by
    themselves, and the warm-up of a profile is kept if it is longer."""
    warmup_s = length_s // 2 if length_s > LENGTHS_S[0] else 0
    counted = Duration((length_s - warmup_s) * 1_000_000_000)

    def timed(phase: Phase) -> Phase:
        if phase.ramp:
            return phase
        warmup = Duration(max(phase.warmup.ns, warmup_s * 1_000_000_000))
        return structs.replace(without_amount(phase), duration=counted, warmup=warmup)

    interval = Duration(min(plan.interval.ns, counted.ns // 10))
    return structs.replace(plan, interval=interval, phase=[timed(phase) for phase in plan.phase])


@dataclass(frozen=True)
class _Halves:
    """Rates in the first and in the second half of what is counted of a phase, and mean response times where requests
    have instants at which they are due."""

    requests: int
    rates: tuple[float, float]
    response_ns: tuple[float, float]

    @property
    def allowed(self) -> float:
        return FALL + 1 / math.sqrt(max(1.0, self.requests / 2))

    @property
    def falls(self) -> bool:
        first, second = self.response_ns
        return self.rates[1] < (1 - self.allowed) * self.rates[0] or (first > 0 and second > SLOWER * first)

    @property
    def rises(self) -> bool:
        return self.rates[1] > (1 + self.allowed) * self.rates[0]


def _rises(record: Record) -> bool:
    return any(half.rises for half in _halves(record))


def _halves(record: Record) -> Iterator[_Halves]:
    for phase in sorted({cost.phase for cost in record.costs}):
        spans = rated_intervals(record, phase)
        if not spans:
            continue
        middle_ns = (spans[0].start_ns + spans[-1].end_ns) / 2
        starts = {span.start_ns for span in spans}
        own = [item for item in record.intervals if item.phase == phase and item.start_ns in starts]
        counted = in_rate({item.operation for item in own})
        lasted_ns, done, due, waited_ns = [0, 0], [0, 0], [0, 0], [0.0, 0.0]
        for span in spans:
            lasted_ns[span.start_ns >= middle_ns] += span.end_ns - span.start_ns
        for item in own:
            half = item.start_ns >= middle_ns
            if item.measure == "service" and item.operation in counted:
                done[half] += item.requests
        for item in waited(record, own):
            half = item.start_ns >= middle_ns
            if item.measure == "response":
                due[half] += item.requests
                waited_ns[half] += item.requests * item.mean_ns
        if all(lasted_ns):
            first, second = (count * 1e9 / ns for count, ns in zip(done, lasted_ns, strict=True))
            early, late = (ns / max(1, count) for ns, count in zip(waited_ns, due, strict=True))
            yield _Halves(sum(done), (first, second), (early, late))

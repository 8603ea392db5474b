"""Duty: how long the search for a rate takes on this computer, before it begins: the first search is tried with short
steps, and each of them is timed.

Refusal: no rate comes out of it, since queues and caches have too little time to fill in a short step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean

from msgspec import structs

from brickyard.advise import predict
from brickyard.analysis.figures import search
from brickyard.analysis.figures.totals import rated_rows, totals
from brickyard.schema import Duration
from brickyard.schema.plan import Plan
from brickyard.store import Record

Simulated = Callable[[Plan], Record]

STEP_REQUESTS = 40_000
"""Of a short step: some hundredths of a second of a processor, and enough for p99.9."""
EMPTY_S = 0.001
"""Virtual time of a run that costs what each run costs besides its load."""
FIRST_SHARE, PARTS_LONGER = 1e-4, 4.0
"""Of a run as fast as it goes: the first try, and how many times longer each further one is."""
OVERLOAD = 8.0
"""Times the rate of a run as fast as it goes: more than a brick does with more in flight."""
SETTLED = 0.1
"""A rate that falls by less from one part of a run to a longer one has settled."""
NEAR = 5
"""Last steps of a search: they are near the rate that it finds, as are the steps of further searches."""


def searching_s(plan: Plan, asked: predict.Limited, length_s: float, measure: Simulated, searches: int) -> float:
    """CPU time of a run as fast as it goes and of the searches that begin at half of its rate."""
    empty_s = _timed(measure, predict.for_time(_without_warmup(plan), EMPTY_S))[0]

    def whole_s(took_s: float, share: float) -> float:
        return took_s + max(0.0, took_s - empty_s) * (1 / share - 1)

    whole = predict.for_time(plan, length_s)
    alone_s, unlimited, share = _settled(measure, whole, is_filled=False)
    parts, most = predict.shares(unlimited, asked), _rate(unlimited, _part(whole, share), asked)
    if not parts:
        return whole_s(alone_s, share)

    def at_rate(rate_per_s: float) -> Plan:
        return predict.at_rate(plan, rate_per_s, parts, asked, length_s, virtual=True)

    others_per_s = _rate(unlimited, _part(whole, share)) - most
    has_fill = plan.phase[0].warmup.ns > 0
    full = _full(measure, at_rate(most * OVERLOAD), whole_s, asked) if has_fill else None
    spent_s: list[float] = []

    def attempt(rate_per_s: float) -> search.Step:
        made = at_rate(rate_per_s)
        part = min(1.0, STEP_REQUESTS / ((rate_per_s + others_per_s) * _length_s(made)))
        began_s = time.process_time()
        step = predict.step(measure(_part(made, part)), asked, rate_per_s)
        took_s = whole_s(time.process_time() - began_s, part)
        spent_s.append(took_s if full is None or part == 1 else full.step_s(rate_per_s, _length_s(made)))
        # A short step may have too few requests of a rare stream for a percentile.
        holds = step.kept_up if step.value_ns is None else step.holds
        return replace(step, holds=holds and (full is None or rate_per_s <= full.capacity_per_s))

    found = search.highest(attempt, max(1.0, (most if full is None else min(most, full.capacity_per_s)) / 2))
    further = search.expected_steps(searches) - search.expected_steps(1) if found.best else 0
    return whole_s(alone_s, share) + sum(spent_s) + further * fmean(spent_s[-NEAR:])


@dataclass(frozen=True)
class Full:
    """A brick whose caches are full: before, it does more than it will, and each request costs less to compute."""

    capacity_per_s: float
    spent_per_s: float
    """CPU time of a second of virtual time at its capacity."""

    def step_s(self, rate_per_s: float, length_s: float) -> float:
        return self.spent_per_s * length_s * min(1.0, rate_per_s / self.capacity_per_s)


def _full(
    measure: Simulated, overloaded: Plan, whole_s: Callable[[float, float], float], asked: predict.Limited
) -> Full:
    took_s, record, share = _settled(measure, overloaded, is_filled=True)
    return Full(_rate(record, _part(overloaded, share), asked), whole_s(took_s, share) / _length_s(overloaded))


def _settled(measure: Simulated, whole: Plan, *, is_filled: bool) -> tuple[float, Record, float]:
    """Ever longer parts of a run, until they have enough requests and, where caches have to be filled, a rate that no
    longer falls: the CPU time of the last one, its record, and which part it was."""
    share, before = FIRST_SHARE, math.inf
    while True:
        part = _part(whole, share)
        took_s, record = _timed(measure, part)
        rate = _rate(record, part)
        is_settled = not is_filled or rate >= before * (1 - SETTLED)
        if share >= 1 or (_requests(record) >= STEP_REQUESTS and is_settled):
            return took_s, record, share
        share, before = min(1.0, share * PARTS_LONGER), rate


def _timed(measure: Simulated, plan: Plan) -> tuple[float, Record]:
    began_s = time.process_time()
    record = measure(plan)
    return time.process_time() - began_s, record


def _requests(record: Record, asked: predict.Limited | None = None) -> int:
    rows = rated_rows(totals(record)) if asked is None else predict.counted(record, asked)
    return sum(row.requests for row in rows)


def _rate(record: Record, plan: Plan, asked: predict.Limited | None = None) -> float:
    """Of a run however short, of which there is no rate that a user may rely on."""
    duration = plan.phase[0].duration
    return max(1.0, _requests(record, asked) / duration.ns * 1e9) if duration else 1.0


def _length_s(plan: Plan) -> float:
    """With its warm-up."""
    phase = plan.phase[0]
    return ((phase.duration.ns if phase.duration else 0) + phase.warmup.ns) / 1e9


def _part(plan: Plan, share: float) -> Plan:
    phase = plan.phase[0]
    length = Duration(max(1_000_000, round(phase.duration.ns * share))) if phase.duration else None
    shorter = structs.replace(phase, duration=length, warmup=Duration(round(phase.warmup.ns * share)))
    return structs.replace(plan, phase=[shorter])


def _without_warmup(plan: Plan) -> Plan:
    return structs.replace(plan, phase=[structs.replace(phase, warmup=Duration(0)) for phase in plan.phase])

"""Duty: how many requests a second a brick carries before its response time passes a limit.

The load is offered in an open loop with Poisson arrivals, so that waiting counts; the highest rate that holds is found
by doubling and halving, then by bisection to 1 %. One such search is one draw of random arrivals: several are made,
each with arrivals of its own, and the rate is their geometric mean with its interval.

Refusal: no queueing formula; each step is a run of the profile at that rate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from msgspec.structs import replace

from brickyard import rulers
from brickyard.analysis.latency import MIN_SAMPLES_BEYOND
from brickyard.analysis.load_curve import MEAN_REQUESTS_MIN
from brickyard.analysis.samples import Sample, sample
from brickyard.analysis.totals import totals
from brickyard.analysis.verdict import verdict
from brickyard.errors import BadInputError
from brickyard.rulers import Ruler
from brickyard.schema import Duration, PhaseEnd
from brickyard.schema.plan import Arrivals, OpenPace, Plan
from brickyard.store import CHAINS, Json, Record

TOLERANCE = 0.01
FIRST_FACTOR = 2.0  # between the rates that bracket the limit
NEXT_FACTOR = 1.25  # of the searches that begin where the first one ended
MOST_STEPS = 40
LEAST_SHARE = 1 / 64  # of the first rate: so little load that nothing waits, and less of it would change nothing
OVERLOADED_SHARE = 0.01  # of what was due and was not sent: the limit from which a record says overloaded
OUTSTANDING = 64  # requests in flight of each stream; later arrivals wait in front, and their waiting counts
SURE_BEYOND = 100  # the count of what lies beyond is then known to a tenth (Poisson)
MOST_REQUESTS = 100_000  # of a step for that: p99.9; a second or two of simulation
INTERVALS = 100  # of a step; histograms are merged anyway, and long virtual times need no second-by-second course


@dataclass(frozen=True)
class Step:
    """One rate that was tried. `value_ns` is the limited figure, None where too few requests were seen."""

    rate_per_s: float
    value_ns: float | None
    holds: bool
    kept_up: bool = True
    """Whether all that was due was sent; if not, the queue grows, and response times tell how long the run was."""
    requests: int = 0

    def document(self) -> Json:
        return asdict(self)


@dataclass(frozen=True)
class Carried:
    """The highest rate that holds, None where none does, and every step on the way."""

    best: Step | None
    steps: list[Step]


def limit(text: str) -> Ruler:
    """`mean:100ms`, `p99:20ms`, as a ruler of one requirement on the response time."""
    figure, sign, value = text.partition(":")
    if not sign or figure not in rulers.TIMES:
        raise BadInputError(f"--limit {text}: write mean:100ms or p99:20ms; there are {', '.join(rulers.TIMES)}")
    return rulers.read(f"{figure}<={value}")


def one_phase(plan: Plan, name: str | None) -> Plan:
    """The plan with the phase that is to be carried, and nothing that would end it before its time."""
    names = [phase.name for phase in plan.phase]
    if name is None and len(names) > 1:
        raise BadInputError(f"the profile has the phases {', '.join(names)}; choose one with --phase")
    if name is not None and name not in names:
        raise BadInputError(f"--phase {name}: no such phase; there are {', '.join(names)}")
    phase = next(phase for phase in plan.phase if name in (None, phase.name))
    endless = replace(phase, requests=None, bytes=None, passes=None, stop=None, steady=None, ramp=None)
    return replace(plan, phase=[endless])


def refuse_chains(plan: Plan) -> None:
    if any(stream.chain for stream in plan.phase[0].stream):
        raise BadInputError("a chain waits for its own steps and has no rate of arrival; choose a profile without one")


def for_time(plan: Plan, length_s: float) -> Plan:
    """The plan for a given time."""
    length_ns = max(1, round(length_s * 1e9))
    phase = replace(plan.phase[0], duration=Duration(length_ns))
    interval_ns = max(1_000_000_000, length_ns // INTERVALS)
    return replace(plan, interval=Duration(interval_ns), phase=[phase])


def shares(record: Record) -> dict[int, float]:
    """Which part of the requests each stream sends when nothing holds it back."""
    sent: dict[int, int] = {}
    for row in totals(record):
        if row.operation not in CHAINS | {"flush"}:
            sent[row.stream] = sent.get(row.stream, 0) + row.requests
    whole = sum(sent.values())
    return {stream: count / whole for stream, count in sent.items() if count}


def at_rate(
    plan: Plan, rate_per_s: float, parts: dict[int, float], figure: str, duration_s: float, *, virtual: bool = False
) -> Plan:
    """The plan in an open loop, long enough for the percentile that is limited. Virtual time is cheap, so that there
    SURE_BEYOND samples lie beyond it, and a higher rate has the longer response time."""
    phase = plan.phase[0]
    streams = [
        replace(
            stream,
            workers=1,
            depth=max(OUTSTANDING, stream.workers * stream.depth),
            pace=OpenPace(rate=rate_per_s * parts[number], arrivals=Arrivals.POISSON),
        )
        for number, stream in enumerate(phase.stream)
        if number in parts
    ]
    requests = 2 * samples(figure)
    if virtual:
        requests = max(requests, min(samples(figure, SURE_BEYOND), MOST_REQUESTS))
    length_s = max(duration_s, requests / rate_per_s)
    return for_time(replace(plan, phase=[replace(phase, stream=streams)]), length_s)


def samples(figure: str, beyond: int = MIN_SAMPLES_BEYOND) -> float:
    """How many requests a percentile needs, so that so many lie beyond it."""
    if not figure.startswith("p"):
        return beyond
    return beyond * 100 / (100 - float(figure[1:]))


def enough(figure: str) -> int:
    """Requests of a step, with fewer of which searches end too high (docs/statistics.md)."""
    return MEAN_REQUESTS_MIN if figure == "mean" else round(samples(figure, SURE_BEYOND))


def step(record: Record, ruler: Ruler, rate_per_s: float) -> Step:
    """Whether a rate holds: the limited figure within its limit, and no more unsent than 1 % of what was due."""
    found = verdict(record, ruler)
    unsent = sum(end.unsent for end in record.of(PhaseEnd))
    sent = sum(row.requests for row in totals(record) if row.operation not in CHAINS)
    kept_up = unsent <= OVERLOADED_SHARE * max(1, sent + unsent)
    return Step(rate_per_s, found.decided.value, found.passed and kept_up, kept_up, sent)


def highest(attempt: Callable[[float], Step], first_per_s: float, factor: float = FIRST_FACTOR) -> Carried:
    """Brackets the limit by a factor and bisects what is between."""
    steps = [attempt(first_per_s)]
    low = high = steps[0]
    while low.holds == high.holds and len(steps) < MOST_STEPS and low.rate_per_s > first_per_s * LEAST_SHARE:
        tried = attempt((high.rate_per_s * factor) if high.holds else (low.rate_per_s / factor))
        steps.append(tried)
        low, high = (high, tried) if high.holds else (tried, low)
    if not low.holds:
        return Carried(None, steps)
    while high.rate_per_s > low.rate_per_s * (1 + TOLERANCE) and len(steps) < MOST_STEPS and not high.holds:
        tried = attempt((low.rate_per_s + high.rate_per_s) / 2)
        steps.append(tried)
        low, high = (tried, high) if tried.holds else (low, tried)
    return Carried(high if high.holds else low, steps)


def searched(attempt: Callable[[float, int], Step], first_per_s: float, searches: int) -> list[Carried]:
    """So many searches, each with arrivals of its own, which `attempt` draws from its second argument. The further
    ones begin where the first ended; there are none where it found no rate."""
    found = [highest(lambda rate: attempt(rate, 0), first_per_s)]
    if found[0].best:
        for number in range(1, searches):
            found.append(_again(attempt, found[0].best.rate_per_s, number))
    return found


def _again(attempt: Callable[[float, int], Step], first_per_s: float, number: int) -> Carried:
    return highest(lambda rate: attempt(rate, number), first_per_s, NEXT_FACTOR)


def rates(found: list[Carried]) -> Sample | None:
    """What the searches found, in requests a second; None unless each found a rate."""
    best = [carried.best.rate_per_s for carried in found if carried.best]
    return sample(best) if len(best) == len(found) else None

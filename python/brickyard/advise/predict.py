"""Duty: how many requests a second a brick carries before its response time passes a limit.

The load is offered in an open loop with Poisson arrivals, so that waiting counts; the highest rate that holds is found
by `analysis.figures.search`.

Refusal: no queueing formula; each step is a run of the profile at that rate.
"""

from __future__ import annotations

from msgspec.structs import replace

from brickyard import rulers
from brickyard.analysis.figures.search import SURE, Step, enough
from brickyard.analysis.figures.sending import sent
from brickyard.analysis.figures.totals import rated_rows, totals
from brickyard.analysis.judging.verdict import verdict
from brickyard.errors import BadInputError, Edit, Remedy
from brickyard.rulers import Ruler
from brickyard.schema import Duration, in_flight_total, is_request
from brickyard.schema.plan import Arrivals, OpenPace, Plan
from brickyard.store import Record

OUTSTANDING = 64  # requests in flight of each stream; later arrivals wait in front, and their waiting counts
MOST_REQUESTS = 100_000  # of a step, enough for p99.9; a second or two of simulation
INSTEAD = Edit(("advise", "predict"), ("load-curve",))
INTERVALS = 100  # of a step; histograms are merged anyway, and long virtual times need no second-by-second course


def limit(text: str) -> Ruler:
    """`mean:100ms`, `p99:20ms`, as a ruler of one requirement on the response time."""
    figure, sign, value = text.partition(":")
    if not sign or figure not in rulers.TIMES:
        raise BadInputError(f"--limit {text}: write mean:100ms or p99:20ms; there are {', '.join(rulers.TIMES)}")
    try:
        return rulers.read(f"{figure}<={value}")
    except BadInputError as error:
        raise BadInputError(f"--limit {text}: {str(error).partition(': ')[2]}") from error


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
    """A ruler judges requests, and what is offered of a chain are chains."""
    if any(stream.chain for stream in plan.phase[0].stream):
        remedy = Remedy("load-curve searches for chains/s within a limit", INSTEAD)
        raise BadInputError("the profile issues chains of requests, and a prediction is in requests/s", remedy)


def is_open(plan: Plan) -> bool:
    """Whether the profile offers its requests at rates of its own, so that what it does alone is what it asks for."""
    return all(isinstance(stream.pace, OpenPace) for phase in plan.phase for stream in phase.stream)


def for_time(plan: Plan, length_s: float) -> Plan:
    """The plan for a given time."""
    length_ns = max(1, round(length_s * 1e9))
    phase = replace(plan.phase[0], duration=Duration(length_ns))
    interval_ns = max(1_000_000_000, length_ns // INTERVALS)
    return replace(plan, interval=Duration(interval_ns), phase=[phase])


def shares(record: Record) -> dict[int, float]:
    """Which part of the requests each stream sends when nothing holds it back."""
    counts: dict[int, int] = {}
    for row in rated_rows(totals(record)):
        counts[row.stream] = counts.get(row.stream, 0) + row.requests
    whole = sum(counts.values())
    return {stream: count / whole for stream, count in counts.items() if count}


def at_rate(
    plan: Plan, rate_per_s: float, parts: dict[int, float], figure: str, duration_s: float, *, virtual: bool = False
) -> Plan:
    """The plan in an open loop, long enough for the figure that is limited: in virtual time, which is cheap, for the
    requests that a search needs."""
    phase = plan.phase[0]
    streams = [
        replace(
            stream,
            workers=1,
            depth=max(OUTSTANDING, in_flight_total(stream)),
            pace=OpenPace(rate=rate_per_s * parts[number], arrivals=Arrivals.POISSON),
        )
        for number, stream in enumerate(phase.stream)
        if number in parts
    ]
    requests = 2 * enough(figure) / SURE
    if virtual:
        requests = max(requests, min(enough(figure), MOST_REQUESTS))
    length_s = max(duration_s, requests / rate_per_s)
    return for_time(replace(plan, phase=[replace(phase, stream=streams)]), length_s)


def step(record: Record, ruler: Ruler, rate_per_s: float) -> Step:
    """Whether a rate holds: the limited figure within its limit, and no more unsent than 1 % of what was due."""
    found = verdict(record, ruler)
    requests = sum(row.requests for row in totals(record) if is_request(row.operation))
    kept_up = sent(record).kept_up
    return Step(rate_per_s, found.decided.value, found.passed and kept_up, kept_up, requests)

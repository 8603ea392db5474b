"""Duty: how many requests a second a brick carries before its response time passes a limit.

The load, or the streams of it that are asked for, is offered in an open loop with Poisson arrivals, so that waiting
counts; the highest rate that holds is found by `analysis.figures.search`.

Refusal: no queueing formula; each step is a run of the profile at that rate.
"""

from __future__ import annotations

import dataclasses
import glob
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from msgspec.structs import replace

from brickyard import rulers
from brickyard.analysis.figures.load_curve import growth_of
from brickyard.analysis.figures.search import SURE, Step, enough
from brickyard.analysis.figures.sending import sent
from brickyard.analysis.figures.totals import Totals, rated_rows, totals
from brickyard.analysis.judging.verdict import verdict
from brickyard.errors import BadInputError, Edit, Remedy
from brickyard.reading import read_limit
from brickyard.rulers import Ruler
from brickyard.schema import Duration, in_flight_total, is_request
from brickyard.schema.plan import Arrivals, OpenPace, Plan, Stream
from brickyard.store import Record

OUTSTANDING = 64  # requests in flight of each stream; later arrivals wait in front, and their waiting counts
MOST_REQUESTS = 100_000  # of a step, enough for p99.9; a second or two of simulation
INSTEAD = Edit(("advise", "predict"), ("load-curve",))
INTERVALS = 100  # of a step; histograms are merged anyway, and long virtual times need no second-by-second course


def limit(text: str) -> Ruler:
    """`mean:100ms`, `p99:20ms`, as a ruler of one requirement on the response time."""
    figure, _ = read_limit(text, rulers.TIMES)
    return rulers.read(f"{figure}<={text.partition(':')[2]}")


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


@dataclass(frozen=True)
class Limited:
    """The limit, and the streams whose requests are counted: those that are named, each of which has to keep it, or all
    together."""

    ruler: Ruler
    streams: tuple[int, ...]
    names: tuple[str, ...] = ()

    @property
    def figure(self) -> str:
        return self.ruler.requirements[0].figure


def named(plan: Plan) -> Plan:
    """The plan of one phase with a name for each stream, by which it is known also where others are left out."""
    phase = plan.phase[0]
    streams = [replace(stream, name=stream.name or f"stream {n}") for n, stream in enumerate(phase.stream, 1)]
    return replace(plan, phase=[replace(phase, stream=streams)])


def asked(plan: Plan, ruler: Ruler, patterns: Sequence[str]) -> Limited:
    """Of a plan of one phase whose streams have names."""
    names = [stream.name for stream in plan.phase[0].stream]
    if not patterns:
        return Limited(ruler, tuple(range(len(names))))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise BadInputError(f"--stream {pattern}: no such stream; there are {', '.join(names)}")
    chosen = [n for n, name in enumerate(names) if any(fnmatchcase(name, pattern) for pattern in patterns)]
    known = tuple(dict.fromkeys(names[n] for n in chosen))
    of_each = [dataclasses.replace(one, stream=glob.escape(name)) for one in ruler.requirements for name in known]
    return Limited(dataclasses.replace(ruler, requirements=tuple(of_each)), tuple(chosen), known)


def counted_alone(plan: Plan, asked: Limited) -> Plan:
    """The plan of the streams that are counted, by which the most is known that storage can do of them."""
    phase = plan.phase[0]
    return replace(plan, phase=[replace(phase, stream=[phase.stream[number] for number in asked.streams])])


def refuse_chains(plan: Plan) -> None:
    """A ruler judges requests, and what is offered of a chain are chains."""
    if any(stream.chain for stream in plan.phase[0].stream):
        remedy = Remedy("load-curve searches for chains/s within a limit", INSTEAD)
        raise BadInputError("the profile issues chains of requests, and a prediction is in requests/s", remedy)


def is_open(plan: Plan, asked: Limited) -> bool:
    """Whether the streams offer requests at rates of their own, so that what they do alone is what they ask for."""
    streams = plan.phase[0].stream
    return all(isinstance(streams[number].pace, OpenPace) for number in asked.streams)


def for_time(plan: Plan, length_s: float) -> Plan:
    """The plan for a given time."""
    length_ns = max(1, round(length_s * 1e9))
    phase = replace(plan.phase[0], duration=Duration(length_ns))
    interval_ns = max(1_000_000_000, length_ns // INTERVALS)
    return replace(plan, interval=Duration(interval_ns), phase=[phase])


def counted(record: Record, asked: Limited) -> list[Totals]:
    """What was done of what is asked for."""
    return [row for row in rated_rows(totals(record)) if not asked.names or row.stream_name in asked.names]


def shares(record: Record, asked: Limited) -> dict[int, float]:
    """Which part of the requests that are counted each stream sends when nothing holds it back; empty where none
    does."""
    counts = dict.fromkeys(asked.streams, 0)
    for row in counted(record, asked):
        counts[row.stream] += row.requests
    whole = sum(counts.values())
    return {stream: count / whole for stream, count in counts.items()} if whole else {}


def at_rate(
    plan: Plan,
    rate_per_s: float,
    parts: dict[int, float],
    asked: Limited,
    duration_s: float,
    *,
    virtual: bool = False,
) -> Plan:
    """The streams that are asked for in an open loop, beside the others as they are; long enough for the figure that is
    limited: in virtual time, which is cheap, for the requests that a search needs."""
    phase = plan.phase[0]
    streams = [
        _paced(stream, rate_per_s * parts[number]) if number in parts else stream
        for number, stream in enumerate(phase.stream)
        if parts.get(number, 1.0) > 0
    ]
    requests = 2 * enough(asked.figure) / SURE
    if virtual:
        requests = max(requests, min(enough(asked.figure), MOST_REQUESTS))
    if asked.names:
        # Each stream needs them; arrivals are random, and hardly ever three deviations fewer than their mean.
        rarest = min(part for part in parts.values() if part > 0)
        requests = (requests + 3 * math.sqrt(requests)) / rarest
    return for_time(replace(plan, phase=[replace(phase, stream=streams)]), max(duration_s, requests / rate_per_s))


def _paced(stream: Stream, rate_per_s: float) -> Stream:
    return replace(
        stream,
        workers=1,
        depth=max(OUTSTANDING, in_flight_total(stream)),
        pace=OpenPace(rate=rate_per_s, arrivals=Arrivals.POISSON),
    )


def step(record: Record, asked: Limited, rate_per_s: float) -> Step:
    """Whether a rate holds: the limited figure within its limit, no more unsent than 1 % of what was due, and no
    backlog that grew."""
    found = verdict(record, asked.ruler)
    rows = [row for row in totals(record) if is_request(row.operation)]
    each = [sum(row.requests for row in rows if row.stream_name == name) for name in asked.names]
    requests = min(each) if each else sum(row.requests for row in rows)
    kept_up = sent(record).is_sustained
    return Step(rate_per_s, found.decided.value, found.passed and kept_up, kept_up, requests, growth_of(record))

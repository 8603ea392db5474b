"""Duty: modelled bricks for whoever asks before buying: what there are, with their sheets, what one would do if it were
another, and which one to buy.

Refusal: no file is opened by a name that is asked for; every brick, part and profile is one that is shipped or lies
among the user's own. No figure is computed here.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from brickyard import bricks, profiles, rulers
from brickyard.advise import buy, parts, predict
from brickyard.advise.answer import advice
from brickyard.advise.assumptions import assumptions
from brickyard.advise.candidates import MEMBERS, candidates
from brickyard.advise.simulate import Brick, dearest, filled, rates, simulate, unverified
from brickyard.analysis.figures.latency import together
from brickyard.analysis.figures.samples import sample
from brickyard.analysis.figures.totals import totals, waited
from brickyard.analysis.judging.answers import Answer
from brickyard.analysis.judging.models import modelled_words
from brickyard.bricks.resolved import Resolved
from brickyard.errors import BadInputError
from brickyard.reading import parsed_bytes
from brickyard.schema.plan import Plan
from brickyard.store import Record

LEVELS = (*parts.LEVELS, *parts.ZFS_LEVELS)
CONDITIONS = (*buy.CONDITIONS, "write_cache_off")
DEFAULT_CONDITIONS = buy.CONDITIONS
FIGURES = (*rulers.RATES, *rulers.TIMES, *rulers.SHARES)
REQUIREMENT = re.compile(rf"({'|'.join(map(re.escape, FIGURES))})\s*(<=|>=)\s*[\w.%/]{{1,20}}")
WHAT_IF_REQUESTS = 4_000
"""Of each prediction: ten samples lie beyond its p99 four times over, and a run of them is modelled in a fraction of a
second."""
WHAT_IF_S = (2.0, 120.0)
"""Virtual seconds of one prediction, at least and at most."""
DRAWS = 3
"""Predictions with seeds of their own, which give the interval."""
BUDGET_S = 1.6
"""Time on the wall after which no further draw begins, so that an answer comes within 2 s."""
ADVICE_MOST = 60
"""Bricks that are simulated at the most for one question from a page."""


class BrickRow(msgspec.Struct, frozen=True):
    """A brick in a list."""

    name: str
    kind: str
    title: str
    level: str
    members: int
    capacity_bytes: int


class BrickSheet(msgspec.Struct, frozen=True):
    """A brick with everything that is known of it: the texts say where each value comes from."""

    row: BrickRow
    brick: dict[str, Any]
    texts: dict[str, str]


def names() -> list[str]:
    """Of all bricks and single drives; controllers alone store nothing."""
    return [place.split("/", 1)[1] for place in bricks.texts() if not place.startswith("controllers/")]


def rows() -> list[BrickRow]:
    places = [place for place in bricks.texts() if not place.startswith("controllers/")]
    return [_row(place, bricks.resolve(place.split("/", 1)[1], [])) for place in places]


def _row(place: str, found: Resolved) -> BrickRow:
    kind = "own" if place.startswith("files/") else place.split("/", 1)[0].removesuffix("s")
    brick = found.brick
    return BrickRow(brick.name, kind, brick.title, brick.level, brick.members, found.capacity_bytes)


def _known(name: str) -> str:
    if name not in names():
        raise BadInputError("no such brick; choose one of the list")
    return name


def sheet(name: str) -> BrickSheet:
    place = next(place for place in bricks.texts() if place.split("/", 1)[1] == _known(name))
    found = bricks.describe(name)
    return BrickSheet(_row(place, bricks.resolve(name)), found.brick, found.texts)


def drives() -> list[str]:
    return [place.split("/", 1)[1] for place in bricks.texts() if place.startswith("drives/")]


def workloads() -> list[str]:
    """Shipped profiles that a model carries: neither programs over files nor chains of requests."""
    return [name for name in profiles.names() if _is_simple(name)]


def _is_simple(name: str) -> bool:
    plan = profiles.validate(profiles.read(name), [])
    streams = [stream for phase in plan.phase for stream in phase.stream]
    return len(plan.phase) == 1 and bool(streams) and not any(s.chain or s.program for s in streams)


def _workload(name: str) -> str:
    if name not in profiles.names():
        raise BadInputError("no such profile; choose one of the list")
    return name


@dataclass(frozen=True)
class WhatIf:
    """A change of a brick; None leaves as it is."""

    name: str
    workload: str
    level: str | None = None
    members: int | None = None
    cache_mib: int | None = None
    drive: str | None = None
    condition: str = "normal"

    @property
    def changes(self) -> list[str]:
        found = [
            f'level="{self.level}"' if self.level else "",
            f"members={self.members}" if self.members is not None else "",
            f'controller.cache_bytes="{self.cache_mib}MiB"' if self.cache_mib is not None else "",
            f'drive="{self.drive}"' if self.drive else "",
        ]
        return [change for change in found if change]


class Prediction(msgspec.Struct, frozen=True):
    """What a brick does with a workload: the centre of several draws with their 95 % interval. That is None where one
    alone was modelled in the time that there was, and where all were equal."""

    iops: float
    iops_low: float | None
    iops_high: float | None
    mib_per_s: float
    response_mean_ns: float
    response_low_ns: float | None
    response_high_ns: float | None
    response_p99_ns: float | None
    draws: int
    virtual_s: float
    warmup_s: float
    """Before anything counts: caches are filled first where the workload writes."""


class WhatIfAnswer(msgspec.Struct, frozen=True):
    """A brick as it is and as it would be, with the time that both predictions took."""

    before: Prediction
    after: Prediction
    changes: list[str]
    capacity_before_bytes: int
    capacity_after_bytes: int
    belief: str
    """What a run of the model says of its figures, too."""
    took_s: float


def what_if(asked: WhatIf) -> WhatIfAnswer:
    """Raises BadInputError with the core's words where there is no such brick."""
    began = time.monotonic()
    _known(asked.name)
    _workload(asked.workload)
    if asked.level is not None and asked.level not in LEVELS:
        raise BadInputError(f"level: there are {', '.join(LEVELS)}")
    if asked.drive is not None and asked.drive not in drives():
        raise BadInputError("no such drive; choose one of the list")
    if asked.condition not in CONDITIONS:
        raise BadInputError(f"condition: there are {', '.join(CONDITIONS)}")
    plan = profiles.validate(profiles.read(asked.workload), unverified(asked.workload))
    plan = predict.one_phase(plan, None)
    sides = [_capacity(asked, []), _capacity(asked, asked.changes)]  # refused before anything is modelled
    half_s = BUDGET_S / 2
    before, of_before = _predicted(asked, plan, [], began + half_s)
    after, of_after = before, of_before
    if asked.changes:
        after, of_after = _predicted(asked, plan, asked.changes, began + BUDGET_S)
    belief = " ".join(modelled_words([of_before, of_after]))
    return WhatIfAnswer(before, after, asked.changes, sides[0], sides[1], belief, time.monotonic() - began)


def _capacity(asked: WhatIf, changes: list[str]) -> int:
    return bricks.resolve(asked.name, [*changes, bricks.condition_override(asked.condition)]).capacity_bytes


def _predicted(asked: WhatIf, plan: Plan, changes: list[str], until_s: float) -> tuple[Prediction, Record]:
    """With the record of one of its draws."""
    brick = Brick(asked.name)
    resolved = brick.resolve([*changes, bricks.condition_override(asked.condition)]).brick
    overrides = [*changes, *dearest(asked.condition, resolved, changes)]
    loaded = filled(plan, resolved)
    least_s, most_s = WHAT_IF_S

    def draw(length_s: float, number: int) -> Record:
        drawn = msgspec.structs.replace(predict.for_time(loaded, length_s), seed=plan.seed + number)
        return simulate(drawn, brick, asked.condition, overrides)

    record = draw(least_s, 0)
    length_s = min(most_s, max(least_s, WHAT_IF_REQUESTS / max(rates(record)[0], 1e-9)))
    found = [_drawn(draw(length_s, 0) if length_s > least_s else record)]
    while len(found) < DRAWS and time.monotonic() < until_s:
        found.append(_drawn(draw(length_s, len(found))))
    iops, means = sample([one[0] for one in found]), sample([one[2] for one in found])
    moved = sample([one[1] for one in found])
    if iops is None or means is None or moved is None:
        raise BadInputError("no request was completed; choose another workload")
    # Where chance plays no part, equal draws are no interval.
    is_fixed = len({one[:3] for one in found}) == 1
    tails = [one[3] for one in found if one[3] is not None]
    tail = sample(tails) if len(tails) == len(found) else None
    said = Prediction(
        iops=iops.centre,
        iops_low=None if is_fixed else iops.low,
        iops_high=None if is_fixed else iops.high,
        mib_per_s=moved.centre / (1 << 20),
        response_mean_ns=means.centre,
        response_low_ns=None if is_fixed else means.low,
        response_high_ns=None if is_fixed else means.high,
        response_p99_ns=tail.centre if tail else None,
        draws=len(found),
        virtual_s=length_s,
        warmup_s=max(phase.warmup.ns for phase in loaded.phase) / 1e9,
    )
    return said, record


def _drawn(record: Record) -> tuple[float, float, float, float | None]:
    iops, bytes_per_s = rates(record)
    times = [row.response for row in waited(record, totals(record)) if row.response]
    whole = together(times)
    return iops, bytes_per_s, whole.mean_ns if whole else 0.0, whole.p99 if whole else None


@dataclass(frozen=True)
class AdviceAsked:
    """What is to be bought. Requirements are thresholds as `--require` takes them, such as `p99<=20ms`."""

    workload: str
    require: tuple[str, ...]
    capacity: str = ""
    budget_usd: float | None = None
    fastest: bool = False
    conditions: tuple[str, ...] = buy.CONDITIONS


@dataclass(frozen=True)
class Advised:
    answer: Answer
    found: buy.Found
    picture: str
    """Cost against rate as SVG; empty where nothing with a price was simulated."""
    conditions: tuple[str, ...]
    throughput: bool
    unpriced: list[str]
    assumptions: list[str]
    years: float
    """The time over which costs are summed."""


def advise(asked: AdviceAsked) -> Advised:
    """The cheapest or the fastest brick that meets the requirements in every condition, as `advise buy` finds it."""
    _workload(asked.workload)
    for word in asked.require:
        if word not in rulers.names() and not REQUIREMENT.fullmatch(word):
            raise BadInputError(f"requirement {word!r}: write for example p99<=20ms or iops>=500, or name an SLO")
    if not asked.require:
        raise BadInputError("name at least one requirement, such as p99<=20ms")
    if unknown := sorted(set(asked.conditions) - set(CONDITIONS)):
        raise BadInputError(f"condition {unknown[0]}: there are {', '.join(CONDITIONS)}")
    if asked.budget_usd is not None and not 0 <= asked.budget_usd < float("inf"):
        raise BadInputError("the budget must be 0 USD or more")
    if asked.capacity.strip().isdigit():
        raise BadInputError(f"capacity {asked.capacity}: of what? write {asked.capacity}GB or {asked.capacity}TB")
    plan = buy.plan_of(asked.workload, unverified(asked.workload))
    wanted = buy.Wanted(
        plan=plan,
        rulers=tuple(rulers.read(word) for word in asked.require),
        conditions=asked.conditions or buy.CONDITIONS,
        capacity_bytes=parsed_bytes(asked.capacity, "capacity") if asked.capacity else 0,
        budget_usd=asked.budget_usd,
    )
    chosen = parts.read(())
    unpriced = [] if asked.fastest and asked.budget_usd is None else chosen.unpriced()
    levels = buy.default_levels(wanted.conditions)
    among = candidates(chosen, levels, MEMBERS, wanted.conditions, capacity_bytes=wanted.room_bytes, plan=plan)
    fitting = [one for one in among if (one.usd is not None or not unpriced) and buy.is_worth_it(one, wanted)]
    if not fitting:
        raise BadInputError(f"none of {len(among)} bricks has a price, fits the budget and has the capacity")
    found = buy.search(
        fitting,
        lambda candidate: buy.evaluate(candidate, wanted),
        fastest=asked.fastest,
        throughput=wanted.throughput,
        enough=4,
        most=ADVICE_MOST,
        cores=os.cpu_count() or 1,
        progress=lambda _done, _total: None,
    )
    from brickyard.report.advice import cost_against_rate  # loading what draws takes longer than all the rest

    picture = cost_against_rate(found, throughput=wanted.throughput, required=wanted.required_rate)
    svg = picture.svg if picture else ""
    told = advice(found, wanted, fastest=asked.fastest)
    assumed = assumptions(found, wanted)
    return Advised(told, found, svg, tuple(wanted.conditions), wanted.throughput, unpriced, assumed, wanted.terms.years)


def requirements() -> Sequence[str]:
    """The names of shipped SLOs."""
    return rulers.names()

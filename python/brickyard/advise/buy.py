"""Duty: of the bricks that can be put together from parts, the cheapest or the fastest that meets the rulers.

Refusal: nothing counts that was not simulated, and a part without a price is in no ranking by cost. A brick meets the
rulers when it does so in every condition that was asked for and that it can be in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from msgspec import structs

from brickyard import profiles
from brickyard.advise.candidates import Candidate
from brickyard.advise.costs import HOURS_A_YEAR, TERMS, Terms
from brickyard.advise.lasting import Lasted, looked_at, until_it_holds, without_amount
from brickyard.advise.lifetime import (
    FailureRate,
    assumed_rebuild_hours,
    data_loss_hours,
    failures_of,
    rebuild_hours,
    unreadable,
)
from brickyard.advise.parts import LEVELS, ZFS_LEVELS
from brickyard.advise.simulate import Carrier, dearest, fill_s, filled, here, rates, simulate
from brickyard.analysis.figures.background import rebuild_pace
from brickyard.analysis.figures.ramp import steps
from brickyard.analysis.judging.verdict import Finding, Verdict, verdict, verdict_document
from brickyard.bricks import condition_override, fitted
from brickyard.bricks.caps import NO_CAPS, Caps, caps_of
from brickyard.bricks.spread import Spread, kind_of, spread_of
from brickyard.profiles.room import used_bytes
from brickyard.rulers import Ruler
from brickyard.schema import Document, Duration
from brickyard.schema.operations import writes
from brickyard.schema.plan import Phase, Plan
from brickyard.store import Record

REDUNDANT = ("raid1", "raid5", "raid6", "raid10")
CONDITIONS = ("normal", "degraded", "rebuilding")
UNREBUILT = {"normal", "write_cache_on", "write_cache_off"}
BATCH = 4  # the same on every machine, so that the same bricks are simulated whatever the number of cores
RISKY = 0.01
"""A chance of data loss over the time of the costs above this is said first, and ranks a brick behind others."""
ASIDE = (2, 3)
"""Counts so far below the least that meets the rulers are tried as well, as some counts are slower than fewer."""
A_DOLLAR = 1.0  # prices that are this near may be shown as one, and then what is known of them decides
NO_FASTER = 1.01  # a round of smaller counts that brings no family more than this ends a search for the fastest


@dataclass(frozen=True)
class State:
    """What a candidate does in one condition."""

    iops: float
    bytes_per_s: float
    verdicts: tuple[Verdict, ...]
    simulated_s: float = 0.0
    """Virtual time, warm-up included."""
    holds: bool = True
    """Whether the rate no longer fell at the end of it."""

    @property
    def met(self) -> bool:
        return all(found.passed for found in self.verdicts)

    @property
    def failing(self) -> list[Finding]:
        return [finding for found in self.verdicts for finding in found.findings if not finding.passed]

    @property
    def decided(self) -> Finding:
        return min((found.decided for found in self.verdicts), key=lambda finding: finding.rank)


@dataclass(frozen=True)
class Trial:
    """A candidate with its figures; conditions after the first that fails are not simulated."""

    candidate: Candidate
    capacity_bytes: int
    rebuild_hours: float | None
    data_loss_years: float | None
    states: dict[str, State]
    met: bool
    failures: FailureRate | None = None
    spread: Spread | None = None
    kind: str = "rotating"
    """Of storage, as `spread.kind_of` has it."""
    caps: Caps = NO_CAPS
    """What its rates can be at most."""
    rebuild_is_simulated: bool = False
    """Whether the time of a rebuild is that of the simulated rebuild beside this workload, and not assumed."""
    of_fit: str | None = None
    """What is known of a model that was fitted, which has no spread."""
    loss_chance: float | None = None
    """Of losing data within the time over which costs are summed."""

    def ends(self, state: State, *, throughput: bool) -> tuple[float, float] | None:
        """The models' interval around a rate."""
        if self.spread is None:
            return None
        return self.spread.ends(*self._with_cap(state, throughput=throughput))

    def is_capped(self, state: State, *, throughput: bool) -> bool:
        """Whether a cap of the storage ends that interval."""
        return self.spread is not None and self.spread.is_capped(*self._with_cap(state, throughput=throughput))

    def _with_cap(self, state: State, *, throughput: bool) -> tuple[float, float | None]:
        if throughput:
            return state.bytes_per_s, self.caps.bytes_per_s
        return state.iops, self.caps.requests_per_s

    @property
    def unknowns(self) -> int:
        """How much of it is not known: a chance of data loss that nobody states, and a price that is assumed."""
        return (self.loss_chance is None) + bool(self.candidate.assumed_prices)

    @property
    def is_risky(self) -> bool:
        return self.loss_chance is not None and self.loss_chance > RISKY

    def rate(self, *, throughput: bool) -> float:
        """In the worst condition."""
        return min((s.bytes_per_s if throughput else s.iops for s in self.states.values()), default=0.0)

    @property
    def head_room(self) -> float:
        """The least of all conditions."""
        return min((state.decided.head_room or 0.0 for state in self.states.values()), default=0.0)

    @property
    def is_sure(self) -> bool:
        """Whether the requirements are met at the worse end of the models' interval too."""
        return self.met and self.holds and self.spread is not None and self.head_room >= self.spread.factor

    @property
    def holds(self) -> bool:
        """Whether no rate was still falling at the end of its simulation."""
        return all(state.holds for state in self.states.values())

    def document(self) -> Document:
        made = self.candidate
        return {
            "name": made.name,
            "drive": made.drive.name,
            "controller": made.keeper.name,
            "controllers": made.controllers,
            "level": made.level,
            "members": made.members,
            "provisioned": made.setting_words or None,
            "usd": made.usd,
            "usd_a_month": made.usd_a_month,
            "watts": made.watts,
            "cost_usd": made.cost_usd,
            "prices": [
                {"name": p.name, "usd": p.usd, "dated": p.dated, "source": p.source, "assumed": p.is_assumed}
                for p in made.parts
            ],
            "capacity_bytes": self.capacity_bytes,
            "rebuild_hours": self.rebuild_hours,
            "rebuild_is_simulated": self.rebuild_is_simulated,
            "mean_time_to_data_loss_years": self.data_loss_years,
            "data_loss_chance": self.loss_chance,
            "annual_failures": self.failures.a_year if self.failures else None,
            "annual_failures_from": self.failures.source if self.failures else None,
            "met": self.met,
            "met_within_interval": self.is_sure,
            "interval_factor": self.spread.factor if self.spread else None,
            "conditions": {
                name: {
                    "iops": state.iops,
                    "bytes_per_s": state.bytes_per_s,
                    **_ends(self, state),
                    "met": state.met,
                    "simulated_s": state.simulated_s,
                    "rate_holds": state.holds,
                    "verdicts": [verdict_document(found) for found in state.verdicts],
                }
                for name, state in self.states.items()
            },
        }


def _ends(trial: Trial, state: State) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, throughput in (("iops", False), ("bytes_per_s", True)):
        if (ends := trial.ends(state, throughput=throughput)) is not None:
            found |= {f"{name}_low": ends[0], f"{name}_high": ends[1]}
    return found


@dataclass(frozen=True)
class Wanted:
    """What the user asks for."""

    plan: Plan
    rulers: tuple[Ruler, ...]
    conditions: tuple[str, ...] = CONDITIONS
    capacity_bytes: int = 0
    """What was asked for."""
    budget_usd: float | None = None
    mttf_hours: float = 0.0
    """Of every drive; 0: by its class, or as a file of prices has it."""
    is_timed: bool = False
    """Whether the plan's times are those of the user; else each condition is simulated until its rate holds."""
    terms: Terms = TERMS
    sure: bool = False
    """Whether requirements are to be met at the worse end of the models' interval too."""

    @property
    def room_bytes(self) -> int:
        """The least that a brick has to hold: what was asked for, and what the workload says that it uses."""
        return max(self.capacity_bytes, used_bytes(self.plan))

    @property
    def required_rate(self) -> float | None:
        """The highest rate that is asked of the whole load, in the unit by which bricks are compared."""
        figure = "throughput" if self.throughput else "iops"
        asked = [r for ruler in self.rulers for r in ruler.requirements if r.figure == figure]
        return max((r.threshold for r in asked if r.operation is None and r.stream is None), default=None)

    @property
    def writes(self) -> bool:
        return any(writes(stream) for phase in self.plan.phase for stream in phase.stream)

    @property
    def throughput(self) -> bool:
        """Whether the first requirement is one of bytes, so that bricks are compared by bytes."""
        return self.rulers[0].requirements[0].figure == "throughput"


def plan_of(profile: str, overrides: list[str], duration: str | None = None) -> Plan:
    """The load of a search, for the time that is asked for, if any; a ramp ends by itself, at its limit."""
    length = [f"duration={duration}"] if duration else []
    plan = profiles.changed(profiles.read(profile), overrides, own=length)
    return structs.replace(plan, phase=[without_amount(phase) for phase in plan.phase]) if length else plan


def is_worth_it(candidate: Candidate, wanted: Wanted) -> bool:
    """Whether capacity and budget allow it, before anything is simulated."""
    usd = candidate.cost_usd
    within = wanted.budget_usd is None or (usd is not None and usd <= wanted.budget_usd)
    return within and candidate.capacity_bytes >= wanted.room_bytes


def conditions_of(candidate: Candidate, wanted: Wanted) -> tuple[str, ...]:
    """A provider keeps the copies of a volume and shows no rebuild: it is in no other condition than normal."""
    return ("normal",) if candidate.drive.volume else wanted.conditions


def evaluate(candidate: Candidate, wanted: Wanted, carry: Carrier = here) -> Trial:
    """Simulates one condition after the other until one fails."""
    brick = candidate.resolved.brick
    asked = conditions_of(candidate, wanted)
    kind, of_fit = kind_of(brick, wanted.plan), fitted.words(candidate.resolved.texts, wanted.plan)
    states: dict[str, State] = {}
    repair = assumed_rebuild_hours(brick, writes=wanted.writes)
    is_simulated = False
    for condition in asked:
        lasted = _simulated(candidate, condition, wanted, carry)
        iops, bytes_per_s = rates(lasted.record)
        states[condition] = State(iops, bytes_per_s, _judged(lasted.record, wanted), lasted.seconds, holds=lasted.holds)
        if condition == "rebuilding" and (pace := rebuild_pace(lasted.record)):
            repair, is_simulated = rebuild_hours(brick, pace), True
        if not states[condition].met:
            break
    failures, hours = _lasts(candidate, wanted, repair)
    found = Trial(
        candidate,
        candidate.capacity_bytes,
        repair,
        None if hours is None else hours / HOURS_A_YEAR,
        states,
        len(states) == len(asked) and all(state.met for state in states.values()),
        failures,
        None if of_fit else spread_of(kind),
        kind,
        caps_of(brick, wanted.plan),
        is_simulated,
        of_fit,
        None if hours is None else -math.expm1(-wanted.terms.years * HOURS_A_YEAR / hours),
    )
    if wanted.sure and found.met and not found.is_sure:
        return replace(found, met=False)
    return found


def _judged(record: Record, wanted: Wanted) -> tuple[Verdict, ...]:
    return tuple(verdict(record, ruler) for ruler in wanted.rulers)


def _simulated(candidate: Candidate, condition: str, wanted: Wanted, carry: Carrier) -> Lasted:
    """A ramp is run to its end, and then its highest step within its limit by itself: that is what is judged."""
    state = candidate.brick.resolve([condition_override(condition)]).brick
    changes = dearest(condition, state)

    def run(plan: Plan) -> Record:
        return simulate(filled(plan, state), candidate.brick, condition, changes, carry)

    plan = wanted.plan
    if any(phase.ramp for phase in plan.phase):
        ramped = run(plan)
        plan = structs.replace(
            plan, phase=[_at_best_step(ramped, number, phase) for number, phase in enumerate(plan.phase)]
        )
    if wanted.is_timed:
        return looked_at(run(plan))
    fill = fill_s(state) if wanted.writes else 0
    return until_it_holds(run, plan, fill, lambda record: all(found.passed for found in _judged(record, wanted)))


STEP_S = 30
"""How long the highest step of a ramp is simulated by itself."""


def _at_best_step(record: Record, number: int, phase: Phase) -> Phase:
    if phase.ramp is None:
        return phase
    found = [step for step in steps(record) if step.phase == number]
    kept = [step for step in found if step.within is not False] or found[:1]
    best = max(kept, key=lambda step: step.iops)
    streams = [
        structs.replace(stream, **{best.knob: max(1, round(best.value))})
        if best.knob in ("workers", "depth")
        else stream
        for stream in phase.stream
    ]
    return structs.replace(phase, ramp=None, stream=streams, duration=Duration(STEP_S * 1_000_000_000))


def _lasts(candidate: Candidate, wanted: Wanted, repair: float | None) -> tuple[FailureRate | None, float | None]:
    """What fails how often, and the mean time to data loss in hours."""
    failures = _failures(candidate, wanted)
    if failures is None or failures.a_year <= 0 or (candidate.level in REDUNDANT + ZFS_LEVELS and repair is None):
        return failures, None
    share = unreadable(candidate.drive_bytes, candidate.drive.bits_per_read_error)
    level, members = candidate.level, candidate.members
    return failures, data_loss_hours(level, members, failures.mttf_hours, repair or 0, share)


def _failures(candidate: Candidate, wanted: Wanted) -> FailureRate | None:
    drive = candidate.drive
    if wanted.mttf_hours:
        return FailureRate(HOURS_A_YEAR / wanted.mttf_hours, f"drives fail after {wanted.mttf_hours:,.0f} h, as given")
    if drive.annual_failures is not None:
        source = drive.failures_from or "as the file of prices has it"
        return FailureRate(drive.annual_failures, f"{drive.name}: {drive.annual_failures:.3%} a year ({source})")
    return failures_of(candidate.drive_kind, candidate.drive_bytes)


@dataclass(frozen=True)
class Found:
    """`trials` in the order in which they were simulated; `ranked` meet the rulers, best first, one of each family."""

    trials: list[Trial]
    ranked: list[Trial]
    left_out: int
    is_complete: bool = True
    """Whether the search ended by itself, and not because it may simulate no more."""


class _Family:
    """Candidates that differ by their size alone, the cheapest first. A larger one is taken to be no slower: the least
    that meets the rulers is found by doubling and halving, and a few below it are tried all the same."""

    def __init__(self, items: list[Candidate]) -> None:
        self.items = sorted(items, key=_by_cost)
        self.trials: dict[int, Trial] = {}

    @property
    def high(self) -> int | None:
        return min((number for number, trial in self.trials.items() if trial.met), default=None)

    @property
    def low(self) -> int:
        """The first that may be the least."""
        high = self.high
        failed = [n for n, trial in self.trials.items() if not trial.met and (high is None or n < high)]
        return max(failed, default=-1) + 1

    def probe(self) -> int | None:
        """The next to simulate, None where the family is settled."""
        low, high = self.low, self.high
        if high is None:
            return min(len(self.items) - 1, max(0, 2 * low - 1)) if low < len(self.items) else None
        if low < high:
            return (low + high) // 2
        aside = next((high - n for n in ASIDE if high >= n and high - n not in self.trials), None)
        return self._further_copy() if aside is None else aside

    def _further_copy(self) -> int | None:
        """A mirror of more copies loses data less often; of other levels, a larger brick does so more often."""
        last = max(self.trials)
        is_mirror = self.items[last].level == "raid1" and last + 1 < len(self.items)
        return last + 1 if is_mirror and all(t.is_risky for t in self.trials.values() if t.met) else None

    def least_usd(self) -> float:
        """No candidate of the family that meets the rulers is cheaper."""
        return self.items[min(self.low, len(self.items) - 1)].cost_usd or 0.0

    @property
    def best_usd(self) -> float | None:
        """Of those that meet the rulers and keep data."""
        kept = [number for number, trial in self.trials.items() if trial.met and not trial.is_risky]
        return self.items[min(kept)].cost_usd or 0.0 if kept else None


def _by_cost(candidate: Candidate) -> tuple[bool, float, int, str]:
    usd = candidate.cost_usd
    return (usd is None, usd or 0.0, candidate.members, candidate.name)


def search(
    among: Sequence[Candidate],
    trial_of: Callable[[Candidate], Trial],
    *,
    fastest: bool,
    throughput: bool,
    enough: int,
    most: int,
    cores: int,
    progress: Callable[[int, int], None],
) -> Found:
    """The cheapest: families in the order of what they may cost, each until its least that meets the rulers is known,
    until no other family can be among the `enough` cheapest. The fastest: the largest of each family, then smaller
    ones while that makes any faster. What may well lose data comes last. `most` bounds either."""
    grouped: dict[object, list[Candidate]] = {}
    for candidate in among:
        grouped.setdefault(candidate.family, []).append(candidate)
    families = sorted((_Family(items) for items in grouped.values()), key=lambda f: _by_cost(f.items[0]))
    trials: list[Trial] = []
    bound = min(most, len(among))
    choose = _Fastest(families, throughput=throughput) if fastest else _Cheapest(families, enough)
    with ThreadPoolExecutor(max_workers=cores) as pool:
        try:
            while len(trials) < bound and (batch := choose.batch()[: bound - len(trials)]):
                for (family, number), trial in zip(
                    batch, pool.map(trial_of, [f.items[n] for f, n in batch]), strict=True
                ):
                    family.trials[number] = trial
                    trials.append(trial)
                    progress(len(trials), bound)
            is_complete = not choose.batch()
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise

    def rank(trial: Trial) -> tuple[bool, float, int, float, str]:
        """What is alike as it is shown stands in the order of what is known of it."""
        usd, rate = trial.candidate.dollars, -trial.rate(throughput=throughput)
        shown, other = (float(f"{rate:.3g}"), usd) if fastest else (usd, rate)
        return (trial.is_risky, shown, trial.unknowns, other, trial.candidate.name)

    best = [min(met, key=rank) for family in families if (met := [t for t in family.trials.values() if t.met])]
    return Found(trials, sorted(best, key=rank)[:enough], len(among) - len(trials), is_complete)


Probes = list[tuple[_Family, int]]


class _Cheapest:
    def __init__(self, families: list[_Family], enough: int) -> None:
        self.families, self.enough = families, enough

    def batch(self) -> Probes:
        """Of the families that may still be among the cheapest those that may cost the least; empty when it is
        known."""
        settled = sorted(f.best_usd for f in self.families if f.probe() is None and f.best_usd is not None)
        beyond = settled[self.enough - 1] if len(settled) >= self.enough else float("inf")
        open_ = [f for f in self.families if f.probe() is not None and f.least_usd() < beyond + A_DOLLAR]
        chosen = sorted(open_, key=lambda f: f.least_usd())[:BATCH]
        return [(family, number) for family in chosen if (number := family.probe()) is not None]


class _Fastest:
    def __init__(self, families: list[_Family], *, throughput: bool) -> None:
        self.families, self.throughput, self.depth = families, throughput, 0
        self.pending: Probes = []
        self.best: list[float] = []

    def batch(self) -> Probes:
        if not self.pending:
            found = [
                max((t.rate(throughput=self.throughput) for t in f.trials.values()), default=0.0) for f in self.families
            ]
            no_faster = self.depth > 1 and all(
                now <= NO_FASTER * old for now, old in zip(found, self.best, strict=True)
            )
            self.best = found
            self.pending = [] if no_faster else self._round()
        batch, self.pending = self.pending[:BATCH], self.pending[BATCH:]
        return batch

    def _round(self) -> Probes:
        self.depth += 1
        last = [(f, len(f.items) - self.depth) for f in self.families if len(f.items) >= self.depth]
        return sorted(last, key=lambda item: _by_cost(item[0].items[item[1]]), reverse=True)


def default_levels(conditions: Sequence[str]) -> tuple[str, ...]:
    """A level without redundancy cannot be rebuilt: it is no answer where that was asked for."""
    return LEVELS if set(conditions) <= UNREBUILT else REDUNDANT

"""Duty: of the bricks that can be put together from parts, the cheapest or the fastest that meets the rulers.

Refusal: nothing counts that was not simulated, and a part without a price is in no ranking by cost. A brick meets the
rulers when it does so in every condition that was asked for and that it can be in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from msgspec import structs

from brickyard import profiles
from brickyard.advise.candidates import Candidate
from brickyard.advise.costs import TERMS, Terms
from brickyard.advise.lifetime import HOURS_A_YEAR, FailureRate, data_loss_hours, failures_of, rebuild_hours, unreadable
from brickyard.advise.parts import LEVELS, ZFS_LEVELS
from brickyard.advise.simulate import Carrier, dearest, filled, here, rates, simulate
from brickyard.analysis.ramp import steps
from brickyard.analysis.verdict import Finding, Verdict, verdict, verdict_document
from brickyard.bricks import condition_override
from brickyard.bricks.spread import Spread, spread_of
from brickyard.rulers import Ruler
from brickyard.schema import Document, Duration
from brickyard.schema.plan import Phase, Plan
from brickyard.store import Record

REDUNDANT = ("raid1", "raid5", "raid6", "raid10")
CONDITIONS = ("normal", "degraded", "rebuilding")
UNREBUILT = {"normal", "write_cache_on", "write_cache_off"}
BATCH = 4  # the same on every machine, so that the same bricks are simulated whatever the number of cores
DURATION = "10s"
ASIDE = (2, 3)
"""Counts so far below the least that meets the rulers are tried as well, as some counts are slower than fewer."""
NO_FASTER = 1.01  # a round of smaller counts that brings no family more than this ends a search for the fastest


@dataclass(frozen=True)
class State:
    """What a candidate does in one condition."""

    iops: float
    bytes_per_s: float
    verdicts: tuple[Verdict, ...]

    @property
    def met(self) -> bool:
        return all(found.passed for found in self.verdicts)

    @property
    def failing(self) -> list[Finding]:
        return [finding for found in self.verdicts for finding in found.findings if not finding.passed]

    @property
    def decided(self) -> Finding:
        return min(
            (found.decided for found in self.verdicts), key=lambda f: (f.passed, f.head_room if f.head_room else 0.0)
        )


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
        return self.met and self.spread is not None and self.head_room >= self.spread.factor

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
            "mean_time_to_data_loss_years": self.data_loss_years,
            "annual_failures": self.failures.a_year if self.failures else None,
            "annual_failures_from": self.failures.source if self.failures else None,
            "met": self.met,
            "met_within_interval": self.is_sure,
            "interval_factor": self.spread.factor if self.spread else None,
            "conditions": {
                name: {
                    "iops": state.iops,
                    "bytes_per_s": state.bytes_per_s,
                    **(_ends(self.spread, state) if self.spread else {}),
                    "met": state.met,
                    "verdicts": [verdict_document(found) for found in state.verdicts],
                }
                for name, state in self.states.items()
            },
        }


def _ends(spread: Spread, state: State) -> dict[str, float]:
    (low, high), (least, most) = spread.ends(state.iops), spread.ends(state.bytes_per_s)
    return {"iops_low": low, "iops_high": high, "bytes_per_s_low": least, "bytes_per_s_high": most}


@dataclass(frozen=True)
class Wanted:
    """What the user asks for."""

    plan: Plan
    rulers: tuple[Ruler, ...]
    conditions: tuple[str, ...] = CONDITIONS
    capacity_bytes: int = 0
    budget_usd: float | None = None
    mttf_hours: float = 0.0
    """Of every drive; 0: by its class, or as a file of prices has it."""
    writes: bool = False
    terms: Terms = TERMS
    sure: bool = False
    """Whether requirements are to be met at the worse end of the models' interval too."""

    @property
    def required_rate(self) -> float | None:
        """The highest rate that is asked of the whole load, in the unit by which bricks are compared."""
        figure = "throughput" if self.throughput else "iops"
        asked = [r for ruler in self.rulers for r in ruler.requirements if r.figure == figure]
        return max((r.threshold for r in asked if r.operation is None and r.stream is None), default=None)

    @property
    def throughput(self) -> bool:
        """Whether the first requirement is one of bytes, so that bricks are compared by bytes."""
        return self.rulers[0].requirements[0].figure == "throughput"


def plan_of(profile: str, overrides: list[str], duration: str | None = None) -> Plan:
    """The load of a search: for the time that is asked for, else a short one; a ramp ends by itself, at its limit."""
    whole = profiles.validate(profiles.read(profile), overrides)
    ends_itself = any(phase.ramp for phase in whole.phase)
    length = duration or ("" if ends_itself else DURATION)
    return profiles.validate(profiles.read(profile), [*([f"duration={length}"] if length else []), *overrides])


def is_worth_it(candidate: Candidate, wanted: Wanted) -> bool:
    """Whether capacity and budget allow it, before anything is simulated."""
    usd = candidate.cost_usd
    within = wanted.budget_usd is None or (usd is not None and usd <= wanted.budget_usd)
    return within and candidate.capacity_bytes >= wanted.capacity_bytes


def conditions_of(candidate: Candidate, wanted: Wanted) -> tuple[str, ...]:
    """A provider keeps the copies of a volume and shows no rebuild: it is in no other condition than normal."""
    return ("normal",) if candidate.drive.volume else wanted.conditions


def evaluate(candidate: Candidate, wanted: Wanted, carry: Carrier = here) -> Trial:
    """Simulates one condition after the other until one fails."""
    brick = candidate.resolved.brick
    asked = conditions_of(candidate, wanted)
    spread = spread_of(candidate.drive_kind)
    states: dict[str, State] = {}
    for condition in asked:
        record = _simulated(candidate, condition, wanted.plan, carry)
        iops, bytes_per_s = rates(record)
        states[condition] = State(iops, bytes_per_s, tuple(verdict(record, ruler) for ruler in wanted.rulers))
        if not states[condition].met:
            break
    repair = rebuild_hours(brick, writes=wanted.writes)
    failures, hours = _lasts(candidate, wanted, repair)
    met = len(states) == len(asked) and all(state.met for state in states.values())
    years = None if hours is None else hours / HOURS_A_YEAR
    found = Trial(candidate, candidate.capacity_bytes, repair, years, states, met, failures, spread)
    if wanted.sure and met and not found.is_sure:
        return replace(found, met=False)
    return found


def _simulated(candidate: Candidate, condition: str, plan: Plan, carry: Carrier) -> Record:
    """A ramp is run to its end, and then its highest step within its limit by itself: that is what is judged."""
    overrides = [condition_override(condition)]
    state = candidate.brick.resolve(overrides).brick
    changes = dearest(condition, state)
    record = simulate(filled(plan, state), candidate.brick, condition, changes, carry)
    if not any(phase.ramp for phase in plan.phase):
        return record
    held = structs.replace(
        plan, phase=[_at_best_step(record, number, phase) for number, phase in enumerate(plan.phase)]
    )
    return simulate(filled(held, state), candidate.brick, condition, changes, carry)


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
        return next((high - n for n in ASIDE if high >= n and high - n not in self.trials), None)

    def least_usd(self) -> float:
        """No candidate of the family that meets the rulers is cheaper."""
        return self.items[min(self.low, len(self.items) - 1)].cost_usd or 0.0

    @property
    def best_usd(self) -> float | None:
        return None if self.high is None else self.items[self.high].cost_usd or 0.0


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
    ones while that makes any faster. `most` bounds either."""
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
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise

    def rank(trial: Trial) -> tuple[float, float, str]:
        usd = trial.candidate.cost_usd if trial.candidate.cost_usd is not None else float("inf")
        rate = -trial.rate(throughput=throughput)
        return (rate, usd, trial.candidate.name) if fastest else (usd, rate, trial.candidate.name)

    best = [min(met, key=rank) for family in families if (met := [t for t in family.trials.values() if t.met])]
    return Found(trials, sorted(best, key=rank)[:enough], len(among) - len(trials))


Probes = list[tuple[_Family, int]]


class _Cheapest:
    def __init__(self, families: list[_Family], enough: int) -> None:
        self.families, self.enough = families, enough

    def batch(self) -> Probes:
        """Of the families that may still be among the cheapest those that may cost the least; empty when it is
        known."""
        settled = sorted(f.best_usd for f in self.families if f.probe() is None and f.best_usd is not None)
        beyond = settled[self.enough - 1] if len(settled) >= self.enough else float("inf")
        open_ = [f for f in self.families if f.probe() is not None and f.least_usd() <= beyond]
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

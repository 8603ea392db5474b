"""Duty: of the bricks that can be put together from parts, the cheapest or the fastest that meets the rulers.

Refusal: nothing counts that was not simulated, and a part without a price is in no ranking by price. A brick meets the
rulers when it does so in every condition that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

from brickyard.advise.lifetime import HOURS_A_YEAR, data_loss_hours, rebuild_hours, unreadable
from brickyard.advise.parts import LEVELS, Part, Parts
from brickyard.advise.simulate import Brick, Carrier, dearest, filled, here, rates, simulate
from brickyard.analysis.verdict import Finding, Verdict, verdict, verdict_document
from brickyard.bricks import condition_override
from brickyard.errors import BadInputError
from brickyard.rulers import Ruler
from brickyard.schema.plan import Plan
from brickyard.store import Json

REDUNDANT = ("raid1", "raid5", "raid6", "raid10")
STRIPED_OVER_CONTROLLERS = ("raid0", "raid10", "jbod")  # parity is kept by one controller, stripes of mirrors need none
MEMBERS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
CONDITIONS = ("normal", "degraded", "rebuilding")
UNREBUILT = {"normal", "write_cache_on", "write_cache_off"}
MOST_CONTROLLERS = 4
BATCH = 4  # the same on every machine, so that the same bricks are simulated whatever the number of cores


@dataclass(frozen=True)
class Candidate:
    """A brick that could be bought."""

    drive: Part
    keeper: Part
    level: str
    members: int
    controllers: int = 1
    software: bool = False

    @property
    def name(self) -> str:
        many = f"{self.controllers} × " if self.controllers > 1 else ""
        return f"{self.members} × {self.drive.name}, {self.level}, {many}{self.keeper.name}"

    @property
    def usd(self) -> float | None:
        if self.drive.usd is None or self.keeper.usd is None:
            return None
        return self.members * self.drive.usd + self.controllers * self.keeper.usd

    @property
    def brick(self) -> Brick:
        role = "software" if self.software else "controller"
        text = (
            f'title = "{self.name}"\ndrive = "{self.drive.name}"\n{role} = "{self.keeper.name}"\n'
            f'level = "{self.level}"\nmembers = {self.members}\ncontrollers = {self.controllers}\n'
        )
        return Brick("candidate", text)

    @cached_property
    def resolved(self) -> Json:
        return self.brick.resolve()


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

    def rate(self, *, throughput: bool) -> float:
        """In the worst condition."""
        return min((s.bytes_per_s if throughput else s.iops for s in self.states.values()), default=0.0)

    def document(self) -> Json:
        return {
            "name": self.candidate.name,
            "drive": self.candidate.drive.name,
            "controller": self.candidate.keeper.name,
            "controllers": self.candidate.controllers,
            "level": self.candidate.level,
            "members": self.candidate.members,
            "usd": self.candidate.usd,
            "capacity_bytes": self.capacity_bytes,
            "rebuild_hours": self.rebuild_hours,
            "mean_time_to_data_loss_years": self.data_loss_years,
            "met": self.met,
            "conditions": {
                name: {
                    "iops": state.iops,
                    "bytes_per_s": state.bytes_per_s,
                    "met": state.met,
                    "verdicts": [verdict_document(found) for found in state.verdicts],
                }
                for name, state in self.states.items()
            },
        }


@dataclass(frozen=True)
class Wanted:
    """What the user asks for."""

    plan: Plan
    rulers: tuple[Ruler, ...]
    conditions: tuple[str, ...] = CONDITIONS
    capacity_bytes: int = 0
    budget_usd: float | None = None
    mttf_hours: float = 0.0
    writes: bool = False

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


def candidates(
    parts: Parts, levels: Sequence[str], members: Sequence[int], conditions: Sequence[str]
) -> list[Candidate]:
    """Everything that fits together and that the core takes for a brick in these conditions."""
    found: list[Candidate] = []
    for drive in parts.drives:
        for keeper in parts.controllers:
            if drive.fits and keeper.fits and not set(drive.fits) & set(keeper.fits):
                continue
            software = _is_software(drive, keeper)
            for level in levels:
                for count in members if level in keeper.levels else ():
                    made = _fitting(Candidate(drive, keeper, level, count, software=software), conditions)
                    found += [made] if made is not None else []
    if not found:
        raise BadInputError("no drive of the parts fits a controller of them at these levels, counts and conditions")
    return found


def _is_software(drive: Part, keeper: Part) -> bool:
    try:
        return bool(Candidate(drive, keeper, "jbod", 1, software=True).resolved["brick"]["software"]["software"])
    except BadInputError:
        return False


def _fitting(candidate: Candidate, conditions: Sequence[str]) -> Candidate | None:
    """With as few controllers as have the ports; None where no number of them does or the level takes other counts."""
    spread = candidate.level in STRIPED_OVER_CONTROLLERS and not candidate.software
    pair = 2 if candidate.level == "raid10" else 1  # both arms of a mirror are on one controller
    for controllers in range(1, MOST_CONTROLLERS + 1 if spread else 2):
        if candidate.members % (controllers * pair):
            continue
        made = Candidate(
            candidate.drive, candidate.keeper, candidate.level, candidate.members, controllers, candidate.software
        )
        try:
            for condition in conditions:
                made.brick.resolve([condition_override(condition)])
        except BadInputError:
            continue
        return made
    return None


def is_worth_it(candidate: Candidate, wanted: Wanted) -> bool:
    """Whether capacity and budget allow it, before anything is simulated."""
    usd = candidate.usd
    within = wanted.budget_usd is None or (usd is not None and usd <= wanted.budget_usd)
    return within and int(candidate.resolved["capacity_bytes"]) >= wanted.capacity_bytes


def evaluate(candidate: Candidate, wanted: Wanted, carry: Carrier = here) -> Trial:
    """Simulates one condition after the other until one fails."""
    brick = candidate.resolved["brick"]
    repair = rebuild_hours(brick, writes=wanted.writes)
    states: dict[str, State] = {}
    for condition in wanted.conditions:
        state = candidate.brick.resolve([condition_override(condition)])["brick"]
        plan, changes = filled(wanted.plan, state), dearest(condition, state)
        record = simulate(plan, candidate.brick, condition, changes, carry)
        iops, bytes_per_s = rates(record)
        states[condition] = State(iops, bytes_per_s, tuple(verdict(record, ruler) for ruler in wanted.rulers))
        if not states[condition].met:
            break
    lossless = candidate.level in REDUNDANT and repair is None
    whole = float(Brick(candidate.drive.name).resolve()["capacity_bytes"])
    share = unreadable(whole, candidate.drive.bits_per_read_error)
    level, members = candidate.level, candidate.members
    hours = None if lossless else data_loss_hours(level, members, wanted.mttf_hours, repair or 0, share)
    return Trial(
        candidate,
        int(candidate.resolved["capacity_bytes"]),
        repair,
        None if hours is None else hours / HOURS_A_YEAR,
        states,
        len(states) == len(wanted.conditions) and all(state.met for state in states.values()),
    )


@dataclass(frozen=True)
class Found:
    """`trials` in the order in which they were simulated; `ranked` meet the rulers, best first."""

    trials: list[Trial]
    ranked: list[Trial]
    left_out: int


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
    """The cheapest: in the order of price until `enough` meet the rulers. The fastest: all of them, up to `most`, the
    dearest first, which are faster more often than not."""
    ordered = sorted(among, key=lambda c: (c.usd is None, c.usd or 0.0, c.name))
    if fastest:
        ordered.reverse()
    bounded = ordered[:most]
    trials: list[Trial] = []
    with ThreadPoolExecutor(max_workers=cores) as pool:
        try:
            for batch in _batches(bounded):
                trials += pool.map(trial_of, batch)
                progress(len(trials), len(bounded))
                if not fastest and sum(trial.met for trial in trials) >= enough:
                    break
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    met = [trial for trial in trials if trial.met]

    def rank(trial: Trial) -> tuple[float, float, str]:
        usd = trial.candidate.usd if trial.candidate.usd is not None else float("inf")
        rate = -trial.rate(throughput=throughput)
        return (rate, usd, trial.candidate.name) if fastest else (usd, rate, trial.candidate.name)

    return Found(trials, sorted(met, key=rank)[:enough], len(ordered) - len(trials))


def _batches(items: Sequence[Candidate]) -> Iterator[Sequence[Candidate]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]


def default_levels(conditions: Sequence[str]) -> tuple[str, ...]:
    """A level without redundancy cannot be rebuilt: it is no answer where that was asked for."""
    return LEVELS if set(conditions) <= UNREBUILT else REDUNDANT

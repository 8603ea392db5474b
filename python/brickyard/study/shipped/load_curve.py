"""Duty: the load curve of a profile: its maximum in a closed loop, then open-loop runs at shares of that rate.

A limit is searched between the levels (`analysis.figures.search`); each step is a run that begins with an idle target,
since the queue of a rate that was too high would lengthen the times of the next.

Refusal: no figure is computed here, and the streams stay what the profile says, but for their pace and depth.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from brickyard import bricks
from brickyard.advise.simulate import filled
from brickyard.analysis.figures.load_curve import CurvePoint, Limit, curve_point, step_of, stream_rates, usable
from brickyard.analysis.figures.search import (
    FIRST_FACTOR,
    NEXT_FACTOR,
    SEARCHES,
    Carried,
    Step,
    enough,
    searched,
)
from brickyard.bricks.resolved import ModelledBrick
from brickyard.errors import BadInputError, BrickyardError
from brickyard.schema import Document, Duration, RunOptions
from brickyard.schema.plan import Arrivals, ClosedPace, OpenPace, Phase, Plan, Stream
from brickyard.schema.titles import CHANGED, changes_in
from brickyard.store import Record, Store
from brickyard.store.record import RunMarks
from brickyard.study.running.caches import cache_bytes, into_caches
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Listener, Runner, RunResult, RunSpec
from brickyard.units import format_iops

LEVELS_PERCENT = tuple(range(10, 111, 10))
GROWTH = 1.25  # of the rates beyond the levels
STEP_GROWTH_MAX = 10  # times --each, of a step of the search on real storage; a model's time costs little
MODELLED_GROWTH_MAX = 1000
SHOWN = Limit("p99", 0)  # where nobody asked for a limit, this percentile should still be known
SAMPLES_MARGIN = 1.1  # Poisson arrivals: a thousand that are expected are seldom fewer than 900
DEPTH_MIN, DEPTH_MAX = (
    256,
    4096,
)  # in the open loop the pace must be the limit, not the slots; the core takes up to 4096
BUFFER_BYTES_MAX = 256 << 20  # of all slots together, where the profile itself asks for no more


@dataclass
class CurveResult:
    study: int
    runs: list[int] = field(default_factory=list)
    maximum_per_s: float = 0.0
    points: list[CurvePoint] = field(default_factory=list)
    searches: list[Carried] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    outcome: str = "done"
    message: str = ""


def one_phase(plan: Plan, name: str | None) -> Phase:
    """The phase whose curve is drawn: a curve has one load."""
    phases = plan.phase
    names = [phase.name or str(number) for number, phase in enumerate(phases, 1)]
    if name is None and len(phases) > 1:
        raise BadInputError(f"--phase: the profile has {len(phases)}, name one of {', '.join(names)}")
    if name is not None and name not in names:
        raise BadInputError(f"--phase {name}: no such phase; there are {', '.join(names)}")
    return phases[names.index(name) if name is not None else 0]


def closed_plan(plan: Plan, phase: Phase, each_ns: int) -> Plan:
    """The streams as fast as they go at the profile's depth."""
    streams = [replace(stream, pace=ClosedPace(), think=Duration(0)) for stream in phase.stream]
    return _bare(plan, phase, streams, each_ns)


def open_plan(plan: Plan, phase: Phase, each_ns: int, rates: dict[int, float]) -> Plan:
    """The streams at given rates, with Poisson arrivals and slots for a long queue."""
    streams = []
    for number, stream in enumerate(phase.stream):
        largest = max(item.size for item in stream.request)
        room = BUFFER_BYTES_MAX // (largest * stream.workers * len(phase.stream))
        depth = min(max(stream.depth, min(DEPTH_MIN, room)), DEPTH_MAX)
        pace = OpenPace(rate=rates[number], arrivals=Arrivals.POISSON)
        streams.append(replace(stream, pace=pace, think=Duration(0), depth=depth))
    return _bare(plan, phase, streams, each_ns)


def step_ns(each_ns: int, limit: Limit, rate_per_s: float, *, is_modelled: bool) -> int:
    """How long a step of the search measures, so that enough requests decide."""
    most_ns = each_ns * (MODELLED_GROWTH_MAX if is_modelled else STEP_GROWTH_MAX)
    wanted_ns = enough(limit.figure) * SAMPLES_MARGIN / rate_per_s * 1e9 if rate_per_s > 0 else 0.0
    return int(min(max(each_ns, wanted_ns), most_ns))


def _bare(plan: Plan, phase: Phase, streams: list[Stream], each_ns: int) -> Plan:
    """One phase of these streams, which time alone ends."""
    only = replace(
        phase,
        stream=streams,
        duration=Duration(each_ns),
        warmup=Duration(each_ns // 5),
        requests=None,
        bytes=None,
        passes=None,
        stop=None,
        steady=None,
        ramp=None,
    )
    return replace(plan, interval=Duration(max(each_ns // 10, 10_000_000)), phase=[only])


def _left_out(levels: tuple[int, ...], last: int) -> list[str]:
    """Which levels were not offered beyond the one that overloaded the target."""
    left = ", ".join(f"{percent} %" for percent in sorted(levels) if percent > last)
    return [f"the levels above {last} % ({left}) were left out, since {last} % overloaded the target"] if left else []


def _without_effect(max_rate_per_s: float, levels: tuple[int, ...], maximum_per_s: float) -> str:
    """Of a highest rate that the levels reach by themselves: it limits none of them."""
    highest = max(levels)
    return (
        f"--max-rate {max_rate_per_s:g} had no effect, as it only continues beyond the levels, and {highest} % is "
        f"{format_iops(highest / 100 * maximum_per_s)}/s; --levels chooses lower rates"
    )


def brick_of(targets: list[str], options: RunOptions, condition: str) -> ModelledBrick | None:
    """The modelled brick; None where the storage is real."""
    if not bricks.is_modelled(targets[0]):
        return None
    changes = [*options.changes, bricks.condition_override(condition)]
    return bricks.resolve(targets[0], changes).brick


class LoadCurve:
    """One curve from its maximum to its last search step."""

    def __init__(self, store: Store, listener: Listener, interrupt: Interrupt, each_ns: int) -> None:
        self.store, self.listener, self.each_ns = store, listener, each_ns
        self.runner = Runner(store, listener, interrupt)
        self._study: int | None = None

    def run(
        self,
        name: str,
        plan: Plan,
        phase: Phase,
        targets: list[str],
        options: RunOptions,
        levels: tuple[int, ...] = LEVELS_PERCENT,
        limit: Limit | None = None,
        condition: str = "normal",
        max_rate_per_s: float | None = None,
        searches: int = SEARCHES,
    ) -> CurveResult:
        """With `max_rate_per_s` the levels go on beyond their last until one is overloaded or this rate is reached."""
        self._about, self._limit = (name, targets, options, condition), limit
        self._changes = changes_in(plan.title or "")
        self._brick = brick_of(targets, options, condition)
        self.listener.expect(1 + len(levels))
        last, record = self._one(closed_plan(plan, phase, self.each_ns), RunMarks(loop="closed"))
        rates = stream_rates(record)
        result = CurveResult(self._noted(), [last.run], sum(rates.values()))
        if last.outcome == "done" and (not rates or len(rates) < len(phase.stream) or min(rates.values()) <= 0):
            self.store.end_study(result.study, "failed", [])
            raise BrickyardError(
                "a stream completed nothing in the closed loop, so there is no rate; use a longer --each"
            )

        def level(share: float) -> bool:
            nonlocal last
            offered = {stream: rate * share for stream, rate in rates.items()}
            marks = RunMarks(offered_per_s=sum(offered.values()), share_of_maximum=share)
            long_ns = self._level_ns(sum(offered.values()))
            last, made = self._one(open_plan(plan, phase, long_ns, offered), marks)
            result.runs.append(last.run)
            if last.outcome != "done":
                return False
            result.points.append(curve_point(made, sum(offered.values())))
            return True

        done = 0
        for percent in sorted(levels):
            # Beyond the first saturated level a queue's length tells only for how long it was fed.
            if last.outcome != "done" or (result.points and result.points[-1].saturated):
                break
            level(percent / 100)
            done = percent
        if last.outcome == "done":
            result.notes += _left_out(levels, done)
        share = max(levels) / 100
        if max_rate_per_s and max_rate_per_s <= share * result.maximum_per_s:
            result.notes.append(_without_effect(max_rate_per_s, levels, result.maximum_per_s))
        most = max_rate_per_s / result.maximum_per_s if max_rate_per_s else 0.0
        while last.outcome == "done" and share < most and not (result.points and result.points[-1].saturated):
            share = min(share * GROWTH, most)
            self.listener.expect(1)
            level(share)
        if limit and last.outcome == "done":
            last = self._search(result, last, plan, phase, rates, limit, searches)
        result.points.sort(key=lambda point: point.offered_per_s)
        result.outcome, result.message = last.outcome, last.message
        result.notes += self._caches(result.runs)
        self.store.end_study(result.study, last.outcome, result.notes)
        return result

    def _caches(self, runs: list[int]) -> list[str]:
        """What the caches of a real target may have taken."""
        if self._brick is not None:
            return []
        _, targets, options, _ = self._about
        note = into_caches((self.store.record(run) for run in runs), cache_bytes(targets[0], options), "--each")
        return [note] if note else []

    def _search(
        self,
        result: CurveResult,
        last: RunResult,
        plan: Plan,
        phase: Phase,
        rates: dict[int, float],
        limit: Limit,
        searches: int,
    ) -> RunResult:
        """Each search a run with arrivals of its own; gives back the last run, which may not have been done. Where
        every level keeps the limit, it goes on to the capacity."""
        best, worst = usable(result.points, limit)

        def attempt(rate_per_s: float, number: int) -> Step:
            nonlocal last
            if last.outcome != "done":
                return Step(rate_per_s, None, holds=False, kept_up=False)
            share = rate_per_s / result.maximum_per_s
            long_ns = step_ns(self.each_ns, limit, rate_per_s, is_modelled=self._brick is not None)
            drawn = replace(plan, seed=plan.seed + number)
            made = open_plan(drawn, phase, long_ns, {stream: rate * share for stream, rate in rates.items()})
            self.listener.expect(1)
            last, record = self._one(made, RunMarks(searched_per_s=rate_per_s, search=number + 1))
            result.runs.append(last.run)
            return step_of(curve_point(record, rate_per_s), limit)

        if best is not None:
            first, factor = best.offered_per_s, NEXT_FACTOR if worst else FIRST_FACTOR
        elif worst is not None:
            first, factor = worst.offered_per_s / FIRST_FACTOR, FIRST_FACTOR
        else:
            return last
        found = searched(attempt, first, searches, factor)
        result.searches = found if last.outcome == "done" else []
        return last

    def _level_ns(self, rate_per_s: float) -> int:
        """A model's time costs little: there each level has enough requests for its percentiles."""
        if self._brick is None:
            return self.each_ns
        return step_ns(self.each_ns, self._limit or SHOWN, rate_per_s, is_modelled=True)

    def _one(self, plan: Plan, marks: RunMarks) -> tuple[RunResult, Record]:
        name, targets, options, condition = self._about
        plan = filled(plan, self._brick) if self._brick else plan
        spec = RunSpec(name, plan, targets, options, condition=condition, marks=marks)
        last = self.runner.run(spec, self._noted)
        return last, self.store.record(last.run)

    def _noted(self) -> int:
        if self._study is None:
            name, targets, _, _ = self._about
            curve = {"limit": f"{self._limit.figure}:{self._limit.above_ns}ns" if self._limit else None}
            about: Document = {"profile": name, "targets": targets, "curve": curve}
            changed = f"{CHANGED}{self._changes}" if self._changes else ""
            self._study = self.store.add_study(f"load curve of {name}{changed}", about)
        return self._study

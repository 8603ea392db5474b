"""Duty: finds parameters whose simulated rates come nearest to the measured ones; the same result on every machine.

Refusal: it draws no random numbers and looks at no load that is kept back.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import fmean, median

from brickyard.advise.fitting.candidates import classes
from brickyard.advise.fitting.model import Model, Stage
from brickyard.advise.fitting.rates import Step, course, done_in, parts, step
from brickyard.advise.fitting.seen import PARTS, Seen, split, spread
from brickyard.advise.simulate import Brick, simulate
from brickyard.analysis.figures.totals import rated_rows, totals
from brickyard.errors import BadInputError, BrickyardError
from brickyard.schema import Document
from brickyard.units import format_size

SWEEPS = 2
COARSE = (0.25, 1.0, 4.0)
WIDER = 4.0  # an end of what was tried that is as good as the best is no end
MOST_STEPS = 4  # a factor of 1,000 either way
REFINEMENTS = 6  # each narrows the step to its square root: 4 ends at 1.02
EXACT = 0.003  # nearer than that, the luck of few requests decides
ENOUGH = 0.02  # a class that is as near as measurements repeat ends the search
PROMISING = 1.5  # classes whose error is more than so many times the best one's get no second pass
LEAST_KEPT = 5  # of fewer loads, the luck of one would choose the class
TAIL_WEIGHT = 0.5
COURSE_STEPS = 8  # of a figure that goes with its parameter: the first hits it, if the parameter is what limits
IMPOSSIBLE = 10.0  # the error of values that make no brick
FITS, FITS_ROUGHLY = 0.15, 0.3
"""Median errors of what was kept back. 15 % is what the models keep to on published tables of other makers' arrays."""


@dataclass(frozen=True)
class Predicted:
    """One load, measured and predicted."""

    seen: Seen
    iops: float
    p90_ns: float
    distance: float = 0.0
    """On a logarithmic scale; of a run that was not steady the mean of its parts."""
    step: Step | None = None

    @property
    def error(self) -> float:
        return self.iops / self.seen.iops - 1

    def document(self) -> Document:
        return {
            "load": self.seen.label,
            "run": self.seen.run,
            "measured_iops": self.seen.iops,
            "predicted_iops": self.iops,
            "error_percent": self.error * 100,
            "measured_p90_ns": self.seen.p90_ns,
            "predicted_p90_ns": self.p90_ns,
        }


@dataclass(frozen=True)
class Fitted:
    """A class at its best, and how it predicts."""

    model: Model
    fitted_to: dict[str, str]
    training: list[Predicted]
    held_out: list[Predicted]

    @property
    def distance(self) -> float:
        """By which classes are compared: the mean on kept-back loads; where those are few, on all."""
        few = len(self.held_out) < LEAST_KEPT
        return fmean(p.distance for p in (*self.held_out, *(self.training if few else ())))

    @property
    def largest_error(self) -> float:
        return max((abs(p.error) for p in (self.held_out or self.training)), default=0.0)

    @property
    def training_error(self) -> float:
        return median(abs(p.error) for p in self.training)

    @property
    def held_out_error(self) -> float | None:
        return median(abs(p.error) for p in self.held_out) if self.held_out else None

    @property
    def kinds(self) -> dict[str, float]:
        """Median errors by kind of load, whether fitted to or kept back: a model good at reads may be bad at writes."""
        every = [*self.training, *self.held_out]
        names = dict.fromkeys(p.seen.kind for p in every)
        return {name: median(abs(p.error) for p in every if p.seen.kind == name) for name in names}

    @property
    def verdict(self) -> str:
        """fits, fits roughly, does not fit: by the kind that is predicted worst."""
        worst = max(self.training_error, self.held_out_error or 0.0, *self.kinds.values())
        return "fits" if worst <= FITS else "fits roughly" if worst <= FITS_ROUGHLY else "does not fit"


@dataclass(frozen=True)
class Figures:
    """What a simulated load came to."""

    iops: float
    p90_ns: float
    p10_ns: float
    parts: tuple[float, ...] = ()
    step: Step | None = None


class Fitter:
    """Simulates, remembering what it has simulated."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self.known: dict[tuple[str, str], Figures | None] = {}
        self.progress = progress
        self.at = ""
        self.pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)

    def __enter__(self) -> Fitter:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)

    def figures(self, model: Model, loads: Sequence[Seen]) -> list[Figures | None]:
        own = model.own()
        text = own[min(own)]  # of an array, whose parts are always the same, or of a drive
        todo = [s for s in loads if (text, s.label) not in self.known]
        for load, found in zip(todo, self.pool.map(lambda s: _figures(own, s, model.most_writes), todo), strict=True):
            self.known[text, load.label] = found
        return [self.known[text, s.label] for s in loads]

    def error(self, model: Model, loads: Sequence[Seen], *, tails: bool = False) -> float:
        """Mean distance of rates on a logarithmic scale, so that half and double are alike."""
        found = zip(loads, self.figures(model, loads), strict=True)
        return fmean(_distance(load, figures, tails=tails) for load, figures in found)

    def sweep(
        self, model: Model, stages: Sequence[Stage], training: Sequence[Seen], told: dict[str, str], number: int
    ) -> None:
        """Fits each parameter once, in place; notes what was fitted to which loads."""
        for stage in stages:
            loads = [s for s in training if stage.takes(s)]
            if loads:
                words = stage.parameter.replace("_", " ").replace(".", " ")
                self.progress(f"{self.at}{model.name}, pass {number} of at most {SWEEPS}: {words}")
                self._stage(model, stage, loads, told)

    def _stage(self, model: Model, stage: Stage, loads: list[Seen], told: dict[str, str]) -> None:
        if not loads or not stage.when(model.values):
            return
        told[stage.parameter] = stage.words
        if stage.course:
            matters = self._by_course(model, stage, loads[0])
        elif stage.choices:
            matters = self._choice(model, stage, loads, told)
        else:
            matters = self._continuous(model, stage, loads)
        if not matters:
            told.pop(stage.parameter)

    def _choice(self, model: Model, stage: Stage, loads: list[Seen], told: dict[str, str]) -> bool:
        """From where it is, as long as a neighbour is clearly better. Whether the loads tell one value from another."""
        tried: dict[int, tuple[float, Model]] = {}

        def at(index: int) -> float:
            if index not in tried:
                candidate = model.having(**{stage.parameter: stage.choices[index]})
                for nested in stage.nested:
                    self._stage(candidate, nested, [s for s in loads if nested.takes(s)], told)
                tried[index] = (self.error(candidate, loads, tails=stage.tails), candidate)
            return tried[index][0]

        here = _nearest(stage.choices, model.values[stage.parameter])
        if stage.scan:
            here = min(range(len(stage.choices)), key=lambda i: (at(i), i))
        while True:
            around = [i for i in (here - 1, here + 1) if 0 <= i < len(stage.choices)]
            better = [i for i in around if at(i) < at(here) - EXACT / 2]
            if not better:
                break
            here = min(better, key=lambda i: (at(i), i))
        if here not in tried:
            return True
        model.values = dict(tried[here][1].values)
        alike = [i for i in sorted(tried) if i != here and at(i) <= at(here) + EXACT]
        model.alike.pop(stage.parameter, None)
        if len(alike) == len(stage.choices) - 1:
            return False
        if alike:
            model.alike[stage.parameter] = " or ".join(_word(stage.choices[i]) for i in alike)
        return True

    def _by_course(self, model: Model, stage: Stage, load: Seen) -> bool:
        """A figure of the fall goes with the parameter, or against it, once that is what limits. Whether it does."""
        value = start = model.values[stage.parameter]
        apart: list[float] = []
        while load.step is not None and len(apart) < COURSE_STEPS:
            figures = self.figures(model, [load])[0]
            ours = None if figures is None else _course_figure(figures, stage.course)
            if not ours:
                break
            ratio = float(getattr(load.step, stage.course)) / ours
            apart.append(abs(math.log(ratio)))
            if apart[-1] < EXACT:
                break
            assert isinstance(value, (int, float))
            value = value / ratio if stage.against else value * ratio
            model.values[stage.parameter] = value = min(max(value, stage.lowest), stage.highest)
            model.follow()
        if apart and apart[-1] < max(EXACT, apart[0] / 2):
            return True
        model.values[stage.parameter] = start
        model.follow()
        return False

    def _continuous(self, model: Model, stage: Stage, loads: list[Seen]) -> bool:
        """A value that does no better than the one that was there is not taken. Whether the loads tell any from it."""
        start = model.values[stage.parameter]
        assert isinstance(start, (int, float))
        errors: dict[float, float] = {}

        def at(value: float) -> float:
            value = min(max(value, stage.lowest), stage.highest)
            if value not in errors:
                tried = model.having(**{stage.parameter: value})
                errors[value] = self.error(tried, loads, tails=stage.tails)
            return value

        start = max(float(start), 1e-3)
        here = min(max(start, stage.lowest), stage.highest)
        for factor in COARSE:
            at(start * factor)
        for end, factor in ((max, WIDER), (min, 1 / WIDER)):
            for _ in range(MOST_STEPS):
                edge = end(errors)
                if errors[edge] > errors[_best(errors)] + EXACT or at(edge * factor) == edge:
                    break
        width = WIDER
        for _ in range(REFINEMENTS):
            best = _best(errors)
            if errors[best] < EXACT:
                break
            width = math.sqrt(width)
            at(best * width)
            at(best / width)
        best = _best(errors)
        model.values[stage.parameter] = here if errors[here] <= errors[best] + stage.gain else best
        model.follow()
        return max(errors.values()) - errors[best] > stage.gain


def _course_figure(figures: Figures, name: str) -> float | None:
    """Where the rate did not fall, nothing limited it before its end that is to."""
    if figures.step is not None:
        return float(getattr(figures.step, name))
    ends = {"first_per_s": figures.parts[0], "lasting_per_s": figures.parts[-1]} if figures.parts else {}
    return ends.get(name)


def _distance(load: Seen, found: Figures | None, *, tails: bool) -> float:
    if found is None or found.iops <= 0:
        return IMPOSSIBLE
    if load.parts:
        return fmean(_apart(ours, theirs) for ours, theirs in zip(found.parts, load.parts, strict=True))
    distance = _apart(found.iops, load.iops)
    if tails:
        distance += TAIL_WEIGHT * (_apart(found.p90_ns, load.p90_ns) + _apart(found.p10_ns, load.p10_ns))
    return distance


def _apart(ours: float, theirs: float) -> float:
    """On a logarithmic scale; nothing where one of them is not known."""
    return abs(math.log(ours / theirs)) if ours > 0 and theirs > 0 else 0.0


def _word(value: float | str | bool) -> str:
    return str(value) if isinstance(value, (str, bool)) else f"{value:g}" if value < 1024 else format_size(round(value))


def _best(errors: dict[float, float]) -> float:
    return min(errors, key=lambda value: (errors[value], value))


def _nearest(choices: Sequence[float | str | bool], value: float | str | bool) -> int:
    if isinstance(value, (str, bool)):
        return choices.index(value) if value in choices else 0
    return min(range(len(choices)), key=lambda i: (abs(float(choices[i]) - value), i))


def _figures(own: dict[str, str], load: Seen, most_writes: int) -> Figures | None:
    try:
        record = simulate(load.plan(most_writes), Brick("fit", own=own))
    except (BadInputError, BrickyardError):
        return None
    rows = rated_rows(totals(record))
    p10_ns, p90_ns = spread(rows)
    if not load.parts:
        return Figures(sum(row.iops for row in rows), p90_ns, p10_ns)
    taken = course(record)
    if not taken:
        return None
    return Figures(done_in(taken) / (taken[-1][1] - taken[0][0]), p90_ns, p10_ns, parts(taken, PARTS), step(taken))


def fit(loads: Sequence[Seen], capacity_bytes: int, progress: Callable[[str], None]) -> list[Fitted]:
    """Every class at its best, the one that predicts kept-back loads best first."""
    training, kept = split(loads)
    with Fitter(progress) as fitter:
        trials = [_Trial(model) for model in classes(training, capacity_bytes)]
        for count, trial in enumerate(trials, 1):
            fitter.at = f"class {count} of {len(trials)}: "
            _first_pass(fitter, trials, trial, training)
            if trial.error <= ENOUGH:
                break
        for number in range(2, SWEEPS + 1):
            best = min((trial.error for trial in trials), default=0.0)
            if best <= ENOUGH:
                break
            for count, trial in enumerate(trials, 1):
                if trial.error <= best * PROMISING:
                    fitter.at = f"class {count} of {len(trials)}: "
                    trial.again(fitter, training, number)
        found = [
            Fitted(t.model, t.told, _predicted(fitter, t.model, training), _predicted(fitter, t.model, kept))
            for t in trials
            if t.error < math.inf
        ]
    # Of classes that are equally good the first, which has the fewest parameters.
    return sorted(found, key=lambda f: round(f.distance, 2))


@dataclass
class _Trial:
    """A class on its way."""

    model: Model
    told: dict[str, str] = field(default_factory=dict)
    error: float = math.inf

    def again(self, fitter: Fitter, training: Sequence[Seen], number: int) -> None:
        """One more pass, which is kept only if it is an improvement."""
        before = dict(self.model.values)
        fitter.sweep(self.model, self.model.stages, training, self.told, number)
        after = fitter.error(self.model, training)
        if after > self.error:
            self.model.values = before
        self.error = min(self.error, after)


def _first_pass(fitter: Fitter, trials: list[_Trial], trial: _Trial, training: Sequence[Seen]) -> None:
    """A family gives way to those that it stands for, which go on from what it has found."""
    trial.model.follow()
    fitter.sweep(trial.model, trial.model.first_stages or trial.model.stages, training, trial.told, 1)
    variants = trial.model.variants(training)
    if not variants:
        trial.error = fitter.error(trial.model, training)
    at = trials.index(trial)
    for variant in variants:
        at += 1
        trials.insert(at, _Trial(variant, dict(trial.told)))


def _predicted(fitter: Fitter, model: Model, loads: Sequence[Seen]) -> list[Predicted]:
    found = zip(loads, fitter.figures(model, loads), strict=True)
    return [
        Predicted(s, f.iops, f.p90_ns, _distance(s, f, tails=False), f.step)
        if f is not None
        else Predicted(s, 0.0, 0.0, IMPOSSIBLE)
        for s, f in found
    ]

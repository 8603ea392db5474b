"""Duty: finds parameters whose simulated rates come nearest to the measured ones; the same result on every machine.

Refusal: it draws no random numbers and looks at no load that is kept back.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import fmean, median

from brickyard.advise.fitting.classes import Model, Stage, Values, classes, follow
from brickyard.advise.fitting.seen import Seen, split
from brickyard.advise.simulate import Brick, simulate
from brickyard.analysis.totals import totals
from brickyard.errors import BadInputError, BrickyardError
from brickyard.store import CHAIN, Json

SWEEPS = 2
COARSE = (0.25, 1.0, 4.0)
WIDER = 4.0  # an end of what was tried that is as good as the best is no end
MOST_STEPS = 4  # a factor of 1,000 either way
REFINEMENTS = 6  # each narrows the step to its square root: 4 ends at 1.02
EXACT = 0.003  # nearer than that, the luck of few requests decides
ENOUGH = 0.02  # a class that is as near as measurements repeat ends the search
PROMISING = 2.0  # classes whose error is more than so many times the best one's get no second pass
TAIL_WEIGHT = 0.5
IMPOSSIBLE = 10.0  # the error of values that make no brick
FITS, FITS_ROUGHLY = 0.15, 0.3
"""Median errors of what was kept back. 15 % is what the models keep to on published tables of other makers' arrays."""


@dataclass(frozen=True)
class Predicted:
    """One load, measured and predicted."""

    seen: Seen
    iops: float
    p90_ns: float

    @property
    def error(self) -> float:
        return self.iops / self.seen.iops - 1

    def document(self) -> Json:
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


class Fitter:
    """Simulates, remembering what it has simulated."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self.known: dict[tuple[str, str], tuple[float, float] | None] = {}
        self.progress = progress
        self.pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)

    def __enter__(self) -> Fitter:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)

    def figures(self, model: Model, loads: Sequence[Seen]) -> list[tuple[float, float] | None]:
        text = model.text("fit", "", "", {})
        todo = [s for s in loads if (text, s.label) not in self.known]
        for load, found in zip(todo, self.pool.map(lambda s: _figures(text, s), todo), strict=True):
            self.known[text, load.label] = found
        return [self.known[text, s.label] for s in loads]

    def error(self, model: Model, loads: Sequence[Seen], *, tails: bool = False) -> float:
        """Mean distance of rates on a logarithmic scale, so that half and double are alike."""
        parts = []
        for load, found in zip(loads, self.figures(model, loads), strict=True):
            if found is None or found[0] <= 0:
                return IMPOSSIBLE
            parts.append(abs(math.log(found[0] / load.iops)))
            if tails and load.p90_ns > 0 and found[1] > 0:
                parts[-1] += TAIL_WEIGHT * abs(math.log(found[1] / load.p90_ns))
        return fmean(parts)

    def sweep(self, model: Model, training: Sequence[Seen], told: dict[str, str], number: int) -> None:
        """Fits each parameter once, in place; notes what was fitted to which loads."""
        for stage in model.stages:
            loads = [s for s in training if stage.takes(s)]
            if loads:
                self.progress(f"{model.name}: {stage.parameter.replace('_', ' ')}, pass {number} of {SWEEPS}")
                self._stage(model, stage, loads, told)

    def _stage(self, model: Model, stage: Stage, loads: list[Seen], told: dict[str, str]) -> None:
        told[stage.parameter] = stage.words
        if not stage.choices:
            self._continuous(model, stage, loads)
            return
        tried: dict[int, tuple[float, Values]] = {}

        def at(index: int) -> float:
            if index not in tried:
                values = {**model.values, stage.parameter: stage.choices[index]}
                candidate = Model(model.name, model.kind, values, model.stages)
                for nested in stage.nested:
                    told[nested.parameter] = nested.words
                    self._continuous(candidate, nested, [s for s in loads if nested.takes(s)])
                tried[index] = (self.error(candidate, loads, tails=stage.tails), candidate.values)
            return tried[index][0]

        # From where it is, as long as a neighbour is clearly better.
        here = _nearest(stage.choices, model.values[stage.parameter])
        while True:
            around = [i for i in (here - 1, here + 1) if 0 <= i < len(stage.choices)]
            better = [i for i in around if at(i) < at(here) - EXACT / 2]
            if not better:
                break
            here = min(better, key=lambda i: (at(i), i))
        model.values = dict(tried[here][1]) if here in tried else model.values

    def _continuous(self, model: Model, stage: Stage, loads: list[Seen]) -> None:
        if not loads:
            return
        start = model.values[stage.parameter]
        assert isinstance(start, (int, float))
        errors: dict[float, float] = {}

        def at(value: float) -> float:
            value = min(max(value, stage.lowest), stage.highest)
            if value not in errors:
                tried = Model(model.name, model.kind, {**model.values, stage.parameter: value}, model.stages)
                follow(tried)
                errors[value] = self.error(tried, loads, tails=stage.tails)
            return value

        start = max(float(start), 1e-3)
        for factor in COARSE:
            at(start * factor)
        for end, factor in ((max, WIDER), (min, 1 / WIDER)):
            for _ in range(MOST_STEPS):
                edge = end(errors)
                if errors[edge] > errors[_best(errors)] + EXACT or at(edge * factor) == edge:
                    break
        step = WIDER
        for _ in range(REFINEMENTS):
            best = _best(errors)
            if errors[best] < EXACT:
                break
            step = math.sqrt(step)
            at(best * step)
            at(best / step)
        model.values[stage.parameter] = _best(errors)
        follow(model)


def _best(errors: dict[float, float]) -> float:
    return min(errors, key=lambda value: (errors[value], value))


def _nearest(choices: Sequence[float | str | bool], value: float | str | bool) -> int:
    if isinstance(value, (str, bool)):
        return choices.index(value) if value in choices else 0
    return min(range(len(choices)), key=lambda i: (abs(float(choices[i]) - value), i))


def _figures(text: str, load: Seen) -> tuple[float, float] | None:
    try:
        record = simulate(load.plan, Brick("fit", own={"drives/fit": text}))
    except (BadInputError, BrickyardError):
        return None
    rows = [row for row in totals(record) if row.operation != CHAIN]
    p90 = max((row.measures["service"].percentiles["p90"] or 0 for row in rows), default=0)
    return sum(row.iops for row in rows), float(p90)


def fit(loads: Sequence[Seen], capacity_bytes: int, progress: Callable[[str], None]) -> list[Fitted]:
    """Every class at its best, the one with the smallest error on the loads that were fitted to first."""
    training, kept = split(loads)
    with Fitter(progress) as fitter:
        models = classes(training, capacity_bytes)
        told: list[dict[str, str]] = [{} for _ in models]
        errors = [math.inf] * len(models)
        if not models:
            return []
        for sweep in range(1, SWEEPS + 1):
            if min(errors) <= ENOUGH:
                break
            for number, model in enumerate(models):
                if sweep == 1 or errors[number] <= min(errors) * PROMISING:
                    errors[number] = min(errors[number], _swept(fitter, model, training, told[number], sweep))
                if errors[number] <= ENOUGH:
                    break
        # Of classes that are equally good the first, which has the fewest parameters.
        order = sorted(range(len(models)), key=lambda number: (round(errors[number], 2), number))
        return [
            Fitted(models[n], told[n], _predicted(fitter, models[n], training), _predicted(fitter, models[n], kept))
            for n in order
            if errors[n] < math.inf
        ]


def _swept(fitter: Fitter, model: Model, training: Sequence[Seen], told: dict[str, str], sweep: int) -> float:
    """The error after one pass, which a model keeps only if that is an improvement."""
    follow(model)
    before = dict(model.values)
    error = fitter.error(model, training) if sweep > 1 else math.inf
    fitter.sweep(model, training, told, sweep)
    after = fitter.error(model, training)
    if after > error:
        model.values = before
    return min(error, after)


def _predicted(fitter: Fitter, model: Model, loads: Sequence[Seen]) -> list[Predicted]:
    figures = fitter.figures(model, loads)
    return [Predicted(s, *(found or (0.0, 0.0))) for s, found in zip(loads, figures, strict=True)]

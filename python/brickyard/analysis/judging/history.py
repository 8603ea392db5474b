"""Duty: a figure of one load over all its runs in time, and where it changed for good.

Change points are those of PELT (Killick, Fearnhead, Eckley 2012) on the logarithm of the figure with the cost of a
shifted mean. The penalty is that of Schwarz's criterion with the noise that differences of neighbours show, so that
neither a trend nor the change itself passes for noise. A change is reported only where Welch's test agrees, at a level
that is divided among all places of all loads that are shown together. `docs/statistics.md` has the rate of false
changes and what is found.

Refusal: fewer than six runs have no history, and no cause is named, only what else changed at that moment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from brickyard.analysis.figures.marked import by_tool
from brickyard.analysis.figures.named import FIGURES, Figure, figure_of
from brickyard.analysis.figures.samples import CONFIDENCE, MAD_TO_SIGMA, welch
from brickyard.analysis.judging.differing import Differing, differing_between, loads_apart
from brickyard.analysis.judging.groups import known_state
from brickyard.analysis.judging.pairing import Name, with_called
from brickyard.analysis.judging.run_figures import RunFigures
from brickyard.store import Record, RunHead

RUNS_MIN = 6
SEGMENT_MIN = 2  # one run alone is an outlier, not a change
CHANGE_MIN = 0.001  # modelled runs have hardly any noise, and nobody acts on less than a thousandth
PARAMETERS = 3  # a change brings its place and two means in the place of one


@dataclass(frozen=True)
class Point:
    run: int
    unix_ns: int
    value: float


@dataclass(frozen=True)
class Turn:
    """A change for good: `run` is the first of the new level."""

    run: int
    unix_ns: int
    before: float
    after: float
    differing: list[Differing]

    @property
    def share(self) -> float:
        return self.after / self.before - 1


@dataclass(frozen=True)
class History:
    name: tuple[str, ...]
    figure: Figure
    points: list[Point]
    turns: list[Turn]
    levels: list[tuple[int, int, float]]
    """First and last place of each stretch, and its mean."""
    repeats: tuple[int, ...] = ()
    """Runs that are an earlier one again (`figures.independent`), which are no points."""


class _Key(NamedTuple):
    """What runs have in common whose figures follow each other. `condition` is that of a part of a run, `state` that of
    all of it."""

    name: Name
    phase: str
    stream: str
    condition: str
    changes: str
    """What was set of a model."""
    state: str
    operation: str
    load: str
    tool: str

    @property
    def without_state(self) -> Name:
        named = (*self.name, self.phase, self.stream, self.condition)
        return (*(part for part in named if part.replace("_", " ") != self.state), self.operation)


def histories(
    runs: Sequence[tuple[RunHead, RunFigures]],
    figure: str,
    record: Callable[[int], Record],
    *,
    confidence: float = CONFIDENCE,
) -> list[History]:
    """One for each load that was measured at all; those with few runs have points and no turns.

    `record` is asked for the newest run of each load, and for the runs before and after a change.
    """
    groups: dict[_Key, list[Point]] = {}
    repeats: dict[_Key, list[int]] = {}
    measured: set[str] = set()
    for head, figures in runs:
        is_repeat = bool(figures.measurement) and figures.measurement in measured
        measured.add(figures.measurement)
        for part in figures.parts:
            if (value := part.values.get(figure)) is not None:
                changes, state = known_state(figures.state)
                places = figures.name, part.phase, part.stream, part.condition
                key = _Key(*places, changes, state, part.operation, figures.load, figures.tool)
                point = Point(head.id, head.began_unix_ns or head.created_unix_ns, value)
                if is_repeat:
                    repeats.setdefault(key, []).append(head.id)
                else:
                    groups.setdefault(key, []).append(point)
    family = sum(len(points) >= RUNS_MIN for points in groups.values())
    sure = 1 - (1 - confidence) / max(family, 1)
    names = _names(groups)
    for key, points in groups.items():
        names[key] = with_called(names[key], record(points[-1].run).info)
    for alike in _alike(names):  # other loads have this name too; their plans may have titles of their own
        for key in alike:
            names[key] = tuple(dict.fromkeys((record(groups[key][-1].run).info.plan.title, *names[key])))
    for alike in _alike(names):  # of one title, such as loads that differ in their duration alone
        apart = loads_apart([record(groups[key][-1].run) for key in alike])
        for key, words in zip(alike, apart, strict=True):
            names[key] = (*names[key], words)
    return [
        replace(
            _history(names[key], figure_of(FIGURES[figure], key.operation), points, record, sure),
            repeats=tuple(repeats.get(key, ())),
        )
        for key, points in groups.items()
    ]


def _alike(names: dict[_Key, Name]) -> list[list[_Key]]:
    """The keys of each name that several have."""
    found = ([key for key in names if names[key] == name] for name in set(names.values()))
    return [keys for keys in found if len(keys) > 1]


def _names(keys: Collection[_Key]) -> dict[_Key, Name]:
    """By key: its words without the load, with what was set of a model, and with the condition where runs of one name
    have several states."""
    bare = {key: key.without_state for key in keys}
    states: dict[Name, set[tuple[str, str]]] = {}
    for key in keys:
        states.setdefault(bare[key], set()).add((key.changes, key.state))
    told = {
        key: (*key.name, key.phase, key.stream, key.changes, key.condition, by_tool(key.tool), key.operation)
        if len(states[name]) == 1
        else (*name[:-1], key.changes, key.state, by_tool(key.tool), name[-1])
        for key, name in bare.items()
    }
    return {key: tuple(dict.fromkeys(part for part in words if part)) for key, words in told.items()}


def _history(
    name: tuple[str, ...], figure: Figure, points: list[Point], record: Callable[[int], Record], confidence: float
) -> History:
    values = [point.value for point in points]
    bounds = change_points(values, confidence=confidence)
    edges = [0, *bounds, len(values)]
    spans = list(pairwise(edges))
    turns = [
        Turn(
            run=points[place].run,
            unix_ns=points[place].unix_ns,
            before=fmean(values[before:place]),
            after=fmean(values[place:after]),
            differing=differing_between([record(points[place - 1].run)], [record(points[place].run)]),
        )
        for (before, place), (_, after) in pairwise(spans)
    ]
    levels = [(first, last - 1, fmean(values[first:last])) for first, last in spans]
    return History(name, figure, points, turns, levels)


def change_points(values: Sequence[float], *, confidence: float = CONFIDENCE) -> list[int]:
    """Places at which a new level begins."""
    if len(values) < RUNS_MIN or min(values) <= 0:
        return []
    import numpy as np
    import ruptures  # takes half a second to import, which short histories need not pay

    logs = [math.log(value) for value in values]
    sigma = _noise(logs)
    penalty = PARAMETERS * max(sigma * sigma, 1e-12) * math.log(len(logs))
    signal = np.array(logs).reshape(-1, 1)
    # With a linear kernel the cost is that of a shifted mean; unlike the class Pelt this one is compiled.
    found = ruptures.KernelCPD(kernel="linear", min_size=SEGMENT_MIN, jump=1).fit(signal).predict(pen=penalty)
    return _sure([int(place) for place in found[:-1]], values, confidence)


def _noise(logs: Sequence[float]) -> float:
    steps = [after - before for before, after in pairwise(logs)]
    middle = median(steps)
    return MAD_TO_SIGMA * median(abs(step - middle) for step in steps) / math.sqrt(2)


def _sure(places: list[int], values: Sequence[float], confidence: float) -> list[int]:
    """The least sure change is taken back until the test agrees with all that are left."""

    @cache  # a change that is taken back leaves the tests of all but its two neighbours as they were
    def doubt(before: int, place: int, after: int) -> float:
        return _doubt(values[before:place], values[place:after])

    while places:
        edges = [0, *places, len(values)]
        doubts = [doubt(*three) for three in zip(edges, edges[1:], edges[2:], strict=False)]
        worst = max(range(len(doubts)), key=doubts.__getitem__)
        # Places were chosen because they look like changes, so the level is divided among all that could have been.
        if doubts[worst] * len(values) < 1 - confidence:
            break
        places = [place for number, place in enumerate(places) if number != worst]
    return places


def _doubt(before: Sequence[float], after: Sequence[float]) -> float:
    """Welch's p; 1 where the test can't be made or the change is too small for anybody."""
    test = welch(before, after)
    return test.p if test and abs(fmean(after) / fmean(before) - 1) >= CHANGE_MIN else 1.0

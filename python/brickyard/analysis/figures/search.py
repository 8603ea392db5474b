"""Duty: the highest rate that keeps a limit: searched by doubling and bisection, several times, with an interval. Pure.

One search is one draw of random arrivals: several are made, each with arrivals of its own, and the rate is their
geometric mean with its interval. `tests/aa.py` holds it against a queue whose true rate is known.

Refusal: nothing is measured here; a step is whatever the caller measures at a rate, from rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from brickyard.analysis.figures.samples import Sample, sample
from brickyard.percentiles import is_percentile, least_count, percentile_of
from brickyard.schema import Document

TOLERANCE = 0.01
SEARCHES = 3  # the fewest that give an interval of use
FIRST_FACTOR = 2.0  # between the rates that bracket the limit
NEXT_FACTOR = 1.25  # of a search that begins near the limit
MOST_STEPS = 40
COVERED = "from the spread of the searches alone"
"""What the interval of a rate covers: neither what changes from day to day nor the error of a model."""
OWN = "each with its own arrivals and offsets"
LEAST_SHARE = 1 / 64  # of the first rate: so little load that nothing waits, and less of it would change nothing
SURE = 10  # times the requests that a percentile needs: with fewer, searches end too high (docs/statistics.md)
GROWN = 2.0  # near saturation, chance alone doubles a queue; that the step was too short to tell is as true then
CHANCE_DEVIATIONS = 3.0  # of a Poisson count, by which arrivals hardly ever fall short of their mean
OTHERS_MIN = 1000  # requests of a step for the mean and the largest, for the same reason


@dataclass(frozen=True)
class Step:
    """One rate that was tried. `value_ns` is the limited figure, None where too few requests were seen."""

    rate_per_s: float
    value_ns: float | None
    holds: bool
    kept_up: bool = True
    """Whether all that was due was sent; if not, the queue grows, and response times tell how long the run was."""
    requests: int = 0
    growth: float | None = None
    """Mean response time of its second half over that of its first; None where the halves are not known."""
    achieved_per_s: float = 0.0
    """0 where it is not known."""
    is_of_few_events: bool = False
    """As `Latency.few_events` has it, of the limited figure."""

    @property
    def is_growing(self) -> bool:
        """As the times of a queue that grows, which only the end of the step kept short."""
        return self.growth is not None and self.growth > GROWN


@dataclass(frozen=True)
class Carried:
    """One search: the highest rate that holds, None where none does, and every step on the way."""

    best: Step | None
    steps: list[Step]

    def document(self) -> Document:
        return {
            "rate_per_s": self.best.rate_per_s if self.best else None,
            "value_ns": self.best.value_ns if self.best else None,
            "steps": [asdict(step) for step in self.steps],
        }


def highest(attempt: Callable[[float], Step], first_per_s: float, factor: float = FIRST_FACTOR) -> Carried:
    """Brackets the limit by a factor and bisects what is between."""
    steps = [attempt(first_per_s)]
    low = high = steps[0]
    while low.holds == high.holds and len(steps) < MOST_STEPS and low.rate_per_s > first_per_s * LEAST_SHARE:
        tried = attempt((high.rate_per_s * factor) if high.holds else (low.rate_per_s / factor))
        steps.append(tried)
        low, high = (high, tried) if high.holds else (tried, low)
    if not low.holds:
        return Carried(None, steps)
    while high.rate_per_s > low.rate_per_s * (1 + TOLERANCE) and len(steps) < MOST_STEPS and not high.holds:
        tried = attempt((low.rate_per_s + high.rate_per_s) / 2)
        steps.append(tried)
        low, high = (tried, high) if tried.holds else (low, tried)
    return Carried(high if high.holds else low, steps)


def searched(
    attempt: Callable[[float, int], Step], first_per_s: float, searches: int, factor: float = FIRST_FACTOR
) -> list[Carried]:
    """So many searches, each with arrivals of its own, which `attempt` draws from its second argument. The further
    ones begin where the first ended; there are none where it found no rate."""
    found = [highest(lambda rate: attempt(rate, 0), first_per_s, factor)]
    if found[0].best:
        found += [_again(attempt, found[0].best.rate_per_s, number) for number in range(1, searches)]
    return found


def expected_steps(searches: int, factor: float = FIRST_FACTOR) -> int:
    """How many rates so many searches try, where the limit lies within one bracket of where each begins."""

    def of_one(first: float) -> int:
        return 2 + math.ceil(math.log2((first - 1) / TOLERANCE))

    return of_one(factor) + (searches - 1) * of_one(NEXT_FACTOR)


def _again(attempt: Callable[[float, int], Step], first_per_s: float, number: int) -> Carried:
    """From another rate than the others, since searches that halve the same steps end at the same ones."""
    aside = NEXT_FACTOR ** (number * GOLDEN % 1 - 0.5)
    return highest(lambda rate: attempt(rate, number), first_per_s * aside, NEXT_FACTOR)


GOLDEN = 0.6180339887498949  # multiples of it, less what is whole, are spread evenly however many there are


def carried(steps: list[Step]) -> Carried:
    """The search that went over these steps."""
    kept = [step for step in steps if step.holds]
    return Carried(max(kept, key=lambda step: step.rate_per_s, default=None), steps)


def rates(found: Sequence[Carried]) -> Sample | None:
    """What the searches found, in requests a second; None unless each found a rate. The limit lies between the rate
    that a search found and one `TOLERANCE` above it, so the interval reaches that much higher."""
    best = [one.best.rate_per_s for one in found if one.best]
    told = sample(best) if best and len(best) == len(found) else None
    return replace(told, high=told.high * (1 + TOLERANCE)) if told and told.high is not None else told


def enough(figure: str) -> int:
    """Requests of a step below which a search ends too high, and its interval misses the true rate too often."""
    return SURE * least_count(percentile_of(figure)) if is_percentile(figure) else OTHERS_MIN


def growing(found: Sequence[Carried]) -> int:
    """How many searches rest on a step in which response times grew."""
    return sum(one.best is not None and one.best.is_growing for one in found)


def fewest(found: Sequence[Carried], figure: str) -> int | None:
    """The fewest requests of a step that kept up; None where all had enough, or none kept up. A step that was planned
    for enough of them has a few less by chance."""
    least = min((step.requests for one in found for step in one.steps if step.kept_up), default=None)
    wanted = enough(figure)
    return least if least is not None and least < wanted - CHANCE_DEVIATIONS * math.sqrt(wanted) else None

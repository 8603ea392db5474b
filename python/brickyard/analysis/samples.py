"""Duty: several repetitions as one figure with its uncertainty, and whether two figures differ by more than noise.

The interval is the percentile bootstrap, widened for few repetitions as Hesterberg describes (What Teachers Should Know
about the Bootstrap, The American Statistician 69(4), 2015, "expanded percentile interval"): the plain one is too narrow
by the factor sqrt((n - 1) / n) and by the normal in the place of Student's t. A difference counts as seen when the
bootstrap interval of the ratio leaves out 1 and Student's t-test of the logarithms agrees, which holds its level with
two repetitions where a bootstrap does not. It takes noise, as a share of the figure, to be alike on both sides.

Refusal: one repetition tells nothing of noise, and nothing is made up for it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean, median

CONFIDENCE = 0.95
RESAMPLES = 2000  # the ends of a 95 % interval then rest on 50 resamples each
SEED = 1


@dataclass(frozen=True)
class Sample:
    """Repetitions of one figure. `low` and `high` are None where there is but one.

    They are drawn from the repetitions' own figures; a percentile of all together may lie outside of them.
    """

    values: tuple[float, ...]
    centre: float
    low: float | None
    high: float | None

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def is_outside(self) -> bool:
        return self.low is not None and self.high is not None and not self.low <= self.centre <= self.high

    @property
    def relative_width(self) -> float | None:
        """Half the interval's width as a share of the centre."""
        if self.low is None or self.high is None or not self.centre:
            return None
        return (self.high - self.low) / 2 / abs(self.centre)


@dataclass(frozen=True)
class Difference:
    """`share` is value / base - 1. `seen` is None where noise is unknown because one side was measured once."""

    share: float
    low: float | None
    high: float | None
    seen: bool | None


def sample(
    values: Sequence[float],
    how: str = "mean",
    *,
    whole: float | None = None,
    confidence: float = CONFIDENCE,
    seed: int = SEED,
) -> Sample | None:
    """`whole` is the figure of all repetitions as one, where that is no mean of theirs, as with percentiles."""
    if not values:
        return None
    centre = _centre(values, how) if whole is None else whole
    if len(values) == 1:
        return Sample(tuple(values), centre, None, None)
    drawn = sorted(_resampled(values, how, random.Random(seed)))  # noqa: S311  # reproducible, not secret
    low, high = _ends(drawn, len(values), confidence)
    if whole is not None:
        return Sample(tuple(values), centre, low, high)
    return Sample(tuple(values), centre, min(low, centre), max(high, centre))


def difference(
    value: Sample, base: Sample, how: str = "mean", *, confidence: float = CONFIDENCE, seed: int = SEED
) -> Difference | None:
    """How much `value` is above `base`, as a share of it; None where the base is zero."""
    if not base.centre:
        return None
    share = value.centre / base.centre - 1
    if value.n < 2 or base.n < 2:
        return Difference(share, None, None, None)
    dice = random.Random(seed)  # noqa: S311  # reproducible, not secret
    above, below = _resampled(value.values, how, dice), _resampled(base.values, how, dice)
    drawn = sorted(one / other - 1 for one, other in zip(above, below, strict=True) if other)
    if not drawn:
        return Difference(share, None, None, None)
    low, high = _ends(drawn, min(value.n, base.n), confidence)
    low, high = min(low, share), max(high, share)
    seen = not low <= 0 <= high and p_value(value.values, base.values) < 1 - confidence
    return Difference(share, low, high, seen)


def _centre(values: Sequence[float], how: str) -> float:
    return median(values) if how == "median" else fmean(values)


def _resampled(values: Sequence[float], how: str, dice: random.Random) -> list[float]:
    return [_centre(dice.choices(values, k=len(values)), how) for _ in range(RESAMPLES)]


def _ends(drawn: list[float], n: int, confidence: float) -> tuple[float, float]:
    tail = _tail(n, confidence)
    return _quantile(drawn, tail), _quantile(drawn, 1 - tail)


@cache
def _tail(n: int, confidence: float) -> float:
    """The share of resamples beyond either end of the expanded interval."""
    from scipy.special import stdtrit

    t = float(stdtrit(n - 1, 1 - (1 - confidence) / 2))
    return NormalDist().cdf(-math.sqrt(n / (n - 1)) * t)


def _quantile(ordered: list[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    # Written so that equal neighbours give themselves, without a rounding error between.
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def p_value(one: Sequence[float], other: Sequence[float]) -> float:
    """The two-sided p of Student's test with a common variance; of logarithms where all values are above zero."""
    from scipy.special import stdtr

    if min(*one, *other) > 0:
        one, other = [math.log(value) for value in one], [math.log(value) for value in other]
    free = len(one) + len(other) - 2
    squares = sum((value - fmean(values)) ** 2 for values in (one, other) for value in values)
    apart = abs(fmean(one) - fmean(other))
    # Equal values may differ in their last bit once their mean or logarithm is taken.
    if squares <= (1e-12 * max(map(abs, (*one, *other)))) ** 2:
        return 0.0 if apart > 1e-12 * max(map(abs, (*one, *other))) else 1.0
    error = math.sqrt(squares / free * (1 / len(one) + 1 / len(other)))
    return 2 * float(stdtr(free, -apart / error))

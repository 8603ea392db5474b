"""Duty: several repetitions as one figure with its uncertainty, and whether two figures differ by more than noise.

Noise of storage is a share of the figure, so the arithmetic is that of logarithms: the figure of several repetitions
is their geometric mean, its interval is Student's, and two figures are compared by Welch's test, which lets each side
have noise of its own. Whoever judges several differences at once judges them as a family (`in_family`), after Benjamini
and Hochberg (1995): where nothing differs, the chance that any is called seen is that of one test. The interval of what
is not seen there reaches to zero, so that mark and range are one decision. Values at or below zero have no logarithm;
they are compared as they are. `docs/statistics.md` has the rates that simulation gives.

Refusal: one repetition on each side tells nothing of noise, and nothing is made up for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import fmean, median

from brickyard.errors import BadInputError

MAD_TO_SIGMA = 1.4826  # 1 / Φ⁻¹(3/4): a median absolute deviation as a standard deviation of normal noise
CONFIDENCE = 0.95
CONFIDENCE_LEAST = 0.5  # below it, an interval misses what it is of more often than it holds it
POWER = 0.8  # the share of cases in which a stated change is found; the field's convention (Cohen 1988)
ROUNDING = 1e-12  # equal values may differ by so much, as a share, once their logarithm or mean is taken
REPETITIONS_MAX = 1000  # more are advised to nobody


def checked_confidence(asked: float, said: str) -> float:
    """As it is where intervals and tests can have it; `said` is what the user wrote."""
    if not CONFIDENCE_LEAST <= asked < 1:
        raise BadInputError(
            f"{said}: a confidence is from {CONFIDENCE_LEAST * 100:g} to below 100 %; write 95% or 0.95"
        )
    return asked


@dataclass(frozen=True)
class Sample:
    """Repetitions of one figure. `low` and `high` are None where there is but one.

    They are of the repetitions' own figures; a percentile of all together may lie outside of them.
    """

    values: tuple[float, ...]
    centre: float
    low: float | None
    high: float | None
    lacking: int = 0
    """Further repetitions, which lack the figure, such as a p99 of too few requests. These may be the slow ones: the
    others alone make no interval, and no difference is judged by them."""

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def repetitions(self) -> int:
        """With those that lack the figure."""
        return self.n + self.lacking

    @property
    def has_interval(self) -> bool:
        return self.low is not None

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
class Welch:
    """Two means and what is known of their distance, on the scale of the test: logarithms, or shares of the base."""

    apart: float
    error: float
    free: float
    blur: float
    """How far apart two equal figures may be read."""
    is_log: bool
    least_free: float
    """The fewest degrees of freedom that the noise of the two sides can leave: those of the smaller side."""
    spreads: tuple[float, float]
    """The variance of single values of each side."""
    is_wary: bool = False

    @property
    def wary(self) -> Welch:
        """The test for a family. Satterthwaite's degrees of freedom are right at a level of 5 %; far out, where one of
        many is decided, they are too many for unequal noise, and only the fewest never say too much."""
        return replace(self, free=min(self.free, self.least_free), is_wary=True)

    @property
    def p(self) -> float:
        """Two-sided, of the claim that the sides differ."""
        return min(1.0, 2 * _p_above(abs(self.apart) - self.blur, self))

    def p_of(self, distance: float) -> float:
        """One-sided, of the claim that the true distance from a bound is above zero."""
        return _p_above(distance, self)

    def above(self, bound: float) -> float:
        """How far the sides' distance is above a share, on the scale of the test, less what may be misread."""
        return self.apart - self._at(bound) - self.blur

    def below(self, bound: float) -> float:
        return self._at(bound) - self.apart - self.blur

    def interval(self, confidence: float) -> tuple[float, float]:
        """Of the share."""
        reach = quantile(self.free, (1 + confidence) / 2) * self.error + self.blur
        return self._share(self.apart - reach), self._share(self.apart + reach)

    def sees(self, level: float) -> float:
        """The smallest change, as a share, that a two-sided test at this level finds in `POWER` of all cases."""
        return self._share(detectable(self.free, level) * self._likely_error + self.blur)

    def reach(self, level: float) -> float:
        """How far beyond a bound, on the scale of the test, a one-sided test at this level finds in `POWER` of all
        cases."""
        return detectable(self.free, 2 * level) * self._likely_error + self.blur

    def chance_beyond(self, distance: float, level: float) -> float:
        """That a one-sided test at this level finds what is so far beyond a bound."""
        shift = max(0.0, distance - self.blur) / self._likely_error
        return _tail(self.free, shift, quantile(self.free, 1 - level))

    @property
    def _likely_error(self) -> float:
        """The spread of a few values is below the true one more often than above: it is divided by the square root of
        the median of chi squared over its degrees of freedom (Wilson and Hilferty 1931)."""
        return float(self.error / (1 - 2 / (9 * self.free)) ** 1.5)

    def apart_by(self, bound: float, share: float) -> float:
        """How far, on the scale of the test, one share is above another."""
        return self._at(share) - self._at(bound)

    def share_beyond(self, bound: float, distance: float) -> float:
        """The share that is so far above another."""
        return self._share(self._at(bound) + distance)

    def _at(self, share: float) -> float:
        return math.log1p(share) if self.is_log else share

    def _share(self, distance: float) -> float:
        return _exp(distance) - 1 if self.is_log else distance


@dataclass(frozen=True)
class Difference:
    """`share` is value / base - 1, `low` and `high` its interval.

    `seen` is None where noise is unknown: both sides were measured once, or some repetitions lack the figure. `level`
    is the one at which a lone change would have to be found, smaller in a family.
    """

    share: float
    low: float | None
    high: float | None
    seen: bool | None
    test: Welch | None = None
    level: float = 1 - CONFIDENCE
    is_exact: bool = False
    """Both sides are the same computation."""

    @property
    def sees(self) -> float | None:
        """The smallest lone change that so many repetitions find at this noise in four of five cases."""
        return None if self.test is None else self.test.sees(self.level)


def sample(
    values: Sequence[float],
    how: str = "mean",
    *,
    whole: float | None = None,
    confidence: float = CONFIDENCE,
    lacking: int = 0,
    resolution: float = 0.0,
) -> Sample | None:
    """`whole` is the figure of all repetitions as one, where that is no mean of theirs, as with percentiles; where some
    repetitions lack the figure, there is no other. `resolution` as in `difference`: equal readings are no certainty."""
    if not (values or lacking) or (lacking and whole is None):
        return None
    if lacking and whole is not None:
        return Sample(tuple(values), whole, None, None, lacking)
    centre = _centre(values, how) if whole is None else whole
    if len(values) == 1:
        return Sample(tuple(values), centre, None, None)
    is_log = min(values) > 0
    scaled = [math.log(value) for value in values] if is_log else list(values)
    middle = fmean(scaled)
    variance = max(_variance(scaled), _lost_in_reading(resolution) if is_log else 0.0)
    reach = quantile(len(scaled) - 1, (1 + confidence) / 2) * math.sqrt(variance / len(scaled))
    low, high = (_exp(middle - reach), _exp(middle + reach)) if is_log else (middle - reach, middle + reach)
    if whole is not None:
        return Sample(tuple(values), centre, low, high)
    return Sample(tuple(values), centre, min(low, centre), max(high, centre))


def difference(
    value: Sample, base: Sample, *, resolution: float = 0.0, confidence: float = CONFIDENCE
) -> Difference | None:
    """How much `value` is above `base`, as a share of it; None where the base is zero.

    `resolution` is how far apart, as a share, two equal figures may be read: that of a histogram for percentiles, and
    one request for rates.
    """
    if not base.centre:
        return None
    share = value.centre / base.centre - 1
    is_whole = not value.lacking and not base.lacking
    test = welch(value.values, base.values, resolution=resolution) if is_whole else None
    if test is None:
        return Difference(share, None, None, None)
    if not test.is_log:
        share = test.apart  # of means, where a side's centre may be a geometric one
    low, high = test.interval(confidence)
    if min(*value.values, *base.values) >= 0:
        low = max(low, -1.0)  # nothing that is measured from zero up falls by more than all of it
    seen = test.p < 1 - confidence and _agrees(share, test)
    return Difference(share, min(low, share), max(high, share), seen, test, 1 - confidence)


def in_family(found: Sequence[Difference | None], confidence: float = CONFIDENCE) -> list[Difference | None]:
    """The same differences, with `seen` decided for all of them together."""
    tests = family([item.test for item in found if item is not None and item.test is not None])
    adjusted = iter(zip(tests, adjusted_p([test.p for test in tests]), strict=True))
    level = (1 - confidence) / max(1, len(tests))
    judged = []
    for item in found:
        if item is None or item.test is None:
            judged.append(item)
            continue
        test, p = next(adjusted)
        seen = p < 1 - confidence and _agrees(item.share, test)
        judged.append(replace(item if seen else _to_zero(item), seen=seen, test=test, level=level))
    return judged


def _to_zero(item: Difference) -> Difference:
    """What is not seen may be nothing, also where its own interval alone would exclude that."""
    if item.low is None or item.high is None:
        return item
    return replace(item, low=min(item.low, 0.0), high=max(item.high, 0.0))


def family(tests: Sequence[Welch]) -> list[Welch]:
    """Tests as they are to be judged together; a lone one stays as it is."""
    return [test.wary for test in tests] if len(tests) > 1 else list(tests)


def _agrees(share: float, test: Welch) -> bool:
    """What is shown may be a percentile of all repetitions; where that went the other way, nothing is called seen."""
    return share * test.apart > 0


def _lost_in_reading(resolution: float) -> float:
    """The variance that equal readings have at least, on a logarithmic scale: a step's width squared ÷ 12 (Sheppard's
    correction)."""
    return math.log1p(resolution) ** 2 / 12


def welch(one: Sequence[float], other: Sequence[float], *, resolution: float = 0.0) -> Welch | None:
    """`one` against `other`, with the degrees of freedom of Satterthwaite (1946); None where both sides have one value.

    For two values on a side these are too many where the other side has less noise or more values: the least that
    they can be, n - 1, is taken. One value alone is held against what the other side's noise lets expect of one more
    (a prediction interval): that takes the noise of both to be the same.
    """
    least, most = sorted((len(one), len(other)))
    least_free = float(least - 1 if least > 1 else most - 1)
    if most < 2:
        return None
    is_log = min(*one, *other) > 0
    scale = abs(fmean(other))
    if not scale:
        return None
    sides = [[math.log(x) if is_log else x / scale for x in side] for side in (one, other)]
    rounding = ROUNDING * max(1.0, *(abs(x) for side in sides for x in side))
    floor = max(rounding**2, _lost_in_reading(resolution))
    spreads = [max(_variance(side), floor) if len(side) > 1 else None for side in sides]
    known = [spread for spread in spreads if spread is not None]
    parts = [(known[0] if spread is None else spread) / len(side) for spread, side in zip(spreads, sides, strict=True)]
    free = _satterthwaite(parts, [len(one), len(other)]) if least > 2 else least_free
    return Welch(
        apart=fmean(sides[0]) - fmean(sides[1]),
        error=math.sqrt(sum(parts)),
        free=free,
        blur=math.log1p(resolution),
        is_log=is_log,
        least_free=least_free,
        spreads=(parts[0] * len(one), parts[1] * len(other)),
    )


def _satterthwaite(parts: Sequence[float], counts: Sequence[int]) -> float:
    """The degrees of freedom of a sum of variances of means."""
    return sum(parts) ** 2 / sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))


@dataclass(frozen=True)
class Ratio:
    """How many times one figure is another; the interval is None where no side was repeated."""

    centre: float
    low: float | None = None
    high: float | None = None


def mean_ratio(
    pairs: Sequence[tuple[Sample, Sample]],
    than: Sequence[tuple[Sample, Sample]] = (),
    *,
    resolution: float = 0.0,
    confidence: float = CONFIDENCE,
) -> Ratio | None:
    """The geometric mean of ratios of pairs, so that a cell of large figures counts as much as one of small ones; over
    that of the pairs of `than`, where there are some. None where a figure is not above zero.

    Its logarithm is a weighted sum of Welch's distances: variances add, and the degrees of freedom are Satterthwaite's.
    """
    known = [*((pair, 1 / len(pairs)) for pair in pairs), *((pair, -1 / len(than)) for pair in than)]
    if not known or any(one.centre <= 0 or other.centre <= 0 for (one, other), _ in known):
        return None
    centre = _exp(sum(share * math.log(one.centre / other.centre) for (one, other), share in known))
    if any(side.lacking or min(side.values) <= 0 for pair, _ in known for side in pair):
        return Ratio(centre)
    tests = [(welch(one.values, other.values, resolution=resolution), share) for (one, other), share in known]
    found = [(test, share) for test, share in tests if test is not None]
    if len(found) < len(tests):
        return Ratio(centre)
    parts = [(share * test.error) ** 2 for test, share in found]
    free = sum(parts) ** 2 / sum(part**2 / test.free for part, (test, _) in zip(parts, found, strict=True))
    blur = sum(abs(share) * test.blur for test, share in found)
    reach = quantile(free, (1 + confidence) / 2) * math.sqrt(sum(parts)) + blur
    apart = sum(share * test.apart for test, share in found)
    return Ratio(centre, min(centre, _exp(apart - reach)), max(centre, _exp(apart + reach)))


def adjusted_p(values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's step-up adjustment, in the order of `values`."""
    found, least = [1.0] * len(values), 1.0
    for rank, place in sorted(enumerate(sorted(range(len(values)), key=values.__getitem__), 1), reverse=True):
        least = min(least, values[place] * len(values) / rank)
        found[place] = least
    return found


@lru_cache(maxsize=4096)
def quantile(free: float, share: float) -> float:
    """Of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(free, share))


def _p_above(distance: float, test: Welch) -> float:
    from scipy.special import stdtr

    return float(stdtr(test.free, -distance / test.error))


@lru_cache(maxsize=4096)
def detectable(free: float, level: float) -> float:
    """How many standard errors a change must measure for a two-sided t-test at `level` to find it in `POWER` of cases:
    the shift of a noncentral t."""
    from scipy.special import nctdtrinc

    return float(nctdtrinc(free, 1 - POWER, quantile(free, 1 - level / 2)))


def repetitions_for(spread: float, share: float, level: float) -> int | None:
    """How many repetitions a side find a change by `share` where the logarithms spread by `spread`; None where more
    than a thousand."""
    wanted = math.log1p(share)
    return _fewest(lambda n: _finds(n, spread, wanted, level))


def repetitions_to_decide(test: Welch, margin: float, level: float) -> int | None:
    """How many repetitions a side let the one-sided test at `level` decide in `POWER` of cases, if the two sides are
    `margin` beyond its bound and as noisy as they were seen to be; None where more than a thousand."""
    return _fewest(lambda n: chance(test, n, margin, level) >= POWER) if margin > 0 else None


def chance(test: Welch, n: int, margin: float, level: float) -> float:
    """That the one-sided test at `level` decides with n values a side."""
    parts = [spread / n for spread in test.spreads]
    free, shift = _satterthwaite(parts, [n, n]), margin / math.sqrt(sum(parts))
    beyond = quantile(float(n - 1) if test.is_wary or n == 2 else free, 1 - level)
    return _tail(free, shift, beyond)


def _tail(free: float, shift: float, beyond: float) -> float:
    """The upper tail of a noncentral t."""
    from scipy.special import chdtr, nctdtr

    if shift > SHIFT_MAX:  # only the noise of the noise is left
        return 1.0 if beyond <= 0 else float(chdtr(free, free * (shift / beyond) ** 2))
    return 1 - float(nctdtr(free, shift, beyond))


SHIFT_MAX = 30.0  # of a noncentral t; SciPy has no values far beyond


def _fewest(is_enough: Callable[[int], bool]) -> int | None:
    """Of repetitions, where more are enough whenever fewer are."""
    low, high = 2, REPETITIONS_MAX
    if not is_enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return low


def _finds(n: int, spread: float, wanted: float, level: float) -> bool:
    return detectable(2.0 * (n - 1), level) * spread * math.sqrt(2 / n) <= wanted


def _centre(values: Sequence[float], how: str) -> float:
    """The geometric mean where there is one: it is what the interval and the tests of logarithms speak of."""
    if how == "median":
        return median(values)
    if min(values) == max(values):
        return values[0]
    return _exp(fmean(math.log(value) for value in values)) if min(values) > 0 else fmean(values)


def _variance(values: Sequence[float]) -> float:
    """As `statistics.variance` gives it in exact fractions, at a hundredth of the time."""
    middle = fmean(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - 1)


def _exp(value: float) -> float:
    """Without an error where noise is beyond all measure."""
    return math.exp(min(value, 700.0))

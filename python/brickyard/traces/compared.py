"""Duty: how far the distributions of two traces are apart, and whether one reproduces the other.

For each figure two distances are computed from values of single requests, at most 100,000 a trace:

- The Kolmogorov-Smirnov distance D = max |F(x) - G(x)|, by SciPy: the largest difference of the shares below any value.
- The least e with F(x / (1 + e)) - e <= G(x) <= F(x (1 + e)) + e for all x: values may be off by the factor 1 + e, and
  shares by e. This is Levy's distance on a relative scale. It judges, since D alone calls 100 us and 101 us as
  different as 100 us and 1 s.

A figure is reproduced where e is at most the tolerance, and so is the difference of both means, as a share of the
lesser. The means are judged since e allows more where a distribution is wide: of exponential gaps that are 40 % longer
it is 9 %, and of sizes it forgets a few large requests that move half of the bytes. A mean of depths counts the request
itself. Distances of reuse have none: of a first use it is infinite. Sizes are judged for each operation. The share of
sequential requests is one more figure of each operation with places: its distance is the difference of both shares.

Refusal: no trace is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from brickyard.traces.contents import Buckets, Doubles, Examined, OperationFigures
from brickyard.units import plural

TOLERANCE = 0.10
LEAST = 100  # fewer values of a figure have no verdict
HALVINGS = 30
VALUES_MOST = 100_000
PLACED = ("read", "write", "discard")
"""Operations that have a place and a size."""
FIGURES = {
    "gap": "gaps",
    "depth": "depths",
    "reuse": "reuses",
    "latency": "latencies",
}


@dataclass(frozen=True)
class Distance:
    figure: str
    first: int
    """Values of the first trace, and of the second."""
    second: int
    ks: float | None = None
    distance: float | None = None
    first_median: float | None = None
    second_median: float | None = None
    first_mean: float | None = None
    second_mean: float | None = None
    mean_difference: float | None = None
    """Between both means, as a share of the lesser; None: a figure without a mean."""
    why: str = ""
    """Why it has no distance."""

    def beyond(self, tolerance: float) -> list[str]:
        """The figure, else its mean, where it is further off than that."""
        if self.distance is not None and self.distance > tolerance:
            return [self.figure]
        return [f"mean {self.figure}"] if self.mean_difference is not None and self.mean_difference > tolerance else []


@dataclass(frozen=True)
class CountedBoth:
    """Requests and bytes of an operation in both traces."""

    operation: str
    first: int
    second: int
    first_bytes: int
    second_bytes: int
    first_failed: int = 0
    second_failed: int = 0


@dataclass(frozen=True)
class TraceComparison:
    distances: list[Distance]
    counts: list[CountedBoth]
    tolerance: float
    torn: tuple[str | None, str | None] = (None, None)
    """Why each trace ends before its end."""
    speed: float = 1.0
    """At which the second was to repeat the first: by so much the gaps of the first were divided."""

    @property
    def failing(self) -> list[str]:
        """Figures that are further apart than the tolerance."""
        mixes = [
            f"number of {plural(item.operation)}" for item in self.counts if not self._like(item.first, item.second)
        ]
        mixes += [
            f"{plural(item.operation)} that failed"
            for item in self.counts
            if not self._like(item.first_failed, item.second_failed)
        ]
        return [name for d in self.distances for name in d.beyond(self.tolerance)] + mixes

    @property
    def without(self) -> list[str]:
        return [d.figure for d in self.distances if d.distance is None]

    @property
    def reproduces(self) -> bool | None:
        """None: the counts of requests are alike, and nothing else could be compared."""
        if self.failing:
            return False
        return None if all(d.distance is None for d in self.distances) else True

    @property
    def held_against(self) -> str:
        """The first, in words."""
        return "the trace" if self.speed == 1 else f"the trace at {self.speed:g} times its speed"

    @property
    def verdict(self) -> str:
        within = f"within {self.tolerance:.0%}".replace("%", " %")
        if self.reproduces is None:
            return f"no verdict: no figure has {LEAST} values in both traces"
        unseen = f"; not compared: {', '.join(self.without)}" if self.without else ""
        if self.reproduces:
            return f"reproduces {within}{unseen}"
        return f"does not reproduce {within}: {', '.join(self.failing)}{unseen}"

    def _like(self, first: int, second: int) -> bool:
        """Counts of few requests differ by chance: three deviations of a Poisson number are allowed. An operation that
        is in one trace alone is no chance.
        """
        if not first or not second:
            return first == second
        return abs(first - second) <= max(self.tolerance * first, 3 * math.sqrt(first + second))


def compare(first: Examined, second: Examined, tolerance: float = TOLERANCE, *, speed: float = 1.0) -> TraceComparison:
    """The second may be a replay of the first at that speed, whose gaps are held against those that were asked for."""
    ours, theirs = first.figures.operations, second.figures.operations
    distances = [one for name in PLACED for one in _placed(name, ours[name], theirs[name])]
    distances += [
        distance_of(
            figure, getattr(first.samples, name) / (speed if figure == "gap" else 1.0), getattr(second.samples, name)
        )
        for figure, name in FIGURES.items()
    ]
    counts = [
        CountedBoth(
            name,
            ours[name].requests,
            theirs[name].requests,
            ours[name].bytes,
            theirs[name].bytes,
            ours[name].failed,
            theirs[name].failed,
        )
        for name in ours
        if ours[name].requests or theirs[name].requests
    ]
    return TraceComparison(distances, counts, tolerance, (first.contents.torn, second.contents.torn), speed)


def _placed(operation: str, first: OperationFigures, second: OperationFigures) -> list[Distance]:
    """Sizes and order of an operation; none where one trace lacks it, which its count says."""
    if not first.requests or not second.requests:
        return []
    name = plural(operation)
    sizes = distance_of(f"size of {name}", _spread(first.sizes), _spread(second.sizes))
    order = f"sequential {name}"
    if min(first.requests, second.requests) < LEAST:
        return [sizes, Distance(order, first.requests, second.requests, why=f"fewer than {LEAST} values")]
    apart = abs(first.sequential / first.requests - second.sequential / second.requests)
    return [sizes, Distance(order, first.requests, second.requests, ks=apart, distance=apart)]


def _spread(counts: Buckets) -> Doubles:
    """Values by their counts, in ascending order; of many, evenly chosen ones."""
    values = np.array([value for value, _ in counts], dtype=np.float64)
    ends = np.cumsum([count for _, count in counts])
    all_ = int(ends[-1])
    places = (np.arange(min(all_, VALUES_MOST)) + 0.5) * (all_ / min(all_, VALUES_MOST))
    spread: Doubles = values[np.searchsorted(ends, places, side="right")]
    return spread


def distance_of(figure: str, first: Doubles, second: Doubles) -> Distance:
    """Both in ascending order."""
    if min(len(first), len(second)) < LEAST:
        missing = not len(first) or not len(second)
        why = "not in both traces" if missing else f"fewer than {LEAST} values"
        return Distance(figure, len(first), len(second), why=why)
    from scipy import stats  # takes a second, which no other command has to wait for

    found = stats.ks_2samp(_finite(first), _finite(second), method="asymp")
    means = _means(figure, first, second)
    return Distance(
        figure,
        len(first),
        len(second),
        ks=float(found.statistic),
        distance=levy(first, second),
        first_median=_median(first),
        second_median=_median(second),
        first_mean=means[0] if means else None,
        second_mean=means[1] if means else None,
        mean_difference=_apart(*means) if means else None,
    )


def _means(figure: str, first: Doubles, second: Doubles) -> tuple[float, float] | None:
    itself = 1.0 if figure == "depth" else 0.0
    means = float(first.mean()) + itself, float(second.mean()) + itself
    return means if all(map(math.isfinite, means)) else None


def _apart(first: float, second: float) -> float:
    less, more = sorted((first, second))
    return more / less - 1 if less else float(more > 0)


def _median(values: Doubles) -> float | None:
    middle = float(values[len(values) // 2])
    return middle if np.isfinite(middle) else None


def _finite(values: Doubles) -> Doubles:
    """First uses have an infinite distance: larger than any, and equal."""
    return np.nan_to_num(values, posinf=np.finfo(np.float64).max)


def levy(first: Doubles, second: Doubles) -> float:
    """The least e of the module's formula, to a billionth; both in ascending order."""
    low, high = 0.0, 1.0
    if _within(first, second, low):
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _within(first, second, middle):
            high = middle
        else:
            low = middle
    return high


def _within(first: Doubles, second: Doubles, e: float) -> bool:
    """F(x / (1 + e)) - e <= G(x) for all x, and the same with both exchanged, which is the other half."""
    return _below(first, second, e) and _below(second, first, e)


def _below(first: Doubles, second: Doubles, e: float) -> bool:
    # F(x / (1 + e)) rises at the values of F times 1 + e, so only there it can be too high.
    points = first * (1 + e)
    share = np.searchsorted(first, first, side="right") / len(first)
    other = np.searchsorted(second, points * (1 + 1e-12), side="right") / len(second)
    return bool(np.all(share - e <= other + 1e-12))

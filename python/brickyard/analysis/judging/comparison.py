"""Duty: two sets of runs, like with like: which figures changed, by how much, and whether that is more than noise.

Refusal: which runs belong together is for `pairing` to say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from brickyard.analysis.figures.independent import Repeat, independent, is_same_computation
from brickyard.analysis.figures.latency import Latency, together
from brickyard.analysis.figures.named import FIGURES, LATENCY, Figure, time_words
from brickyard.analysis.figures.samples import CONFIDENCE, Difference, Sample, difference, in_family, sample
from brickyard.analysis.figures.totals import errors_of
from brickyard.analysis.judging.moved_sizes import SizesApart, sizes_apart
from brickyard.analysis.judging.pairing import (
    COMPARED,
    Name,
    Pooled,
    figure_of_sides,
    paired,
    shared_percentiles,
    value_of,
    whole_of,
)
from brickyard.schema import Document, Timed
from brickyard.store import Record


@dataclass(frozen=True)
class Change:
    """One figure of one stream and operation on both sides.

    `within` is the noise within the two runs where each side is one: how far apart repeated runs are, it does not say.
    """

    name: Name
    figure: Figure
    before: Sample
    after: Sample
    difference: Difference
    within: float | None = None

    @property
    def worse_by(self) -> float:
        """Above zero where it got worse, as a share of what it was."""
        return -self.difference.share if self.figure.more_is_better else self.difference.share

    @property
    def is_partial(self) -> bool:
        """Some runs of a side lack the figure."""
        return bool(self.before.lacking or self.after.lacking)

    @property
    def most_worse_by(self) -> float | None:
        """The end of the interval at which it got worse by the most; None where there is no interval."""
        low, high = self.difference.low, self.difference.high
        return high if not self.figure.more_is_better else None if low is None else -low

    @property
    def least_worse_by(self) -> float | None:
        """The end of the interval at which it got worse by the least; None where there is no interval."""
        low, high = self.difference.low, self.difference.high
        return low if not self.figure.more_is_better else None if high is None else -high

    def document(self) -> Document:
        found = self.difference
        return {
            "load": list(self.name),
            "figure": self.figure.name,
            "before": self.before.centre,
            "after": self.after.centre,
            "n_before": self.before.n,
            "n_after": self.after.n,
            "difference": {
                "share": found.share,
                "low": found.low,
                "high": found.high,
                "seen": found.seen,
                "p": found.test.p if found.test else None,
                "sees": found.sees,
            },
            "noise": "unknown" if found.seen is None else "between runs",
            "noise_within_runs": self.within,
        }


@dataclass(frozen=True)
class Shift:
    """The latencies of one stream and operation on both sides as whole distributions."""

    name: Name
    measure: str
    """`response`; `service` where no side has other times; `latency` where one side has (fio knows no due instant)."""
    before: Latency
    after: Latency
    distance: float
    at_ns: int
    percentiles_of: str = ""
    """Whose time the distributions are of where that is not the measure itself: fio's clat."""

    @property
    def words(self) -> str:
        return self.percentiles_of or time_words(self.measure)

    def document(self) -> Document:
        sides = {
            side: {
                "mean_ns": item.mean_ns,
                **{f"{n}_ns": v for n, v in item.percentiles.items()},
                "max_ns": item.max_ns,
            }
            for side, item in (("before", self.before), ("after", self.after))
        }
        about = {"load": list(self.name), "measure": self.measure, "time": self.words}
        return {**about, **sides, "largest_distance": self.distance, "at_ns": self.at_ns}


@dataclass(frozen=True)
class Lack:
    """A figure that some runs lack, such as a p99 of too few requests; `runs` of each side are those without it."""

    name: Name
    figure: Figure
    runs: tuple[tuple[int, ...], tuple[int, ...]]
    is_lost: bool
    """It was measured before, and in no run after."""
    is_partial: bool
    """Both sides have it, each at least in one run, or in all of its runs together."""
    is_of_all: bool = False
    """No run has it by itself: each is too short."""

    def document(self) -> Document:
        return {
            "load": list(self.name),
            "figure": self.figure.name,
            "runs_before": list(self.runs[0]),
            "runs_after": list(self.runs[1]),
            "lost": self.is_lost,
        }


@dataclass(frozen=True)
class Failures:
    """Failed requests of all that were sent, on both sides."""

    name: Name
    failed: tuple[int, int]
    sent: tuple[int, int]
    unknown: tuple[str, ...] = ()
    """Why it is not known of some runs whether requests failed; nothing is compared then."""

    @property
    def shares(self) -> tuple[float, float]:
        before, after = (failed / sent if sent else 0.0 for failed, sent in zip(self.failed, self.sent, strict=True))
        return before, after

    def is_worse(self, tolerance: float) -> bool:
        """Any failure where there was none; else a share that grew by more than the tolerance and `FAILED_MIN`."""
        if self.unknown:
            return False
        before, after = self.shares
        return after - before > (max(tolerance * before, FAILED_MIN) if before else 0.0)


FAILED_MIN = 1e-5
"""A growth of the share of failed requests up to one in 100,000 is let pass where some failed before: our choice."""


@dataclass(frozen=True)
class Comparison:
    changes: list[Change]
    shifts: list[Shift]
    only_before: list[Name]
    only_after: list[Name]
    failures: list[Failures]
    lacking: list[Lack]
    repeats: list[Repeat]
    unlike: tuple[list[int], list[int]]
    """Runs of each side that are left out, as the other has none on their storage in their condition."""
    sizes: tuple[SizesApart, ...] = ()
    """Loads whose mean request differs between the sides, though their plans ask for the same."""
    is_same_computation: bool = False
    """All runs of both sides are on models, with the same seeds and loads."""


def compare(
    before: Sequence[Record],
    after: Sequence[Record],
    *,
    names: Sequence[str] = COMPARED,
    confidence: float = CONFIDENCE,
) -> Comparison:
    (before, one_repeats), (after, other_repeats) = independent(before), independent(after)
    one, other, unlike = paired(before, after)
    both = [name for name in one if name in other]
    changes: list[Change] = []
    lacking: list[Lack] = []
    for name in both:
        for figure in (FIGURES[n] for n in names):
            asked = figure_of_sides(figure, one[name], other[name])
            if asked is None:
                continue
            change = _change(name, asked, one[name], other[name], confidence)
            if change is not None:
                changes.append(change)
            lack = _lack(name, asked, one[name], other[name])
            if lack is not None:
                lacking.append(lack)
    together = in_family([change.difference for change in changes], confidence)
    changes = [
        replace(change, difference=found) for change, found in zip(changes, together, strict=True) if found is not None
    ]
    if same := is_same_computation(before, after):
        changes = [replace(change, difference=_exactly_none(change.difference)) for change in changes]
    return Comparison(
        changes=changes,
        shifts=[shift for name in both if (shift := _shift(name, one[name], other[name])) is not None],
        only_before=[name for name in one if name not in other],
        only_after=[name for name in other if name not in one],
        failures=[_failures(name, one[name], other[name]) for name in both],
        lacking=lacking,
        repeats=[*one_repeats, *other_repeats],
        unlike=unlike,
        sizes=tuple(found for name in both if (found := sizes_apart(name, one[name], other[name])) is not None),
        is_same_computation=same,
    )


def _exactly_none(found: Difference) -> Difference:
    return replace(found, share=0.0, low=0.0, high=0.0, seen=False, is_exact=True)


def _change(name: Name, figure: Figure, one: Pooled, other: Pooled, confidence: float) -> Change | None:
    before, after = (_sample(side, figure, confidence) for side in (one, other))
    if before is None or after is None:
        return None
    found = difference(after, before, resolution=_resolution(figure, one, other), confidence=confidence)
    if found is None:
        return None
    once = before.n == after.n == 1
    return Change(name, figure, before, after, found, _within(one, other, figure, confidence) if once else None)


def _within(one: Pooled, other: Pooled, figure: Figure, confidence: float) -> float | None:
    """Half the interval of the ratio of two single runs, were there no noise but that within them."""
    shares = []
    for side in (one, other):
        found = side.batches[0].noise_within(figure, side.found[0][1], confidence)
        if found is None:
            return None
        shares.append(found.share)
    return math.hypot(*shares)


def _lack(name: Name, figure: Figure, one: Pooled, other: Pooled) -> Lack | None:
    """None where all runs have the figure, or none has, nor all of a side together."""
    without = [
        tuple(record.info.id for record, row in side.found if value_of(row, figure) is None) for side in (one, other)
    ]
    has = [len(runs) < len(side.found) for runs, side in zip(without, (one, other), strict=True)]
    if not any(without):
        return None
    if not any(has):
        if any(whole_of(side, figure) is None for side in (one, other)):
            return None
        return Lack(name, figure, (without[0], without[1]), is_lost=False, is_partial=True, is_of_all=True)
    return Lack(name, figure, (without[0], without[1]), is_lost=has[0] and not has[1], is_partial=all(has))


def _failures(name: Name, one: Pooled, other: Pooled) -> Failures:
    failed = [errors_of(row for _, row in side.found) or 0 for side in (one, other)]
    sent = [
        count + sum(row.requests for _, row in side.found) for count, side in zip(failed, (one, other), strict=True)
    ]
    words = (record.info.errors_unknown_words for side in (one, other) for record, _ in side.found)
    return Failures(name, (failed[0], failed[1]), (sent[0], sent[1]), tuple(dict.fromkeys(filter(None, words))))


def _resolution(figure: Figure, *sides: Pooled) -> float:
    """Rates come from counts: a run of 300 requests tells no two apart that differ by less than one in 300."""
    if figure.kind not in ("rate", "mib"):
        return figure.resolution
    return max((1 / row.requests for side in sides for _, row in side.found if row.requests), default=0.0)


def _sample(side: Pooled, figure: Figure, confidence: float) -> Sample | None:
    values = [value for _, row in side.found if (value := value_of(row, figure)) is not None]
    lacking = len(side.found) - len(values)
    whole, resolution = whole_of(side, figure), figure.resolution
    return sample(values, whole=whole, confidence=confidence, lacking=lacking, resolution=resolution)


def _shift(name: Name, one: Pooled, other: Pooled) -> Shift | None:
    """The largest distance between the two distribution functions (Kolmogorov and Smirnov's), and where it is. None
    where they are of different times."""
    both = [row for side in (one, other) for _, row in side.found]
    measure = _shared_measure([row.measures for row in both])
    whose = shared_percentiles(measure, one, other)
    if whose is None:
        return None
    sides = [_merged(side, measure) for side in (one, other)]
    if sides[0] is None or sides[1] is None or not (sides[0].has_bins and sides[1].has_bins):
        return None
    low = max(1, min(side.histogram.min_ns for side in sides if side))
    high = max(side.max_ns for side in sides if side)
    edges = sorted({round(low * (high / low) ** (step / EDGES)) for step in range(EDGES + 1)} | {high + 1})
    shares = []
    for side in sides:
        assert side is not None
        counts = side.histogram.counts(edges)
        total, sums = 0, []
        for count in counts:
            total += count
            sums.append(total / side.count)
        shares.append(sums)
    apart = [abs(a - b) for a, b in zip(*shares, strict=True)]
    worst = max(range(len(apart)), key=apart.__getitem__)
    return Shift(name, measure, sides[0], sides[1], apart[worst], edges[worst + 1], whose)


def _shared_measure(found: Sequence[Mapping[str, Latency]]) -> str:
    if all(Timed.RESPONSE in measures for measures in found):
        return Timed.RESPONSE
    is_service = all(measures.get(LATENCY) is measures.get(Timed.SERVICE) for measures in found)
    return Timed.SERVICE if is_service else LATENCY


EDGES = 100  # steps of a few per cent, as fine as the histograms' own buckets over three decades


def _merged(side: Pooled, measure: str) -> Latency | None:
    return together(row.measures[measure] for _, row in side.found if measure in row.measures)

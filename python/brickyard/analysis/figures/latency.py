"""Duty: latency figures out of histograms. Histograms are merged; percentiles are never averaged.

Refusal: no percentile that rests on fewer than ten samples beyond it. One whose samples come from one or two events is
marked: a stall that held up all 64 requests in flight is one event, and 64 samples tell no more of it than one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile

from brickyard._core import Histogram
from brickyard.percentiles import PERCENTILES, is_supported, percentile_name
from brickyard.store import Interval

MIN_EVENTS_BEYOND = 3
"""With fewer, one event more or less changes how often such latencies are by a half or more."""
BY_CHANCE = 0.01
"""A mark that evenly spread samples would get more often than this is not set."""
STUB_SHARE = 0.5
"""An interval that is shorter than this share of the longest, and than its slowest request, is a stub."""
BUCKET_ERROR = 0.008
"""A value that comes out of a histogram of two digits is at most this far from that of the request."""
FEW_EVENTS = "*"
FEW_EVENTS_WORDS = (
    f"{FEW_EVENTS}: the samples beyond this percentile come from one or two events, such as a single stall"
)


def bucket_start_ns(value_ns: int) -> int:
    """The least time that a histogram of ours does not tell from this one, which is the end of its bucket: it keeps the
    first eight binary digits."""
    return value_ns - (1 << max(0, value_ns.bit_length() - 8)) + 1


@dataclass(frozen=True, slots=True)
class Peak:
    """The slowest request of an interval that had any."""

    start_ns: int
    end_ns: int
    max_ns: int
    requests: int


def events_beyond(peaks: Iterable[Peak], value_ns: int) -> int:
    """Events that requests of `value_ns` or more come from, counted by the intervals that they ended in.

    All that ended in one interval counts as one event, and so do neighbouring intervals where the slowest request of
    the later one began before the former one ended: a stall that outlasts an interval. Two events in one interval are
    counted as one, so this is a lower bound. (Runs declustering of exceedances: Coles, An Introduction to Statistical
    Modeling of Extreme Values, 2001, 5.3.2.)
    """
    events, until_ns = 0, -math.inf
    least_ns = value_ns * (1 - BUCKET_ERROR)
    for peak in sorted((p for p in peaks if p.max_ns >= least_ns), key=lambda p: p.start_ns):
        outlasts = peak.max_ns >= peak.end_ns - peak.start_ns
        began_ns = peak.start_ns - peak.max_ns if outlasts else peak.start_ns
        events += began_ns >= until_ns
        until_ns = max(until_ns, peak.end_ns)
    return events


def is_of_few_events(
    peaks: Sequence[Peak], percentile: float, value_ns: int, told_apart: Sequence[int] | None = None
) -> bool:
    """Whether what lies beyond a percentile comes from fewer events than `MIN_EVENTS_BEYOND`.

    Where samples that were spread evenly over the requests could well fall into fewer intervals, fewer are asked for: a
    run of one interval cannot tell events apart, and one of two intervals has no third. `told_apart` are the requests
    of each interval, for whoever asks of several percentiles.
    """
    each = _told_apart(peaks) if told_apart is None else told_apart
    return events_beyond(peaks, value_ns) < _events_asked(each, (100 - percentile) / 100)


def _events_asked(told_apart: Iterable[int], share: float) -> int:
    """The most events, up to `MIN_EVENTS_BEYOND`, that evenly spread samples miss in at most `BY_CHANCE` of runs."""
    exactly = [1.0] + [0.0] * (MIN_EVENTS_BEYOND - 1)  # how likely so many intervals have a sample beyond
    for requests in told_apart:
        none = (1 - share) ** requests
        for number in range(MIN_EVENTS_BEYOND - 1, 0, -1):
            exactly[number] = exactly[number] * none + exactly[number - 1] * (1 - none)
        exactly[0] *= none
        if sum(exactly) <= BY_CHANCE:  # further intervals make fewer events only less likely
            return MIN_EVENTS_BEYOND
    fewer, asked = 0.0, 0
    for likely in exactly:
        fewer += likely
        if fewer > BY_CHANCE:
            break
        asked += 1
    return asked


def _told_apart(peaks: Iterable[Peak]) -> list[int]:
    """Requests of each interval that can have an event of its own. Streams share their intervals; of a stub, such as
    the wait for the last answers, every request began in the interval before."""
    whole: dict[int, Peak] = {}
    for peak in peaks:
        before = whole.get(peak.start_ns, peak)
        requests = peak.requests + (before.requests if before is not peak else 0)
        end_ns, max_ns = max(before.end_ns, peak.end_ns), max(before.max_ns, peak.max_ns)
        whole[peak.start_ns] = Peak(peak.start_ns, end_ns, max_ns, requests)
    longest_ns = max((peak.end_ns - peak.start_ns for peak in whole.values()), default=0)

    def is_stub(peak: Peak) -> bool:
        length_ns = peak.end_ns - peak.start_ns
        return length_ns < STUB_SHARE * longest_ns and peak.max_ns >= length_ns

    return [peak.requests for peak in whole.values() if not is_stub(peak)]


@dataclass(frozen=True)
class Latency:
    """Figures of one measure. `percentiles` goes by name (`p99.9`); None where too few samples lie beyond.

    `few_events` names those whose samples beyond come from one or two events, and all rarer ones; empty also where no
    intervals are known. Where `has_bins` is false, another tool printed no distribution: the histogram has the counts
    and nothing may be read from it.
    """

    count: int
    mean_ns: float
    min_ns: int | None
    """None where another tool measured and did not print it."""
    max_ns: int
    percentiles: dict[str, int | None]
    histogram: Histogram
    few_events: frozenset[str] = frozenset()
    peaks: tuple[Peak, ...] = field(default=(), repr=False)
    has_bins: bool = True
    percentiles_of: str = ""
    """Whose time percentiles and histogram are of, where the mean and the extremes are of another: fio's `clat` stands
    beside its `lat`."""

    @property
    def histogram_text(self) -> str:
        """For exports; empty where no distribution was measured."""
        return self.histogram.text() if self.has_bins else ""

    @property
    def p50(self) -> int | None:
        return self.percentiles["p50"]

    @property
    def p99(self) -> int | None:
        return self.percentiles["p99"]


def latency(histogram: Histogram | None) -> Latency | None:
    if histogram is None:
        return None
    if histogram.count == 0:
        return None
    values = histogram.percentiles_ns(list(PERCENTILES))
    return Latency(
        count=histogram.count,
        mean_ns=histogram.mean_ns,
        min_ns=histogram.min_ns,
        max_ns=histogram.max_ns,
        percentiles={
            percentile_name(p): value if is_supported(histogram.count, p) else None
            for p, value in zip(PERCENTILES, values, strict=True)
        },
        histogram=histogram,
    )


def latency_of(intervals: Iterable[Interval]) -> Latency | None:
    """Of intervals as one. Each keeps the exact mean and maximum of its samples beside their histogram."""
    rows = list(intervals)
    found = latency(Histogram.merged(row.histogram for row in rows))
    if found is None:
        return None
    measured = [row for row in rows if row.histograms]
    of_requests = sum(row.requests for row in measured)
    # Where a sample is no request, as in a driver's lag, the means have no weights but the buckets.
    mean_ns = (
        sum(row.requests * row.mean_ns for row in measured) / of_requests
        if of_requests == found.count
        else found.mean_ns
    )
    found = within(replace(found, mean_ns=mean_ns, max_ns=max(row.max_ns for row in rows)))
    return _with_events(found, tuple(Peak(row.start_ns, row.end_ns, row.max_ns, row.requests) for row in measured))


def _with_events(figures: Latency, peaks: tuple[Peak, ...]) -> Latency:
    """What lies beyond a rarer percentile is a part of what lies beyond a less rare one, and has no more events."""
    shown = [(p, value) for p in PERCENTILES if (value := figures.percentiles[percentile_name(p)]) is not None]
    told_apart = _told_apart(peaks)
    marked = dropwhile(lambda one: not is_of_few_events(peaks, *one, told_apart), shown)
    return replace(figures, few_events=frozenset(percentile_name(p) for p, _ in marked), peaks=peaks)


def within(figures: Latency) -> Latency:
    """No mean and no percentile lies outside of the extremes: what is read from a bucket may be beyond its samples. A
    percentile of another time than the extremes, a part of theirs, may lie below the minimum."""
    low_ns, high_ns = min(figures.min_ns or 0, figures.max_ns), figures.max_ns
    least_shown_ns = 0 if figures.percentiles_of else low_ns
    held = {
        name: None if value is None else max(least_shown_ns, min(value, high_ns))
        for name, value in figures.percentiles.items()
    }
    least_ns = None if figures.min_ns is None else low_ns
    return replace(
        figures, min_ns=least_ns, mean_ns=max(float(low_ns), min(figures.mean_ns, float(high_ns))), percentiles=held
    )


def together(figures: Iterable[Latency]) -> Latency | None:
    """Several as one; one alone stays as it is."""
    found = list(figures)
    return found[0] if len(found) == 1 else as_one(found)


def _least_ns(figures: list[Latency]) -> int | None:
    """Unknown where one of them is."""
    known = [item.min_ns for item in figures if item.min_ns is not None]
    return min(known) if len(known) == len(figures) else None


def as_one(figures: Iterable[Latency]) -> Latency | None:
    """Several as one: percentiles of the merged histograms, the mean of all samples, and the extremes of all. Where one
    of them has no distribution, no percentile of all is known."""
    found = list(figures)
    if len(found) == 1 and not found[0].has_bins:
        return found[0]
    whole = latency(Histogram.merged(item.histogram for item in found))
    if whole is None:
        return None
    whole = within(
        replace(
            whole,
            mean_ns=sum(item.count * item.mean_ns for item in found) / sum(item.count for item in found),
            min_ns=_least_ns(found),
            max_ns=max(item.max_ns for item in found),
            percentiles_of=next((item.percentiles_of for item in found if item.percentiles_of), ""),
        )
    )
    if not all(item.has_bins for item in found):
        return replace(whole, percentiles=dict.fromkeys(whole.percentiles), has_bins=False)
    # What ended in the same interval of several streams is one event; of runs, whose clocks begin alike, as well: too
    # few events are said rather than too many.
    return _with_events(whole, tuple(peak for item in found for peak in item.peaks))

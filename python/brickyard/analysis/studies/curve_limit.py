"""Duty: the rate within a limit on the response time that a load curve found: whether it is known, and the sentence
that says so.

It is not known where the target broke the limit at or below a rate at which it kept it, unless the interval of the
searches covers both; nor where response times do not follow the rate, since a search then ends wherever it was slow.

Refusal: nothing is searched, and no figure is computed that `analysis.figures.search` did not give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.analysis.figures.latency import FEW_EVENTS
from brickyard.analysis.figures.load_curve import Limit, step_of, usable
from brickyard.analysis.figures.samples import Sample
from brickyard.analysis.figures.search import OWN, SEARCHES, Carried, Step, enough, fewest, growing, rates
from brickyard.analysis.studies.curves import Curve
from brickyard.analysis.studies.sustained import differ_words, is_wide, sustained_words
from brickyard.units import format_count, format_iops, format_ns

SEARCHED_NEAR = 0.1
"""Rates this near to what searches found may keep or break a limit by chance."""
FAR_ABOVE, FAR_SLOWER = 1.5, 2.0
"""A rate so many times another has times at least as long; where they are so many times shorter, it is no chance."""
VARIED = "the target's performance varied over time"
AGAIN = "Measure again when nothing else runs"
CUT = "the measurement did not end"
FULL_FROM = ". From about this rate on, the target is overloaded"
KEPT = "the target kept the limit at every offered rate: raise --max-rate"


@dataclass(frozen=True)
class Tried:
    """A rate that was measured: a level of the curve, or a step of one of its searches."""

    step: Step
    is_level: bool

    @property
    def rate_per_s(self) -> float:
        return self.step.rate_per_s

    @property
    def is_broken(self) -> bool:
        """Where there are too few requests for the percentile, the largest time does not tell that it was too long."""
        return not self.step.holds and (self.step.value_ns is not None or not self.step.kept_up)

    @property
    def name(self) -> str:
        rate = f"{format_iops(self.rate_per_s)}/s"
        return f"the level of {rate}" if self.is_level else f"a step of a search at {rate}"


@dataclass(frozen=True)
class Contradiction:
    """Of two rates, the lower one, or one of two that are equal, broke the limit; `higher` kept it or was much
    faster."""

    lower: Tried
    higher: Tried

    @property
    def slower(self) -> float:
        """How many times as long the lower rate's times were; 0 where they are of a queue or not known."""
        value, other = self.lower.step.value_ns, self.higher.step.value_ns
        return value / other if self.lower.step.kept_up and value and other else 0.0

    @property
    def is_out_of_order(self) -> bool:
        is_far = self.higher.rate_per_s >= FAR_ABOVE * self.lower.rate_per_s
        return is_far and self.higher.step.kept_up and self.slower >= FAR_SLOWER

    def words(self, limit: Limit) -> str:
        return f"{self.lower.name} {_ended(self.lower.step, limit)}, but {self.higher.name} {self._beside}"

    @property
    def _beside(self) -> str:
        step = self.higher.step
        if not step.holds:
            return f"had only {step_time(step)}"
        return "kept it" if step.value_ns is None else f"kept it, with {step_time(step)}"


def _ended(broken: Step, limit: Limit) -> str:
    if not broken.kept_up or broken.value_ns is None:
        return "overloaded the target"
    if broken.value_ns <= limit.above_ns:
        return "had requests that failed"
    return f"broke the limit, with {step_time(broken)}"


def tried(curve: Curve, limit: Limit) -> list[Tried]:
    levels = [Tried(step_of(point, limit), is_level=True) for point in curve.points]
    return [*levels, *(Tried(step, is_level=False) for step in curve.steps)]


def contradiction(curve: Curve, limit: Limit) -> Contradiction | None:
    """The clearest of those that leave the rate unknown: one where the limit was kept above where it was broken, and
    of these the one with the longest times beside the other's."""
    every, (low, high) = tried(curve, limit), _explained(curve)
    found = []
    for lower in every:
        for higher in every:
            if not lower.is_broken or higher.rate_per_s < lower.rate_per_s:
                continue
            pair = Contradiction(lower, higher)
            is_by_chance = low <= lower.rate_per_s and higher.rate_per_s <= high
            # The longest time of all is of one request.
            is_slow = limit.figure != "max" and pair.is_out_of_order
            if (higher.step.holds and not is_by_chance) or is_slow:
                found.append(pair)
    return max(found, key=lambda pair: (pair.higher.step.holds, pair.slower), default=None)


def _explained(curve: Curve) -> tuple[float, float]:
    """Between which rates chance alone may keep or break the limit: the interval of the searches, and a little on
    either side. There are none where searches did not end, or found no rate."""
    found = None if curve.is_cut else rates(curve.searches)
    if found is None:
        return math.inf, 0.0
    low, high = _ends(found)
    return low / (1 + SEARCHED_NEAR), high * (1 + SEARCHED_NEAR)


def _ends(found: Sample) -> tuple[float, float]:
    """Of the interval; the rate itself where a single search gives none."""
    return (found.centre, found.centre) if found.low is None or found.high is None else (found.low, found.high)


def not_known(curve: Curve, limit: Limit) -> str:
    """Why the rate within the limit is not known; empty where it is, and where no rate keeps the limit."""
    if (found := contradiction(curve, limit)) is not None:
        return f"{VARIED}. {capital(found.words(limit))}"
    if curve.is_cut:
        return CUT
    found_rates = rates(curve.searches)
    return differ_words(curve.sustained, found_rates) if found_rates and is_wide(found_rates) else ""


def is_known(curve: Curve, limit: Limit) -> bool:
    """Whether a rate is known that keeps the limit: found by every search where there are any."""
    if not_known(curve, limit):
        return False
    if curve.searches:
        return rates(curve.searches) is not None
    return usable(curve.points, limit)[0] is not None


def limit_line(curve: Curve, limit: Limit) -> str:
    head = f"{limit.figure} response time within {format_ns(limit.above_ns)}"
    if contradiction(curve, limit) is not None:
        found = "" if curve.is_cut else _searches_words(curve, limit)
        return f"{head}: not known, since {not_known(curve, limit)}. {AGAIN}{found}"
    line = f"{head}: {_within_words(curve, limit)}"
    if not curve.is_cut and not is_known(curve, limit) and not any(found.best for found in curve.searches):
        return f"{line}{_lowest_words(curve, limit)}"  # longer runs would not keep it either
    if curve.searches and (grew := growing_words(curve.searches)):
        line += f". {capital(grew)}: use a longer --each"
    few = fewest(curve.searches, limit.figure) if curve.searches else _few_of_best(curve, limit)
    return line if few is None else f"{line}. {capital(search_words(few, limit.figure))}: use a longer --each"


def _within_words(curve: Curve, limit: Limit) -> str:
    if curve.is_cut:
        return _cut_words(curve, limit)
    if not curve.searches:
        best, worst = usable(curve.points, limit)
        if best is None:
            return "at no measured rate"
        rate = format_iops(best.offered_per_s)
        return f"up to {rate}/s; not at {format_iops(worst.offered_per_s)}" if worst else f"at least {rate}/s; {KEPT}"
    found = rates(curve.searches)
    if found is None:
        return "at no measured rate"
    end = _at_capacity(curve, limit) if all(_ends_at_capacity(one) for one in curve.searches) else ""
    said = sustained_words(curve.sustained, found)
    if found.n < 2:
        return f"{said}{end}. A single search gives no interval: use --searches {SEARCHES}"
    return f"{said}{_searches_words(curve, limit)}{end}"


def _searches_words(curve: Curve, limit: Limit) -> str:
    """What each search found, as a further sentence."""
    each = [format_iops(rate) for rate in sorted(found.best.rate_per_s for found in curve.searches if found.best)]
    count = len(curve.searches)
    if not each:
        none = f". The {'searches' if count > 1 else 'search'} found no rate that keeps it"
        return f"{none}{_lowest_words(curve, limit)}" if count else ""
    listed = " and ".join(filter(None, (", ".join(each[:-1]), each[-1])))
    if len(each) < count:
        return f". Of the {count} searches, {OWN}, {count - len(each)} found no rate, the others {listed}/s"
    return f". The {count} searches, {OWN}, found {listed}" if count > 1 else f". The search found {listed}/s"


def _cut_words(curve: Curve, limit: Limit) -> str:
    """A search that did not end knows no highest rate."""
    kept = max((one.rate_per_s for one in tried(curve, limit) if one.step.holds), default=None)
    if kept is None:
        return f"at no rate that was measured{_lowest_words(curve, limit)}"
    return f"at least {format_iops(kept)}/s, the highest measured rate that kept it"


def _ends_at_capacity(found: Carried) -> bool:
    """Whether every rate that did not hold overloaded the target, so that the limit itself was never broken."""
    beyond = [step for step in found.steps if not step.holds]
    return bool(beyond) and not any(step.kept_up for step in beyond)


def _at_capacity(curve: Curve, limit: Limit) -> str:
    """What lies on either side of the rate that was found, where the searches agree on it."""
    over = min(step.rate_per_s for step in curve.steps if not step.kept_up)
    kept = max(step.rate_per_s for step in curve.steps if step.holds)
    if kept > over * (1 + SEARCHED_NEAR):
        return ""
    is_broken_below = any(one.is_broken and one.rate_per_s < kept for one in tried(curve, limit) if one.is_level)
    return FULL_FROM if is_broken_below else f"{FULL_FROM}; below, it kept the limit"


def _lowest_words(curve: Curve, limit: Limit) -> str:
    """What the lowest rate had; with few requests there is no percentile, and the next rate that has one is named."""
    known = [one.step for one in tried(curve, limit) if one.step.value_ns is not None]
    if not known:
        return ""
    lowest = min(known, key=lambda step: (step.rate_per_s, step.value_ns))
    return f"; at {format_iops(lowest.rate_per_s)}/s it is {step_time(lowest)}"


def step_time(step: Step) -> str:
    """The limited figure, with the mark that a table of it would have."""
    return format_ns(step.value_ns) + (FEW_EVENTS if step.is_of_few_events else "")


def _few_of_best(curve: Curve, limit: Limit) -> int | None:
    """Requests of the rate that the answer rests on, where they are too few."""
    best, _ = usable(curve.points, limit)
    return best.requests if best and best.requests < enough(limit.figure) else None


def growing_words(found: Sequence[Carried]) -> str:
    """That an answer may rest on queues that the end of a step kept short; empty where it does not."""
    count = growing(found)
    if not count:
        return ""
    return (
        f"in {count} of {len(found)} searches, response times more than doubled within the step that the answer rests "
        "on, as those of a queue that grows, so longer steps may find a lower rate"
    )


def search_words(few: int, figure: str) -> str:
    return (
        f"the smallest step has {format_count(few)} requests; with fewer than {format_count(enough(figure))} for the "
        f"{figure}, a search finds a rate that is too high"
    )


def capital(line: str) -> str:
    return f"{line[0].upper()}{line[1:]}"

"""Duty: the rate within a limit on the response time beside what the profile's own closed loop does, in the words of
every answer that has one.

Refusal: nothing is searched or computed; the error of a model is that of `bricks.spread`.
"""

from __future__ import annotations

from dataclasses import dataclass

from brickyard import bricks
from brickyard.analysis.figures.samples import Sample
from brickyard.analysis.figures.search import COVERED
from brickyard.bricks import fitted
from brickyard.bricks.caps import caps_of
from brickyard.bricks.spread import Spread, kind_of
from brickyard.schema.plan import Plan
from brickyard.store import Record
from brickyard.units import format_iops

OVERLAPPING_FACTOR = 1.1
"""An open loop that reaches so many times what the profile's closed loop does has more requests in flight than it."""


WIDE_FACTOR = 10.0
"""Our choice: where the ends of an interval are so many times apart, its middle is no answer."""


@dataclass(frozen=True)
class Sustained:
    """The rate within a limit in one condition, and the rate without one."""

    condition: str
    rates: Sample | None
    unlimited_per_s: float
    is_open: bool = False
    """Whether the profile has rates of its own: the rate without a limit is then the one that it asks for."""
    spread: Spread | None = None
    kind: str | None = None
    """Of modelled storage, as `spread.kind_of` has it."""
    cap_per_s: float | None = None
    """What its storage can have at most."""
    streams: str = ""
    """Whose requests these are; empty where they are those of all streams."""
    noun: str = "requests"

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval of the searches, with what the model may be off by on top of it."""
        if self.rates is None or self.spread is None:
            return None
        least, most = self._searched(self.rates)
        return self.spread.ends(least)[0], self.spread.ends(most, self.cap_per_s)[1]

    @property
    def is_capped(self) -> bool:
        """Whether a cap of the storage ends that interval."""
        if self.rates is None or self.spread is None:
            return False
        return self.spread.is_capped(self._searched(self.rates)[1], self.cap_per_s)

    @property
    def is_overlapping(self) -> bool:
        """Whether the rate needs more requests in flight than the profile's closed loop has."""
        return (
            not self.is_open
            and self.rates is not None
            and not is_wide(self.rates)
            and self.rates.centre > self.unlimited_per_s * OVERLAPPING_FACTOR
        )

    @staticmethod
    def _searched(rates: Sample) -> tuple[float, float]:
        """The interval of the searches; the rate itself where there was one."""
        return (rates.centre, rates.centre) if rates.low is None or rates.high is None else (rates.low, rates.high)


def is_wide(rates: Sample) -> bool:
    return rates.low is not None and rates.high is not None and rates.high > WIDE_FACTOR * rates.low


def differ_words(item: Sustained, rates: Sample) -> str:
    """Of an interval that is too wide."""
    whose = f" of {item.streams}" if item.streams else ""
    span = f"{format_iops(rates.low or 0.0)} to {format_iops(rates.high or 0.0)} {item.noun}/s{whose}"
    return f"the searches differ too much (95 % interval {span}, {COVERED})"


def sustained_words(item: Sustained, rates: Sample) -> str:
    """Without a full stop. A rate that the profile's own closed loop cannot have comes after what that does."""
    whose = f" of {item.streams}" if item.streams else ""
    if is_wide(rates):
        return f"not known, since {differ_words(item, rates)}"
    about = []
    if rates.low is not None and rates.high is not None:
        about.append(f"95 % interval {format_iops(rates.low)} to {format_iops(rates.high)}, {COVERED}")
    if item.spread is not None and (ends := item.ends):
        about.append(
            f"{format_iops(ends[0])} to {format_iops(ends[1])} if the model's error is included: a factor of "
            f"{item.spread.factor:.2f}, known for rates without a limit on the response time"
        )
    found = f"{format_iops(rates.centre)} {item.noun}/s{whose}" + (f" ({'; '.join(about)})" if about else "")
    if not item.is_overlapping:
        return found
    return (
        f"{format_iops(item.unlimited_per_s)} {item.noun}/s{whose} in the profile's own closed loop, where {item.noun} "
        f"wait for one another; if they arrive independently of one another and overlap, {found}"
    )


def of_model(record: Record) -> tuple[str, float | None] | None:
    """The kind of models whose errors are those of the one that a run had, and what its storage can do at most; None
    where the storage is real, several models, or a model that was fitted."""
    plan = record.info.plan
    made = list(bricks.made_of(record.info.targets, record.info.asked))
    if not isinstance(plan, Plan) or len(made) != 1 or fitted.words(made[0].texts, plan):
        return None
    return kind_of(made[0].brick, plan), caps_of(made[0].brick, plan).requests_per_s

"""Duty: the sizes of requests that a stream asks for: their mean and spread, and from where on the means of what was
moved are apart.

Refusal: the sizes of a trace, a program or frames are not drawn one by one, and those of a load that is no profile may
not be known: nothing is said of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from brickyard.schema.plan import OtherStream, Stream

APART_SHARE = 0.02
"""Our choice, below half of what a gate lets pass (5 %): with sizes so near to each other, IOPS and throughput say the
same."""
BY_CHANCE = 4.0
"""Standard deviations: the means of drawn sizes are farther apart than this once in 16,000 rows."""


@dataclass(frozen=True)
class AskedSizes:
    """Of one operation of a stream."""

    mean_bytes: float
    deviation_bytes: float
    """The standard deviation of the size that is drawn for a request; 0 where all have one size."""


def asked_sizes(stream: Stream | OtherStream | None, operation: str) -> AskedSizes | None:
    """None where it is not known."""
    if not isinstance(stream, Stream) or stream.trace or stream.program or stream.frames:
        return None
    own = [size for size in stream.request if size.of in (None, operation)]
    weight = sum(size.share for size in own)
    if not weight:
        return None
    mean = sum(size.size * size.share for size in own) / weight
    variance = sum((size.size - mean) ** 2 * size.share for size in own) / weight
    return AskedSizes(mean, math.sqrt(variance))


@dataclass(frozen=True)
class MovedSizes:
    """What requests of one operation moved."""

    requests: int
    bytes: int
    uncounted: int = 0
    """Requests whose bytes may be counted while they are not, or the other way round: fio counts what was in flight at
    the end of its `ramp_time` so, and what failed."""

    @property
    def mean_bytes(self) -> float:
        return self.bytes / self.requests

    @property
    def is_known(self) -> bool:
        return self.requests > 0 and self.bytes > 0

    def with_other(self, other: MovedSizes) -> MovedSizes:
        return MovedSizes(self.requests + other.requests, self.bytes + other.bytes, self.uncounted + other.uncounted)

    def is_apart_from(self, other: MovedSizes, asked: AskedSizes) -> bool:
        """Whether the means differ by more than chance and counting explain, where both sides asked for these sizes."""
        by_chance = BY_CHANCE * asked.deviation_bytes * math.sqrt(1 / self.requests + 1 / other.requests)
        return _are_apart(self.mean_bytes, other.mean_bytes, by_chance + self._miscounted + other._miscounted)

    def is_off(self, asked: AskedSizes) -> bool:
        """Whether the mean differs from what was asked for by more than chance and counting explain."""
        by_chance = BY_CHANCE * asked.deviation_bytes / math.sqrt(self.requests)
        return _are_apart(self.mean_bytes, asked.mean_bytes, by_chance + self._miscounted)

    @property
    def _miscounted(self) -> float:
        return self.mean_bytes * self.uncounted / self.requests


def _are_apart(one: float, other: float, allowed: float) -> bool:
    return abs(one - other) > max(APART_SHARE * max(one, other), allowed)

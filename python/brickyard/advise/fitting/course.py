"""Duty: whether the rate of a load falls within its run, once and for good: spent credits, a cache that is full.

A bucket of B credits that refills at the lasting rate r and is spent at the first rate p is empty after B / (p - r),
and so is the room of a cache of B requests that is filled at p and emptied at r. So B = (p - r) · t in both cases, and
the course of one run cannot tell them apart. A cache that nothing empties while it is written (SLC) has room for all
that was written, p · t. What speaks for either is said: reads have no use for a cache that fills,
so a fall of reads is credits; one of writes is a cache in front of slower storage (write-back, SLC) or credits.

Refusal: no fit. A fall that is not one step (two steady stretches, the second slower) is none, and a run that ended
before its credits did shows nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from brickyard.advise.fitting.seen import Seen, seen
from brickyard.store import CHAINS, METADATA, Json, Record
from brickyard.units import format_iops, format_size, three_digits

LEAST_FALL = 1.3  # first rate over lasting rate; less than that is the unrest of a host
STRETCH = 3  # intervals of a steady stretch at the least
STEADY = 0.25  # the deviation of a stretch's rates over their mean


@dataclass(frozen=True)
class Fall:
    """One run whose rate fell. `surplus` is how many requests were done above the lasting rate until then."""

    run: int
    label: str
    reads: bool
    request_bytes: int
    first_per_s: float
    lasting_per_s: float
    after_s: float

    @property
    def surplus(self) -> float:
        return (self.first_per_s - self.lasting_per_s) * self.after_s

    @property
    def done(self) -> float:
        """Requests until then."""
        return self.first_per_s * self.after_s

    @property
    def words(self) -> str:
        room, whole = (format_size(round(count * self.request_bytes)) for count in (self.surplus, self.done))
        credits_ = f"burst_ios {self.surplus:,.0f}"
        meaning = (
            f"credits: {credits_}"
            if self.reads
            else f"a cache of {room} if it is emptied meanwhile (write-back), of {whole} if not (SLC), or {credits_}"
        )
        return (
            f"run {self.run}, {self.label}: from {format_iops(self.first_per_s)} to {format_iops(self.lasting_per_s)} "
            f"requests/s after {three_digits(self.after_s)} s; {meaning}"
        )

    def document(self) -> Json:
        return {
            "run": self.run,
            "load": self.label,
            "first_per_s": self.first_per_s,
            "lasting_per_s": self.lasting_per_s,
            "after_s": self.after_s,
            "surplus_requests": self.surplus,
            "surplus_bytes": self.surplus * self.request_bytes,
            "done_bytes": self.done * self.request_bytes,
            "meaning": "credits" if self.reads else "cache or credits",
        }


def falls(records: Iterable[Record]) -> list[Fall]:
    """The falls of all runs of one load, in their order."""
    found = []
    for record in records:
        load = seen(record)
        if isinstance(load, Seen) and (fall := _fall(record, load)):
            found.append(fall)
    return found


def _fall(record: Record, load: Seen) -> Fall | None:
    """The split into two stretches that explains the course best, if both are steady and the second is slower."""
    course = _course(record)
    best: tuple[float, int] | None = None
    for split in range(STRETCH, len(course) - STRETCH + 1):
        rates = [rate for _, _, rate in course]
        unrest = _unrest(rates[:split]) + _unrest(rates[split:])
        if best is None or unrest < best[0]:
            best = (unrest, split)
    if best is None:
        return None
    first, lasting = course[: best[1]], course[best[1] :]
    stretches = [[rate for _, _, rate in part] for part in (first, lasting)]
    means = [fmean(stretch) for stretch in stretches]
    steady = all(pstdev(stretch) <= STEADY * mean for stretch, mean in zip(stretches, means, strict=True))
    if not steady or means[0] < LEAST_FALL * means[1]:
        return None
    after_s = first[-1][1] - course[0][0]
    return Fall(load.run, load.label, load.reads == 100, load.request_bytes, means[0], means[1], after_s)


def _unrest(rates: Sequence[float]) -> float:
    mean = fmean(rates)
    return sum((rate - mean) ** 2 for rate in rates)


def _course(record: Record) -> list[tuple[float, float, float]]:
    """(start, end, requests/s) of every interval, warm-up too, since it spends credits and fills caches as well."""
    drains = {(cost.start_ns, cost.end_ns) for cost in record.costs if cost.drain}
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for item in record.intervals:
        if item.measure == "service" and item.operation not in CHAINS | METADATA | {"flush"}:
            counts[item.start_ns, item.end_ns] += item.requests
    return [
        (start / 1e9, end / 1e9, count * 1e9 / (end - start))
        for (start, end), count in sorted(counts.items())
        if (start, end) not in drains and end > start
    ]

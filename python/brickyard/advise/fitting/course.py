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

from collections.abc import Iterable
from dataclasses import dataclass

from brickyard.advise.fitting.rates import Step
from brickyard.advise.fitting.seen import Seen, seen
from brickyard.schema import Document
from brickyard.store import Record
from brickyard.units import format_iops, format_size, three_digits


@dataclass(frozen=True)
class Fall:
    """One run whose rate fell."""

    run: int
    label: str
    reads: bool
    request_bytes: int
    step: Step

    @property
    def words(self) -> str:
        step = self.step
        room, whole = (format_size(round(count * self.request_bytes)) for count in (step.surplus, step.done))
        credits_ = f"burst_ios {step.surplus:,.0f}"
        meaning = (
            f"credits: {credits_}"
            if self.reads
            else f"a cache of {room} if it is emptied meanwhile (write-back), of {whole} if not (SLC), or {credits_}"
        )
        return f"{self.head}; {meaning}"

    @property
    def head(self) -> str:
        return f"run {self.run}, {self.label}: {fell(self.step)}"

    def document(self) -> Document:
        step = self.step
        return {
            "run": self.run,
            "load": self.label,
            "first_per_s": step.first_per_s,
            "lasting_per_s": step.lasting_per_s,
            "after_s": step.after_s,
            "surplus_requests": step.surplus,
            "surplus_bytes": step.surplus * self.request_bytes,
            "done_bytes": step.done * self.request_bytes,
            "meaning": "credits" if self.reads else "cache or credits",
        }


def fell(step: Step) -> str:
    return (
        f"from {format_iops(step.first_per_s)} to {format_iops(step.lasting_per_s)} requests/s "
        f"after {three_digits(step.after_s)} s"
    )


def falls(records: Iterable[Record]) -> list[Fall]:
    """The falls of all runs of one load, in their order."""
    found = []
    for record in records:
        load = seen(record)
        if isinstance(load, Seen) and load.step:
            found.append(Fall(load.run, load.label, load.reads == 100, load.request_bytes, load.step))
    return found

"""Duty: how far the clock of a host is from ours, and by how much that may be wrong. Refusal: it reads no clock itself.

A reading that was asked for at `sent` and came back at `received`, by our clock, was taken between them: the offset
lies between `reading - received` and `reading - sent`. Each round trip gives such bounds, and all of them hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

STEPPED_NS = 1_000_000_000_000  # of a clock whose readings contradict each other nothing is known


@dataclass(frozen=True)
class Offset:
    """A clock less ours."""

    offset_ns: int
    bound_ns: int
    round_trip_ns: int


def offset_of(trips: Sequence[tuple[int, int, int]]) -> Offset:
    """From round trips: sent, reading, received."""
    low = max(reading - received for _, reading, received in trips)
    high = min(reading - sent for sent, reading, _ in trips)
    shortest = min(received - sent for sent, _, received in trips)
    if low > high:
        return Offset((low + high) // 2, STEPPED_NS, shortest)
    return Offset((low + high) // 2, (high - low + 1) // 2, shortest)


def start_bound(offsets: Sequence[Offset]) -> int:
    """By how much one instant may differ between two hosts: the two largest bounds add up."""
    bounds = sorted((offset.bound_ns for offset in offsets), reverse=True)
    return sum(bounds[:2]) if len(bounds) > 1 else 0

"""Duty: how many bytes of a target its streams work in. Refusal: no target is looked at."""

from __future__ import annotations

from collections.abc import Iterable

from brickyard.reading import parsed_bytes
from brickyard.schema.plan import Plan


def reached_bytes(plan: Plan, target: int, length: int) -> int:
    """How much of a target of so many bytes the regions of its streams cover; all of it where a program or a trace
    chooses the places."""
    streams = [stream for phase in plan.phase for stream in phase.stream if stream.target == target]
    if not streams or any(stream.program or stream.trace for stream in streams):
        return length
    covered = places_bytes(joined_places(region_place(stream.region, length) for stream in streams))
    return min(covered, length) or length


def may_read(plan: Plan, target: int) -> bool:
    """Whether any stream reads of a target; programs, traces and chains may."""
    streams = [stream for phase in plan.phase for stream in phase.stream if stream.target == target]
    return not streams or any(
        stream.operations.read or stream.program or stream.trace or stream.chain for stream in streams
    )


def read_places(plan: Plan, target: int, length: int) -> list[tuple[int, int]]:
    """Start and end of what its streams may read of a target of so many bytes, apart from each other; all of it where a
    program or a trace chooses the places, and where none reads."""
    streams = [stream for phase in plan.phase for stream in phase.stream if stream.target == target]
    reading = [stream for stream in streams if stream.operations.read]
    if not reading or any(stream.program or stream.trace or stream.chain for stream in streams):
        return [(0, length)]
    return joined_places(region_place(stream.region, length) for stream in reading)


MOST_BYTES = 1 << 63
"""More than any target has: the length of one whose size is not known."""


def region_bytes(region: str, length: int) -> int:
    """How much a region such as `20%..100%` has of a target of so many bytes."""
    low, high = region_place(region, length)
    return max(0, high - low)


def places_bytes(places: Iterable[tuple[int, int]]) -> int:
    return sum(high - low for low, high in places)


def overlap_bytes(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> int:
    """What two lists have in common, in each of which the places are apart."""
    return sum(max(0, min(high, last) - max(low, first)) for low, high in some for first, last in others)


def joined_places(edges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same, apart from each other and in order."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(edges):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        elif high > low:
            found.append((low, high))
    return found


def region_place(region: str, length: int) -> tuple[int, int]:
    """Start and end of a region on a target of so many bytes."""
    low, _, high = region.partition("..")
    return _place(low.strip() or "0", length), _place(high.strip() or "100%", length)


def _place(text: str, length: int) -> int:
    return int(length * float(text[:-1]) / 100) if text.endswith("%") else min(length, parsed_bytes(text, "region"))

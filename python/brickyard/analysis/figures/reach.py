"""Duty: how many bytes of a target its streams work in. Refusal: no target is looked at."""

from __future__ import annotations

from brickyard.reading import parsed_bytes
from brickyard.schema.plan import Plan


def reached_bytes(plan: Plan, target: int, length: int) -> int:
    """How much of a target of so many bytes the regions of its streams cover; all of it where a program or a trace
    chooses the places."""
    streams = [stream for phase in plan.phase for stream in phase.stream if stream.target == target]
    if not streams or any(stream.program or stream.trace for stream in streams):
        return length
    covered, end = 0, 0
    for low, high in sorted(_edges(stream.region, length) for stream in streams):
        covered += max(0, high - max(low, end))
        end = max(end, high)
    return min(covered, length) or length


def _edges(region: str, length: int) -> tuple[int, int]:
    low, _, high = region.partition("..")
    return _place(low or "0", length), _place(high or "100%", length)


def _place(text: str, length: int) -> int:
    return int(length * float(text[:-1]) / 100) if text.endswith("%") else min(length, parsed_bytes(text, "region"))

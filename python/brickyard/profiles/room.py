"""Duty: how many bytes of a target a workload names, whatever the target's size; how many of a given one it reaches.

Refusal: no target is looked at.
"""

from __future__ import annotations

from brickyard.reading import parsed_bytes
from brickyard.schema.plan import DatabaseFile, Plan, Stream


def used_bytes(plan: Plan) -> int:
    """The least size of a target that every stream fits on; 0 where they fit on any."""
    streams = [stream for phase in plan.phase for stream in phase.stream]
    files = [s.program for s in streams if isinstance(s.program, DatabaseFile)]
    regions = [_end_bytes(stream) or 0 for stream in streams]
    return max([*regions, *(file.most + file.log_size for file in files)], default=0)


def is_in_bytes(plan: Plan) -> bool:
    """Whether every stream works in a region of so many bytes, as imported jobs do."""
    ends = [_end_bytes(stream) for phase in plan.phase for stream in phase.stream]
    return bool(ends) and None not in ends


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


def _end_bytes(stream: Stream) -> int | None:
    end = stream.region.partition("..")[2]
    return None if not end or end.endswith("%") else parsed_bytes(end, "region")

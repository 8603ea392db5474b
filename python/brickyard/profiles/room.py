"""Duty: how many bytes of a target a workload names, whatever the target's size.

Refusal: a region in per cent names none; no target is looked at.
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


def _end_bytes(stream: Stream) -> int | None:
    end = stream.region.partition("..")[2]
    return None if not end or end.endswith("%") else parsed_bytes(end, "region")

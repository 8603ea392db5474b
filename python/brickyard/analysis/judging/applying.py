"""Duty: whether a requirement says anything of a plan, before it runs. Refusal: `verdict` judges runs."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from brickyard.rulers import Requirement, Ruler
from brickyard.schema import tag_of
from brickyard.schema.plan import Moves, Plan, Stream
from brickyard.units import format_size

JUDGED = (*Moves, "flush")


def unfit(plan: Plan, ruler: Ruler) -> str:
    """Why a run of the plan can't meet the ruler on any storage, by the first requirement that is not of its load;
    empty where every one is."""
    streams = [stream for phase in plan.phase for stream in phase.stream]
    for requirement in ruler.requirements:
        if said := next(_reasons(streams, requirement), ""):
            name = "" if requirement.name == ruler.name else f"its requirement `{requirement.name}` "
            return f"{name}{said}"
    return ""


def _reasons(streams: list[Stream], requirement: Requirement) -> Iterator[str]:
    named = [stream for stream in streams if requirement.stream is None or fnmatchcase(stream.name, requirement.stream)]
    if not named:
        names = ", ".join(dict.fromkeys(stream.name for stream in streams))
        yield f"is for streams named {requirement.stream}, and the profile has {names}"
    if requirement.is_count and not any(stream.frames or stream.program for stream in named):
        yield "counts dropped frames, and the profile has no streams of frames"
    if requirement.operation in JUDGED and all(_lacks(stream, requirement.operation or "") for stream in named):
        yield f"is for operation {requirement.operation}, which the profile does not have there"
    for stream in named:
        yield from _of_another_kind(stream, requirement)


def _lacks(stream: Stream, operation: str) -> bool:
    """Programs, traces and chains have operations of their own."""
    own = bool(stream.program or stream.trace or stream.chain or stream.frames)
    flushes = operation == "flush" and stream.flush_every is not None
    return not own and not flushes and not getattr(stream.operations, operation)


def _of_another_kind(stream: Stream, requirement: Requirement) -> Iterator[str]:
    address = tag_of(type(stream.address))
    if requirement.address not in (None, address):
        yield f"is for {requirement.address} streams, and stream {stream.name} is {address}"
    least = requirement.request_bytes_min
    if least is not None and stream.request and (smallest := min(item.size for item in stream.request)) < least:
        yield (
            f"is for requests of {format_size(least)} or more, and stream {stream.name} has requests of "
            f"{format_size(smallest)}"
        )

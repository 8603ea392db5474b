"""Duty: whether a requirement says anything of a plan, before it runs. Refusal: `verdict` judges runs."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from brickyard.rulers import Requirement, Ruler
from brickyard.schema import tag_of
from brickyard.schema.plan import Moves, OtherStream, Plan, Stream
from brickyard.units import format_size

JUDGED = (*Moves, "flush")


def unfit(plan: Plan, ruler: Ruler) -> str:
    """Why a run of the plan can't meet the ruler on any storage, by the first requirement that is not of its load;
    empty where every one is."""
    streams = [stream for phase in plan.phase for stream in phase.stream]
    for requirement in ruler.requirements:
        if said := next(filter(None, _reasons(streams, requirement)), ""):
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
        yield of_another_kind(stream, stream.name, requirement)


def _lacks(stream: Stream, operation: str) -> bool:
    """Programs, traces and chains have operations of their own."""
    own = bool(stream.program or stream.trace or stream.chain or stream.frames)
    flushes = operation == "flush" and stream.flush_every is not None
    return not own and not flushes and not getattr(stream.operations, operation)


def of_another_kind(stream: Stream | OtherStream | None, name: str, requirement: Requirement) -> str:
    """Why a requirement says nothing of a stream; empty where it does. What a plan does not state is not held against
    it."""
    address = tag_of(type(stream.address)) if stream and stream.address else None
    if requirement.address is not None and address not in (None, requirement.address):
        return f"is for {requirement.address} streams, and stream {name} is {address}"
    smallest = min((item.size for item in (stream.request if stream else None) or []), default=None)
    least = requirement.request_bytes_min or 0
    if smallest is not None and smallest < least:
        has = f"stream {name} has requests of {format_size(smallest)}"
        return f"is for requests of {format_size(least)} or more, and {has}"
    return ""

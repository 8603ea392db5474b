"""Duty: files that lie here, for hosts that need them: read once, sent piece by piece, as they are.

Refusal: no file is read for what it means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from brickyard.errors import BadInputError
from brickyard.schema.plan import Plan, Stream

PIECE_BYTES = 4_000_000


def pieces(path: str) -> Iterator[bytes]:
    """At least one, which may be empty."""
    try:
        with open(path, "rb") as file:
            yield file.read(PIECE_BYTES)
            while piece := file.read(PIECE_BYTES):
                yield piece
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}") from error


def traces_of(plan: Plan) -> list[str]:
    """The files of traces that a plan issues, each once."""
    streams = [stream for phase in plan.phase for stream in phase.stream]
    return list(dict.fromkeys(stream.trace.file for stream in streams if stream.trace))


def with_traces_at(plan: Plan, places: Mapping[str, str]) -> Plan:
    """The plan, its traces where the host has them."""
    return replace(plan, phase=[replace(phase, stream=[_at(s, places) for s in phase.stream]) for phase in plan.phase])


def _at(stream: Stream, places: Mapping[str, str]) -> Stream:
    return replace(stream, trace=replace(stream.trace, file=places[stream.trace.file])) if stream.trace else stream

"""Duty: what our process on a host answers, as types. Its code is sent there and has plain data alone.

Refusal: nothing is asked here.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from brickyard.errors import BrickyardError, one_line
from brickyard.ready import ready


class HostFacts(msgspec.Struct, frozen=True):
    """What an agent says of its host and of its targets, in their order."""

    cpus: int
    facts: dict[str, str] = msgspec.field(default_factory=dict)
    identities: list[str] = msgspec.field(default_factory=list)


class Taken(msgspec.Struct, frozen=True):
    """What a worker has said, and its exit code once it has said everything."""

    lines: list[str]
    next: int
    code: int | None
    errors: str


A = TypeVar("A", HostFacts, Taken)


def answer_of(host: str, told: object, kind: type[A]) -> A:
    """Raises BrickyardError where a host answers otherwise than this version's agent does."""
    try:
        return msgspec.convert(told, kind)
    except msgspec.ValidationError as error:
        raise BrickyardError(f"{host}: its answer cannot be read: {one_line(error)}") from error


ready(HostFacts, Taken)

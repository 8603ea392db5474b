"""Duty: what workers that begin together say beside their events. Refusal: nothing is done about it here."""

from __future__ import annotations

import msgspec

from brickyard.schema import Event, decode


class WorkerReady(msgspec.Struct, frozen=True, tag_field="word", tag="ready"):
    """A phase, by the worker's own number, can begin."""

    phase: int


class WorkerBegan(msgspec.Struct, frozen=True, tag_field="word", tag="began"):
    """A phase was begun, and how long after its instant; by how much the clock was set meanwhile."""

    phase: int
    late_ns: int
    clock_moved_ns: int


class ClockState(msgspec.Struct, frozen=True, tag_field="word", tag="clock"):
    """What the kernel says of its real-time clock."""

    synchronized: bool = False
    max_error_ns: int | None = None


class RecordLost(msgspec.Struct, frozen=True, tag_field="word", tag="record_lost"):
    """The worker cannot keep its own record."""

    message: str


class HeadLost(msgspec.Struct, frozen=True, tag_field="word", tag="head_lost"):
    """Nobody has spoken to the worker for so long that it ended its load."""

    silent_ns: int


Word = WorkerReady | WorkerBegan | ClockState | RecordLost | HeadLost


class _Kind(msgspec.Struct, frozen=True):
    word: str | None = None


_KIND = msgspec.json.Decoder(_Kind)
_WORD: msgspec.json.Decoder[Word] = msgspec.json.Decoder(Word)


def heard(line: str) -> Word | Event | None:
    """What a line of a worker says; None where it is cut, as the last line of one that was killed may be. Raises
    msgspec.ValidationError."""
    try:
        return decode(line) if _KIND.decode(line).word is None else _WORD.decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return None

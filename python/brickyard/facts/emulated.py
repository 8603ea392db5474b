"""Fact sheets of disks that `brickyard lab` emulates: how one was made, what it answered late, and its faults.

Duty: read what stands beside the file below the loop device, and ask the disk. Refusal: it gives no other order.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

import msgspec

from brickyard.schema.target_sheet import EmulatedSheet

FILE = ("fuse", "disk")  # below the folder of a disk
ABOUT, CONTROL = "about.json", "control"
ANSWER_S = 1.0


class DiskEvent(msgspec.Struct, frozen=True):
    """An order that the disk carried out, or what it did by itself."""

    at_ms: int
    """Since the disk was made."""
    what: str


class EmulatedStatus(msgspec.Struct, frozen=True):
    late: int
    """Requests that were answered late since the disk was made."""
    active: list[str] = []
    """Faults that last, as the orders that made them."""
    history: list[DiskEvent] = []
    """The newest."""


class _Answer(msgspec.Struct):
    status: EmulatedStatus


_MADE, _ANSWER = msgspec.json.Decoder(EmulatedSheet), msgspec.json.Decoder(_Answer)


def emulated(backing_file: str | None) -> EmulatedSheet | None:
    place = Path(backing_file or "/")
    if place.parts[-2:] != FILE:
        return None
    with suppress(OSError, msgspec.MsgspecError):
        return _MADE.decode((place.parents[1] / ABOUT).read_bytes())
    return None


def status(backing_file: str) -> EmulatedStatus | None:
    """None where the disk does not answer."""
    with suppress(OSError, msgspec.MsgspecError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(ANSWER_S)
        line.connect(str(Path(backing_file).parents[1] / CONTROL))
        line.sendall(b"status\n")
        with line.makefile("rb") as answers:
            return _ANSWER.decode(answers.readline()).status
    return None


def faults_between(start: EmulatedStatus, end: EmulatedStatus) -> list[str]:
    """What was wrong with a disk at any time from one status to the next, in order, each once."""
    since_ms = max((one.at_ms for one in start.history), default=-1)
    meanwhile = [one.what for one in end.history if one.at_ms > since_ms]
    return list(dict.fromkeys([*start.active, *meanwhile, *end.active]))

"""Fact sheets of disks that `brickyard lab` emulates: how one was made, and how many requests it answered late.

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


class _Counted(msgspec.Struct):
    late: int


class _Answer(msgspec.Struct):
    status: _Counted


_MADE, _ANSWER = msgspec.json.Decoder(EmulatedSheet), msgspec.json.Decoder(_Answer)


def emulated(backing_file: str | None) -> EmulatedSheet | None:
    place = Path(backing_file or "/")
    if place.parts[-2:] != FILE:
        return None
    with suppress(OSError, msgspec.MsgspecError):
        return _MADE.decode((place.parents[1] / ABOUT).read_bytes())
    return None


def late(backing_file: str) -> int | None:
    """Since the disk was made; None where it does not answer."""
    with suppress(OSError, msgspec.MsgspecError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(ANSWER_S)
        line.connect(str(Path(backing_file).parents[1] / CONTROL))
        line.sendall(b"status\n")
        with line.makefile("rb") as answers:
            return _ANSWER.decode(answers.readline()).status.late
    return None

"""Duty: how large a target is, and how much of it is for data.

Refusal: what is neither a file nor a block device is not even opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from brickyard import _core

ROUND_BYTES = 1 << 20
"""Data begin behind a header of this size and are whole multiples of it."""


def size_of(path: str) -> int | None:
    """None for everything else: to open a FIFO would wait for its other end, and to open a tape would wind it."""
    try:
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode):
            return found.st_size
        if not stat.S_ISBLK(found.st_mode):
            return None
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.lseek(handle, 0, os.SEEK_END)
    finally:
        os.close(handle)


def _looked_at(path: str) -> _core.OpenTarget | None:
    """What the guard tells of a target, closed again; None of one that it refuses to read."""
    try:
        found = _core.open_target(path, False, False, "{}")
    except ValueError:
        return None
    os.close(found.file)
    return found


def to_fill(path: str, create_bytes: int | None, overwrite: Sequence[str] = ()) -> int | None:
    """How much a run fills of a target before it begins, because it was never written; `create_bytes` of a file that is
    yet to be made. None where that is not known."""
    if not os.path.exists(path):
        return create_bytes
    found = _looked_at(path)
    if found is None:
        return None
    if found.is_block and path not in overwrite:
        return 0
    if found.uuid:
        return max(0, found.data_bytes - found.filled_bytes)
    return area_of(path) if found.is_block else 0


def data_of(path: str) -> tuple[int, int] | None:
    """Where the data of a target begin once a run may write it, and how long they are; None where that is not known."""
    found = _looked_at(path)
    length = area_of(path)
    if found is None or length is None:
        return None
    return (ROUND_BYTES if found.is_block and not found.uuid else found.data_start_bytes), length


@dataclass(frozen=True)
class Area:
    """Where the data of a target are."""

    start_bytes: int
    bytes: int


def unknown_area(path: str) -> Area | None:
    """The data of a target of which nothing tells that all was written."""
    found = _looked_at(path)
    if found is None or (found.uuid and found.filled_bytes >= found.data_bytes):
        return None
    return Area(found.data_start_bytes, found.data_bytes)


def area_of(path: str) -> int | None:
    """How much of a target is for data once a run may write it: behind the header that it has or that a device gets.
    Of a file that is not Brickyard's, and so is only read, it is all."""
    size_bytes = size_of(path)
    if size_bytes is None:
        return None
    found = _looked_at(path)
    if found is None:
        return size_bytes
    claimed = found.is_block and not found.uuid
    return max(0, size_bytes // ROUND_BYTES - 1) * ROUND_BYTES if claimed else found.data_bytes

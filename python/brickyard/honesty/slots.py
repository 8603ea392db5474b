"""Duty: what writers leave in their slots.

Every 512 bytes of a block carry the same stamp: a sector is the least that a drive writes as a whole, so a block torn
by a power cut shows an old and a new stamp, never half of one.

Refusal: it opens no target itself; the guard of the core does, with all the checks of a run.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from brickyard import _core
from brickyard.errors import BadInputError, one_line

STAMP_BYTES = 512
_STAMP = struct.Struct("<8s8sQQ")  # mark, run, writer, sequence; then the checksum over these
_MARK = b"BRKWITNS"
_DATA_START_BYTES = 1 << 20  # as crates/block/src/guard/header.rs has it


@dataclass(frozen=True)
class Layout:
    """Writer w puts sequence number s into its slot s mod `slots`; numbers begin at 1."""

    run: str
    writers: int
    slots: int
    block_bytes: int

    @property
    def data_bytes(self) -> int:
        return self.writers * self.slots * self.block_bytes

    def offset(self, writer: int, slot: int) -> int:
        return _DATA_START_BYTES + (writer * self.slots + slot) * self.block_bytes


def block(layout: Layout, writer: int, sequence: int) -> bytes:
    head = _STAMP.pack(_MARK, bytes.fromhex(layout.run), writer, sequence)
    stamp = head + struct.pack("<I", zlib.crc32(head))
    return stamp.ljust(STAMP_BYTES, b"\0") * (layout.block_bytes // STAMP_BYTES)


def sequence_in(layout: Layout, writer: int, slot: int, content: bytes) -> int:
    """The lowest sequence number in the sectors of a slot; 0 where a sector holds none of this run and writer."""
    lowest: int | None = None
    for at in range(0, layout.block_bytes, STAMP_BYTES):
        head = content[at : at + _STAMP.size]
        if len(head) < _STAMP.size or content[at + _STAMP.size :][:4] != struct.pack("<I", zlib.crc32(head)):
            return 0
        mark, run, found_writer, sequence = _STAMP.unpack(head)
        if (mark, run.hex(), found_writer, sequence % layout.slots) != (_MARK, layout.run, writer, slot):
            return 0
        lowest = sequence if lowest is None else min(lowest, sequence)
    return lowest or 0


def is_foreign(layout: Layout, content: bytes, earlier: frozenset[str]) -> bool:
    """Whether something lies in a slot that neither this run nor an earlier one put there, and that is not nothing."""
    marks = [_MARK + bytes.fromhex(run) for run in (layout.run, *earlier)]
    starts = range(0, layout.block_bytes, STAMP_BYTES)
    return any(content) and not any(content[at : at + len(mark)] == mark for mark in marks for at in starts)


@contextmanager
def opened_target(path: str, *, write: bool, options: str = "{}") -> Iterator[_core.OpenTarget]:
    """A target as the core's guard opens it, with O_DIRECT where there is such a thing.

    For writing, it is made or claimed if need be, and is ours alone until it is closed. Also who only reads it holds a
    lock: what somebody else writes meanwhile would be laid to the drive.
    """
    try:
        found = _core.open_target(path, write, True, options)
    except ValueError as error:
        raise BadInputError(one_line(error)) from error
    try:
        if not found.uuid:
            raise BadInputError(f"{path}: was not made by Brickyard; name the target of `brickyard honesty write`")
        if not write and not found.is_block:
            _lock_shared(path, found.file)
        yield found
    finally:
        os.close(found.file)


def _lock_shared(path: str, file: int) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BadInputError(f"{path}: another run is writing it; wait for its end") from error
    except OSError:
        return  # a file system without locks


def aligned_read(file: int, length: int, offset: int) -> bytes:
    with mmap.mmap(-1, length) as memory:
        count = os.preadv(file, [memory], offset)
        return bytes(memory[:count])

"""Duty: what writers leave in their slots, and the opening of a target for them.

Every 512 bytes of a block carry the same stamp: a sector is the least that a drive writes as a whole, so a block torn
by a power cut shows an old and a new stamp, never half of one.

Refusal: a file or device is opened only if it begins with a sound header of ours, checked on the very descriptor that
is used. It makes no target: the core does, with all its checks.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import struct
import time
import zlib
from dataclasses import dataclass

from brickyard.errors import BadInputError

STAMP_BYTES = 512
_STAMP = struct.Struct("<8s8sQQ")  # mark, run, writer, sequence; then the checksum over these
_MARK = b"BRKWITNS"
# The layout of the header is that of crates/block/src/guard/header.rs.
_HEADER_BYTES, _DATA_START_BYTES, _MAGIC, _VERSION = 4096, 1 << 20, b"BRICKYARD SCRATCH", 1
# The kernel takes the core's closed ring apart in the background; until then the device is still claimed.
_RELEASE_WAIT_S, _RELEASE_LOOK_S = 1.0, 0.005
_CRC32C_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected


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


@dataclass(frozen=True)
class Opened:
    file: int
    uuid: str
    data_bytes: int
    direct: bool


def open_ours(path: str, *, write: bool, sync: int = 0) -> Opened:
    """Opens a target that carries our header, with O_DIRECT where there is such a thing."""
    mode = os.O_RDWR if write else os.O_RDONLY
    try:
        is_block = stat.S_ISBLK(os.stat(path).st_mode)
        # O_EXCL claims a device: the kernel refuses one that is mounted or held, whatever was true a moment before.
        flags = mode | os.O_CLOEXEC | os.O_NONBLOCK | sync | (os.O_EXCL if is_block and write else 0)
        file, direct = _open(path, flags)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be opened: {error.strerror}; check the path") from error
    try:
        kind = os.fstat(file).st_mode
        if not (stat.S_ISREG(kind) or (stat.S_ISBLK(kind) and is_block)):
            raise BadInputError(f"{path}: is neither a file nor a block device; name one of these")
        uuid, data_bytes = _header(path, aligned_read(file, _HEADER_BYTES, 0))
        if os.lseek(file, 0, os.SEEK_END) < _DATA_START_BYTES + data_bytes:
            raise BadInputError(f"{path}: is shorter than its header says; it is not the whole target")
    except BaseException:
        os.close(file)
        raise
    return Opened(file, uuid, data_bytes, direct)


def _open(path: str, flags: int) -> tuple[int, bool]:
    until = time.monotonic() + _RELEASE_WAIT_S
    while True:
        try:
            return os.open(path, flags | os.O_DIRECT), True
        except OSError as error:
            if error.errno == errno.EINVAL:
                return os.open(path, flags), False
            if error.errno != errno.EBUSY or time.monotonic() >= until:
                raise
        time.sleep(_RELEASE_LOOK_S)


def aligned_read(file: int, length: int, offset: int) -> bytes:
    with mmap.mmap(-1, length) as memory:
        count = os.preadv(file, [memory], offset)
        return bytes(memory[:count])


def _header(path: str, content: bytes) -> tuple[str, int]:
    if not content.startswith(_MAGIC) or len(content) < _HEADER_BYTES:
        raise BadInputError(f"{path}: was not made by Brickyard; name the target of `brickyard honesty write`")
    (checksum,) = struct.unpack_from("<I", content, _HEADER_BYTES - 4)
    (version,) = struct.unpack_from("<I", content, 32)
    if checksum != crc32c(content[: _HEADER_BYTES - 4]) or version != _VERSION:
        raise BadInputError(f"{path}: its Brickyard header is damaged or of another version")
    (data_bytes,) = struct.unpack_from("<Q", content, 56)
    return content[40:56].hex(), data_bytes


def crc32c(content: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in content:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (_CRC32C_POLYNOMIAL if value & 1 else 0)
    return value ^ 0xFFFFFFFF

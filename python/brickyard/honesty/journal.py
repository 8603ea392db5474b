"""Duty: the recorder's file: one line for each run of writers and for each write that storage acknowledged.

Every line ends in a checksum. The last lines may be torn, by a crash in the middle of an append; nobody was promised
them, so they are cut off. Damage anywhere else is refused: a witness with gaps proves nothing.

Refusal: a file that does not begin as ours is neither read nor written.
"""

from __future__ import annotations

import fcntl
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from brickyard import outputs
from brickyard.errors import BadInputError, BrickyardError

HEAD = b"brickyard recorder 1\n"
MARK = re.compile(rb"\A(?:brickyard recorder 1\n|brickyard[recod 1]*\Z)")  # a head may be torn
LINE_BYTES_MAX = 256  # the longest line has 136 bytes; whatever is longer is not ours
_RUN = re.compile(r"r ([0-9a-f]{16}) ([0-9a-f]{32}) (\d{1,4}) (\d{1,9}) (\d{1,9})")
_WRITE = re.compile(r"a ([0-9a-f]{16}) (\d{1,4}) (\d{1,18})")


@dataclass(frozen=True)
class RunEntry:
    """Writers begin: on which target, and how they share it."""

    run: str
    target_uuid: str
    writers: int
    slots: int
    block_bytes: int

    def line(self) -> bytes:
        return _line(f"r {self.run} {self.target_uuid} {self.writers} {self.slots} {self.block_bytes}")


@dataclass(frozen=True)
class WriteEntry:
    """Storage acknowledged this write as durable."""

    run: str
    writer: int
    sequence: int

    def line(self) -> bytes:
        return _line(f"a {self.run} {self.writer} {self.sequence}")


Entry = RunEntry | WriteEntry


def _line(text: str) -> bytes:
    return f"{text} {zlib.crc32(text.encode()):08x}\n".encode()


def parse(line: bytes) -> Entry | None:
    """An entry, or None where the line is none: torn, damaged, foreign."""
    text, _, checksum = line.decode("ascii", "replace").rstrip("\n").rpartition(" ")
    if not line.endswith(b"\n") or checksum != f"{zlib.crc32(text.encode()):08x}":
        return None
    if found := _RUN.fullmatch(text):
        run, uuid, writers, slots, block_bytes = found.groups()
        return RunEntry(run, uuid, int(writers), int(slots), int(block_bytes))
    if found := _WRITE.fullmatch(text):
        return WriteEntry(found[1], int(found[2]), int(found[3]))
    return None


@dataclass
class Extent:
    """How far a file is sound; known once it has been read to its end."""

    sound_bytes: int = 0
    torn_bytes: int = 0


def entries(path: Path, extent: Extent | None = None) -> Iterator[Entry]:
    """Every entry in order, with little memory whatever the file's size."""
    told = extent or Extent()
    try:
        with path.open("rb") as opened:
            yield from _entries(path, opened, told)
    except OSError as error:
        raise BadInputError(f"{path}: the recorder's file cannot be read: {error.strerror}") from error


def _entries(path: Path, opened: BinaryIO, told: Extent) -> Iterator[Entry]:
    head = opened.read(len(HEAD))
    if head != HEAD:
        if not HEAD.startswith(head):
            raise BadInputError(f"{path}: is not a recorder's file; name the file that `brickyard recorder` wrote")
        told.torn_bytes = len(head)
        return
    told.sound_bytes = len(HEAD)
    writers, torn = 0, 0
    while line := opened.readline(LINE_BYTES_MAX):
        entry = parse(line)
        if isinstance(entry, RunEntry):
            writers += entry.writers
        if entry is None:
            told.torn_bytes += len(line)
            torn += 1
            if torn > writers + 1:
                raise BadInputError(
                    f"{path}: damaged from byte {told.sound_bytes:,} on, by more lines than a crash can tear (each of"
                    f" {writers:,} writers waits for its own); it no longer proves anything"
                )
        elif told.torn_bytes:
            raise BadInputError(
                f"{path}: damaged at byte {told.sound_bytes:,}, with sound lines after that; it no longer proves "
                f"anything"
            )
        else:
            told.sound_bytes += len(line)
            yield entry


class Journal:
    """The file, open for appending by one recorder at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known = 0
        extent = Extent()
        try:
            self._file = outputs.open_journal(path, MARK, HEAD)
        except OSError as error:
            raise BadInputError(f"{path}: cannot be written: {error.strerror}; name another with --file") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.known = sum(isinstance(entry, WriteEntry) for entry in entries(path, extent))
            os.ftruncate(self._file, extent.sound_bytes)
            os.lseek(self._file, 0, os.SEEK_END)
            if not extent.sound_bytes:
                _write_all(self._file, HEAD)
            os.fsync(self._file)
        except OSError as error:
            os.close(self._file)
            why = "another recorder writes it" if isinstance(error, BlockingIOError) else error.strerror
            raise BadInputError(f"{path}: {why}; name another with --file") from error
        except BaseException:
            os.close(self._file)
            raise
        self.torn_bytes = extent.torn_bytes

    def append(self, lines: Iterable[bytes]) -> None:
        """Returns when the lines are durable. After an error nothing more can be promised."""
        try:
            _write_all(self._file, b"".join(lines))
            os.fdatasync(self._file)
        except OSError as error:
            raise BrickyardError(
                f"{self.path}: {error.strerror}; no further writes are recorded; free some space"
            ) from error

    def close(self) -> None:
        os.close(self._file)


def _write_all(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]

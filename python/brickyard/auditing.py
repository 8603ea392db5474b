"""Duty: the audit log: who asked for what on this host, and what became of it.

Refusal: the file is only added to, and nobody can bury in it what others did: what is repeated becomes a number.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import msgspec

from brickyard import outputs
from brickyard.errors import BrickyardError
from brickyard.ready import ready

MARK = re.compile(rb'\A{"at_unix_ns":')
LETTERS_MAX = 300
"""Of each word that was asked for; names of arrays and devices are shorter."""
OFTEN_EACH, OFTEN_NS = 5, 60 * 10**9
"""Our choice: whoever tries by hand is below five a minute, and whoever floods the log is above."""
BLOCK_BYTES = 1 << 16


class AuditLine(msgspec.Struct, frozen=True):
    at_unix_ns: int
    by: str
    what: str
    """`asked`, `done`, `refused` or `failed`; `login` or `logout`."""
    asked: dict[str, Any]
    words: str = ""

    def asks(self, name: str) -> object:
        """What was asked under this name; anything, as it is read from a file."""
        return self.asked.get(name)


def _writable(value: Any) -> Any:
    """Cut where it is long, and halves of letters, which JSON can ask for and no file can hold, as question marks."""
    if isinstance(value, str):
        return value[:LETTERS_MAX].encode("utf-8", "replace").decode()
    return [_writable(one) for one in value] if isinstance(value, tuple | list) else value


class _Often(msgspec.Struct):
    """What one asks again and again within a minute."""

    began_ns: int
    count: int = 0
    last: AuditLine | None = None


class AuditLog:
    """A file that is only added to: one line of JSON for each thing that was asked, and one for what became of it."""

    def __init__(self, place: Path, clock: Callable[[], int] = time.time_ns) -> None:
        self.place = place
        self._clock = clock
        self._lock = Lock()
        self._often: dict[str, _Often] = {}

    def note(self, by: str, what: str, asked: Mapping[str, object], words: str = "") -> None:
        """Raises BrickyardError where it cannot be written; then nothing is done."""
        with self._lock:
            self._tell_often()
            self._add(self._line(by, what, asked, words))

    def note_often(self, group: str, by: str, what: str, asked: Mapping[str, object], words: str = "") -> None:
        """As `note`, of what somebody can repeat without end: of a group a few lines a minute, then their number."""
        with self._lock:
            self._tell_often()
            line = self._line(by, what, asked, words)
            kept = self._often.setdefault(group, _Often(line.at_unix_ns))
            kept.count += 1
            if kept.count <= OFTEN_EACH:
                self._add(line)
            else:
                kept.last = line

    def close(self) -> None:
        """Nothing that was counted is lost, unless it cannot be written."""
        with self._lock, contextlib.suppress(BrickyardError):
            self._tell_often(also_new=True)

    def newest(self, count: int = 100, first: int = 0, array: str = "") -> list[AuditLine]:
        """So many lines behind the first ones, the newest first, of one array if it is named by its key; what has
        another form is left out."""
        with self._lock, contextlib.suppress(BrickyardError):
            self._tell_often()
        try:
            with self.place.open("rb") as file:
                return list(islice(_lines(file, array), first, first + count))
        except OSError:
            return []

    def _line(self, by: str, what: str, asked: Mapping[str, object], words: str) -> AuditLine:
        return AuditLine(self._clock(), by, what, {name: _writable(value) for name, value in asked.items()}, words)

    def _tell_often(self, *, also_new: bool = False) -> None:
        now_ns = self._clock()
        for group, kept in list(self._often.items()):
            if 0 <= now_ns - kept.began_ns < OFTEN_NS and not also_new:
                continue
            if kept.last is not None:
                more = (
                    f"{kept.count - OFTEN_EACH:,} more within a minute; the last: {kept.last.words or kept.last.what}"
                )
                self._add(msgspec.structs.replace(kept.last, words=more))
            del self._often[group]

    def _add(self, line: AuditLine) -> None:
        try:
            outputs.folder(self.place.parent)
            outputs.append_to(self.place, msgspec.json.encode(line) + b"\n", MARK)
        except OSError as error:
            raise BrickyardError(
                f"{self.place}: the audit log cannot be written ({error.strerror}), so nothing was changed"
            ) from error


def _lines(file: BinaryIO, array: str) -> Iterator[AuditLine]:
    """From the end. Anybody with rights may have written into the file."""
    named = msgspec.json.encode(array)
    for raw in _backwards(file):
        if array and named not in raw:
            continue
        try:
            line = msgspec.json.decode(raw, type=AuditLine)
        except msgspec.DecodeError:
            continue
        if not array or line.asks("array") == array:
            yield line


def _backwards(file: BinaryIO) -> Iterator[bytes]:
    at, rest = file.seek(0, os.SEEK_END), b""
    while at:
        size = min(at, BLOCK_BYTES)
        at -= size
        file.seek(at)
        rest, *lines = (file.read(size) + rest).split(b"\n")
        yield from reversed(lines)
    yield rest


ready(AuditLine)

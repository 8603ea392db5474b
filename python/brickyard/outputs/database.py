"""Duty: SQLite files of ours, and the files that SQLite keeps beside them.

SQLite makes a database of whatever is empty, a device too, since its size is 0 to stat(2). So a new database is made
whole and gets its name then; SQLite opens only what exists, and what it has opened is asked whether it is ours before
anything is written.

Refusal: no table is known here.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.outputs.files import part_of
from brickyard.outputs.places import Place, opened, place_of, refuse, refuse_unwritable, seen

# https://www.sqlite.org/fileformat.html: the header's magic, the place of the application id, the heads of a
# write-ahead log (either byte order of its checksums), of a rollback journal, and of the log's index.
_MAGIC, _HEADER_BYTES, _APPLICATION_ID_AT = b"SQLite format 3\0", 100, 68
_WAL = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_JOURNAL = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_INDEX = struct.pack("=I", 3007000)
_COMPANIONS = {"-wal": _WAL, "-shm": (_INDEX,), "-journal": (_JOURNAL,)}
NO_STORE = "not a store of Brickyard; name another with --store"


_lock = threading.RLock()  # a connection may be collected while it is held
_open: Counter[tuple[int, int]] = Counter()
"""Device and inode of each database that this process has open, and how often. Nobody else may open and close such a
file here: that drops all locks of the process on it, SQLite's too (https://www.sqlite.org/howtocorrupt.html, 2.2)."""


class _Connection(sqlite3.Connection):
    """Is known as open until it is closed."""

    _file: tuple[int, int] | None = None

    def holds(self, path: Path) -> None:
        found = os.stat(path)
        with _lock:
            self._file = found.st_dev, found.st_ino
            _open[self._file] += 1

    def close(self) -> None:
        super().close()
        self._released()

    def __del__(self) -> None:
        self._released()

    def _released(self) -> None:
        with _lock:
            if self._file is not None:
                _open[self._file] -= 1
                if not _open[self._file]:
                    del _open[self._file]
            self._file = None


def _is_open(found: os.stat_result) -> bool:
    with _lock:
        return _open[found.st_dev, found.st_ino] > 0


def in_memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


def check_database(path: Path, application_id: int) -> bool:
    """Refuses what is no database of this application, and a name that cannot be taken; nothing is written.

    True: it is there.
    """
    with place_of(path) as place:
        found = seen(place)
        if found is not None and _is_open(found):
            return True  # it was found to be one when it was opened
        handle = opened(place, os.O_RDONLY)
        if handle is None:
            refuse_unwritable(path, place.directory)
            for suffix in _COMPANIONS:
                if os.path.lexists(f"{path}{suffix}"):
                    raise refuse(path, f"{path}{suffix} is there without its database, and would be lost")
            return False
        try:
            head = os.pread(handle, _HEADER_BYTES, 0)
        finally:
            os.close(handle)
        if not head:
            raise BadInputError(f"{path}: is empty, and {NO_STORE}")
        if not head.startswith(_MAGIC):
            raise BadInputError(f"{path}: {NO_STORE}")
        if head[_APPLICATION_ID_AT:][:4] != struct.pack(">I", application_id):
            raise BadInputError(f"{path}: a database, but {NO_STORE}")
        for suffix, heads in _COMPANIONS.items():
            _check_companion(Place(Path(f"{path}{suffix}"), place.directory, place.name + suffix), heads)
    return True


def _check_companion(place: Place, heads: tuple[bytes, ...]) -> None:
    """SQLite writes over these: they must be empty, blank or begin as SQLite's own."""
    handle = opened(place, os.O_RDONLY)
    if handle is None:
        return
    try:
        head = os.pread(handle, 8, 0)
    finally:
        os.close(handle)
    if head.strip(b"\0") and not head.startswith(heads):
        raise refuse(place.path, "is not what SQLite keeps beside a database", "move it away")


def make_database(path: Path, content: bytes) -> None:
    """A new database, whole under its name at once. Where another process was faster, its file stands."""
    with place_of(path) as place:
        try:
            with part_of(place) as (part, file):
                file.write(content)
                file.flush()
                _core.give_name(place.directory, part, place.name)
        except FileExistsError:
            return


def connect(path: Path, application_id: int, timeout_s: float) -> sqlite3.Connection:
    """A connection to a database that is there and ours, for writing."""
    return _ours(path, "rw", application_id, timeout_s)


def connect_for_reading(
    path: Path, application_id: int, timeout_s: float, *, immutable: bool, is_cut: bool = False
) -> sqlite3.Connection:
    """`immutable` only where nothing else works: it leaves out what still stands in a write-ahead log.

    `is_cut` for a file that is shorter than its header says: what is left of it is read.
    """
    return _ours(path, "ro&immutable=1" if immutable else "ro", application_id, timeout_s, is_cut=is_cut)


def _ours(path: Path, mode: str, application_id: int, timeout_s: float, *, is_cut: bool = False) -> sqlite3.Connection:
    """What was opened is asked itself: between a look at a name and its opening it may come to mean another file."""
    address = f"file:{quote(str(path.absolute()))}?mode={mode}"
    db = sqlite3.connect(address, uri=True, timeout=timeout_s, isolation_level=None, factory=_Connection)
    try:
        db.holds(path)
        if is_cut:
            # SQLite refuses a file that is too short, but with this setting (btree.c, lockBtree); nothing is written.
            db.execute("PRAGMA writable_schema = ON")
        (found,) = db.execute("PRAGMA application_id").fetchone()
        if found != application_id:
            raise BadInputError(f"{path}: {NO_STORE}")
    except BaseException:
        db.close()
        raise
    return db

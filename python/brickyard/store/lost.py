"""Duty: notices a store that is deleted, replaced or cut short while it is written, and saves what is still readable.

SQLite itself goes on writing to a file that has no name any more, and all of it is lost when the process ends.

Refusal: a file that somebody else put in the store's place is not touched.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from brickyard.errors import BrickyardError, one_line
from brickyard.store.salvage import salvage


class StoreLostError(BrickyardError):
    """The file of a store is not what was opened any more."""


class StoreFile:
    """The file that was opened, as it is known again: device, inode, and a size that never shrinks in a store."""

    def __init__(self, place: Path) -> None:
        self._place = place
        found = self._found()
        self._known = (found.st_dev, found.st_ino) if found else None
        self._size_bytes = found.st_size if found else 0

    def _found(self) -> os.stat_result | None:
        try:
            return os.stat(self._place)
        except OSError:
            return None

    def check(self) -> None:
        """Raises StoreLostError; a store in memory has no file, and is never lost."""
        if self._known is None:
            return
        found = self._found()
        if found is None:
            raise StoreLostError(f"{self._place}: the store was deleted while it was written")
        if (found.st_dev, found.st_ino) != self._known:
            raise StoreLostError(f"{self._place}: the store was replaced by another file while it was written")
        if found.st_size < self._size_bytes:
            raise StoreLostError(f"{self._place}: the store was cut short while it was written")
        self._size_bytes = found.st_size


def rescue(db: sqlite3.Connection, place: Path, error: StoreLostError) -> str:
    """Through the connection that still holds the file."""
    for number in range(1, 100):
        new = place.with_name(f"{place.stem}-rescued-{number}{place.suffix}")
        if not new.exists():
            break
    try:
        losses = salvage(db, new)
    except (BrickyardError, OSError, sqlite3.Error) as cause:
        return f"{error}; it could not be saved ({one_line(cause)}): what was measured is lost"
    rest = f", without {len(losses)} rows that could not be read" if losses else ""
    return f"{error}; all that it held is in {new} now{rest}: name it with --store"

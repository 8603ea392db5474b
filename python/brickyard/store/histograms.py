"""Duty: gives the histograms of a run's intervals one at a time, so that its record takes memory for its counts alone.

Refusal: nothing is decoded, merged or kept.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

from brickyard.errors import BadInputError, one_line


class InMemory:
    """Of a store that is gone when it is closed."""

    def __init__(self, texts: dict[int, str]) -> None:
        self._texts = texts

    def text(self, row: int) -> str:
        return self._texts[row]


class OnDisk:
    """Reads by the connection of a store, which it takes over and ends when the store is closed."""

    def __init__(self, place: Path, db: sqlite3.Connection) -> None:
        self._place, self._db = place, db
        self.owns = False

    def text(self, row: int) -> str:
        try:
            found = self._db.execute("SELECT histogram FROM interval WHERE id = ?", (row,)).fetchone()
        except sqlite3.Error as error:
            raise BadInputError(f"{self._place}: cannot be read any more: {one_line(error)}") from error
        return str(found[0])

    def __del__(self) -> None:
        if self.owns:
            # Collected in another thread, Python refuses to close it; it is closed when it is taken apart.
            with suppress(sqlite3.ProgrammingError):
                self._db.close()

"""Duty: judges each run of a store by itself, so that one damaged record takes no other with it.

Refusal: nothing is repaired; `salvage` copies what can be read into another store.
"""

from __future__ import annotations

import base64
import re
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from brickyard.errors import FAILED, BrickyardError, one_line
from brickyard.store.place import command_on
from brickyard.store.record import DAMAGED, ENDED, Ended, RunInfo

NOT_TEXT = "Could not decode to UTF-8"
"""How Python's sqlite3 begins its complaint of a text that is not UTF-8."""

Row = tuple[Any, ...]


class DamagedRunError(BrickyardError):
    """A run's record cannot be read; the others can."""

    exit_code = FAILED

    def __init__(self, run: int, place: Path, cause: str) -> None:
        super().__init__(
            f"run {run}: its record in {place} is damaged ({cause}); {command_on(place, 'store check')} names all that "
            f"are, {command_on(place, 'store salvage -o NEW')} copies the others"
        )


def is_damage(error: sqlite3.Error) -> bool:
    """Whether SQLite complains of the file's contents, not of locks, rights or room."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # Python's own complaint of a text with a damaged byte, which SQLite takes for sound
        return NOT_TEXT in str(error)
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def cause_of(error: sqlite3.Error) -> str:
    """One line that begins with the column where that is known; a damaged text itself is not repeated."""
    named = re.match(rf"{NOT_TEXT} column '(\w+)'", str(error))
    return f"{named[1]}: a byte of the text is damaged (not UTF-8)" if named else one_line(error)


HISTOGRAM_HEAD_BYTES = 8
"""Cookie and length; what follows is a zlib stream, which ends with a check sum of its contents (HdrHistogram V2)."""


def check_histogram(text: str) -> None:
    """Raises ValueError where the text is not as it was written: by its check sum, a tenth of the cost of decoding."""
    try:
        zlib.decompress(base64.b64decode(text, validate=True)[HISTOGRAM_HEAD_BYTES:])
    except zlib.error as error:
        raise ValueError(f"not a histogram: {error}") from error


def check_outcome(value: object) -> Ended | None:
    """How a run or study ended; None where it has not. Raises ValueError where this is no way to end."""
    found = next((word for word in ENDED if word == value), None)
    if value is not None and found is None:
        raise ValueError(f"{value!r} is not one of {', '.join(ENDED)}")
    return found


def judged(row: Row, made: Callable[[Row], RunInfo]) -> RunInfo:
    """The run of a row; one that is marked as damaged where a value of it makes no sense."""
    try:
        return made(row)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        made_unix_ns, study = (value if isinstance(value, int) else None for value in (row[1], row[11]))
        return damaged(int(row[0]), one_line(error), made_unix_ns or 0, study)


def damaged(run: int, cause: str, created_unix_ns: int = 0, study: int | None = None) -> RunInfo:
    return RunInfo(
        id=run,
        created_unix_ns=created_unix_ns,
        profile="",
        profile_hash="",
        plan_document={},
        seed=0,
        condition="",
        targets=[],
        options={},
        software_version="",
        facts_document={},
        study=study,
        labels={},
        start_unix_ns=None,
        engine={},
        ended_unix_ns=None,
        end_ns=None,
        outcome=DAMAGED,
        message=cause,
        watch_document={},
        warnings=[],
    )


def run_ids(db: sqlite3.Connection) -> list[int]:
    """Ids of all runs, from wherever they can still be read."""
    for statement in ("SELECT id FROM run ORDER BY id", "SELECT DISTINCT run FROM interval_cost ORDER BY run"):
        try:
            return [int(row[0]) for row in db.execute(statement)]
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
    try:
        last = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'run'").fetchone()
    except sqlite3.DatabaseError:
        return []
    return list(range(1, int(last[0]) + 1)) if last else []


def runs_one_by_one(
    db: sqlite3.Connection, columns: str, made: Callable[[Row], RunInfo], ids: Iterable[int] | None
) -> list[RunInfo]:
    """Where a table cannot be read as a whole: each run that can be, and the others as damaged."""
    found = []
    for run in run_ids(db) if ids is None else ids:
        try:
            row = db.execute(f"{columns} WHERE run.id = ?", (run,)).fetchone()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            found.append(damaged(run, cause_of(error)))
            continue
        if row is not None:
            found.append(judged(row, made))
    return found


ROOM_BYTES_MIN = 1 << 16
"""SQLite maps 32 KiB of shared memory beside a store and says "disk I/O error" where that does not fit."""


def is_full(place: Path) -> bool:
    """Whether the file system of a store has no room, which SQLite may call an I/O error."""
    try:
        return shutil.disk_usage(place.parent).free < ROOM_BYTES_MIN
    except OSError:
        return False

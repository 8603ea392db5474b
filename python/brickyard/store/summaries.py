"""Duty: keeps a text for each run beside its record, with the number of the formula that it came from.

A summary can always be made from the record again: it is no part of it, is not salvaged, and is given back only where
its check sum agrees.

Refusal: nothing of a text is read here.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from brickyard.store.damage import is_damage

_COLUMNS = "SELECT run, formula, body, check_sum FROM run_summary"


def write_summaries(db: sqlite3.Connection, formula: int, bodies: Mapping[int, str]) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO run_summary (run, formula, body, check_sum) VALUES (?, ?, ?, ?)",
        [(run, formula, body, check_sum(run, formula, body)) for run, body in bodies.items()],
    )


def read_summaries(db: sqlite3.Connection, formula: int, runs: Iterable[int]) -> dict[int, str]:
    """Those of the runs that are whole and of this formula."""
    wanted = set(runs)
    return {
        run: body
        for run, made_by, body, told in _rows(db, wanted)
        if run in wanted and made_by == formula and told == check_sum(run, formula, body)
    }


def check_sum(run: int, formula: int, body: str) -> int:
    return zlib.crc32(f"{run} {formula} {body}".encode())


def _rows(db: sqlite3.Connection, runs: set[int]) -> list[tuple[Any, ...]]:
    """All between the first and the last; one by one where a page of the table is damaged."""
    if not runs:
        return []
    try:
        return db.execute(f"{_COLUMNS} WHERE run BETWEEN ? AND ?", (min(runs), max(runs))).fetchall()
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
    found = []
    for run in sorted(runs):
        try:
            found += db.execute(f"{_COLUMNS} WHERE run = ?", (run,)).fetchall()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
    return found

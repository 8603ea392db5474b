"""Duty: a check sum of every row of a record, made as the row is written and held against it when it is read.

SQLite notices a page that is no page, and no bit that turned within a number.

Refusal: nothing is repaired. Rows of a store from before these sums have none, and are not judged here.
"""

from __future__ import annotations

import re
import sqlite3
import zlib

from brickyard.store.damage import is_damage

KEYS = {
    "run": "id",
    "run_start": "run",
    "run_end": "run",
    "interval": "id",
    "interval_cost": "id",
    "error": "id",
    "event": "id",
    "study": "id",
    "study_run": "(study << 32) + run",
    "study_end": "study",
    "baseline": "id",
}
"""Tables with sums, and the number of a row in SQL."""

OF_A_RUN = ("run", "run_start", "run_end", "interval", "interval_cost", "error", "event", "study_run")
FUNCTION = "brickyard_sum"


def sum_of(*values: object) -> int:
    """zlib's CRC-32 of the values of a row as Python writes them."""
    return zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))


def table_of_sums(script: str) -> str:
    """The script that makes the table of sums and what fills it, for the tables that another script makes."""
    made = """
CREATE TABLE row_sum (
    of               TEXT NOT NULL,
    number           INTEGER NOT NULL,
    check_sum        INTEGER NOT NULL,
    PRIMARY KEY (of, number)
) STRICT, WITHOUT ROWID;
"""
    for table, key in KEYS.items():
        number = "(NEW.study << 32) + NEW.run" if table == "study_run" else f"NEW.{key}"
        values = ", ".join(f"NEW.{name}" for name in _columns(script, table))
        summed = f"INSERT INTO row_sum VALUES ('{table}', {number}, {FUNCTION}({values}))"  # noqa: S608
        made += f"CREATE TRIGGER {table}_summed AFTER INSERT ON {table} BEGIN {summed}; END;\n"
    return made


def _columns(script: str, table: str) -> list[str]:
    """A column is on a line of its own, and its name is in small letters."""
    body = re.search(rf"^CREATE TABLE {table} \((.*?)^\)", script, re.M | re.S)
    assert body is not None
    return re.findall(r"^    ([a-z]\w*) ", body[1], re.M)


def register(db: sqlite3.Connection) -> None:
    """Every connection that appends needs this."""
    db.create_function(FUNCTION, -1, sum_of, deterministic=True)


def without(db: sqlite3.Connection) -> None:
    """A store in memory is gone before a bit of it turns."""
    for table in KEYS:
        db.execute(f"DROP TRIGGER {table}_summed")


def has_sums(db: sqlite3.Connection) -> bool:
    found = db.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'row_sum'")
    return found.fetchone() is not None


def check_run(db: sqlite3.Connection, run: int) -> None:
    """Raises ValueError where a row of a run is not as it was written."""
    for table in OF_A_RUN if has_sums(db) else ():
        of = "id" if table == "run" else "run"
        rows = db.execute(f"SELECT {KEYS[table]}, * FROM {table} WHERE {of} = ?", (run,))  # noqa: S608
        for number, *values in rows:
            if why := trouble(db, table, number, values):
                raise ValueError(f"a row of the table {table} is {why}")


def trouble(db: sqlite3.Connection, table: str, number: int, values: list[object]) -> str:
    """Why a row cannot be believed, or nothing; where its sum itself cannot be read, nothing is known against it."""
    try:
        found = db.execute("SELECT check_sum FROM row_sum WHERE of = ? AND number = ?", (table, number)).fetchone()
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return ""
    return "not as it was written, by its check sum" if found and found[0] != sum_of(*values) else ""

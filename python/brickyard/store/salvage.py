"""Duty: finds what of a store is damaged, and copies what can be read into a new one.

Refusal: the old store is never written.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from brickyard import outputs
from brickyard.errors import BadInputError, one_line
from brickyard.schema import Unit, stored, warned
from brickyard.store.damage import cause_of, check_histogram, check_outcome, is_damage, run_ids
from brickyard.store.schema import APPEND_ONLY, APPLICATION_ID, BUSY_TIMEOUT_S, LATER, has_table, migrate
from brickyard.store.sums import has_sums, register, trouble

JSON_COLUMNS = frozenset(
    {"plan", "targets", "options", "facts", "engine", "watch", "warnings"}
    | {"knob", "body", "about", "labels", "notes", "runs"}
)
DATABASE_MARK = re.compile(rb"\ASQLite format 3\0")
NAMES_SHOWN = 20  # of what SQLite says of its file


@dataclass(frozen=True)
class Loss:
    """A row that cannot be read, or makes no sense. `run` is None where that is not known."""

    table: str
    row: int | None
    run: int | None
    cause: str


def integrity(db: sqlite3.Connection) -> list[str]:
    """What SQLite finds wrong with its file; empty where nothing is."""
    try:
        found = [str(row[0]) for row in db.execute(f"PRAGMA integrity_check({NAMES_SHOWN})")]
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return [one_line(error)]
    return [] if found == ["ok"] else [one_line(line) for line in found]


def losses(db: sqlite3.Connection) -> list[Loss]:
    """Every row of every table that cannot be read as what it should be."""
    return [found for table in _tables(db) for _, found in _rows(db, table) if isinstance(found, Loss)]


def _tables(db: sqlite3.Connection) -> list[str]:
    return [*APPEND_ONLY, *(name for name in LATER if has_table(db, name))]


def salvage(db: sqlite3.Connection, place: Path) -> list[Loss]:
    """Copies all readable rows into a new store at `place`, with the same ids; gives back what was left behind.

    A run whose own row is lost leaves its intervals behind as well: nothing would say what they are.
    """
    if outputs.check_database(place, APPLICATION_ID):
        raise BadInputError(f"{place}: exists; name a new file with -o")
    with closing(outputs.in_memory()) as blank:
        migrate(blank, str(place))
        outputs.make_database(place, blank.serialize())
    try:
        return _copy(db, place)
    except BaseException:
        outputs.remove_ours(place, DATABASE_MARK)
        raise


def _copy(db: sqlite3.Connection, place: Path) -> list[Loss]:
    lost: list[Loss] = []
    with closing(outputs.connect(place, APPLICATION_ID, BUSY_TIMEOUT_S)) as new:
        new.execute("PRAGMA journal_mode = WAL")
        register(new)
        new.execute("BEGIN IMMEDIATE")
        kept: dict[str, set[int]] = {"run": set(), "study": set()}
        # The end of a run last: what was lost of the run is said there.
        for table in [*(name for name in _tables(db) if name != "run_end"), "run_end"]:
            for row, found in _rows(db, table):
                if isinstance(found, Loss):
                    lost.append(found)
                    continue
                orphan = next((key for key in ("run", "study") if key in row and row[key] not in kept[key]), None)
                if orphan is not None and table not in kept:
                    lost.append(Loss(table, found, _number(row.get("run")), f"its {orphan} is lost"))
                    continue
                if table in kept:
                    kept[table].add(found)
                if table == "run_end":
                    _note_losses(row, sum(x.run == found for x in lost))
                marks = ", ".join("?" * len(row))
                columns = ", ".join(row)
                try:
                    new.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", list(row.values()))  # noqa: S608
                except sqlite3.IntegrityError as error:  # readable, and nothing that a store would have taken
                    lost.append(Loss(table, found, _number(row.get("run")), one_line(error)))
                    for numbers in [kept[table]] if table in kept else []:
                        numbers.discard(found)
        new.execute("COMMIT")
    return lost


def _note_losses(row: dict[str, object], count: int) -> None:
    """A run that lost rows did not end well for who compares it: a rate over its whole time would be too low."""
    if not count:
        return
    told = warned(
        "salvaged",
        "warning",
        "{lost} rows of this run were lost when its store was salvaged, so its figures are incomplete.",
        "Measure again before comparing it with another run.",
        lost=Unit.NUMBER.of(count),
    )
    row["warnings"] = json.dumps([stored(told), *json.loads(str(row["warnings"]))])
    if row["outcome"] == "done":
        row["outcome"], row["message"] = "failed", f"{count} rows of its record were lost when its store was salvaged"


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


@dataclass(frozen=True)
class _Key:
    """The primary key of a row, and the run that it is of, where that is known without reading the row."""

    values: dict[str, int]
    run: int | None

    @property
    def number(self) -> int:
        return list(self.values.values())[-1]

    @property
    def summed(self) -> int:
        """The number of its sum: that of a table with two keys has both."""
        return sum(value << 32 * place for place, value in enumerate(reversed(self.values.values())))


def _rows(db: sqlite3.Connection, table: str) -> Iterator[tuple[dict[str, object], int | Loss]]:
    """Each row by its columns, with its key or with what is wrong with it."""
    columns = [str(row[1]) for row in db.execute(f"PRAGMA table_info({table})")]
    summed = has_sums(db)
    for key in _keys(db, table, columns):
        if isinstance(key, Loss):
            yield {}, key
            continue
        where = " AND ".join(f"{name} = ?" for name in key.values)
        try:
            found = db.execute(f"SELECT * FROM {table} WHERE {where}", list(key.values.values())).fetchone()  # noqa: S608
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            yield {}, Loss(table, key.number, key.run, cause_of(error))
            continue
        if found is None:
            yield {}, Loss(table, key.number, key.run, "the row is gone")
            continue
        row = dict(zip(columns, found, strict=True))
        cause = _trouble(row)
        if summed and not cause:
            cause = trouble(db, table, key.summed, list(found))
        yield row, Loss(table, key.number, key.run, cause) if cause else key.number


def _keys(db: sqlite3.Connection, table: str, columns: list[str]) -> Iterator[_Key | Loss]:
    """Primary keys of a table. Where it cannot be walked through, its rows are tried one after the other.

    The run of a row stands in an index as well, which SQLite reads here instead of the table.
    """
    names = ["study", "run"] if table == "study_run" else [columns[0]]
    run = "id" if table == "run" else "run" if "run" in columns else "NULL"
    listed = ", ".join(names)
    try:
        found = db.execute(f"SELECT {run}, {listed} FROM {table}").fetchall()  # noqa: S608
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        if table == "study_run":
            yield Loss(table, None, None, one_line(error))
            return
        last = _last_key(db, table, names[0])
        for number in range(1, last + 1):
            if _may_be_there(db, table, names[0], number):
                yield _Key({names[0]: number}, number if names[0] == "run" or table == "run" else None)
        return
    yield from (_Key(dict(zip(names, key, strict=True)), of) for of, *key in sorted(found, key=lambda row: row[1:]))


def _last_key(db: sqlite3.Connection, table: str, name: str) -> int:
    """The greatest key that may exist; by the right edge of the tree, which may be whole where the middle is not."""
    try:
        row = db.execute(f"SELECT max({name}) FROM {table}").fetchone()  # noqa: S608
        return int(row[0] or 0)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
    return max(run_ids(db), default=0)


def _may_be_there(db: sqlite3.Connection, table: str, name: str, number: int) -> bool:
    try:
        return db.execute(f"SELECT 1 FROM {table} WHERE {name} = ?", (number,)).fetchone() is not None  # noqa: S608
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return True


def _trouble(row: dict[str, object]) -> str:
    """Why a row makes no sense, or nothing."""
    for name, value in row.items():
        try:
            if name in JSON_COLUMNS and value is not None:
                json.loads(str(value))
            elif name == "histogram" and value:
                check_histogram(str(value))
            elif name == "outcome":
                check_outcome(value)
        except ValueError as error:
            return f"{name}: {one_line(error)}"
    return ""

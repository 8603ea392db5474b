"""Duty: SQLite under numbered inserts, and what is left of it after a power cut.

Refusal: no other database is opened.
"""

from __future__ import annotations

import sqlite3
import time

from brickyard.errors import BadInputError
from brickyard.lab.checks import SETTINGS, SQLITE, Began, Corrupt, Lost, Stage, beneath
from brickyard.lab.ledger import Ledger, Owed
from brickyard.lab.orders import Missing, Recording, Setup, State

NAME = "ledger.sqlite"
COMPANIONS = ("-journal", "-wal", "-shm")
FIRST = ("page_size", "auto_vacuum")
# https://www.sqlite.org/pragma.html: what is set by name is read as a number.
NUMBERED = {name: SETTINGS[SQLITE][name] for name in ("synchronous", "auto_vacuum")}
BUSY_S = 10.0
PAGES = 400  # of what is changed beside the rows, so that a transaction changes several pages


class SqliteLoad:
    """One writer; `settings` are pragmas.

    In the default, FULL, SQLite does not sync the folder after it has removed the journal, which is what commits.
    """

    def run(self, stage: Stage, setup: Setup, ledger: Ledger, began: Began) -> tuple[str, str]:
        db = sqlite3.connect(stage.mount / NAME, timeout=BUSY_S, isolation_level=None)
        try:
            set_pragmas(db, setup.settings)
            db.execute("create table promise (number integer primary key)")
            db.execute("create table page (id integer primary key, number integer, filler blob)")
            db.executemany("insert into page values (?, 0, zeroblob(900))", [(n,) for n in range(PAGES)])
            began()
            deadline, number = time.monotonic() + setup.load_s, 0
            while time.monotonic() < deadline:
                number += 1
                db.execute("begin immediate")
                db.execute("insert into promise values (?)", (number,))
                for n in range(3):
                    db.execute("update page set number = ? where id = ?", (number, (number * 37 + n * 101) % PAGES))
                db.execute("commit")
                ledger.acknowledged(0, number)
        finally:
            db.close()
        return NAME, f"SQLite {sqlite3.sqlite_version}"


def set_pragmas(db: sqlite3.Connection, settings: dict[str, str]) -> None:
    """SQLite takes a pragma or a value that it does not know without a word, so that each is read back."""
    # The size of pages and the mode of vacuum are those that the file is made with.
    for name, value in sorted({"journal_mode": "DELETE", "synchronous": "EXTRA", **settings}.items(), key=_order):
        db.execute(f"pragma {name} = {value}")
        row = db.execute(f"pragma {name}").fetchone()
        found = str(row[0]) if row else "nothing"
        named = NUMBERED[name][int(found)] if name in NUMBERED and found.isdigit() else found
        if named.upper() != value.upper():
            raise BadInputError(f"--set {name}={value}: SQLite {sqlite3.sqlite_version} took it as {named}")


def _order(setting: tuple[str, str]) -> bool:
    return setting[0] not in FIRST


class SqliteCheck:
    def __init__(self, recording: Recording) -> None:
        self._owed = Owed(recording.promises)

    def __call__(self, stage: Stage, recording: Recording, state: State) -> None:
        place = beneath(stage.mount, NAME)
        for companion in COMPANIONS:
            beneath(stage.mount, NAME + companion)
        if not place.is_file():
            raise Corrupt("the database is gone")
        try:
            db = sqlite3.connect(place, timeout=BUSY_S, isolation_level=None)
            try:
                said = db.execute("pragma integrity_check").fetchone()[0]
                count, last = db.execute("select count(*), coalesce(max(number), 0) from promise").fetchone()
                newest = db.execute("select max(number) from page").fetchone()[0]
            finally:
                db.close()
        except sqlite3.Error as error:
            raise Corrupt(f"SQLite: {error}") from error
        if said != "ok":
            raise Corrupt(f"integrity_check: {said}")
        owed = self._owed.at(state.cut).get(0, 0)
        if last < owed:
            raise Lost(f"{owed} was acknowledged; {last} is the last", Missing(0, last + 1))
        if count != last or newest != last:
            raise Corrupt(f"{count} rows up to number {last}, and pages up to {newest}")

"""Duty: the tables of the store and how an older store becomes a current one.

Refusal: no reading or writing of rows. A migration that was ever released is never edited; a change is a new one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache

from brickyard.errors import BadInputError
from brickyard.outputs import in_memory
from brickyard.store.damage import is_damage
from brickyard.store.sums import register, table_of_sums

BUSY_TIMEOUT_S = 30.0  # how long an append waits for other runs that write to the same store
APPLICATION_ID = 0x42524B59  # "BRKY", so that `file` and we ourselves know a store from another SQLite file

FIRST_TABLES = (
    "run",
    "run_start",
    "run_end",
    "interval",
    "interval_cost",
    "error",
    "event",
    "study",
    "study_run",
    "study_end",
)

APPEND_ONLY = (*FIRST_TABLES, "baseline")
"""Those that a store of any readable version has."""
LATER = ("annotation",)
"""Append-only as well; an older store that cannot be written is read without them."""

_TABLES = """
CREATE TABLE run (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    created_unix_ns  INTEGER NOT NULL,
    profile          TEXT NOT NULL,
    profile_hash     TEXT NOT NULL,
    plan             TEXT NOT NULL CHECK (json_valid(plan)),
    seed             INTEGER NOT NULL,
    condition        TEXT NOT NULL,
    targets          TEXT NOT NULL CHECK (json_valid(targets)),
    options          TEXT NOT NULL CHECK (json_valid(options)),
    software_version TEXT NOT NULL,
    facts            TEXT NOT NULL CHECK (json_valid(facts))
) STRICT;
CREATE TABLE run_start (
    run              INTEGER PRIMARY KEY REFERENCES run (id),
    start_unix_ns    INTEGER NOT NULL,
    engine           TEXT NOT NULL CHECK (json_valid(engine))
) STRICT;
-- No row here: the run was interrupted so hard that it could not say so.
CREATE TABLE run_end (
    run              INTEGER PRIMARY KEY REFERENCES run (id),
    ended_unix_ns    INTEGER NOT NULL,
    end_ns           INTEGER NOT NULL,
    outcome          TEXT NOT NULL CHECK (outcome IN ('done', 'interrupted', 'failed')),
    message          TEXT NOT NULL,
    watch            TEXT NOT NULL CHECK (json_valid(watch)),
    warnings         TEXT NOT NULL CHECK (json_valid(warnings))
) STRICT;
-- Loops that report late are told apart: several rows may carry parts of one interval, and are summed.
CREATE TABLE interval (
    id               INTEGER PRIMARY KEY,
    run              INTEGER NOT NULL REFERENCES run (id),
    phase            INTEGER NOT NULL,
    stream           INTEGER NOT NULL,
    operation        TEXT NOT NULL,
    measure          TEXT NOT NULL,
    start_ns         INTEGER NOT NULL,
    end_ns           INTEGER NOT NULL,
    warmup           INTEGER NOT NULL,
    requests         INTEGER NOT NULL,
    bytes            INTEGER NOT NULL,
    errors           INTEGER NOT NULL,
    depth_max        INTEGER NOT NULL,
    mean_ns          REAL NOT NULL,
    p50_ns           INTEGER NOT NULL,
    p99_ns           INTEGER NOT NULL,
    max_ns           INTEGER NOT NULL,
    histogram        TEXT NOT NULL
) STRICT;
CREATE INDEX interval_of_run ON interval (run, phase, start_ns);
-- What the generator used; there is a row also where nothing completed in it: a stall is a measurement.
CREATE TABLE interval_cost (
    id               INTEGER PRIMARY KEY,
    run              INTEGER NOT NULL REFERENCES run (id),
    phase            INTEGER NOT NULL,
    start_ns         INTEGER NOT NULL,
    end_ns           INTEGER NOT NULL,
    warmup           INTEGER NOT NULL,
    cpu_user_ns      INTEGER NOT NULL,
    cpu_system_ns    INTEGER NOT NULL,
    loop_busy_share  REAL NOT NULL,
    knob             TEXT NOT NULL CHECK (json_valid(knob)),
    drain            INTEGER NOT NULL
) STRICT;
CREATE INDEX interval_cost_of_run ON interval_cost (run, phase, start_ns);
CREATE TABLE error (
    id               INTEGER PRIMARY KEY,
    run              INTEGER NOT NULL REFERENCES run (id),
    at_ns            INTEGER NOT NULL,
    phase            INTEGER NOT NULL,
    stream           INTEGER NOT NULL,
    operation        TEXT NOT NULL,
    offset_bytes     INTEGER NOT NULL,
    request_bytes    INTEGER NOT NULL,
    kind             TEXT NOT NULL,
    errno            INTEGER,
    text             TEXT NOT NULL
) STRICT;
CREATE INDEX error_of_run ON error (run, at_ns);
CREATE TABLE event (
    id               INTEGER PRIMARY KEY,
    run              INTEGER NOT NULL REFERENCES run (id),
    kind             TEXT NOT NULL,
    body             TEXT NOT NULL CHECK (json_valid(body))
) STRICT;
CREATE INDEX event_of_run ON event (run, id);
CREATE TABLE study (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    created_unix_ns  INTEGER NOT NULL,
    name             TEXT NOT NULL,
    about            TEXT NOT NULL CHECK (json_valid(about))
) STRICT;
CREATE TABLE study_run (
    study            INTEGER NOT NULL REFERENCES study (id),
    run              INTEGER NOT NULL REFERENCES run (id),
    labels           TEXT NOT NULL CHECK (json_valid(labels)),
    PRIMARY KEY (study, run)
) STRICT, WITHOUT ROWID;
CREATE TABLE study_end (
    study            INTEGER PRIMARY KEY REFERENCES study (id),
    ended_unix_ns    INTEGER NOT NULL,
    outcome          TEXT NOT NULL,
    notes            TEXT NOT NULL CHECK (json_valid(notes))
) STRICT;
"""


def _append_only_triggers(tables: Sequence[str]) -> str:
    return "".join(
        f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, 'the store is append-only'); END;\n"
        for table in tables
        for verb in ("update", "delete")
    )


_BASELINE = """
-- The newest row of a name counts.
CREATE TABLE baseline (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    created_unix_ns  INTEGER NOT NULL,
    name             TEXT NOT NULL,
    runs             TEXT NOT NULL CHECK (json_valid(runs))
) STRICT;
"""

_SUMMARIES = """
-- Lists and selections read these alone, and pass over no plans, facts and events.
CREATE INDEX run_listed ON run (id, created_unix_ns, profile, targets);
CREATE INDEX run_start_listed ON run_start (run, start_unix_ns);
CREATE INDEX run_end_listed ON run_end (run, outcome);
CREATE INDEX study_run_listed ON study_run (run);
CREATE INDEX event_condition ON event (run, id) WHERE kind = 'condition';
-- Which file each target of a run was; derived from its facts, however the run comes into the store.
CREATE TABLE run_place (
    run              INTEGER PRIMARY KEY REFERENCES run (id),
    real_paths       TEXT NOT NULL
) STRICT;
CREATE TRIGGER run_place_noted AFTER INSERT ON run BEGIN
    INSERT INTO run_place SELECT NEW.id, json_group_array(json_extract(NEW.facts, fullkey || '.real_path'))
        FROM json_each(NEW.facts, '$.targets');
END;
INSERT INTO run_place
    SELECT id, (
        SELECT json_group_array(json_extract(facts, fullkey || '.real_path')) FROM json_each(facts, '$.targets')
    ) FROM run WHERE json_valid(facts);
-- Derived from the other tables, so it may be replaced. `check_sum` is zlib's CRC-32 of run, formula and body.
CREATE TABLE run_summary (
    run              INTEGER PRIMARY KEY REFERENCES run (id),
    formula          INTEGER NOT NULL,
    body             TEXT NOT NULL,
    check_sum        INTEGER NOT NULL
) STRICT;
"""

_ANNOTATIONS = """
-- What people say of a run. The newest row of a run counts, whole.
CREATE TABLE annotation (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    created_unix_ns  INTEGER NOT NULL,
    run              INTEGER NOT NULL REFERENCES run (id),
    note             TEXT NOT NULL,
    labels           TEXT NOT NULL CHECK (json_valid(labels)),
    author           TEXT NOT NULL
) STRICT;
CREATE INDEX annotation_of_run ON annotation (run, id);
"""

READABLE_FROM = 2
"""A store of this version has every table of records; what came later makes reading faster."""

MIGRATIONS: tuple[str, ...] = (
    _TABLES + _append_only_triggers(FIRST_TABLES),
    _BASELINE + _append_only_triggers(("baseline",)),
    _SUMMARIES,
    table_of_sums(_TABLES + _BASELINE),
    _ANNOTATIONS + _append_only_triggers(("annotation",)),
)
"""Script number n takes a store from version n to n + 1; the version stands in SQLite's `user_version`."""


def migrate(connection: sqlite3.Connection, place: str, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Brings a store to the current version, or says in one line why it cannot be used."""
    register(connection)
    version = _refuse_newer(connection, place, migrations)
    while version < len(migrations):
        # The write lock comes first and the version is read again under it: another process may have been faster.
        connection.execute("BEGIN IMMEDIATE")
        version = _version(connection, place)
        if version < len(migrations):
            for statement in _statements(migrations[version]):
                connection.execute(statement)
            version += 1
            connection.execute(f"PRAGMA user_version = {version}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")


def migrate_if_whole(connection: sqlite3.Connection, place: str) -> None:
    """As `migrate`; a store in which a damaged page stands against it stays as it is, where it can be read so."""
    try:
        migrate(connection, place)
    except sqlite3.DatabaseError as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if not is_damage(error) or _version(connection, place) < READABLE_FROM:
            raise


def check_readable(connection: sqlite3.Connection, place: str) -> None:
    """Of a store that cannot be written: refuses one that is newer, or too old to be read as it is."""
    if _refuse_newer(connection, place, MIGRATIONS) < READABLE_FROM:
        raise BadInputError(f"{place}: written by an older Brickyard; open it once where it can be written")


def has_derived(connection: sqlite3.Connection) -> bool:
    """Whether the tables are there that are derived from others: not in a store of version 2 that stays as it is."""
    return has_table(connection, "run_summary")


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (name,))
    return found.fetchone() is not None


def _refuse_newer(connection: sqlite3.Connection, place: str, migrations: Sequence[str]) -> int:
    version = _version(connection, place)
    if version > len(migrations):
        raise BadInputError(
            f"{place}: written by a newer Brickyard (store version {version}, this one knows up to {len(migrations)}); "
            "upgrade Brickyard or name another store with --store"
        )
    return version


def check_version(connection: sqlite3.Connection, place: str) -> None:
    """Refuses a store that cannot be used; an older one can, and stays as it is."""
    if _refuse_newer(connection, place, MIGRATIONS) == len(MIGRATIONS):
        check_columns(connection, place)


def check_columns(connection: sqlite3.Connection, place: str) -> None:
    """A store of this version may still have other columns, where it was written between two releases."""
    table = other_columns(connection)
    if table is not None and not _columns(connection)[table]:
        raise BadInputError(
            f"{place}: has no table {table}: damaged, or written by a development version of Brickyard; restore it "
            "from a backup, or name another store with --store"
        )
    if table is not None:
        raise BadInputError(
            f"{place}: written by a development version of Brickyard (its table {table} has other columns); "
            "move it away, or name another store with --store"
        )


def other_columns(connection: sqlite3.Connection) -> str | None:
    """The first table that has other columns than ours."""
    found = _columns(connection)
    return next((table for table, columns in _own_columns().items() if found.get(table) != columns), None)


@cache
def _own_columns() -> dict[str, list[str]]:
    with closing(in_memory()) as made:
        migrate(made, ":memory:")
        return _columns(made)


def _columns(connection: sqlite3.Connection) -> dict[str, list[str]]:
    return {table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] for table in APPEND_ONLY}


def _version(connection: sqlite3.Connection, place: str) -> int:
    # One statement, so that another process that makes the store at this moment is seen before or after, not between.
    row = connection.execute(
        "SELECT (SELECT count(*) FROM sqlite_schema), user_version, application_id"
        " FROM pragma_user_version, pragma_application_id"
    ).fetchone()
    tables, version, application = (int(value) for value in row)
    if (application != APPLICATION_ID and tables) or (version and not tables):
        raise BadInputError(f"{place}: a database, but not a store of Brickyard; name another with --store")
    return version


@cache
def _statements(script: str) -> list[str]:
    """Splits a script; `executescript` would commit the transaction that makes a migration all or nothing."""
    statements, pending = [], ""
    for line in script.splitlines():
        if line.lstrip().startswith("--"):
            continue
        pending += line + "\n"
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return statements

"""Duty: notices damage in the description of a store's tables, and restores it in a copy in memory.

SQLite reads the texts in `sqlite_schema` before anything else, so one wrong bit in them hides all rows. A store of ours
has the texts that `migrate` gives it, so what they were is known.

Refusal: the store itself is never written.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from brickyard import outputs
from brickyard.errors import BadInputError, one_line
from brickyard.store.damage import is_damage
from brickyard.store.place import command_on
from brickyard.store.schema import (
    APPLICATION_ID,
    BUSY_TIMEOUT_S,
    MIGRATIONS,
    READABLE_FROM,
    migrate,
    migrate_if_whole,
    other_columns,
)

DAMAGED_BYTES_MAX = 8
"""So many wrong bytes in a text of the right length are damage; a text that another version wrote differs in more."""

MALFORMED = "malformed database schema"
"""How SQLite begins its complaint of a text that it cannot take for a table, an index or a trigger."""

NO_TEXT = "a byte of it is not UTF-8"

_SELECT = (
    "SELECT rowid, CAST(type AS BLOB), CAST(name AS BLOB), CAST(tbl_name AS BLOB), CAST(sql AS BLOB) FROM sqlite_schema"
)
_UPDATE = (
    "UPDATE sqlite_schema SET type = CAST(? AS TEXT), name = CAST(? AS TEXT), tbl_name = CAST(? AS TEXT),"
    " sql = CAST(? AS TEXT) WHERE rowid = ?"
)


class DamagedDescriptionError(BadInputError):
    """SQLite cannot make out a store's tables, or takes them for others."""


@dataclass(frozen=True)
class _Entry:
    """A row of `sqlite_schema`: type, name, table and SQL text, as bytes, since they may be damaged."""

    row: int
    texts: tuple[bytes, ...]

    def __str__(self) -> str:
        kind, name, *_ = self.texts
        return f"{kind.decode()} {name.decode()}"

    def is_near(self, other: _Entry) -> bool:
        pairs = zip(self.texts, other.texts, strict=True)
        return self.lengths == other.lengths and (
            sum(a != b for one, two in pairs for a, b in zip(one, two, strict=True)) <= DAMAGED_BYTES_MAX
        )

    @property
    def lengths(self) -> list[int]:
        return [len(text) for text in self.texts]


def check_description(db: sqlite3.Connection, place: str) -> None:
    """Refuses a store whose tables are not described as we did it, where that is damage and no other version."""
    remedy = f"{command_on(place, 'store salvage -o NEW')} copies what can be read"
    try:
        # The version first: where another process makes the tables at this moment, there may only be more of them.
        version = _version(db)
        found = _entries(db)
    except UnicodeDecodeError as error:  # SQLite's complaint repeats the damaged text
        raise DamagedDescriptionError(
            f"{place}: the description of its tables is damaged ({NO_TEXT}); {remedy}"
        ) from error
    except sqlite3.DatabaseError as error:
        if MALFORMED not in str(error):
            raise
        raise DamagedDescriptionError(
            f"{place}: the description of its tables is damaged ({one_line(error)}); {remedy}"
        ) from error
    names = [str(wanted) for _, wanted in _near(found, _wanted(version))]
    if names:
        raise DamagedDescriptionError(f"{place}: the description of {', '.join(names)} is damaged; {remedy}")


def restored(place: Path) -> tuple[sqlite3.Connection, list[str]] | None:
    """A copy in memory whose tables are described as they were, and what was damaged; None where nothing of it is."""
    with closing(_looked_at(place)) as db:
        try:
            found = _entries_if_damaged(db)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return None  # the file is, and its tables' description cannot be told from the rest
        if not _near(found, _wanted(_version(db))) and not _is_malformed(db):
            return None
        copy = outputs.in_memory()
        try:
            db.backup(copy)
            names = _restore(copy, place)
            migrate_if_whole(copy, str(place))
            copy.execute("PRAGMA query_only = ON")
        except BaseException:
            copy.close()
            raise
    return copy, names


def _looked_at(place: Path) -> sqlite3.Connection:
    """Never for writing: closing such a connection may move a write-ahead log into the file."""
    try:
        return outputs.connect_for_reading(place, APPLICATION_ID, BUSY_TIMEOUT_S, immutable=False, is_cut=True)
    except sqlite3.OperationalError:
        return outputs.connect_for_reading(place, APPLICATION_ID, BUSY_TIMEOUT_S, immutable=True, is_cut=True)


def _restore(copy: sqlite3.Connection, place: Path) -> list[str]:
    """Names what was damaged. First what is nearly as it was; the rest only where SQLite cannot do without it."""
    wanted = _wanted(_version(copy))
    copy.execute("PRAGMA writable_schema = ON")
    found = _entries_if_damaged(copy)
    pairs = _near(found, wanted)
    _write(copy, pairs)
    cause = _refused(copy)
    if cause is not None:
        copy.execute("PRAGMA writable_schema = ON")
        found = _entries_if_damaged(copy)
        rest = _overwritten(found, wanted)
        _write(copy, rest)
        pairs += rest
        cause = _refused(copy)
    if cause is None and _version(copy) >= READABLE_FROM and (table := other_columns(copy)):
        cause = f"table {table} is missing or has other columns"
    if cause is not None:
        raise DamagedDescriptionError(
            f"{place}: the description of its tables is damaged, and cannot be restored ({cause}); restore the file "
            "from a backup, or name another store with --store"
        )
    return [str(entry) for _, entry in pairs]


def _write(copy: sqlite3.Connection, pairs: list[tuple[_Entry, _Entry]]) -> None:
    copy.executemany(_UPDATE, [(*wanted.texts, found.row) for found, wanted in pairs])
    copy.execute("PRAGMA writable_schema = RESET")


def _refused(db: sqlite3.Connection) -> str | None:
    """What SQLite has against the description."""
    try:
        _entries(db)
    except UnicodeDecodeError:
        return NO_TEXT
    except sqlite3.DatabaseError as error:
        return one_line(error)
    return None


def _version(db: sqlite3.Connection) -> int:
    (found,) = db.execute("PRAGMA user_version").fetchone()
    return int(found)


def _entries(db: sqlite3.Connection) -> list[_Entry]:
    return [_Entry(row, tuple(text or b"" for text in texts)) for row, *texts in db.execute(_SELECT)]


def _entries_if_damaged(db: sqlite3.Connection) -> list[_Entry]:
    """With `writable_schema` SQLite may refuse once, and then goes by those that it takes."""
    try:
        return _entries(db)
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return _entries(db)


def _is_malformed(db: sqlite3.Connection) -> bool:
    """Whether SQLite refuses the description itself, which it does not tell while `writable_schema` is on."""
    db.execute("PRAGMA writable_schema = RESET")
    cause = _refused(db)
    db.execute("PRAGMA writable_schema = ON")
    return cause is not None and (cause == NO_TEXT or MALFORMED in cause)


@cache
def _wanted(version: int) -> list[_Entry]:
    """How a store of this version describes its tables; nothing is known of those that are newer."""
    if not 0 < version <= len(MIGRATIONS):
        return []
    with closing(outputs.in_memory()) as made:
        migrate(made, ":memory:", MIGRATIONS[:version])
        return _entries(made)


def _near(found: list[_Entry], wanted: list[_Entry]) -> list[tuple[_Entry, _Entry]]:
    """What is damaged, with what it was. A store that was rebuilt by VACUUM has the same entries in another order."""
    kept = {entry.texts for entry in found}
    missing = [entry for entry in wanted if entry.texts not in kept]
    if not missing:
        return []
    known = {entry.texts for entry in wanted}
    pairs = []
    for entry in found:
        if entry.texts in known:
            continue
        near = next((other for other in missing if entry.is_near(other)), None)
        if near is not None:
            missing.remove(near)
            pairs.append((entry, near))
    return pairs


def _overwritten(found: list[_Entry], wanted: list[_Entry]) -> list[tuple[_Entry, _Entry]]:
    """More than a few bytes are wrong. By their order; what another version wrote would have another length."""
    kept = {entry.texts for entry in found}
    missing = {entry.row: entry for entry in wanted if entry.texts not in kept}
    known = {entry.texts for entry in wanted}
    pairs = [(entry, missing[entry.row]) for entry in found if entry.texts not in known and entry.row in missing]
    return [pair for pair in pairs if len(missing) == 1 or pair[0].lengths == pair[1].lengths]

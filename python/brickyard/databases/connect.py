"""Duty: connections to PostgreSQL, what a person may read of a DSN, and one line for what a server refuses.

Refusal: a password is never part of what is said, stored or passed on; messages that could quote one are not repeated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.ready import ready

if TYPE_CHECKING:
    import psycopg

CONNECT_S = 10
HOW = "write postgresql://USER@HOST:PORT/DATABASE, with the password in PGPASSWORD or ~/.pgpass"


def driver() -> Any:
    """psycopg, which only those need who have a database."""
    try:
        import psycopg
    except ImportError as error:
        raise BadInputError("the PostgreSQL driver is missing; pip install 'brickyard[database]'") from error
    return psycopg


WORDS = (
    *("host", "hostaddr", "port", "dbname", "user", "password", "passfile", "service", "sslmode", "options"),
    *("connect_timeout", "application_name"),
)
"""Of libpq, with which a DSN may begin."""


def is_dsn(text: str) -> bool:
    """Whether a target is a database: a URI, or libpq's words such as `host=/tmp user=bob`. What is there is a path."""
    if os.path.exists(text):
        return False
    return "://" in text or re.search(rf"(?:^|\s)(?:{'|'.join(WORDS)})\s*=", text) is not None


def split_dsns(*texts: str, option: str = "--to") -> list[str]:
    """`--to A,B`: several databases; the commas of a DSN with several hosts stay."""
    begins = r",(?=\s*(?:postgres(?:ql)?://|(?:host|hostaddr|dbname|user|port|password)=))"
    found = [part.strip() for text in texts for part in re.split(begins, text)]
    if not all(part and not part.startswith(",") and not part.endswith(",") for part in found):
        raise BadInputError(f"{option}: an empty DSN; {HOW}")
    refuse_twice(found, option)
    return found


def refuse_twice(names: Sequence[str], option: str) -> None:
    """Each would be given a share of the load, and the database more than its own."""
    if len(set(names)) < len(names):
        raise BadInputError(f"{option}: the same database twice; each brick is a database of its own")


class _Place(msgspec.Struct, frozen=True):
    """Of libpq's words those that say which database it is."""

    user: str = ""
    host: str = ""
    port: str = ""
    dbname: str = ""


ready(_Place)


def spoken(dsn: str) -> str:
    """The DSN as it is shown and stored: without password, as a URI."""
    refuse_second_at(dsn)
    known = msgspec.convert(_told(dsn), _Place)
    user = f"{quote(known.user, safe='')}@" if known.user else ""
    host, port, database = known.host, known.port, known.dbname
    if host.startswith("/") or not host:
        where = f"?host={quote(host, safe='/')}" if host else ""
        return f"postgresql://{user}/{quote(database, safe='')}{where}"
    return f"postgresql://{user}{host}{':' + port if port else ''}/{quote(database, safe='')}"


SECRETS = re.compile(r"password|secret|scram_.*_key")
"""Of libpq's words those with a secret as their value: password, sslpassword, oauth_client_secret and the like."""


def refuse_password(dsn: str, option: str) -> None:
    """For what is kept or shown as it is: a DSN whose password comes from elsewhere. libpq itself reads it."""
    told = _told(dsn, f"{option}: ")
    if any(SECRETS.search(key) for key in told):
        raise BadInputError(f"{option}: leave the password out of it; {HOW}")
    refuse_second_at(dsn)


def refuse_second_at(dsn: str) -> None:
    """PostgreSQL ends a password at the first @ or / and takes the rest of it for a host or a name, which is shown."""
    _, is_uri, rest = dsn.partition("://")
    end = re.search(r"[@/]", rest)
    place = rest[end.end() :] if end is not None and end.group() == "@" else rest
    if is_uri and "@" in place.partition("?")[0]:
        raise BadInputError(f"the DSN has a password that holds an @ or a / (write %40 or %2F); {HOW}")


def _told(dsn: str, about: str = "") -> dict[str, str]:
    """The DSN word by word, as libpq reads it."""
    psycopg = driver()
    try:
        told = psycopg.conninfo.conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError):
        told = {"port": "unknown"}
    # libpq quotes what it can't read, and takes what follows a colon for a port: either may be half of a password.
    if not all(port.isdigit() for port in str(told.get("port") or 0).split(",") if port):
        raise BadInputError(f"{about}this is not a DSN that PostgreSQL understands; {HOW}")
    return {key: str(value) for key, value in told.items() if value is not None}


@contextmanager
def connected(dsn: str, *, autocommit: bool = True) -> Iterator[psycopg.Connection[Any]]:
    """A connection, closed at the end; what the server refuses becomes one line that names the database."""
    psycopg = driver()
    name = spoken(dsn)
    try:
        connection = psycopg.connect(
            dsn,
            autocommit=autocommit,
            connect_timeout=CONNECT_S,
            application_name="brickyard",
            client_encoding="utf8",  # that of the database may be SQL_ASCII, in which texts are bytes
        )
    except psycopg.Error as error:
        raise BadInputError(
            f"{name}: cannot be reached: {one_line(error)}; check host, port and whether it runs"
        ) from None
    try:
        yield connection
    except psycopg.Error as error:
        raise BrickyardError(f"{name}: {_words(error)}") from error
    finally:
        connection.close()


def _words(error: Any) -> str:
    """What the server said, with its SQLSTATE and what helps."""
    remedy = {
        "42501": "; use an account that may, or grant it",  # insufficient_privilege
        "53100": "; make room on the server's volume",  # disk_full
        "3F000": "; load the data first, or name the database that has them",  # invalid_schema_name
        "42P01": "; load the data first, or name the database that has them",  # undefined_table
    }
    state = getattr(error, "sqlstate", None)
    said = one_line(getattr(error.diag, "message_primary", None) or error)
    return (
        f"{said} ({state}){remedy.get(state, '')}"
        if state
        else f"{said or 'connection lost'}; what was committed is kept"
    )

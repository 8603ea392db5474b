"""Duty: the database that runs of pgbench use: in a server of our own, or a database of our own in a running server.

Refusal: in a server that is not ours only the database is touched that was made here, which bears our mark; it alone is
dropped. Settings of such a server are never changed.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from brickyard.databases.connect import connected, driver, spoken
from brickyard.databases.ephemeral import DEFAULT_PLACE, Server, ephemeral_postgres
from brickyard.databases.pgbench_plan import PgbenchSpec, check_room, check_unseen_room
from brickyard.databases.programs import DEBIAN, find_programs
from brickyard.errors import BadInputError, one_line
from brickyard.study.replays.run import local_volume

PREFIX = "brickyard_pgbench_"
MARK = "made by brickyard pgbench; dropped at the end of its runs"
OF_CONNECTIONS = ("application_name", "client_encoding")
"""Settings that our own connections ask for, whatever the user set."""
WAIT_S = 120.0  # to initialize and start a server on a slow disk; more is a defect of the host


class Home:
    """A database for pgbench. `loaded` is set once its tables are there."""

    def __init__(self, dsn: str, pgbench: Path, shown: str, place: str | None, origin: str) -> None:
        self.dsn, self.pgbench, self.shown, self.place, self.origin = dsn, pgbench, shown, place, origin
        self.loaded = False
        self.notes: list[str] = []

    def arguments(self) -> tuple[str, dict[str, str]]:
        """What pgbench is called with, and its environment: a password stands in none but the latter. PGOPTIONS and the
        like reach our own sessions as well, so that their settings are those of pgbench's."""
        known = driver().conninfo.conninfo_to_dict(self.dsn)
        password = known.pop("password", None)
        environment = {**os.environ, "LC_ALL": "C"}
        if password is not None:
            environment["PGPASSWORD"] = str(password)
        return driver().conninfo.make_conninfo(**known), environment

    def is_usable(self) -> bool:
        try:
            with connected(self.dsn) as connection:
                connection.execute("select 1")
        except Exception:  # whatever it is, this database takes no further run
            return False
        return True

    def close(self) -> str | None:
        """What is to be said where something of ours is left behind."""
        raise NotImplementedError


class OwnServer(Home):
    """An embedded server in a directory of the volume. It dies with the thread that started it, which waits here."""

    def __init__(self, spec: PgbenchSpec) -> None:
        self._spec, self._ready, self._leave = spec, threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self.server: Server | None = None
        self._thread = threading.Thread(target=self._hold, name="postgres", daemon=True)
        self._thread.start()
        self._ready.wait(WAIT_S)
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        if self.server is None:
            raise BadInputError(f"{spec.target}: PostgreSQL was not ready within {WAIT_S:.0f} s; see the host's load")
        pgbench = self.server.programs.path("pgbench")
        shown = str(Path(spec.target).resolve())
        super().__init__(self.server.dsn, pgbench, shown, str(self.server.data), self.server.programs.origin)
        self.notes += self.server.notes

    def _hold(self) -> None:
        try:
            with ephemeral_postgres(
                Path(self._spec.target),
                settings=self._spec.own,
                programs=_directory(self._spec.server),
                checksums=self._spec.checksums,
            ) as server:
                self.server = server
                self._ready.set()
                self._leave.wait()
        except BaseException as error:  # told to whoever waits
            self._failure = error
        finally:
            self._ready.set()

    def close(self) -> str | None:
        self._leave.set()
        self._thread.join()
        return None


class OwnDatabase(Home):
    """A database of our own in a running server."""

    def __init__(self, spec: PgbenchSpec) -> None:
        self._maintenance = spec.target
        self.name = PREFIX + secrets.token_hex(6)
        psycopg = driver()
        if "sslpassword" in psycopg.conninfo.conninfo_to_dict(spec.target):
            # libpq takes it from no environment, and pgbench's command line is for everybody to read.
            raise BadInputError(
                f"{spoken(spec.target)}: sslpassword would stand in the list of processes; use a key without a"
                " passphrase, or a service file (PGSERVICEFILE) that has it"
            )
        with connected(spec.target) as connection:
            place = _volume(connection)
            _check_rights(connection, spec.target)
            for name in spec.own:
                _check_setting(connection, name, spec.target)
            if place:
                check_room(spec, Path(place))
            else:
                check_unseen_room(spec, spoken(spec.target))
            sql = psycopg.sql
            left = _left_behind(connection)
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(self.name)))
            self._is_marked = False
            try:
                connection.execute(sql.SQL("comment on database {} is {}").format(sql.Identifier(self.name), MARK))
                self._is_marked = True
                for name, value in spec.own.items():
                    words = sql.SQL("alter database {} set {} = {}")
                    connection.execute(words.format(sql.Identifier(self.name), sql.Identifier(name), value))
            except BaseException:
                self.close()
                raise
        known = psycopg.conninfo.conninfo_to_dict(spec.target)
        dsn = psycopg.conninfo.make_conninfo(**{**known, "dbname": self.name})
        programs = find_programs()
        super().__init__(dsn, programs.path("pgbench"), spoken(spec.target), place, "a running server")
        if left:
            drops = "; ".join(f"drop database {name}" for name in left)
            self.notes.append(f"{self.shown}: databases of runs that were killed are still there: {drops}")

    def close(self) -> str | None:
        """Drops the database if it bears our mark; a server that is gone keeps it."""
        sql = driver().sql
        try:
            with connected(self._maintenance) as connection:
                query = "select shobj_description(oid, 'pg_database') from pg_database where datname = %s"
                row = connection.execute(query, (self.name,)).fetchone()
                if row is not None and row[0] == (MARK if self._is_marked else None):
                    dropped = sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(self.name))
                    connection.execute(dropped)
                    return None
                return None if row is None else f"database {self.name} bears no mark of ours any more, and stays"
        except Exception as error:  # a server that is gone, or refuses: nothing more can be done from here
            return f"database {self.name} could not be dropped: {one_line(error)}"


class Homes:
    """The database of the set of runs under way: runs that agree in everything but their clients share one."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._key: object = None
        self._home: Home | None = None
        self._ending = ExitStack()

    def __enter__(self) -> Homes:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def take(self, spec: PgbenchSpec) -> Home:
        if self._home is not None and (self._key != spec.set_key() or not self._home.is_usable()):
            self.close()
        if self._home is None:
            home = _new(spec)
            try:
                _refuse_overruled(home, spec.own)
            except BaseException:
                home.close()
                raise
            self._home = home
            self._key = spec.set_key()
            for note in self._home.notes:
                self._say(note)
        return self._home

    def close(self) -> None:
        home, self._home = self._home, None
        if home is not None and (left := home.close()):
            self._say(left)


def _new(spec: PgbenchSpec) -> Home:
    if spec.is_dsn:
        return OwnDatabase(spec)
    place = Path(spec.target or DEFAULT_PLACE)
    if not place.is_dir():
        raise BadInputError(f"{place}: no such directory; name one on the volume to measure, or a DSN")
    programs = find_programs(_directory(spec.server))
    if not os.access(programs.path("pgbench"), os.X_OK):
        raise BadInputError(
            f"{programs.directory}: no pgbench here; apt-get install postgresql-contrib or name another"
        )
    check_room(spec, place)
    return OwnServer(spec)


def _directory(server: str) -> Path | None:
    """Where the server's programs are; None is the wheel, or what is found in its place."""
    if server == "wheel":
        return None
    if server == "debian":
        found = [path for path in DEBIAN.glob("*/bin") if path.parent.name.isdigit()]
        if not found:
            raise BadInputError("--set server=debian: no PostgreSQL in /usr/lib/postgresql; apt-get install postgresql")
        return max(found, key=lambda path: int(path.parent.name))
    return Path(server)


def _left_behind(connection: Any) -> list[str]:
    """Databases with our mark in which nobody works."""
    rows = connection.execute(
        "select datname from pg_database where shobj_description(oid, 'pg_database') = %s"
        " and not exists (select from pg_stat_activity where pg_stat_activity.datname = pg_database.datname)"
        " order by datname",
        (MARK,),
    )
    return [name for (name,) in rows.fetchall()]


def _volume(connection: Any) -> str | None:
    """Where the server's data lie, if it runs here: by its own word, or by where our session's process works."""
    address, directory, pid = connection.execute(
        "select host(inet_server_addr()), (select setting from pg_settings where name = 'data_directory'),"
        " pg_backend_pid()"
    ).fetchone()
    return local_volume(directory or _works_in(pid), address)


def _works_in(pid: int) -> str | None:
    """The data directory of a backend on this host: an account without further rights may not ask the server for it."""
    process = Path(f"/proc/{pid}")
    try:
        if not (process / "comm").read_text().startswith("postgres"):
            return None
        place = (process / "cwd").readlink()
    except OSError:
        return None
    return str(place) if (place / "PG_VERSION").is_file() else None


def _check_rights(connection: Any, dsn: str) -> None:
    """Without these rights nothing could be measured as described, so nothing is begun."""
    row = connection.execute(
        "select rolcreatedb or rolsuper, rolsuper or coalesce((select pg_has_role(current_user, oid, 'usage')"
        " from pg_roles where rolname = 'pg_checkpoint'), false), current_user"
        " from pg_roles where rolname = current_user"
    ).fetchone()
    may_create, may_checkpoint, user = row if row else (False, False, "?")
    lacking = [] if may_create else [f"alter role {user} createdb"]
    lacking += [] if may_checkpoint else [f"grant pg_checkpoint to {user}"]
    if lacking:
        raise BadInputError(
            f"{spoken(dsn)}: the account {one_line(user)} may not make a database or a checkpoint; as a superuser:"
            f" {'; '.join(lacking)}"
        )


def _refuse_overruled(home: Home, own: Mapping[str, str]) -> None:
    """What a session asks for at its beginning goes before the settings of its database and its server."""
    names = sorted({name.lower() for name in own} - set(OF_CONNECTIONS))
    query = "select name from pg_settings where source = 'client' and lower(name) = any(%s) order by name"
    if not names:
        return
    with connected(home.dsn) as connection:
        overruled = [name for (name,) in connection.execute(query, (names,)).fetchall()]
    if overruled:
        raise BadInputError(
            f"pg.{overruled[0]}: PGOPTIONS, or `options` of the DSN, sets it as well and would prevail; leave it out"
            " there, or here"
        )


def _check_setting(connection: Any, name: str, dsn: str) -> None:
    row = connection.execute("select context from pg_settings where name = %s", (name,)).fetchone()
    if row is None:
        raise BadInputError(f"pg.{name}: {spoken(dsn)} has no such setting")
    if row[0] not in ("user", "superuser"):
        raise BadInputError(
            f"pg.{name}: belongs to the whole server, and {spoken(dsn)} is not ours; set it there, or measure a"
            " directory, in which a server of our own is made"
        )

"""Duty: PostgreSQL under a load of transfers, and what is left of it after a power cut.

Each transaction moves an amount between two accounts and adds a numbered row, so that no number is ever missing, and
the rows that are there say what each balance is.

Refusal: a warning of the server is no finding; only ERROR, FATAL and PANIC are.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from brickyard import outputs
from brickyard.databases.ephemeral import USER, Server, ephemeral_postgres
from brickyard.databases.programs import find_programs, helper_account
from brickyard.errors import BrickyardError, one_line
from brickyard.lab.checks import Began, Corrupt, Lost, NotJudged, Stage, beneath, no_links
from brickyard.lab.ledger import Ledger, Owed
from brickyard.lab.orders import CHECKSUMS, Missing, Recording, Setup, State

ACCOUNTS = 20_000  # as in TABLES: 350 pages, so that most are changed for the first time since a checkpoint
CHECKPOINT_EVERY_S = 1.0
READY_S, STATEMENT_S, STOP_S, POLL_S = 30.0, 20.0, 10.0, 0.01
ANYTHING = re.compile(rb"")
FAULT = re.compile(r"\b(ERROR|FATAL|PANIC):  (.*)")
KILLED = re.compile(r"was terminated by signal 9\b")
SHORT = "the server was killed, as the kernel does where memory is short; use fewer --workers"
QUIET = {"shared_buffers": "32MB", "max_wal_size": "1GB", "autovacuum": "off"}
TABLES = """
create extension amcheck;
create table account (id int primary key, balance bigint not null, filler text not null);
insert into account select n, 0, repeat('x', 100) from generate_series(1, 20000) n;
create table promise (client int, number int, primary key (client, number));
checkpoint;
"""
HEAPS = """
select c.oid::regclass || ': ' || found.msg
from pg_class c join pg_am a on a.oid = c.relam, lateral verify_heapam(c.oid) found
where c.relkind in ('r', 't', 'm') and c.relpersistence = 'p' and a.amname = 'heap'
"""
"""What is wrong in tables, those of the catalog and of long values among them."""
INDEXES = """
select count(bt_index_check(c.oid, c.relnamespace = 'public'::regnamespace))
from pg_class c join pg_am a on a.oid = c.relam join pg_index i on i.indexrelid = c.oid
where a.amname = 'btree' and c.relkind = 'i' and c.relpersistence = 'p' and i.indisready and i.indisvalid
"""
"""Fails at the first index that is damaged. Those of the workload must also lead to each row."""
BALANCES = "select count(*), min(id), max(id), string_agg(balance::text, ',' order by id) from account"
# The state is only read, so that nothing of it has to be durable, and nobody else wants the server.
READING = {
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "huge_pages": "off",
    "io_method": "sync",
    "listen_addresses": "",
    "log_destination": "stderr",
    "log_min_messages": "error",
    "logging_collector": "off",
    "max_parallel_workers": "0",
    "max_replication_slots": "0",
    "max_wal_senders": "0",
    "restart_after_crash": "off",
    "shared_buffers": "32MB",
    "statement_timeout": f"{STATEMENT_S:.0f}s",
}


class PostgresLoad:
    """Clients that transfer, and a checkpoint every second."""

    def run(self, stage: Stage, setup: Setup, ledger: Ledger, began: Began) -> tuple[str, str]:
        settings = {**QUIET, **setup.settings}
        checksums = settings.pop(CHECKSUMS, "default")
        with ephemeral_postgres(stage.mount, settings=settings, checksums=checksums) as server:
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                connection.execute(TABLES)
            began()
            stop, failed = threading.Event(), ServerFailures()
            names = [(_transfers, n) for n in range(setup.clients)] + [(_checkpoints, 0)]
            threads = [threading.Thread(target=failed.guard, args=(work, server, ledger, stop, n)) for work, n in names]
            for thread in threads:
                thread.start()
            stop.wait(setup.load_s)
            stop.set()
            for thread in threads:
                thread.join()
            failed.raise_first()
            return str(server.data.relative_to(stage.mount)), f"PostgreSQL {server.version}"


class ServerFailures:
    """What went wrong in threads."""

    def __init__(self) -> None:
        self._first: BaseException | None = None

    def guard(self, work: object, *given: object) -> None:
        try:
            work(*given)  # type: ignore[operator]
        except Exception as error:
            self._first = self._first or error

    def raise_first(self) -> None:
        if self._first is not None:
            raise BrickyardError(f"the load failed: {one_line(self._first)}") from self._first


def transfers(client: int) -> Iterator[tuple[int, int, int]]:
    """What a client moves: from an account, to another, how much; the same for whoever checks it."""
    draw = random.Random(client)  # noqa: S311 - accounts, not secrets
    while True:
        # In one order, so that no two wait for each other.
        first, second = sorted(draw.sample(range(1, ACCOUNTS + 1), 2))
        yield first, second, draw.randint(1, 100)


def _transfers(server: Server, ledger: Ledger, stop: threading.Event, client: int) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for number, (first, second, amount) in enumerate(transfers(client), start=1):
            if stop.is_set():
                return
            with connection.pipeline(), connection.transaction():
                change = "update account set balance = balance + %s where id = %s"
                connection.execute(change, (-amount, first))
                connection.execute(change, (amount, second))
                connection.execute("insert into promise values (%s, %s)", (client, number))
            ledger.acknowledged(client, number)


def _checkpoints(server: Server, ledger: Ledger, stop: threading.Event, _: int) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        while not stop.wait(CHECKPOINT_EVERY_S):
            with ledger.stretch():
                connection.execute("checkpoint")


class Transfers:
    """Those that clients make, each drawn once however many states are checked."""

    def __init__(self) -> None:
        self._drawn: dict[int, tuple[Iterator[tuple[int, int, int]], list[tuple[int, int, int]]]] = {}

    def balances(self, made: dict[int, int]) -> list[int]:
        """Of all accounts, after so many transfers of each client."""
        found = [0] * (ACCOUNTS + 1)
        for client, count in made.items():
            source, drawn = self._drawn.setdefault(client, (transfers(client), []))
            drawn += itertools.islice(source, max(0, count - len(drawn)))
            for first, second, amount in itertools.islice(drawn, count):
                found[first] -= amount
                found[second] += amount
        return found[1:]


class PostgresCheck:
    """Starts the server on a state, lets it recover, and asks it."""

    def __init__(self, recording: Recording) -> None:
        self._data = recording.data
        self._owed = Owed(recording.promises)
        self._transfers = Transfers()
        self._programs, self._account = find_programs(), helper_account()

    def __call__(self, stage: Stage, recording: Recording, state: State) -> None:
        data = beneath(stage.mount, self._data)
        if not (data / "PG_VERSION").is_file():
            raise Corrupt("the data directory is gone")
        no_links(data)
        # Of a server that was running when the power failed; no process of that number is its own now.
        outputs.remove_ours(data / "postmaster.pid", ANYTHING)
        with self._server(data, stage.room) as log:
            try:
                self._ask(stage.room, self._owed.at(state.cut))
            except psycopg.Error as error:
                refuse_killed(log)
                raise Corrupt(one_line(error)) from error
            if found := FAULT.search(log.read_text("utf-8", "replace")):
                raise Corrupt(one_line(found.group()))

    def _ask(self, room: Path, owed: dict[int, int]) -> None:
        dsn = make_conninfo(host=str(room), user=USER, dbname="postgres", connect_timeout=10)
        with psycopg.connect(dsn, autocommit=True) as connection:
            rows = connection.execute("select client, count(*), max(number) from promise group by client").fetchall()
            damage = connection.execute(HEAPS).fetchone()
            if damage:
                raise Corrupt(f"amcheck: {one_line(damage[0])}")
            connection.execute(INDEXES)
            accounts = connection.execute(BALANCES).fetchone()
        found = {client: (count, last) for client, count, last in rows}
        for client, number in owed.items():
            count, last = found.get(client, (0, 0))
            if last < number:
                told = f"client {client} was told that {number} is durable; {last} is the last"
                raise Lost(told, Missing(client, last + 1))
        for client, (count, last) in found.items():
            if count != last:
                raise Corrupt(f"client {client} has {count} rows up to number {last}")
        count, first, last, told = accounts or (0, 0, 0, "")
        if (count, first, last) != (ACCOUNTS, 1, ACCOUNTS):
            raise Corrupt(f"{count} accounts from {first} to {last}; there were {ACCOUNTS} from 1")
        self._compare(told, self._transfers.balances({client: last for client, (_, last) in found.items()}))

    def _compare(self, told: str, right: list[int]) -> None:
        if told == ",".join(map(str, right)):
            return
        for number, (balance, wanted) in enumerate(zip(told.split(","), right, strict=True), start=1):
            if balance != str(wanted):
                raise Corrupt(
                    f"account {number} has a balance of {balance}; the transfers that are there give {wanted}"
                )

    @contextmanager
    def _server(self, data: Path, room: Path) -> Iterator[Path]:
        log = room / "server.log"
        outputs.remove_ours(log, ANYTHING)
        sink = outputs.open_journal(log, ANYTHING, b"")
        words = ["setpriv", "--pdeathsig", "KILL"]
        if self._account is not None:
            words += ["--reuid", str(self._account.uid), "--regid", str(self._account.gid), "--clear-groups"]
            os.chown(room, self._account.uid, self._account.gid)
        words += [str(self._programs.path("postgres")), "-D", str(data)]
        for name, value in {**READING, "unix_socket_directories": str(room), "port": "5432"}.items():
            words += ["-c", f"{name}={value}"]
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd=room, env={"LC_ALL": "C", "TZ": "UTC"}
            )
        finally:
            os.close(sink)
        try:
            _wait_until_ready(process, data, log)
            yield log
        finally:
            _end(process)


def _wait_until_ready(process: subprocess.Popen[bytes], data: Path, log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        with suppress(OSError):
            lines = (data / "postmaster.pid").read_text("utf-8", "replace").splitlines()
            if len(lines) > 7 and lines[0] == str(process.pid) and lines[7].strip() == "ready":
                return
        if process.poll() is not None:
            if process.returncode == -signal.SIGKILL:
                raise NotJudged(SHORT)
            refuse_killed(log)
            found = FAULT.search(log.read_text("utf-8", "replace"))
            raise Corrupt(f"the server does not start: {one_line(found.group() if found else 'it gives no reason')}")
        if time.monotonic() > deadline:
            raise NotJudged(f"the server was not ready within {READY_S:.0f} s")
        time.sleep(POLL_S)


def refuse_killed(log: Path) -> None:
    if KILLED.search(log.read_text("utf-8", "replace")):
        raise NotJudged(SHORT)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGQUIT, signal.SIGKILL):
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
            return

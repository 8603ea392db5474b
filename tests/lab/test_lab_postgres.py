"""What the check of PostgreSQL must find in a server that answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from brickyard.databases.ephemeral import Server, ephemeral_postgres
from brickyard.lab import postgres as lab
from brickyard.lab.checks import Corrupt, Lost
from brickyard.lab.orders import Promise, Recording, Setup, Story

MADE = 3


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with ephemeral_postgres(settings={**lab.QUIET, "fsync": "off"}) as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(lab.TABLES)
        yield server


@pytest.fixture
def connection(server: Server) -> Iterator[psycopg.Connection]:
    """With three transfers of one client."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("update account set balance = 0 where balance <> 0")
        connection.execute("delete from promise")
        for number, (first, second, amount) in enumerate(itertools.islice(lab.transfers(0), MADE), start=1):
            connection.execute("update account set balance = balance - %s where id = %s", (amount, first))
            connection.execute("update account set balance = balance + %s where id = %s", (amount, second))
            connection.execute("insert into promise values (0, %s)", (number,))
        yield connection


def asked(server: Server, owed: int = MADE) -> None:
    recording = Recording(Setup(), Story(), [Promise(1, 0, MADE)])
    lab.PostgresCheck(recording)._ask(Path(server.host), {0: owed})


@pytest.mark.usefixtures("connection")
def test_rows_and_the_balances_that_they_give_are_right(server: Server) -> None:
    asked(server)
    asked(server, 1)  # more may be there than was promised
    with pytest.raises(Lost):
        asked(server, MADE + 1)


@pytest.mark.parametrize(
    "damage",
    [
        "update account set balance = 0",
        "update account set balance = balance + case id when 7 then 5 else -5 end where id in (7, 8)",
        "delete from promise where number = 3",
        "update account set id = 20001 where id = 7",
    ],
    ids=["all undone", "two wrong", "a row less", "another account"],
)
def test_balances_that_the_rows_do_not_give_are_damage(
    server: Server, connection: psycopg.Connection, damage: str
) -> None:
    connection.execute(damage)
    try:
        with pytest.raises(Corrupt, match="account"):
            asked(server, 1)
    finally:
        connection.execute("update account set id = 7 where id = 20001")


def test_damage_is_found_in_tables_of_the_catalog_too(server: Server, connection: psycopg.Connection) -> None:
    """Its newest row is from before the horizon that is noted for it."""
    connection.execute("comment on table account is 'anything'")
    frozen = connection.execute("select relfrozenxid::text from pg_class where relname = 'pg_description'").fetchone()
    assert frozen
    later = "update pg_class set relfrozenxid = %s::xid where relname = 'pg_description'"
    newest = connection.execute("select (pg_current_xact_id()::text::bigint % 4294967296)::text").fetchone()
    assert newest
    connection.execute(later, newest)
    try:
        with pytest.raises(Corrupt, match="pg_description"):
            asked(server)
    finally:
        connection.execute(later, frozen)
    asked(server)


FICKLE = """
create function up(int, int) returns int immutable language sql as
    'select case when $1 < $2 then -1 when $1 > $2 then 1 else 0 end';
create function down(int, int) returns int immutable language sql as
    'select case when $1 < $2 then 1 when $1 > $2 then -1 else 0 end';
create operator class fickle for type int using btree as
    operator 1 < (int, int), operator 2 <= (int, int), operator 3 = (int, int), operator 4 >= (int, int),
    operator 5 > (int, int), function 1 up(int, int);
create table fickle as select n from generate_series(1, 1000) n;
create index fickle_index on fickle (n fickle);
"""


def test_damage_is_found_in_any_index(server: Server, connection: psycopg.Connection) -> None:
    """Its order is another one than what its values are compared by."""
    connection.execute(FICKLE)
    turned = "update pg_amproc set amproc = 'down'::regproc where amproc = 'up'::regproc"
    try:
        asked(server)
        connection.execute(turned)
        with pytest.raises(psycopg.Error, match="fickle_index"):
            asked(server)
    finally:
        connection.execute("drop table fickle; drop operator family fickle using btree; drop function up, down")

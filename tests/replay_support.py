"""What tests of replays share: a shop with its log and mapping, a replay by the command line, and a record of one."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

import support
from brickyard.analysis.databases import replay_runs
from brickyard.cli import main
from brickyard.store import Json, Record, Store

MAPPING = """
title = "A shop"
[[call]]
page = "item"
path = "/item"
sql = "select id, name from item where id = :id"
expect_rows = 1
parameters.id = { type = "int4" }
[[call]]
page = "search"
path = "/search/{word}"
sql = "select id from item where name like :word || '%' order by id limit 5"
parameters.word = { from = "path", type = "text" }
[[call]]
page = "sleep"
path = "/sleep"
sql = "select pg_sleep(:s)"
parameters.s = { type = "float8" }
"""


def execute(dsn: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


def fill(dsn: str) -> None:
    execute(dsn, "create table item (id int primary key, name text)")
    execute(dsn, "insert into item select n, 'name' || n from generate_series(1, 100) n")


def w3c(requests: Sequence[tuple[float, str]], clients: int = 7) -> str:
    """A log as IIS writes it: (second, target)."""
    lines = ["#Fields: date time c-ip cs-method cs-uri-stem cs-uri-query sc-status"]
    for number, (at_s, target) in enumerate(requests):
        stem, _, query = target.partition("?")
        clock = time.strftime("%H:%M:%S", time.gmtime(at_s)) + f"{at_s % 1:.6f}"[1:]
        lines.append(f"2003-06-02 {clock} 10.0.0.{number % clients} GET {stem} {query or '-'} 200")
    return "\n".join(lines) + "\n"


def items(count: int, over_s: float) -> list[tuple[float, str]]:
    chosen = random.Random(1)
    return [(36_000 + n * over_s / count, f"/item?id={chosen.randint(1, 100)}") for n in range(count)]


def replayed(
    capsys: pytest.CaptureFixture[str], *arguments: str | Path, store: Path, code: int = 0
) -> tuple[Json, list[Json]]:
    """The whole document, and the ends of the drivers of the first run."""
    got = main(["replay", *map(str, arguments), "--store", str(store), "--json"])
    out, err = capsys.readouterr()
    assert got == code, err + out[:2000]
    document: Json = json.loads(out)
    with Store(store, must_exist=True) as kept:
        return document, msgspec.to_builtins(replay_runs.ends(kept.record(document["runs"][0]["run"])))


def measured(place: Path) -> None:
    """Waits until the run in a store has told its first interval: it is under way."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with suppress(Exception), Store(place, must_exist=True) as kept:
            if kept.runs() and kept.record(1).intervals:
                return
        time.sleep(0.2)
    raise AssertionError("nothing was measured within 60 s")


def pages(document: Json, pace: str) -> dict[str, Json]:
    return {page["page"]: page for page in document["replay"]["paces"][pace]["pages"]}


def command_lines() -> Iterator[tuple[int, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with suppress(OSError):
                yield int(entry.name), (entry / "cmdline").read_bytes()


def replay_record(
    store: Store,
    pace: Json,
    calls: int,
    length_s: float,
    reason: str = "end of log",
    logs: Json | None = None,
    *,
    errors: int = 0,
    away_ns: int = 0,
    diverged: int = 0,
    unsent: int = 0,
) -> Record:
    """A run of one page that was as fast as said."""
    length_ns = int(length_s * 1e9)
    plan = {**support.plan(duration=f"{length_ns}ns"), "kind": "replay", "replay": {"pace": pace}}
    told = driver_end(logs={"requests": calls, "calls": calls, **(logs or {})}, away_ns=[away_ns])
    cell = support.cell([1_000_000] * calls if calls else [1], operation="call", errors=errors)
    if not calls:
        cell |= {"requests": 0, "bytes": 0, "measures": {}}
    rows = [{"stream": 0, "rows": calls, "diverged": diverged}]
    drivers = {"drivers": [told], "by_stream": rows}
    end = support.phase_end(end_ns=length_ns, reason=reason, unsent=unsent, replay=drivers)
    return store.record(support.add_run(store, [support.interval(0, length_ns, cell), end], plan_=plan))


def parent_of(pid: int) -> int | None:
    with suppress(OSError, AttributeError):
        found = re.search(r"PPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) if found else None
    return None


def lag(p99_ns: int) -> Json:
    return {"mean_ns": p99_ns / 2, "p50_ns": p99_ns // 2, "p99_ns": p99_ns, "max_ns": p99_ns, "histogram": ""}


def driver_end(**changes: Any) -> Json:
    """What a driver without trouble reports at its end."""
    return {
        "driver": 0,
        "calls": 97,
        "errors": 0,
        "bytes": 0,
        "rows": 0,
        "queued": 0,
        "unsent_by_brick": [0],
        "away_ns": [0],
        "served_ns": [10**15],
        "any_served_ns": 10**15,
        "cpu_busy_share": 0.1,
        "driver_lag": lag(200_000),
        "keeps_pace": True,
        "starved_share": 0.0,
        "lost_connections": [0],
        "reconnects": [0],
        "diverged": 0,
        "diverged_pages": {},
        "logs": {"requests": 100, "calls": 97},
        "slowest_calls": [],
        **changes,
    }

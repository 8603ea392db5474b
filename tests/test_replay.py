"""Replays against a real PostgreSQL: what is counted is what was asked, and a bad day is told as one."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

import support
from brickyard import _core
from brickyard.analysis import replay_disks, replay_head_room, replay_pages, replay_runs, replay_warnings
from brickyard.analysis.load_curve import Limit
from brickyard.analysis.totals import asked_targets
from brickyard.cli import main
from brickyard.databases.connect import refuse_second_at, split_dsns, spoken
from brickyard.databases.ephemeral import Server, ephemeral_postgres
from brickyard.errors import BadInputError
from brickyard.schema import LinkFacts
from brickyard.store import Json, Record, Store
from brickyard.study.replay import link_to
from brickyard.study.replay_series import why_failed
from support import events_of

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


def test_every_format_becomes_the_same_calls(
    shop: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "a.log", tmp_path / "b.log.gz"
    first.write_text(w3c([(36_000 + n, f"/Item?ID={n + 1}") for n in range(30)] + [(36_030, "/logo.gif")]))
    second.write_bytes(
        gzip.compress(
            b"".join(
                b'h - - [02/Jun/2003:10:00:%02d +0000] "GET /search/name%d HTTP/1.1" 200 5 "-" "x"\n' % (n, n)
                for n in range(20)
            )
        )
    )
    third = tmp_path / "c.json"
    recorded = [', "rows": 0' if n < 4 else "" for n in range(10)]  # four of them brought nothing when recorded, too
    third.write_text(
        "".join(f'{{"time": {1_054_548_000 + n}.5, "path": "/item?id=1000"{recorded[n]}}}\n' for n in range(10))
    )
    document, ends = replayed(
        capsys, first, second, third, "--map", mapping, "--to", shop, "--pace", "fire-hose", store=tmp_path / "s.db"
    )
    found = pages(document, "fire hose")
    assert {name: page["calls"] for name, page in found.items()} == {"item": 40, "search": 20, "sleep": 0, "all": 60}
    # 30 items that are there, 10 that are not; of the names that begin with name1 there are more than the limit of 5.
    assert found["item"]["rows"] == 30
    assert found["item"]["diverged"] == 6
    asked = [execute(shop, f"select count(*) from item where name like 'name{n}%'")[0][0] for n in range(20)]
    assert found["search"]["rows"] == sum(min(count, 5) for count in asked)
    assert found["all"]["errors"] == 0
    assert found["item"]["bytes"] > 30 * 5
    logs = ends[0]["logs"]
    assert (logs["requests"], logs["calls"], logs["unmatched_paths"][0]["path"]) == (61, 60, "/logo.gif")
    assert any(w["id"] == "divergence" for w in document["runs"][0]["warnings"])


def test_time_synchronized_keeps_the_logs_times_at_any_speed(
    shop: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, place = tmp_path / "a.log", tmp_path / "s.db"
    log.write_text(w3c(items(400, 4.0)))
    common: list[str | Path] = [log, "--map", mapping, "--to", shop]
    document, _ = replayed(capsys, *common, "--pace", "4x", store=place)
    run = document["runs"][0]
    # The last request of the log is due 3.99 s after the first, at four times the speed after one.
    assert run["end_ns"] > 0.97e9
    assert pages(document, "time synchronized at 4x")["item"]["calls"] == 400
    with Store(place, must_exist=True) as kept:
        lateness = [i for i in kept.record(run["run"]).intervals if i.measure == "lateness"]
    assert sum(i.requests for i in lateness) == 400
    # Within 0.6 s of a run twice as fast 1.2 s of the log are due: 120 requests, one each 10 ms.
    document, _ = replayed(capsys, *common, "--speed", "2", "--duration", "0.6s", store=place)
    sent = pages(document, "time synchronized at 2")["item"]["calls"]
    with Store(place, must_exist=True) as kept:
        (driver,) = replay_runs.ends(kept.record(document["runs"][0]["run"]))
    assert sent + driver.unsent_by_brick[0] == 120


def test_a_fire_hose_keeps_to_its_sessions_and_rates_to_their_rate(
    shop: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, place = tmp_path / "a.log", tmp_path / "s.db"
    log.write_text(w3c([(36_000 + n / 10, "/sleep?s=0.02") for n in range(40)]))
    common: list[str | Path] = [log, "--map", mapping, "--to", shop]
    document, _ = replayed(capsys, *common, "--pace", "fire-hose", "--sessions", "4", store=place)
    row = next(r for r in document["runs"][0]["totals"] if r["stream"] == "sleep")
    assert row["depth_max"] == 4
    # 40 calls of 20 ms, 4 at a time
    assert document["runs"][0]["end_ns"] >= 10 * 20_000_000
    arguments = ["--pace", "fixed:20,50,300", "--again", "--duration", "1s", "--limit", "p99:5s"]
    document, _ = replayed(capsys, *common, "--sessions", "4", *arguments, store=place)
    with Store(place, must_exist=True) as kept:
        points = replay_head_room.offered_points([kept.record(run["run"]) for run in document["runs"]])
    assert [point.requests + point.unsent for point in points] == [20, 50, 300]
    # Four sessions of 20 ms carry 200 calls a second: at 300 the queue grows until the end.
    assert points[2].overloaded
    assert points[2].unsent > 50
    assert document["replay"]["limit"]["broken_at_per_s"] is not None


def test_drivers_with_calls_send_the_part_of_those_without(
    shop: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One client's calls are all one driver's."""
    log, place = tmp_path / "a.log", tmp_path / "s.db"
    log.write_text(w3c(items(60, 1.5), clients=1))
    words: list[str | Path] = [log, "--map", mapping, "--to", shop, "--pace", "fixed:60", "--again"]
    words += ["--duration", "2s", "--drivers", "3"]
    document, ends = replayed(capsys, *words, "--check", store=place)
    assert sorted(end["calls"] + sum(end["unsent_by_brick"]) for end in ends) == [0, 0, 120]
    assert not [item for item in document["runs"][0]["warnings"] if item["id"] == "rate_unoffered"]


def test_a_rate_is_shared_by_the_calls_of_each_log(
    shop: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logs of 20 and of 80 calls at 50/s end together, after 2 s."""
    small, large = tmp_path / "a.log", tmp_path / "b.log"
    small.write_text(w3c(items(20, 1.0)))
    large.write_text(w3c(items(80, 1.0)))
    words: list[str | Path] = [small, large, "--map", mapping, "--to", shop, "--pace", "fixed:50", "--drivers", "2"]
    document, ends = replayed(capsys, *words, "--check", store=tmp_path / "s.db")
    assert [end["calls"] for end in ends] == [20, 80]
    with Store(tmp_path / "s.db", must_exist=True) as kept:
        assert kept.record(document["runs"][0]["run"]).info.options["rate_parts"] == [0.2, 0.8]
    assert 1.9e9 < document["runs"][0]["end_ns"] < 2.6e9, "in equal parts the larger would need 3.2 s"


def test_both_paces_give_the_head_room_of_the_study(
    shop: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, place = tmp_path / "a.log", tmp_path / "s.db"
    log.write_text(w3c(items(60, 1.5)))
    arguments: list[str | Path] = [log, "--map", mapping, "--to", shop, "--pace", "both", "--repeat", "2"]
    document, _ = replayed(capsys, *arguments, store=place)
    room = document["replay"]["head_room"]
    assert room["factor"] == pytest.approx(room["fire_hose_per_s"] / room["normal_per_s"])
    assert (room["of"], room["is_judged"]) == ("log", False)
    assert room["normal_per_s"] < 60 < room["fire_hose_per_s"]
    runs = [run["run"] for run in document["runs"]]
    assert len(runs) == 4
    with Store(place, must_exist=True) as kept:
        records = [kept.record(run) for run in runs]
    item = replay_pages.pages(replay_runs.by_pace(records)["fire hose"])[0]
    maxima = [max(i.max_ns for i in r.intervals if i.measure == "response") for r in records[:2]]
    assert item.mean_of_max_ns == pytest.approx(sum(maxima) / 2)
    for verb in (["show", str(runs[0])], ["runs"], ["export", str(runs[0]), "-o", str(tmp_path / "x.csv")]):
        assert main([*verb, "--store", str(place)]) == 0
    out = capsys.readouterr().out
    assert "response time by page" in out
    assert main(["show", str(runs[-1]), "--store", str(place)]) == 0
    assert re.search(r"sent after due instant +60 .*\n.*of it driver lag +60 ", capsys.readouterr().out)
    late = document["replay"]["paces"]["time synchronized"]["late"]
    assert 0 < late["driver_lag"]["p50_ns"] <= late["lateness"]["p50_ns"] <= late["lateness"]["max_ns"]
    page = tmp_path / "report.html"
    assert main(["report", "--store", str(place), "-o", str(page), *map(str, runs)]) == 0
    text = page.read_text()
    assert "Headroom: too short to judge" in text
    assert "driver" in text
    assert text.count("<svg") >= 2


def test_several_drivers_are_processes_and_lose_no_call(
    shop: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = items(300, 3.0)
    one = tmp_path / "one.log"
    one.write_text(w3c(whole, clients=50))
    four = [tmp_path / f"{n}.log" for n in range(4)]
    for number, log in enumerate(four):
        log.write_text(w3c(whole[number::4]))
    for logs in ([one], four):
        document, ends = replayed(
            capsys, *logs, "--map", mapping, "--to", shop, "--drivers", "4", "--pace", "fire-hose", "--sessions", "3",
            store=tmp_path / "s.db",
        )  # fmt: skip
        assert [end["driver"] for end in ends] == [0, 1, 2, 3]
        assert sum(end["calls"] for end in ends) == 300
        assert all(end["calls"] > 20 for end in ends)
        assert pages(document, "fire hose")["item"]["calls"] == 300
        assert sum(end["logs"]["lines"] for end in ends) == 300 + len(logs)
        histogram = document["runs"][0]["totals"][0]["measures"]["service"]["histogram"]
        assert _core.Histogram(histogram).count == 300


def test_a_slow_server_shows_its_queue_in_the_response_time(
    shop: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """20 calls are due at once; one session takes 50 ms for each: the last response is 20 services long."""
    log = tmp_path / "a.log"
    log.write_text(w3c([(36_000.0, "/sleep?s=0.05")] * 20))
    document, ends = replayed(
        capsys, log, "--map", mapping, "--to", shop, "--pace", "time-synchronized", "--sessions", "1",
        store=tmp_path / "s.db",
    )  # fmt: skip
    row = next(r for r in document["runs"][0]["totals"] if r["stream"] == "sleep")["measures"]
    assert row["response"]["max_ns"] >= 20 * 50_000_000
    assert row["service"]["max_ns"] < row["response"]["max_ns"] / 4
    assert ends[0]["queued"] >= 18
    # The queue is the server's; it is not counted as the driver's own lag.
    assert row["driver_lag"]["mean_ns"] < row["lateness"]["mean_ns"] / 5


def test_sessions_keep_their_order_where_asked(shop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    execute(shop, "create table seen (at bigserial, client int, n int, busy boolean)")
    execute(
        shop,
        """create function visit(c int, k int) returns void language plpgsql as $$
        begin
          insert into seen (client, n, busy) values (c, k, not pg_try_advisory_lock(c));
          perform pg_sleep(0.003); perform pg_advisory_unlock(c);
        end $$""",
    )
    mapping = tmp_path / "m.toml"
    mapping.write_text(
        '[[call]]\npage = "visit"\npath = "/v"\nsql = "select visit(:c, :n)"\n'
        'parameters.c = { type = "int4" }\nparameters.n = { type = "int4" }\n'
    )
    log = tmp_path / "a.log"
    log.write_text(w3c([(36_000.0, f"/v?c={n % 3}&n={n}") for n in range(90)], clients=3))
    common: list[str | Path] = [log, "--map", mapping, "--to", shop, "--pace", "fire-hose", "--in-order", "client"]
    replayed(capsys, *common, store=tmp_path / "s.db")
    rows = execute(shop, "select client, n, busy from seen order by at")
    for client in range(3):
        assert [n for c, n, _ in rows if c == client] == list(range(client, 90, 3))
    assert not any(busy for _, _, busy in rows)


def test_a_server_that_is_killed_is_found_again(
    mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ephemeral_postgres(settings={"fsync": "off"}) as server:
        fill(server.dsn)
        log = tmp_path / "a.log"
        log.write_text(w3c(items(1000, 5.0)))

        # The server dies with the thread that starts it, so the replay goes into another one.
        result: dict[str, Any] = {}
        command = ["replay", str(log), "--map", str(mapping), "--to", server.dsn, "--store", str(tmp_path / "s.db")]
        command += ["--max-errors", "100%"]
        process = subprocess.Popen(
            [sys.executable, "-m", "brickyard", *command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            measured(tmp_path / "s.db")
            server.kill()
            server.start()
            out, _ = process.communicate(timeout=60)
            result = json.loads(out)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        assert process.returncode == 0, result
        with Store(tmp_path / "s.db", must_exist=True) as kept:
            end = replay_runs.ends(kept.record(result["runs"][0]["run"]))[0]
        assert sum(end.lost_connections) >= 1
        assert sum(end.reconnects) >= 1
        item = pages(result, "time synchronized")["item"]
        # Every call of the log is accounted for, and most of them got through after the server was back.
        assert item["calls"] + item["errors"] + sum(end.unsent_by_brick) == 1000
        assert item["calls"] > 700
        assert any(w["id"] == "lost_connections" for w in result["runs"][0]["warnings"])


def test_a_server_that_stays_away_ends_the_run_and_keeps_what_was_measured(
    mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(w3c(items(4000, 40.0)))
    with ephemeral_postgres(settings={"fsync": "off"}) as server:
        fill(server.dsn)
        place = tmp_path / "s.db"

        def kill() -> None:
            measured(place)
            server.kill()

        killing = threading.Thread(target=kill)
        killing.start()
        document, _ = replayed(
            capsys, log, "--map", mapping, "--to", server.dsn, "--patience", "1s", store=place, code=1
        )
        killing.join()
    run = document["runs"][0]
    assert run["outcome"] == "failed"
    assert "no database could be reached for 1 s" in run["message"]
    assert "\n" not in run["message"]
    assert pages(document, "time synchronized")["item"]["calls"] > 50


def test_one_brick_down_is_seen_and_the_others_go_on(
    shop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mapping = tmp_path / "m.toml"
    routes = '[[route]]\nbrick = 0\nwhere = { id = "1..50" }\n[[route]]\nbrick = 1\n'
    mapping.write_text(MAPPING + routes)
    log = tmp_path / "a.log"
    log.write_text(w3c(items(200, 1.0)))
    away = "postgresql://nobody@127.0.0.1:1/nothing"
    for pace in ("time-synchronized", "fire-hose"):
        document, ends = replayed(
            capsys, log, "--map", mapping, "--to", f"{shop},{away}", "--pace", pace, "--patience", "1s",
            "--max-errors", "100%", store=tmp_path / "s.db",
        )  # fmt: skip
        low = sum(int(target.partition("=")[2]) <= 50 for _, target in items(200, 1.0))
        first, second = document["replay"]["paces"][pace.replace("-", " ")]["bricks"]
        assert (first["calls"], first["errors"]) == (low, 0)
        assert second["calls"] == 0
        assert (second["errors"], ends[0]["unsent_by_brick"]) == (200 - low, [0, 0])
        assert second["calls_per_s"] is None
        assert second["away_s"] > 0
        assert any(w["id"] == "brick_down" for w in document["runs"][0]["warnings"])
        assert "nobody@127.0.0.1:1" in second["page"]


def test_a_brick_that_dies_disturbs_no_other_and_comes_back(
    shop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mapping = tmp_path / "m.toml"
    mapping.write_text(MAPPING + '[[route]]\nbrick = 0\nwhere = { id = "1..50" }\n[[route]]\nbrick = 1\n')
    log, place = tmp_path / "a.log", tmp_path / "s.db"
    log.write_text(w3c(items(2000, 10.0)))
    with ephemeral_postgres(settings={"fsync": "off"}) as dying:
        fill(dying.dsn)
        command = ["replay", str(log), "--map", str(mapping), "--to", f"{dying.dsn},{shop}", "--pace", "fire-hose"]
        command += ["--again", "--duration", "7s", "--sessions", "2", "--store", str(place), "--json"]
        command += ["--max-errors", "100%"]
        process = subprocess.Popen(
            [sys.executable, "-m", "brickyard", *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            measured(place)
            dying.kill()
            time.sleep(2.0)
            dying.start()
            out, _ = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    assert process.returncode == 0
    run = json.loads(out)
    first, second = run["replay"]["paces"]["fire hose"]["bricks"]
    assert (second["errors"], second["away_s"]) == (0, 0)
    assert first["errors"] > 0
    assert set(run["replay"]["paces"]["fire hose"]["errors_by_sqlstate"]) <= {"08001", "08006", "57P01", "57P03"}
    with Store(place, must_exist=True) as kept:
        record = kept.record(run["runs"][0]["run"])
    end = replay_runs.ends(record)[0]
    assert end.unsent_by_brick == [0, 0]
    assert end.reconnects[0] >= 1
    length_s = max(item.end_ns for item in record.intervals) / 1e9
    assert 2.0 <= first["away_s"] < length_s
    # Its rate is over the time in which it served, that of the other over all of it.
    assert first["calls_per_s"] == pytest.approx(first["calls"] / (length_s - first["away_s"]), rel=0.05)
    assert second["calls_per_s"] == pytest.approx(second["calls"] / length_s, rel=0.05)
    streams = [n for n, target in enumerate(asked_targets(record, 0)) if target == 1]
    served = {i.start_ns for i in record.intervals if i.stream in streams and i.measure == "service" and i.requests}
    assert served == {i.start_ns for i in record.intervals}
    last = max(i.start_ns for i in record.intervals)
    assert any(i.requests for i in record.intervals if i.start_ns == last and i.stream not in streams)
    assert any(w["id"] == "brick_down" and "could not be reached for" in w["text"] for w in run["runs"][0]["warnings"])


def test_a_brick_that_ends_early_is_rated_over_its_own_time(
    shop: str, postgres: Server, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mapping.write_text(MAPPING + '[[route]]\nbrick = 0\nwhere = { s = "0.." }\n[[route]]\nbrick = 1\n')
    log = tmp_path / "a.log"
    log.write_text(w3c([*items(2000, 1.0), *[(36_002.0, "/sleep?s=0.05")] * 60]))
    name = f"slow_{os.getpid()}"
    execute(postgres.dsn, f"create database {name}")
    slow_dsn = postgres.dsn_of(name)
    try:
        fill(slow_dsn)
        document, _ = replayed(
            capsys, log, "--map", mapping, "--to", f"{slow_dsn},{shop}", "--pace", "fire-hose", "--sessions", "2",
            store=tmp_path / "s.db",
        )  # fmt: skip
    finally:
        execute(postgres.dsn, f"drop database {name} with (force)")
    slow, quick = document["replay"]["paces"]["fire hose"]["bricks"]
    assert (slow["calls"], quick["calls"]) == (60, 2000)
    # The first is busy for at least 3 s, which are no part of the second's time.
    assert slow["calls_per_s"] <= 20
    assert quick["calls_per_s"] > 1.5 * 2000 / 3.0
    assert not any(w["id"] == "brick_down" for w in document["runs"][0]["warnings"])


def test_passwords_are_nowhere(mapping: Path, tmp_path: Path) -> None:
    with ephemeral_postgres(settings={"fsync": "off"}, tcp=True) as server:
        fill(server.dsn)
        secret = server.password
        assert secret is not None
        log, place, report = tmp_path / "a.log", tmp_path / "s.db", tmp_path / "report.html"
        log.write_text(w3c(items(300, 3.0)))
        command = [sys.executable, "-m", "brickyard", "replay", str(log), "--map", str(mapping), "--to", server.dsn]
        command += ["--drivers", "2", "--store", str(place)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seen: set[int] = set()
        try:
            until = time.monotonic() + 60
            own = Path(f"/proc/{process.pid}/cmdline")
            while b":xxxxxxxx" not in own.read_bytes() and time.monotonic() < until:
                time.sleep(0.05)  # it overwrites them first of all; an interpreter takes a moment to begin
            while process.poll() is None and time.monotonic() < until:
                for pid, line in _command_lines():
                    assert secret.encode() not in line, f"process {pid} shows the password"
                    if b"replay_driver" in line and _parent(pid) == process.pid:
                        seen.add(pid)
                time.sleep(0.05)
            out, _ = process.communicate(timeout=30)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        assert process.returncode == 0, out
        assert len(seen) == 2
        assert main(["report", "--store", str(place), "-o", str(report)]) == 0
        wrong = server.dsn.replace(secret, "wr0ng-" + secret[:4])
        failed = subprocess.run(
            [*command[:7], "--to", wrong, "--store", str(place)], capture_output=True, text=True, check=False
        )
    assert failed.returncode == 2
    assert failed.stderr.count("\n") == 1
    assert "password" in failed.stderr
    assert secret[:4] not in failed.stderr
    assert secret not in out
    for file in [*tmp_path.rglob("*")]:
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


def _command_lines() -> Iterator[tuple[int, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with suppress(OSError):
                yield int(entry.name), (entry / "cmdline").read_bytes()


def test_ctrl_c_keeps_what_was_measured_and_leaves_no_driver(shop: str, mapping: Path, tmp_path: Path) -> None:
    log, place = tmp_path / "a.log", tmp_path / "s.db"
    log.write_text(w3c(items(6000, 60.0)))
    command = ["replay", str(log), "--map", str(mapping), "--to", shop, "--drivers", "2", "--store", str(place)]
    process = subprocess.Popen(
        [sys.executable, "-m", "brickyard", *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        measured(place)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 130
    with Store(place, must_exist=True) as kept:
        record = kept.record(1)
    assert record.info.outcome == "interrupted"
    assert replay_pages.pages([record])[0].calls > 20
    mine = str(log).encode()
    assert not any(mine in line for _, line in _command_lines())


def processes_of(server: Server) -> list[int]:
    """A server and all that it has started, the parent first."""
    assert server.pid is not None
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return [server.pid, *map(int, children)]


def test_ctrl_c_waits_for_a_database_that_hangs_no_longer_than_it_says(mapping: Path, tmp_path: Path) -> None:
    log, place = tmp_path / "a.log", tmp_path / "s.db"
    log.write_text(w3c(items(6000, 60.0)))
    stopped: list[int] = []
    with ephemeral_postgres(settings={"fsync": "off", "shared_buffers": "16MB"}) as server:
        fill(server.dsn)
        command = ["replay", str(log), "--map", str(mapping), "--to", server.dsn, "--store", str(place)]
        process = subprocess.Popen(
            [sys.executable, "-m", "brickyard", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            measured(place)
            for pid in processes_of(server):
                os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)
            time.sleep(1.0)  # 100 calls a second are due, and none is answered
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            if process.poll() is None:
                process.kill()
                process.wait()
    assert process.returncode == 130
    assert "waiting up to 5 s for calls that the database has not answered" in said
    with Store(place, must_exist=True) as kept:
        record = kept.record(1)
    assert record.info.outcome == "interrupted"
    assert replay_pages.pages([record])[0].calls > 20
    assert events_of(record, "phase_end")[0]["outstanding"] > 0


REFUSED = {
    "no such table": ("select * from nothing where id = :id", "42P01"),
    "no such function": ("select nothing(:id)", "42883"),
    "other types": ("select id from item where name = :id", "42883"),
    "no statement": ("selct :id", "42601"),
    "no parameter": ("select :missing", ":missing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_database_lacks_is_said_in_one_line(
    case: str, shop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql, said = REFUSED[case]
    mapping, log = tmp_path / "m.toml", tmp_path / "a.log"
    mapping.write_text(f'[[call]]\npage = "item"\npath = "/item"\nsql = "{sql}"\nparameters.id = {{ type = "int4" }}\n')
    log.write_text(w3c(items(5, 1.0)))
    assert main(["replay", str(log), "--map", str(mapping), "--to", shop, "--store", str(tmp_path / "s.db")]) == 2
    err = capsys.readouterr().err.strip()
    assert said in err
    assert "item" in err
    assert "\n" not in err


def test_bad_input_is_one_line_and_exit_code_2(
    shop: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, other = tmp_path / "a.log", tmp_path / "b.log"
    log.write_text(w3c(items(5, 1.0)))
    other.write_text("#Fields: date time c-ip\n2003-06-02 10:00:00 a\n")
    good = [str(log), "--map", str(mapping), "--to", shop]
    cases = [
        ([str(log), "--map", str(mapping), "--to", "postgresql://x@127.0.0.1:1/x"], "08001"),
        ([str(log), "--map", str(mapping), "--to", "postgresql://u:s3cret@h:x/"], "connection string"),
        ([str(log), "--map", str(mapping)], "--to"),
        ([str(log), "--map", str(tmp_path / "none.toml"), "--to", shop], "none.toml"),
        ([str(tmp_path / "none.log"), "--map", str(mapping), "--to", shop], "does not exist"),
        ([str(other), "--map", str(mapping), "--to", shop], "cs-uri-stem"),
        ([*good, "--pace", "fast"], "--pace fast"),
        ([*good, "--pace", "fixed:-5"], "rate"),
        ([*good, "--speed", "0"], "speed"),
        ([*good, "--in-order", "cookie:id"], "cs(Cookie)"),
        ([*good, "--drivers", "0"], "at least 1"),
        ([*good, "--sessions", "0"], "sessions"),
        ([*good, "--again"], "--again"),
        ([*good, "--field", "colour=red"], "colour"),
        ([*good, "--from", "yesterday"], "yesterday"),
        (["-", "--map", str(mapping), "--to", shop, "--drivers", "2"], "standard input"),
        ([*good, "--duration", "0"], "--duration 0"),
        ([*good, str(tmp_path / "." / "a.log")], "named twice"),
        ([*good, "--pace", "both", "--from", "2010-01-01T00:00:00Z"], "the log runs from 2003-06-02T10:00:00Z to"),
        ([*good, "--until", "2003-01-01T00:00:00Z"], "lies before 2003-01-01"),
        ([str(log), "--map", str(mapping), "--to", "postgresql://u:Wrong@s3cret@127.0.0.1:1/x"], "%40"),
    ]
    for arguments, said in cases:
        code = main(["replay", *arguments, "--store", str(tmp_path / "s.db")])
        err = capsys.readouterr().err.strip().splitlines()[-1:]
        assert code == 2, (arguments, err)
        assert said in err[0], (arguments, err)
        assert "s3cret" not in err[0]


def test_explain_shows_a_log_without_a_database(
    mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(w3c([*items(97, 600.0), *[(36_700.0, "/logo.gif")] * 3]) + "garbage\n")
    assert main(["replay", str(log), "--map", str(mapping), "--explain"]) == 0
    out = capsys.readouterr().out
    assert "97 (97.0 % of the requests)" in out
    assert "/logo.gif" in out
    assert "select id, name from item where id = $1" in out
    assert "garbage" in out
    assert main(["replay", str(log), "--map", str(mapping), "--explain", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["document"]
    assert told["covered_share"] == 0.97
    assert sum(point["calls"] for point in told["course"]) == 97


@pytest.mark.parametrize(("seconds", "said"), [(1, "100"), (2, "100"), (60, "100"), (90, "100")])
def test_no_average_is_above_the_busiest_second(
    seconds: int, said: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a log with stamps of whole seconds, whose last one lasts as long as the others."""
    log = tmp_path / "a.log"
    log.write_text(re.sub(r"\.\d{6} ", " ", w3c([(36_030 + n // 100, "/item?id=1") for n in range(100 * seconds)])))
    assert main(["replay", str(log), "--map", str(mapping), "--explain"]) == 0
    rate = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("Rate"))
    assert f"{said} calls/s on average" in rate
    assert rate.endswith("100 in the busiest second")
    assert replay_head_room.average_per_s(100, 0.99, 97) == 97


def test_a_torn_log_is_said(mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log.gz"
    whole = gzip.compress(w3c(items(20_000, 100.0)).encode())
    log.write_bytes(whole[: len(whole) // 2])
    assert main(["replay", str(log), "--map", str(mapping), "--explain"]) == 0
    out = capsys.readouterr().out
    assert "Warning" in out
    assert "a.log.gz is damaged" in out


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
) -> Record:
    """A run of one page that was as fast as said."""
    plan = {**support.plan(), "kind": "replay", "replay": {"pace": pace}}
    length_ns = int(length_s * 1e9)
    told = driver_end(logs={"requests": calls, "calls": calls, **(logs or {})}, away_ns=[away_ns])
    cell = support.cell([1_000_000] * calls if calls else [1], operation="call", errors=errors)
    if not calls:
        cell |= {"requests": 0, "bytes": 0, "measures": {}}
    end = support.phase_end(end_ns=length_ns, reason=reason, replay={"drivers": [told], "by_stream": []})
    return store.record(support.add_run(store, [support.interval(0, length_ns, cell), end], plan_=plan))


def test_head_room_is_that_of_the_whole_log_or_says_of_what(tmp_path: Path) -> None:
    """A log that begins quietly: two calls in the first four seconds, then 100 a second."""
    whole = {"first_ns": 0, "last_ns": 63 * 10**9, "calls": 6002, "peak_second_calls": 100, "peak_second_unix_s": 9}
    timed: Json = {"kind": "time_synchronized", "speed": "1x"}
    with Store(tmp_path / "s.db") as store:
        piece = replay_record(store, timed, 2, 4.0, "duration")
        cut = replay_record(store, {"kind": "fire_hose"}, 6000, 6.0, "duration")
        short = replay_record(store, {"kind": "fire_hose"}, 600, 0.6, logs=whole)
        long = replay_record(store, {"kind": "fire_hose"}, 6002, 6.002, logs=whole)
    room = replay_head_room.head_room([long, piece])
    assert room is not None
    assert (room.of, room.is_judged) == ("log", True)
    assert room.normal_per_s == pytest.approx(6002 / 64)
    [said] = replay_head_room.verdict_lines([long, piece])
    assert "the log's average load (93.8 calls/s over 1 min 4 s)" in said
    assert "1000 % of its busiest second (100 calls)" in said
    [said] = replay_head_room.verdict_lines([cut, piece])
    assert "the part of the log that was replayed (its first 4.0 s: 0.50" in said
    [said] = replay_head_room.verdict_lines([short, piece])
    assert "too short to judge" in said


def test_head_room_is_not_told_of_calls_that_failed_or_of_a_database_that_was_down(tmp_path: Path) -> None:
    timed, hose = {"kind": "time_synchronized", "speed": "1x"}, {"kind": "fire_hose"}
    with Store(tmp_path / "s.db") as store:
        sound = replay_record(store, hose, 6000, 6.0, "duration")
        few = replay_record(store, timed, 995, 10.0, "duration", errors=5)
        failed = replay_record(store, timed, 750, 10.0, "duration", errors=250)
        down = replay_record(store, hose, 6000, 6.0, "duration", away_ns=2 * 10**9)
    # What is failed within a per cent is due all the same.
    room = replay_head_room.head_room([sound, few])
    assert room is not None
    assert room.normal_per_s == pytest.approx(100)
    assert replay_head_room.head_room([sound, failed]) is None
    [said] = replay_head_room.verdict_lines([sound, failed])
    assert "Headroom: not computed, because 250 of 1,000 calls failed in run" in said
    assert replay_head_room.head_room([down, few]) is None
    [said] = replay_head_room.verdict_lines([down, few])
    assert "could not be reached for 2.0 s of run" in said


def test_a_last_piece_of_an_interval_draws_no_drop(tmp_path: Path) -> None:
    end = support.phase_end(replay={"drivers": [driver_end()], "by_stream": []})
    plan = {**support.plan(), "kind": "replay", "replay": {"pace": {"kind": "fire_hose"}}}
    spans = [(0, support.SECOND), (support.SECOND, 2 * support.SECOND)]
    for last_ns, kept in ((5 * support.MS, 2), (700 * support.MS, 3)):
        pieces = [*spans, (2 * support.SECOND, 2 * support.SECOND + last_ns)]
        events = [support.interval(*piece, support.cell([1_000_000] * 10)) for piece in pieces]
        with Store(tmp_path / "s.db") as store:
            record = store.record(support.add_run(store, [*events, end], plan_=plan))
        assert len(replay_disks.course(record)) == kept


def test_a_percentile_of_too_few_calls_is_not_measured(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        few = replay_record(store, {"kind": "fixed", "rate_per_s": 10.0}, 40, 4.0)
        many = replay_record(store, {"kind": "fixed", "rate_per_s": 500.0}, 2000, 4.0)
    limit = Limit("p99", 500_000)
    assert replay_head_room.verdict_lines([few], limit) == [
        "p99 response within 500 µs: not measured: too few calls for p99 at 10.0 calls/s."
    ]
    assert replay_head_room.verdict_lines([many], limit) == ["p99 response within 500 µs: not at any offered rate."]


def driver_shares(intervals: dict[int, int], drivers: int) -> list[Json]:
    """What drivers did in intervals of 1 s, of which each has sent calls in so many."""
    return [
        {
            "event": "drivers", "phase": 0, "start_ns": at * support.SECOND, "end_ns": (at + 1) * support.SECOND,
            "drivers": [
                {"driver": driver, "requests": 1, "errors": 0, "bytes": 0, "loop_busy_share": 0.0,
                 "drain": at >= intervals.get(driver, 0)}
                for driver in range(drivers)
            ],
        }
        for at in range(20)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "share", "said"),
    [
        ({0: 20, 2: 20}, 2 / 3, "Only 200 of 300 calls/s were offered on average: driver 2 had no calls"),
        ({0: 20, 1: 8, 2: 20}, 0.8, "Only 240 of 300 calls/s were offered on average: the calls of driver 2 ended"),
        ({0: 20, 1: 19, 2: 20}, 1.0, ""),
    ],
)
def test_a_rate_that_drivers_without_calls_did_not_offer_is_not_called_offered(
    tmp_path: Path, sent: dict[int, int], share: float, said: str
) -> None:
    plan = {**support.plan(), "kind": "replay", "replay": {"pace": {"kind": "fixed", "rate_per_s": 300.0}}}
    told = [driver_end(driver=driver, calls=2000 if driver in sent else 0) for driver in range(3)]
    end = support.phase_end(end_ns=20 * support.SECOND, replay={"drivers": told, "by_stream": []})
    seconds = [
        support.interval(at * support.SECOND, (at + 1) * support.SECOND, support.cell([1_000_000] * 200), index=at)
        for at in range(20)
    ]
    with Store(tmp_path / "s.db") as store:
        events = [*seconds, *driver_shares(sent, 3), end]
        record = store.record(support.add_run(store, events, plan_=plan))
    (point,) = replay_head_room.offered_points([record])
    assert point.offered_per_s == pytest.approx(300 * share)
    warned = [warning.text for warning in replay_warnings.replay_warnings(record, []) if warning.id == "rate_unoffered"]
    failed = why_failed([record], 0.01, check=True)
    assert (bool(warned), len(failed)) == (bool(said), bool(said))
    assert all(text.startswith(said) for text in warned)
    assert why_failed([record], 0.01, check=False) == []


def test_standard_input_is_a_log_too(shop: str, mapping: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "brickyard", "replay", "-", "--map", str(mapping), "--explain", "--json"],
        input=w3c(items(50, 5.0)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["document"]["calls"] == 50
    command = ["replay", "-", "--map", str(mapping), "--to", shop, "--pace", "fire-hose", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "brickyard", *command, "--store", str(tmp_path / "s.db")],
        input=w3c(items(50, 5.0)),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert pages(json.loads(done.stdout), "fire hose")["item"]["calls"] == 50


def test_a_full_store_ends_the_run_and_leaves_no_driver(shop: str, mapping: Path, tmp_path: Path) -> None:
    """A file-size limit stands for the full disk: the store takes no more in mid-run."""
    log = tmp_path / "a.log"
    log.write_text(w3c(items(6000, 60.0)))
    before = orphans()
    command = f"ulimit -f 150; exec {sys.executable} -m brickyard replay {log} --map {mapping} --to '{shop}'"
    done = subprocess.run(
        ["bash", "-c", f"trap '' XFSZ; {command} --store {tmp_path / 's.db'}"],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "the store" in done.stderr.splitlines()[-1]
    assert orphans() <= before


def orphans() -> set[int]:
    return {pid for pid, line in _command_lines() if b"replay_driver" in line and _parent(pid) == 1}


def _parent(pid: int) -> int | None:
    with suppress(OSError, AttributeError):
        found = re.search(r"PPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) if found else None
    return None


def relay(server: Server, certificate: Path) -> tuple[socket.socket, int]:
    """TLS as a server with it speaks it (by OpenSSL), before one whose programs were built without."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain = listening.accept()[0]
            except OSError:
                return
            threading.Thread(target=_relayed, args=(plain, context, server), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return listening, listening.getsockname()[1]


def _relayed(plain: socket.socket, context: ssl.SSLContext, server: Server) -> None:
    with suppress(OSError), plain:
        assert plain.recv(8) == b"\0\0\0\x08\x04\xd2\x16\x2f"  # SSLRequest of the protocol
        plain.sendall(b"S")
        with context.wrap_socket(plain, server_side=True) as outer, socket.socket(socket.AF_UNIX) as inner:
            inner.connect(f"{server.host}/.s.PGSQL.{server.port}")
            while True:
                ready = [outer] if outer.pending() else select.select([outer, inner], [], [])[0]
                for one, other in ((outer, inner), (inner, outer)):
                    if one in ready:
                        data = one.recv(65536)
                        if not data:
                            return
                        other.sendall(data)


def certificate(place: Path, name: str) -> Path:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
         "-addext", f"subjectAltName=DNS:{name}", "-addext", "basicConstraints=critical,CA:FALSE",
         "-keyout", str(place.with_suffix(".key")), "-out", str(place)],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return place


def test_tls_encrypts_and_checks_whom_it_speaks_with(
    postgres: Server, shop: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, other = certificate(tmp_path / "own.pem", "localhost"), certificate(tmp_path / "other.pem", "localhost")
    log = tmp_path / "a.log"
    log.write_text(w3c(items(50, 0.5)))
    name = shop.partition("@/")[2].partition("?")[0]
    listening, port = relay(postgres, own)
    with listening:
        base = f"postgresql://{postgres.user}@localhost:{port}/{name}?hostaddr=127.0.0.1&"
        for mode in ("sslmode=require", f"sslmode=verify-full&sslrootcert={own}"):
            document, _ = replayed(
                capsys, log, "--map", mapping, "--to", base + mode, "--pace", "fire-hose", store=tmp_path / "s.db"
            )
            assert pages(document, "fire hose")["item"]["calls"] == 50
        arguments = ["replay", str(log), "--map", str(mapping), "--store", str(tmp_path / "s.db"), "--to"]
        elsewhere = base.replace("@localhost", "@elsewhere.example")
        for wrong in (
            f"{base}sslmode=verify-full&sslrootcert={other}",
            f"{elsewhere}sslmode=verify-full&sslrootcert={own}",
            f"{base}sslmode=verify-full&sslrootcert={tmp_path / 'none.pem'}",
        ):
            assert main([*arguments, wrong]) == 2
            err = capsys.readouterr().err.strip()
            assert "certificate" in err
            assert "\n" not in err


def test_no_part_of_a_password_with_an_at_is_shown() -> None:
    dsn = "postgresql://shop:Wrong@Pw99@127.0.0.1:5432/shop"
    for tried in (spoken, refuse_second_at):
        with pytest.raises(BadInputError, match="%40") as caught:
            tried(dsn)
        assert "Pw99" not in str(caught.value)
    assert spoken(dsn.replace("g@P", "g%40P")) == "postgresql://shop@127.0.0.1:5432/shop"
    refuse_second_at("postgresql://a@h/x?application_name=b@c@d")


def test_databases_are_told_apart_and_routes_agree_with_the_core() -> None:
    assert split_dsns("postgresql://a,b/x,postgresql://c/y", "host=h dbname=d") == [
        "postgresql://a,b/x",
        "postgresql://c/y",
        "host=h dbname=d",
    ]
    for wrong in ("", "postgresql://a/x,,postgresql://b/x", "postgresql://a/x,postgresql://a/x"):
        with pytest.raises(BadInputError):
            split_dsns(wrong)
    routes = MAPPING + '[[route]]\nbrick = 2\nwhere = { id = "7..9" }\n'
    assert _core.replay_route(routes, "item", {"id": "8"}, 3) == 2
    spread = {_core.replay_route(routes, "item", {"id": str(n)}, 3) for n in range(10, 40)}
    assert spread == {0, 1, 2}


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


@pytest.mark.parametrize(
    ("changes", "megabytes", "said"),
    [
        ({}, 1, None),
        ({"keeps_pace": False, "driver_lag": lag(30_000_000)}, 1, "Driver 1 did not keep its pace"),
        ({"starved_share": 0.4}, 1, "for its log to be read"),
        ({"calls": 0, "errors": 0}, 1, "No call was made"),
        (
            {"logs": {"requests": 9, "calls": 9, "logs": [{"path": "/a.gz", "torn": "early end"}]}},
            1,
            "/a.gz is damaged: early end",
        ),
        ({"logs": {"requests": 100, "calls": 40}}, 1, "Only 40.0 % of the requests"),
        ({}, 11, "88 Mbit/s of results over eth1, which has 100"),
    ],
)
def test_what_spoils_a_replay_is_said(tmp_path: Path, changes: Json, megabytes: int, said: str | None) -> None:
    """The study's driver behind 100 Mbit/s, and its like."""
    link = {"device": "eth1", "megabit_per_s": 100}
    target = {"path": "postgresql://a@h:1/b", "kind": "postgresql", "size_bytes": 0, "link": link, "unreachable": None}
    share: Json = {"driver": 0, "requests": 10, "errors": 0, "bytes": megabytes * 10**6, "drain": False}
    share["loop_busy_share"] = 0.1
    told = {"event": "drivers", "phase": 0, "start_ns": 0, "end_ns": 10**9, "drivers": [share]}
    events = [told, support.phase_end(replay={"drivers": [driver_end(**changes)], "by_stream": []})]
    plan = {**support.plan(), "kind": "replay", "replay": {"pace": {"kind": "fire_hose"}}}
    with Store(tmp_path / "s.db") as store:
        record = store.record(support.add_run(store, events, plan_=plan))
    record = replace(record, info=replace(record.info, engine=support.start_event(targets=[target])))
    texts = [warning.text for warning in replay_warnings.replay_warnings(record, [])]
    assert len(texts) == (said is not None)
    assert said is None or said in texts[0]


def test_the_link_to_a_server_is_that_of_the_most_special_route(tmp_path: Path) -> None:
    route = tmp_path / "route"
    route.write_text(
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\n"
        "eth1\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"
    )
    (tmp_path / "eth1").mkdir()
    (tmp_path / "eth1" / "speed").write_text("100\n")
    (tmp_path / "eth0").mkdir()
    (tmp_path / "eth0" / "speed").write_text("-1\n")
    assert link_to("10.0.2.9", str(tmp_path), str(route)) == LinkFacts(device="eth1", megabit_per_s=100)
    assert link_to("9.9.9.9", str(tmp_path), str(route)) == LinkFacts(device="eth0")
    assert link_to("127.0.0.1", str(tmp_path), str(route)) is None

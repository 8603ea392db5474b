"""Replays against a real PostgreSQL: what is counted is what was asked, at the pace that was asked for."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from brickyard import _core
from brickyard.analysis.databases import replay_head_room, replay_pages, replay_runs
from brickyard.cli import main
from brickyard.store import Store
from replay_support import (
    execute,
    items,
    pages,
    replayed,
    w3c,
)


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
    # Calls that sleep for 20 ms keep no limit of 1 ms.
    arguments = ["--pace", "fixed:20,30", "--again", "--duration", "1s", "--limit", "mean:1ms"]
    document, _ = replayed(capsys, *common, *arguments, store=place, code=1)
    assert document["replay"]["limit"]["rate_per_s"] is None
    assert main(["replay", *map(str, common), "--pace", "both", "--limit", "mean:1ms", "--store", str(place)]) == 2
    assert "--limit mean:1ms: needs offered rates" in capsys.readouterr().err


def test_drivers_with_calls_send_the_part_of_those_without(
    shop: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One client's calls are all one driver's."""
    log, place = tmp_path / "a.log", tmp_path / "s.db"
    log.write_text(w3c(items(60, 1.5), clients=1))
    words: list[str | Path] = [log, "--map", mapping, "--to", shop, "--pace", "fixed:60", "--again"]
    words += ["--duration", "2s", "--drivers", "3"]
    document, ends = replayed(capsys, *words, "--check", store=place)
    *others, sent = sorted(end["calls"] + sum(end["unsent_by_brick"]) for end in ends)
    assert others == [0, 0]
    assert sent in (119, 120), "the last call is due at the end"
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
    for order in (records[:2], records[1::-1]):
        slow = replay_pages.slow_rows(order)
        worst = max(order, key=lambda record: replay_pages.slowest(record)[0].response_ns)
        assert slow[0][0] == str(worst.info.id), "the slowest of both, not of the first"
        assert len(slow) == max(len(replay_pages.slowest(record)) for record in order)
    for verb in (["show", str(runs[0])], ["runs"], ["export", str(runs[0]), "-o", str(tmp_path / "x.csv")]):
        assert main([*verb, "--store", str(place)]) == 0
    out = capsys.readouterr().out
    assert "response time by page" in out
    assert main(["show", str(runs[-1]), "--store", str(place)]) == 0
    assert re.search(r"sent after due instant +60 .*\n.*of that, driver lag +60 ", capsys.readouterr().out)
    late = document["replay"]["paces"]["time synchronized"]["late"]
    assert 0 < late["driver_lag"]["p50_ns"] <= late["lateness"]["p50_ns"] <= late["lateness"]["max_ns"]
    page = tmp_path / "report.html"
    assert main(["report", "--store", str(place), "-o", str(page), *map(str, runs)]) == 0
    assert re.search(r"1 driver, at most \d+ calls in flight\. Response time", page.read_text())
    text = page.read_text()
    assert "Headroom: too short to judge" in text
    assert "driver" in text
    assert text.count("<svg") >= 2
    assert all(f"Fire hose, 2 repetitions, run {run}: the server" in text for run in runs[:2])


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

"""Replays on a bad day: servers that die, hang or stay away, Ctrl-C, a full store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from brickyard.analysis.databases import replay_pages, replay_runs
from brickyard.analysis.figures.totals import asked_targets
from brickyard.databases.ephemeral import Server, ephemeral_postgres
from brickyard.store import Store
from replay_support import (
    MAPPING,
    command_lines,
    execute,
    fill,
    items,
    measured,
    pages,
    parent_of,
    replayed,
    w3c,
)
from support import events_of


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
    assert not any(mine in line for _, line in command_lines())


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
    return {pid for pid, line in command_lines() if b"replays.driver" in line and parent_of(pid) == 1}

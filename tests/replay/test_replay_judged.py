"""What a replay says of its own figures: disorder, outliers, failed calls, memory or disks; on a real PostgreSQL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import support
from brickyard import outputs, rulers
from brickyard.analysis.databases import replay_head_room, replay_served
from brickyard.analysis.databases import terraserver as tables
from brickyard.analysis.judging import verdict
from brickyard.analysis.judging.comparison import compare
from brickyard.cli import main
from brickyard.databases.ephemeral import Server, ephemeral_postgres
from brickyard.databases.memory import MemoryGroup, ServerMemory, memory_group, memory_of_server
from brickyard.errors import BadInputError
from brickyard.schema import PhaseEnd
from brickyard.store import Json, Record, Store
from replay_support import (
    MAPPING,
    driver_end,
    execute,
    fill,
    items,
    measured,
    pages,
    replay_record,
    replayed,
    w3c,
)

FAILING = """
[[call]]
page = "item"
path = "/item"
sql = "select id from item where id / 0 = :id"
parameters.id = { type = "int4" }
"""


def course(document: Json, place: Path) -> list[int]:
    """Calls answered in each interval of one second."""
    with Store(place, must_exist=True) as kept:
        record = kept.record(document["runs"][0]["run"])
    cells = [i for i in record.intervals if i.measure == "service"]
    starts = sorted({i.start_ns for i in cells})
    return [sum(i.requests for i in cells if i.start_ns == start) for start in starts]


def concatenated() -> str:
    """Logs of two servers, one behind the other: 400 calls in 4 s each, all of the same 4 s."""
    first, second = w3c(items(400, 4.0)), w3c(items(400, 4.0))
    return first + second.partition("\n")[2]


def test_two_servers_logs_in_one_file_are_replayed_in_order(
    shop: str,
    mapping: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Unsorted, all of the second server's calls would come at once when its log begins."""
    log, place = tmp_path / "both.log", tmp_path / "s.db"
    log.write_text(concatenated())
    common: list[str | Path] = [log, "--map", mapping, "--to", shop, "--window", "1s", "--check"]
    document, ends = replayed(capsys, *common, store=place)
    assert ends[0]["logs"]["late"] == 0
    assert document["runs"][0]["plan"]["replay"]["sorted"] is True
    assert pages(document, "time synchronized")["item"]["calls"] == 800
    # 200 calls are due in each second.
    assert max(course(document, place)) < 300

    unsorted = tmp_path / "unsorted.db"
    document, ends = replayed(capsys, *common, "--sort", "never", store=unsorted, code=1)
    assert ends[0]["logs"]["late"] > 50
    [warning] = [w for w in document["runs"][0]["warnings"] if w["id"] == "log_disorder"]
    assert "the log does not have such bursts" in warning["text"]
    assert "--sort always" in warning["remedy"]
    assert any("bursts" in line for line in document["failed"])


def test_a_run_that_ends_before_the_disorder_fails_the_check(shop: str, mapping: Path, tmp_path: Path) -> None:
    """The first server's lines alone are in order, at half the load that both logs together ask for."""
    log = tmp_path / "both.log"
    log.write_text(w3c(items(20_000, 1000.0)) + w3c(items(20_000, 1000.0)).partition("\n")[2])
    common = ["--map", str(mapping), "--to", shop, "--window", "1s", "--duration", "2s", "--check"]
    for place, unsorted, said in (
        (str(log), ("--sort", "never"), "further out of order than --window"),
        ("-", (), "requests that belong in the run came in standard input after the run's"),
    ):
        command = [sys.executable, "-m", "brickyard", "replay", place, *common, *unsorted]
        with log.open() as lines:
            done = subprocess.run(
                [*command, "--store", str(tmp_path / "s.db")], stdin=lines, capture_output=True, text=True, check=False
            )
        assert done.returncode == 1, done.stdout + done.stderr
        failed = " ".join(done.stdout.split()).partition("Failed: ")[2]
        # On a busy host the look beyond the run ends before it has met them, and says that.
        assert said in failed or (place == "-" and "was checked only" in failed)
        assert "sort the calls with --sort always" in failed or "was checked only" in failed


def test_standard_input_is_verified_as_far_as_it_goes(shop: str, mapping: Path, tmp_path: Path) -> None:
    """One in order passes although the run ends before its last line; of one that goes on, nobody knows the rest."""
    log, place = tmp_path / "one.log", str(tmp_path / "s.db")
    log.write_text(w3c(items(4_000, 1000.0)))
    common = ["--map", str(mapping), "--to", shop, "--window", "1s", "--duration", "1s", "--check", "--store", place]
    command = [sys.executable, "-m", "brickyard", "replay", "-", *common]
    with log.open() as lines:
        done = subprocess.run(command, stdin=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verified" not in done.stdout
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(log.read_text())
    process.stdin.flush()
    told = " ".join(process.stdout.read().split())
    assert process.wait(60) == 1
    process.stdin.close()
    assert "the order of standard input was checked only in part" in told
    # The driver read on for five seconds, which the counters of the server's disk do not cover.
    with Store(tmp_path / "s.db") as store:
        info = store.record(2).info
        (phase,) = store.record(2).of(PhaseEnd)
    assert info.watch.targets[0] is not None
    assert info.watch.targets[0].duration_ns < phase.end_ns + 4_000_000_000


def test_standard_input_is_sorted_where_asked(shop: str, mapping: Path, tmp_path: Path) -> None:
    command = ["replay", "-", "--map", mapping, "--to", shop, "--window", "1s", "--pace", "fire-hose", "--json"]
    for sort, late in (("never", True), ("always", False)):
        done = subprocess.run(
            [sys.executable, "-m", "brickyard", *map(str, command), "--sort", sort, "--store", str(tmp_path / sort)],
            input=concatenated() * 8,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert bool(document["replay"]["paces"]["fire hose"]["logs"]["late"]) is late
        assert pages(document, "fire hose")["item"]["calls"] == 6400


def test_a_sort_that_has_no_room_says_where(
    shop: str,
    mapping: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is left in TMPDIR by a sort that needs it; one that cannot be written is named."""
    log = tmp_path / "large.log"
    line = "2003-06-02 %02d:00:%02d 10.0.0.1 GET /search/%s - 200\n"
    with log.open("w") as file:
        file.write("#Fields: date time c-ip cs-method cs-uri-stem cs-uri-query sc-status\n")
        for n in range(30_000):
            file.write(line % (n % 2 + 10, n % 60, "x" * 3000))
    room = tmp_path / "room"
    room.mkdir()
    common = ["replay", str(log), "--map", str(mapping), "--to", shop, "--pace", "fire-hose", "--duration", "1s"]
    monkeypatch.setenv("TMPDIR", str(room))
    assert main([*common, "--store", str(tmp_path / "s.db")]) == 0
    assert list(room.iterdir()) == []
    monkeypatch.setenv("TMPDIR", str(room / "nowhere"))
    capsys.readouterr()
    assert main([*common, "--store", str(tmp_path / "s.db")]) == 2
    [said] = capsys.readouterr().err.splitlines()[-1:]
    assert "TMPDIR" in said


def test_one_stamp_of_1970_does_not_stall_a_replay(
    shop: str,
    mapping: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With it the replay would wait for 33 years, or send all at once."""
    lines = w3c(items(200, 1.0)).splitlines()
    lines.insert(100, "1970-01-01 00:00:07 10.0.0.1 GET /item id=1 200")
    log, place = tmp_path / "a.log", tmp_path / "s.db"
    log.write_text("\n".join(lines) + "\n")
    document, ends = replayed(capsys, log, "--map", mapping, "--to", shop, store=place)
    assert pages(document, "time synchronized")["item"]["calls"] == 200
    assert ends[0]["logs"]["outliers"] == 1
    [warning] = [w for w in document["runs"][0]["warnings"] if w["id"] == "log_outliers"]
    assert "a.log, line 101: 1970-01-01 00:00:07" in warning["text"]
    assert main(["replay", str(log), "--map", str(mapping), "--explain"]) == 0
    assert "line 101" in capsys.readouterr().out


def test_a_replay_of_which_all_fails_is_judged_and_has_a_report(
    shop: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log, broken, place = tmp_path / "a.log", tmp_path / "broken.toml", tmp_path / "s.db"
    log.write_text(w3c(items(300, 3.0)))
    broken.write_text(FAILING)
    common: list[str | Path] = [log, "--map", broken, "--to", shop, "--pace", "fire-hose"]
    document, _ = replayed(capsys, *common, store=place, code=1)
    assert document["failed"] == ["100 % of the calls of run 1 failed, more than --max-errors 1 %"]
    assert main(["replay", *map(str, common), "--store", str(place), "--max-errors", "100%"]) == 0
    assert "Failed:" not in capsys.readouterr().out
    assert main(["replay", *map(str, common), "--store", str(place), "--max-errors", "100%", "--check", "errors"]) == 1
    assert "errors: fail" in capsys.readouterr().out
    for run in ("1", "latest"):
        assert main(["report", run, "--store", str(place), "-o", str(tmp_path / run)]) == 0
        assert "SQLSTATE" in (tmp_path / run / "report.html").read_text()


@pytest.mark.parametrize(("errors", "passed"), [(0, True), (10, True), (11, False), (1000, False)])
def test_errors_are_a_ruler(tmp_path: Path, errors: int, passed: bool) -> None:
    with Store(tmp_path / "s.db") as store:
        record = replay_record(store, {"kind": "fire_hose"}, 1000 - errors, 10.0, errors=errors)
    [finding] = verdict.verdict(record, rulers.read("errors")).findings
    assert finding.passed is passed
    assert finding.value == pytest.approx(errors / 1000)
    assert verdict.verdict(record, rulers.read("errors<=0")).passed is (errors == 0)
    with pytest.raises(BadInputError, match="limit"):
        rulers.read("errors>=1%")


def test_sessions_are_counted_a_driver(
    postgres: Server,
    mapping: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The study's four drivers of 20 sessions over three bricks: 80 connections, where a server takes 100."""
    names = [f"brick{number}_{os.getpid()}" for number in range(3)]
    log, place = tmp_path / "a.log", tmp_path / "s.db"
    log.write_text(w3c([(36_000 + n / 1000, f"/sleep?s=0.0{n % 90 + 10}") for n in range(800)]))
    try:
        for name in names:
            execute(postgres.dsn, f"create database {name}")
            fill(postgres.dsn_of(name))
        to = ",".join(postgres.dsn_of(name) for name in names)
        common: list[str | Path] = [log, "--map", mapping, "--to", to, "--pace", "fire-hose"]
        _, ends = replayed(capsys, *common, "--drivers", "4", store=place)
        with Store(place, must_exist=True) as kept:
            record = kept.record(1)
        depth = [
            max(i.in_flight_bound for i in record.intervals if f"brick {n}" in _stream(record, i.stream))
            for n in range(3)
        ]
        # 20 over three are 7, 7 and 6, and each database has the 6 of one or two drivers.
        assert all(20 < found <= 28 for found in depth)
        assert sum(depth) <= 80
        assert len(ends) == 4
        assert record.info.engine["engine_reason"]["databases"] == 3
        assert main(["replay", *map(str, common), "--sessions", "2", "--store", str(place)]) == 2
        assert "each of 3 databases needs one" in capsys.readouterr().err
    finally:
        for name in names:
            execute(postgres.dsn, f"drop database if exists {name} with (force)")


def _stream(record: Record, number: int) -> str:
    return record.info.plan.phase[0].stream[number].name


def test_what_a_dead_brick_is_waited_for_is_in_no_rate(shop: str, tmp_path: Path) -> None:
    """A host that dies answers nobody, and only time tells: here its processes stop, and later go."""
    place, log, routed = tmp_path / "s.db", tmp_path / "a.log", tmp_path / "m.toml"
    routed.write_text(MAPPING + '[[route]]\nbrick = 0\nwhere = { id = "1..50" }\n[[route]]\nbrick = 1\n')
    log.write_text(w3c(items(2000, 10.0)))
    with ephemeral_postgres(settings={"fsync": "off"}) as dying:
        fill(dying.dsn)
        command = ["replay", str(log), "--map", str(routed), "--to", f"{dying.dsn},{shop}", "--pace", "fire-hose"]
        command += ["--again", "--duration", "7s", "--sessions", "2", "--max-errors", "100%", "--store", str(place)]
        process = subprocess.Popen(
            [sys.executable, "-m", "brickyard", *command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            measured(place)
            children = _processes(dying)
            for pid in children:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(2.5)
            for pid in children:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            out, _ = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    assert process.returncode == 0
    paces = json.loads(out)["replay"]["paces"]["fire hose"]
    dead, alive = paces["bricks"]
    length_s = 7.0
    assert dead["away_s"] > 2.5
    assert dead["calls_per_s"] == pytest.approx(dead["calls"] / (length_s - dead["away_s"]), rel=0.1)
    assert (alive["errors"], alive["away_s"]) == (0, 0)
    assert alive["calls_per_s"] == pytest.approx(alive["calls"] / length_s, rel=0.05)


def _processes(server: Server) -> list[int]:
    assert server.pid is not None
    told = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text()
    return [server.pid, *map(int, told.split())]


def test_a_mapped_path_of_another_method_is_told_as_that(
    mapping: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = tmp_path / "a.log"
    log.write_text(w3c(items(10, 1.0)).replace(" GET ", " POST ", 3))
    assert main(["replay", str(log), "--map", str(mapping), "--explain"]) == 0
    assert "POST /item (GET is mapped)" in capsys.readouterr().out


def test_table_7_is_one_runs(tmp_path: Path) -> None:
    source = "Barclay, Chong, Gray: A Quick Look at SATA Disk Performance, MSR-TR-2003-70"
    plan = {**support.plan(), "kind": "replay", "source": source, "replay": {"pace": {"kind": "fire_hose"}}}
    plan["phase"][0]["name"] = "fire hose"
    records = []
    with Store(tmp_path / "s.db") as store:
        for calls in (1000, 3000):
            share = {"driver": 0, "requests": calls, "errors": 0, "bytes": 0, "drain": False, "loop_busy_share": 0.1}
            told = {"event": "drivers", "phase": 0, "start_ns": 0, "end_ns": 10**9, "drivers": [share]}
            cell = support.cell([1_000_000] * calls, operation="call")
            end = support.phase_end(replay={"drivers": [driver_end()], "by_stream": []})
            run = support.add_run(store, [support.interval(0, 10**9, cell), told, end], plan_=plan)
            records.append(store.record(run))
    [(title, _, seven), (_, _, eight)] = tables.study_tables(records)
    assert "mean of 2 repetitions" in title
    assert seven[0][:6] == ["driver 1", "2,000", "2,000", "TS-WEB", "79", "1,892,377"]
    assert eight[-1][1] == "2,000"
    # What is compared are calls, which nobody counts as IOPS.
    titles = {change.figure.title for change in compare(records[:1], records[1:]).changes}
    assert "calls/s" in titles
    assert "IOPS" not in titles


def test_a_database_in_memory_says_nothing_about_disks(
    shop: str,
    mapping: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = tmp_path / "a.log"
    log.write_text(w3c(items(2000, 2.0)))
    arguments: list[str | Path] = ["--map", mapping, "--to", shop, "--pace", "both"]
    document, _ = replayed(capsys, log, *arguments, store=tmp_path / "s.db")
    room = document["replay"]["head_room"]["served"]
    assert room["from"] == "memory"
    assert room["database_bytes"] > 1 << 20
    assert room["memory_bytes"] > room["database_bytes"]
    assert any(w["id"] == "served_from_memory" for w in document["runs"][0]["warnings"])
    with Store(tmp_path / "s.db", must_exist=True) as kept:
        records = [kept.record(run["run"]) for run in document["runs"]]
    assert "the figures show nothing about the disks" in replay_head_room.verdict_lines(records)[0]
    assert main(["replay", str(log), *map(str, arguments), "--drop-caches"]) == 2
    assert "--manage" in capsys.readouterr().err


def test_caches_that_are_dropped_are_read_again(
    postgres: Server,
    mapping: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """200,000 items in a server that has just started: what is called comes from the disk, or from the page cache."""
    log, place = tmp_path / "a.log", tmp_path / "s.db"
    log.write_text(w3c([(36_000 + n / 1000, f"/item?id={n * 997 % 200_000}") for n in range(1500)]))
    with ephemeral_postgres(settings={"fsync": "off"}) as server:
        execute(server.dsn, "create table item (id int primary key, name text)")
        execute(server.dsn, "insert into item select n, repeat(md5(n::text), 9) from generate_series(0, 200000) n")
        execute(server.dsn, "vacuum analyze item")
        arguments: list[str | Path] = [log, "--map", mapping, "--to", server.dsn, "--pace", "fire-hose"]
        found = []
        for options in ([], ["--drop-caches", "--manage"]):
            server.stop()
            server.start()
            document, _ = replayed(capsys, *arguments, *options, store=place)
            found.append(document["replay"]["paces"]["fire hose"]["served"])
    warm, cold = found
    assert warm["from"] == "memory"
    assert cold["from"] == "disks"
    assert cold["disk_reads_per_call"] > 10 * warm["disk_reads_per_call"]


def test_a_server_keeps_to_its_control_group(tmp_path: Path) -> None:
    assert os.geteuid() == 0, "this test makes a control group: run it as root"
    with memory_group() as group:
        assert isinstance(group, MemoryGroup), group
        with ephemeral_postgres(settings={"fsync": "off", "shared_buffers": "16MB"}, group=group) as server:
            assert memory_of_server(str(server.data)) != ServerMemory(96 << 20, "control group")
            execute(server.dsn, "create table t as select repeat(md5(n::text), 30) from generate_series(1, 200000) n")
            server.stop()
            group.limit(96 << 20)
            server.start()
            assert memory_of_server(str(server.data)) == ServerMemory(96 << 20, "control group")
            execute(server.dsn, "select count(*) from t")
            inside = set(map(int, group.entrance.read_text().split()))
            assert server.pid in inside
        assert group.directory.is_dir()
    assert not group.directory.exists()
    with memory_group() as other:
        assert isinstance(other, MemoryGroup)
        other.limit(32 << 20)
        greedy = [sys.executable, "-c", 'bytearray(b"x") * (256 << 20)']
        command = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(other.entrance), *greedy]
        assert other.killed() == 0
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
        assert other.killed() == 1
        with pytest.raises(BadInputError, match="cannot be limited"):
            MemoryGroup(tmp_path / "none").limit(1 << 30)


def test_a_group_that_a_killed_process_left_goes_with_the_next(tmp_path: Path) -> None:
    code = """
import os, signal
from brickyard.databases.memory import memory_group
with memory_group() as group:
    print(group.directory, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    left = Path(done.stdout.strip())
    assert left.is_dir()
    with memory_group() as group:
        assert isinstance(group, MemoryGroup)
        assert not left.exists()
    with pytest.raises(BadInputError, match="no group that was made here"):
        outputs.remove_group(tmp_path)
    with pytest.raises(BadInputError, match="no hierarchy of control groups"):
        outputs.make_group(tmp_path)


def test_the_verdict_of_a_run_is_about_what_served_it() -> None:
    def words(reads: float | None, calls: int = 100, by_run: tuple[float, ...] = ()) -> str:
        runs = dict(enumerate(by_run, 3))
        found = replay_served.Served(reads, 0.0 if reads is not None else None, None, None, "", runs, calls)
        return replay_served.served_words(found)

    assert words(0.003) == "served from memory: 0.30 disk reads per 100 calls; the figures show nothing about the disks"
    assert words(0.85) == "served from the disks: 85.0 disk reads per 100 calls"
    assert words(0.6, by_run=(0.88, 0.32)).endswith("disks: 60.0 disk reads per 100 calls, by run 88.0, 32.0")
    mixed = "served from the disks in run 3 (110 disk reads per 100 calls), from memory in run 4 (0.34)"
    assert words(0.551, by_run=(1.1, 0.0034)) == mixed
    assert "in runs 4 and 5 (110 and 98.0 disk reads per 100" in words(0.07, by_run=(0.0034, 1.1, 0.98))
    assert "not known" in words(None)
    assert "no call was answered" in words(None, calls=0)

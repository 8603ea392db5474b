"""TerraServer whole: the demonstration, replays over bricks, loading as a measured load; on real servers."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from brickyard import _core
from brickyard.analysis.databases import replay_head_room, replay_pages
from brickyard.analysis.databases import terraserver as tables
from brickyard.cli import main
from brickyard.databases.ephemeral import Server, ephemeral_postgres
from brickyard.databases.layout import Layout
from brickyard.schema import Bound, PhaseEnd
from brickyard.store import Store

WAIT_S = 30.0
PATHS = ("/tile.ashx", "/image.aspx", "/download.aspx", "/imageinfo.aspx", "/famous.aspx")


@pytest.fixture(scope="module")
def volume() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="volume-", dir="/var/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def test_the_demonstration_prints_both_tables_and_the_head_room(
    volume: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "runs.db"
    arguments = ["--size", "8MiB", "--seconds", "2", "--repeat", "1", "--place", str(volume), "--store", str(place)]
    drawn = tmp_path / "drawn"
    assert main(["terraserver", "demo", *arguments, "--set", "fsync=off", "-o", str(drawn)]) == 0
    out, _ = capfd.readouterr()
    assert list(volume.iterdir()) == []
    assert f"report: {drawn / 'report.html'}" in "".join(out.splitlines())
    assert "Table 7. Calls per second" in (drawn / "report.html").read_text()
    for said in (
        "Table 7",
        "Table 8a",
        "Table 8b",
        "driver 4",
        "TWEB4",
        "1,606,854",
        "imageinfo",
        "Headroom",
        "served from",
    ):
        assert said in out
    assert out.index("Fire hose:") < out.index("Headroom") < out.index("Table 7"), "the answer comes first"
    with Store(place) as store:
        [study] = store.studies()
        records = [store.record(run) for run in study.runs]
    assert study.about["server"]["settings"]["fsync"] == "off"
    assert [record.info.outcome for record in records] == ["done", "done"]
    fire, timed = records
    # Its server and its logs lie somewhere else each time; by what records call them, its runs are one history.
    for info in (fire.info, timed.info):
        assert info.targets == ["terraserver-demo"]
        assert not any("/" in log for log in info.plan_document["replay"]["logs"])
        assert str(volume) not in json.dumps([info.plan_document, info.targets, info.options])
    assert main(["history", "terraserver-demo", "--store", str(place), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["target"] == "terraserver-demo"
    # Every call found its tile: none failed, none gave another number of rows than the mapping expects.
    for record in records:
        every = replay_pages.pages([record])[-1]
        assert every.calls > 100
        assert every.errors == every.diverged == 0
    rows = tables.throughput_rows([fire])
    assert [row[0] for row in rows] == ["driver 1", "driver 2", "driver 3", "driver 4", "average", "together"]
    calls = [int(row[2].replace(",", "")) for row in rows]
    assert sum(calls[:4]) == calls[5] == replay_pages.pages([fire])[-1].calls
    assert tables.response_rows([timed])[0][0] == "tile"
    room = replay_head_room.head_room(records)
    assert room is not None
    assert room.factor > 1
    # A database of 8 MiB fits in what the server is limited to, and its verdict says so.
    memory = fire.info.engine["targets"][0]["memory"]
    assert memory["set_by"] == "control group"
    assert 224 << 20 <= memory["bytes"] < 226 << 20
    assert main(["report", "s1", "--store", str(place), "-o", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    for said in ("Table 7. Calls per second", "Table 8b", "1,892,377", "1,606,854"):
        assert said in page
    assert "password" not in json.dumps([fire.info.plan_document, fire.info.targets, fire.info.options])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seconds", "0"], "--seconds 0"),
        (["--set", "fsync"], "NAME=VALUE"),
        (["--place", "/nowhere"], "/nowhere: no such directory"),
        (["--to", "postgresql://a/x", "--set", "fsync=off"], "--to names a server of yours"),
        (["--set", "bogus=1"], 'parameter "bogus"'),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["terraserver", "demo", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]


def test_a_replay_over_three_bricks_finds_every_tile_on_its_brick(
    postgres: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = [f"spread{number}" for number in range(3)]
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        for name in names:
            connection.execute(f"create database {name}".encode())
        try:
            to = ",".join(postgres.dsn_of(name) for name in names)
            place, mapping = tmp_path / "runs.db", tmp_path / "terra.toml"
            assert main(["terraserver", "load", "--to", to, "--size", "8MiB"]) == 0
            assert main(["terraserver", "mapping", "--to", to, "-o", str(mapping)]) == 0
            logs = ["--servers", "1", "--requests", "4000", "-o", str(tmp_path / "logs")]
            assert main(["terraserver", "traffic", "--to", to, *logs]) == 0
            [log] = (tmp_path / "logs").iterdir()
            arguments = ["--map", str(mapping), "--to", to, "--pace", "fire-hose", "--store", str(place), "--json"]
            capfd.readouterr()
            assert main(["replay", str(log), *arguments]) == 0
            told = json.loads(capfd.readouterr().out)["replay"]["paces"]["fire hose"]
            asked = sum(line.split(" ")[4] in PATHS for line in log.read_text().splitlines() if line[0] != "#")
            assert sum(page["calls"] for page in told["bricks"]) == asked > 3800
            assert all(page["calls"] > 300 for page in told["bricks"])
            assert sum(page["diverged"] + page["errors"] for page in told["bricks"]) == 0
            text = mapping.read_text()
            for page in ("tile", "download"):
                for group in Layout(8 << 20, 3).groups:
                    parameters = {"T": str(group.theme), "S": "12", "X": "5", "Y": "5", "Z": str(group.scene), "W": "1"}
                    assert _core.replay_route(text, page, parameters, 3) == group.brick
        finally:
            for name in names:
                connection.execute(f"drop database if exists {name} with (force)".encode())


def test_loading_is_a_measured_load_too(postgres: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "runs.db"
    size, layout = "2MiB", Layout(2 << 20)
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("create database measured")
        try:
            dsn = postgres.dsn_of("measured")
            load = ["terraserver", "load", "--to", dsn, "--size", size]
            # Some tiles, then the others, then a new version of each.
            assert main([*load, "--measured", "--duration", "50ms", "--store", str(place)]) == 0
            for _ in range(2):
                assert main([*load, "--measured", "--workers", "2", "--store", str(place)]) == 0
            assert "tiles/s" in capfd.readouterr().err
            with psycopg.connect(dsn) as inside:
                found = inside.execute(
                    "select count(*), count(distinct (theme, scale, scene, x, y)), min(version) from terraserver.tile"
                ).fetchone()
            assert found is not None
            assert found[:2] == (layout.tiles, layout.tiles)
            assert found[2] >= 2
            assert main(["terraserver", "load", "--to", dsn, "--size", size, "--json"]) == 0
            assert json.loads(capfd.readouterr().out)["bytes"] == 0
            assert main(["show", "latest", "--store", str(place)]) == 0
        finally:
            connection.execute("drop database if exists measured with (force)")
    with Store(place) as store:
        records = [store.record(info.id) for info in sorted(store.runs(), key=lambda info: info.id)]
    assert [record.info.outcome for record in records] == ["done"] * 3
    for end in (end for record in records for end in record.of(PhaseEnd)):
        # A value that its readers know, where the loader was the limit; never prose.
        assert (end.generator_bound_reason is Bound.CPU) is end.generator_bound
    once = [item for item in records[-1].intervals if item.measure == "service"]
    assert {item.operation for item in once} == {"load"}
    assert sum(item.requests for item in once) == layout.tiles
    assert all(item.p50_ns > 0 for item in once if item.requests)


def kill_once_some_tiles_are_there(server: Server) -> None:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            with psycopg.connect(server.dsn) as connection:
                found = connection.execute("select count(*) from terraserver.tile").fetchone()
                if found is not None and found[0] > 20:
                    break
        except psycopg.Error:
            pass  # no schema yet
        time.sleep(0.05)
    server.kill()


def test_a_measured_load_keeps_what_it_measured_when_the_server_dies(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "runs.db"
    with ephemeral_postgres(tcp=True, settings={"fsync": "off"}) as server:
        killer = threading.Thread(target=kill_once_some_tiles_are_there, args=(server,))
        killer.start()
        load = ["terraserver", "load", "--to", server.dsn, "--size", "400MiB", "--measured", "--store", str(place)]
        assert main(load) == 1
        killer.join()
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    assert server.password is not None
    assert server.password not in out + err
    with Store(place) as store:
        [info] = store.runs()
        record = store.record(info.id)
    assert info.outcome == "failed"
    assert sum(item.requests for item in record.intervals if item.measure == "service") > 0
    assert server.password.encode() not in place.read_bytes()

"""The TerraServer database: real tiles, each where its address says, on a real server; only what is ours is dropped."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
import tomllib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Picture

from brickyard.cli import main
from brickyard.databases import jpeg
from brickyard.databases.connect import split_dsns, spoken
from brickyard.databases.ephemeral import Server, ephemeral_postgres
from brickyard.databases.layout import SCALES, Layout, Tiles, tile_of
from brickyard.databases.terraserver import mapping_text

MIB = 1 << 20
SIZE = 6 * MIB
WAIT_S = 30.0


@pytest.fixture
def database(postgres: Server, request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Makes databases on the shared server, and takes them away again."""
    made = []

    def make(name: str) -> str:
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute(f'create database "{name}"'.encode())
        made.append(name)
        return postgres.dsn_of(name)

    yield make
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        for name in made:
            connection.execute(f'drop database "{name}" with (force)'.encode())


@pytest.fixture(scope="module")
def loaded(postgres: Server) -> Iterator[str]:
    """One small brick, which no test changes."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("create database loaded")
    assert main(["terraserver", "load", "--to", postgres.dsn_of("loaded"), "--size", str(SIZE)]) == 0
    yield postgres.dsn_of("loaded")
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("drop database loaded with (force)")


def rows(dsn: str, query: str, *values: object) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(query.encode(), values or None).fetchall()


def addresses(layout: Layout) -> set[tuple[int, int, int, int, int]]:
    return {(part.theme, part.scale, part.scene, x, y) for part in layout.pyramid for x, y in part.addresses()}


# Pictures


@pytest.mark.parametrize("theme", list(SCALES))
def test_a_tile_is_a_jpeg_of_its_size_that_any_decoder_reads(theme: int) -> None:
    for number in range(3 * jpeg.BASES):
        tile = jpeg.make_tile(theme, jpeg.tile_key(1, theme, 12, 10, number, 7, 1))
        with Picture.open(io.BytesIO(tile)) as picture:
            picture.load()
            assert picture.size == (200, 200)
            assert picture.format == "JPEG"
            assert len(picture.convert("L").getcolors() or []) > 50  # something is to be seen
        assert 7_500 <= len(tile) <= 10_240


def test_tiles_differ_from_each_other_and_do_not_compress() -> None:
    keys = [jpeg.tile_key(1, 1, 10, 10, x, y, 1) for x in range(50) for y in range(50)]
    tiles = [jpeg.make_tile(1, key) for key in keys]
    assert len(set(tiles)) == len(tiles)
    assert tiles == [jpeg.make_tile(1, key) for key in keys]
    whole = b"".join(tiles[:400])
    assert len(zlib.compress(whole, 9)) > 0.95 * len(whole)


@given(st.integers(0, 2**128 - 1), st.sampled_from(list(SCALES)))
def test_no_tile_has_a_marker_within_its_picture(key: int, theme: int) -> None:
    tile = jpeg.make_tile(theme, key)
    scan = tile.index(b"\xff\xda")
    coded = tile[scan + 2 + int.from_bytes(tile[scan + 2 : scan + 4], "big") : -2]
    assert tile[-2:] == b"\xff\xd9"
    assert all(coded[at + 1] == 0 for at, byte in enumerate(coded[:-1]) if byte == 0xFF)


# Addresses


def test_addresses_are_those_of_terraserver() -> None:
    # 1 m a pixel: the Statue of Liberty at 580736 E, 4504695 N of zone 18.
    assert tile_of(1, 10, 580_736, 4_504_695) == (2903, 22523)
    assert tile_of(4, 8, 580_736, 4_504_695) == (11614, 90093)
    assert tile_of(2, 21, 580_736, 4_504_695) == (1, 10)


@pytest.mark.parametrize("mib", [3, 10, 100, 2048, 1 << 20])
def test_a_layout_has_the_size_that_was_asked_for_and_whole_pyramids(mib: int) -> None:
    layout = Layout(mib * MIB, 3)
    there = sum(part.count * jpeg.mean_tile_bytes(part.theme) for part in layout.pyramid)
    assert abs(there / (mib * MIB) - 1) < (0.15 if mib < 10 else 0.04)
    if mib > 100:
        return
    found = addresses(layout)
    assert len(found) == layout.tiles
    for theme, scale, scene, x, y in found:
        if scale + 1 in SCALES[theme]:
            assert (theme, scale + 1, scene, x // 2, y // 2) in found


def test_bricks_share_all_tiles_and_no_theme_of_a_zone_is_split() -> None:
    layout = Layout(200 * MIB, 3)
    shares = [[part for unit in layout.units(brick) for part in unit] for brick in range(3)]
    counts = [sum(part.count for part in share) for share in shares]
    assert sum(counts) == layout.tiles
    assert max(counts) < 1.1 * min(counts)
    homes: dict[tuple[int, int], set[int]] = {}
    for brick, share in enumerate(shares):
        for part in share:
            homes.setdefault((part.theme, part.scene), set()).add(brick)
    assert all(len(bricks) == 1 for bricks in homes.values())


# The database


def test_every_tile_of_the_layout_is_there_and_out_of_line(loaded: str) -> None:
    found = rows(loaded, "select theme, scale, scene, x, y from terraserver.tile")
    assert len(found) == len(set(found))
    assert set(found) == addresses(Layout(SIZE))
    [(size, compressed)] = rows(
        loaded,
        "select sum(octet_length(picture)), count(pg_column_compression(picture)) from terraserver.tile",
    )
    assert abs(size / SIZE - 1) < 0.15
    assert compressed == 0
    [(main_fork,)] = rows(loaded, "select pg_relation_size('terraserver.tile')")
    assert main_fork < size / 20


def test_pages_answer_with_what_they_show(loaded: str) -> None:
    layout = Layout(SIZE)
    image = next(image for image in layout.images if image.theme == 1)
    base = image.base
    where = f"{base.theme}::int2, {base.scale}::int2, {base.x + 2}, {base.y + 1}, {base.scene}::int2"
    [(kind, version, picture)] = rows(loaded, f"select * from terraserver.tile({where})")
    assert (kind, version) == ("image/jpeg", 1)
    assert picture == jpeg.make_tile(1, jpeg.tile_key(1, 1, base.scale, base.scene, base.x + 2, base.y + 1, 1))
    for width, tiles in ((1, 6), (2, 12), (3, 12)):  # the third one's window is wider than this city of 4 × 4 tiles
        shown = rows(loaded, f"select x, y, title from terraserver.image({where}, {width}::int2)")
        assert len(shown) == tiles
        assert {title for _, _, title in shown} == {image.title}
        whole = rows(loaded, f"select x, y, picture from terraserver.download({where}, {width}::int2)")
        assert {(x, y) for x, y, _ in whole} == {(x, y) for x, y, _ in shown}
        assert all(picture.startswith(b"\xff\xd8") for _, _, picture in whole)
    [info] = rows(loaded, f"select title, metres_per_pixel, tile_bytes from terraserver.image_info({where})")
    assert info == (image.title, 1.0, len(picture))
    assert len(rows(loaded, "select * from terraserver.famous()")) == 64
    assert [name for (name,) in rows(loaded, "select name from terraserver.find_place('hoover%')")] == []
    assert [name for (name,) in rows(loaded, "select name from terraserver.find_place('HOOVER')")] == ["Hoover Dam"]
    assert rows(loaded, "select * from terraserver.tile(1::int2, 10::int2, 5, 5, 10::int2)") == []


def test_loading_a_tile_again_puts_a_new_version_in_the_place_of_the_old_one(database: Callable[[str], str]) -> None:
    dsn = database("versions")
    assert main(["terraserver", "load", "--to", dsn, "--size", "2MiB"]) == 0
    base = Layout(2 * MIB).images[0].base
    where = f"{base.theme}::int2, {base.scale}::int2, {base.x}, {base.y}, {base.scene}::int2"
    with psycopg.connect(dsn, autocommit=True) as connection:
        before = connection.execute("select count(*) from terraserver.tile").fetchone()
        for version in (2, 3):
            told = connection.execute(
                f"select terraserver.load({where}, {base.image}, 'picture {version}'::bytea)".encode()
            ).fetchone()
            assert told == (version,)
        found = connection.execute(f"select version, picture from terraserver.tile({where})".encode()).fetchall()
        assert found == [(3, b"picture 3")]
        assert connection.execute("select count(*) from terraserver.tile").fetchone() == before
        with pytest.raises(psycopg.errors.ForeignKeyViolation, match="image 99999"):
            connection.execute(f"select terraserver.load({where}, 99999, 'lost'::bytea)".encode())
        assert connection.execute(f"select picture from terraserver.tile({where})".encode()).fetchone() == (
            b"picture 3",
        )


def test_a_killed_load_goes_on_where_it_stopped(database: Callable[[str], str]) -> None:
    dsn = database("killed")
    size = "60MiB"
    command = [sys.executable, "-m", "brickyard", "terraserver", "load", "--to", dsn, "--size", size, "--workers", "1"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + WAIT_S
        units = 0
        while units < 2 and child.poll() is None:
            assert time.monotonic() < deadline
            try:
                [(units,)] = rows(dsn, "select count(*) from terraserver.loaded")
            except psycopg.errors.UndefinedTable:
                time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
    finally:
        child.kill()
        child.wait(WAIT_S)
    there = int(rows(dsn, "select coalesce(sum(tiles), 0) from terraserver.loaded")[0][0])
    layout = Layout(60 * MIB)
    assert 0 < there < layout.tiles
    assert main(["terraserver", "load", "--to", dsn, "--size", size]) == 0
    found = rows(dsn, "select theme, scale, scene, x, y from terraserver.tile")
    assert len(found) == layout.tiles
    assert set(found) == addresses(layout)


def test_a_load_that_is_complete_brings_nothing_and_another_one_is_refused(
    loaded: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["terraserver", "load", "--to", loaded, "--size", str(SIZE), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["finished"] is True
    assert told["bytes"] == 0
    assert told["tiles"] == told["tiles_resumed"] == Layout(SIZE).tiles
    assert main(["terraserver", "load", "--to", loaded, "--size", "9MiB"]) == 2
    assert "holds another TerraServer" in capsys.readouterr().err


def test_only_what_brickyard_made_is_dropped(
    database: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    dsn = database("foreign")
    assert main(["terraserver", "drop", "--to", dsn]) == 0
    assert "no TerraServer" in capsys.readouterr().out
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create schema terraserver")
        connection.execute("create table terraserver.tile (precious text)")
    for verb in (["drop"], ["load", "--size", "2MiB"], ["mapping"]):
        assert main(["terraserver", *verb, "--to", dsn]) == 2
        assert "did not make" in capsys.readouterr().err
    assert rows(dsn, "select count(*) from terraserver.tile") == [(0,)]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop schema terraserver cascade")
        connection.execute("create table precious (value int)")
    assert main(["terraserver", "load", "--to", dsn, "--size", "2MiB"]) == 0
    assert main(["terraserver", "drop", "--to", dsn]) == 0
    assert rows(dsn, "select count(*) from pg_namespace where nspname = 'terraserver'") == [(0,)]
    assert rows(dsn, "select count(*) from precious") == [(0,)]


# Bricks


def first_route(mapping: dict[str, Any], parameters: dict[str, str]) -> int:
    """The rule of the contract: the first route all of whose conditions hold."""
    for route in mapping["route"]:
        if all(parameters.get(name) == value for name, value in route.get("where", {}).items()):
            return int(route["brick"])
    raise AssertionError("no route takes it")


def test_each_tile_is_on_the_brick_to_which_the_mapping_sends_its_call(
    database: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    dsns = [database(f"brick{number}") for number in range(3)]
    assert main(["terraserver", "load", "--to", ",".join(dsns), "--size", "8MiB"]) == 0
    capsys.readouterr()
    assert main(["terraserver", "mapping", "--to", ",".join(dsns)]) == 0
    mapping = tomllib.loads(capsys.readouterr().out)
    found: set[tuple[int, ...]] = set()
    for number, dsn in enumerate(dsns):
        here = rows(dsn, "select theme, scale, scene, x, y from terraserver.tile")
        assert here
        found.update(here)
        for theme, scene in {(tile[0], tile[2]) for tile in here}:
            assert first_route(mapping, {"T": str(theme), "S": "12", "Z": str(scene)}) == number
        assert len(rows(dsn, "select * from terraserver.famous()")) == 64
    assert found == addresses(Layout(8 * MIB, 3))
    assert first_route(mapping, {}) == 0
    assert main(["terraserver", "mapping", "--to", ",".join(reversed(dsns))]) == 2
    assert "in the order in which they were loaded" in capsys.readouterr().err
    assert main(["terraserver", "mapping", "--to", dsns[0]]) == 2
    assert "brick 1 of 3" in capsys.readouterr().err


def test_the_mapping_names_functions_that_there_are_with_their_types(loaded: str) -> None:
    mapping = tomllib.loads(mapping_text(Layout(SIZE)))
    assert [call["page"] for call in mapping["call"]] == ["tile", "image", "download", "imageinfo", "famous"]
    for call in mapping["call"]:
        sql = call["sql"]
        types = []
        for number, (name, parameter) in enumerate(call.get("parameters", {}).items(), start=1):
            sql = sql.replace(f":{name}", f"${number}")
            types.append(parameter["type"])
        prepare = f"prepare page({', '.join(types)}) as {sql}" if types else f"prepare page as {sql}"
        with psycopg.connect(loaded) as connection:
            connection.execute(prepare.encode())


# What a user gets wrong


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["load", "--to", "postgresql://me:secret@127.0.0.1:1/x"], "cannot be reached"),
        (["load", "--to", "postgresql://me:sec/ret@127.0.0.1/x"], "holds an @ or a /"),
        (["load", "--to", "host=127.0.0.1 password=secret port=1 junk"], "not a DSN"),
        (["load", "--to", "postgresql://a/x,postgresql://a/x"], "same database twice"),
        (["load", "--to", "postgresql://a/x,"], "empty DSN"),
        (["load", "--to", "postgresql://a/x", "--size", "lots"], "--size"),
        (["load", "--to", "postgresql://a/x", "--size", "1KiB"], "larger size"),
        (["load", "--to", "postgresql://a/x", "--size", "100PiB"], "more than there is room for"),
        (["load", "--to", "postgresql://a/x", "--workers", "0"], "--workers"),
        (["traffic"], "--to"),
        (["traffic", "--size", "8MiB", "--first-day", "Monday"], "--first-day"),
        (["traffic", "--size", "8MiB", "--servers", "0"], "--servers"),
        (["traffic", "--size", "8MiB", "--misses", "100"], "--misses"),
        (["traffic", "--size", "8MiB", "-o", "/dev/null/logs"], "/dev/null"),
        (["mapping", "-o", "/nowhere/mapping.toml"], "cannot be written"),
    ],
)
def test_a_mistake_is_one_line_without_any_password(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["terraserver", *arguments]) == 2
    err = capsys.readouterr().err
    lines = [line for line in err.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1
    assert said in lines[0]
    assert "secret" not in err
    assert "ret@" not in err


def test_a_dsn_is_told_without_its_password() -> None:
    assert spoken("postgresql://me:secret@db.example:5433/terra") == "postgresql://me@db.example:5433/terra"
    assert spoken("host=db.example user=me password='se cret' dbname=terra") == "postgresql://me@db.example/terra"
    assert spoken("postgresql://me@/terra?host=/run/pg") == "postgresql://me@/terra?host=/run/pg"
    assert split_dsns("postgresql://a,b/x,postgresql://c/x") == ["postgresql://a,b/x", "postgresql://c/x"]


def test_a_server_that_dies_during_a_load_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with ephemeral_postgres(settings={"fsync": "off"}, tcp=True) as server:
        command = [sys.executable, "-m", "brickyard", "terraserver", "load", "--to", server.dsn, "--size", "400MiB"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + WAIT_S
            while child.poll() is None and time.monotonic() < deadline:
                try:
                    if rows(server.dsn, "select 1 from terraserver.loaded limit 1"):
                        break
                except psycopg.Error:
                    time.sleep(0.02)
            server.kill()
            out, err = child.communicate(timeout=WAIT_S)
        finally:
            child.kill()
            child.wait(WAIT_S)
    assert child.returncode == 1
    complaint = [line for line in err.splitlines() if line.startswith("brickyard: ")]
    assert len(complaint) == 1
    assert "Traceback" not in err
    assert server.password is not None
    assert server.password not in out + err


def test_units_never_change_their_numbers() -> None:
    # A load that goes on trusts that unit 7 today is unit 7 of the Brickyard that was killed.
    units = Layout(60 * MIB).units(0)
    assert len(units) == 14
    assert units[0][0] == Tiles(0, 1, 10, 18, 2896, 22520, 8, 8)
    assert sum(part.count for part in units[3]) == 512

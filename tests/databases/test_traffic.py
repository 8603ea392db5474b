"""Made logs: the study's mix of pages, Zipf's popularity, the day's curve, visits of one client in one piece."""

from __future__ import annotations

import datetime
import json
import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

from brickyard.analysis.databases.terraserver import STUDY_CALLS
from brickyard.cli import main
from brickyard.databases.ephemeral import Server
from brickyard.databases.layout import Layout
from brickyard.databases.traffic import (
    HOURS,
    WINDOW_TILES,
    Traffic,
    spots_of,
    write_log,
    zipf_weights,
)

MIB = 1 << 20
SIZE = 200 * MIB
PAGES = {
    "/tile.ashx": "tile",
    "/image.aspx": "image",
    "/download.aspx": "download",
    "/imageinfo.aspx": "imageinfo",
    "/famous.aspx": "famous",
}
# Chi-squared at 0.1 %: what chance exceeds once in a thousand seeds; the seed is fixed.
CRITICAL = {4: 18.5, 23: 49.7}


@dataclass(frozen=True)
class Line:
    at: datetime.datetime
    server: str
    page: str
    query: dict[str, int]
    client: str
    status: int


def parsed(text: str) -> list[Line]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    made = []
    for line in lines:
        date, time, server, method, path, query, port, client, _, status = line.split(" ")
        assert (method, port) == ("GET", "80")
        pairs = [pair.split("=") for pair in query.split("&")] if query != "-" else []
        at = datetime.datetime.fromisoformat(f"{date} {time}")
        made.append(Line(at, server, path, {k: int(v) for k, v in pairs}, client, int(status)))
    return made


def traffic(**changes: Any) -> Traffic:
    return Traffic(
        **{
            "layout": Layout(SIZE),
            "seed": 5,
            "requests": 150_000,
            "servers": 1,
            "days": 1,
            "first_day": datetime.date(2003, 6, 2),
            "theta": 1.0,
            "misses": 0.0,
            "others": 0.03,
            **changes,
        }
    )


def log_of(wanted: Traffic, server: int = 0, day: int = 0) -> str:
    spots = spots_of(wanted.layout, wanted.seed)
    return "".join(write_log(wanted, spots, zipf_weights(len(spots), wanted.theta), server, day))


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    return parsed(log_of(traffic()))


def chi_squared(found: dict[Any, float], expected: dict[Any, float]) -> float:
    return sum((found.get(key, 0) - value) ** 2 / value for key, value in expected.items())


def visits(lines: list[Line]) -> dict[str, list[Line]]:
    made: dict[str, list[Line]] = {}
    for line in lines:
        made.setdefault(line.client, []).append(line)
    return made


def people(lines: list[Line]) -> list[list[Line]]:
    return [visit for visit in visits(lines).values() if any(line.page == "/image.aspx" for line in visit)]


def test_pages_come_in_the_study_s_proportions(lines: list[Line]) -> None:
    found = Counter(PAGES[line.page] for line in lines if line.page in PAGES)
    total = sum(found.values())
    study = sum(STUDY_CALLS.values())
    assert chi_squared(dict(found), {page: total * calls / study for page, calls in STUDY_CALLS.items()}) < CRITICAL[4]
    assert len(lines) == 150_000
    assert total / len(lines) == pytest.approx(0.97, abs=0.002)


def test_visits_begin_at_places_by_zipf_s_law(lines: list[Line]) -> None:
    for theta in (1.0, 0.6):
        wanted = traffic(theta=theta, requests=400_000)
        begun = Counter[tuple[int, ...]]()
        for visit in people(parsed(log_of(wanted)) if theta != 1.0 else lines):
            query = next(line.query for line in visit if line.page == "/image.aspx")
            begun[query["T"], query["S"], query["X"], query["Y"], query["Z"]] += 1
        spots = spots_of(wanted.layout, wanted.seed)
        weights = [1 / rank**theta for rank in range(1, len(spots) + 1)]
        total, all_begun = sum(weights), sum(begun.values())
        # Ranks in bands that double: each has enough visits to compare, and the slope shows over the whole range.
        for first in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
            band = range(first, min(2 * first, len(spots) + 1))
            found = sum(begun[s.image.theme, s.scale, s.x, s.y, s.image.scene] for s in (spots[r - 1] for r in band))
            expected = all_begun * sum(weights[rank - 1] for rank in band) / total
            assert abs(found - expected) < 4 * math.sqrt(expected) + 1, (theta, first)


def test_the_day_has_its_curve_and_monday_is_the_busiest(lines: list[Line]) -> None:
    begun = Counter(min(line.at for line in visit).hour for visit in visits(lines).values())
    # Between full hours the curve is straight, so an hour's mean lies a little past its beginning.
    shares = {hour: HOURS[hour] * 2.5 + HOURS[(hour + 1) % 24] * 1.5 for hour in range(24)}
    total = sum(begun.values())
    expected = {hour: total * share / sum(shares.values()) for hour, share in shares.items()}
    assert chi_squared(dict(begun), expected) < CRITICAL[23]
    counts = [log_of(traffic(requests=2_000, days=7), day=day).count("\n") for day in range(7)]
    assert counts[0] == max(counts) == 2_004
    assert len(set(counts)) == 7


def test_a_visit_is_in_one_piece_on_one_server_and_lines_are_in_order() -> None:
    wanted = traffic(requests=20_000, servers=3)
    clients: set[str] = set()
    for server in range(3):
        found = parsed(log_of(wanted, server))
        assert [line.at for line in found] == sorted(line.at for line in found)
        assert {line.server for line in found} == {f"192.168.0.{server + 1}"}
        own = visits(found)
        assert not clients & set(own)
        clients |= set(own)
        for visit in own.values():
            pauses = [(after.at - before.at).total_seconds() for before, after in pairwise(visit)]
            assert max(pauses, default=0) <= 90  # the longest pause, and the second in which tiles come
            assert len({(line.query["T"], line.query["Z"]) for line in visit if line.query}) <= 3


def test_tiles_follow_their_page_and_people_pan_and_zoom(lines: list[Line]) -> None:
    moves = Counter[str]()
    for visit in people(lines):
        page: Line | None = None
        for line in visit:
            if line.page == "/image.aspx":
                if page is not None:
                    before, after = page.query, line.query
                    kind = "theme" if before["T"] != after["T"] else f"zoom {after['S'] - before['S']}"
                    moves[kind if kind != "zoom 0" else "pan"] += 1
                page = line
            elif line.page == "/tile.ashx":
                assert page is not None
                wide, high = WINDOW_TILES[page.query["W"]]
                assert abs(line.query["X"] - page.query["X"]) <= wide // 2
                assert abs(line.query["Y"] - page.query["Y"]) <= (high + 1) // 2
                assert line.query["S"] == page.query["S"]
    assert set(moves) == {"pan", "zoom -1", "zoom 1", "theme"}
    assert moves["pan"] > moves["zoom -1"] > moves["theme"] > 0


def test_every_tile_is_one_of_the_layout_s_but_for_the_misses_that_were_asked_for(lines: list[Line]) -> None:
    there = {(part.theme, part.scale, part.scene, x, y) for part in Layout(SIZE).pyramid for x, y in part.addresses()}

    def is_there(line: Line) -> bool:
        return tuple(line.query[name] for name in "TSZXY") in there

    asked = [line for line in lines if line.page in ("/tile.ashx", "/download.aspx", "/imageinfo.aspx")]
    assert all(is_there(line) and line.status == 200 for line in asked)
    some = [line for line in parsed(log_of(traffic(misses=0.1, requests=30_000))) if line.page == "/tile.ashx"]
    missed = [line for line in some if not is_there(line)]
    assert len(missed) / len(some) == pytest.approx(0.1, abs=0.01)
    assert all(line.status == 404 for line in missed)


def test_same_seed_same_log_and_another_seed_another() -> None:
    wanted = traffic(requests=3_000)
    assert log_of(wanted) == log_of(wanted)
    assert log_of(wanted) != log_of(traffic(requests=3_000, seed=6))
    assert log_of(wanted).splitlines()[4:] != log_of(traffic(requests=3_000, servers=2), server=1).splitlines()[4:]


def test_powers_from_square_roots_are_powers() -> None:
    for theta in (0.0, 0.5, 0.8, 1.0, 1.25, 2.0):
        weights = zipf_weights(1000, theta)
        for rank in (2, 10, 1000):
            assert weights[rank - 1] - weights[rank - 2] == pytest.approx(rank**-theta, rel=0.01)


def test_the_command_writes_a_log_for_each_server_and_day(
    tmp_path: Path, postgres: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("create database traffic")
    try:
        dsn = postgres.dsn_of("traffic")
        assert main(["terraserver", "load", "--to", dsn, "--size", "8MiB"]) == 0
        capsys.readouterr()
        arguments = ["--servers", "2", "--days", "2", "--requests", "4000", "-o", str(tmp_path / "logs"), "--json"]
        assert main(["terraserver", "traffic", "--to", dsn, *arguments]) == 0
        told = json.loads(capsys.readouterr().out)
        assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [
            "web1-2003-06-02.log",
            "web1-2003-06-03.log",
            "web2-2003-06-02.log",
            "web2-2003-06-03.log",
        ]
        assert told["requests"] == 2 * (4000 + 3880)
        found = parsed((tmp_path / "logs" / "web1-2003-06-02.log").read_text())
        with psycopg.connect(dsn) as connection:
            for visit in people(found)[:20]:
                page = next(line for line in visit if line.page == "/image.aspx")
                shown = connection.execute(
                    "select x, y from terraserver.image(%s::int2, %s::int2, %s, %s, %s::int2, %s::int2)",
                    [page.query[name] for name in "TSXYZW"],
                ).fetchall()
                asked = {(line.query["X"], line.query["Y"]) for line in visit if line.page == "/tile.ashx"}
                assert shown
                assert asked >= set(shown)
    finally:
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute("drop database traffic with (force)")

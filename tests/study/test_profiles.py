"""The shipped profiles say what their sources say."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from brickyard import profiles, rulers
from brickyard.analysis.judging.without_rate import SIZES_BYTES
from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.schema import plan_document
from brickyard.schema.plan import Plan, Trace
from brickyard.store import Store
from brickyard.study.designs import texts
from brickyard.study.running.forecast import forecast, forecast_lines
from brickyard.study.shipped.characterize import Cell, Mode, cells, plan_of

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize("name", profiles.names())
def test_every_shipped_profile_is_valid_and_names_its_source(name: str) -> None:
    plan = plan_document(profiles.validate(profiles.read(name), []))
    assert plan["title"]
    assert plan["source"]
    assert plan["about"]


@pytest.mark.parametrize(
    ("name", "operation", "address", "request_bytes", "depth"),
    [
        ("sqlio-random-read-1", "read", "random", 8192, 1),
        ("sqlio-random-read-4", "read", "random", 8192, 4),
        ("sqlio-random-write-1", "write", "random", 8192, 1),
        ("sqlio-random-write-4", "write", "random", 8192, 4),
        ("sqlio-sequential-read-4", "read", "sequential", 65536, 4),
        ("sqlio-sequential-write-4", "write", "sequential", 65536, 4),
    ],
)
def test_the_sqlio_loads_are_those_of_the_study(
    name: str, operation: str, address: str, request_bytes: int, depth: int
) -> None:
    plan = plan_document(profiles.validate(profiles.read(name), []))
    (phase,) = plan["phase"]
    (stream,) = phase["stream"]
    assert stream["operations"][operation] == 100
    assert stream["address"]["kind"] == address
    assert stream["request"] == [{"size": request_bytes, "share": 100.0}]
    assert (stream["workers"], stream["depth"]) == (1, depth)
    assert phase["duration"] == "60000000000ns"


def test_a_title_names_what_the_user_changed_of_the_load(capsys: pytest.CaptureFixture[str]) -> None:
    text = profiles.read("sqlio-random-read-4")
    own = "SQLIO: random reads, 8 KiB, 4 deep"
    assert profiles.changed(text, ["depth=8", "depth=32", "request = 64KiB", "seed=3"], ["duration=9s"]).title == (
        f"{own}, but depth=32, request=64KiB"
    )
    assert profiles.changed(text, ["depth=4", "seed=3", "engine=psync"]).title == own
    assert profiles.changed(text, ["depth=8", 'title="mine"']).title == "mine"
    assert (
        main(["run", "sqlio-random-read-4", "sim:terraserver-2003", "--set", "depth=32", "--set", "duration=2s"]) == 0
    )
    assert f"Run 1, {own}, but depth=32, duration=2s on sim:terraserver-2003: read " in " ".join(
        capsys.readouterr().out.split()
    )
    assert main(["runs"]) == 0
    assert " depth=32, duration=2s " in capsys.readouterr().out


def test_the_characterization_covers_every_size_and_pattern_once() -> None:
    found = cells()
    assert SIZES_BYTES == (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576)
    assert len(found) == len(set(found)) == 48


@pytest.mark.parametrize("mode", list(Mode))
def test_a_cell_is_the_template_with_its_own_load(mode: Mode) -> None:
    plan = plan_document(plan_of(Cell("sequential", "write", 65536), mode, 0.6, ["seed=9"]))
    (stream,) = plan["phase"][0]["stream"]
    assert stream["operations"] == {"read": 0.0, "write": 100.0, "flush": 0.0, "trim": 0.0}
    assert stream["address"]["kind"] == "sequential"
    assert stream["request"] == [{"size": 65536, "share": 100.0}]
    assert (stream["workers"], stream["depth"], plan["seed"]) == (2, 32, 9)
    if mode is Mode.FULL:
        assert plan["phase"][0]["steady"]["stop"] is True
    else:
        assert plan["phase"][0]["duration"] == "600000000ns"
        assert plan["interval"] == "100000000ns"


def test_a_mistyped_name_gets_a_hint() -> None:
    with pytest.raises(BadInputError, match="did you mean sqlio-random-read-4"):
        profiles.read("sqlio-random-reads-4")
    with pytest.raises(BadInputError, match="cannot be read: No such file"):
        profiles.read("./nothing.toml")


def plan_with(**overrides: str) -> Plan:
    text = profiles.read("sqlio-random-write-4")
    return profiles.validate(text, [f"{k}={v}" for k, v in overrides.items()])


def test_a_forecast_says_what_is_known_and_no_more() -> None:
    closed = forecast(plan_with(), [GIB], [GIB])
    assert (closed.duration_s, closed.writes, closed.written_bytes, closed.fill_bytes) == (60, True, None, GIB)
    paced = forecast(plan_with(pace='{ loop = "open", rate = 100 }'), [None])
    assert paced.written_bytes == 60 * 100 * 8192
    assert paced.fill_bytes is None
    counted = forecast(plan_with(requests="1000"), [GIB])
    assert counted.written_bytes == 1000 * 8192
    reads = forecast(profiles.validate(profiles.read("sqlio-random-read-4"), []), [GIB])
    assert (reads.writes, reads.written_bytes) == (False, 0)
    (phase,) = plan_with().phase
    trace = Trace(file="t.byt", reads=7, writes=3, flushes=0, discards=0, largest=8192, reach=GIB)
    traced = structs.replace(phase, stream=[structs.replace(phase.stream[0], trace=trace)])
    replayed = forecast(structs.replace(plan_with(), phase=[traced]), [GIB], [GIB - MIB])
    assert replayed.written_bytes == 3 * 8192
    said = forecast_lines(replayed, ["/dev/none"])
    assert "writes: at most 24 KiB, after filling 1,023 MiB that are not known to hold data" in said
    unfilled = forecast(plan_with(fill='"never"'), [GIB], [GIB])
    assert unfilled.fill_bytes == 0
    assert not any("filling" in line for line in forecast_lines(unfilled, ["/dev/none"]))


@pytest.mark.parametrize(
    ("keys", "size", "expected"),
    [
        ({"passes": "1", "region": "0B..8MiB"}, 255 * MIB, 8 * MIB),
        ({"passes": "2", "region": "0..50%"}, 256 * MIB, 256 * MIB),
        ({"passes": "1", "region": "0B..8MiB"}, None, 8 * MIB),
        ({"passes": "1"}, None, None),
        ({"passes": "1", "operations": "{ read = 50, write = 50 }"}, 64 * MIB, 32 * MIB),
        ({"requests": "100", "operations": "{ read = 50, write = 50 }"}, GIB, 50 * 8192),
    ],
)
def test_passes_write_their_region_alone(keys: dict[str, str], size: int | None, expected: int | None) -> None:
    """Two passes over 8 MiB of 255 MiB were forecast to write 510 MiB."""
    assert forecast(plan_with(**keys), [size]).written_bytes == expected


def test_a_stream_writes_its_share_of_a_phase() -> None:
    """The lanes of a phase share its requests; a size of reads is no size of writes."""
    text = """title = "t"
[[phase]]
requests = 300
[[phase.stream]]
name = "reads"
request = "1MiB"
workers = 2
[[phase.stream]]
name = "writes"
operations = { read = 50, write = 50 }
request = [{ size = "64KiB", share = 100, of = "read" }, { size = "4KiB", share = 100, of = "write" }]
"""
    plan = profiles.validate(profiles.ProfileText("t", text, ""), [])
    assert forecast(plan, [GIB]).written_bytes == 300 / 3 * 0.5 * 4096
    chain = '[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = "4KiB"\nchain = ["read", "write", "write"]\n'
    twice = profiles.validate(profiles.ProfileText("t", chain, ""), [])
    assert forecast(twice, [64 * MIB]).written_bytes == 2 * 64 * MIB


def test_what_ships_and_what_is_named_by_path_is_found_alike(tmp_path: Path) -> None:
    """Profiles, rulers and studies by one reader."""
    readers = {"profile": profiles.read, "ruler": rulers.read, "study": texts.read}
    for kind, reader in readers.items():
        with pytest.raises(BadInputError, match=rf"nope\.toml: {kind} cannot be read: No such file"):
            reader(str(tmp_path / "nope.toml"))
        (tmp_path / "odd.toml").write_bytes(b"\xff\xfe")
        with pytest.raises(BadInputError, match=rf"odd\.toml: {kind} cannot be read: not UTF-8 text"):
            reader(str(tmp_path / "odd.toml"))
    with pytest.raises(BadInputError, match="did you mean group-commit"):
        profiles.read("group-comit")
    with pytest.raises(BadInputError, match="no such ruler; did you mean etcd"):
        rulers.read("etc")
    with pytest.raises(BadInputError, match="`brickyard study` lists them"):
        texts.read("zzzz")


def test_a_size_that_is_no_whole_sector_leads_to_those_that_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "data"
    file.write_bytes(bytes(1 << 20))
    asked = (
        ["run", "sqlio-random-read-4", str(file), "--set", "request=2300B"],
        ["run", "--rw", "randread", "--bs", "2300", str(file)],
        ["interference", "sim:iodrive-160-slc", "--read-size", "2300"],
    )
    for words in asked:
        assert main(words) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert "write 2048B or 2560B, or measure 2300 bytes with fio" in said
        assert "etcd" not in said, "reads are not etcd's log"
    with Store() as store:
        assert store.newest() is None, "nothing was measured before the refusal"

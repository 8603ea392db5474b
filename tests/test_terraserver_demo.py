"""The demonstration, from an empty directory to the study's tables, on a server that is gone afterwards."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from brickyard.analysis import replay as replays
from brickyard.analysis import terraserver as tables
from brickyard.cli import main
from brickyard.store import Store


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
    assert main(["terraserver", "demo", *arguments, "--set", "fsync=off"]) == 0
    out, _ = capfd.readouterr()
    assert list(volume.iterdir()) == []
    for said in ("Table 7", "Table 8a", "Table 8b", "driver 4", "TWEB4", "imageinfo", "Head room"):
        assert said in out
    with Store(place) as store:
        [study] = store.studies()
        records = [store.record(run) for run in study.runs]
    assert study.about["server"]["settings"]["fsync"] == "off"
    assert [record.info.outcome for record in records] == ["done", "done"]
    fire, timed = records
    # Every call found its tile: none failed, none gave another number of rows than the mapping expects.
    for record in records:
        every = replays.pages([record])[-1]
        assert every.calls > 100
        assert every.errors == every.diverged == 0
    rows = tables.throughput_rows([fire])
    assert [row[0] for row in rows] == ["driver 1", "driver 2", "driver 3", "driver 4", "average", "together"]
    calls = [int(row[2].replace(",", "")) for row in rows]
    assert sum(calls[:4]) == calls[5] == replays.pages([fire])[-1].calls
    assert tables.response_rows([timed])[0][0] == "tile"
    room = replays.head_room(records)
    assert room is not None
    assert room.factor > 1
    assert "password" not in json.dumps([fire.info.plan, fire.info.targets, fire.info.options])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seconds", "0"], "--seconds 0"),
        (["--set", "fsync"], "NAME=VALUE"),
        (["--place", "/nowhere"], "/nowhere: no such directory"),
        (["--to", "postgresql://a/x", "--set", "fsync=off"], "--to names one server"),
        (["--set", "bogus=1"], 'parameter "bogus"'),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["terraserver", "demo", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]

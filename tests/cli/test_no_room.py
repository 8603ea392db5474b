"""A file for which there is no room is refused before anything is said of what would be done with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard.cli import main


@pytest.mark.parametrize(
    "command",
    [["characterize"], ["load-curve", "sqlio-random-read-4"], ["run", "--rw", "randread"], ["pts", "client"]],
    ids=lambda command: command[0],
)
def test_no_room_is_the_first_thing_that_is_said(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "file"
    assert main([*command, str(place), "--size", "1000TiB"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert "choose a smaller size or another path" in line
    assert not place.exists()

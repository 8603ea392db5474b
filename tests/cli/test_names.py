"""Names that other programs would take for something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.text import Text

from brickyard.cli import main
from brickyard.cli.parts.output import stdout


def test_a_new_file_may_have_a_colon_in_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was refused as one that exists; a dated name has a colon."""
    place = tmp_path / "e:f" / "2026-11-27T10:00"
    place.parent.mkdir()
    read = ["run", "--rw", "randread", "--bs", "4k", "--runtime", "100ms", str(place)]
    assert main(read) == 2
    assert "no such file or device; --size 2GiB makes a file" in capsys.readouterr().err
    assert main([*read, "--size", "16MiB"]) == 0
    assert place.stat().st_size == 17 << 20


def test_names_are_no_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    console = stdout()
    console.print("fixed:100: 100 calls/s")
    console.print(Text("a:100: done"))
    assert capsys.readouterr().out.split("\n")[:2] == ["fixed:100: 100 calls/s", "a:100: done"]


def test_results_of_fio_that_count_both_directions_together_say_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "g.json"
    result.write_text(json.dumps({"fio version": "fio-3.33", "jobs": [{"jobname": "er", "mixed": {}}]}))
    assert main(["import", str(result)]) == 2
    assert "run it without that option, or with unified_rw_reporting=both" in capsys.readouterr().err

"""Failures are data, but a run in which hardly anything succeeded has failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard.cli import main

RUN = ("run", "sqlio-random-read-4", "sim:msr-2003-maxtor", "--set", "duration=20s")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--set", "fail_at=1ms"), 1, "nothing succeeded in"),
        (("--set", "fail_at=10s"), 0, ""),  # most requests failed, since they fail at once; half of the time is sound
        (("--set", "fail_at=19s", "--max-errors", "1%"), 1, "more than --max-errors 1%"),
        (("--max-errors", "1%"), 0, ""),
        (("--max-errors", "many"), 2, "--max-errors"),
    ],
)
def test_a_run_that_served_hardly_anything_has_failed(
    words: tuple[str, ...], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, *words, "--store", str(tmp_path / "runs.db")]) == code
    assert said in capsys.readouterr().err

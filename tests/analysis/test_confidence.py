"""Which confidence can be asked for: of less than a half, intervals say nothing."""

from __future__ import annotations

import pytest

import brickyard
from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.store import Store
from support import MS, SECOND, add_run, cell, interval, phase_end


@pytest.mark.parametrize("text", ["0", "0%", "49.9%", "100%", "1", "95", "-3%", "nan"])
def test_a_confidence_below_a_half_or_of_all_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With 0, all intervals were without width, and every difference was seen."""
    for verb in (("compare", "1-2", "3-4"), ("history", "/data")):
        assert main([*verb, f"--confidence={text}"]) == 2
        said = f"--confidence {text}: a confidence is from 50 to below 100 %; write 95% or 0.95"
        assert capsys.readouterr().err.strip() == f"brickyard: {said}"


def test_programs_are_refused_it_too_and_a_half_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    with Store() as store:
        for count in (2000, 2001, 1000, 1001):
            add_run(store, [interval(0, SECOND, cell([MS] * count)), phase_end()])
        before, after = (brickyard.measured(store, runs) for runs in ((1, 2), (3, 4)))
    with pytest.raises(BadInputError, match="confidence = 0: a confidence is from 50 to below 100 %"):
        brickyard.compare(before, after, confidence=0)
    assert brickyard.compare(before, after, confidence=0.5).judged.judged
    assert main(["compare", "1-2", "3-4", "--confidence", "50%", "--check"]) == 1
    assert "3 figures judged together" in capsys.readouterr().out

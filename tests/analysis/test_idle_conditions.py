"""A condition that changes nothing of a modelled brick is told as that, wherever it is asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from brickyard.cli import main

STUDY = """
title = "Caches"
[base]
profile = "sqlio-random-write-4"
set = ["duration=1s"]
[factor.brick]
title = "brick"
[factor.brick.levels]
nvme = { target = "sim:nvme-tlc-3840" }
wd = { target = "sim:wd2500jd" }
[factor.cache]
title = "cache"
[factor.cache.levels]
on = { condition = "normal" }
off = { condition = "write-cache-off" }
[[table]]
figure = "iops"
rows = ["brick"]
columns = ["cache"]
"""
SAID = (
    "write-cache-off has no effect on sim:nvme-tlc-3840: the cache of its drives is protected against power loss and"
    " cannot be switched; the figures are those of condition normal"
)


def test_a_study_says_so_in_its_conclusions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "caches.toml"
    file.write_text(STUDY)
    assert main(["study", str(file)]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"(?m)^note: duration of \d+ runs: about [\d.]+ (s|min)( \d+ s)? of this computer$", err)
    assert "writes: none" in err
    assert SAID in out
    assert "changes nothing of sim:wd2500jd" not in out
    assert main(["study", str(file), "--json", "-o", str(tmp_path / "page")]) == 0
    again = capsys.readouterr()
    assert json.loads(again.out)["conclusions"][0] == SAID
    assert "duration" not in again.err, "nothing is missing"
    assert SAID in (tmp_path / "page" / "report.html").read_text()


def test_advice_says_of_which_bricks(capsys: pytest.CaptureFixture[str]) -> None:
    prices = [
        "--parts",
        "cheetah-15k5-300",
        "overland-ultamus",
        "--price",
        "cheetah-15k5-300=1",
        "--price",
        "overland-ultamus=1",
    ]
    asked = ["advise", "buy", "sqlio-random-read-4", "--require", "iops>=1", "--members", "4", "--level", "raid5"]
    conditions = ["--condition", "normal", "write-cache-off", "--duration", "1s", "--most", "1"]
    assert main([*asked, *prices, *conditions, "--json"]) == 0
    captured = capsys.readouterr()
    notes = json.loads(captured.out)["notes"]
    assert len(notes) == 1
    assert notes[0].startswith("write-cache-off has no effect on ")
    assert "on overland-ultamus" in notes[0]
    assert "keeps the write caches of its drives off already" in notes[0]
    assert notes[0] in captured.err

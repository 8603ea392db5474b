"""A study of real md arrays: every level in every condition. It has a guest of its own, since it takes minutes.

Its members are disks of 200 requests and 8 MB a second, so that a rebuild can be seen; see `run`.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from md_disks import DISKS, clean_disks, create

from brickyard.analysis.figures.condition import condition_check
from brickyard.analysis.figures.totals import totals
from brickyard.cli import main
from brickyard.store import Store

__all__ = ["clean_disks"]
pytestmark = pytest.mark.usefixtures("clean_disks")

STUDY = """
title = "Software RAID: levels × conditions, random reads of 8 KiB, 4 deep"
repetitions = 1
[base]
profile = "sqlio-random-read-4"
set = ["duration=3s", "warmup=0s"]
[factor.array]
title = "software array"
[factor.array.levels]
raid1 = { label = "RAID-1 of 2", target = "/dev/md1" }
raid5 = { label = "RAID-5 of 3", target = "/dev/md5" }
raid6 = { label = "RAID-6 of 4", target = "/dev/md6" }
raid10 = { label = "RAID-10 of 4", target = "/dev/md10" }
[factor.condition]
condition = "{value}"
[factor.condition.levels]
normal = { label = "Normal" }
degraded = { label = "Degraded" }
rebuilding = { label = "Volume Rebuild" }
[[table]]
name = "1"
title = "Random reads, 8 KiB, 4 deep"
rows = "array"
columns = "condition"
figure = "iops"
show = ["value", "percent_of_best"]
best_of = { condition = "normal" }
"""


def test_a_study_measures_every_level_normal_degraded_and_rebuilding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disks = iter(DISKS)
    arrays = [
        create(level, count, name=f"/dev/md{level}", disks=list(islice(disks, count)))
        for level, count in ((1, 2), (5, 3), (6, 4), (10, 4))
    ]
    file = tmp_path / "levels.toml"
    file.write_text(STUDY)
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["study", str(file), "--only", "condition=degraded", *store]) != 0, "that would change an array"
    assert "--manage" in capsys.readouterr().err
    assert {array.state().name for array in arrays} == {"normal"}
    assert main(["study", str(file), "--manage", *store]) == 0
    table = capsys.readouterr().out
    assert all(heading in table for heading in ("Normal", "Degraded", "Volume Rebuild", "RAID-6 of 4"))
    with Store(tmp_path / "runs.db") as kept:
        records = [kept.record(info.id) for info in kept.runs()]
    rates: dict[tuple[str, str], float] = {}
    for record in records:
        seen: Any = condition_check(record)
        assert seen is not None
        assert seen["valid"], seen["reason"]
        assert {sample["state"] for sample in seen["samples"]} == {record.info.condition}
        rates[record.info.targets[0], record.info.condition] = totals(record)[0].iops
    assert len(rates) == 12
    assert all(rates.values()), "it served in every condition"
    for array in arrays:
        assert array.state().name == "normal", "each array is brought back to normal"
        assert {member.state for member in array.members()} == {"active"}
    print(table)

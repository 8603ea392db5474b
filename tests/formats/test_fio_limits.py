"""Limits on times that results of fio are held against: met only by times that leave nothing out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from brickyard.cli import main
from interchange_support import fio_json

SMALL = "rw=randread\nbs=4k\nsize=4m\nnorandommap\ndirect=0"
QUEUED = f"ioengine=libaio\niodepth=4\n{SMALL}"


def first_row(out: Path) -> dict[str, Any]:
    text = out.read_text()
    found: dict[str, Any] = json.loads(text[text.index("{") :])["jobs"][0]
    return found


def judged(capsys: pytest.CaptureFixture[str], store: list[str], *asked: str) -> dict[str, dict[str, Any]]:
    words = [word for one in asked for word in ("--ruler", one)]
    main(["show", "latest", *store, "--json", *words])
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    return {one["ruler"]: one["findings"][0] for one in verdicts}


def test_a_limit_on_flushes_is_judged_by_fios_times_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in the command that people test storage for etcd with. Its requests are no whole sectors: it is no profile."""
    out = fio_json(tmp_path, "json+", "rw=write\nioengine=sync\nfdatasync=1\nsize=230000\nbs=2300")
    printed = first_row(out)["sync"]["lat_ns"]["percentile"]
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(out), *store]) == 0
    capsys.readouterr()
    found = judged(
        capsys, store, "etcd", "flush.p50<=100s", "flush.p50<=1ns", "write.p50<=100s", "commit.p50<=100s", "p50<=9s"
    )
    assert found["etcd"]["verdict"] != "not known" or "fewer than ten samples" in found["etcd"]["reason"]
    assert found["flush.p50<=100s"]["value"] == printed["50.000000"], "as fio printed it"
    assert found["flush.p50<=100s"]["by_tool"] == "fio's times of flushes"
    assert (found["flush.p50<=100s"]["verdict"], found["flush.p50<=1ns"]["verdict"]) == ("pass", "fail")
    assert (found["write.p50<=100s"]["verdict"], found["write.p50<=100s"]["by_tool"]) == ("pass", "fio's clat")
    for asked in ("commit.p50<=100s", "p50<=9s"):
        assert found[asked]["verdict"] == "not known"
        assert "fio reports no commits" in found[asked]["reason"]
    assert main(["show", "latest", *store, "--check", "flush.p50<=100s"]) == 0
    assert "Requirement flush.p50<=100s: met, p50 " in (said := capsys.readouterr().out)
    assert "(fio's times of flushes)" in said
    assert main(["show", "latest", *store, "--check", "commit.p50<=100s"]) == 1


@pytest.mark.parametrize(
    ("options", "passes", "whose"),
    [
        (f"ioengine=psync\n{SMALL}", "pass", "fio's clat"),
        (f"ioengine=psync\nlat_percentiles=1\n{SMALL}", "pass", "fio's lat"),
        (f"{QUEUED}\nlat_percentiles=1", "pass", "fio's lat"),
        (QUEUED, "not known", "lat_percentiles=1"),
        (f"{QUEUED}\ndisable_lat=1", "not known", "disable_lat=1"),
        (f"{QUEUED}\nlat_percentiles=1\nrate_iops=5000", "not known", "the load has a rate"),
        (f"{QUEUED}\nlat_percentiles=1\nrate_iops=5000\nbs=2300", "not known", "had a rate is not known"),
        (f"ioengine=psync\n{SMALL}\nbs=2300", "pass", "fio's clat"),
    ],
)
def test_a_limit_on_a_time_is_met_by_times_of_fio_that_leave_nothing_out(
    options: str, passes: str, whose: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What leaves something out is at least as long, so that it can only miss a limit."""
    out = fio_json(tmp_path, "json+", options)
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(out), *store]) == 0
    capsys.readouterr()
    row = first_row(out)["read"]
    times = next(times for key in ("lat_ns", "clat_ns") if "percentile" in (times := row[key]))
    above = f"p50<={times['percentile']['50.000000'] + 2000}ns"
    found = judged(capsys, store, above, "p50<=1ns")
    assert row["lat_ns"]["max"] == 0 or row["lat_ns"]["max"] > times["percentile"]["50.000000"] + 2000
    assert found[above]["verdict"] == passes
    assert whose in (found[above]["by_tool"] or found[above]["reason"])
    assert found["p50<=1ns"]["verdict"] == "fail"


def test_a_percentile_of_clat_is_within_a_limit_that_the_maximum_of_lat_keeps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(fio_json(tmp_path, "json+", QUEUED)), *store]) == 0
    capsys.readouterr()
    found = judged(capsys, store, "p50<=100s", "mean<=100s")
    assert (found["p50<=100s"]["verdict"], found["p50<=100s"]["bound"]["figure"]) == ("pass", "max")
    assert {one["by_tool"] for one in found.values()} == {"fio's lat"}, "means and extremes have the call"


def test_times_of_writes_and_flushes_together_are_said_to_be_of_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = fio_json(tmp_path, "json+", "rw=write\nioengine=sync\nfsync=2\nsize=1m\nbs=4k")
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(out), *store]) == 0
    capsys.readouterr()
    found = judged(capsys, store, "p50<=100s", "p50<=1ns", "write.p50<=100s")
    assert {found[one]["by_tool"] for one in ("p50<=100s", "p50<=1ns")} == {"fio's clat and times of flushes"}
    assert found["write.p50<=100s"]["by_tool"] == "fio's clat"

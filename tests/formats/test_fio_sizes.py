"""Sizes of requests in results of fio: where fio's map shortened them, its IOPS are not those of the job's sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from brickyard.cli import main
from brickyard.units import format_mean_size
from interchange_support import KIB, fio_json

SPLIT = "direct=1\nioengine=libaio\niodepth=4\nsize=32m\nlat_percentiles=1\ntime_based\nruntime=400ms\n"
READS = f"{SPLIT}rw=randread\nbssplit=4k/50:128k/50"
BOTH = f"{SPLIT}rw=randrw\nbssplit=8k/50:64k/50"


def imported(directory: Path, options: str, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, float], list[str]]:
    """The mean request that fio printed of each operation, and what the import says of sizes."""
    out = fio_json(directory, "json+", options)
    (job,) = json.loads(out.read_text())["jobs"]
    moved = {way: job[way] for way in ("read", "write") if job[way]["total_ios"]}
    capsys.readouterr()
    assert main(["import", str(out), "--store", str(directory / "runs.db"), "--json"]) == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    means = {way: one["io_bytes"] / one["total_ios"] for way, one in moved.items()}
    return means, [one["text"] for one in warnings if one["id"] == "fio-sizes"]


def ours(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The job that was imported last, twice by Brickyard."""
    profile = directory / "shop.toml"
    assert main(["import", str(directory / "shop.fio"), "-o", str(profile)]) == 0
    store = ["--store", str(directory / "runs.db")]
    assert main(["run", str(profile), str(directory / "ours"), "--size", "32MiB", "--repeat", "2", *store]) == 0
    capsys.readouterr()


def compared(directory: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["compare", *words, "--store", str(directory / "runs.db"), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_requests_that_fios_map_shortened_are_another_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A gate called IOPS of 36 KiB and of 66 KiB a request held."""
    found = [imported(tmp_path, READS, capsys) for _ in range(2)]
    for means, said in found:
        assert means["read"] < 0.8 * 66 * KIB, "fio shortens them"
        mean = format_mean_size(means["read"])
        assert said == [
            f"fio's map (no norandommap) shortened requests of shop: {mean} in the mean, where the job's sizes give "
            "66.0 KiB. IOPS are of these shorter requests."
        ]
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["show", "1", *store]) == 0
    assert found[0][1][0] in capsys.readouterr().out
    ours(tmp_path, capsys)
    assert main(["compare", "1-2", "3-4", *store]) == 0
    told = capsys.readouterr().out
    (line,) = (line for line in told.splitlines() if line.startswith("the load differs"))
    assert "mean request size: " in line
    before, after = line.rpartition(": ")[2].split(" → ")
    assert float(before.removesuffix(" KiB")) == pytest.approx(sum(one["read"] for one, _ in found) / 2048, rel=0.03)
    assert float(after.removesuffix(" KiB")) == pytest.approx(66, rel=0.15)
    assert told.index("The loads differ, so what follows compares loads") < told.index("judged together")
    assert main(["compare", "1-2", "3-4", "--check", *store]) == 2
    assert "mean request size: " in capsys.readouterr().err
    assert main(["compare", "1-2", "3-4", "--check", "--across-loads", "--tolerance", "95%", *store]) in (0, 1)
    (sizes,) = compared(tmp_path, capsys, "1-2", "3-4")["sizes_differ"]
    assert sizes["load"][-1] == "read"
    assert sizes["mean_bytes_before"] < 0.8 * sizes["mean_bytes_after"]


def test_both_directions_of_a_job_are_one_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    means, said = imported(tmp_path, BOTH, capsys)
    assert max(means.values()) < 0.9 * 36 * KIB
    (text,) = said
    assert format_mean_size(min(means.values())) in text
    assert text.partition(" IOPS")[0].endswith("where the job's sizes give 36.0 KiB.")


def test_whole_requests_of_fio_and_of_ours_are_one_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their means differ by what is drawn."""
    for _ in range(2):
        means, said = imported(tmp_path, f"{BOTH}\nnorandommap", capsys)
        assert said == []
        assert means["read"] == pytest.approx(36 * KIB, rel=0.15)
    ours(tmp_path, capsys)
    found = compared(tmp_path, capsys, "1-2", "3-4")
    assert (found["loads_differ"], found["sizes_differ"]) == ([], [])
    assert {tuple(change["load"][-1:]) for change in found["changes"]} == {("read",), ("write",)}


def test_the_same_job_with_and_without_fios_map_is_two_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """fio's JSON does not tell norandommap, so that their plans are alike."""
    imported(tmp_path, READS, capsys)
    imported(tmp_path, f"{READS}\nnorandommap", capsys)
    found = compared(tmp_path, capsys, "1", "2")
    assert len(found["sizes_differ"]) == len(found["loads_differ"]) == 1


def test_what_was_in_flight_when_fio_began_to_count_is_no_other_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After its ramp_time, fio counts the bytes of these requests and not the requests: 67,191 B each of 65,536 B."""
    deep = "rw=randread\nbs=64k\niodepth=128\nioengine=libaio\ndirect=1\nsize=16m\ntime_based\n"
    means, said = imported(tmp_path, f"{deep}ramp_time=200ms\nruntime=200ms", capsys)
    assert means["read"] >= 64 * KIB
    assert said == []

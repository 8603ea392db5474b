"""Reads that no medium answers: of blocks that were never written, or that the run itself has trimmed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from brickyard.analysis.judging.summary import circumstances
from brickyard.cli import main
from brickyard.report.tables import totals_tables
from brickyard.store import Store

STREAM = """
[[phase]]
name = "{operation}"
{ends}
[[phase.stream]]
operations = {{ {operation} = 100 }}
request = "64KiB"
address = "{address}"
region = "{region}"
depth = 4
"""


def phases(*asked: tuple[str, str]) -> str:
    """Each a pass in order, but reads, which go to all places at random."""
    return "title = 'p'\ninterval = '100ms'\n" + "".join(
        STREAM.format(
            operation=operation,
            region=region,
            ends="duration = '300ms'" if operation == "read" else "passes = 1",
            address="random" if operation == "read" else "sequential",
        )
        for operation, region in asked
    )


@pytest.mark.parametrize(
    ("asked", "share"),
    [
        ([("trim", "0..100%"), ("read", "0..100%")], "100 %"),
        ([("trim", "0..50%"), ("read", "0..100%")], "50 %"),
        ([("trim", "0..50%"), ("write", "0..25%"), ("read", "0..50%")], "50 %"),
        ([("trim", "0..100%"), ("write", "0..100%"), ("read", "0..100%")], ""),
        ([("trim", "50%..100%"), ("read", "0..50%")], ""),
        ([("read", "0..100%"), ("trim", "0..100%")], ""),
    ],
)
def test_reads_of_what_the_run_trimmed_are_not_the_rate_of_the_storage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: list[tuple[str, str]], share: str
) -> None:
    profile, store = tmp_path / "p.toml", str(tmp_path / "runs.db")
    profile.write_text(phases(*asked))
    run = ["run", str(profile), str(tmp_path / "file"), "--size", "16MiB", "--store", store]
    assert main([*run, "--check", "read.p99<=10s"]) == (1 if share else 0)
    said = capsys.readouterr().out
    told = f"This is not the rate of the storage: {share} of what was read may have been trimmed by the run itself"
    assert (told in said) if share else ("by the run itself" not in said)
    assert f"read.p99<=10s: {'not known' if share else 'met'}" in said
    assert "the storage may be faster" not in said or not share
    assert main(["runs", "--store", store]) == 0
    assert ("done, reads of trimmed blocks" in capsys.readouterr().out) == bool(share)
    assert main(["export", "latest", "--format", "prometheus", "--store", store]) == 0
    assert ('brickyard_run_mark{run="1",mark="reads of trimmed blocks"} 1' in capsys.readouterr().out) == bool(share)


def test_a_mix_reads_what_it_trimmed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mix = ["--rw", "randread", "--bs", "64k", "--set", "operations={read=50,trim=50}", "--runtime", "300ms"]
    assert main(["run", *mix, str(tmp_path / "file"), "--size", "16MiB"]) == 0
    assert "may have been trimmed by the run itself" in capsys.readouterr().out


def test_nothing_is_judged_by_reads_of_what_was_never_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reads of a hole passed the gate, as they were faster than those of the file before."""
    place, store = tmp_path / "file", ["--store", str(tmp_path / "runs.db")]
    run = ["run", "--rw", "randread", "--bs", "4k", "--runtime", "300ms", "--repeat", "2", str(place), *store]
    run += ["--iodepth", "16"]  # enough requests for a p99 on a busy host, too
    place.write_bytes(os.urandom(64 << 20))
    assert main(run) == 0
    os.truncate(place, 0)
    os.truncate(place, 64 << 20)
    assert main(run) == 0
    said = "runs 3-4: not the rate of the storage: 100 % of what may be read was never written"
    for sides in (["s1", "s2"], ["s2", "s1"]):
        capsys.readouterr()
        assert main(["compare", *sides, "--check", *store]) == 2
        told = capsys.readouterr()
        assert told.err.startswith(f"--check: inconclusive: {said}")
        assert told.out.index(said) < told.out.index("IOPS")
        assert "held" not in told.out
    assert main(["baseline", "save", "good", "s2", *store]) == 0
    assert said in capsys.readouterr().out
    assert main(["export", "s2", "--rows", "totals", *store]) == 0
    assert ",never written," in capsys.readouterr().out


@pytest.mark.parametrize("kept", [2 << 20, 9 << 20])
def test_a_file_of_ours_that_was_cut_since_is_filled_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kept: int
) -> None:
    """Its header said that all of it was written, and reads of the hole met requirements."""
    place = tmp_path / "file"
    read = ["run", "--rw", "randread", "--bs", "4k", "--runtime", "200ms", str(place)]
    assert main([*read, "--size", "16MiB"]) == 0
    os.truncate(place, kept)
    os.truncate(place, 17 << 20)
    capsys.readouterr()
    assert main([*read, "--set", "fill=never", "--check", "p99<=10s"]) == 1
    share = "94 %" if kept == 2 << 20 else "50 %"
    assert f"This is not the rate of the storage: {share} of what may be read was never" in capsys.readouterr().out
    assert main([*read, "--check", "p99<=10s"]) == 0
    assert "all of it written before the run" in capsys.readouterr().out
    assert place.stat().st_blocks * 512 >= 16 << 20


def test_a_table_of_runs_ranks_no_reads_of_what_was_never_written(tmp_path: Path) -> None:
    """A run of a hole was the "100 %" of which a run of the written file was some per cent, and the test area of all
    runs was that of the first."""
    written, hole, database = tmp_path / "written", tmp_path / "hole", tmp_path / "runs.db"
    written.write_bytes(os.urandom(17 << 20))
    with hole.open("wb") as file:
        file.truncate(17 << 20)
    for place in (hole, written, written):
        run = ["run", "--rw", "randread", "--bs", "4k", "--runtime", "300ms", str(place), "--store", str(database)]
        assert main(run) == 0
    with Store(database) as store:
        records = [store.record(run) for run in (1, 2, 3)]
    throughput = totals_tables(records)[0]
    at = {name: throughput.columns.index(name) for name in ("run", "workload", "% of best")}
    rows = [[row[at[name]] for name in ("run", "workload", "% of best")] for row in throughput.rows]
    assert [row[1].endswith(", never written") for row in rows] == [True, False, False]
    assert rows[0][2] == "–"
    assert "100 %" in {rows[1][2], rows[2][2]}
    told = dict(circumstances(records))
    assert "(100 %) of it never written (run 1); " in told["Test area"]
    assert told["Test area"].endswith("all of it written before the run (runs 2-3)")
    assert "(run" not in told["Host"]

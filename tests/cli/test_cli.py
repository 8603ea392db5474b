"""The command line: each answer with `--json` is one valid document, each mistake one line and the right exit code."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from brickyard import _core
from brickyard.analysis import PhaseRate
from brickyard.analysis.figures.ramp_result import closing_rates
from brickyard.cli import main
from brickyard.cli.parts.progress import Terminal, closing, describe
from brickyard.cli.results.runs import since_unix_ns
from brickyard.errors import BadInputError
from brickyard.schema.plan import Phase, Plan
from brickyard.store import Store, default_place
from brickyard.store.record import RunMarks
from brickyard.study.running.aim import aim
from brickyard.study.running.runner import RunSpec
from brickyard.study.running.sizes import size_of
from support import MS, SECOND, add_characterization, add_run, cell, interval, phase_end, told


@pytest.fixture
def filled() -> Path:
    """The default store with a characterization (runs 1 to 12, study 1) and a run that was killed."""
    with Store() as store:
        add_characterization(store)
        add_run(store, [interval(0, SECOND, cell([MS] * 30)), phase_end()], outcome=None)
    return default_place()


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, object]:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


TARGETS_FIRST = [
    (
        ["run", "/dev/null", "sqlio-random-read-4", "--set", "depth=2"],
        "run sqlio-random-read-4 /dev/null --set depth=2",
    ),
    (["run", "sim:wd2500jd", "overland-oltp"], "run overland-oltp sim:wd2500jd"),
    (["load-curve", "sim:wd2500jd", "--each", "1s"], "load-curve random-4k-qd32 sim:wd2500jd --each 1s"),
    (["run", "/dev/null", "--repeat", "2"], "run --rw randread --bs 4k /dev/null --repeat 2"),
]
OWN_WORDS = [
    *TARGETS_FIRST,
    (["run", "sqlio-random-read-5", "sim:wd2500jd"], "run sqlio-random-read-4 sim:wd2500jd"),
    (["run", "random-4k-qd1", "sim:wd2500jx", "--repeat", "2"], "run random-4k-qd1 sim:wd2500jd --repeat 2"),
    (["run", "random-4k-qd1", "sim:wd2500jd", "--set", "dept=4"], "run random-4k-qd1 sim:wd2500jd --set depth=4"),
    (["run", "overland-oltp", "sim:wd2500jd"], "run overland-oltp sim:wd2500jd --set verify=false"),
    (["run", "sqlio-random-read-4", "/tmp/no such file"], "run sqlio-random-read-4 '/tmp/no such file' --size 2GiB"),
    (["run", "sqlio-random-read-4", "/tmp/no", "--size", "100"], "run sqlio-random-read-4 /tmp/no --size 100MiB"),
    (["run", "--rw", "randread", "--runtme", "30", "/tmp"], "run --rw randread --runtime 30 /tmp"),
    (["load-curve", "sqlio-random-read-4", "sim:wd2500jd", "--limit", "p99:20"],
     "load-curve sqlio-random-read-4 sim:wd2500jd --limit p99:20ms"),
    (["advise", "predict", "sqlio-random-read-4", "sim:wd2500jd", "--limit", "p99:20"],
     "advise predict sqlio-random-read-4 sim:wd2500jd --limit p99:20ms"),
    (["predict", "p.toml", "sim:wd2500jd"], "advise predict p.toml sim:wd2500jd"),
    (["compar", "1", "2"], "compare 1 2"),
    (["compare", "1"], "compare 1 latest"),
    (["run", "random-4k-qd1", "sim:wd2500jd", "--runtime", "30"], "run random-4k-qd1 sim:wd2500jd --set duration=30"),
    (["run", "random-4k-qd1", "sim:wd2500jd", "--qd=8"], "run random-4k-qd1 sim:wd2500jd --set depth=8"),
    (["run", "--rw", "ranread", "sim:wd2500jd"], "run --rw randread sim:wd2500jd"),
    (["run", "random-4k-qd1", "sim:wd2500jd", "--condition", "rebuilt"],
     "run random-4k-qd1 sim:wd2500jd --condition rebuilding"),
    (["load-curve", "random-4k-qd1", "sim:wd2500jd", "--limit=20ms"],
     "load-curve random-4k-qd1 sim:wd2500jd --limit p99:20ms"),
    (["advise", "predict", "random-4k-qd1", "sim:wd2500jd", "--limit", "20ms"],
     "advise predict random-4k-qd1 sim:wd2500jd --limit p99:20ms"),
    (["show", "--price", "10", "--capacity", "4"], "show --price 10 --capacity 4TB"),
    (["run", "sqlio-random-read-4", "/tmp/no", "--size=100"], "run sqlio-random-read-4 /tmp/no --size 100MiB"),
    (["run", "random-4k-qd1", "sim:wd2500jd", "--set", "iodepth=4"], "run random-4k-qd1 sim:wd2500jd --set depth=4"),
    (["run", "random-4k-qd1", "sim:wd2500jd", "--set", "drive.rpn=9"],
     "run random-4k-qd1 sim:wd2500jd --set drive.rpm=9"),
    (["run", "random-4k-qd1", "sim:wd2500jd,memebrs=2"], "run random-4k-qd1 sim:wd2500jd,members=2"),
    (["run", "--rw", "randread", "-t4", "sim:wd2500jd"], "run --rw randread --numjobs 4 sim:wd2500jd"),
    (["run", "--rw", "randread", "--filename", "/tmp"], "run --rw randread --scratch /tmp"),
    (["run", "--rw", "randread", "/tmp"], "run --rw randread --scratch /tmp"),
]  # fmt: skip
"""What was written, and the command that the remedy gives."""
NO_COMMANDS = [
    (["run", "random-4k-qd1", "sim:wd2500jd", "--set", "operations={reed=50}"], "did you mean `read`?"),
    (["load-curve", "random-4k-qd1", "sim:wd2500jd", "--limit", "20"], "not FIGURE:TIME"),
    *(
        (
            ["load-curve", "random-4k-qd1", "sim:wd2500jd", "--limit", limit],
            f"{said}; write for example p99:20ms; figures are mean, p50, p90, p95, p99, p99.9, p99.99, max",
        )
        for limit, said in (("p97", "not FIGURE:TIME"), ("p97:20ms", "no figure p97"))
    ),
    (["run", "random-4k-qd1", "sim:wd2500jd", "--qd", "--bogus"], "write --set depth=32"),
    (["compare", "1", "2", "3"], "name BEFORE and AFTER"),
]
"""What was written, and the remedy, where no command is known that would do."""

BAD_INPUT = [
    *((words, f"`brickyard {command}`") for words, command in OWN_WORDS),
    *NO_COMMANDS,
    (["bogus"], "Unknown command"),
    (["run"], "name a profile"),
    (["run", "nothing-like-it"], "no such profile"),
    (["load-curve", "pgbench", "/tmp"], "write `brickyard run pgbench DIRECTORY --set rate=500`, once for each rate"),
    (["run", "sqlio-random-read-5"], "did you mean sqlio-random-read"),
    (["run", "./missing.toml"], "cannot be read"),
    (["run", "sqlio-random-read-4", "--bogus"], "--bogus"),
    (["run", "sqlio-random-read-4", "--set", "depth"], "is not an override"),
    (["run", "sqlio-random-read-4", "--set", "dept=4", "--dry-run"], "did you mean `depth`"),
    (["run", "sqlio-random-read-4", "--set", "depth=0", "--dry-run"], "depth is 0"),
    (["run", "sqlio-random-read-4", "--set", "request=1000", "--dry-run"], "not a multiple of 512"),
    (["run", "sqlio-random-read-4", "--set", "operations={ read = 101 }", "--dry-run"], "101"),
    (["run", "sqlio-random-read-4", "--repeat", "0"], "--repeat 0"),
    (["run", "sqlio-random-read-4", "--size", "lots"], "--size: `lots` is not a size"),
    (["run", "sqlio-random-read-4", "--size", "100"], "a number alone is bytes: write 100MiB or 100GiB"),
    (["run", "sqlio-random-read-4", "--size", "100TiB"], "do not fit"),
    (["run", "sqlio-random-read-4", "--scratch", "/nowhere"], "no such directory"),
    (["run", "sqlio-random-read-4", "/nowhere/file"], "the directory /nowhere does not exist"),
    (["run", "sqlio-random-read-4", "/tmp/no such file"], "no such file or device; --size"),
    (["run", "sqlio-random-read-4", "/nowhere/file", "--size", "32MiB"], "/nowhere/file"),
    (["run", "sqlio-random-read-4", "/"], "is a directory"),
    (["run", "sqlio-random-read-4", "--overwrite", "/dev/null"], "not among the targets"),
    (["run", "sqlio-random-read-4", "/dev/null"], "/dev/null"),
    (["run", "sqlio-random-read-4", "--store", "/dev/null/store"], "cannot be used as a store"),
    (["run", "sqlio-random-read-4", "--store", "/nowhere/at/all.db"], "/nowhere/at is no directory; make it first"),
    (["run", "sqlio-random-read-4", "/nowhere/f", "--size", "1GiB", "--dry-run"], "/nowhere does not exist"),
    (["run", "sqlio-random-read-4", "/nowhere/f", "--dry-run"], "/nowhere does not exist"),
    (["run", "sqlio-random-read-4", "/dev/null", "--dry-run"], "neither a file nor a block device"),
    (
        ["run", "--rw", "randread", "/proc/version"],
        "/proc/version: the kernel produces its content, which is on no storage",
    ),
    (["run", "--rw", "randread", "/sys/kernel/mm/transparent_hugepage/enabled", "--dry-run"], "name a file or a block"),
    (["run", "sqlio-random-read-4", "/etc/hostname", "/etc/hosts", "--dry-run"], "1 target, but 2 were named"),
    (
        ["run", "sqlio-random-read-4", "--check", "p99<=1ms", "iops>=10"],
        "each requirement needs a --check (or --ruler)",
    ),
    (["doctor", "/nowhere/at/all"], "no such file, directory or device"),
    (["characterize", "--quick", "--full"], "exclude each other"),
    (["characterize", "--set", "depth=many"], "--set depth=many: a whole number from 0"),
    (["characterize", "/nowhere/file"], "/nowhere does not exist"),
    (["profiles", "show", "bogus"], "no such profile"),
    (["runs", "--since", "yesterday"], "--since yesterday"),
    (["runs", "--limit", "-1"], "--limit -1"),
    (["runs", "--outcome", "good"], "good"),
    (["runs", "--store", "/nowhere/runs.db"], "no store here"),
    (["show", "99"], "run 99: not in"),
    (["runs", "first"], "first: not a run"),
    (["show", "first"], "first: not a run"),
    (["report", "s9"], "no such study"),
    (["report", "5-"], "5-: not a run"),
    (["export", "--format", "parquet"], "a binary format"),
    (["export", "--output", "/nowhere/out.csv"], "cannot be written"),
    (["export", "--output", "out.xlsx"], "no such format"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD_INPUT, ids=[" ".join(arguments) for arguments, _ in BAD_INPUT])
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], said: str, filled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1
    assert lines[0].startswith("brickyard: ")
    assert said in lines[0]
    assert (arguments, said) not in NO_COMMANDS or "`brickyard" not in lines[0]
    document = answer(capsys, *arguments, code=2)
    assert document["exit_code"] == 2
    assert str(document["error"]).replace(" --json", "") == lines[0].removeprefix("brickyard: ")


@pytest.mark.parametrize(
    ("target", "device"),
    [(["--scratch", "."], "psync"), (["sim:wd2500jd"], "a modelled brick")],
)
def test_a_setting_without_effect_is_refused(
    target: list[str], device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["run", "sqlio-random-read-4", *target, "--engine", "psync", "--set", "reap=8", "--size", "16MiB"]
    assert main(asked) == 2
    assert f"reap = 8 has no effect on {device}; remove it" in capsys.readouterr().err
    assert main([*asked, "--dry-run"]) == 2
    assert not any(tmp_path.iterdir())


def test_bad_input_leaves_no_run_and_no_file_behind(filled: Path, tmp_path: Path) -> None:
    assert main(["run", "sqlio-random-read-4", "--scratch", str(tmp_path), "--size", "1KiB"]) == 2
    assert main(["run", "sqlio-random-write-4", "--scratch", str(tmp_path), "--set", "reap=0"]) == 2
    assert list(tmp_path.iterdir()) == []
    with Store(filled) as store:
        assert len(store.runs()) == 13


def test_a_debug_build_must_not_measure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_core, "is_release_build", lambda: False)
    assert main(["run", "sqlio-random-read-4", "--size", "32MiB"]) == 2
    assert "debug build" in capsys.readouterr().err


def test_what_nobody_expected_is_one_line_too(
    filled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr(Store, "runs", fail)
    assert main(["runs"]) == 1
    err = capsys.readouterr().err
    assert err == "brickyard: unexpected RuntimeError: first line second line; BRICKYARD_DEBUG=1 shows where\n"
    monkeypatch.setenv("BRICKYARD_DEBUG", "1")
    with pytest.raises(RuntimeError):
        main(["runs"])


def test_profiles(capsys: pytest.CaptureFixture[str]) -> None:
    listed = answer(capsys, "profiles")["profiles"]
    assert isinstance(listed, list)
    assert "sqlio-random-read-4" in [item["name"] for item in listed]
    assert main(["profiles"]) == 0
    assert "SQLIO: random reads, 8 KiB, 4 deep" in capsys.readouterr().out
    shown = answer(capsys, "profiles", "show", "sqlio-random-read-4")
    assert shown["plan"]["phase"][0]["stream"][0]["depth"] == 4  # type: ignore[index]
    assert main(["profiles", "show", "sqlio-random-read-4"]) == 0
    assert capsys.readouterr().out == shown["text"]


def test_a_dry_run_tells_and_touches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "new"
    arguments = ["run", "sqlio-random-write-4", str(target), "--size", "1GiB", "--dry-run", "--set", "requests=1000"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "at most 1 min" in out
    assert "writes: at most 7.8 MiB" in out
    assert "nothing was touched" in out
    document = answer(capsys, *arguments)
    assert document["forecast"] == {
        "duration_s": 60.0,
        "ends_earlier": True,
        "writes": True,
        "trims": False,
        "written_bytes": 1000 * 8192,
        "fill_bytes": 1 << 30,
    }
    assert list(tmp_path.iterdir()) == []
    assert not default_place().exists()


@pytest.mark.parametrize("words", [["--dry-run"], ["--repeat", "2", "--dry-run"]])
def test_a_dry_run_of_trims_does_not_say_that_nothing_is_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    ad_hoc = ["run", "--rw", "trim", "--bs", "1m", "--runtime", "1", str(tmp_path / "f"), "--size", "8m"]
    assert main([*ad_hoc, *words]) == 0
    assert "trims: the data of all blocks that the workload trims are lost" in capsys.readouterr().out


def test_a_dry_run_of_a_trace_names_its_discards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, trace = tmp_path / "io.log", tmp_path / "io.byt"
    log.write_text("fio version 3 iolog\n0 /f read 0 4096\n1500 /f trim 8192 4096\n")
    assert main(["trace", "import", str(log), "-o", str(trace)]) == 0
    assert main(["run", str(trace), str(tmp_path / "f"), "--size", "8MiB", "--dry-run"]) == 0
    assert "trims: the data of all blocks that the workload trims are lost" in capsys.readouterr().out


def test_a_dry_run_counts_targets_from_0_and_fills_nothing_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_bytes(bytes(4 << 20))
    assert main(["run", "sqlio-random-read-4", str(theirs), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "target 0" in out
    assert "were never written" not in out
    two = tmp_path / "two.toml"
    streams = "".join(f"[[phase.stream]]\ntarget = {n}\nrequest = '4KiB'\n" for n in range(2))
    two.write_text(f"title = 'Two'\n[[phase]]\nduration = '1s'\n{streams}")
    assert main(["run", str(two), "--dry-run"]) == 2
    assert "uses 2 targets; name them" in capsys.readouterr().err


def test_a_pipe_is_refused_without_waiting_for_its_other_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert size_of(str(pipe)) is None
    for more in ([], ["--dry-run"]):
        assert main(["run", "sqlio-random-read-4", str(pipe), *more]) == 2
        assert "neither a file nor a block device" in capsys.readouterr().err


def test_a_size_is_rounded_or_refused(tmp_path: Path) -> None:
    there, new, link = tmp_path / "there", tmp_path / "new", tmp_path / "link"
    there.write_bytes(bytes(4 << 20))
    link.symlink_to("gone")

    def aimed(target: Path, size: str) -> tuple[str, ...]:
        with aim((str(target),), size=size, scratch=None, keep=False, overwrite=(), destroys_data=False) as found:
            return found.notes

    with pytest.raises(BadInputError, match="exists with 4 MiB; name a new file or leave --size out"):
        aimed(there, "8MiB")
    assert aimed(there, "4MiB") == aimed(there, "3MiB") == ()  # as a second run with the same words
    assert aimed(new, str((8 << 20) + 1)) == (f"{new} gets 9 MiB of data: sizes are whole MiB",)
    assert aimed(new, "8MiB") == ()
    with pytest.raises(BadInputError, match="at least 1 MiB"):
        aimed(new, "4KiB")
    with pytest.raises(BadInputError, match="a symbolic link to gone, which does not exist"):
        aimed(link, "8MiB")


def test_what_the_system_refuses_is_told_with_its_remedy(
    filled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/home/other/data")

    monkeypatch.setattr(Store, "runs", refuse)
    assert main(["runs"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("brickyard: /home/other/data: Permission denied; choose a place")
    monkeypatch.setattr(Path, "exists", refuse)
    assert main(["runs"]) == 2
    assert "cannot be used as a store: Permission denied" in capsys.readouterr().err


def test_an_output_that_nobody_reads_is_no_failure_and_no_verdict(filled: Path) -> None:
    for words in (["runs"], ["runs", "--json"], ["run", "--help"]):
        reading, writing = os.pipe()
        os.close(reading)
        command = [sys.executable, "-m", "brickyard", *words]
        ended = subprocess.run(command, check=False, stdout=writing, stderr=subprocess.PIPE, text=True)
        os.close(writing)
        assert (ended.returncode, ended.stderr) == (141, "")


def test_a_full_standard_output_is_one_line(filled: Path) -> None:
    for more in ([], ["--json"]):
        with open("/dev/full", "w") as full:
            command = [sys.executable, "-m", "brickyard", "runs", *more]
            ended = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
        assert ended.returncode == 1
        assert ended.stderr.startswith("brickyard: standard output: No space left on device; ")
        assert len(ended.stderr.splitlines()) == 1


def test_no_remedy_shows_a_password(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "pgbenhc", "postgresql://me:secret@host/db"]) == 2
    err = capsys.readouterr().err
    assert "secret" not in err


@pytest.mark.parametrize("loaded", ["_sqlite3", "_core.abi3"])
def test_ctrl_c_while_modules_are_imported_is_one_line(loaded: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "brickyard", "load-curve", "sqlio-random-read-4", "sim:terraserver-2003"]
    # Where the host is so busy that the signal comes late, what was begun lies here.
    command += ["-o", str(tmp_path / "report"), "--store", str(tmp_path / "runs.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        while loaded not in Path(f"/proc/{started.pid}/maps").read_text():
            assert started.poll() is None
            time.sleep(0.001)
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=30)
    assert (started.returncode, out, err) == (130, "", "brickyard: interrupted\n")


def test_runs_are_listed_and_filtered(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def ids(*arguments: str) -> list[int]:
        found = answer(capsys, "runs", *arguments)["runs"]
        assert isinstance(found, list)
        return [item["run"] for item in found]

    everything = list(range(1, 14))
    assert ids() == everything
    assert ids("--limit", "2") == [12, 13]
    assert ids("--limit", "0") == everything
    assert ids("--outcome", "interrupted") == [13]
    assert ids("--profile", "other") == []
    assert ids("--target", "a fi") == everything
    assert ids("--since", "1h") == everything
    assert ids("--since", "2999-01-01") == []
    assert ids("--study", "s1") == ids("s1") == everything[:-1]
    assert ids("5-8,13", "2") == [2, 5, 6, 7, 8, 13]
    assert ids("latest", "5-8", "--outcome", "done") == [5, 6, 7, 8]
    assert main(["runs", "3-5"]) == 0
    assert re.findall(r"(?m)^ +(\d+)  ", capsys.readouterr().out) == ["3", "4", "5"]
    assert main(["runs", "--each", "--limit", "3"]) == 0
    out = capsys.readouterr().out
    assert "random write 1 MiB" in out
    assert "10 older rows are not shown" in out
    assert main(["runs"]) == 0
    out = capsys.readouterr().out
    assert "1-12" in out
    assert "12 runs" in out
    assert "random write 1 MiB" not in out
    assert main(["runs", "--study", "s1"]) == 0
    assert "random write 1 MiB" in capsys.readouterr().out
    asked: list[tuple[str, str, str]] = [
        ("--profile", "nope", "no run of nope; there are runs of "),
        ("--target", "nope", "no run on nope; there are runs on "),
        ("--since", "2999-01-01", "no run matches"),
    ]
    for option, value, said in asked:
        assert main(["runs", option, value]) == 0
        assert said in capsys.readouterr().out


@pytest.mark.parametrize(("ended", "shown"), [("done", "done"), (None, "interrupted")])
def test_a_study_that_went_on_and_ended_is_not_interrupted(
    ended: str | None, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "runs.db"
    with Store(kept) as store:
        study = store.add_study("two depths", {})
        for outcome in ("done", "interrupted", "done"):
            add_run(store, [], study=study, outcome=outcome)
        if ended:
            store.end_study(study, ended, [])
    assert main(["runs", "--store", str(kept)]) == 0
    (row,) = re.findall(r"(?m)^ *s1 .*", capsys.readouterr().out)
    assert re.search(rf"UTC  {shown} .*, 1 interrupted", row)


def test_a_span_counts_back_from_now() -> None:
    from datetime import UTC, datetime

    now = datetime(2026, 3, 8, 12, tzinfo=UTC)
    assert since_unix_ns("2h", now) == int(datetime(2026, 3, 8, 10, tzinfo=UTC).timestamp() * 1e9)
    assert since_unix_ns("1w", now) == int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1e9)


def test_show_has_figures_and_says_only_what_samples_support(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "show", "1")
    (row,) = document["totals"]  # type: ignore[misc]
    assert row["requests"] == 1200  # type: ignore[has-type]
    assert row["measures"]["service"]["p99_ns"] is not None  # type: ignore[has-type]
    assert row["measures"]["service"]["p99.9_ns"] is None  # type: ignore[has-type]
    assert main(["show", "1"]) == 0
    out = capsys.readouterr().out
    assert out.index("note: Cache unknown.") < out.index("Throughput")
    assert all(name in out for name in ("p50", "p90", "p99", "p99.9", "p99.99", "response", "IOPS", "MiB/s"))
    assert answer(capsys, "show", "latest")["run"] == 13
    assert answer(capsys, "show")["outcome"] == "interrupted"
    several = answer(capsys, "show", "2-3,13")["runs"]
    assert isinstance(several, list)
    assert [item["run"] for item in several] == [2, 3, 13]
    assert main(["show", "2-3,13"]) == 0
    assert re.findall(r"(?m)^Run (\d+)  ", capsys.readouterr().out) == ["2", "3", "13"]


def test_report(filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "report", "s1", "-o", str(tmp_path / "a report"))
    assert document["runs"] == list(range(1, 13))
    assert Path(str(document["report"])).read_text().startswith("<!DOCTYPE html>")
    assert main(["report", "1-3", "13", "-o", str(tmp_path / "some")]) == 0
    assert capsys.readouterr().out.strip() == f"report: {tmp_path / 'some' / 'report.html'}"


def test_export_gives_the_same_rows_in_each_format(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "1", "13"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    # Run 1 has three intervals and run 13 one, each with service and response times.
    assert len(rows) == 8
    assert rows[0]["run"] == "1"
    assert rows[-1]["outcome"] == "interrupted"
    parquet = tmp_path / "out.parquet"
    document = answer(capsys, "export", "1", "13", "-o", str(parquet))
    assert document["rows"] == 8
    table = pq.read_table(parquet).to_pylist()
    assert [str(item["requests"]) for item in table] == [item["requests"] for item in rows]
    assert [item["histogram"] for item in table] == [item["histogram"] for item in rows]
    exported = answer(capsys, "export", "1", "13", "--format", "json")["runs"]
    assert isinstance(exported, list)
    assert sum(len(item["intervals"]) for item in exported) == 8
    assert exported[0]["engine"]["clock"]["source"] == "tsc"


def test_doctor_looks_at_the_host_from_where_no_run_can_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir("/proc")
    checks = answer(capsys, "doctor")["checks"]
    assert isinstance(checks, list)
    states = {check["item"]: check for check in checks}
    assert states["current directory"]["state"] == "missing"
    assert "No run can use the current directory /proc" in states["current directory"]["text"]
    assert len(states) > 10
    assert main(["doctor", "/proc"]) == 2


def test_doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checks = answer(capsys, "doctor", str(tmp_path))["checks"]
    assert isinstance(checks, list)
    assert all(item["text"] for item in checks)
    assert main(["doctor", str(tmp_path)]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert f"{sum(check['state'] == 'ok' for check in checks)} of {len(checks)} checks are ok" in first
    assert str(checks[0]["text"]) in second


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"brickyard {_core.version()}\n"
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for verb in ("characterize", "run", "profiles", "runs", "show", "report", "export", "doctor"):
        assert verb in out
        assert main([verb, "--help"]) == 0
    capsys.readouterr()


def test_a_shell_completes_verbs_and_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "brickyard"
    script.write_text(capsys.readouterr().out)

    def completed(*words: str) -> set[str]:
        """What bash proposes for the last word, by the function that the script gives it."""
        line = ["brickyard", *words]
        asked = f"COMP_WORDS=({' '.join(repr(word) for word in line)}); COMP_CWORD={len(words)}"
        call = "$(complete -p brickyard | sed -n 's/.*-F \\([^ ]*\\).*/\\1/p')"
        shell = f'source {script}; {asked}; {call} brickyard {words[-1]!r} x; printf "%s\\n" "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
        return {word.strip() for word in done.stdout.split()}

    assert "load-curve" in completed("load")
    assert {"--rebuild-rate", "--repeat"} <= completed("run", "--re")
    for shell in ("zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert "load-curve" in capsys.readouterr().out


def test_options_of_other_tools_are_told_their_name_here(capsys: pytest.CaptureFixture[str]) -> None:
    for words, remedy in (
        (["run", "sqlio-random-read-4", "sim:msr-2003-wd", "--iodepth", "4"], "write --set depth=4"),
        (["run", "sqlio-random-read-4", "sim:msr-2003-wd", "--duration", "4s"], "write --set duration=4s"),
        (["run", "sqlio-random-read-4", "--qd=4"], "write --set depth=4"),
        (["run", "sqlio-random-read-4", "sim:msr-2003-wd", "--set", "bs=4k"], "fio's `bs` is `request` here"),
        (["run", "f1", "bs=1M"], "bs=1M is a word of dd"),
        (["fio", "job.fio"], "brickyard run --rw randread"),
        (
            ["load-curve", "--rw=randread", "--blocksize", "4k", "--iodepth", "8", "f1"],
            "`brickyard run --rw=randread --blocksize 4k --iodepth 8 --save p.toml --dry-run` writes it.",
        ),
        (["crosscheck", "--iodepth=8", "f1"], "run --rw randread --iodepth=8 --save p.toml"),
        (["run", "sqlio-random-read-4", "sim:msr-2003-wd", "--ruler", "throughput>=30"], "30 of what?"),
        (["load-curve", "sqlio-random-read-4", "sim:msr-2003-wd", "--limit", "p99:20"], "20 of what?"),
    ):
        assert main(words) == 2
        assert remedy in capsys.readouterr().err


def test_help_is_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    shown = capsys.readouterr().out
    groups = (
        "Workload",
        "Condition of the target",
        "Requirements and prices",
        "A workload given with fio's options",
        "Output",
    )
    assert [place for group in groups if (place := shown.find(f" {group} ")) < 0] == []
    assert "default: False" not in shown
    assert "default: ()" not in shown


def test_few_descriptors_are_one_clear_line(tmp_path: Path) -> None:
    with Store() as store:
        add_run(store, [interval(0, SECOND, cell([MS] * 200)), phase_end()])
    for limit in (14, 20):
        command = f"ulimit -n {limit}; exec {sys.executable} -m brickyard report -o {tmp_path}/{limit}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        assert "unexpected" not in done.stderr
        assert "ulimit -n 1024" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_pipe_gets_lines_of_progress_on_stderr_and_stdout_stays_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brickyard.cli.parts.progress.PLAIN_EVERY_S", 0.0)
    words = ["run", "sqlio-random-read-4", "sim:terraserver-2003", "--set", "duration=3s", "--set", "warmup=1s"]
    assert main([*words, "--store", str(tmp_path / "runs.db"), "--json"]) == 0
    out, err = capsys.readouterr()
    json.loads(out)
    lines = re.findall(r"^\S+: (\S+ s) of (\S+ s) of modelled time[^:]*: (?:warm-up: )?[\d,]+ IOPS ", err, re.MULTILINE)
    assert lines[:4] == [("1.0 s", "4.0 s"), ("2.0 s", "4.0 s"), ("3.0 s", "4.0 s"), ("4.0 s", "4.0 s")]


@pytest.mark.parametrize("name", ["shop.fio", "./shop.fio", "/x/test.icf"])
def test_another_tools_file_in_place_of_a_profile_has_its_way_in(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.fio").write_text("[j]\nrw=read\nsize=1m\n")
    assert main(["run", name, "sim:terraserver-2003"]) == 2
    assert f"brickyard import {Path(name)} -o" in capsys.readouterr().err


def test_progress_names_the_step_of_a_curve_and_the_phase_of_many() -> None:
    plan = Plan(phase=[])
    for marks, said in (
        (RunMarks(loop="closed"), "closed loop"),
        (RunMarks(address="random", operation="read", request_bytes=4096), "random read 4 KiB"),
        (RunMarks(reads_per_s=93.75123, writes_per_s=0), "93.8/s reads, 0/s writes"),
        (RunMarks(part="precondition", round=3), "precondition, round 3"),
        (RunMarks(offered_per_s=29.3), "29.3/s offered"),
        (RunMarks(searched_per_s=30.0, search=2), "search 2, 30.0/s offered"),
        (RunMarks(levels={"rate": "8"}, repetition=1), "rate=8"),
    ):
        assert describe(RunSpec("p", plan, ["sim:wd2500jd"], marks=marks)) == said
    rates = [PhaseRate(str(number), 100.0 * number, 0.0, 0, is_rated=True) for number in range(1, 6)]
    assert closing(rates) == "5 phases, 100 to 500 IOPS"


def test_what_an_end_leaves_of_an_interval_has_no_rate_in_the_progress(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At Ctrl-C, requests that waited ended within a fraction of a ms: 15,000/s of a load that was offered 777/s."""
    monkeypatch.setattr("brickyard.cli.parts.progress.PLAIN_EVERY_S", 0.0)
    terminal = Terminal()
    terminal._live = False
    terminal.run_begins(RunSpec("p", Plan(phase=[Phase()]), ["sim:wd2500jd"]))
    whole = interval(0, SECOND, cell([MS] * 777))
    rest = interval(SECOND, SECOND + MS, cell([MS] * 15))
    drain = interval(SECOND, 2 * SECOND, cell([MS] * 8000), drain=True)
    for event in (whole, rest, drain):
        terminal.event(told(event).event)
    err = capsys.readouterr().err
    assert "777 IOPS" in err
    assert "15,000 IOPS" not in err
    assert "8,000 IOPS" not in err


def test_an_interrupted_warm_up_leaves_no_rate(tmp_path: Path) -> None:
    """Nothing is sent in a drain, so that it has no rate either."""
    with Store(tmp_path / "runs.db") as store:
        events = [
            interval(0, SECOND, cell([MS] * 777), warmup=True),
            interval(SECOND, SECOND + 200 * MS, cell([MS] * 3000), drain=True),
            phase_end(),
        ]
        record = store.record(add_run(store, events, outcome="interrupted"))
    assert [rate.is_rated for rate in closing_rates(record)] == [False]


def test_a_line_of_progress_is_never_beyond_the_planned_time() -> None:
    terminal = Terminal()
    terminal._planned_ns = 10 * SECOND
    assert terminal._at(11 * SECOND, None) == "10 s of 10 s: "

"""The scratch file: how large, where, and gone afterwards."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import pytest

from brickyard.errors import BadInputError
from brickyard.store import Store
from brickyard.study.running import scratch

GIB = 1 << 30
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> object:
    def set_free(free_bytes: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free_bytes, 0, free_bytes))

    return set_free


@pytest.mark.parametrize(
    ("free_bytes", "asked", "cache", "size"),
    [
        (100 * GIB, None, None, 2 * GIB),
        (4 * GIB, None, None, GIB),  # a quarter of what is free
        (100 * GIB, None, GIB // 4, 2 * GIB),
        (100 * GIB, None, 8 * GIB, 2 * GIB),  # four times the cache would be more than is taken unasked
        (100 * GIB, 32 * GIB, 8 * GIB, 32 * GIB),
        (4 * GIB, 3 * GIB, None, 3 * GIB),  # who asks may take more than a quarter
    ],
)
def test_sizes(free: object, free_bytes: int, asked: int | None, cache: int | None, size: int) -> None:
    free(free_bytes)  # type: ignore[operator]
    found, notes = scratch.plan_size(Path("/"), asked, cache)
    assert found == size
    if cache is None:
        assert "cache size is unknown" in notes[0]
    elif size < 4 * cache:
        assert "--size 32 GiB" in notes[0]
    else:
        assert notes == []


def test_quick_takes_less_but_never_less_than_four_caches(free: object) -> None:
    free(100 * GIB)  # type: ignore[operator]
    assert scratch.plan_size(Path("/"), None, None, quick=True)[0] == GIB // 2
    assert scratch.plan_size(Path("/"), None, GIB // 4, quick=True)[0] == GIB


def test_too_little_space_is_refused(free: object) -> None:
    free(40 << 20)  # type: ignore[operator]
    with pytest.raises(BadInputError, match="at least 16 MiB"):
        scratch.plan_size(Path("/"), None, None)
    with pytest.raises(BadInputError, match="do not fit"):
        scratch.plan_size(Path("/"), GIB, None)


def test_the_file_is_gone_afterwards_unless_kept(tmp_path: Path) -> None:
    with scratch.scratch_file(tmp_path, 64 << 20) as made:
        made.path.write_bytes(b"x")
    assert list(tmp_path.iterdir()) == []
    with scratch.scratch_file(tmp_path, 64 << 20, keep=True) as made:
        made.path.write_bytes(b"x")
    assert list(tmp_path.iterdir()) == [made.path]


@pytest.mark.parametrize("asked", [None, "a directory"])
def test_leftovers_of_killed_runs_are_taken_away_and_nothing_else(asked: str | None, tmp_path: Path) -> None:
    directory = tmp_path / asked if asked else None
    home = directory or scratch.cache_home()
    home.mkdir(parents=True)
    dead, locked, theirs = (home / f"scratch-99999999{number}.brick" for number in range(3))
    alive, other = home / f"scratch-{os.getppid()}.brick", home / "mine.brick"
    for path in (dead, locked, alive, other):
        path.write_bytes(scratch.HEADER_MAGIC + bytes(4079))
    theirs.write_bytes(b"x")
    with locked.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with scratch.scratch_file(directory, 64 << 20) as made:
            assert sorted(home.iterdir()) == sorted([alive, locked, made.path, other, theirs])
    assert made.notes[0] == f"removed {dead} (4 KiB), the scratch file of a run that was killed"


def test_what_was_kept_is_no_leftover(tmp_path: Path) -> None:
    kept = []
    for _ in range(2):
        with scratch.scratch_file(tmp_path, 64 << 20, keep=True) as made:
            made.path.write_bytes(scratch.HEADER_MAGIC)
            kept.append(made.path)
    with scratch.scratch_file(tmp_path, 64 << 20) as made:
        assert sorted(tmp_path.iterdir()) == [*kept, made.path]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_run_takes_its_scratch_file_away(number: signal.Signals, tmp_path: Path) -> None:
    # Under nohup tests inherit an ignored SIGHUP, which a run respects.
    python = ["env", "--default-signal=HUP", sys.executable]
    command = [*python, "-m", "brickyard", "run", "sqlio-random-read-4", "--scratch", str(tmp_path)]
    process = subprocess.Popen(
        [*command, "--size", "16MiB", "--set", "duration=5min", "--store", str(tmp_path / "runs.db")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 60
        while not is_measuring(tmp_path / "runs.db"):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
    assert [place.name for place in tmp_path.iterdir() if not place.name.startswith("runs.db")] == []


def test_a_report_that_is_cut_short_costs_no_answer_and_leaves_no_scratch_file(tmp_path: Path) -> None:
    """By SIGTERM as by Ctrl-C."""
    command = [sys.executable, "-m", "brickyard", "load-curve", "sqlio-random-read-1", "--scratch", str(tmp_path)]
    command += ["--size", "16MiB", "--each", "500ms", "--levels", "50", "--store", str(tmp_path / "runs.db")]
    pipe = subprocess.PIPE
    process = subprocess.Popen([*command, "-o", str(tmp_path / "page")], stdout=pipe, stderr=pipe, text=True)
    try:
        assert process.stderr is not None
        assert any(line.startswith("writing the report") for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, err
    assert err.startswith("the report was skipped; `brickyard report s1 --store ")
    assert "Response time against offered rate" in out
    assert list(tmp_path.glob("*.brick")) == []


def is_measuring(store: Path) -> bool:
    if not store.exists():
        return False
    with Store(store, must_exist=True) as kept:
        return any(kept.record(run.id).intervals for run in kept.runs())

"""Storage that hangs inside the call that submits, or fails everything: who is blamed, and does the run end."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from brickyard.store import Record, Store
from support import events_of

PATIENCE_S = 60
DEPTH = 4
PROFILE = f"""
title = "Reads"
interval = "100ms"
hang_after = "1s"
engine = "%s"
[[phase]]
name = "reads"
duration = "%s"
[[phase.stream]]
name = "all"
request = "4KiB"
address = "random"
depth = {DEPTH}
"""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="mounting needs root and /dev/fuse"
)


@dataclass
class Disk:
    """A file system with one file, whose server can be stopped."""

    server: subprocess.Popen[str]
    file: Path

    def hang(self) -> None:
        self.server.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.server.send_signal(signal.SIGCONT)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Disk]]:
    place = tmp_path / "mounted"
    place.mkdir()
    made: list[Disk] = []

    def begin(errno: int = 0) -> Disk:
        command = [
            sys.executable,
            str(Path(__file__).parents[1] / "fuse_disk.py"),
            str(place),
            str(64 << 20),
            str(errno),
        ]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        made.append(Disk(server, place / "disk"))
        assert server.stdout is not None
        assert server.stdout.readline() == "mounted\n"
        return made[-1]

    yield begin
    for disk in made:
        disk.go_on()
        subprocess.run(["umount", "--lazy", str(place)], check=True)
        disk.server.kill()
        disk.server.wait()


@dataclass
class Run:
    process: subprocess.Popen[str]
    place: Path

    def record(self) -> Record | None:
        if not self.place.exists():
            return None
        with Store(self.place) as store:
            return store.record(1) if store.runs() else None

    def until(self, holds: Callable[[Record], Any]) -> Record:
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            record = self.record()
            if record is not None and holds(record):
                return record
            time.sleep(0.05)
        raise AssertionError("never came to it")

    def ended(self, code: int) -> Record:
        out, err = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == code, out + err
        record = self.record()
        assert record is not None
        return record


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    made: list[subprocess.Popen[str]] = []

    def start(target: Path, engine: str = "io_uring", duration: str = "4s") -> Run:
        profile, place = tmp_path / "reads.toml", tmp_path / "runs.db"
        profile.write_text(PROFILE % (engine, duration))
        command = [sys.executable, "-m", "brickyard", "run", str(profile), str(target), "--store", str(place), "--json"]
        made.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return Run(made[-1], place)

    yield start
    for process in made:
        process.kill()
        process.communicate()


def measured_some(record: Record) -> bool:
    return len(record.costs) > 3


@pytest.mark.parametrize("engine", ["io_uring", "psync"])
def test_a_stall_inside_the_submission_is_the_storages(
    engine: str, mount: Callable[..., Disk], begin: Callable[..., Run]
) -> None:
    disk = mount()
    run = begin(disk.file, engine)
    run.until(measured_some)
    disk.hang()
    hung = run.until(lambda record: len(events_of(record, "hang")) == DEPTH)
    disk.go_on()
    record = run.ended(0)
    # Each is named while it hangs, with its own offset.
    assert len({hang["offset_bytes"] for hang in events_of(hung, "hang")}) == DEPTH
    assert {(hang["operation"], hang["request_bytes"]) for hang in events_of(hung, "hang")} == {("read", 4096)}
    assert all(hang["outstanding_ns"] > 1_000_000_000 for hang in events_of(hung, "hang"))
    [end] = events_of(record, "phase_end")
    assert not end["generator_bound"]
    assert end["loop_busy_share"] < 0.5
    warnings = {item.id: item for item in record.info.warnings}
    assert "generator_bound" not in warnings
    assert "hung_requests" in warnings
    if engine == "io_uring":
        # Such a file system carries each request out before it takes the next.
        assert end["depth"] == {"in_flight": DEPTH, "at_once": 1}
        assert "the storage had 1.0 requests at a time, not 4.0" in warnings["depth_not_reached"].text
    else:
        assert "depth_not_reached" not in warnings


def test_answers_that_come_long_after_the_end_are_said(mount: Callable[..., Disk], begin: Callable[..., Run]) -> None:
    disk = mount()
    run = begin(disk.file, duration="1s")
    run.until(lambda record: record.costs)
    disk.hang()
    time.sleep(3)
    disk.go_on()
    record = run.ended(0)
    [said] = [item.text for item in record.info.warnings if item.id == "late"]
    assert said.startswith("In phase reads the last answer came ")
    assert "after the end of the 1.00 s that were measured" in said


@pytest.mark.parametrize("engine", ["io_uring", "psync"])
def test_a_run_that_is_given_up_ends_while_the_storage_hangs(
    engine: str, mount: Callable[..., Disk], begin: Callable[..., Run]
) -> None:
    disk = mount()
    run = begin(disk.file, engine, "10min")
    run.until(measured_some)
    disk.hang()
    run.until(lambda record: events_of(record, "hang"))
    run.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    run.process.send_signal(signal.SIGINT)
    # Only what is on record may let the storage go on.
    record = run.until(lambda found: found.info.outcome == "interrupted")
    disk.go_on()
    [end] = events_of(record, "phase_end")
    assert end["outstanding"] == DEPTH
    assert sum(interval.requests for interval in record.intervals) > 0
    run.ended(130)


def test_one_signal_ends_a_run_on_storage_that_never_comes_back(
    mount: Callable[..., Disk], begin: Callable[..., Run]
) -> None:
    disk = mount()
    run = begin(disk.file, "io_uring", "10min")
    run.until(measured_some)
    disk.hang()
    run.process.send_signal(signal.SIGTERM)
    record = run.until(lambda found: found.info.outcome == "interrupted")
    disk.go_on()
    [end] = events_of(record, "phase_end")
    assert end["outstanding"] > 0
    out, err = run.process.communicate(timeout=PATIENCE_S)
    assert run.process.returncode == 130, out + err
    assert "waiting at most 15 s for requests in flight; press Ctrl-C again to end at once" in err


@pytest.mark.parametrize("engine", ["io_uring", "psync"])
def test_a_run_of_which_every_request_failed_has_failed(
    engine: str, mount: Callable[..., Disk], begin: Callable[..., Run]
) -> None:
    disk = mount(errno=5)
    run = begin(disk.file, engine, "500ms")
    out, err = run.process.communicate(timeout=PATIENCE_S)
    assert run.process.returncode == 1, out + err
    document = json.loads(out)
    assert document["outcome"] == "failed"
    assert document["message"].startswith("nothing was measured: every request failed in reads, all (")
    assert "Input/output error" in document["message"]
    assert document["totals"][0]["requests"] == 0
    assert document["totals"][0]["errors"] > 0


def test_a_target_whose_reads_fail_is_refused_in_one_line(mount: Callable[..., Disk], tmp_path: Path) -> None:
    disk = mount(errno.EIO)
    command = [sys.executable, "-m", "brickyard", "run", "sqlio-random-write-4", str(disk.file)]
    done = subprocess.run(
        [*command, "--store", str(tmp_path / "s.db")], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "unexpected" not in done.stderr
    assert "reading the header failed: Input/output error" in done.stderr.splitlines()[-1]

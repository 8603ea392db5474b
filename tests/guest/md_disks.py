"""What the tests of md share: disks, arrays on them, and their removal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from brickyard import conditions
from brickyard.arrays import find
from brickyard.arrays.host import wait_until
from brickyard.arrays.md import Md
from brickyard.cli import main

Run = Callable[..., tuple[int, dict[str, Any]]]
DISKS = [f"/dev/vd{letter}" for letter in "abcdefghijklm"]
# Of each disk only so much is used: a rebuild of the whole would take ten minutes at these rates.
PART_KIB = 40 << 10


def shell(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def create(level: int, members: int, *options: str, name: str = "/dev/md0", disks: list[str] | None = None) -> Md:
    """In agreement from the start: the disks are new, so that all members are zero, and so is their parity."""
    devices = (disks or DISKS)[:members]
    size = [] if level == 0 or any("--size" in option for option in options) else [f"--size={PART_KIB}"]
    arguments = ["--create", name, "--run", "--assume-clean", f"--level={level}", f"--raid-devices={members}"]
    shell("mdadm", *arguments, *size, *options, *devices)
    found = find(name)
    assert isinstance(found, Md)
    return found


class Forked:
    """Work in a process of its own. It is forked off, since an emulated processor needs 15 s to start Python anew."""

    def __init__(self, work: Callable[[], object], home: str | None = None) -> None:
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            self._become(work, home)

    def _become(self, work: Callable[[], object], home: str | None) -> NoReturn:
        code = 70
        try:
            os.dup2(self._out.fileno(), 1)
            os.dup2(self._err.fileno(), 2)
            sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
            if home is not None:
                os.environ |= {"HOME": home, "XDG_STATE_HOME": "", "NO_COLOR": "1"}
                os.environ.pop("BRICKYARD_STATE_HOME", None)
            code = int(cast("int", work() or 0))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def out(self) -> str:
        return os.pread(self._out.fileno(), 1 << 20, 0).decode()

    def err(self) -> str:
        return os.pread(self._err.fileno(), 1 << 20, 0).decode()

    def communicate(self, timeout: float = 120.0) -> tuple[str, str]:
        wait_until(self._has_ended, "the end of a process", timeout)
        return self.out(), self.err()

    def _has_ended(self) -> bool:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode is not None

    def kill(self) -> None:
        if not self._has_ended():
            os.kill(self.pid, signal.SIGKILL)
            self.communicate()


def brickyard(*arguments: str, home: str = "/run/home") -> Forked:
    """The command line beside this process, for a user with that home."""
    return Forked(lambda: main(list(arguments)), home)


@contextmanager
def holder(condition: str, rate_bytes_per_s: int | None = None) -> Iterator[Forked]:
    """A process that holds /dev/md0 in a condition until it is killed."""

    def hold() -> None:
        with conditions.hold("/dev/md0", condition, manage=True, rate_bytes_per_s=rate_bytes_per_s) as held:
            held.sample()
            print("held", flush=True)
            time.sleep(600)

    found = Forked(hold)
    try:
        wait_until(lambda: "held\n" in found.out() or found.returncode is not None, found.err() or "the condition", 120)
        yield found
    finally:
        found.kill()


@pytest.fixture
def clean_disks() -> Iterator[None]:
    """Stops all arrays afterwards and takes the superblocks away, so that every test begins with empty disks."""
    yield
    subprocess.run(["mdadm", "--stop", "--scan"], capture_output=True, check=False, timeout=60)
    left = subprocess.run(["mdadm", "--zero-superblock", *DISKS], capture_output=True, check=False, timeout=60)
    assert b"busy" not in left.stderr, left.stderr
    for disk in DISKS:
        shell("wipefs", "--quiet", "--all", disk)
    assert not list(Path("/sys/block").glob("md*/md/dev-*")), "an array is left"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    def measured(target: str, seconds: float, *options: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        store = ["--store", str(tmp_path / "runs.db")]
        load = ["run", "sqlio-random-read-4", target, "--set", f"duration={seconds}", *store, "--json", *options]
        code = main(load)
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return code, document

    return measured

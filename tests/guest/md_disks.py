"""What the tests of md share: disks, arrays on them, and their removal."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from brickyard.arrays import find
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

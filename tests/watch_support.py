"""A watch of a device beside fio, devices to watch, and what the kernel itself counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from brickyard.lab import disks
from brickyard.watch.seen import time_ns

BRICKYARD = [sys.executable, "-m", "brickyard"]

WITH_SBIN = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}

CAN_WATCH = os.geteuid() == 0 and Path("/sys/kernel/btf/vmlinux").exists()


seen_by_kernel = pytest.mark.skipif(not CAN_WATCH, reason="needs root and a kernel that describes itself (BTF)")


WAIT_S = 120.0


def shell(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, env=WITH_SBIN).stdout.strip()


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(256 << 20)
    device = shell("losetup", "--find", "--show", str(image))
    try:
        yield device
    finally:
        shell("losetup", "--detach", device)


@pytest.fixture
def zram() -> Iterator[str]:
    control = Path("/sys/class/zram-control/hot_add")
    if not control.exists():
        pytest.skip("this kernel has no zram")
    number = control.read_text().strip()
    try:
        Path(f"/sys/block/zram{number}/disksize").write_text("256M")
        yield f"/dev/zram{number}"
    finally:
        if Path(f"/sys/block/zram{number}").exists():
            Path("/sys/class/zram-control/hot_remove").write_text(number)


@pytest.fixture
def slow_disk() -> Iterator[disks.About]:
    """An emulated disk whose model needs milliseconds for a request, on a loop device."""
    about = disks.up(disks.Wanted("watched", "sim:msr-2003-wd", 64 << 20, "honest", 8 << 20, None, None, 2.0))
    try:
        yield about
    finally:
        disks.down("watched")


@dataclass
class Running:
    process: subprocess.Popen[str]

    def ended(self) -> dict[str, Any]:
        """Interrupted as by Ctrl-C; what it then says."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == 0, err
        found: dict[str, Any] = json.loads(out)
        return found


@contextmanager
def watching(*words: str) -> Iterator[Running]:
    command = [*BRICKYARD, "watch", *words, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("watching "):
                break
        yield Running(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def fio(device: str, *words: str, jobs: int = 1, at_once: bool = False) -> None:
    """`at_once`: it does not wait for a CPU that others have, so that its own times are those of the device."""
    common = ["--name=load", f"--filename={device}", "--direct=1", "--size=48m", "--output=/dev/null"]
    shell(*(["chrt", "--rr", "1"] if at_once else []), "fio", *common, f"--numjobs={jobs}", *words)


def counters(device: str) -> list[int]:
    name = Path(device).name
    return [int(word) for word in Path(f"/sys/block/{name}/stat").read_text().split()]


def moved(before: list[int], after: list[int]) -> dict[str, int]:
    """What the kernel itself counted meanwhile."""
    since = [new - old for new, old in zip(after, before, strict=True)]
    return {
        "reads": since[0],
        "read_bytes": since[2] * 512,
        "writes": since[4],
        "write_bytes": since[6] * 512,
        "merges": since[1] + since[5],
        "discards": since[11],
        "flushes": since[15],
    }


def settle() -> None:
    os.sync()
    time.sleep(0.3)


def loaded(running: Running) -> set[int]:
    """Processes of a watch that hold programs in the kernel, by the kernel's word; other tests may watch meanwhile."""
    found = set()
    for place in Path("/proc").glob("[0-9]*/fdinfo/*"):
        process = place.parent.parent
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == running.process.pid and "prog_type:" in place.read_text():
                found.add(int(process.name))
        except OSError:
            continue
    return found


def time_bucket(ns: int) -> int:
    return next(number for number in range(320) if time_ns(number + 1) > ns)

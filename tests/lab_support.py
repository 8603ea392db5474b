"""What tests of the lab share: disks that are taken down again, what is on them past all caches, and what is left."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from brickyard.cli import main
from brickyard.errors import BrickyardError
from brickyard.lab import disks
from brickyard.lab.explore import record
from brickyard.lab.orders import Setup

BLOCK = 4096

WAIT_S = 60.0


def left_behind(mark: str) -> list[str]:
    """Loop devices, mounts and processes with this in their names."""
    loops = [path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    words = [content.replace(b"\0", b" ").decode("utf-8", "replace") for content in cmdlines()]
    return [text for text in (*loops, *mounts, *words) if mark in text]


def cmdlines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            yield path.read_bytes()


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@contextmanager
def shared(place: Path) -> Iterator[None]:
    """What is mounted below it goes from everywhere when it is unmounted, as on a host with systemd. Elsewhere, what
    other tests run in network namespaces would keep it mounted.
    """
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", place, place], check=True)
    subprocess.run(["mount", "--make-shared", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., disks.About]]:
    """Makes disks, and takes them down however the test ends."""
    with shared(tmp_path), shared(disks.home()):
        yield from _disks_made(capsys)


def _disks_made(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., disks.About]]:

    def make(*words: str) -> disks.About:
        code = main(["lab", "up", "disk", "--size", "64MiB", *words])
        assert code == 0, capsys.readouterr().err
        return disks.named("disk")

    yield make
    for about in disks.listed():
        try:
            disks.down(about.name)
        except BrickyardError:  # nothing stays, also where that fails
            os.kill(about.pid, signal.SIGKILL)
            until(lambda: disks.listed() == [], "a killed disk stays")
            raise
    assert left_behind(f"{disks.home()}/") == []


def do(device: str, work: Callable[[int, mmap.mmap], object]) -> None:
    """Past all of the kernel's caches."""
    buffer = mmap.mmap(-1, BLOCK)
    handle = os.open(device, os.O_RDWR | os.O_DIRECT)
    try:
        work(handle, buffer)
    finally:
        os.close(handle)
        buffer.close()


def write(device: str, letter: bytes, offset: int, *, flushed: bool = False) -> None:
    def work(handle: int, buffer: mmap.mmap) -> None:
        buffer[:] = letter * BLOCK
        os.pwritev(handle, [buffer], offset)
        if flushed:
            os.fsync(handle)

    do(device, work)


def read(device: str, offset: int) -> bytes:
    found = []

    def work(handle: int, buffer: mmap.mmap) -> None:
        os.preadv(handle, [buffer], offset)
        found.append(bytes(buffer[:]))

    do(device, work)
    return found[0]


SIZE, XFS_SIZE = 256 << 20, 512 << 20


def recorded(place: Path, workload: str, *, size_bytes: int = SIZE, load_s: float = 1.0, **setup: object) -> Path:
    record(Setup(workload, size_bytes=size_bytes, load_s=load_s, **setup), place)  # type: ignore[arg-type]
    return place


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of a refusal."""
    capsys.readouterr()
    assert main(["lab", *words]) != 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return lines[0]

"""A loop device without direct I/O: requests with O_DIRECT end in the page cache of its file all the same."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from brickyard.cli import main
from watch_support import WITH_SBIN

MIB = 1 << 20
BEHIND = "without flushes, so it is a figure of memory"


class Places:
    """A loop device over a file, and a file on one that is mounted."""

    def __init__(self, room: Path, undo: ExitStack) -> None:
        self._room, self._undo = room, undo

    def device(self, *options: str) -> str:
        image = self._room / "image"
        image.write_bytes(bytes(range(1, 65)) * (64 * MIB // 64))
        words = ["losetup", "--find", "--show", *options, str(image)]
        made = subprocess.run(words, capture_output=True, text=True, check=False, env=WITH_SBIN)
        if made.returncode:
            pytest.skip(f"no loop device: {made.stderr.strip()}")
        device = made.stdout.strip()
        self._undo.callback(subprocess.run, ["losetup", "--detach", device], check=True, env=WITH_SBIN)
        return device

    def file(self, *options: str) -> Path:
        device, mount = self.device(*options), self._room / "mount"
        mount.mkdir()
        for words in (["mkfs.ext4", "-q", "-F", device], ["mount", device, str(mount)]):
            subprocess.run(words, check=True, capture_output=True, env=WITH_SBIN)
        self._undo.callback(subprocess.run, ["umount", str(mount)], check=True, env=WITH_SBIN)
        return mount / "file"


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    with ExitStack() as undo:
        yield Places(tmp_path, undo)


def load(operation: str, place: str | Path) -> list[str]:
    asked = ["run", "--rw", operation, "--bs", "64k", "--iodepth", "4", "--runtime", "300ms", str(place)]
    return [*asked, "--check", "throughput>=1MiB/s", "--check", "p99<=10s"]


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_writes_of_a_file_on_it_are_those_of_memory(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    place = places.file()
    assert main([*load("randwrite", place), "--size", "16MiB"]) == 1
    told = said(capsys)
    assert told.count(f"{BEHIND}. ") == 2, "of the rate and of the time"
    assert "its writes went into the page cache behind loop" in told
    assert "rate and times are those of memory, until far more is written" in told
    assert "The storage was not the limit: memory took the writes." in told
    assert main(["runs"]) == 0
    told = said(capsys)
    assert "done, page cache" in told
    assert "page cache: the requests went through the page cache of the host" in told
    assert main([*load("randwrite", place), "--fsync", "1"]) == 0, "flushes reach the storage"
    assert "times are those of memory" not in said(capsys)


def test_reads_of_it_may_have_come_from_memory(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(load("randread", places.device())) == 0
    told = said(capsys)
    assert "MiB/s (may have come from the page cache)" in told
    assert "Reads of ad-hoc may have come from the page cache behind loop" in told
    assert "The storage, not the generator, was the limit" not in told
    assert "this run, which goes through loop" in told


def test_one_with_direct_io_is_as_its_storage(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    place = places.device("--direct-io=on")
    overwrite = ["--overwrite", place, "--i-know-this-destroys-data"]
    assert main([*load("randwrite", place), *overwrite]) == 0
    assert main(load("randread", place)) == 0
    assert main(["runs"]) == 0
    assert "age cache" not in said(capsys)

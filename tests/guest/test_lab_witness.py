"""A second witness: the kernel's dm-log-writes above a disk of the lab, whose durable images must be the lab's."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from brickyard.lab import disks
from brickyard.lab.orders import Plan, Ready, Show, State, States, Story
from brickyard.lab.program import Lab, plan

SIZE, WITNESS_SIZE, SECTOR = 32 << 20, 256 << 20, 512
BOUNDARIES = 20
# Documentation/admin-guide/device-mapper/log-writes.rst and drivers/md/dm-log-writes.c.
SUPER, ENTRY, MAGIC = struct.Struct("<QQQI"), struct.Struct("<QQQQ"), 0x6A736677736872
DISCARD, MARK = 4, 8


def shell(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout.strip()


@contextmanager
def witnessed(device: str, log: Path) -> Iterator[str]:
    """The same disk, with all that is written noted by the kernel as well."""
    with log.open("wb") as file:
        file.truncate(WITNESS_SIZE)
    other = shell("losetup", "--find", "--show", str(log))
    try:
        shell("dmsetup", "create", "witness", "--table", f"0 {SIZE // SECTOR} log-writes {device} {other}")
        try:
            yield "/dev/mapper/witness"
        finally:
            shell("dmsetup", "remove", "witness")
    finally:
        shell("losetup", "--detach", other)


def witness_images(log: Path) -> Iterator[tuple[str, bytes]]:
    """What was durable at each mark: an entry is in this log when a flush has covered it, or it was durable itself."""
    content = bytearray(SIZE)
    with log.open("rb") as file:
        magic, _, entries, sector_bytes = SUPER.unpack(file.read(SUPER.size))
        assert magic == MAGIC
        at = sector_bytes
        for _ in range(entries):
            file.seek(at)
            head = file.read(sector_bytes)
            sector, sectors, flags, data_bytes = ENTRY.unpack_from(head)
            at += sector_bytes
            if flags & MARK:
                yield head[ENTRY.size : ENTRY.size + data_bytes].rstrip(b"\0").decode(), bytes(content)
            elif flags & DISCARD:
                raise AssertionError("nothing was asked to be discarded")
            elif sectors:
                data = file.read(sectors * sector_bytes)
                content[sector * sector_bytes : sector * sector_bytes + len(data)] = data
                at += len(data)


def our_image(log: Path, cut: int, fuse: Path) -> tuple[State, bytes]:
    """The state at a cut without what was volatile there."""
    states = States(str(log), Story(cut, cut, [cut]), aim="acknowledgements")
    _, (state,) = plan(Plan(states, 1))
    with Lab("show", Show(states, str(fuse))) as lab:
        lab.heard(Ready)
        lab.tell(state.seed.encode())
        lab.heard(State)
        return state, (fuse / "disk").read_bytes()


def records() -> int:
    status = disks.ask("disk", "status").status
    assert status is not None
    return status.records


def marked(name: str) -> int:
    """A mark in the witness' log, and where ours is, when nothing was written meanwhile."""
    for attempt in range(5):
        before = records()
        shell("dmsetup", "message", "witness", "0", "mark", f"{name}.{attempt}")
        if records() == before:
            return before
    raise AssertionError("the disk does not come to rest")


def load(mount: Path, boundaries: dict[str, int]) -> None:
    """Files that are flushed, and between them writes that no flush follows."""
    region = mount / "region"
    region.write_bytes(bytes(1 << 20))
    os.sync()
    handle = os.open(region, os.O_RDWR | os.O_DIRECT)
    try:
        for number in range(BOUNDARIES):
            with (mount / f"part{number % 3}").open("wb") as file:
                file.write(os.urandom(3000 * (number + 1)))
                file.flush()
                os.fsync(file.fileno())
            (mount / f"part{number % 3}").replace(mount / f"file{number % 5}")
            if number % 2:
                shell("dd", "if=/dev/urandom", f"of={region}", "bs=16k", f"seek={number}", "count=1", "conv=notrunc",
                      "oflag=direct", "status=none")  # fmt: skip
            else:
                os.fsync(handle)
            boundaries[f"boundary{number}"] = marked(f"boundary{number}")
    finally:
        os.close(handle)


@pytest.fixture(autouse=True)
def _without_udev(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DM_DISABLE_UDEV", "1")


def test_the_kernels_log_of_writes_has_the_same_durable_images(tmp_path: Path) -> None:
    mount, fuse, log = (tmp_path / name for name in ("mount", "fuse", "log"))
    mount.mkdir()
    fuse.mkdir()
    boundaries: dict[str, int] = {}
    about = disks.up(disks.Wanted("disk", None, SIZE, "honest", SIZE, None, None, 1.0, log, backing=tmp_path))
    try:
        with witnessed(about.device, tmp_path / "witness") as device:
            shell("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", device)
            shell("mount", "-o", "commit=300,nodiscard", device, str(mount))
            try:
                load(mount, boundaries)
            finally:
                shell("umount", str(mount))
    finally:
        disks.down("disk")
    seen, volatile = {}, 0
    for name, content in witness_images(tmp_path / "witness"):
        seen[name.partition(".")[0]] = content  # of several attempts the last is the one at rest
    for name, cut in boundaries.items():
        state, content = our_image(log, cut, fuse)
        volatile += state.volatile_writes > 0
        assert content == seen[name], f"{name}: the images differ at {cut} records"
    assert len(boundaries) == BOUNDARIES
    assert volatile >= BOUNDARIES // 4, "no write was volatile at the boundaries, so that nothing was shown"

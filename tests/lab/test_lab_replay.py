"""A second witness of the lab's log and of the images that it gives: QEMU stands between a file system and the lab's
disk and logs the same requests in its own way, in the format of Linux's dm-log-writes. Both logs have to give the same
disk at each flush.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from brickyard.lab import kernel
from brickyard.lab.checks import Stage, workload_of
from brickyard.lab.ledger import ledger
from brickyard.lab.orders import Plan, Ready, Serve, Setup, Show, State, States, Story
from brickyard.lab.program import Lab, plan, serving

SIZE = 64 << 20
BOUNDARIES = 8
QEMU = shutil.which("qemu-system-x86_64")

# Of the lab's log: crates/lab/src/log.rs.
HEAD_BYTES, RECORD = 64, struct.Struct("<4QI2B2xQ")
FLUSH_END = 3
# https://docs.kernel.org/admin-guide/device-mapper/log-writes.html
SUPER, ENTRY = struct.Struct("<3QI"), struct.Struct("<4Q")
MAGIC, FLUSH, DISCARD = 0x6A736677736872, 1, 4


class Qemu:
    """A process that carries out no machine, only its block layer."""

    def __init__(self, *drives: str) -> None:
        words = [str(QEMU), "-machine", "none", "-nodefaults", "-display", "none", "-qmp", "stdio"]
        for drive in drives:
            words += ["-blockdev", drive]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.asked("qmp_capabilities")

    def asked(self, what: str, **arguments: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"execute": what, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            told = json.loads(line)
            assert "error" not in told, told
            if "return" in told:
                return
        pytest.fail("QEMU ended")

    def end(self) -> None:
        try:
            with suppress(OSError, AssertionError):
                self.asked("quit")
            self._process.wait(20)
        finally:
            self._process.kill()
            self._process.wait()


@contextmanager
def witnessed(disk: Path, room: Path) -> Iterator[Path]:
    """The disk as QEMU passes it on, in a file of its own."""
    log, export = room / "qemu.log", room / "export"
    log.touch()
    export.touch()
    qemu = Qemu(
        f"driver=file,node-name=disk,filename={disk},cache.direct=on",
        f"driver=file,node-name=log,filename={log}",
        "driver=blklogwrites,node-name=seen,file=disk,log=log",
    )
    try:
        about = {"node-name": "seen", "mountpoint": str(export), "writable": True, "allow-other": "off"}
        qemu.asked("block-export-add", type="fuse", id="seen", **about)
        one_write_at_a_time(export, room / "connections")
        yield export
    finally:
        qemu.end()


def one_write_at_a_time(export: Path, at: Path) -> None:
    """QEMU 7.2 reads the next request into the memory of the one that it carries out."""
    at.mkdir()
    with kernel.mounted("fusectl", at, "fusectl"):
        (at / str(os.minor(export.stat().st_dev)) / "max_background").write_text("1")


def images_by_qemu(log: Path) -> Iterator[bytearray]:
    """The disk at each flush, by dm-log-writes' rules: all that is logged before it."""
    content, image = log.read_bytes(), bytearray(SIZE)
    magic, version, entries, sector = SUPER.unpack_from(content)
    assert (magic, version) == (MAGIC, 1)
    at = sector
    for _ in range(entries):
        first, sectors, flags, _ = ENTRY.unpack_from(content, at)
        assert not flags & DISCARD, "nobody discards"
        begin, end = at + sector, at + (1 + sectors) * sector
        image[first * sector : (first + sectors) * sector] = content[begin:end]
        at = end
        if flags & FLUSH:
            yield image


def flushes_of_lab(log: Path) -> list[tuple[int, int]]:
    """The records of each flush's start and end."""
    content = (log / "records").read_bytes()[HEAD_BYTES:]
    records = [(index, *fields) for index, fields in enumerate(RECORD.iter_unpack(content))]
    return [(place, index) for index, _, _, place, _, _, kind, _, _ in records if kind == FLUSH_END]


def unmounted(place: Path) -> None:
    with suppress(OSError):  # nothing was mounted there
        kernel.unmount(place)


@contextmanager
def shown(states: States, room: Path) -> Iterator[tuple[Lab, Path]]:
    place = room / "show"
    place.mkdir()
    try:
        with Lab("show", Show(states, str(place))) as lab:
            lab.heard(Ready)
            yield lab, place / "disk"
    finally:
        unmounted(place)


def record_through_qemu(workload: str, room: Path) -> Path:
    """The lab's log of a workload whose requests went through QEMU."""
    log, fuse, mount = room / "log", room / "fuse", room / "mount"
    for place in (log, fuse, mount):
        place.mkdir()
    setup = Setup(workload, load_s=0.5, size_bytes=SIZE)
    with ExitStack() as ending:
        ending.callback(unmounted, fuse)
        orders = Serve(mount=str(fuse), medium=str(room / "medium"), size_bytes=SIZE, log=str(log))
        ending.enter_context(serving(orders))
        export = ending.enter_context(witnessed(fuse / "disk", room))
        loop = ending.enter_context(kernel.attached(export))
        kernel.make_file_system("ext4", loop.path)
        told = ending.enter_context(ledger(log / "count"))
        with kernel.mounted(loop.path, mount, "ext4"):
            workload_of(setup).run(Stage(mount, room, loop.path), setup, told, lambda: None)
    return log


@pytest.mark.skipif(QEMU is None, reason="qemu-system-x86_64 is missing")
@pytest.mark.parametrize("workload", ["files", "sqlite"])
def test_qemus_log_of_the_same_requests_gives_the_same_disk_at_each_flush(workload: str, tmp_path: Path) -> None:
    """A fault of the lab would come each time. QEMU 7.2 may log what a later request brought, as above, and logs
    no flush before which nothing was written since the last one."""
    for attempt in range(3):
        room = tmp_path / str(attempt)
        room.mkdir()
        faults = faults_beside_qemu(workload, room)
        if not faults:
            break
    assert faults == []


def faults_beside_qemu(workload: str, room: Path) -> list[str]:
    log = record_through_qemu(workload, room)
    flushes = flushes_of_lab(log)
    # QEMU logs a write that ends during a flush before it, which dm-log-writes would not.
    alone = {start: number for number, (start, end) in enumerate(flushes) if end == start + 1}
    assert len(alone) > 2 * BOUNDARIES
    chosen = list(alone)[:: len(alone) // (2 * BOUNDARIES)]
    # A cut right after the end of a flush; of it, the state without volatile writes has what is durable.
    story = Story(end=max(chosen) + 2, promises=[start + 2 for start in chosen])
    states = States(str(log), story, aim="acknowledgements")
    _, drawn = plan(Plan(states, 20 * len(chosen), 1))
    wanted = {alone[state.durable]: state for state in drawn if state.kept_writes == 0 and state.durable in alone}
    assert len(wanted) >= BOUNDARIES
    images, faults = 0, []
    with shown(states, room) as (lab, disk):
        for number, image in enumerate(images_by_qemu(room / "qemu.log")):
            images += 1
            if state := wanted.get(number):
                lab.tell(state.seed.encode())
                assert lab.heard(State).image == state.image
                faults += [f"MiB {at} differs at flush {number}" for at in differences(disk, image)]
    if images != len(flushes):
        faults.append(f"QEMU logged {images} of the {len(flushes)} flushes that it passed on")
    assert len({state.image for state in wanted.values()}) >= BOUNDARIES, "the images are of a load"
    return faults


def differences(disk: Path, image: bytearray) -> list[int]:
    """MiB of the disk that differ."""
    found, whole = [], memoryview(image)
    with disk.open("rb", buffering=0) as file:
        for at in range(0, SIZE, 1 << 20):
            if file.read(1 << 20) != whole[at : at + (1 << 20)]:
                found.append(at >> 20)
    return found

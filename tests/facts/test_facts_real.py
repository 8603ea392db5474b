"""Facts and watch on real loop devices, partitions and file systems; needs root, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard import facts
from brickyard.analysis.judging.caveats import warnings
from brickyard.analysis.judging.judged import Judged
from brickyard.arrays import named
from brickyard.facts import OwnIo, stack
from brickyard.schema import DeviceSheet, TargetSheet, stored

MIB = 1 << 20


def shell(*command: str | Path) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout.strip()


class Bench:
    """Makes loop devices and mounts in a directory, and takes them away in reverse order whatever happens."""

    def __init__(self, directory: Path, undo: ExitStack) -> None:
        self.directory, self.undo, self.count = directory, undo, 0

    def image(self, size_bytes: int) -> Path:
        self.count += 1
        path = self.directory / f"image{self.count}"
        with path.open("wb") as file:
            file.truncate(size_bytes)
        return path

    def loop(self, image: Path, *options: str) -> str:
        device = shell("losetup", "--find", "--show", *options, image)
        self.undo.callback(shell, "losetup", "--detach", device)
        return device

    def mount(self, source: str, file_system: str, *options: str) -> Path:
        self.count += 1
        place = self.directory / f"mount{self.count}"
        place.mkdir()
        shell("mount", "-t", file_system, *options, source, place)
        self.undo.callback(shell, "umount", place)
        return place


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    assert os.geteuid() == 0, "these tests attach loop devices: run them as root"
    with ExitStack() as undo:
        yield Bench(tmp_path, undo)


def names(nodes: list[DeviceSheet]) -> list[str]:
    return [str(node.type) for node in stack.walk(nodes)]


def target_of(path: str | Path) -> Any:
    target = facts.collect_target(str(path))
    # What goes into a record must survive JSON unchanged.
    assert msgspec.convert(json.loads(json.dumps(stored(target))), TargetSheet) == target
    return target


def write_direct(device: str, count: int, block: str = "64k") -> None:
    shell("dd", "if=/dev/zero", f"of={device}", f"bs={block}", f"count={count}", "oflag=direct", "conv=notrunc")


def test_loop_device_tells_its_file_and_what_the_file_lies_on(bench: Bench) -> None:
    image = bench.image(64 * MIB)
    device = bench.loop(image, "--direct-io=on")
    target = target_of(device)
    assert target.kind == "block"
    assert target.size_bytes == 64 * MIB
    node = target.stack[0]
    assert node.type == "loop"
    assert node.loop.backing_file == str(image)
    assert node.loop.direct_io is True
    assert node.queue.logical_block_bytes in (512, 4096)
    file = node.below[0]
    assert file.type == "file"
    assert file.hole_bytes == 64 * MIB
    assert file.mount.file_system
    below = file.below
    assert [one.major_minor for one in below] == [target.leaf_devices[0]]


def test_ext4_on_loop_is_described_from_file_to_drive(bench: Bench) -> None:
    device = bench.loop(bench.image(64 * MIB))
    shell("mkfs.ext4", "-q", device)
    place = bench.mount(device, "ext4", "-o", "noatime")
    path = place / "scratch"
    path.write_bytes(b"x" * MIB)
    with path.open("r+b") as file:
        file.truncate(8 * MIB)
        os.fsync(file.fileno())
    target = target_of(path)
    assert target.kind == "file"
    assert target.size_bytes == 8 * MIB
    assert target.allocated_bytes == MIB
    assert target.hole_bytes == 7 * MIB
    assert target.mount.mount_point == str(place)
    assert target.mount.file_system == "ext4"
    assert "noatime" in target.mount.options.split(",")
    assert 0 < target.mount.space.available_bytes < 64 * MIB
    assert target.device == Path(device).name
    assert names(target.stack)[:2] == ["loop", "file"]
    assert target.virtual is True
    assert target_of(device).mounted_at == [str(place)]


def test_preallocated_space_counts_as_unwritten(bench: Bench) -> None:
    device = bench.loop(bench.image(64 * MIB))
    shell("mkfs.ext4", "-q", device)
    path = bench.mount(device, "ext4") / "scratch"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 4 * MIB)
        os.pwrite(file.fileno(), b"x" * MIB, 0)
        os.fsync(file.fileno())
    target = target_of(path)
    assert target.hole_bytes == 0
    assert target.unwritten_bytes == 3 * MIB


def test_xfs_and_a_file_that_is_not_there_yet(bench: Bench) -> None:
    device = bench.loop(bench.image(320 * MIB))
    shell("mkfs.xfs", "-q", device)
    place = bench.mount(device, "xfs")
    target = target_of(place / "later" / "scratch")
    assert target.kind == "missing"
    assert target.place == str(place)
    assert target.mount.file_system == "xfs"
    assert target.size_bytes is None
    assert target.unknown["size_bytes"] == "not known: there is no such file yet"
    assert target.device == Path(device).name


def test_btrfs_mirror_has_two_members_and_its_profile(bench: Bench) -> None:
    devices = [bench.loop(bench.image(320 * MIB)) for _ in range(2)]
    shell("mkfs.btrfs", "-q", "-d", "raid1", "-m", "raid1", *devices)
    place = bench.mount(devices[0], "btrfs", "-o", f"device={devices[0]},device={devices[1]}")
    path = place / "scratch"
    path.write_bytes(b"x" * MIB)
    target = target_of(path)
    assert sorted(node.name for node in target.stack) == sorted(Path(device).name for device in devices)
    btrfs = target.mount.btrfs
    assert btrfs.profiles["data"] == ["raid1"]
    assert btrfs.missing_members == 0
    assert {device: counts["write_io_errs"] for device, counts in btrfs.device_errors.items()} == dict.fromkeys(
        devices, 0
    )
    assert target.device is None
    room = os.statvfs(place)
    assert named(f"btrfs:{place}").sheet().size_bytes == room.f_blocks * room.f_frsize
    with facts.Watch(str(path)) as watch:
        write_direct(str(path), 512)
        shell("sync", "-f", place)
    foreign: Any = watch.foreign_io(OwnIo(write_bytes=32 * MIB, write_requests=512))
    # A mirror writes every byte twice, and this is nobody else's doing.
    assert foreign.write.copies == 2
    assert foreign.write.device_bytes >= 64 * MIB
    assert foreign.write.seen is False


def test_tmpfs_is_said_to_live_in_memory(bench: Bench) -> None:
    place = bench.mount("none", "tmpfs", "-o", "size=8m")
    target = target_of(place)
    assert target.kind == "directory"
    assert target.stack == []
    assert target.unknown["stack"] == "not known: tmpfs is in memory: there is no device below"
    with facts.Watch(str(place)) as watch:
        pass
    assert watch.foreign_io(OwnIo(write_bytes=1)).known is False


def test_partition_stands_over_its_disk(bench: Bench) -> None:
    first_sector, sectors = 2048, 40960
    device = bench.loop(bench.image(64 * MIB))
    # The kernel is told of the partition: one may be built without the reading of partition tables.
    shell("addpart", device, "1", str(first_sector), str(sectors))
    bench.undo.callback(shell, "delpart", device, "1")
    partition = Path(f"{device}p1")
    deadline = time.monotonic() + 10
    while not partition.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    target = target_of(partition)
    node = target.stack[0]
    assert node.type == "partition"
    assert node.start_bytes == first_sector * 512
    assert target.size_bytes == sectors * 512
    assert node.queue.logical_block_bytes == 512
    assert [below.name for below in node.below] == [Path(device).name]
    assert names(target.stack)[:3] == ["partition", "loop", "file"]


def test_watch_counts_exactly_what_dd_wrote_and_read(bench: Bench) -> None:
    device = bench.loop(bench.image(64 * MIB))
    # The kernel looks for partitions right after the device is attached.
    shell("blockdev", "--flushbufs", device)
    with facts.Watch(device) as watch:
        write_direct(device, 128)
        watch.sample()
        shell("dd", f"if={device}", "of=/dev/null", "bs=4k", "count=100", "iflag=direct")
        watch.sample()
    result: Any = watch.result(OwnIo(read_bytes=100 * 4096, read_requests=100, write_bytes=128 * 65536))
    json.dumps(stored(result))
    device_id = facts.collect(device).target.major_minor
    seen = result.devices[device_id]
    assert seen.name == Path(device).name
    assert seen.roles == ["target"]
    assert seen.delta["write_bytes"] == 128 * 65536
    assert seen.delta["write_requests"] == 128
    assert seen.delta["read_bytes"] == 100 * 4096
    assert seen.delta["read_requests"] == 100
    assert seen.series["write_bytes"] == [0, 128 * 65536, 128 * 65536, 128 * 65536]
    assert seen.series["read_bytes"] == [0, 0, 100 * 4096, 100 * 4096]
    assert result.foreign.write.foreign_bytes == 0
    assert result.foreign.seen is False
    assert 0 <= result.cpu.busy_share <= 1
    assert result.process.user_ns >= 0


def write_as_stranger(bench: Bench, device: str, count: int) -> None:
    """Writes from a process that is no child of ours: the kernel adds what children did to our own account."""
    done = bench.directory / "done"
    command = f"dd if=/dev/zero of={device} bs=64k count={count} oflag=direct conv=notrunc 2>/dev/null; touch {done}"
    shell("sh", "-c", f"({command}) >/dev/null 2>&1 &")
    deadline = time.monotonic() + 60
    while not done.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert done.exists()


def test_foreign_writes_are_seen_and_given_as_bytes(bench: Bench) -> None:
    device = bench.loop(bench.image(64 * MIB))
    with facts.Watch(device) as watch:
        write_as_stranger(bench, device, 512)
    ours = OwnIo(write_bytes=16 * MIB, write_requests=256)
    result: Any = watch.result(ours)
    assert result.foreign.write.foreign_bytes == 16 * MIB
    assert result.foreign.seen is True
    found = {item.id: item for item in warnings(Judged(watches=[result]))}
    assert "16.0 MiB written" in found["foreign_io"].text


def test_device_with_counting_switched_off_accuses_nobody(bench: Bench) -> None:
    device = bench.loop(bench.image(16 * MIB))
    setting = Path("/sys/block") / Path(device).name / "queue" / "iostats"
    setting.write_text("0")
    bench.undo.callback(setting.write_text, "1")
    with facts.Watch(device) as watch:
        write_direct(device, 16)
    foreign: Any = watch.foreign_io(OwnIo(write_bytes=0))
    assert foreign.known is False
    assert "iostats" in foreign.reason


def test_watch_survives_a_device_that_goes_away(bench: Bench) -> None:
    image = bench.image(16 * MIB)
    device = shell("losetup", "--find", "--show", image)
    try:
        watch = facts.Watch(device)
        watch.__enter__()
    finally:
        shell("losetup", "--detach", device)
    watch.sample()
    watch.stop()
    json.dumps(stored(watch.result(OwnIo(write_bytes=0))))


def test_a_watch_leaves_no_open_file(bench: Bench) -> None:
    device = bench.loop(bench.image(16 * MIB))
    before = len(os.listdir("/proc/self/fd"))
    with facts.Watch(device) as watch:
        watch.sample()
    assert len(os.listdir("/proc/self/fd")) == before


def test_store_on_the_device_under_test_is_told(bench: Bench) -> None:
    device = bench.loop(bench.image(64 * MIB))
    shell("mkfs.ext4", "-q", device)
    place = bench.mount(device, "ext4")
    other = bench.mount("none", "tmpfs")

    def told(store: Path) -> set[str]:
        found = facts.collect(str(place / "scratch"))
        run = Judged(host=found.host, targets=[found.target], store=facts.store_facts(str(store)))
        return {item.id for item in warnings(run)}

    assert "store_on_device" in told(place / "deep" / "store.sqlite")
    assert "store_on_device" not in told(other / "store.sqlite")


def test_cache_of_a_loop_device_is_never_guessed(bench: Bench) -> None:
    device = bench.loop(bench.image(16 * MIB))
    target = target_of(device)
    assert facts.cache_bytes(device) == target.cache_bytes
    told = facts.endurance(device, 10**9)
    assert told.share is not None or told.text.startswith("rated endurance unknown")


@pytest.mark.parametrize("kind", ["ext4", "tmpfs"])
def test_doctor_names_every_ability_once_with_a_remedy(bench: Bench, kind: str) -> None:
    if kind == "ext4":
        device = bench.loop(bench.image(64 * MIB))
        shell("mkfs.ext4", "-q", device)
        place = bench.mount(device, "ext4")
    else:
        place = bench.mount("none", "tmpfs")
    before = sorted(place.iterdir())
    lines = facts.doctor(str(place))
    assert sorted(place.iterdir()) == before
    found = {line.item: line for line in lines}
    needed: list[str] = ["io_uring", "O_DIRECT", "clock", "huge pages", "locked memory", "rights", "control group"]
    assert set(needed) <= set(found)
    assert {"CPU frequency", "smartctl", "fio", "free space", "timer slack", "store", "device"} <= set(found)
    assert ("polling" in found) == (kind == "ext4")
    assert all(line.state == "ok" or line.remedy for line in lines)
    assert {line.state for line in lines} <= {"ok", "limited", "missing"}
    assert "check" not in found
    if kind == "ext4":
        assert found["O_DIRECT"].state == "ok"


def test_doctor_only_reads_an_existing_device(bench: Bench) -> None:
    device = bench.loop(bench.image(16 * MIB))
    with facts.Watch(device) as watch:
        lines = facts.doctor(device)
    result: Any = watch.result()
    delta = next(iter(result.devices.values())).delta
    assert delta["write_bytes"] == 0
    assert delta["read_bytes"] >= 4096
    assert {line.item: line.state for line in lines}["O_DIRECT"] == "ok"

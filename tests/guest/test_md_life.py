"""Real md arrays in the guest: made, changed, watched and taken away, and undone after kill -9."""

from __future__ import annotations

import itertools
import json
import mmap
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from md_disks import DISKS, Forked, brickyard, clean_disks, create, holder, shell

from brickyard import conditions
from brickyard.analysis.figures.condition import condition_check
from brickyard.arrays import find
from brickyard.arrays.guarding import Guard, Schedule
from brickyard.arrays.host import wait_until
from brickyard.arrays.md import Md
from brickyard.arrays.watching import ArrayWatcher
from brickyard.cli import main
from brickyard.conditions import wait_for_normal
from brickyard.store import Json, Store
from brickyard.watch import causes

__all__ = ["clean_disks"]
pytestmark = pytest.mark.usefixtures("clean_disks")


def test_spares_are_set_aside_and_given_back() -> None:
    array = create(1, 2, "--spare-devices=1", DISKS[2])
    with conditions.hold("/dev/md0", "degraded", manage=True) as held:
        assert held.sample().name == "degraded", "no spare steps in while the condition is held"
        time.sleep(1)
        assert held.sample().name == "degraded"
        assert held.verdict().valid
    assert array.state().name == "normal"
    assert sorted(member.state for member in array.members()) == ["active", "active", "spare"]


@pytest.mark.parametrize("condition", ["degraded", "rebuilding", "write_cache_off"])
def test_kill_9_is_undone_by_the_next_start(condition: str, capsys: pytest.CaptureFixture[str]) -> None:
    array = create(1, 2)
    with holder(condition, rate_bytes_per_s=1 << 20):
        assert not conditions.leftovers(), "what is still held is nobody else's to undo"
    assert len(conditions.leftovers()) == 1
    told = conditions.restore()
    assert [item.error for item in told] == [""]
    assert not conditions.leftovers()
    wait_for_normal(array, print)
    assert array.state().name == "normal"
    assert Path(array.at("sync_speed_max")).read_text().endswith("(system)\n")
    assert Path("/sys/block/vda/cache_type").read_text().strip() == "write back"


def test_a_killed_run_keeps_its_samples_and_says_that_nobody_judged_them(tmp_path: Path) -> None:
    array = create(1, 2)
    file = tmp_path / "runs.db"
    load = ["run", "sqlio-random-read-4", "/dev/md0", "--set", "duration=600", "--set", "warmup=0s"]
    wanted = ["--condition", "rebuilding", "--manage", "--rebuild-rate", "1MiB", "--store", str(file)]

    def kept() -> list[Json]:
        if not file.exists():
            return []
        with Store(file) as store:
            checks: list[Any] = [condition_check(store.record(info.id)) for info in store.runs()]
        return checks[0]["samples"] if checks and checks[0] else []

    measuring = Forked(lambda: main([*load, *wanted]))
    try:
        # md brings its figure up to date every few seconds, so the first samples may agree.
        wait_until(lambda: len({sample["progress_share"] for sample in kept()}) > 1, "samples of progress", 120.0)
    finally:
        measuring.kill()
    with Store(file) as store:
        (info,) = store.runs()
        check: Any = condition_check(store.record(info.id))
    assert check is not None
    assert (info.outcome, check["condition"], check["valid"]) == ("interrupted", "rebuilding", None)
    assert {sample["state"] for sample in check["samples"]} == {"rebuilding"}
    shares = [sample["progress_share"] for sample in check["samples"]]
    assert shares == sorted(shares)
    assert len(set(shares)) > 1, "the rebuild went on"
    assert [item.error for item in conditions.restore()] == [""]
    wait_for_normal(array, print)


def test_the_life_of_an_array(capsys: pytest.CaptureFixture[str]) -> None:
    """Made, failed with a hot spare taking over, given its member back, copied, scrubbed, grown, taken away."""

    def said(*arguments: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        assert main(["array", *arguments, "--json"]) == code
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    small = DISKS[:5]
    for disk in small:  # whole disks would be initialized for minutes
        shell("addpart", disk, "1", "2048", "32768")
    parts = [f"{disk}1" for disk in small]
    try:
        assert "--manage" in said("create", "/dev/md0", "raid5", *parts[:3], code=2)["error"]
        # A new RAID-5 is built by rebuilding its last member: that is progress to be seen.
        made = said("create", "/dev/md0", "raid5", *parts[:3], "--spare", parts[3], "--chunk", "64KiB", "--manage")
        assert made["level"] == "raid5"
        assert made["state"] in ("rebuilding", "initializing")
        array = find("/dev/md0")
        assert isinstance(array, Md)
        wait_for_normal(array, print)
        assert "in use" in said("create", "/dev/md7", "raid1", *parts[:2], "--manage", code=2)["error"]
        failed = said("fail", "/dev/md0", parts[0], "--manage")
        assert failed["state"] in ("rebuilding", "degraded"), "the hot spare takes over"
        wait_for_normal(array, print)
        assert {member.name for member in array.members()} == set(parts[1:4])
        shell("mkfs.ext4", "-q", parts[4])
        left = said("spare", "/dev/md0", parts[4], "--manage", code=2)
        assert "--i-know-this-destroys-data" in left["error"], "it carries a file system"
        shell("wipefs", "--quiet", "--all", parts[4])
        said("spare", "/dev/md0", parts[0], "--manage")  # its own former member
        assert sorted(member.state for member in array.members()) == ["active", "active", "active", "spare"]
        said("replace", "/dev/md0", parts[1], parts[0], "--manage", "--wait")
        assert {member.name for member in array.members() if member.state == "active"} == {parts[0], *parts[2:4]}
        scrubbed = said("scrub", "/dev/md0", "--manage", "--rate", "16MiB", "--wait")
        assert (scrubbed["state"], scrubbed["mismatches"]) == ("normal", 0)
        said("grow", "/dev/md0", parts[4], "--manage", "--wait")
        assert array.sheet().wanted == 4
        consent = "--i-know-this-destroys-data"
        assert sorted(said("destroy", "/dev/md0", "--manage", consent)["freed"]) == sorted(parts)
        assert said("list")["arrays"] == []
    finally:
        subprocess.run(["mdadm", "--stop", "--scan"], capture_output=True, check=False, timeout=60)
        for disk, part in zip(small, parts, strict=True):
            shell("mdadm", "--zero-superblock", part)
            shell("delpart", disk, "1")


def test_a_watch_tells_of_each_event_once_and_scrubs_what_is_due(tmp_path: Path) -> None:
    array = create(1, 2, "--size=12288")
    told: list[str] = []
    schedule = Schedule(
        3600.0, lambda name, _: conditions.hold(name, "scrubbing", manage=True, rate_bytes_per_s=4 << 20, array=name)
    )
    guard = Guard(ArrayWatcher(), [], told.append, tmp_path / "watch.json", schedule=schedule)

    def look_until(words: str) -> None:
        until = time.monotonic() + 60
        while not any(words in line for line in told):
            assert time.monotonic() < until, told
            guard.look()
            time.sleep(0.2)

    look_until("/dev/md0: the scheduled scrub has begun")
    assert array.state().name == "scrubbing"
    look_until("/dev/md0: the scheduled scrub is over")
    assert Path(array.at("sync_speed_max")).read_text().endswith("(system)\n"), "its rate is the system's again"
    told.clear()
    member = array.failable()
    array.fail(member)
    for _ in range(3):
        guard.look()
    assert [line for line in told if "degraded" in line] == [
        "error: /dev/md0 (raid1) is degraded: a member is missing"
    ], "once, however often it is looked"
    assert 'node_md_disks{device="md0",state="active"} 1\n' in guard.metrics()
    assert 'node_md_disks_required{device="md0"} 2\n' in guard.metrics()
    array.give_back(member)
    look_until("a rebuild has begun")
    assert 'node_md_state{device="md0",state="recovering"} 1\n' in guard.metrics()
    look_until("/dev/md0 has all its members again")
    look_until("the rebuild is over")
    assert sum("degraded" in line for line in told) == 1


READS, WRITES, FLUSHES, BYTES = 24, 16, 4, 8192


def load(device: str) -> None:
    """Requests one by one, past the page cache."""
    data = mmap.mmap(-1, BYTES)
    file = os.open(device, os.O_RDWR | os.O_DIRECT)
    try:
        for number in range(READS):
            os.preadv(file, [data], number * 3 * BYTES)
        for number in range(WRITES):
            os.pwritev(file, [data], number * 5 * BYTES)
            if number % (WRITES // FLUSHES) == 0:
                os.fsync(file)
    finally:
        os.close(file)
    time.sleep(1)  # md notes a little later that the array is clean


def counters() -> dict[str, list[int]]:
    return {
        name: [int(word) for word in Path(f"/sys/block/{name}/stat").read_text().split()]
        for name in ("md0", "vda", "vdb")
    }


def test_programs_in_this_kernel_count_an_array_and_its_disks(tmp_path: Path) -> None:
    """Linux 6.1 has another verifier than the kernels of the other tests."""
    create(1, 2)
    words = ["--method", "bpf", "--read-ahead", "--save", str(tmp_path / "seen.byt"), "--json"]
    watch = brickyard("watch", "/dev/md0", "/dev/vda", "/dev/vdb", *words)
    try:
        wait_until(lambda: watch.err().endswith("\n"), "the watch", 120)
        assert "watching " in watch.err()
        before = counters()
        with open("/dev/md0", "rb", buffering=0) as array:  # through the page cache
            array.seek(8 << 20)
            array.read(1 << 20)
        load("/dev/md0")
        after = counters()
        os.kill(watch.pid, signal.SIGINT)
        out, err = watch.communicate()
    finally:
        watch.kill()
    assert watch.returncode == 0, err
    found = json.loads(out)
    assert not any(found["lost"].values())
    told = 0
    for device in found["devices"]:
        since = [new - old for new, old in zip(after[device["name"]], before[device["name"]], strict=True)]
        requests = {name: of["requests"] for name, of in device["operations"].items()}
        size = {name: of["bytes"] for name, of in device["operations"].items()}
        written = ("write", "durable_write")
        assert (requests.get("read", 0), size.get("read", 0)) == (since[0], since[2] * 512)
        assert sum(size.get(name, 0) for name in written) == since[6] * 512
        writes = sum(requests.get(name, 0) for name in written)
        if device["name"] == "md0":
            assert (writes, requests["flush"]) == (since[4], FLUSHES), "md does not count flushes"
            assert (writes, requests["read"] >= READS) == (WRITES, True)
        else:
            assert (writes + requests["flush"], requests["flush_command"]) == (since[4], since[15])
            assert writes >= WRITES
        # md's own durable writes are told as the flush before and the write.
        told += sum(requests.values()) - requests.get("flush_command", 0) + requests.get("durable_write", 0)
    assert found["traced"] == told
    ahead = {device["name"]: device["read_ahead"] for device in found["devices"]}
    assert ahead["md0"]["used_bytes"] >= 1 << 20
    marked = {device["name"]: device["operations"]["read"]["read_ahead_bytes"] for device in found["devices"]}
    assert {name: one["followed_bytes"] for name, one in ahead.items()} == marked, "RAID 1 may leave the mark out"
    assert os.getpid() in [one["process"] for one in found["processes"]]


def watched(work: Callable[[], None], *devices: str) -> list[dict[str, Any]]:
    """The slow requests that a watch tells of the work, each with its cause."""
    watch = brickyard("watch", *devices, "--method", "bpf", "--json")
    try:
        wait_until(lambda: watch.err().endswith("\n"), "the watch", 120)
        work()
        os.kill(watch.pid, signal.SIGINT)
        out, err = watch.communicate()
    finally:
        watch.kill()
    assert watch.returncode == 0, err
    found: list[dict[str, Any]] = json.loads(out)["slow"]
    return found


def read_for(device: str, seconds: float, between: Callable[[int], None] = lambda _: None) -> None:
    """Random reads past the page cache, one at a time."""
    data = mmap.mmap(-1, 4096)
    file = os.open(device, os.O_RDONLY | os.O_DIRECT)
    blocks = os.lseek(file, 0, os.SEEK_END) // 4096
    until = time.monotonic() + seconds
    try:
        for number in itertools.count():
            if time.monotonic() > until:
                return
            os.preadv(file, [data], number * 7919 % blocks * 4096)
            between(number)
    finally:
        os.close(file)


HELD_UP_NS, STOPPED_NS = 30_000_000, 300_000_000
"""A read of these disks takes 5 ms unless another waits; a stop lasts 500 ms."""


def test_reads_that_a_check_holds_up_are_called_so_and_those_of_a_member_that_stops_are_not() -> None:
    """While a member stops, the check of the array stands still, too."""
    sectors = shell("blockdev", "--getsz", DISKS[0]).strip()
    shell("dmsetup", "create", "stopping", "--noudevsync", "--table", f"0 {sectors} linear {DISKS[0]} 0")
    times: list[int] = []
    stops: list[threading.Timer] = []

    def stop(number: int) -> None:
        if number % 40 == 39 and not (stops and stops[-1].is_alive()):
            shell("dmsetup", "suspend", "--nolockfs", "--noudevsync", "stopping")
            stops.append(threading.Timer(0.5, shell, ("dmsetup", "resume", "--noudevsync", "stopping")))
            stops[-1].start()

    try:
        array = create(5, 3, "--size=131072", disks=["/dev/dm-0", *DISKS[1:3]])

        def work() -> None:
            read_for("/dev/md0", 1.5)
            array.start_scrub()
            times.append(time.monotonic_ns())
            read_for("/dev/md0", 8)
            times.append(time.monotonic_ns())
            array.host.write(array.at("sync_speed_max"), "1024")
            read_for("/dev/md0", 6, stop)
            for timer in stops:
                timer.join()
            array.stop_scrub()

        found = watched(work, "/dev/md0")
        reads = [one for one in found if one["operation"] == "read"]
        checked = [one for one in reads if times[0] < one["arrived_ns"] < times[1] and one["total_ns"] > HELD_UP_NS]
        stopped = [one for one in reads if one["arrived_ns"] > times[1] and one["total_ns"] > STOPPED_NS]
        said = [f"{one['cause']}, {one['total_ns'] / 1e6:.0f} ms: {one['evidence']}" for one in (*checked, *stopped)]
        named = sum(one["cause"] == causes.RESYNC for one in checked)
        print(f"| a check of the array | {causes.RESYNC} | {len(checked)} | {named} |")
        print(f"| {len(stops)} stops of a member | {causes.DEVICE} | {len(stopped)} |", *said, sep="\n")
        assert len(checked) >= 3, said
        assert named >= 0.8 * len(checked), said
        assert stopped, said
        assert causes.RESYNC not in {one["cause"] for one in stopped}, said
        before = {one["cause"] for one in found if one["arrived_ns"] < times[0] - 1_000_000_000}
        assert causes.RESYNC not in before
    finally:
        subprocess.run(["mdadm", "--stop", "--scan"], capture_output=True, check=False, timeout=60)
        shell("dmsetup", "remove", "--noudevsync", "stopping")

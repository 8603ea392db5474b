"""Real md arrays in the guest: every level in every condition, what is refused, and what is undone after kill -9.

Its members are disks of 200 requests and 8 MB a second, so that a rebuild can be seen; see `run`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from brickyard import conditions
from brickyard.analysis import totals
from brickyard.analysis.condition import condition_check
from brickyard.arrays import find
from brickyard.arrays.guarding import Guard, Schedule
from brickyard.arrays.md import Md
from brickyard.arrays.watching import Watcher
from brickyard.cli import main
from brickyard.conditions import wait_for_normal
from brickyard.store import Store

Run = Callable[..., tuple[int, dict[str, Any]]]
DISKS = [f"/dev/vd{letter}" for letter in "abcdefghijklm"]
# Of each disk only so much is used: a rebuild of the whole would take ten minutes at these rates.
PART_KIB = 40 << 10

STUDY = """
title = "Software RAID: levels × conditions, random reads of 8 KiB, 4 deep"
repetitions = 1
[base]
profile = "sqlio-random-read-4"
set = ["duration=3s", "warmup=0s"]
[factor.array]
title = "software array"
[factor.array.levels]
raid1 = { label = "RAID-1 of 2", target = "/dev/md1" }
raid5 = { label = "RAID-5 of 3", target = "/dev/md5" }
raid6 = { label = "RAID-6 of 4", target = "/dev/md6" }
raid10 = { label = "RAID-10 of 4", target = "/dev/md10" }
[factor.condition]
condition = "{value}"
[factor.condition.levels]
normal = { label = "Normal" }
degraded = { label = "Degraded" }
rebuilding = { label = "Volume Rebuild" }
[[table]]
name = "1"
title = "Random reads, 8 KiB, 4 deep"
rows = "array"
columns = "condition"
figure = "iops"
show = ["value", "percent_of_best"]
best_of = { condition = "normal" }
"""


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


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
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


def test_a_study_measures_every_level_normal_degraded_and_rebuilding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disks = iter(DISKS)
    arrays = [
        create(level, count, name=f"/dev/md{level}", disks=list(islice(disks, count)))
        for level, count in ((1, 2), (5, 3), (6, 4), (10, 4))
    ]
    file = tmp_path / "levels.toml"
    file.write_text(STUDY)
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["study", str(file), "--only", "condition=degraded", *store]) != 0, "that would change an array"
    assert "--manage" in capsys.readouterr().err
    assert {array.state().name for array in arrays} == {"normal"}
    assert main(["study", str(file), "--manage", *store]) == 0
    table = capsys.readouterr().out
    assert all(heading in table for heading in ("Normal", "Degraded", "Volume Rebuild", "RAID-6 of 4"))
    with Store(tmp_path / "runs.db") as kept:
        records = [kept.record(info.id) for info in kept.runs()]
    rates: dict[tuple[str, str], float] = {}
    for record in records:
        seen = condition_check(record)
        assert seen is not None
        assert seen["valid"], seen["reason"]
        assert {sample["state"] for sample in seen["samples"]} == {record.info.condition}
        rates[record.info.targets[0], record.info.condition] = totals(record)[0].iops
    assert len(rates) == 12
    for array in arrays:
        assert array.state().name == "normal", "each array is brought back to normal"
        assert {member.state for member in array.members()} == {"active"}
        assert rates[array.name, "degraded"] < 0.9 * rates[array.name, "normal"], "a lost disk serves no reads"
        assert rates[array.name, "rebuilding"] < 0.9 * rates[array.name, "normal"], "a rebuild takes its share"
    print(table)


def test_a_rebuild_that_ends_before_the_run_is_flagged(run: Run) -> None:
    create(1, 2, "--size=12288")
    code, document = run("/dev/md0", 6, "--condition", "rebuilding", "--manage", "--set", "depth=1", "--set", "think=1")
    assert code == 0
    assert document["condition_check"]["valid"] is False
    assert "the rebuild ended" in document["condition_check"]["reason"]
    assert any("does not show the condition rebuilding" in item["text"] for item in document["warnings"])


def test_nothing_is_changed_without_manage(run: Run) -> None:
    array = create(5, 3)
    for condition in ("degraded", "rebuilding", "checking", "initializing", "write-cache-off"):
        code, document = run("/dev/md0", 1, "--condition", condition)
        assert code == 2
        assert "--manage" in document["error"]
    assert array.state().name == "normal"
    assert not conditions.leftovers()


def test_no_array_loses_more_than_it_can(run: Run) -> None:
    create(0, 2, "--chunk=64")
    code, document = run("/dev/md0", 1, "--condition", "degraded", "--manage")
    assert code == 2
    assert "can lose no member" in document["error"]
    array = create(5, 3, name="/dev/md1", disks=DISKS[2:])
    shell("mdadm", "--manage", "/dev/md1", "--fail", array.failable())
    code, document = run("/dev/md1", 1, "--condition", "degraded", "--manage")
    assert code == 2
    assert "is degraded" in document["error"]
    # What is so already may be measured without any right to change it.
    code, document = run("/dev/md1", 1, "--condition", "degraded")
    assert code == 0
    assert document["condition_check"]["valid"]
    code, document = run("/dev/md1", 1)
    assert document["condition_check"]["valid"] is False, "who did not ask for a condition meant normal"


def test_checking_and_initializing_end_with_the_run(run: Run) -> None:
    array = create(6, 4)
    for condition in ("checking", "initializing"):
        code, document = run("/dev/md0", 3, "--condition", condition, "--manage", "--rebuild-rate", "2MiB")
        assert code == 0, document
        assert document["condition_check"]["valid"], document["condition_check"]
        shares = [sample["progress_share"] for sample in document["condition_check"]["samples"]]
        assert shares == sorted(shares)
        assert array.state().name == "normal"
    assert Path(array.at("sync_speed_max")).read_text().endswith("(system)\n"), "the limit is the system's again"
    assert Path(array.at("sync_max")).read_text() == "max\n"


def test_spares_are_set_aside_and_given_back() -> None:
    array = create(1, 2, "--spare-devices=1", DISKS[2])
    with conditions.hold("/dev/md0", "degraded", manage=True) as held:
        assert held.sample().name == "degraded", "no spare steps in while the condition is held"
        time.sleep(1)
        assert held.sample().name == "degraded"
        assert held.verdict().valid
    assert array.state().name == "normal"
    assert sorted(member.state for member in array.members()) == ["active", "active", "spare"]


def test_a_neighbour_on_the_same_disks_rebuilds(run: Run) -> None:
    for disk in DISKS[:2]:
        for number, start in ((1, 2048), (2, 40960)):
            shell("addpart", disk, str(number), str(start), "36864")
    try:
        create(1, 2, "--size=16384", name="/dev/md0", disks=["/dev/vda1", "/dev/vdb1"])
        create(1, 2, "--size=16384", name="/dev/md1", disks=["/dev/vda2", "/dev/vdb2"])
        options = [
            "--condition",
            "neighbour-rebuilding",
            "--neighbour",
            "/dev/md1",
            "--manage",
            "--rebuild-rate",
            "1MiB",
        ]
        code, document = run("/dev/md0", 3, *options)
        assert code == 0, document
        assert document["condition_check"]["valid"], document["condition_check"]
        # Two rebuilds on the same disks: md lets one wait, and a run meanwhile does not count as rebuilding.
        with conditions.hold("/dev/md1", "rebuilding", manage=True, rate_bytes_per_s=2 << 20) as first:
            first.begin()
            code, document = run("/dev/md0", 2, "--condition", "rebuilding", "--manage")
            assert document["condition_check"]["valid"] is False
            assert "delayed" in document["condition_check"]["reason"]
    finally:
        subprocess.run(["mdadm", "--stop", "--scan"], capture_output=True, check=False, timeout=60)
        for disk in DISKS[:2]:
            for number in (1, 2):
                shell("mdadm", "--zero-superblock", f"{disk}{number}")
                shell("delpart", disk, str(number))


def test_write_caches_are_switched_and_put_back(run: Run) -> None:
    create(1, 2)
    setting = Path("/sys/block/vda/cache_type")
    assert setting.read_text().strip() == "write back"
    code, document = run("/dev/md0", 2, "--condition", "write-cache-off", "--manage")
    assert code == 0, document
    assert {sample["state"] for sample in document["condition_check"]["samples"]} == {"write_cache_off"}
    assert document["condition_check"]["valid"]
    assert setting.read_text().strip() == "write back"


HOLDER = """
import sys, time
from brickyard import conditions
with conditions.hold("/dev/md0", sys.argv[1], manage=True, rate_bytes_per_s=1 << 20) as held:
    held.sample()
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("condition", ["degraded", "rebuilding", "write_cache_off"])
def test_kill_9_is_undone_by_the_next_start(condition: str, capsys: pytest.CaptureFixture[str]) -> None:
    array = create(1, 2)
    with subprocess.Popen([sys.executable, "-c", HOLDER, condition], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert not conditions.leftovers(), "what is still held is nobody else's to undo"
        os.kill(holder.pid, signal.SIGKILL)
    assert len(conditions.leftovers()) == 1
    told = conditions.restore()
    assert [item["error"] for item in told] == [""]
    assert not conditions.leftovers()
    wait_for_normal(array, print)
    assert array.state().name == "normal"
    assert Path(array.at("sync_speed_max")).read_text().endswith("(system)\n")
    assert Path("/sys/block/vda/cache_type").read_text().strip() == "write back"


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
        assert sorted(said("destroy", "/dev/md0", "--manage")["freed"]) == sorted(parts)
        assert said("list")["arrays"] == []
    finally:
        subprocess.run(["mdadm", "--stop", "--scan"], capture_output=True, check=False, timeout=60)
        for disk, part in zip(small, parts, strict=True):
            shell("mdadm", "--zero-superblock", part)
            shell("delpart", disk, "1")


def test_a_watch_tells_of_each_event_once_and_checks_what_is_due(tmp_path: Path) -> None:
    array = create(1, 2, "--size=12288")
    told: list[str] = []
    schedule = Schedule(
        3600.0, lambda name: conditions.hold(name, "checking", manage=True, rate_bytes_per_s=4 << 20, array=name)
    )
    guard = Guard(Watcher(), [], told.append, tmp_path / "watch.json", schedule=schedule)

    def look_until(words: str) -> None:
        until = time.monotonic() + 60
        while not any(words in line for line in told):
            assert time.monotonic() < until, told
            guard.look()
            time.sleep(0.2)

    look_until("/dev/md0: the scheduled check has begun")
    assert array.state().name == "checking"
    look_until("/dev/md0: the scheduled check is over")
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

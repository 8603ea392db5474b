"""Real md arrays in the guest: made, changed, watched and taken away, and undone after kill -9."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from md_disks import DISKS, Forked, clean_disks, create, holder, shell

from brickyard import conditions
from brickyard.analysis.condition import condition_check
from brickyard.arrays import find
from brickyard.arrays.guarding import Guard, Schedule
from brickyard.arrays.host import wait_until
from brickyard.arrays.md import Md
from brickyard.arrays.watching import Watcher
from brickyard.cli import main
from brickyard.conditions import wait_for_normal
from brickyard.store import Json, Store

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
            checks = [condition_check(store.record(info.id)) for info in store.runs()]
        return checks[0]["samples"] if checks and checks[0] else []

    measuring = Forked(lambda: main([*load, *wanted]))
    try:
        # md brings its figure up to date every few seconds, so the first samples may agree.
        wait_until(lambda: len({sample["progress_share"] for sample in kept()}) > 1, "samples of progress", 120.0)
    finally:
        measuring.kill()
    with Store(file) as store:
        (info,) = store.runs()
        check = condition_check(store.record(info.id))
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
    guard = Guard(Watcher(), [], told.append, tmp_path / "watch.json", schedule=schedule)

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

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
from pathlib import Path
from typing import Any

import pytest

from brickyard import conditions
from brickyard.arrays import find
from brickyard.arrays.md import Md
from brickyard.cli import main

Run = Callable[..., tuple[int, dict[str, Any]]]
DISKS = [f"/dev/vd{letter}" for letter in "abcdef"]


def shell(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def create(level: int, members: int, *options: str, name: str = "/dev/md0", disks: list[str] | None = None) -> Md:
    """In agreement from the start: the disks are new, so that all members are zero, and so is their parity."""
    devices = (disks or DISKS)[:members]
    arguments = ["--create", name, "--run", "--assume-clean", f"--level={level}", f"--raid-devices={members}"]
    shell("mdadm", *arguments, *options, *devices)
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


def iops(document: dict[str, Any]) -> float:
    value: float = document["totals"][0]["iops"]
    return value


@pytest.mark.parametrize(("level", "members"), [(1, 2), (5, 3), (6, 4), (10, 4)])
def test_every_level_is_measured_normal_degraded_and_rebuilding(level: int, members: int, run: Run) -> None:
    array = create(level, members)
    rates = {}
    for condition in ("normal", "degraded", "rebuilding"):
        manage = [] if condition == "normal" else ["--manage"]
        code, document = run("/dev/md0", 3, "--condition", condition, *manage)
        assert code == 0, document
        assert document["condition"] == condition
        seen = document["condition_check"]
        assert seen["valid"], seen["reason"]
        assert {sample["state"] for sample in seen["samples"]} == {condition}
        rates[condition] = iops(document)
        assert array.state().name == "normal", "the array is brought back to normal"
        assert {member.state for member in array.members()} == {"active"}
    assert rates["rebuilding"] < 0.9 * rates["normal"], "a rebuild takes its share of the disks"
    if level in (1, 10):
        assert rates["degraded"] < 0.9 * rates["normal"], "a lost disk serves no reads"
    print(f"\nRAID-{level} of {members}: " + ", ".join(f"{name} {rate:.0f} IOPS" for name, rate in rates.items()))


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
    array = create(1, 2, "--spare-devices=1", DISKS[5])
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
        create(1, 2, name="/dev/md0", disks=["/dev/vda1", "/dev/vdb1"])
        create(1, 2, name="/dev/md1", disks=["/dev/vda2", "/dev/vdb2"])
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
        with conditions.hold("/dev/md1", "rebuilding", manage=True, rate_bytes_per_s=1 << 20) as first:
            first.begin()
            code, document = run("/dev/md0", 2, "--condition", "rebuilding", "--manage")
            assert first.sample().name == "rebuilding"
            assert document["condition_check"]["valid"] is False
            assert "delayed" in document["condition_check"]["reason"]
            shell("sh", "-c", "echo system > /sys/block/md1/md/sync_speed_max")
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
    from brickyard.conditions.hold import wait_for_normal

    wait_for_normal(array, print)
    assert array.state().name == "normal"
    assert Path(array.at("sync_speed_max")).read_text().endswith("(system)\n")
    assert Path("/sys/block/vda/cache_type").read_text().strip() == "write back"

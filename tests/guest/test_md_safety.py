"""Real md arrays that die, are repaired, mismatch, are managed by two at once, and are left behind by kill -9."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from md_disks import DISKS, brickyard, clean_disks, create, holder, shell

from brickyard import conditions
from brickyard.arrays.guarding import Guard
from brickyard.arrays.health import Health
from brickyard.arrays.host import wait_until
from brickyard.arrays.md import Md
from brickyard.arrays.watching import ArrayWatcher
from brickyard.cli import main
from brickyard.conditions import wait_for_normal

__all__ = ["clean_disks"]
pytestmark = pytest.mark.usefixtures("clean_disks")
SMALL = "--size=8192"


class Watch:
    """The watch as it runs, a look at a time."""

    def __init__(self, place: Path) -> None:
        self.told: list[str] = []
        self.guard = Guard(ArrayWatcher(2.0), [], self.told.append, place / "watch.json", left=self._left)

    def _left(self) -> dict[str, str]:
        return {found: entry.words for entry in conditions.leftovers() for found in entry.identities}

    def look(self, times: int = 3) -> list[str]:
        self.told.clear()
        for _ in range(times):
            self.guard.look()
        return [line for line in self.told if "errors of" not in line]

    def health(self) -> Health:
        return self.guard.watcher.healths()["/dev/md0"]


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    found = main(["array", *arguments, "--json"])
    out = capsys.readouterr()
    assert found == code, out
    document: dict[str, Any] = json.loads(out.out)
    return document


def test_an_array_that_dies_is_never_called_well(tmp_path: Path) -> None:
    """Each state that md itself passes through on the way down, and back."""
    array = create(5, 3, SMALL)
    watch = Watch(tmp_path)
    assert watch.look() == []
    first, second = [member.name for member in array.members()][:2]
    shell("mdadm", "--manage", "/dev/md0", "--fail", first)
    assert watch.look() == [
        "error: /dev/md0 (raid5) is degraded: a member is missing",
        f"error: {first}, a member of /dev/md0, is faulty",
    ]
    shell("mdadm", "--manage", "/dev/md0", "--remove", first)
    assert watch.look() == [f"note: {first}, which was faulty, is not a member of /dev/md0 any more"]
    array.host.write(array.at("sync_max"), "0")  # it waits at its start, so that it can be looked at
    array.give_back(first)
    wait_until(lambda: array.state().name == "rebuilding", "the rebuild")
    assert any("`echo max > " in line for line in watch.look())
    assert watch.health() is Health.LEFT
    array.host.write(array.at("sync_speed_max"), "1000")
    array.host.write(array.at("sync_max"), "max")
    assert array.state().name == "rebuilding"
    watch.look(1)
    assert watch.health() is Health.REBUILDING
    # md does so, and answers that it is busy, since the array is broken by it.
    subprocess.run(["mdadm", "--manage", "/dev/md0", "--fail", second], capture_output=True, check=False, timeout=60)
    wait_until(lambda: array.state().name == "failed", "the failure")
    told = watch.look(4)
    assert any("has failed: 2 members are missing" in line for line in told), told
    assert not any("again" in line or "is over" in line for line in told), told
    shell("mdadm", "--stop", "/dev/md0")
    told = watch.look(4)
    assert [line.split(":")[1] for line in told] == [" /dev/md0 is gone"], told
    assert watch.health() is Health.GONE
    shell("mdadm", "--assemble", "--force", "--run", "/dev/md0", *DISKS[:3])
    wait_until(lambda: Path(array.at("array_state")).exists(), "the array")
    told = watch.look(4)
    whole = [number for number, line in enumerate(told) if "all its members" in line]
    if whole:  # so small an array may have been rebuilt between two looks, and then that was said before
        assert any("is over" in line for line in told[: whole[0]]), told
    else:
        assert watch.health() in (Health.DEGRADED, Health.REBUILDING), told
        if Md("md0").state().name == "degraded":
            lacking = next(disk for disk in DISKS[:3] if disk not in {m.name for m in Md("md0").members()})
            Md("md0").give_back(lacking)
        wait_for_normal(Md("md0"), print)
        told += watch.look(4)
    assert sum("all its members" in line for line in told) == 1, told
    assert watch.look(4) == []


def test_a_raid10_without_one_disk_of_each_mirror_lives() -> None:
    array = create(10, 4, SMALL)
    for member in (DISKS[0], DISKS[3]):
        shell("mdadm", "--manage", "/dev/md0", "--fail", member)
    state = array.state()
    assert (state.name, state.missing) == ("degraded", 2)
    shell("dd", "if=/dev/md0", "of=/dev/null", "bs=64k", "count=64", "iflag=direct")


def test_a_scrub_that_finds_damage_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = create(5, 3, SMALL)
    watch = Watch(tmp_path)
    offset = int(Path(array.at("dev-vdb", "offset")).read_text())
    assert said(capsys, "scrub", "/dev/md0", "--manage", "--wait")["scrub"] == {"mismatches": 0, "complete": True}
    assert watch.look() == []
    seek = f"seek={offset + 1024}"
    shell("dd", "if=/dev/urandom", "of=/dev/vdb", "bs=512", seek, "count=128", "oflag=direct", "conv=notrunc")
    shell("blockdev", "--flushbufs", "/dev/md0")
    scrubbed = said(capsys, "scrub", "/dev/md0", "--manage", "--wait", code=1)
    assert scrubbed["state"] == "normal"
    assert scrubbed["scrub"]["mismatches"] >= 128
    assert scrubbed["scrub"]["complete"]
    assert main(["array", "list"]) == 0
    assert "mismatched sectors at the last scrub" in capsys.readouterr().out
    assert any("mismatched sectors" in line for line in watch.look()), "the watch alarms"
    assert f" {scrubbed['scrub']['mismatches']}\n" in watch.guard.metrics()
    # A scrub that is stopped is not complete, and shows nothing of the rest.
    array.host.write(array.at("sync_speed_max"), "1000")
    said(capsys, "scrub", "/dev/md0", "--manage")
    wait_until(lambda: (array.state().progress_share or 0) > 0.1, "a part of the scrub", 60)
    said(capsys, "scrub", "/dev/md0", "--manage", "--stop")
    wait_until(lambda: array.state().name == "normal", "its end")
    assert array.sheet().scrub.complete is False
    assert not any("no mismatches" in line for line in watch.look())
    array.host.write(array.at("sync_speed_max"), "system")
    array.host.write(array.at("sync_min"), "0")
    array.host.write(array.at("sync_action"), "repair")
    wait_until(lambda: array.state().name == "normal", "the repair", 60)
    assert said(capsys, "scrub", "/dev/md0", "--manage", "--wait")["scrub"] == {"mismatches": 0, "complete": True}
    assert any("found no mismatches" in line for line in watch.look())


def test_a_faulty_disk_is_replaced_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    array = create(1, 2, SMALL)
    shell("mdadm", "--manage", "/dev/md0", "--fail", DISKS[1])
    assert "is in use" in said(capsys, "remove", "/dev/md0", DISKS[0], "--manage", code=2)["error"]
    capsys.readouterr()
    assert main(["array", "replace", "/dev/md0", DISKS[1], DISKS[2], "--manage", "--wait"]) == 0
    words = capsys.readouterr().err
    assert f"{DISKS[1]} was faulty and is removed; {DISKS[2]} takes its place" in words
    assert {member.name for member in array.members()} == {DISKS[0], DISKS[2]}
    assert array.state().name == "normal"
    said(capsys, "spare", "/dev/md0", DISKS[1], "--manage")
    said(capsys, "remove", "/dev/md0", DISKS[1], "--manage")
    assert {member.name for member in array.members()} == {DISKS[0], DISKS[2]}
    assert "--i-know-this-destroys-data" in said(capsys, "destroy", "/dev/md0", "--manage", code=2)["error"]
    assert array.state().name == "normal", "data without a signature are data"
    assert said(capsys, "destroy", "/dev/md0", "--manage", "--i-know-this-destroys-data")["freed"]


def test_two_managers_at_once_leave_an_array_its_redundancy() -> None:
    array = create(5, 3, SMALL)
    both = [brickyard("array", "fail", "/dev/md0", "--manage", home=f"/run/tmp/{name}") for name in ("one", "two")]
    ended = [(manager.communicate(), manager.returncode) for manager in both]
    assert any(code != 0 for _, code in ended), ended
    state = array.state()
    assert (state.name, state.missing) == ("degraded", 1), ended
    assert any("/dev/md0: is held by " in out[1] or "is degraded" in out[1] for out, _ in ended), ended


def test_what_kill_9_leaves_is_named_and_undone_from_another_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BRICKYARD_STATE_HOME")
    array = create(5, 3, SMALL, "--spare-devices=1", DISKS[3])
    taken = [array.failable(), *(member.name for member in array.members() if member.state == "spare")]
    assert len(taken) == 2
    watch = Watch(tmp_path)
    watch.look()
    with holder("degraded") as held:
        assert any(f"held so by `brickyard run --condition degraded` (pid {held.pid})" in line for line in watch.look())
        other = brickyard("array", "spare", "/dev/md0", DISKS[4], "--manage", home="/run/tmp/other")
        assert f"(pid {held.pid})" in other.communicate()[1]
        assert other.returncode == 1
        assert array.state().missing == 1
    assert any("`brickyard array restore` undoes it" in line for line in watch.look())
    assert watch.health() is Health.LEFT
    for words in (["array", "list"], ["array", "show", "/dev/md0"], ["doctor"]):
        out, error = brickyard(*words, home="/run/tmp/other").communicate()
        named = out.replace("\n", " ")
        assert all(f"{member} was taken out" in named for member in taken), (words, out, error)
        assert "brickyard array restore" in named
    restoring = brickyard("array", "restore", home="/run/tmp/other")
    assert (restoring.communicate(), restoring.returncode)[1] == 0
    wait_for_normal(array, print)
    assert sorted(member.state for member in array.members()) == ["active"] * 3 + ["spare"]
    assert any("nothing is left to be undone" in line for line in watch.look(4))
    array.host.write(array.at("sync_max"), "0")
    out, _ = brickyard("doctor", home="/run/tmp/other").communicate()
    assert f"echo max > {array.at('sync_max')}" in out

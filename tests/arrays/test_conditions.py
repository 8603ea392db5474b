"""Conditions without an array to hold them on: verdicts, the journal, and how md's files are read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard import conditions
from brickyard.arrays import Host, lock
from brickyard.arrays.md import Md, restored_value
from brickyard.arrays.steps import FileStep, MemberStep
from brickyard.cli import main
from brickyard.conditions import journal
from brickyard.conditions.verdict import Sample, judge
from brickyard.errors import BadInputError
from brickyard.facts.roots import NoTools, Roots
from brickyard.schema import HeldCondition, SampledState, words_of

S = 1_000_000_000


def samples(*states: str, shares: list[float | None] | None = None) -> list[Sample]:
    found = shares or [None] * len(states)
    each = enumerate(zip(states, found, strict=True))
    return [(second * S, SampledState(state), share) for second, (state, share) in each]


def test_a_condition_that_held_throughout_is_valid() -> None:
    assert judge(HeldCondition.DEGRADED, samples("degraded", "degraded")).valid
    assert judge(HeldCondition.REBUILDING, samples("rebuilding", "rebuilding", shares=[0.1, 0.2])).valid
    assert judge(HeldCondition.NEIGHBOUR_REBUILDING, samples("rebuilding", "rebuilding", shares=[0.1, 0.2])).valid
    assert judge(HeldCondition.WRITE_CACHE_OFF, samples("write_cache_off")).valid


@pytest.mark.parametrize(
    ("condition", "states", "reason"),
    [
        ("rebuilding", ["rebuilding", "rebuilding", "normal", "normal", "normal"], "the rebuild ended 2.0 s before"),
        ("rebuilding", ["delayed", "delayed"], "had not begun: it was delayed"),
        ("rebuilding", ["rebuilding", "delayed"], "was delayed"),
        ("rebuilding", ["rebuilding", "degraded"], "the rebuild broke off"),
        ("rebuilding", ["normal", "normal"], "was not under way: the array was normal"),
        ("rebuilding", ["degraded", "rebuilding"], "had not yet begun: the array was degraded"),
        ("normal", ["normal", "rebuilding"], "the array was rebuilding, not normal 1.0 s after"),
        ("degraded", ["degraded", "failed"], "the array was failed, not degraded"),
        ("neighbour_rebuilding", ["rebuilding", "target_degraded"], "turned target degraded"),
        ("scrubbing", ["scrubbing", "normal", "normal"], "the scrub ended 1.0 s before"),
    ],
)
def test_what_did_not_hold_is_said_with_its_time(condition: str, states: list[str], reason: str) -> None:
    verdict = judge(HeldCondition(condition), samples(*states))
    assert not verdict.valid
    assert reason in words_of(verdict.reason)


def test_a_rebuild_that_stands_still_is_no_rebuild() -> None:
    still = judge(HeldCondition.REBUILDING, samples(*["rebuilding"] * 12, shares=[0.25] * 12))
    assert not still.valid
    assert words_of(still.reason) == "the rebuild stood still at 25.0 %"
    assert judge(HeldCondition.REBUILDING, samples(*["rebuilding"] * 5, shares=[0.25] * 5)).valid, (
        "too short to be told"
    )


def test_a_run_that_never_looked_proves_nothing() -> None:
    assert not judge(HeldCondition.NORMAL, []).valid


def test_names_are_taken_with_either_dash() -> None:
    assert conditions.spoken("neighbour-rebuilding") == "neighbour_rebuilding"
    with pytest.raises(BadInputError, match=r"--condition broken: no such condition; there are normal, degraded"):
        conditions.spoken("broken")


def test_a_file_on_no_array_cannot_be_degraded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "scratch"
    options = ["--size", "16MiB", "--condition", "degraded", "--manage", "--store", str(tmp_path / "runs.db")]
    assert main(["run", "sqlio-random-read-4", str(place), *options]) == 2
    assert "is not on an array" in capsys.readouterr().err


def test_options_of_real_arrays_are_refused_on_modelled_bricks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "sqlio-random-read-4", "sim:terraserver-2003", "--condition", "degraded", "--manage"]) == 2
    assert "not for sim:NAME" in capsys.readouterr().err


def abandoned(about: str = "a") -> journal.Entry:
    """An entry of a process that is gone."""
    entry = journal.begin(journal.Purpose(target=about))
    rows = entry.path.read_text().splitlines()
    head = json.loads(rows[0])
    head["process"]["start_ticks"] = 1
    entry.path.write_text("\n".join([json.dumps(head), *rows[1:]]) + "\n")
    return entry


def test_the_journal_keeps_steps_until_they_are_undone(tmp_path: Path) -> None:
    setting = tmp_path / "setting"
    setting.write_text("changed")
    entry = abandoned()
    entry.note(FileStep(path=str(setting), value="first"))
    entry.note(FileStep(path=str(setting), value="second"))
    with entry.path.open("a") as file:
        file.write('{"do": "file", "path": "/etc/pas')  # torn: the change after it was never made
    assert [len(found.steps) for found in conditions.leftovers()] == [2]
    told = conditions.restore()
    assert [item.error for item in told] == [""]
    assert setting.read_text().startswith("first"), "the last step is undone first"
    assert conditions.leftovers() == []


def test_what_cannot_be_undone_stays_in_the_journal(capsys: pytest.CaptureFixture[str]) -> None:
    entry = abandoned()
    step = MemberStep(array="/dev/md7", identity="md 00000000:1", member="/dev/sdz")
    entry.note(step)
    assert main(["array", "restore"]) == 1
    assert "/dev/md7" in capsys.readouterr().err
    assert [found.steps for found in conditions.leftovers()] == [[step]]


def test_a_step_of_a_newer_version_is_refused_and_names_its_array() -> None:
    entry = abandoned()
    with entry.path.open("a") as file:
        file.write('{"do": "reshape", "identity": "md 00000000:1"}\n')
    assert [found.identities for found in conditions.leftovers()] == [{"md 00000000:1"}]
    [told] = conditions.restore()
    assert "step 'reshape' is of a newer Brickyard" in told.error
    assert conditions.leftovers() != []


def test_what_is_still_held_is_nobody_elses_to_undo() -> None:
    entry = journal.begin(journal.Purpose())
    assert conditions.leftovers() == []
    entry.close()


def md_tree(tmp_path: Path, **files: str) -> Md:
    """A tree that looks like md's part of sysfs."""
    base = tmp_path / "sys" / "class" / "block" / "md0" / "md"
    base.mkdir(parents=True, exist_ok=True)
    told = {
        "level": "raid5",
        "raid_disks": "3",
        "array_state": "clean",
        "degraded": "0",
        "sync_action": "idle",
        "sync_completed": "none",
        "sync_speed": "none",
        **files,
    }
    if not any(name.startswith("dev-") for name in files) and told["degraded"] in ("0", "1", "2"):
        for slot in range(3):
            state = "in_sync" if slot >= int(told["degraded"]) else "spare"
            told |= {f"dev-sd{slot}/state": state, f"dev-sd{slot}/slot": str(slot)}
            if state == "spare" and told["sync_action"] != "recover":
                told |= {f"dev-sd{slot}/state": "faulty", f"dev-sd{slot}/slot": "none"}
    for name, content in told.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(content + "\n")
    return Md("md0", Host(Roots(sys=str(tmp_path / "sys"), tools=NoTools())))


@pytest.mark.parametrize(
    ("files", "state", "share"),
    [
        ({}, "normal", None),
        ({"degraded": "1"}, "degraded", None),
        ({"degraded": "2"}, "failed", None),
        ({"array_state": "inactive"}, "inactive", None),
        ({"sync_action": "recover", "degraded": "1", "sync_completed": "50 / 200"}, "rebuilding", 0.25),
        ({"sync_action": "recover", "degraded": "1", "sync_completed": "delayed"}, "delayed", 0.0),
        ({"sync_action": "resync", "sync_completed": "0 / 200"}, "initializing", 0.0),
        ({"sync_action": "check", "sync_completed": "10 / 200"}, "scrubbing", 0.05),
        ({"sync_action": "reshape", "sync_completed": "10 / 200"}, "reshaping", 0.05),
        ({"sync_action": "frozen", "degraded": "1"}, "degraded", None),
        ({"array_state": "broken"}, "failed", None),
        # md says so for a moment where it looks for a spare and finds none.
        (
            {
                "sync_action": "recover",
                "degraded": "1",
                "dev-sda/state": "in_sync",
                "dev-sda/slot": "0",
                "dev-sdb/state": "in_sync",
                "dev-sdb/slot": "1",
            },
            "degraded",
            None,
        ),
    ],
)
def test_states_of_md(tmp_path: Path, files: dict[str, str], state: str, share: float | None) -> None:
    found = md_tree(tmp_path, **files).state()
    assert (found.name, found.progress_share) == (state, share)


@pytest.mark.parametrize(
    ("files", "losable"),
    [
        ({"level": "raid0"}, 0),
        ({"level": "raid1", "raid_disks": "3"}, 2),
        ({"level": "raid4"}, 1),
        ({"level": "raid5"}, 1),
        ({"level": "raid6"}, 2),
        ({"level": "raid10", "layout": str(0x102)}, 1),  # two near copies
        ({"level": "raid10", "layout": str(0x201)}, 1),  # two far copies
        ({"level": "raid10", "layout": str(0x103)}, 2),
        ({"level": "linear"}, 0),
    ],
)
def test_how_many_members_each_level_can_lose(tmp_path: Path, files: dict[str, str], losable: int) -> None:
    assert md_tree(tmp_path, **files).redundancy() == losable


@pytest.mark.parametrize(
    ("disks", "near", "far", "active", "has_data"),
    [
        (4, 2, 1, {0, 2}, True),  # one disk of each mirror
        (4, 2, 1, {1, 3}, True),
        (4, 2, 1, {0, 1}, False),  # both disks of the second mirror are lost
        (5, 2, 1, {0, 2, 4}, True),
        (5, 2, 1, {0, 1, 3}, True),
        (5, 2, 1, {0, 3, 4}, False),
        (3, 1, 2, {0, 2}, True),
        (4, 1, 2, {0, 2}, True),
        (4, 1, 2, {0, 1}, False),
        (4, 2, 2, {3}, True),
    ],
)
def test_raid10_lives_as_long_as_each_block_has_a_copy(
    tmp_path: Path, disks: int, near: int, far: int, active: set[int], has_data: bool
) -> None:
    slots = {f"dev-sd{slot}/slot": str(slot) for slot in active}
    states = {f"dev-sd{slot}/state": "in_sync" for slot in active}
    layout = str(far << 8 | near)
    told = {"level": "raid10", "raid_disks": str(disks), "layout": layout, "degraded": str(disks - len(active))}
    state = md_tree(tmp_path, **told, **slots, **states).state()
    assert state.name == ("degraded" if has_data else "failed")


@pytest.mark.parametrize(
    ("files", "mismatches", "complete"),
    [
        ({"last_sync_action": "check", "mismatch_cnt": "128", "sync_min": "0"}, 128, True),
        ({"last_sync_action": "check", "mismatch_cnt": "0", "sync_min": "0"}, 0, True),
        ({"last_sync_action": "check", "mismatch_cnt": "0", "sync_min": "4096"}, 0, False),
        # What a repair or a resync counts it has mended.
        ({"last_sync_action": "repair", "mismatch_cnt": "128", "sync_min": "0"}, 0, True),
        ({"last_sync_action": "resync", "mismatch_cnt": "128", "sync_min": "0"}, 0, True),
        ({"last_sync_action": "recover", "mismatch_cnt": "128", "sync_min": "0"}, None, None),
        ({"last_sync_action": "check", "mismatch_cnt": "8", "sync_action": "check"}, None, None),
        ({"last_sync_action": "none", "mismatch_cnt": "0"}, None, None),
    ],
)
def test_what_the_last_scrub_of_md_found(
    tmp_path: Path, files: dict[str, str], mismatches: int | None, complete: bool | None
) -> None:
    scrub = md_tree(tmp_path, **files).sheet().scrub
    assert (scrub.mismatches, scrub.complete) == (mismatches, complete)


def test_what_freezes_md_is_named_with_its_remedy(tmp_path: Path) -> None:
    assert md_tree(tmp_path, sync_max="max").sheet().frozen == ""
    assert "echo max > " in md_tree(tmp_path, sync_max="0").sheet().frozen
    assert "echo idle > " in md_tree(tmp_path, sync_action="frozen").sheet().frozen


def test_a_journal_that_others_could_have_written_is_not_believed(tmp_path: Path) -> None:
    entry = abandoned()
    assert len(conditions.leftovers()) == 1
    entry.path.chmod(0o666)
    assert conditions.leftovers() == []
    entry.path.chmod(0o644)
    os.chown(entry.path, 65534, 65534)
    assert conditions.leftovers() == []


def test_journals_do_not_hang_on_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = abandoned()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert [found.path for found in conditions.leftovers()] == [entry.path]
    old = journal.user_home() / "1-old.jsonl"  # where earlier versions kept them
    old.parent.mkdir(parents=True)
    old.write_text(entry.path.read_text())
    assert {found.path for found in conditions.leftovers()} == {entry.path, old}
    assert journal.SYSTEM_HOMES[0] == Path("/var/lib/brickyard/undo")


def test_two_managers_of_one_array_are_told_of_each_other() -> None:
    script = "import sys; from brickyard.arrays import lock\nwith lock.held(['md 1'], 'array fail', '/dev/md0', 1):\n"
    script += "    print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        found = lock.current("md 1")
        assert found is not None
        assert (found.pid, found.verb, found.taken) == (other.pid, "array fail", 1)
        with (
            pytest.raises(lock.LockedError, match=rf"/dev/md0: is held by `brickyard array fail` \(pid {other.pid}\)"),
            lock.held(["md 0", "md 1"], "array spare", "/dev/md0"),
        ):
            pass
        with pytest.raises(lock.LockedError, match=f"pid {other.pid}"):
            lock.check_free("md 1", "/dev/md0")
        with lock.held(["md 0"], "array spare", "/dev/md9"):
            pass
        other.kill()
    assert lock.current("md 1") is None, "a lock dies with its process"
    with lock.held(["md 1"], "array spare", "/dev/md0"):
        pass


def test_members_of_md_and_the_slot_that_is_empty(tmp_path: Path) -> None:
    array = md_tree(
        tmp_path,
        degraded="2",
        **{
            "dev-sda1/state": "in_sync",
            "dev-sda1/slot": "0",
            "dev-sdb1/state": "spare",
            "dev-sdb1/slot": "1",
            "dev-sdc1/state": "faulty",
            "dev-sdc1/slot": "none",
            "dev-sdd1/state": "spare",
            "dev-sdd1/slot": "none",
        },
    )
    found = [(member.name, member.state, member.slot) for member in array.members()]
    assert found == [
        ("/dev/sda1", "active", 0),
        ("/dev/sdb1", "rebuilding", 1),
        ("/dev/sdc1", "faulty", None),
        ("/dev/sdd1", "spare", None),
        ("–", "missing", 2),
    ]


@given(st.dictionaries(st.sampled_from(["sync_completed", "sync_action", "degraded", "raid_disks"]), st.text()))
def test_no_content_of_sysfs_is_too_strange(tmp_path_factory: pytest.TempPathFactory, files: dict[str, str]) -> None:
    plain = {name: content.encode("utf-8", "replace").decode() for name, content in files.items()}
    array = md_tree(tmp_path_factory.mktemp("tree"), **plain)
    assert array.sheet().document()["state"]


def test_limits_of_md_are_given_back_to_the_system() -> None:
    assert restored_value("sync_speed_min", "1000 (system)") == "system"
    assert restored_value("sync_speed_min", "5000 (local)") == "5000"
    assert restored_value("sync_max", "max") == "max"
    assert os.sep not in restored_value("sync_max", None)

"""The state machine of arrays and members: every transition, and that silence is never taken for recovery."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from array_support import host, storcli_host
from brickyard.arrays import Member, Scrub, Sheet, State
from brickyard.arrays.array import StateName
from brickyard.arrays.guarding import Schedule
from brickyard.arrays.health import LOOKS_TO_END, Health, Notice
from brickyard.arrays.keys import AlarmKind
from brickyard.arrays.lock import Holder
from brickyard.arrays.looking import Drive, Seen, look
from brickyard.arrays.metrics import exposition
from brickyard.arrays.watching import ArrayWatcher
from brickyard.schema.target_sheet import HealthSheet
from mirrors import restarted

NAME, KEY = "/dev/md0", "md 1"
HOLDER = Holder(4711, 1, "boot", "run --condition degraded", 1)
WHOLE = Scrub(0, True)


def sheet(
    state: StateName, missing: int = 0, *, faulty: str = "", scrub: Scrub = WHOLE, active: int | None = None
) -> Sheet:
    """A RAID-5 of three, whose members are lost from the last on."""
    count = 3 - missing if active is None else active
    members = [Member(f"/dev/sd{'abc'[slot]}", "active", slot) for slot in range(count)]
    members += [Member("–", "missing", slot) for slot in range(count, 3)]
    members += [Member(faulty, "faulty")] if faulty else []
    return Sheet("md", NAME, "raid5", 1, State(state, missing=missing), tuple(members), 3, scrub=scrub, identity=KEY)


def seen(found: Sheet, **more: object) -> Seen:
    return Seen((found,), **more)  # type: ignore[arg-type]


SIGHTS: dict[str, Seen] = {
    "well": seen(sheet("normal")),
    "scrubbing": seen(sheet("scrubbing", scrub=Scrub())),
    "mismatched": seen(sheet("normal", scrub=Scrub(128, True))),
    "held": seen(sheet("degraded", 1), holders={KEY: HOLDER}),
    "rebuilding": seen(sheet("rebuilding", 1)),
    "degraded": seen(sheet("degraded", 1)),
    "faulty": seen(sheet("degraded", 1, faulty="/dev/sdc")),
    "failed": seen(sheet("failed", 2)),
    "stopped": seen(sheet("inactive")),
    "left": seen(sheet("degraded", 1), left={KEY: "left by a killed run; `brickyard array restore` undoes it"}),
    "unknown": seen(sheet("unknown")),
    "contradiction": seen(sheet("normal", active=2)),
    "resync": seen(sheet("initializing")),
    "unreadable": Seen(unread={NAME: "storcli64: no JSON came back"}),
    "kind unreadable": Seen(unread={"md": "no answer within 120 s"}),
    "gone": Seen(),
}
# What shows, by itself, that the array has all its members and works.
POSITIVE = {"well", "scrubbing", "mismatched"}
ALARMS = {
    "mismatched": Health.MISMATCHED,
    "held": Health.HELD,
    "rebuilding": Health.REBUILDING,
    "degraded": Health.DEGRADED,
    "faulty": Health.DEGRADED,
    "failed": Health.FAILED,
    "stopped": Health.STOPPED,
    "left": Health.LEFT,
    "unknown": Health.UNKNOWN,
    "contradiction": Health.UNKNOWN,
    "unreadable": Health.UNREADABLE,
    "kind unreadable": Health.UNREADABLE,
    "gone": Health.GONE,
}


def all_clears(notices: list[Notice]) -> list[Notice]:
    return [notice for notice in notices if notice.kind == "ends" and str(notice.key) == f"array {NAME}"]


def told(watcher: ArrayWatcher, *names: str) -> list[Notice]:
    return [notice for name in names for notice in watcher.look(SIGHTS[name])]


@pytest.mark.parametrize("name", ALARMS)
def test_each_state_is_told_once_and_ends_only_as_the_array_is_seen_well(name: str) -> None:
    watcher = ArrayWatcher()
    assert told(watcher, "well", "well") == []
    begun = [notice for notice in told(watcher, *[name] * 4) if str(notice.key) == f"array {NAME}"]
    assert len(begun) == 1, begun
    assert begun[0].kind == "begins"
    assert watcher.healths() == {NAME: ALARMS[name]}
    assert f'health="{ALARMS[name]}"}} 1' in exposition(SIGHTS[name], watcher.healths())
    ended = told(watcher, *["well"] * 6)
    assert len(all_clears(ended)) == 1, ended
    assert watcher.healths() == {NAME: Health.WELL}


@pytest.mark.parametrize(("first", "second"), list(permutations(ALARMS, 2)))
def test_from_one_state_to_any_other_nothing_is_called_recovery(first: str, second: str) -> None:
    watcher = ArrayWatcher()
    notices = told(watcher, "well", *[first] * 3, *[second] * 4)
    assert all_clears(notices) == []
    assert watcher.healths() == {NAME: ALARMS[second]}
    if not {first, second} & POSITIVE:
        assert not any("again" in notice.text or " is over" in notice.text for notice in notices), notices


@given(st.lists(st.sampled_from(sorted(SIGHTS)), max_size=40))
def test_no_recovery_without_evidence_and_no_two_all_clears(names: list[str]) -> None:
    """Whatever is seen in whatever order, and with a restart of the watch after each look."""
    watcher, alarms, history = ArrayWatcher(), 0, list[str]()
    for name in names:
        watcher = ArrayWatcher(memory=restarted(watcher.memory))
        notices = watcher.look(SIGHTS[name])
        history.append(name)
        clears = all_clears(notices)
        alarms += sum(str(notice.key) == f"array {NAME}" and notice.kind in ("begins", "changes") for notice in notices)
        assert len(clears) <= min(1, alarms), (history, notices)
        if clears:
            alarms = 0
            assert set(history[-LOOKS_TO_END:]) <= {"well", "scrubbing"}, history
        if any("all its members" in notice.text for notice in notices):
            assert set(history[-LOOKS_TO_END:]) <= POSITIVE, (history, notices)
        if any("the rebuild is over" in notice.text for notice in notices):
            assert name in POSITIVE, (history, notices)


def test_a_second_loss_is_told_as_a_failure_and_nothing_else() -> None:
    watcher = ArrayWatcher()
    texts = [notice.text for notice in told(watcher, "well", "degraded", "failed", "failed", "failed", "failed")]
    assert texts == [
        "/dev/md0 (raid5) is degraded: a member is missing",
        "/dev/md0 (raid5) has failed: too many members are missing",
    ]


def test_a_rebuild_that_breaks_off_is_not_over() -> None:
    texts = [
        notice.text for notice in told(ArrayWatcher(), "degraded", "rebuilding", "degraded", "degraded", "degraded")
    ]
    assert texts[-2:] == [
        "/dev/md0 (raid5) is degraded: the rebuild has stopped: a member is missing",
        "/dev/md0: the rebuild has stopped: it is not complete",
    ]


def test_a_faulty_member_that_is_removed_has_not_recovered() -> None:
    watcher = ArrayWatcher()
    texts = [notice.text for notice in told(watcher, "well", "faulty", "degraded", "degraded", "degraded")]
    assert "/dev/sdc, a member of /dev/md0, is faulty" in texts
    assert texts[-1] == "/dev/sdc, which was faulty, is not a member of /dev/md0 any more"
    back = [notice.text for notice in told(watcher, "rebuilding", "rebuilding", "well", "well", "well")]
    assert "/dev/sdc is an active member of /dev/md0 again" in back


def test_disks_of_two_arrays_may_have_one_name() -> None:
    """Controllers number their disks anew: the faulty `p1` of one is not over when the `p1` of another is active."""

    def unit(name: str, state: StateName, member: str) -> Sheet:
        members = (Member("p1", member, 0), Member("p2", "active", 1))
        return Sheet("3ware", name, "raid1", 1 << 40, State(state), members, 2, identity=name)

    watcher = ArrayWatcher()
    first = unit("/c0/u0", "degraded", "faulty")
    notices = list(watcher.look(Seen((first, unit("/c1/u0", "degraded", "faulty")))))
    for _ in range(LOOKS_TO_END + 1):
        notices += watcher.look(Seen((first, unit("/c1/u0", "normal", "active"))))
    about = [(str(notice.key), notice.kind) for notice in notices if notice.key.kind is AlarmKind.MEMBER]
    assert about == [("member /c0/u0 p1", "begins"), ("member /c1/u0 p1", "begins"), ("member /c1/u0 p1", "ends")]


def test_mismatches_stay_until_a_whole_scrub_finds_none() -> None:
    watcher = ArrayWatcher()
    stopped = seen(sheet("normal", scrub=Scrub(0, False)))
    after_boot = seen(sheet("normal", scrub=Scrub()))
    begun = told(watcher, "well", "mismatched")
    assert [notice.text for notice in begun] == ["/dev/md0 (raid5): 128 mismatched sectors at the last scrub"]
    assert [notice for found in [stopped, after_boot] * 3 for notice in watcher.look(found)] == []
    assert len(all_clears(told(watcher, "well", "well"))) == 1
    assert 'brickyard_array_mismatches{array="/dev/md0",kind="md"} 128' in exposition(SIGHTS["mismatched"])


def test_another_array_under_the_same_name_is_no_recovery() -> None:
    watcher = ArrayWatcher()
    told(watcher, "well", "degraded")
    other = Sheet("md", NAME, "raid1", 1, State("normal"), (Member("/dev/sdx", "active", 0),), 1, identity="md 2")
    notices = [notice for _ in range(5) for notice in watcher.look(Seen((other,)))]
    assert all_clears(notices) == []
    assert [notice.text for notice in notices] == [
        "/dev/md0 is gone: it was stopped or taken away, or its tool reports it no more"
    ]


def test_a_drive_that_is_gone_has_not_passed_its_test() -> None:
    watcher = ArrayWatcher()
    for _ in range(3):
        watcher.look(Seen(drives=(Drive("sda", HealthSheet(passed=False)),)))
    assert [notice for _ in range(4) for notice in watcher.look(Seen())] == []
    asleep = Seen(drives=(Drive("sda", HealthSheet(temperature_celsius=30)),))
    assert [notice for _ in range(4) for notice in watcher.look(asleep)] == []


def test_a_controller_whose_tool_falls_silent_is_not_well(tmp_path: Path) -> None:
    """StorCLI as it answers, then without an answer, then answering again."""
    drives = ["Onln", "Onln", "Offln"]

    def place(answer: str, state: str, found: list[str]) -> Seen:
        told = storcli_host(tmp_path, state, found)
        script = tmp_path / "bin" / "storcli64"
        listed = json.dumps(
            {
                "Controllers": [
                    {
                        "Command Status": {"Controller": 0, "Status": "Success", "Description": "None"},
                        "Response Data": {"Virtual Drives": [{"DG/VD": "0/1"}]},
                    }
                ]
            }
        )
        if answer == "silent":
            script.write_text("#!/bin/sh\nexit 0\n")
        else:
            head, _, rest = script.read_text().partition('case "$*" in\n')
            case = f"  '/call/vall show J') cat <<'END'\n{listed}\nEND\n  ;;\n"
            script.write_text(head + 'case "$*" in\n' + case + rest)
        return look(told, drives=False)

    watcher, texts = ArrayWatcher(), list[str]()
    for answer, state, found in [
        ("speaks", "Dgrd", drives),
        *[("silent", "", list[str]())] * 4,
        ("speaks", "Dgrd", drives),
        ("speaks", "Dgrd", drives),
        *[("speaks", "Optl", ["Onln"] * 3)] * 3,
    ]:
        texts += [notice.text for notice in watcher.look(place(answer, state, found)) if "252" not in notice.text]
    name = "storcli:/c0/v1"
    assert texts == [
        f"{name} (raid5) is degraded: a member is missing",
        f"{name} cannot be read: storcli64 /call/vall show: no JSON came back",
        f"{name} (raid5) is degraded: a member is missing",
        f"{name} has all its members again",
    ]


def test_one_kind_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    place = host(tmp_path, {"tw_cli show": "", "arcconf getversion": "Controllers found: 0"})
    found = look(place, drives=False)
    assert list(found.unread) == ["tw_cli"]
    assert found.problem_of("tw_cli tw_cli:/c0/u0", "tw_cli:/c0/u0")


class Scrubber:
    def begin(self) -> None:
        """Goes on elsewhere."""


@pytest.mark.parametrize(("complete", "is_done"), [(True, True), (None, True), (False, False)])
def test_a_scrub_that_was_interrupted_is_due_again(complete: bool | None, is_done: bool) -> None:
    begun: list[str] = []

    @contextmanager
    def start(name: str, _: int | None) -> Iterator[Scrubber]:
        begun.append(name)
        yield Scrubber()

    schedule, last, now_s = Schedule(30 * 86400.0, start), dict[str, float](), 1e9
    schedule.look(SIGHTS["well"], last, now_s, print)
    schedule.look(SIGHTS["scrubbing"], last, now_s + 30, print)
    ended = seen(sheet("normal", scrub=Scrub(0, complete)))
    schedule.look(ended, last, now_s + 60, print)
    schedule.look(ended, last, now_s + 90, print)
    assert len(begun) == 1, "whoever stopped it is given an hour"
    schedule.look(ended, last, now_s + 2 * 3600, print)
    assert len(begun) == (1 if is_done else 2)
    assert (NAME in last) == is_done


def test_a_scrub_that_a_lost_member_broke_off_is_not_done() -> None:
    @contextmanager
    def start(_: str, __: int | None) -> Iterator[Scrubber]:
        yield Scrubber()

    schedule, last = Schedule(3600.0, start), dict[str, float]()
    schedule.look(SIGHTS["well"], last, 1e6, print)
    schedule.look(SIGHTS["degraded"], last, 1e6 + 60, print)
    assert last == {}

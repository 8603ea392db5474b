"""What the lab must not take for damage of a disk, or for a cause, or for a recording."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import sys
from pathlib import Path

import pytest

from brickyard.cli import main
from brickyard.cli.durability.lab_crash import _judged_words
from brickyard.errors import BadInputError
from brickyard.lab import command, explain, explore, postgres, sqlite
from brickyard.lab.checks import Corrupt, Lost, NotJudged, Stage
from brickyard.lab.explore import Exploration, Judge, read_recording, record
from brickyard.lab.orders import CORRUPT, LOST, NOT_JUDGED, Missing, Promise, Recording, Setup, State, Story, Verdict
from brickyard.lab.worker import STORY
from lab_support import left_behind, until

SIZE = 64 << 20


def test_equal_states_are_not_said_to_be_judged_each() -> None:
    drawn = [explore.Outcome(states=60, distinct=57), explore.Outcome(states=4, distinct=4)]
    assert _judged_words(drawn, 24.0) == "64 states (61 distinct, each judged once) were judged in 24 s"
    assert _judged_words(drawn[1:], 24.0) == "4 states were judged in 24 s"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("logs") / "log"
    record(Setup("files", size_bytes=SIZE, load_s=0.3), place)
    return place


LOAD = "n=0; while :; do n=$((n + 1)); echo $n > $n; sync -f .; echo $n; done"


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a command."""
    place = tmp_path_factory.mktemp("logs") / "log"
    record(Setup("command", size_bytes=SIZE, load_s=0.3, command=["sh", "-c", LOAD]), place)
    return place


def python(check: str) -> tuple[str, ...]:
    return (sys.executable, "-c", check)


def test_damage_that_a_good_state_has_too_is_trouble_of_the_host(counted: Path, tmp_path: Path) -> None:
    """As a full /dev/shm would, a flag makes a check find damage everywhere; without it, in early states alone."""
    flag = tmp_path / "trouble"
    last = len(read_recording(counted).promises)
    check = python(f"import os, sys; sys.exit(2 * (int(input()) < {last} or os.path.exists({str(flag)!r})))")
    sound = explore.explore(Exploration(counted, "command", states=6, command=check))
    assert sound.corrupt > 0, sound.first
    assert sound.not_judged == 0, sound.first
    flag.touch()
    troubled = explore.explore(Exploration(counted, "command", states=6, command=check))
    assert (troubled.corrupt, troubled.not_judged) == (0, 6), troubled.first
    assert "a state that is known to be good fails too" in troubled.first[NOT_JUDGED][1]


def test_damage_counts_only_with_a_good_state_judged_after_it(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trouble that begins between two questions is found by the second."""
    verdicts = [Verdict("", "kept"), Verdict("", CORRUPT, "no space")]
    monkeypatch.setattr(Judge, "judged", lambda *_: verdicts.pop(0))
    wanted, recording = Exploration(log, "files"), read_recording(log)
    facts = explore.facts_of(wanted, recording)
    with explore.Witness(wanted.good(recording, facts)) as witness:
        witness.add(Verdict("a", CORRUPT, "gone"))
        assert witness.doubted() == {}
        witness.add(Verdict("b", CORRUPT, "gone"))
        assert not witness.is_due
        assert [(one.seed, one.kind) for one in witness.doubted().values()] == [("b", NOT_JUDGED)]


@pytest.mark.parametrize("workload", ["sqlite", "files", "command"])
def test_the_good_state_is_good_also_of_a_load_that_loses_all(workload: str, tmp_path: Path) -> None:
    place, settings, words = tmp_path / "log", {"fsync": "off"}, list[str]()
    if workload == "sqlite":
        settings = {"synchronous": "OFF"}
    if workload == "command":
        settings, words = {}, ["sh", "-c", "echo 1 > a; echo 1"]
    record(Setup(workload, size_bytes=SIZE, load_s=0.3, settings=settings, command=words), place)
    recording = read_recording(place)
    wanted = Exploration(place, workload, command=("test", "-s", "a") if words else ())
    with explore.Witness(wanted.good(recording, explore.facts_of(wanted, recording))) as witness:
        damage = Verdict("a", CORRUPT, "gone")
        assert witness.believed(damage) == damage


def test_a_state_whose_disk_was_killed_is_not_judged(log: Path) -> None:
    kill = "import os, sys; own = {'1', str(os.getpid())}; [os.kill(int(p), 9) for p in os.listdir('/proc') if"
    kill += (
        " p.isdigit() and p not in own and b'brickyard-lab' in open(f'/proc/{p}/cmdline', 'rb').read()]; sys.exit(2)"
    )
    outcome = explore.explore(Exploration(log, "command", states=1, command=python(kill)))
    assert (outcome.corrupt, outcome.not_judged) == (0, 1)
    assert "the disk of the state is gone" in outcome.first[NOT_JUDGED][1]
    until(lambda: left_behind("/brickyard-lab show") == [], "something is left")


def test_a_server_that_was_killed_is_no_damage(tmp_path: Path) -> None:
    said = tmp_path / "server.log"
    said.write_text("LOG:  server process (PID 9) was terminated by signal 9: Killed\nFATAL:  it is shutting down\n")
    with pytest.raises(NotJudged, match="memory is short"):
        postgres.refuse_killed(said)
    said.write_text("LOG:  server process (PID 9) was terminated by signal 11: Segmentation fault\n")
    postgres.refuse_killed(said)


def test_the_command_of_a_recording_judges_nothing(counted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lab", "crash", "explore", "--log", str(counted), "--states", "2"]
    assert main(words) == 2
    assert "a check by a command needs one; give it after --" in capsys.readouterr().err
    assert main([*words, "--", "test", "-d", "."]) == 0
    assert main([*words, "--check", "files", "--", "true"]) == 2


def test_no_cause_is_told_where_trials_were_not_judged(counted: Path, tmp_path: Path) -> None:
    flag = tmp_path / "helper"
    flag.touch()
    check = python(f"import os, sys; sys.exit(1 if os.path.exists({str(flag)!r}) else 3)")
    wanted = Exploration(counted, "command", "lying:50", "acknowledgements", states=8, command=check)
    outcome = explore.explore(wanted)  # in some states, which ones depends on the recording, ext4 cannot be mounted
    assert outcome.lost >= 1
    flag.unlink()
    lost = next(one for one in explain.explain(wanted, outcome) if one.verdict.kind == LOST)
    said = " ".join(lost.sentences)
    assert "could not be found out: the check ended with exit code 3" in said, said
    assert "had not been written" not in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sqlite", "--set", "synchronus=OFF"], "no setting of sqlite; use synchronous"),
        (["sqlite", "--set", "synchronous=OFFF"], "use OFF, NORMAL, FULL, EXTRA"),
        (["files", "--set", "fsync=no"], "use on, off"),
        (["files", "--set", "fsnyc=off"], "no setting of files; use fsync"),
        (["store", "--set", "fsync=off"], "no setting of store; it has none"),
        (["command", "--set", "fsync=off", "--", "true"], "no setting of command; it has none"),
        (["command"], "the workload command needs one; give it after --"),
        (["files", "--", "true"], "files: takes no command"),
        (["postgres", "--set", "brickyard.fsync=off"], "is of an extension"),
        (["postgres", "--set", "data_checksums=of"], "use on, off"),
    ],
)
def test_settings_that_a_workload_does_not_know_are_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "crash", "record", words[0], "--log", str(tmp_path / "log"), *words[1:]]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_seed_stands_beside_the_options_that_drew_it(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lab", "crash", "explore", "--log", str(log), "--states", "4"]
    options = ["--cache", "lying:50", "--torn", "none", "--aim", "acknowledgements"]
    assert main([*words, *options]) == 1
    pasted = re.search(r"first in (--only .*?): ", capsys.readouterr().out)
    assert pasted
    assert pasted[1].split()[2:] == options
    assert main(["lab", "crash", "explore", "--log", str(log), *pasted[1].split()]) == 1


def test_a_log_and_its_story_belong_together(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed, other = tmp_path / "changed", tmp_path / "other"
    shutil.copytree(log, changed)
    story = (changed / STORY).read_bytes()
    number = read_recording(log).story.end
    (changed / STORY).write_bytes(story.replace(f'"end":{number}'.encode(), f'"end":{number - 1}'.encode()))
    record(Setup("files", size_bytes=SIZE, load_s=0.2), other)
    shutil.copy(log / STORY, other / STORY)
    for place, said in ((changed, "has been changed since it was recorded"), (other, "is not the one that story.json")):
        for words in (["explore", "--states", "2"], ["look", "--only", "1f00"]):
            assert main(["lab", "crash", words[0], "--log", str(place), *words[1:]]) == 2
            err = capsys.readouterr().err
            assert said in err
            assert len(err.splitlines()) == 1
    whole = json.loads(story)
    bare = {name: value for name, value in whole.items() if not name.endswith("_hash")}
    for without in (whole | {"log_hash": "", "story_hash": ""}, whole | {"story_hash": ""}, bare):
        (changed / STORY).write_text(json.dumps(without))
        assert main(["lab", "crash", "explore", "--log", str(changed), "--states", "2"]) == 2
        err = capsys.readouterr().err
        assert "has no hash" in err
        assert len(err.splitlines()) == 1


def test_no_bound_is_told_where_nothing_was_drawn_or_too_little(
    counted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["lab", "crash", "explore", "--log", str(counted), "--states", "1"]
    assert main([*words, "--", "true"]) == 0
    assert "nothing was found at 1 cut: too few for a bound" in capsys.readouterr().out
    seed = explore.explore(Exploration(counted, "command", torn_bytes=512, states=1, command=("true",))).drawn[0].seed
    assert main([*words, "--only", seed, "--", "true"]) == 0
    assert "nothing was found" not in capsys.readouterr().out
    assert main([*words, "--only", seed, "--json", "--", "true"]) == 0
    assert json.loads(capsys.readouterr().out)["share_at_most"] is None


@pytest.mark.parametrize(
    ("cuts", "said"),
    [(0, ""), (1, "at 1 cut: too few for a bound"), (4, "at 4 cuts: too few for a bound"), (5, "fewer than 1 in 2 ")],
)
def test_a_bound_that_is_told_says_something(cuts: int, said: str) -> None:
    words = explore.bound_words(explore.Outcome(states=9, kept=9, cuts=set(range(cuts))))
    assert said in words
    assert bool(words) == bool(said)


def test_a_program_is_named_as_from_the_callers_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in (("load.sh", "echo 1 > a; sync -f a; echo 1"), ("check.sh", "read n; test $n = 0 -o -s a")):
        Path(name).write_text(f"#!/bin/sh\n{content}\n")
    record_words = ["lab", "crash", "record", "command", "--log", "log", "--size", "64MiB", "--"]
    assert main([*record_words, "./load.sh"]) == 2
    assert "./load.sh: not a program that can be run; make it executable" in capsys.readouterr().err
    for name in ("load.sh", "check.sh"):
        Path(name).chmod(0o755)
    assert main([*record_words, "./load.sh"]) == 0, capsys.readouterr().err
    words = ["lab", "crash", "explore", "--log", "log", "--states", "3", "--json", "--"]
    capsys.readouterr()
    assert main([*words, "./check.sh"]) == 0, capsys.readouterr().err
    assert json.loads(capsys.readouterr().out)["kept"] == 3
    for missing in ("./missing.sh", "no-such-program"):
        assert main([*words, missing]) == 2
        assert f"{missing}: not a program that can be run" in capsys.readouterr().err


def test_a_recording_that_failed_can_be_begun_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lab", "crash", "record", "command", "--size", "64MiB", "--log", str(tmp_path / "log"), "--", "sh", "-c"]
    assert main([*words, "exit 3"]) != 0
    assert list((tmp_path / "log").iterdir()) == []
    assert main([*words, "echo 1 > a; sync -f .; echo 1"]) == 0, capsys.readouterr().err
    (tmp_path / "log" / STORY).unlink()  # as if it had been killed
    assert main([*words, "true"]) == 2
    assert "was not finished; remove the folder" in capsys.readouterr().err


def test_a_seed_is_a_number_that_can_be_drawn_with(counted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "crash", "explore", "--log", str(counted), "--seed", "-1", "--", "true"]) == 2
    assert "--seed -1: use a number from 0" in capsys.readouterr().err


def judged(check: str, place: Path) -> None:
    recording = Recording(Setup("command"), Story(), [Promise(1, 0, 7)])
    state = State("1", 5, 0, 0, 0, 1, "0")
    command.CommandCheck(recording, list(python(check)))(Stage(place, place, "/dev/null"), recording, state)


def test_what_a_check_prints_is_bounded_and_a_child_with_its_output_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "CHECK_S", 5.0)
    with pytest.raises(Lost, match="7 ") as lost:
        judged("import sys; print(input(), 'x' * (20 << 20), file=sys.stderr); print('no'); sys.exit(1)", tmp_path)
    assert len(str(lost.value)) == command.SAID_MOST
    assert lost.value.missing == Missing(0, 7)
    child = "import subprocess; print(subprocess.Popen(['sleep', '2505']).pid, flush=True)"
    try:
        judged(child, tmp_path)
        with pytest.raises(Corrupt, match=r"^[0-9]+$"):
            judged(f"{child}; import sys; sys.exit(2)", tmp_path)
    finally:
        _kill("2505")
    monkeypatch.setattr(command, "CHECK_S", 0.3)
    for endless in ("import time; time.sleep(60)", "while True: print('x' * 9000)"):
        with pytest.raises(NotJudged, match="did not end within"):
            judged(endless, tmp_path)


def _kill(seconds: str) -> None:
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", seconds.encode()]:
            os.kill(int(place.parent.name), signal.SIGKILL)


def test_sqlite_is_asked_what_it_took() -> None:
    db = sqlite3.connect(":memory:", isolation_level=None)
    with pytest.raises(BadInputError, match="took it as"):
        sqlite.set_pragmas(db, {"journal_mode": "WAL"})  # which a database in memory cannot have
    db.close()

"""What the lab says of crash states: pictures, reasons, a look inside, other file systems, and published faults."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import pytest

from brickyard.cli import main
from brickyard.cli.durability.lab_crash import _configuration
from brickyard.lab import explore as exploring
from brickyard.lab.checks import NotJudged, beneath, no_links
from brickyard.lab.durability import Result, experiment
from brickyard.lab.explain import explain
from brickyard.lab.explore import Exploration, Outcome, explore
from brickyard.lab.orders import LOST
from brickyard.lab.rooms import own_folder, remove_leftovers
from brickyard.lab.worker import STORY
from lab_support import XFS_SIZE, left_behind, recorded, until


def found(log: Path, check: str, **wanted: object) -> Outcome:
    return explore(Exploration(log, check, **wanted))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("logs") / "log", "sqlite")


def test_a_loss_is_explained_by_the_writes_that_the_commit_needed(sqlite: Path) -> None:
    """On a disk that lies, a flush ended before the acknowledgement and was ignored; with few writes all is there."""
    wanted = Exploration(sqlite, "sqlite", cache="lying:50", aim="acknowledgements", states=6)
    outcome = explore(wanted)
    assert outcome.lost > 0
    (lost, *_) = [one for one in explain(wanted, outcome) if one.verdict.kind == LOST]
    assert lost.promise is not None
    assert lost.promise.at <= lost.state.cut
    assert lost.needed
    assert all(lost.state.durable <= record < lost.promise.at for record in lost.needed)
    assert len(lost.needed) < lost.state.volatile_writes
    assert any("the disk ignored it" in sentence for sentence in lost.sentences), lost.sentences


def test_what_was_never_flushed_is_said_to_be(tmp_path: Path) -> None:
    log = recorded(tmp_path / "log", "sqlite", settings={"synchronous": "OFF"})
    wanted = Exploration(log, "sqlite", aim="acknowledgements", states=4)
    outcome = explore(wanted)
    (lost, *_) = explain(wanted, outcome)
    said = " ".join(lost.sentences)
    assert "had not been written to the disk by then" in said or "it never came" in said, said


def test_a_report_shows_cuts_writes_and_flushes(
    sqlite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["lab", "crash", "explore", "--log", str(sqlite), "--cache", "lying:50", "--aim", "acknowledgements"]
    assert main([*words, "--states", "6", "--report", str(tmp_path / "page"), "--json"]) == 1
    page = Path(json.loads(capsys.readouterr().out)["report"]).read_text()
    text = html.unescape(page)
    for word in ("acknowledgements", "cuts: lost", "gone and needed", "ignored by the disk", "power cut after record"):
        assert word in text, word
    for name in ("crash-1-time", "crash-1-lost"):
        assert (tmp_path / "page/pictures" / f"{name}.png").stat().st_size > 5000
    command = re.search(r"<code>brickyard (lab crash look [^<]*)</code>", page)
    assert command, "the page says how to mount the state"
    (seed,) = re.findall(r"--only (\w+)", command[1])
    assert Exploration(sqlite, "sqlite", log_stays=False).named(seed) == f"state {seed}", (
        "a log that is gone has no path"
    )
    assert subprocess_code(command[1].split(), "test", "-e", "ledger.sqlite") == 0


def subprocess_code(words: list[str], *command: str) -> int:
    """In a process of its own, which gets mounts of its own."""
    return subprocess.run([sys.executable, "-m", "brickyard", *words, "--", *command], check=False).returncode


def test_a_look_shows_the_state_that_was_judged(tmp_path: Path) -> None:
    log = recorded(tmp_path / "log", "files", settings={"fsync": "off"}, load_s=0.5)
    seed = found(log, "files", aim="acknowledgements", states=1).drawn[0].seed
    words = ["lab", "crash", "look", "--log", str(log), "--only", seed, "--torn", "none", "--aim", "acknowledgements"]
    assert subprocess_code(words, "test", "-e", "files/0") == 1, "nothing was flushed, so that no file is there"
    assert subprocess_code(words, "no-such-program") == 2


@pytest.mark.parametrize("file_system", ["xfs", "btrfs"])
def test_other_file_systems_keep_replaced_files_and_are_whole(file_system: str, tmp_path: Path) -> None:
    if shutil.which(f"mkfs.{file_system}", path="/usr/sbin:/sbin:/usr/bin") is None:
        pytest.skip(f"mkfs.{file_system} is missing")
    log = recorded(tmp_path / "log", "files", file_system=file_system, size_bytes=XFS_SIZE)
    honest = found(log, "files", states=16, torn_bytes=512)
    assert (honest.found, honest.not_judged) == (0, 0), honest.first
    assert found(log, "files", states=4, cache="lying:50", aim="acknowledgements").found > 0


def test_files_that_were_replaced_without_a_flush_are_empty_where_ext4_delays_their_allocation(tmp_path: Path) -> None:
    """https://bugs.launchpad.net/bugs/317781, and what its reporters were told to do about it."""
    for options, damaged in (
        ("commit=1,noauto_da_alloc", True),
        ("commit=1,nodelalloc", False),
        ("commit=1,dioread_lock", False),
    ):
        place = tmp_path / options
        log = recorded(place, "files", settings={"fsync": "off"}, mount_options=options, load_s=2.5)
        outcome = found(log, "files", states=20)
        assert outcome.not_judged == 0
        assert (outcome.corrupt > 0) == damaged, (options, outcome.first)
        assert not damaged or "0 bytes that were never its content" in outcome.first["corrupt"][1]


def test_ended_runs_stay_in_the_store_and_the_store_stays_whole(tmp_path: Path) -> None:
    log = recorded(tmp_path / "log", "store", load_s=1.0)
    honest = found(log, "store", states=16, torn_bytes=512)
    assert (honest.found, honest.not_judged) == (0, 0), honest.first
    assert found(log, "store", states=6, cache="lying:50", aim="acknowledgements").found > 0


def test_options_of_ext4_are_left_out_on_other_file_systems() -> None:
    assert len(experiment("files", "xfs")) < len(experiment("files"))
    assert not any(one.mount_options for one in experiment("postgres", "btrfs"))


def test_a_check_that_hangs_is_ended_and_counts_as_not_judged(sqlite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploring, "STATE_S", 3.0)
    outcome = found(sqlite, "command", states=2, command=(sys.executable, "-c", "import time; time.sleep(600)"))
    assert (outcome.not_judged, outcome.states) == (2, 2)
    assert "did not end within 3 s" in outcome.first["not judged"][1]
    # The killed worker's file system goes with it; a loop device on a detached disk would keep it, and every `sync`.
    deadline = time.monotonic() + 60
    while any(p.read_text() == "/disk\n" for p in Path("/sys/block").glob("loop*/loop/backing_file")):
        assert time.monotonic() < deadline, "a killed worker's disk waits for itself"
        time.sleep(0.1)


def test_a_log_that_was_cut_short_is_refused_with_what_is_missing(
    sqlite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "short"
    shutil.copytree(sqlite, place)
    records = exploring.read_recording(sqlite).records
    for more in (20, 28):  # into a record of 48 bytes, and to the beginning of it
        with (place / "records").open("r+b") as file:
            file.truncate((place / "records").stat().st_size - more)
        assert main(["lab", "crash", "explore", "--log", str(place), "--states", "4"]) == 2
        assert f"cut short: 1 of {records:,} records are missing; record again" in capsys.readouterr().err
    with (place / "records").open("ab") as file:
        file.write(bytes(20))
    assert main(["lab", "crash", "explore", "--log", str(place), "--states", "4"]) == 2


def test_where_there_is_no_room_for_the_log_the_load_fails_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)], check=True)
    try:
        words = ["lab", "crash", "record", "files", "--log", str(small / "log"), "--duration", "1s", "--size", "256MiB"]
        assert main(words) != 0
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1
        assert "no space left for the log" in said, said
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)


LEAVES = """
import os, subprocess, sys
q = subprocess.DEVNULL
p = subprocess.Popen(["sleep", "{s}"], start_new_session=True, stdin=q, stdout=q, stderr=q)
{then}
"""


def running(word: str) -> bool:
    return any(word in text for text in left_behind(word))


def test_what_a_check_leaves_behind_judges_no_later_state(sqlite: Path) -> None:
    check = LEAVES.format(s=2501, then="sys.exit(not os.path.exists('ledger.sqlite'))")
    outcome = found(sqlite, "command", states=10, workers=1, command=(sys.executable, "-c", check))
    assert (outcome.kept, outcome.states) == (10, 10), outcome.first
    assert not running("2501")


def test_a_check_that_hangs_leaves_nothing_behind(
    sqlite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exploring, "STATE_S", 3.0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    check = LEAVES.format(s=2502, then="p.wait()")
    outcome = found(sqlite, "command", states=1, workers=1, command=(sys.executable, "-c", check))
    assert outcome.not_judged == 1
    until(lambda: left_behind("sleep 2502") + left_behind("/brickyard-lab show") == [], "something is left")
    assert list(tmp_path.iterdir()) == [], "the folder of the killed worker"


def test_folders_of_a_killed_exploration_are_removed_by_the_next(sqlite: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "brickyard", "lab", "crash", "explore", "--log", str(sqlite), "--states"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    (tmp_path / "brickyard-lab-0123456789ab").mkdir()  # somebody's, for all we know
    process = subprocess.Popen([*words, "500"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: any(str(tmp_path) in text for text in left_behind("/fuse/disk")), "nothing was begun")
        with own_folder() as other:
            assert remove_leftovers(tmp_path) == [], "their owner lives"
            process.kill()
            process.wait()
            until(lambda: left_behind(str(tmp_path)) == [], "something is left")
            assert len(list(tmp_path.glob("brickyard-lab-*"))) > 1
            assert subprocess.run([*words, "1"], env=environment, check=False, capture_output=True).returncode == 0
            assert other.is_dir()
    finally:
        process.kill()
        process.wait()
    assert [place.name for place in tmp_path.iterdir()] == ["brickyard-lab-0123456789ab"]


def test_a_log_leads_nowhere_off_its_disk(sqlite: Path, tmp_path: Path) -> None:
    """Its story says where the data lie; it may be anybody's."""
    victim, place = tmp_path / "victim", tmp_path / "log"
    victim.mkdir()
    (victim / "PG_VERSION").write_text("15")
    (victim / "postmaster.pid").write_text("1")
    shutil.copytree(sqlite, place)
    recording = exploring.read_recording(place)
    recording.setup.workload = "postgres"
    for data in (str(victim), f"../../../../../..{victim}"):
        recording.data = data
        (place / STORY).write_bytes(msgspec.json.encode(exploring.sealed(recording)))
        outcome = found(place, "postgres", states=1, workers=1)
        assert "does not lie on the disk" in outcome.first["not judged"][1]
    assert sorted(path.name for path in victim.iterdir()) == ["PG_VERSION", "postmaster.pid"]


def test_links_on_a_disk_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mount/data").mkdir(parents=True)
    (tmp_path / "mount/data/file").write_text("")
    no_links(tmp_path / "mount")
    assert beneath(tmp_path / "mount", "data/file") == tmp_path / "mount/data/file"
    (tmp_path / "mount/link").symlink_to(tmp_path)
    with pytest.raises(NotJudged, match="symbolic link"):
        beneath(tmp_path / "mount", "link/data")
    with pytest.raises(NotJudged, match="symbolic link"):
        no_links(tmp_path / "mount")


def test_states_that_were_not_judged_are_no_success(
    sqlite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flag = tmp_path / "first"  # the first state is judged, the others are not
    check = f"import os,sys; known=os.path.exists({str(flag)!r}); open({str(flag)!r}, 'w'); sys.exit(3 if known else 0)"
    words = ["lab", "crash", "explore", "--log", str(sqlite), "--states", "6", "--workers", "1", "--check", "command"]
    assert main([*words, "--json", "--", sys.executable, "-c", check]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["kept"] > 0 < told["not_judged"]
    honest = experiment("sqlite")[0]
    wanted = Exploration(sqlite, "sqlite")
    for outcome, right in ((Outcome(states=1000, kept=1, not_judged=999), False), (Outcome(states=9, kept=9), True)):
        assert Result(honest, wanted, outcome, "", 1, 1.0, 1.0).as_it_should == right


def test_what_is_not_right_has_its_reason(tmp_path: Path) -> None:
    by_name = {one.name: one for one in experiment("files")}
    for name, outcome, why in (
        ("rename, noauto_da_alloc", Outcome(states=4, lost=4), "must damage files, and its 4 states only lost"),
        ("rename, noauto_da_alloc", Outcome(states=4, lost=3, corrupt=1), ""),
        ("rename, nodelalloc", Outcome(states=4, lost=3, corrupt=1), "may only lose versions, and 1 of 4 states"),
        ("rename, nodelalloc", Outcome(states=4, lost=4), ""),
        ("lying cache", Outcome(states=4, kept=4), "must lose something, and none of 4 states did"),
        ("honest cache", Outcome(states=4, kept=3, lost=1), "must keep everything, and 1 of 4 states did not"),
        ("honest cache", Outcome(states=4, kept=3, not_judged=1), "1 of 4 states could not be judged"),
    ):
        result = Result(by_name[name], Exploration(tmp_path, "files"), outcome, "", 1, 1.0, 1.0)
        assert why in result.why_not
        assert result.as_it_should == (not why)
        assert why in (_configuration(result)["why_not"] or "")  # type: ignore[operator]


def test_a_shipped_check_of_another_workload_is_refused(sqlite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "crash", "explore", "--log", str(sqlite), "--check", "files", "--states", "2"]) == 2
    assert "the log is of sqlite" in capsys.readouterr().err


def test_a_silent_load_ends_when_its_time_is_over(tmp_path: Path) -> None:
    began = time.monotonic()
    recorded(tmp_path / "log", "command", command=["sh", "-c", "sleep 2503; echo late"])
    assert time.monotonic() - began < 30
    assert not running("2503")


def test_an_interrupted_recording_ends_all_that_it_began(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "brickyard", "lab", "crash", "record", "command", "--log", str(tmp_path / "log")]
    process = subprocess.Popen([*words, "--duration", "1h", "--size", "256MiB", "--", "sleep", "2504"])
    try:
        until(lambda: any(text.startswith("sleep 2504") for text in left_behind("sleep 2504")), "nothing was begun")
        process.send_signal(signal.SIGINT)
        assert process.wait(90) != 0
    finally:
        process.kill()
        process.wait()
    until(lambda: left_behind("sleep 2504") + left_behind(str(tmp_path / "log")) == [], "something is left")

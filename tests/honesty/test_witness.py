"""Recorder, writers and verifier on the loopback: a full round, power cuts, killed processes, wrong files."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.honesty import durable
from brickyard.honesty.journal import HEAD, Entry, Extent, Journal, RunEntry, WriteEntry, entries, parse
from brickyard.honesty.proof import LOST, PROVED, prove
from brickyard.honesty.slots import Layout, block, opened_target, sequence_in
from brickyard.honesty.verify import verify
from brickyard.honesty.writers import Channel
from honesty_support import PATIENCE_S, begin, recording

MIB = 1 << 20


def document(*arguments: str, code: int = 0) -> Any:
    process = begin(*arguments, "--json")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, err
    return json.loads(out)


@dataclass
class Round:
    target: Path
    file: Path
    layout: Layout
    acknowledged: list[int]


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Round:
    """Three writers with four slots each, 30 writes: every slot is written over several times."""
    home = tmp_path_factory.mktemp("round")
    target, file = home / "target", home / "recorder.log"
    with recording(file) as service:
        shape = ("--writers", "3", "--slots", "4", "--writes", "30", "--size", "8MiB")
        found = document("honesty", "write", str(target), "--recorder", service.address, *shape)
    assert found["outcome"] == "done"
    return Round(target, file, Layout(found["run"], 3, 4, 4096), found["acknowledged"])


def test_what_was_acknowledged_is_there(complete: Round) -> None:
    assert complete.acknowledged == [30, 30, 30]
    told = [entry for entry in entries(complete.file) if isinstance(entry, WriteEntry)]
    assert sorted((e.writer, e.sequence) for e in told) == [(w, s) for w in range(3) for s in range(1, 31)]
    found = document("honesty", "verify", str(complete.target), "--recorder-file", str(complete.file))
    assert (found["acknowledged"], found["missing_count"], found["kept"]) == (90, 0, True)
    assert (found["gaps"], found["host_started_since"]) == ([], False)
    said = begin("honesty", "verify", str(complete.target), "--recorder-file", str(complete.file)).communicate()[0]
    assert "so there was no power cut" in said


def test_a_line_that_is_gone_from_the_recorder_s_file_is_noticed(complete: Round, tmp_path: Path) -> None:
    told = [entry for entry in entries(complete.file) if isinstance(entry, WriteEntry)]
    lines = complete.file.read_bytes().splitlines(keepends=True)
    head = len(lines) - len(told)
    place = tmp_path / "recorder.log"
    place.write_bytes(b"".join([*lines[: head + 20], *lines[head + 21 :]]))
    gone = told[20]
    found = document("honesty", "verify", str(complete.target), "--recorder-file", str(place))
    assert found["gaps"] == [{"writer": gone.writer, "after": gone.sequence - 1}]
    assert found["acknowledged"] == 89


@pytest.mark.parametrize("sync", ["fdatasync", "fsync"])
def test_every_way_of_syncing_makes_a_full_round(sync: str, tmp_path: Path) -> None:
    target, file = tmp_path / "target", tmp_path / "recorder.log"
    with recording(file) as service:
        shape = ("--sync", sync, "--writes", "5", "--writers", "2", "--size", "8MiB", "--block", "8KiB")
        document("honesty", "write", str(target), "--recorder", service.address, *shape)
    assert verify(str(target), file).acknowledged == 10


def image_of(round_: Round, known: list[WriteEntry], lost: set[tuple[int, int]], place: Path) -> None:
    """The target as it would be after a power cut: everything recorded until then, but for what the cache lost."""
    shutil.copyfile(round_.target, place)
    with place.open("r+b") as image:
        for writer in range(round_.layout.writers):
            for slot in range(round_.layout.slots):
                image.seek(round_.layout.offset(writer, slot))
                image.write(bytes(round_.layout.block_bytes))
        for entry in known:
            if (entry.writer, entry.sequence) not in lost:
                image.seek(round_.layout.offset(entry.writer, entry.sequence % round_.layout.slots))
                image.write(block(round_.layout, entry.writer, entry.sequence))


@pytest.mark.parametrize("seed", range(12))
def test_after_a_power_cut_exactly_the_lost_writes_are_named(complete: Round, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    everything: list[Entry] = list(entries(complete.file))
    head = [entry for entry in everything if isinstance(entry, RunEntry)]
    writes = [entry for entry in everything if isinstance(entry, WriteEntry)]
    known = writes[: dice.randint(1, len(writes))]
    lost = {(entry.writer, entry.sequence) for entry in known[len(known) - dice.randint(0, min(len(known), 9)) :]}
    file, image = tmp_path / "recorder.log", tmp_path / "image"
    file.write_bytes(HEAD + head[0].line() + b"".join(entry.line() for entry in known))
    image_of(complete, known, lost, image)
    found = verify(str(image), file)
    assert set(found.missing) == lost
    assert found.missing_count == len(lost)
    assert found.acknowledged == len(known)


def test_a_missing_write_fails_the_command_and_is_named(complete: Round, tmp_path: Path) -> None:
    image = tmp_path / "image"
    shutil.copyfile(complete.target, image)
    with image.open("r+b") as opened:
        opened.seek(complete.layout.offset(1, 30 % 4))
        opened.write(block(complete.layout, 1, 26))  # the write before, in the same slot
    process = begin("honesty", "verify", str(image), "--recorder-file", str(complete.file))
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "1 of 90 acknowledged writes are missing" in out
    assert "writer 1, sequence 30" in out


def test_a_power_cut_is_proof_only_if_the_host_started_since(complete: Round, tmp_path: Path) -> None:
    noted = tmp_path / "noted.log"
    shutil.copy(complete.file, noted)
    target = str(complete.target)
    since = prove(target, noted)
    assert (since.word, since.acknowledged) == ("", 90)
    assert "has not been restarted since" in since.text
    began_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    os.utime(noted, (began_s - 60, began_s - 60))
    assert prove(target, noted).word == PROVED
    told = [entry for entry in entries(complete.file) if isinstance(entry, WriteEntry)]
    image_of(complete, told, {(1, 30), (2, 29)}, tmp_path / "image")
    lost = prove(str(tmp_path / "image"), noted)
    assert (lost.word, lost.missing) == (LOST, 2)
    assert "2 are missing" in lost.text
    os.utime(noted)
    without_a_cut = prove(str(tmp_path / "image"), noted)
    assert (without_a_cut.word, without_a_cut.missing) == ("", 2)
    assert "2 are missing, but this host has not been restarted since" in without_a_cut.text


def test_durable_looks_at_the_proof_before_it_writes(
    complete: Round, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EACH_NS", "WARMUP_NS", "INTERVAL_NS", "HONESTY_NS", "DIRTY_NS", "ETCD_NS"):
        monkeypatch.setattr(durable, name, 20_000_000)
    told = [entry for entry in entries(complete.file) if isinstance(entry, WriteEntry)]
    image_of(complete, told, {(0, 30)}, image := tmp_path / "image")
    shutil.copy(complete.file, noted := tmp_path / "noted.log")
    cut_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - 60
    os.utime(noted, (cut_s, cut_s))
    given = ["durable", str(image), "--recorder-file", str(noted), "--no-pg-test-fsync", "--json", "--check"]
    assert main([*given, "--store", str(tmp_path / "runs.db")]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == LOST
    assert document["answer"][0].startswith("Verdict: lost data in a power cut. Of 90 acknowledged writes")


def test_what_was_written_over_later_is_not_laid_to_the_storage(tmp_path: Path) -> None:
    target, file = tmp_path / "target", tmp_path / "recorder.log"
    with recording(file) as service:
        shape = ("--writers", "2", "--slots", "4", "--writes", "10", "--size", "16MiB")
        document("honesty", "write", str(target), "--recorder", service.address, *shape)
    load = ("run", "--rw", "randwrite", "--bs", "64k", "--runtime", "1", str(target), "--store", str(tmp_path / "r.db"))
    document(*load)
    found = document("honesty", "verify", str(target), "--recorder-file", str(file), code=1)
    assert 0 < found["foreign_count"] == found["missing_count"]
    process = begin("honesty", "verify", str(target), "--recorder-file", str(file))
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert (
        "if another program has written to the target since, such as `brickyard run`, this is no evidence about the"
        " storage" in out
    )
    cut_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - 60
    os.utime(file, (cut_s, cut_s))
    assert prove(str(target), file).word == ""
    # A write over a run that the same recorder knows is a loss like any other.
    with recording(file) as service:
        document("honesty", "write", str(target), "--recorder", service.address, *shape)
    found = document("honesty", "verify", str(target), "--recorder-file", str(file))
    assert found["foreign_count"] == 0


def test_more_damage_than_a_crash_can_do_is_no_torn_end(complete: Round, tmp_path: Path) -> None:
    """Each of three writers waits for the recorder's answer to its own line."""
    lines = complete.file.read_bytes().splitlines(keepends=True)
    place = tmp_path / "recorder.log"
    for count, is_torn in ((3, True), (4, True), (5, False), (60, False)):
        bad = [bytes([line[0] ^ 1]) + line[1:] for line in lines[-count:]]
        place.write_bytes(b"".join([*lines[:-count], *bad]))
        if is_torn:
            found = document("honesty", "verify", str(complete.target), "--recorder-file", str(place))
            assert found["torn_bytes"] == sum(map(len, bad))
            process = begin("honesty", "verify", str(complete.target), "--recorder-file", str(place))
            assert (
                "of the recorder's file are damaged; writes recorded there are not checked" in process.communicate()[0]
            )
        else:
            with pytest.raises(BadInputError, match="by more lines than a crash can tear"):
                verify(str(complete.target), place)


def test_a_torn_block_counts_as_the_older_of_its_sectors(complete: Round) -> None:
    old, new = block(complete.layout, 0, 2), block(complete.layout, 0, 6)
    assert sequence_in(complete.layout, 0, 2, new[:1536] + old[1536:]) == 2
    assert sequence_in(complete.layout, 0, 2, new) == 6
    assert sequence_in(complete.layout, 0, 2, new[:700] + bytes(16) + new[716:]) == 6  # behind the stamp of its sector
    assert sequence_in(complete.layout, 0, 2, new[:520] + b"?" + new[521:]) == 0
    assert sequence_in(complete.layout, 1, 2, new) == 0  # another writer's
    assert sequence_in(complete.layout, 0, 3, new) == 0  # another slot's
    assert sequence_in(Layout("ab" * 8, 3, 4, 4096), 0, 2, new) == 0  # another run's


def wait_for_writes(file: Path, count: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while sum(isinstance(entry, WriteEntry) for entry in entries(file)) < count:
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def test_nothing_acknowledged_is_lost_when_the_writers_are_killed(tmp_path: Path) -> None:
    target, file = tmp_path / "target", tmp_path / "recorder.log"
    with recording(file) as service:
        writer = begin("honesty", "write", str(target), "--recorder", service.address, "--size", "8MiB")
        wait_for_writes(file, 40)
        writer.kill()
        writer.communicate(timeout=PATIENCE_S)
    found = verify(str(target), file)
    assert found.acknowledged >= 40
    assert found.missing_count == 0


def test_a_killed_recorder_stops_the_writers_and_keeps_what_it_answered(tmp_path: Path) -> None:
    target, file = tmp_path / "target", tmp_path / "recorder.log"
    with recording(file) as service:
        writer = begin("honesty", "write", str(target), "--recorder", service.address, "--size", "8MiB", "--json")
        wait_for_writes(file, 40)
        service.process.send_signal(signal.SIGKILL)
        out, _ = writer.communicate(timeout=PATIENCE_S)
    assert writer.returncode == 1
    told = json.loads(out)
    assert "the writers stop" in told["message"]
    kept = {(entry.writer, entry.sequence) for entry in entries(file) if isinstance(entry, WriteEntry)}
    answered = {(w, s) for w, last in enumerate(told["acknowledged"]) for s in range(1, last)}
    assert answered <= kept
    assert verify(str(target), file).missing_count == 0
    with recording(file) as service:  # it goes on where it was
        assert f"{len(kept):,} writes known from earlier sessions" in service.said
        document("honesty", "write", str(target), "--recorder", service.address, "--writes", "3")
    assert verify(str(target), file).acknowledged == 12  # of the last run on this target


RUN = RunEntry("0123456789abcdef", "f" * 32, 2, 4, 4096)
WRITES = [WriteEntry(RUN.run, n % 2, n // 2 + 1) for n in range(6)]


@pytest.mark.parametrize("cut", range(1, len(WRITES[-1].line())))
def test_a_torn_last_line_is_cut_off_and_written_after(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "recorder.log"
    whole = HEAD + RUN.line() + b"".join(entry.line() for entry in WRITES)
    file.write_bytes(whole[:-cut])
    extent = Extent()
    assert list(entries(file, extent)) == [RUN, *WRITES[:-1]]
    assert extent.torn_bytes == len(WRITES[-1].line()) - cut
    journal = Journal(file)
    journal.append([WRITES[-1].line()])
    journal.close()
    assert file.read_bytes() == whole


@pytest.mark.parametrize("length", range(len("brickyard"), len(HEAD)))
def test_a_torn_head_is_no_obstacle(tmp_path: Path, length: int) -> None:
    file = tmp_path / "recorder.log"
    file.write_bytes(HEAD[:length])
    Journal(file).close()
    assert file.read_bytes() == HEAD


def test_damage_before_sound_lines_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "recorder.log"
    content = bytearray(HEAD + RUN.line() + b"".join(entry.line() for entry in WRITES))
    content[len(HEAD) + len(RUN.line()) + 25] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadInputError, match="damaged at byte"):
        list(entries(file))
    with pytest.raises(BadInputError, match="damaged at byte"):
        Journal(file)
    assert file.read_bytes() == content


def test_no_changed_line_is_taken_for_another() -> None:
    line = WRITES[3].line()
    assert parse(line) == WRITES[3]
    for at in range(len(line)):
        for bit in range(8):
            changed = bytearray(line)
            changed[at] ^= 1 << bit
            assert parse(bytes(changed)) is None


def test_other_files_are_neither_read_nor_written(complete: Round, tmp_path: Path) -> None:
    foreign = tmp_path / "letter"
    foreign.write_text("Dear Sir,\n" * 400_000)
    before = foreign.read_bytes()
    with pytest.raises(BadInputError, match="exists and would be lost"):
        Journal(foreign)
    with pytest.raises(BadInputError, match="not made by Brickyard"):
        verify(str(foreign), complete.file)
    with pytest.raises(BadInputError, match="not made by Brickyard"), opened_target(str(foreign), write=True):
        pass
    process = begin("honesty", "write", str(foreign), "--recorder", "127.0.0.1:1", "--writes", "1")
    assert "was not made by Brickyard" in process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 2
    assert foreign.read_bytes() == before


def test_another_target_is_not_verified(complete: Round, tmp_path: Path) -> None:
    file = tmp_path / "recorder.log"
    file.write_bytes(HEAD + RUN.line() + WRITES[0].line())
    with pytest.raises(BadInputError, match="1 runs on other targets"):
        verify(str(complete.target), file)


def test_a_recorders_file_has_one_recorder(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "recorder.log")
    with pytest.raises(BadInputError, match="another recorder"):
        Journal(tmp_path / "recorder.log")
    journal.close()


def test_nonsense_is_refused_and_the_recorder_goes_on(tmp_path: Path) -> None:
    import socket

    file = tmp_path / "recorder.log"
    with recording(file) as service:
        host, _, port = service.address.rpartition(":")
        for nonsense in (b"GET / HTTP/1.1\r\n", b"x" * 100_000, WRITES[0].line()[:-2]):
            with socket.create_connection((host, int(port)), PATIENCE_S) as other:
                other.sendall(nonsense)
                other.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):  # closed with our nonsense still unread
                    assert b"ok" not in other.recv(100)
        channel = Channel((host, int(port)))
        channel.tell(WRITES[0].line())
        assert list(entries(file)) == [WRITES[0]]  # there before it was answered
        channel.close()


def test_more_connections_than_files_are_turned_away_in_few_words(tmp_path: Path) -> None:
    command = 'ulimit -n 64; exec "$0" -m brickyard recorder --listen 127.0.0.1:0 --file "$1"'
    words = ["bash", "-c", command, sys.executable, str(tmp_path / "recorder.log")]
    with (
        subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process,
        contextlib.ExitStack() as ending,
        contextlib.ExitStack() as opened,
    ):
        ending.callback(process.kill)
        assert process.stderr is not None
        found = re.search(r"listening on 127.0.0.1:(\d+)", process.stderr.readline())
        assert found
        for _ in range(90):  # fewer than may wait to be accepted
            opened.enter_context(socket.create_connection(("127.0.0.1", int(found[1])), PATIENCE_S))
        time.sleep(0.5)
        opened.close()
        time.sleep(3)  # asyncio accepts again a second after it could not
        shape = ("--writers", "2", "--writes", "3", "--size", "16MiB")
        told = document("honesty", "write", str(tmp_path / "target"), "--recorder", f"127.0.0.1:{found[1]}", *shape)
        assert told["acknowledged"] == [3, 3]
        process.terminate()
        said = process.communicate(timeout=PATIENCE_S)[1]
    assert len(said.splitlines()) < 10, said
    assert "Traceback" not in said


def test_a_device_is_written_only_with_consent(tmp_path: Path) -> None:
    backing, file = tmp_path / "backing", tmp_path / "recorder.log"
    with backing.open("wb") as made:
        made.truncate(16 * MIB)
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    losetup = ["losetup", "--find", "--show", str(backing)]
    device = subprocess.run(losetup, capture_output=True, text=True, check=True, env=environment).stdout.strip()
    try:
        with recording(file) as service:
            given = ("honesty", "write", device, "--recorder", service.address, "--writes", "4")
            assert "--overwrite" in document(*given, code=2)["error"]
            assert backing.read_bytes() == bytes(16 * MIB)
            document(*given, "--overwrite", device)
        found = verify(device, file)
        assert (found.acknowledged, found.missing_count) == (16, 0)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True, env=environment)

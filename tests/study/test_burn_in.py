"""Burn-in of several devices at once: the one that is damaged is found, nothing is invented, and a session goes on."""

from __future__ import annotations

import json
import math
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from brickyard.cli import main
from brickyard.cli.measuring.burn_in import _progress, _verdict_line
from brickyard.schema import CellEvent, CellEventMeasures, Counted, Cpu, ErrorEvent, ErrorKind, Event, Interval, Told
from brickyard.schema import encode as text_of
from brickyard.store import Json, Store, default_place
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.shipped.burn_in import Account, BurnCounts, BurnIn, Burning, Log

MIB = 1 << 20
SMALL = ("--size", "4MiB", "--set", "interval=100ms")


def burned(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Json:
    capsys.readouterr()
    assert main(["burn-in", *words, "--json"]) == code, capsys.readouterr().err
    found: Json = json.loads(capsys.readouterr().out)
    return found


def test_the_damaged_one_is_found_and_only_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound, damaged = tmp_path / "sound", tmp_path / "damaged"
    over = threading.Event()

    def damage() -> None:
        """Spoils the second half of every block of the second file, behind the back of whoever uses it."""
        until = time.monotonic() + 30
        # Past the page cache, whose pages would stand in the way of the direct writes of the one that is checked.
        sector = mmap.mmap(-1, 4096)
        while not over.is_set() and time.monotonic() < until:
            time.sleep(0.2)
            if any(one["device"] == str(damaged) and one["counts"]["written_bytes"] for one in accounts()):
                handle = os.open(damaged, os.O_WRONLY | os.O_DIRECT)
                try:
                    for offset in range(MIB, 5 * MIB, 8192):
                        sector[:] = os.urandom(4096)
                        os.pwrite(handle, sector, offset + 4096)
                finally:
                    os.close(handle)

    meddler = threading.Thread(target=damage)
    meddler.start()
    try:
        found = burned(capsys, str(sound), str(damaged), *SMALL, "--duration", "3s", code=1)
    finally:
        over.set()
        meddler.join()
    good, bad = found["devices"]
    assert (good["verdict"], bad["verdict"]) == ("pass", "fail")
    assert good["counts"]["errors"] == good["counts"]["damaged_blocks"] == 0
    assert good["counts"]["checked_blocks"] > 100
    assert bad["counts"]["damaged_blocks"] > 0
    assert bad["counts"]["errors"] == 0, "what came back damaged did not fail"
    logs = Path(found["logs"])
    lines = [json.loads(line) for line in next(logs.glob("*damaged.jsonl")).read_text().splitlines()]
    described = [line for line in lines if line["kind"] != "more"]
    assert described
    more = bad["counts"]["damaged_blocks"] - len(described)
    rest = f"{more:,} further reads of damaged blocks were counted and not described"
    assert [(line["text"], set(line)) for line in lines if line["kind"] == "more"] == (
        [(rest, {"time", "kind", "text"})] if more else []
    )
    assert all(line["offset_bytes"] % 8192 == 0 and line["operation"] == "read" for line in described)
    assert {line["kind"] for line in described} <= {"bits", "torn", "damage", "unwritten"}
    text = next(logs.glob("*damaged.log")).read_text().splitlines()
    assert len(text) == len(lines)
    assert not list(logs.glob("*sound.log"))


def test_damage_is_counted_by_reads_and_no_block_that_was_written_is_called_unwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = tmp_path / "device"
    assert main(["burn-in", str(device), *SMALL, "--duration", "1s"]) == 0
    with device.open("r+b") as file:
        for offset in range(MIB, device.stat().st_size, 8192):
            file.seek(offset)
            file.write(b"x" * 8192)
    longer = burned(capsys, str(device), *SMALL, "--duration", "1500ms", code=1)
    damaged = longer["devices"][0]["counts"]["damaged_blocks"]
    (run,) = longer["devices"][0]["runs"][-1:]
    capsys.readouterr()
    assert main(["show", str(run)]) == 0
    shown = capsys.readouterr().out
    assert f"{damaged:,} reads returned data other than what was written" in shown
    assert "lost or overwritten block at offset" in shown
    text = next(Path(longer["logs"]).glob("*.log")).read_text()
    assert "lost or overwritten block at offset" in text
    assert "unwritten block" not in text + shown


def test_a_verdict_counts_reads_of_damaged_blocks() -> None:
    account = Account("/dev/sdb", 1000, counts=BurnCounts(checked_blocks=2000, damaged_blocks=13))
    assert "2,000 checks, 13 reads of damaged blocks, 0 errors" in _verdict_line(account)
    account.counts.damaged_blocks = 1
    assert "1 read of a damaged block, 0 errors" in _verdict_line(account)


def test_progress_does_not_call_damage_errors(tmp_path: Path) -> None:
    """Of 100 failures a session, the core says what they are; of the others this is known when the phase ends."""
    one = Burning(Account("/dev/sdb", 10**10), Log(tmp_path, "/dev/sdb"))

    def found(kind: ErrorKind) -> ErrorEvent:
        return ErrorEvent(
            at_ns=1, kind=kind, offset_bytes=0, operation=Counted.READ, phase=0, request_bytes=8192, stream=0, text="t"
        )

    def interval(errors: int) -> Interval:
        read = CellEvent(
            bytes=0,
            depth_max=4,
            errors=errors,
            measures=CellEventMeasures(),
            operation=Counted.READ,
            requests=0,
            stream=0,
        )
        return Interval(
            cells=[read],
            cpu=Cpu(system_ns=0, user_ns=0),
            drain=False,
            end_ns=10**9,
            index=0,
            loop_busy_share=0,
            phase=0,
            start_ns=0,
            warmup=False,
        )

    with Store(tmp_path / "runs.db") as store:
        burn = BurnIn(store, Interrupt(), lambda _: None, lambda _: None)

        def take(*events: Event) -> str:
            one.phase_start_ns = 1
            for event in events:
                burn._take(one, Told(event, text_of(event)))
            return _progress(one)

        assert take(*[found(ErrorKind.DAMAGE)] * 3, interval(3)).endswith(
            "3 reads of damaged blocks, 0 errors, 0 hangs"
        )
        said = take(found(ErrorKind.ERRNO), interval(7))
    known = "3 reads of damaged blocks, 1 error, 0 hangs"
    assert said.endswith(f"{known}, 6 further reads of damaged blocks or errors")
    assert one.account.verdict == "fail"


def test_runs_of_a_burn_in_have_marks_warnings_and_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As those of `run burn-in` have. They were stored like healthy runs, without any figure."""
    device = tmp_path / "device"
    assert main(["burn-in", str(device), *SMALL, "--duration", "1s"]) == 0
    spoil(device, range(512))
    assert main(["burn-in", str(device), *SMALL, "--duration", "2s"]) == 1
    told = listed(capsys)
    assert [[w["id"] for w in run["warnings"] if w["id"] == "damage"] for run in told] == [[], ["damage"]]
    assert all(run["warnings"] for run in told), "a healthy run has some as well, such as of its caches"
    assert all(run["phases"][0]["rate_per_s"] > 100 for run in told)
    assert main(["runs"]) == 0
    assert "done, damaged data" in capsys.readouterr().out
    assert main(["export", "2", "--rows", "totals"]) == 0
    assert ",damaged data," in capsys.readouterr().out
    assert main(["baseline", "save", "good", "1-2"]) == 0
    (damage,) = (w["text"] for w in told[1]["warnings"] if w["id"] == "damage")
    count = f"{int(damage.split()[0]):,}"
    said = f"note: run 2: {count} reads of blocks returned data other than what was written"
    assert said in capsys.readouterr().out


def test_an_interrupted_session_is_kept_with_warnings_and_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = tmp_path / "device"
    assert main(["burn-in", str(device), *SMALL, "--duration", "1s"]) == 0
    spoil(device, range(512))
    words = [str(device), *SMALL, "--duration", "1h", "--json"]
    longer = subprocess.Popen([sys.executable, "-m", "brickyard", "burn-in", *words], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: any(one["counts"]["damaged_blocks"] for one in accounts()))
        longer.send_signal(signal.SIGINT)
        assert longer.wait(timeout=30) == 1
    finally:
        longer.kill()
        longer.wait(timeout=30)
    last = listed(capsys)[1]
    assert last["outcome"] == "interrupted"
    assert "damage" in [w["id"] for w in last["warnings"]]
    assert last["phases"]


def listed(capsys: pytest.CaptureFixture[str]) -> list[Json]:
    capsys.readouterr()
    assert main(["runs", "--json"]) == 0
    found: list[Json] = json.loads(capsys.readouterr().out)["runs"]
    return found


def test_what_is_filled_before_a_burn_in_is_announced_and_counted_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = str(tmp_path / "device")
    assert main(["burn-in", device, *SMALL, "--duration", "500ms"]) == 0
    told = capsys.readouterr()
    assert f"note: {device}: 4 MiB that are not known to hold data are filled before the burn-in begins" in told.err
    assert "filled: written before the burn-in where nothing was written yet" in told.out
    (account,) = accounts()
    assert account["counts"]["filled_bytes"] == 4 * MIB
    assert main(["burn-in", device, *SMALL, "--duration", "1s"]) == 0
    assert "are filled" not in capsys.readouterr().err
    assert accounts()[0]["counts"]["filled_bytes"] == 4 * MIB, "over all sessions"


def covered(told: Json) -> float:
    """What uniform writes and reads that alternate leave checked: a block counts if a read follows a write of it."""
    writes, reads = (told["counts"][f"{kind}_bytes"] / told["data_bytes"] for kind in ("written", "read"))
    steps = 10_000
    moments = [(n + 0.5) / steps for n in range(steps)]
    after = sum(math.exp(-writes * moment) * (1 - math.exp(-reads * (1 - moment))) for moment in moments)
    return float(writes / steps * after)


def test_a_session_goes_on_where_the_one_before_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device = str(tmp_path / "device")
    first = burned(capsys, device, *SMALL, "--duration", "1s")["devices"][0]
    assert first["verdict"] == "pass"
    assert first["read_share"] == first["counts"]["read_bytes"] / first["data_bytes"] > 0
    assert 0 < first["checked_share"] == pytest.approx(covered(first), abs=0.03)
    second = burned(capsys, device, *SMALL, "--duration", "2s")["devices"][0]
    assert len(second["runs"]) == 2
    assert second["burned_ns"] == pytest.approx(2e9, rel=0.02)
    assert second["counts"]["checked_blocks"] > first["counts"]["checked_blocks"]
    assert first["checked_share"] <= second["checked_share"] == pytest.approx(covered(second), abs=0.03)
    with Store(default_place()) as store:
        left = store.record(second["runs"][1]).info.plan.phase[0].duration
    assert left is not None
    assert 0.9e9 < left.ns < 1.1e9
    anew = burned(capsys, device, *SMALL, "--duration", "1s", "--fresh")["devices"][0]
    assert len(anew["runs"]) == 1
    # Over, and not longer: another burn-in, which says what it leaves out.
    assert main(["burn-in", device, *SMALL, "--duration", "1s"]) == 0
    assert "a new one begins, which does not check what the earlier one wrote" in capsys.readouterr().err


def test_a_longer_burn_in_checks_what_one_that_is_over_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = tmp_path / "device"
    assert burned(capsys, str(device), *SMALL, "--duration", "1s")["devices"][0]["verdict"] == "pass"
    with device.open("r+b") as file:
        for offset in range(1 << 20, device.stat().st_size, 8192):
            file.seek(offset)
            file.write(b"damaged after it")
    longer = burned(capsys, str(device), *SMALL, "--duration", "1500ms", code=1)["devices"][0]
    assert longer["verdict"] == "fail"
    assert longer["counts"]["damaged_blocks"] > 0


def test_what_a_killed_session_wrote_is_checked_by_the_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device = tmp_path / "device"
    words = [str(device), *SMALL, "--duration", "1h", "--json"]
    killed = subprocess.Popen([sys.executable, "-m", "brickyard", "burn-in", *words], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: any(line["counts"]["written_bytes"] > 8 * MIB for line in accounts()))
    finally:
        killed.kill()
        killed.wait(timeout=30)
    spoiled = spoil(device, range(100, 200))
    assert len(spoiled) > 50
    account = next((default_place().parent / "burn-in").glob("*.json"))
    kept = json.loads(account.read_text())
    account.write_text(json.dumps({**kept, "planned_ns": kept["burned_ns"] + 10**9}))
    left = f"{kept['burned_ns'] + 10**9}ns"
    found = burned(capsys, str(device), *SMALL, "--duration", left, code=1)
    assert found["devices"][0]["counts"]["damaged_blocks"] > 0
    lines = [json.loads(line) for line in next(Path(found["logs"]).glob("*.jsonl")).read_text().splitlines()]
    described = [line for line in lines if line["kind"] != "more"]
    assert described
    assert {line["offset_bytes"] for line in described} <= spoiled, "nothing is invented"


def accounts() -> list[Json]:
    found = []
    for path in (default_place().parent / "burn-in").glob("*.json"):
        with suppress(ValueError, OSError):  # it may be written at this moment
            found.append(json.loads(path.read_text()))
    return found


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.1)


def spoil(device: Path, blocks: range) -> set[int]:
    """Turns a bit of these blocks over where something has been written; their offsets in the target's data."""
    spoiled = set()
    with device.open("r+b", buffering=0) as file:
        for block in blocks:
            offset = MIB + block * 8192
            byte = os.pread(file.fileno(), 1, offset + 5000)
            os.pwrite(file.fileno(), bytes([byte[0] ^ 16]), offset + 5000)
            spoiled.add(offset)
        os.fsync(file.fileno())
    return spoiled


def test_one_that_is_refused_ends_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "not-ours"
    mine.write_bytes(b"precious" * 1000)
    found = burned(capsys, str(tmp_path / "ours"), str(mine), *SMALL, "--duration", "1s", code=1)
    assert [one["verdict"] for one in found["devices"]] == ["pass", "fail"]
    assert "not made by Brickyard" in found["devices"][1]["refused"]
    assert mine.read_bytes() == b"precious" * 1000
    assert main(["burn-in", str(mine), "--duration", "1s"]) == 2
    assert main(["burn-in", "sim:terraserver-2003"]) == 2
    assert main(["burn-in"]) == 2


def test_a_burn_in_that_is_refused_leaves_what_was_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    brick, logs = tmp_path / "brick", tmp_path / "logs"
    words = (str(brick), *SMALL, "--duration", "1s", "--logs", str(logs))
    brick.write_bytes(b"precious" * 1000)
    assert burned(capsys, *words, code=2)["devices"][0]["refused"]
    assert not logs.exists()
    brick.unlink()
    burned(capsys, *words)
    kept = {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()}
    assert [path for path in kept if path.suffix == ".generations"]
    brick.write_bytes(b"precious" * 1000)
    assert main(["burn-in", *words]) == 2
    assert "a new one begins" not in capsys.readouterr().err
    burned(capsys, *words, "--fresh", code=2)
    assert {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()} == kept


def test_a_failed_burn_in_stays_on_record_when_it_is_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = tmp_path / "device"
    words = (str(device), *SMALL, "--duration", "1s")
    burned(capsys, *words)
    logs = default_place().parent / "burn-in"
    spoil(device, range(512))
    account = next(logs.glob("*.json"))
    kept = json.loads(account.read_text())
    account.write_text(json.dumps({**kept, "planned_ns": 2 * 10**9}))
    assert burned(capsys, str(device), *SMALL, "--duration", "2s", code=1)["devices"][0]["verdict"] == "fail"
    lines = next(logs.glob("*.jsonl")).read_text()
    assert lines
    for more in ((), ("--fresh",)):
        again = burned(capsys, *words, *more, code=1)["devices"][0]
        assert again["counts"]["damaged_blocks"] == 0
        assert again["verdict"] == "failed before"
        assert again["earlier"][0]["verdict"] == "fail"
        assert next(logs.glob("*.jsonl")).read_text().startswith(lines)
    assert main(["burn-in", *words]) == 1
    assert "earlier burn-in(s) of this device failed" in capsys.readouterr().out


def test_a_sector_that_is_bad_from_the_start_is_logged_with_its_offset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The device is larger than what lies below it, so that its end cannot be written."""
    room = tmp_path / "room"
    room.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "none", str(room)], check=True)
    device = ""
    try:
        (room / "image").touch()
        os.truncate(room / "image", 16 * MIB)
        command = ["losetup", "--find", "--show", str(room / "image")]
        device = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        words = (device, "--overwrite", device, "--set", "interval=100ms", "--duration", "1s")
        found = burned(capsys, *words, code=1)
        [one] = found["devices"]
        assert one["verdict"] == "fail"
        assert one["counts"]["errors"] > 0
        said = one["refused"]
        assert "filling" in said
        lines = [json.loads(line) for line in next(Path(found["logs"]).glob("*.jsonl")).read_text().splitlines()]
        assert lines[0]["kind"] == "errno"
        assert lines[0]["operation"] == "write"
        assert f"at offset {lines[0]['offset_bytes']}, {MIB} bytes" in said
    finally:
        if device:
            subprocess.run(["losetup", "--detach", device], check=True)
        subprocess.run(["umount", "--lazy", str(room)], check=True)


def test_a_pass_says_how_little_was_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device = str(tmp_path / "device")
    assert main(["burn-in", device, "--size", "256MiB", "--duration", "1s"]) == 0
    said = capsys.readouterr().out
    assert "the other blocks may be damaged" in said
    (account,) = accounts()
    share = account["checked_once_blocks"] / account["blocks"]
    assert 0 < share == pytest.approx(covered(account), abs=0.03)
    # Another session writes and reads elsewhere: it did again what the first one had done.
    kept = next((default_place().parent / "burn-in").glob("*.json"))
    kept.write_text(json.dumps({**account, "planned_ns": 2 * 10**9}))
    assert main(["burn-in", device, "--duration", "2s"]) == 0
    capsys.readouterr()
    (both,) = accounts()
    assert len(both["runs"]) == 2
    assert share < both["checked_once_blocks"] / both["blocks"] == pytest.approx(covered(both), abs=0.03)
    with Store(default_place()) as store:
        assert len({store.record(run).info.plan.seed for run in both["runs"]}) == 2
    assert f"pass after 1.00 s: {math.floor(share * 1000) / 10:g} % of its blocks checked" in said

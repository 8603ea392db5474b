"""What a watch writes, that nothing of it is left in the kernel, and how it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from brickyard import traces
from brickyard.cli import main
from watch_support import BRICKYARD, WAIT_S, fio, loaded, loop, seen_by_kernel, settle, shell, watching, zram

__all__ = ["loop", "zram"]


# ---- what is seen of it


@seen_by_kernel
def test_verdicts_alignment_depth_and_processes(loop: str, tmp_path: Path) -> None:
    page, table, columns = tmp_path / "report", tmp_path / "table.csv", tmp_path / "table.parquet"
    written = ("--report", str(page), "--csv", str(table), "--parquet", str(columns))
    with watching(loop, "--stripe", "64KiB", *written) as running:
        fio(loop, "--rw=randwrite", "--bs=64k", "--offset=4k", "--ioengine=psync", "--io_size=32m")
        fio(loop, "--rw=randread", "--bs=4k", "--ioengine=psync", "--io_size=8m")
        found = running.ended()
    said = {one["figure"]: one for one in found["verdicts"]}
    assert said["unaligned_to_stripe_share"]["value"] == 1
    assert "not aligned to the 64 KiB stripe" in said["unaligned_to_stripe_share"]["text"]
    assert said["reads_one_deep_share"]["value"] > 0.8  # the kernel may read, too
    writes = found["devices"][0]["operations"]["write"]
    shares = {one["boundary_bytes"]: one["share"] for one in writes["aligned_shares"]}
    assert shares[4096] == 1
    assert shares[8192] == 0
    process = next(one for one in found["processes"] if one["comm"] == "fio")
    assert process["part"] == Path(loop).name
    html = (page / "report.html").read_text()
    assert html.count("<svg") >= 3
    assert "not aligned to the 64 KiB stripe" in html
    assert "The slowest request took " in html
    lines = table.read_text().splitlines()
    assert sum(int(line.split(",")[4]) for line in lines[1:] if ",write," in line) == writes["requests"]
    rows = pq.read_table(columns).to_pylist()
    assert len(rows) == len(lines) - 1
    assert sum(row["requests"] for row in rows if row["operation"] == "write") == writes["requests"]


@seen_by_kernel
def test_a_profile_of_what_was_seen_runs(loop: str, tmp_path: Path) -> None:
    made = tmp_path / "load.toml"
    with watching(loop, "--save", str(made)) as running:
        fio(loop, "--rw=randread", "--bs=16k", "--ioengine=psync", "--rate_iops=50", "--time_based", "--runtime=4")
        found = running.ended()
    assert found["profile"] == str(made)
    assert found["traced"] >= 150
    again = [*BRICKYARD, "run", str(made), "sim:msr-2003-wd", "--json", "--store", str(tmp_path / "runs.db")]
    (reads,) = [row for row in json.loads(shell(*again))["totals"] if row["operation"] == "read"]
    assert reads["bytes"] == reads["requests"] * 16384
    assert reads["requests"] == pytest.approx(found["traced"], rel=0.25)  # a busy host stretches the watch
    every = [*BRICKYARD, "watch", "/dev/loop0", "/dev/loop1", "--save", str(tmp_path / "all.toml")]
    refused = subprocess.run(every, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "a profile is made from one device" in refused.stderr


@seen_by_kernel
@pytest.mark.parametrize("engine", ["io_uring", "psync"])
def test_a_replay_flushes_as_often_as_what_was_seen(engine: str, loop: str, tmp_path: Path) -> None:
    """The kernel adds a flush to each durable write that a call waits for; the replay issues it as a request."""
    shell(*BRICKYARD, "run", "dd-write", loop, "--overwrite", loop)
    trace = str(tmp_path / "durable.byt")

    def commands(*words: str, ask: Callable[[], object]) -> int:
        settle()
        with watching(loop, *words) as running:
            ask()
            settle()
            (device,) = running.ended()["devices"]
        return int(device["operations"]["flush_command"]["requests"])

    def durably() -> None:
        fio(loop, "--rw=randwrite", "--bs=4k", "--ioengine=psync", "--sync=dsync", "--io_size=400k", "--thinktime=2ms")
        fio(loop, "--rw=randwrite", "--bs=4k", "--ioengine=psync", "--fsync=5", "--io_size=400k", "--thinktime=2ms")

    first = commands("--save", trace, ask=durably)
    words = ("run", trace, loop, "--overwrite", loop, "--set", "fill=never", "--timing", "dependent")

    def replayed() -> None:
        subprocess.run([*BRICKYARD, *words, "--set", f"engine={engine}"], capture_output=True, check=False)

    again = commands(ask=replayed)
    assert first > 200
    assert again == pytest.approx(first, rel=0.05)


# ---- nothing is left, and bad input


def holding(pids: set[int]) -> bool:
    """Whether any of these processes still holds a program in the kernel."""
    for pid in pids:
        try:
            if any("prog_type:" in place.read_text() for place in Path(f"/proc/{pid}/fdinfo").iterdir()):
                return True
        except OSError:
            continue
    return False


@seen_by_kernel
def test_a_watch_tells_what_its_own_programs_take(loop: str) -> None:
    with watching(loop, "--every", "200ms") as running:
        fio(loop, "--rw=randread", "--bs=4k", "--ioengine=psync", "--time_based", "--runtime=3", "--norandommap")
        found = running.ended()
    programs = found["programs"]
    assert 0 < programs["measured_ns"] < found["seconds"] * 1e9 / 2, "for a part of the time"
    requests = found["devices"][0]["operations"]["read"]["requests"]
    assert 0 < programs["runs"] < 6 * requests, "at most six programs run for a request"
    assert 10 < programs["ns"] / programs["runs"] < 1_000_000
    assert any("programs in the kernel took" in note for note in found["notes"])


@seen_by_kernel
def test_nothing_stays_in_the_kernel_after_kill_9(loop: str) -> None:
    with watching(loop, "--read-ahead") as running:
        programs = loaded(running)
        assert programs, "they are seen while they are there"
        running.process.kill()
        running.process.wait()
        deadline = time.monotonic() + WAIT_S
        while holding(programs):
            assert time.monotonic() < deadline, "the program outlives its parent"
            time.sleep(0.05)


@seen_by_kernel
def test_what_was_seen_is_kept_when_the_program_dies(loop: str, tmp_path: Path) -> None:
    trace, rows = tmp_path / "seen.byt", tmp_path / "seen.csv"
    with watching(loop, "--every", "200ms", "--save", str(trace), "--csv", str(rows)) as running:
        fio(loop, "--rw=randwrite", "--bs=4k", "--io_size=1m", "--ioengine=psync")
        time.sleep(0.6)
        pid = running.process.pid
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        out, err = running.process.communicate(timeout=WAIT_S)
    assert running.process.returncode == 1
    assert "what was seen until then is kept" in err
    found = json.loads(out)
    assert found["devices"][0]["operations"]["write"]["requests"] == found["traced"] == 256
    lines = [line.split(",") for line in rows.read_text().splitlines()]
    assert sum(int(line[4]) for line in lines if line[3] == "write") == 256
    assert traces.contents(str(trace)).summary.writes == 256


@seen_by_kernel
def test_an_output_that_fails_takes_no_other_with_it(loop: str, tmp_path: Path) -> None:
    made, rows, pages = (tmp_path / name for name in ("idle.toml", "idle.csv", "idle"))
    asked = [
        *BRICKYARD,
        "watch",
        loop,
        "--for",
        "300ms",
        "--save",
        str(made),
        "--csv",
        str(rows),
        "--report",
        str(pages),
    ]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    said = " ".join(done.stderr.split())  # lines break at the width, wherever the folder's name ends
    assert f"brickyard: --save {made}: " in said
    assert "too few reads and writes" in said
    assert "no requests in" in done.stdout
    assert rows.exists()
    assert "report: " in done.stdout
    assert any(pages.iterdir())
    assert not made.exists()


@seen_by_kernel
def test_a_device_that_vanishes_ends_the_watch(zram: str) -> None:
    with watching(zram, "--every", "200ms") as running:
        fio(zram, "--rw=randwrite", "--bs=4k", "--io_size=1m", "--ioengine=psync")
        Path("/sys/class/zram-control/hot_remove").write_text(zram.removeprefix("/dev/zram"))
        out, err = running.process.communicate(timeout=WAIT_S)
    assert running.process.returncode == 0
    assert "has vanished" in err
    assert json.loads(out)["devices"][0]["operations"]["write"]["requests"] == 256


@pytest.mark.parametrize("method", ["bpf", "counters"])
@seen_by_kernel
def test_a_loop_device_that_is_detached_ends_the_watch(method: str, tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.write_bytes(bytes(1 << 20))
    device = shell("losetup", "--find", "--show", str(place))
    try:
        with watching(device, "--every", "200ms", "--for", "50s", "--method", method) as running:
            shell("losetup", "--detach", device)
            _, err = running.process.communicate(timeout=WAIT_S / 2)
    finally:
        subprocess.run(["losetup", "--detach", device], capture_output=True, check=False)
    assert "was detached" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_without_rights_there_is_one_clear_line_and_counters_work(tmp_path: Path) -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]
    where = {**os.environ, "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    asked = [*nobody, *BRICKYARD, "watch", "--for", "300ms", "--every", "100ms", "--json"]
    can_start = subprocess.run([*nobody, *BRICKYARD, "--version"], env=where, capture_output=True, check=False)
    if can_start.returncode:
        pytest.skip("others may not read this folder")
    refused = subprocess.run([*asked, "--method", "bpf"], env=where, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "run it as root" in refused.stderr
    found = subprocess.run(asked, env=where, capture_output=True, text=True, check=True)
    assert "only the kernel's counters" in found.stderr
    told = json.loads(found.stdout)
    assert told["method"] == "counters"
    assert "alignment" in told["not_seen"]


def test_a_file_of_the_working_directory_is_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").touch()
    assert main(["watch", "f"]) == 2
    assert "f: is not a block device, and watch takes only those" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["/dev/null"], "is not a block device"),
        (["/dev/no-such-disk"], "does not exist"),
        (["--method", "magic"], "must be one of auto, bpf, tracepoints, counters"),
        (["--stripe", "100"], "must be a multiple of 512 bytes"),
        (["--save", "load.txt"], "is named NAME.byt, a profile NAME.toml"),
        (["--for", "soon"], "write a duration"),
        (["/dev/loop0", "--listen", "127.0.0.1:²"], "write HOST:PORT"),
    ],
)
def test_bad_input_is_one_line(words: list[str], said: str) -> None:
    done = subprocess.run([*BRICKYARD, "watch", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1

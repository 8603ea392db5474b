"""Why the slowest requests of a run were slow: causes that were put there, and evidence that says one thing only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brickyard.analysis.judging import slow
from brickyard.cli import main
from brickyard.lab import disks
from brickyard.schema import RunWatch
from brickyard.schema.watch_sheet import CpuShares, CpuSheet, HeldBack, ProcessUse, SlowAtDevice, SlowSheet, WatchSheet
from brickyard.store import Json, Record, Store
from brickyard.watch.beside import at_limit
from support import MS, SECOND, add_run, cell, interval, phase_end, plan, stream

BRICKYARD = [sys.executable, "-m", "brickyard"]
CAN_WATCH = os.geteuid() == 0 and Path("/sys/kernel/btf/vmlinux").exists()
WAIT_S = 60.0
OPEN = """
[[phase]]
duration = "{seconds}s"
[[phase.stream]]
request = "4KiB"
address = "random"
depth = {depth}
pace = {{ loop = "open", rate = {rate}, arrivals = "poisson" }}
"""


def profile(folder: Path, **words: int) -> str:
    place = folder / "load.toml"
    place.write_text(OPEN.format(**words))
    return str(place)


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.fixture
def slow_disk() -> Iterator[disks.About]:
    """An emulated disk whose model needs milliseconds for a request, on a loop device."""
    if not CAN_WATCH:
        pytest.skip("needs root and a kernel that describes itself (BTF)")
    about = disks.up(disks.Wanted("slow-run", "sim:msr-2003-wd", 64 << 20, "honest", 8 << 20, None, None, 2.0))
    try:
        yield about
    finally:
        disks.down("slow-run")


def test_a_stall_of_the_device_and_a_late_generator_are_told_apart(slow_disk: disks.About, tmp_path: Path) -> None:
    """The disk stops for 300 ms, and later the whole run does. Both delay as many requests."""
    load = profile(tmp_path, seconds=6, depth=64, rate=25)
    subprocess.run([*BRICKYARD, "run", "dd-write", slow_disk.device, "--overwrite", slow_disk.device], check=True,
                   capture_output=True)  # fmt: skip
    words = ["run", load, slow_disk.device, "--set", "fill=never", "--json", "--store", str(tmp_path / "store")]
    with subprocess.Popen([*BRICKYARD, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + WAIT_S
        while not phase_began(tmp_path / "store"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1.5)
        disks.ask("slow-run", "stall 300ms")
        time.sleep(1.5)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.4)
        process.send_signal(signal.SIGCONT)
        found = ended(process)
    spikes = [one for one in found["slowest"] if one["response_ns"] > 120 * MS]
    named = [one["cause"] for one in spikes]
    lacked_cpu = [one for one in spikes if one["cause"] == slow.UNKNOWN and "for a CPU" in one["evidence"]]
    assert "device" in named or lacked_cpu, found["slowest"][:5]
    assert slow.GENERATOR in named, found["slowest"][:5]
    assert set(named) <= {"device", slow.GENERATOR, slow.UNKNOWN, slow.ABOVE, "own requests"}, found["slowest"][:9]
    assert found["watch"]["targets"][0]["slow"]["whose"] == "our own"
    assert sum(one["time_share"] for one in found["slow_causes"]) == pytest.approx(1)


CLOSED = """
[[phase]]
duration = "6s"
[[phase.stream]]
request = "4KiB"
address = "random"
depth = 4
"""


def test_a_limit_of_the_runs_cgroup_is_named(slow_disk: disks.About, tmp_path: Path) -> None:
    """Four reads at once, and a control group that may do 40 a second: nearly all of their time they are held back."""
    root = Path("/sys/fs/cgroup/blkio")
    if not (root / "blkio.throttle.read_iops_device").exists():
        pytest.skip("this host has no cgroup of version 1 with throttling")
    load, group = tmp_path / "load.toml", root / f"brickyard-test-run-{os.getpid()}"
    load.write_text(CLOSED)
    words = [*BRICKYARD, "run", str(load), slow_disk.device, "--overwrite", slow_disk.device, "--json",
             "--store", str(tmp_path / "store"), "--set", "fill=never"]  # fmt: skip
    number = Path(f"/sys/block/{Path(slow_disk.device).name}/dev").read_text().strip()
    group.mkdir()
    try:
        (group / "blkio.throttle.read_iops_device").write_text(f"{number} 40")
        inside = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *words]
        with subprocess.Popen(inside, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            found = ended(process)
    finally:
        group.rmdir()
    named = [one["cause"] for one in found["slowest"]]
    assert named.count(slow.HELD) >= 0.9 * len(named), named
    assert "its limit of 40 requests/s (riops)" in next(
        one["evidence"] for one in found["slowest"] if one["cause"] == slow.HELD
    )


def test_a_limit_is_reached_over_neighbouring_intervals() -> None:
    """The kernel lets a few requests go at once: half a second has 17 of 20, and the next one 22."""
    assert at_limit([34.0, 44.0, 34.0, 40.0], 40) == [True] * 4
    assert at_limit([40.0, 10.0, 12.0, 11.0, 39.0], 40) == [True, False, False, False, True]


def phase_began(place: Path) -> bool:
    if not place.exists():
        return False
    with Store(place) as store:
        runs = store.runs()
        return bool(runs) and bool(store.record(runs[-1].id).costs)


def test_a_queue_that_is_too_short_is_named_on_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One place, and twice as many requests as one drive can serve."""
    load = profile(tmp_path, seconds=20, depth=1, rate=150)
    assert main(["run", load, "sim:msr-2003-wd", "--json"]) == 0
    found: Json = json.loads(capsys.readouterr().out)
    assert [one["cause"] for one in found["slow_causes"]] == [slow.PLACES]
    assert "at most 1 of 1 allowed requests were in flight" in found["slowest"][0]["evidence"]
    assert main(["run", load, "sim:msr-2003-wd"]) == 0
    assert "slowest requests were slow: own queue depth" in capsys.readouterr().out


START_UNIX = 1_790_000_000 * SECOND


def told(tmp_path: Path, event: Json, watch: WatchSheet | None, **interval_words: Any) -> slow.SlowCause:
    """Of a run with one slow request that ended after 2 s; four places, 1 s an interval."""
    with Store(tmp_path / "runs.db") as store:
        place = {"at_ns": 2 * SECOND, "stream": 0, "operation": "read", "offset_bytes": 0, "request_bytes": 4096}
        intervals = [
            interval(n * SECOND, (n + 1) * SECOND,
                     cell(interval_words.get("served", [MS]), depth_max=interval_words.get("depth_max", 1)),
                     loop_busy_share=interval_words.get("busy", 0.1))
            for n in range(3)
        ]  # fmt: skip
        paced = {"loop": "open", "rate": 20.0, "arrivals": "constant"}
        run = add_run(
            store,
            [*intervals, phase_end(slowest=[place | event])],
            plan_=plan(
                stream(
                    pace={"loop": "closed"} if interval_words.get("closed") else paced,
                    sync=interval_words.get("sync", "none"),
                    depth=interval_words.get("depth", 4),
                )
            ),
            watch=RunWatch(targets=[watch]) if watch else None,
        )
        record: Record = store.record(run)
        (one,) = slow.slow_causes(record)
        return one


def seen(end_ms: float, total_ms: float, *, slow_count: int = 1, stopped: str = "") -> WatchSheet:
    at_device = SlowAtDevice(
        end_unix_ns=START_UNIX + round(end_ms * MS), total_ns=round(total_ms * MS), operation="read", offset_bytes=0,
        bytes=4096, cause="scheduler", evidence="99 % of its time",
    )  # fmt: skip
    return WatchSheet(
        slow=SlowSheet(
            devices=["sda"], whose="our own", requests=9, slow=slow_count, slowest=[at_device], stopped=stopped
        )
    )


def seen_parts(*parts: tuple[float, float]) -> WatchSheet:
    """Requests to the device, by end and length in ms: a durable write is a write and the kernel's flush after it."""
    slowest = [
        SlowAtDevice(
            end_unix_ns=START_UNIX + round(end_ms * MS), total_ns=round(total_ms * MS), operation=operation,
            offset_bytes=0, bytes=4096, cause="device", evidence="none ended meanwhile",
        )
        for (end_ms, total_ms), operation in zip(parts, ("write", "flush"), strict=True)
    ]  # fmt: skip
    return WatchSheet(slow=SlowSheet(devices=["sda"], whose="our own", requests=9, slow=2, slowest=slowest))


def held(begin_ms: int, end_ms: int, kind: str = "riops") -> WatchSheet:
    """A control group at its limit from then to then, and no slow request to the device."""
    span = (START_UNIX + begin_ms * MS, START_UNIX + end_ms * MS)
    limit = HeldBack(device="sda", cgroup="/batch", kind=kind, per_s=40, spans_unix_ns=[span])
    return WatchSheet(slow=SlowSheet(devices=["sda"], whose="our own", requests=9, slow=0, held=[limit]))


def cpus(busy: float, *, own: float) -> WatchSheet:
    """Two CPUs over 3 s, with shares of their time."""
    each = {name: CpuShares(busy_share=busy) for name in ("cpu0", "cpu1")}
    used = ProcessUse(user_ns=round(own * 2 * 3 * SECOND), system_ns=0)
    return WatchSheet(duration_ns=3 * SECOND, cpu=CpuSheet(busy_share=busy, each=each), process=used)


SERVED = {"service_ns": 100 * MS, "response_ns": 100 * MS}
WRITTEN = SERVED | {"operation": "write"}
LATE = {"service_ns": 10 * MS, "response_ns": 100 * MS}


@pytest.mark.parametrize(
    ("event", "watch", "words", "cause"),
    [
        (LATE, None, {"depth_max": 1}, slow.GENERATOR),
        (LATE, None, {"depth_max": 4, "served": [90 * MS] * 4}, slow.PLACES),
        (LATE, None, {"depth_max": 4, "served": [90 * MS] * 4, "busy": 0.95}, slow.UNKNOWN),
        (LATE, seen(2000, 100), {"depth_max": 4, "served": [90 * MS] * 4}, slow.PLACES),
        # The loop stood still, and issued all that was due when it went on: the limit was reached after that.
        (LATE, None, {"depth_max": 4, "served": [2 * MS] * 20}, slow.GENERATOR),
        (LATE, None, {"depth_max": 4, "served": [32 * MS] * 4}, slow.UNKNOWN),
        (LATE, cpus(0.99, own=0.04), {"depth_max": 4, "served": [90 * MS] * 4}, slow.EITHER),
        (LATE, cpus(0.99, own=0.95), {"depth_max": 4, "served": [90 * MS] * 4}, slow.PLACES),
        (LATE, cpus(0.5, own=0.04), {"depth_max": 4, "served": [90 * MS] * 4}, slow.PLACES),
        (LATE, None, {"depth_max": 4, "closed": True}, slow.GENERATOR),
        (SERVED, None, {}, slow.STORAGE),
        (SERVED, seen(2000, 99), {}, "scheduler"),
        (SERVED, seen(1960, 55), {}, "scheduler"),
        (SERVED, seen(1930, 20), {}, slow.ABOVE),
        (SERVED, seen(1800, 99), {}, slow.ABOVE),
        (SERVED, seen(1800, 99, slow_count=500), {}, slow.UNKNOWN),
        (SERVED, seen(1800, 99, stopped="too fast"), {}, slow.STORAGE),
        (SERVED, seen(2040, 99), {}, slow.ABOVE),
        (SERVED, held(1500, 2000), {}, slow.HELD),
        (SERVED, held(1960, 2500), {}, slow.UNKNOWN),  # there is a limit, and when it was reached is known coarsely
        (SERVED, held(1500, 2000, "wbps"), {}, slow.ABOVE),
        (WRITTEN, seen(1930, 20), {}, slow.ABOVE),
        (WRITTEN, seen(1930, 20), {"sync": "dsync"}, slow.UNKNOWN),
        (WRITTEN, seen_parts((1942, 40), (1985, 40)), {"sync": "dsync", "depth": 1}, "device"),
        (WRITTEN, seen_parts((1942, 40), (1985, 40)), {"sync": "dsync"}, slow.UNKNOWN),
        (WRITTEN, seen_parts((1942, 40), (1950, 40)), {"sync": "dsync"}, slow.UNKNOWN),
        (WRITTEN, seen_parts((1942, 40), (1985, 40)), {}, slow.UNKNOWN),
        (SERVED, seen_parts((1942, 40), (1985, 40)), {}, slow.UNKNOWN),
    ],
)
def test_what_the_evidence_says_and_no_more(
    event: Json, watch: WatchSheet | None, words: dict[str, Any], cause: str, tmp_path: Path
) -> None:
    assert told(tmp_path, event, watch, **words).cause == cause


def test_a_short_run_is_not_watched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load = profile(tmp_path, seconds=1, depth=4, rate=50)
    assert main(["run", load, str(tmp_path / "data"), "--size", "16MiB", "--json"]) == 0
    found: Json = json.loads(capsys.readouterr().out)
    (sheet,) = found["watch"]["targets"]
    assert "slow" not in sheet or sheet["slow"] is None
    assert "less than 5 s" in sheet["unknown"]["slow"]


def test_a_watch_that_counted_requests_and_listed_none_names_no_cause(tmp_path: Path) -> None:
    """A driver's commands are counted, and stand in no list."""
    watch = WatchSheet(slow=SlowSheet(devices=["sda"], whose="all processes", requests=9, slow=3))
    assert told(tmp_path, SERVED, watch).cause == slow.UNKNOWN


def test_parts_of_the_bar_of_causes_differ_without_colours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with Store() as store:
        at = {"stream": 0, "operation": "read", "offset_bytes": 0, "request_bytes": 4096}
        slowest = [at | SERVED | {"at_ns": 2 * SECOND}, at | LATE | {"at_ns": SECOND}]
        add_run(store, [interval(0, 3 * SECOND, cell([100 * MS] * 10, depth_max=1)), phase_end(slowest=slowest)],
                plan_=plan(stream(pace={"loop": "open", "rate": 20.0, "arrivals": "constant"})))  # fmt: skip
    assert main(["show", "1"]) == 0
    said = capsys.readouterr().out
    assert "A" * 25 + "B" * 25 in said
    assert "A storage or host 50 %  B late generator 50 %" in said

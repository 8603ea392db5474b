"""The lab: disks that lose what real ones lose, crash states that find what is broken, and nothing left of either."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from brickyard.analysis.judging.run_figures import run_figures
from brickyard.cli import main
from brickyard.facts.emulated import DiskEvent, EmulatedStatus, faults_between
from brickyard.lab import disks
from brickyard.lab.explore import Exploration, explore, record
from brickyard.lab.orders import LOST, Plan, Recording, Setup, States
from brickyard.lab.program import plan
from brickyard.store import Store
from lab_support import BLOCK, WAIT_S, left_behind, read, until, up, write

__all__ = ["up"]

LOAD_S = 1.5
MODEL = "sim:msr-2003-wd"


@pytest.mark.parametrize(("cache", "first"), [("honest", b"A"), ("lying", b"\0")])
def test_a_power_cut_takes_what_no_flush_covered_and_with_a_lying_cache_more(
    up: Callable[..., disks.About], cache: str, first: bytes
) -> None:
    device = up("--cache", cache).device
    write(device, b"A", 0, flushed=True)
    # Closing a block device that was written flushes it, so both requests are of one opening.
    handle = os.open(device, os.O_RDWR | os.O_DIRECT)
    buffer = mmap.mmap(-1, BLOCK)
    try:
        buffer[:] = b"B" * BLOCK
        os.pwritev(handle, [buffer], BLOCK)
        assert main(["lab", "power-cut", "disk"]) == 0
    finally:
        os.close(handle)
    assert main(["lab", "power-on", "disk"]) == 0
    assert read(device, 0) == first * BLOCK
    assert read(device, BLOCK) == bytes(BLOCK)


def test_damage_and_faults_take_effect_at_once_and_where_they_were_ordered(
    up: Callable[..., disks.About], capsys: pytest.CaptureFixture[str]
) -> None:
    device = up().device
    for at in range(4):
        write(device, b"A", at * BLOCK, flushed=True)
    assert main(["lab", "corrupt", "disk", "bit", "10"]) == 0
    assert read(device, 0) == b"A" * 10 + b"@" + b"A" * (BLOCK - 11)
    assert main(["lab", "corrupt", "disk", "stale", "4096"]) == 0
    write(device, b"B", BLOCK)
    assert read(device, BLOCK) == b"A" * BLOCK
    assert main(["lab", "corrupt", "disk", "torn", "8192"]) == 0
    write(device, b"B", 2 * BLOCK)
    assert read(device, 2 * BLOCK) == b"B" * (BLOCK // 2) + b"A" * (BLOCK // 2)
    assert main(["lab", "bad-sectors", "disk", "12KiB", "8KiB"]) == 0
    for beyond in (["bad-sectors", "disk", "1EiB", "512"], ["corrupt", "disk", "stale", "1EiB"]):
        capsys.readouterr()
        assert main(["lab", *beyond]) != 0
        assert "lies beyond the end of the disk" in capsys.readouterr().err
    with pytest.raises(OSError, match="Input/output error"):
        read(device, 3 * BLOCK)
    write(device, b"C", 3 * BLOCK)
    assert read(device, 3 * BLOCK) == b"C" * BLOCK
    with pytest.raises(OSError, match="Input/output error"):
        read(device, 4 * BLOCK)  # only what was written is whole again
    status = disks.ask("disk", "status").status
    assert status is not None
    assert status.failed >= 2
    assert main(["lab", "full", "disk"]) == 0
    with pytest.raises(OSError, match=r"No space left|Input/output error"):
        write(device, b"D", 0)
    assert main(["lab", "full", "disk", "off"]) == 0
    for place, asked in (("0", "16KiB"), ("4KiB", "17KiB")):  # one write covers both places
        assert main(["lab", "bad-sectors", "disk", place, "512", "--when", f"write:{asked}"]) == 0
    read(device, 0)
    write(device, b"E", 4 * BLOCK)
    for number in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            read(device, number * BLOCK)


def test_a_misplaced_write_is_elsewhere_and_a_trigger_waits_for_its_flush(up: Callable[..., disks.About]) -> None:
    device = up().device
    write(device, b"A", 0, flushed=True)
    assert main(["lab", "corrupt", "disk", "misplaced", "0"]) == 0
    write(device, b"B", 0)
    assert read(device, 0) == b"A" * BLOCK
    assert read(device, 64 << 10) == b"B" * BLOCK
    last = (64 << 20) - BLOCK  # nothing lies further on
    assert main(["lab", "corrupt", "disk", "misplaced", str(last)]) == 0
    write(device, b"C", last)
    assert read(device, last - (64 << 10)) == b"C" * BLOCK
    status = disks.ask("disk", "status").status
    assert status is not None
    assert main(["lab", "full", "disk", "--when", f"flush:{status.flushes + 3}"]) == 0
    handle = os.open(device, os.O_RDWR | os.O_DIRECT)
    buffer = mmap.mmap(-1, BLOCK)
    try:
        for _ in range(2):
            os.pwritev(handle, [buffer], 0)
            os.fsync(handle)
        os.pwritev(handle, [buffer], 0)
        os.fsync(handle)  # the third
        with pytest.raises(OSError, match=r"No space left|Input/output error"):
            os.pwritev(handle, [buffer], 0)
    finally:
        os.close(handle)
        assert main(["lab", "full", "disk", "off"]) == 0


@pytest.mark.parametrize(
    ("model", "survives"),
    [("sim:msr-2003-wd-software-mirror", True), ("sim:kirkwood-2003", False), (MODEL, False)],
    ids=["mirror", "RAID-0", "single"],
)
def test_a_failed_member_is_survived_by_a_mirror_alone(
    up: Callable[..., disks.About], model: str, survives: bool
) -> None:
    device = up("--model", model).device
    write(device, b"A", 0, flushed=True)
    assert main(["lab", "fail", "disk", "0"]) == 0
    if survives:
        write(device, b"B", 0, flushed=True)
        assert read(device, 0) == b"B" * BLOCK
    else:
        with pytest.raises(OSError, match="Input/output error"):
            read(device, 0)


def test_a_run_tells_that_its_disk_is_emulated_and_how(
    up: Callable[..., disks.About], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device, runs = up("--model", MODEL, "--speed", "10", "--cache", "lying").device, str(tmp_path / "runs.db")
    words = ["run", "sqlio-random-read-1", device, "--overwrite", device, "--store", runs, "--set", "duration=200ms"]
    assert main([*words, "--set", "warmup=0s", "--set", "fill=never"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert main(["show", "latest", "--store", runs]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "The disk was emulated by Brickyard: no drive was measured." in said
    assert "brickyard lab emulates" in said
    for word in (MODEL, "10 times as fast", "cache lying"):
        assert word in said, word
    assert "without the file system" not in said
    assert "faults" not in said


def test_a_run_tells_the_faults_of_its_emulated_disk(
    up: Callable[..., disks.About], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A disk that was made four times slower looked as if it were the healthy one, in each record and comparison."""
    device, runs = up("--model", "sim:terraserver-2003").device, str(tmp_path / "runs.db")
    short = ["--set", "duration=1s", "--set", "warmup=0s", "--set", "fill=never"]
    words = ["run", "sqlio-random-read-1", device, "--overwrite", device, "--store", runs, *short]
    assert main(words) == 0, capsys.readouterr().err
    assert main(["lab", "slow", "disk", "4"]) == 0
    assert main(["lab", "fail", "disk", "0"]) == 0
    assert main(words) == 0
    capsys.readouterr()
    assert main(["show", "latest", "--store", runs]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "It had faults, which a warning lists." in said
    faults = "had faults during the run: fail 0, slow 4."
    assert faults in said
    assert main(["compare", "1", "2", "--store", runs]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"{faults} (more than the storage is in these figures)" in told
    assert main(["runs", "--store", runs]) == 0
    second, first = (line for line in capsys.readouterr().out.splitlines() if "sqlio-random-read-1" in line)
    assert ("faults" in first, "faults" in second) in ((False, True), (True, False))
    # One that ignores flushes is another disk, wherever it is.
    assert main(["lab", "down", "disk"]) == 0
    lying = up("--model", "sim:terraserver-2003", "--cache", "lying").device
    assert main(["run", words[1], lying, "--overwrite", lying, *words[5:]]) == 0
    capsys.readouterr()
    assert main(["compare", "1", "3", "--store", runs]) == 0
    made = "Emulated disk: sim:terraserver-2003, cache honest (run 1); sim:terraserver-2003, cache lying (run 3)"
    assert f"differed: {made} (it is another disk)" in " ".join(capsys.readouterr().out.split())
    with Store(Path(runs)) as store:
        assert len({figures.state for figures in map(run_figures, map(store.record, (1, 2, 3)))}) == 2, "two histories"
    # What came and went while a run lasted is told as well.
    start = EmulatedStatus(late=0, history=[DiskEvent(at_ms=5, what="slow 1")])
    end = EmulatedStatus(
        late=0, history=[*start.history, *(DiskEvent(at_ms=9, what=what) for what in ("slow 9", "slow 1"))]
    )
    assert faults_between(start, end) == ["slow 9", "slow 1"]
    assert faults_between(end, end) == []


def test_a_disk_can_be_made_slower_and_stalls_as_long_as_it_was_told(up: Callable[..., disks.About]) -> None:
    device = up("--model", MODEL).device

    def took_s() -> float:
        begun = time.monotonic()
        write(device, b"A", 0, flushed=True)
        return time.monotonic() - begun

    assert main(["lab", "slow", "disk", "20"]) == 0
    took_s()  # the first write waits for any part of a turn
    assert took_s() + took_s() > 2 * 20 * 0.007
    assert main(["lab", "slow", "disk", "1"]) == 0
    assert main(["lab", "stall", "disk", "700ms"]) == 0
    assert took_s() > 0.6


URING = Path("/sys/module/fuse/parameters/enable_uring")


@pytest.mark.skipif(not URING.exists(), reason="this kernel has no FUSE over io_uring")
def test_requests_come_over_io_uring_where_the_kernel_offers_it(
    up: Callable[..., disks.About], capsys: pytest.CaptureFixture[str]
) -> None:
    was = URING.read_text()
    URING.write_text("Y")
    try:
        about = up("--fs", "ext4")
    finally:
        URING.write_text(was)
    assert about.is_over_ring
    assert main(["lab", "status", "disk"]) == 0
    assert "FUSE over io_uring" in capsys.readouterr().out
    name, content = Path(about.at, "a file"), os.urandom(9 << 20)
    with name.open("wb") as file:
        file.write(content)
        os.fsync(file.fileno())
    assert main(["lab", "power-cut", "disk"]) == 0
    assert name.read_bytes() == content
    subprocess.run(["umount", about.at], check=True)
    os.kill(about.pid, signal.SIGKILL)  # requests fail, and do not wait for an answer
    with pytest.raises(OSError, match="Input/output error"):
        write(about.device, b"B", 0, flushed=True)


def test_orders_that_mean_nothing_change_nothing(
    up: Callable[..., disks.About], capsys: pytest.CaptureFixture[str]
) -> None:
    up()
    for words in (
        ["slow", "disk", "0"],
        ["stall", "disk", "soon"],
        ["stall", "disk", "99"],
        ["power-cut", "disk", "--when", "flush:0"],
        ["up", "other", "--size", "1KiB"],
        ["fail", "disk", "0"],
        ["fail", "disk", "0", "--when", "write:0"],
        ["slow", "disk", "4"],
        ["corrupt", "disk", "torn", "10TiB", "--when", "write:0"],
        ["corrupt", "disk", "somehow", "0"],
        ["power-cut", "disk", "--when", "noon"],
        ["power-cut", "none"],
        ["up", "disk"],
        ["up", "other", "--cache", "hopeful"],
        ["up", "other", "--model", "sim:none"],
        ["up", "other", "--fs", "fat"],
        ["up", "../other"],
    ):
        assert main(["lab", *words]) == 2, words
        assert len(capsys.readouterr().err.splitlines()) == 1, words
    assert [about.name for about in disks.listed()] == ["disk"]
    assert main(["lab", "status", "disk", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"]["history"] == []


def test_a_killed_disk_fails_at_once_and_the_next_command_cleans_up(
    up: Callable[..., disks.About], capsys: pytest.CaptureFixture[str]
) -> None:
    about = up("--fs", "ext4")
    assert main(["lab", "stall", "disk", "1h"]) == 0
    reader = subprocess.Popen(["dd", f"if={about.device}", "of=/dev/null", "bs=4k", "count=1", "iflag=direct"])
    time.sleep(0.2)
    assert reader.poll() is None, "the disk stalls"
    os.kill(about.pid, signal.SIGKILL)
    assert reader.wait(WAIT_S) != 0
    assert left_behind(about.at) != []
    assert main(["lab", "list"]) == 0
    assert "no disk is up" in capsys.readouterr().out
    until(lambda: left_behind(f"{disks.home()}/") == [], "something of ours is left")


def test_a_disk_whose_making_was_killed_is_removed_by_the_next_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [sys.executable, "-m", "brickyard", "lab", "up", "disk", "--size", "1GiB", "--fs", "ext4"]
    process = subprocess.Popen([*words, "--model", MODEL, "--speed", "0.01"])
    try:
        until(lambda: bool(left_behind("mkfs.ext4")), "no file system is made")
    finally:
        process.kill()
        process.wait()
    assert main(["lab", "list"]) == 0
    assert "no disk is up" in capsys.readouterr().out
    until(lambda: left_behind(f"{disks.home()}/") == [], "something is left")


def test_a_slow_disk_with_dirty_files_and_no_room_goes_down(up: Callable[..., disks.About]) -> None:
    about = up("--model", MODEL, "--fs", "ext4")
    (Path(about.at) / "dirty").write_bytes(os.urandom(4 << 20))
    assert main(["lab", "slow", "disk", "3000"]) == 0
    assert main(["lab", "full", "disk"]) == 0
    began = time.monotonic()
    assert main(["lab", "down", "disk"]) == 0
    assert time.monotonic() - began < 30


def test_a_disk_is_as_slow_as_its_model(up: Callable[..., disks.About]) -> None:
    """Flushed writes to a disk of 7,200 rpm wait for its rotation, 8.33 ms; no disk of ours is ever faster."""
    device = up("--model", MODEL).device
    write(device, b"A", 0, flushed=True)
    begun = time.monotonic()
    for _ in range(10):
        write(device, b"A", 0, flushed=True)
    assert (time.monotonic() - begun) / 10 > 0.007


@pytest.mark.parametrize(
    ("cache", "flushed", "unflushed"), [("honest", 7.0, 0.0), ("off", 7.0, 7.0), ("lying", 0.0, 0.0)]
)
def test_what_the_cache_does_is_felt(
    up: Callable[..., disks.About], cache: str, flushed: float, unflushed: float
) -> None:
    """Milliseconds of a write, at least or at most: a disk that ignores flushes has the speed of one that need not."""
    device = up("--model", MODEL, "--cache", cache).device

    def usual_ms(*, flush: bool) -> float:
        write(device, b"A", 0, flushed=flush)
        stamps = [time.monotonic()]
        for _ in range(10):
            write(device, b"A", 0, flushed=flush)
            stamps.append(time.monotonic())
        return median(later - before for before, later in pairwise(stamps)) * 1000

    for least, flush in ((flushed, True), (unflushed, False)):
        took = usual_ms(flush=flush)
        assert took > least if least else took < 7.0, (flush, took)


class Log:
    """A recording that tests share."""

    def __init__(self, place: Path, setup: Setup) -> None:
        self.place, self.recording = place, record(setup, place)

    def explored(self, check: str, **wanted: object) -> Exploration:
        return Exploration(self.place, check, **wanted)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """PostgreSQL as it comes."""
    return Log(tmp_path_factory.mktemp("logs") / "log", Setup(load_s=LOAD_S))


def test_postgres_loses_nothing_on_an_honest_disk_and_commits_on_others(log: Log) -> None:
    assert len(log.recording.promises) > 10
    honest = explore(log.explored("postgres", states=80, torn_bytes=512))
    assert (honest.states, honest.found, honest.not_judged) == (80, 0, 0), honest.first
    assert honest.distinct > 10
    assert honest.cuts == {state.cut for state in honest.drawn}
    at_most = honest.share_at_most
    assert at_most is not None
    assert (1 - at_most) ** len(honest.cuts) == pytest.approx(0.05), "as likely as allowed, and no less"
    torn = explore(log.explored("postgres", states=12, aim="marks", torn_bytes=4096))
    assert (torn.states, torn.found, torn.not_judged) == (12, 0, 0), torn.first
    lying = explore(log.explored("postgres", states=12, cache="lying:50", aim="acknowledgements"))
    assert lying.found > 3
    assert lying.share_at_most is None
    lossy = explore(log.explored("postgres", states=24, cache="lossy:1/3", aim="acknowledgements"))
    assert 0 < lossy.found < 24
    seed, why = lying.first[LOST]
    again = explore(log.explored("postgres", cache="lying:50", aim="acknowledgements", only=(seed,)))
    assert (again.states, again.first[LOST]) == (1, (seed, why))


def test_the_states_of_a_log_and_a_seed_are_always_the_same(log: Log) -> None:
    states = States(str(log.place), log.recording.story, torn_bytes=512)
    assert plan(Plan(states, 300, 7)) == plan(Plan(states, 300, 7))


def test_a_setting_that_gives_up_durability_is_found_out(tmp_path: Path) -> None:
    unsafe = Log(tmp_path / "log", Setup(load_s=2 * LOAD_S, settings={"fsync": "off"}))
    outcome = explore(unsafe.explored("postgres", aim="acknowledgements", states=6))
    assert outcome.found > 0


def test_pages_that_are_torn_in_a_checkpoint_are_found_where_the_log_has_no_images_of_them(tmp_path: Path) -> None:
    """The test of the default has states of a log with the images, and nothing is found in them."""
    unsafe = Log(tmp_path / "log", Setup(load_s=2 * LOAD_S, settings={"full_page_writes": "off"}))
    outcome = explore(unsafe.explored("postgres", aim="marks", torn_bytes=4096, states=12))
    assert outcome.corrupt > 3, outcome.first


@pytest.mark.parametrize(
    ("workload", "unsafe"), [("sqlite", {"synchronous": "OFF"}), ("files", {"fsync": "off"})], ids=["sqlite", "files"]
)
def test_sqlite_and_replaced_files_are_whole_unless_nothing_is_flushed(
    workload: str, unsafe: dict[str, str], tmp_path: Path
) -> None:
    safe = Log(tmp_path / "safe", Setup(workload=workload, load_s=1.0, size_bytes=256 << 20))
    outcome = explore(safe.explored(workload, states=60, torn_bytes=512))
    assert (outcome.states, outcome.found, outcome.not_judged) == (60, 0, 0), outcome.first
    careless = Log(tmp_path / "careless", Setup(workload=workload, load_s=1.0, size_bytes=256 << 20, settings=unsafe))
    outcome = explore(careless.explored(workload, states=10, aim="acknowledgements"))
    assert outcome.found == 10


def test_the_documented_gap_of_sqlites_default_is_found(tmp_path: Path) -> None:
    """With synchronous=FULL the folder is not synced when a commit removes the journal, which may then come back."""
    setup = Setup(workload="sqlite", load_s=1.0, size_bytes=256 << 20, settings={"synchronous": "FULL"})
    outcome = explore(Log(tmp_path / "full", setup).explored("sqlite", states=12, aim="acknowledgements"))
    assert outcome.lost > 0
    assert outcome.corrupt == 0


LOAD = """
import os
for n in range(40):
    f = open("log", "a")
    f.write(f"{n}\\n")
    f.flush()
    {sync}
    print(n, flush=True)
"""
CHECK = "import sys\nsys.exit(len(open('log').readlines()) < int(input()))"


def test_any_command_can_be_the_workload_and_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, sync, code in (("safe", "os.fsync(f.fileno())", 0), ("careless", "pass", 1)):
        place = str(tmp_path / name)
        load = [sys.executable, "-c", LOAD.replace("{sync}", sync)]
        words = ["lab", "crash", "record", "command", "--log", place, "--size", "256MiB"]
        assert main([*words, "--", *load]) == 0, capsys.readouterr().err
        words = ["lab", "crash", "explore", "--log", place, "--states", "8", "--aim", "acknowledgements", "--json"]
        capsys.readouterr()
        assert main([*words, "--", sys.executable, "-c", CHECK]) == code, capsys.readouterr().err
        told = json.loads(capsys.readouterr().out)
        assert told["states"] == 8
        assert told["not_judged"] == 0
    words = ["lab", "crash", "explore", "--log", str(tmp_path / "safe"), "--states", "2", "--json"]
    assert main([*words, "--", "sh", "-c", "exit 127"]) == 1
    assert json.loads(capsys.readouterr().out)["not_judged"] == 2


def test_a_killed_exploration_leaves_nothing(log: Log) -> None:
    words = [sys.executable, "-m", "brickyard", "lab", "crash", "explore", "--log", str(log.place), "--states", "500"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: any("/fuse/disk" in text for text in left_behind("brickyard-lab-")), "nothing was begun")
    finally:
        process.kill()
        process.wait()
    until(lambda: left_behind("brickyard.lab.worker") + left_behind("brickyard-lab-") == [], "something is left")


def test_a_log_gets_a_folder_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("x")
    assert main(["lab", "crash", "record", "files", "--log", str(tmp_path)]) == 2
    assert "name a new folder" in capsys.readouterr().err
    assert [place.name for place in tmp_path.iterdir()] == ["mine"]


def test_a_log_that_is_none_is_refused_in_one_line(
    log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording: Recording = log.recording
    assert recording.version.startswith("PostgreSQL ")
    for place in (tmp_path, tmp_path / "none"):
        assert main(["lab", "crash", "explore", "--log", str(place)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert main(["lab", "crash", "record", "--log", str(log.place)]) == 2
    assert "is not empty" in capsys.readouterr().err


@pytest.fixture
def before_others() -> Iterator[None]:
    """Lets this process, and what it starts, run before the other tests on this host, whose work is not the subject."""
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    yield
    os.sched_setscheduler(0, policy, priority)


@pytest.mark.usefixtures("before_others")
@pytest.mark.parametrize(
    "profile",
    ["sqlio-random-read-1", "sqlio-random-read-4", "sqlio-random-write-4", "sqlio-sequential-read-4", "mixed-70-30",
     "group-commit"],
)  # fmt: skip
def test_a_run_on_a_disk_and_on_its_model_agree(
    up: Callable[..., disks.About], profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same requests in real and in virtual time, within 5 %, or the disk says that the host was too slow."""
    assert main(["lab", "up", "disk", "--model", MODEL]) == 0  # as large as the model, so that arms move as far
    device = disks.named("disk").device

    def rate(target: str) -> float:
        words = ["run", profile, target, "--set", "duration=3s", "--set", "warmup=0s", "--set", "fill=never"]
        words += ["--overwrite", device] if target == device else []
        assert main([*words, "--store", str(tmp_path / "runs.db")]) == 0, capsys.readouterr().err
        capsys.readouterr()
        assert main(["show", "latest", "--store", str(tmp_path / "runs.db"), "--json"]) == 0
        return sum(row["iops"] or 0.0 for row in json.loads(capsys.readouterr().out)["totals"])

    modelled = rate(MODEL)
    measured = rate(device)
    for _ in range(2):  # other tests may have had the host
        if measured < modelled * 0.95:
            measured = rate(device)
    status = disks.ask("disk", "status").status
    assert status is not None
    keeps_up = status.late < (status.reads + status.writes + status.flushes) * 0.02
    assert measured < modelled * 1.05
    # Commits one after the other, 1,570/s by the model, are as fast as the host is.
    assert measured > modelled * (0.95 if profile != "group-commit" else 0.5) or not keeps_up

"""Watch and its counters on written files: units, wraps, steal, throttling, temperature, arrays, long runs."""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import support
from brickyard import facts
from brickyard.analysis.databases import replay_disks, replay_served
from brickyard.analysis.judging.caveats import warnings
from brickyard.analysis.judging.judged import Judged
from brickyard.facts import NoTools, OwnIo, Roots, counters, foreign, watch
from brickyard.schema import DeviceSheet, PhaseStart, RunWatch, TargetSheet, stored, typed
from brickyard.schema.target_sheet import BtrfsSheet, MountSheet
from brickyard.schema.watch_sheet import ProcessUse
from brickyard.store import Store
from brickyard.study.running import circumstances
from brickyard.study.running.runner import Looking
from brickyard.watch.beside import NoWatch

STAT = "100 3 2048 50 200 4 4096 60 1 70 80 5 0 64 9 11 12"


def test_sectors_of_diskstats_are_512_bytes_and_times_are_milliseconds() -> None:
    told = counters.parse_stat(STAT.encode())
    assert told is not None
    assert told["read_bytes"] == 2048 * 512
    assert told["write_bytes"] == 4096 * 512
    assert told["discard_bytes"] == 64 * 512
    assert (told["read_requests"], told["write_requests"], told["flush_requests"]) == (100, 200, 11)
    assert (told["read_ms"], told["write_ms"], told["busy_ms"], told["in_flight"]) == (50, 60, 70, 1)


@pytest.mark.parametrize("words", [11, 15, 17])
def test_older_kernels_have_fewer_fields(words: int) -> None:
    told = counters.parse_stat(" ".join(STAT.split()[:words]).encode())
    assert told is not None
    assert ("discard_bytes" in told, "flush_requests" in told) == (words >= 15, words >= 17)


def test_milliseconds_start_again_and_other_counters_must_not_go_back() -> None:
    before = {"read_requests": 5, "read_ms": 2**32 - 10, "in_flight": 9}
    assert counters.difference(before, {"read_requests": 7, "read_ms": 20, "in_flight": 0}) == {
        "read_requests": 2, "read_ms": 30,
    }  # fmt: skip
    assert counters.difference(before, {"read_requests": 4, "read_ms": 20, "in_flight": 0}) is None


def test_steal_is_neither_busy_nor_idle_and_guest_time_is_not_counted_twice() -> None:
    before = counters.parse_cpus(b"cpu  100 0 50 1000 20 0 5 10 40 0\ncpu0 100 0 50 1000 20 0 5 10 40 0\nintr 5\n")
    after = counters.parse_cpus(b"cpu  130 0 60 1040 30 0 5 20 70 0\ncpu0 130 0 60 1040 30 0 5 20 70 0\nintr 9\n")
    assert set(after) == {"cpu", "cpu0"}
    shares = counters.cpu_shares(before["cpu"], after["cpu"])
    assert shares.busy_share == pytest.approx(0.40)
    assert shares.steal_share == pytest.approx(0.10)
    assert shares.steal_of_demand_share == pytest.approx(0.20)


class Machine:
    """A drive under md, CPUs with throttle counters, as files that a test changes while it is watched."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.device = top / "sys" / "devices" / "virtual" / "block" / "md0"
        self.drive = top / "sys" / "devices" / "pci" / "nvme" / "nvme0" / "nvme0n1"
        for place, number in ((self.device, "9:0"), (self.drive, "259:0")):
            self.put(place / "dev", number)
            self.put(place / "size", "2048")
            self.put(place / "stat", STAT)
            for link in (top / "sys/dev/block" / number, top / "sys/class/block" / place.name):
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(place)
        (self.device / "slaves").mkdir()
        (self.device / "slaves" / "nvme0n1").symlink_to(self.drive)
        (self.drive / "device").symlink_to(self.drive.parent)
        self.put(self.drive.parent / "hwmon3" / "temp1_input", "45000")
        self.put(self.drive.parent / "hwmon3" / "temp1_max", "70000")
        self.put(self.device / "md" / "sync_action", "idle")
        self.put(self.device / "md" / "degraded", "0")
        for core in range(2):
            base = top / "sys/devices/system/cpu" / f"cpu{core}"
            self.put(base / "thermal_throttle" / "core_throttle_count", "3")
            self.put(base / "thermal_throttle" / "package_throttle_count", "7")
            self.put(base / "topology" / "physical_package_id", "0")
        self.cpu(0)
        self.put(top / "proc" / "self" / "io", "rchar: 9\nread_bytes: 0\nwrite_bytes: 0")
        self.put(top / "proc" / "self" / "mountinfo", f"30 20 9:0 / {top} rw - ext4 /dev/md0 rw")
        self.roots = Roots(str(top / "sys"), str(top / "proc"), str(top / "etc"), "/dev", str(top / "run"), NoTools())

    @staticmethod
    def put(path: Path, words: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(words + "\n")

    def cpu(self, ticks: int) -> None:
        line = f"{ticks} 0 0 {1000 + 8 * ticks} 0 0 0 {ticks}"
        self.put(self.top / "proc" / "stat", f"cpu  {line}\ncpu0 {line}\ncpu1 0 0 0 10 0 0 0 0")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_everything_beside_a_run_is_seen(machine: Machine) -> None:
    with facts.Watch(str(machine.top / "scratch"), machine.roots) as seen:
        machine.put(machine.device / "stat", STAT.replace("4096", "12288"))
        machine.cpu(10)
        machine.put(machine.device / "md" / "sync_action", "resync")
        machine.put(machine.device / "md" / "sync_completed", "10 / 100")
        machine.put(machine.top / "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "8")
        machine.put(machine.top / "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "9")
        machine.put(machine.top / "sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count", "9")
        machine.put(machine.drive.parent / "hwmon3" / "temp1_input", "71000")
        seen.sample()
    result: Any = seen.result(OwnIo(write_bytes=0))
    json.dumps(stored(result))
    assert result.devices["9:0"].roles == ["target"]
    assert result.devices["259:0"].roles == ["bottom"]
    assert result.devices["9:0"].delta["write_bytes"] == 8192 * 512
    assert result.devices["259:0"].delta["write_bytes"] == 0
    assert result.cpu.steal_share == pytest.approx(0.1)
    assert result.cpu.worst_steal_share == pytest.approx(0.1)
    # Five of a core and two of the package, which both of its cores show.
    assert result.throttle.cpu_events == 7
    assert result.arrays.end["md0"].under_way == "resync"
    found = {item.id: item.text for item in warnings(Judged(watches=[result]))}
    assert set(found) == {"array_syncing", "steal", "cpu_throttled", "drive_hot"}
    assert "10.0%" in found["array_syncing"]
    assert "71 °C" in found["drive_hot"]
    assert "7 times" in found["cpu_throttled"]


@pytest.mark.parametrize(("ticks", "is_told"), [(1, False), (2, False), (3, True)])
def test_a_tick_that_was_stolen_is_no_warning_and_its_shares_agree(machine: Machine, ticks: int, is_told: bool) -> None:
    with facts.Watch(str(machine.top / "scratch"), machine.roots) as seen:
        machine.put(machine.device / "stat", STAT)
        # As the kernel rounds: the line of all CPUs lacks the last tick of one.
        lines = (f"cpu  0 0 0 1200 0 0 0 {ticks - 1}", f"cpu0 0 0 0 1100 0 0 0 {ticks}", "cpu1 0 0 0 110 0 0 0 0")
        machine.put(machine.top / "proc" / "stat", "\n".join(lines))
        seen.sample()
    result: Any = seen.result(OwnIo(write_bytes=0))
    worst = ticks / (100 + ticks)
    assert result.cpu.worst_steal_share == pytest.approx(worst)
    assert worst / 2 <= result.cpu.steal_share <= worst
    found = {item.id for item in warnings(Judged(watches=[result]))}
    assert ("steal" in found) is (is_told and worst > 0.01)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("rm scratch", "was removed"),
        ("truncate -s 1K scratch", "was cut from 4.0 KiB to 1.0 KiB"),
        ("cp scratch other; mv other scratch", "was replaced by another"),
        ("rm twin", "lost one of its 2 hard links"),
        ("echo more >> scratch", ""),
    ],
)
def test_a_target_that_is_another_at_the_end_is_told(machine: Machine, change: str, said: str) -> None:
    place = machine.top / "scratch"
    place.write_bytes(b"x" * 4096)
    (machine.top / "twin").hardlink_to(place)
    with facts.Watch(str(place), machine.roots) as seen:
        subprocess.run(change, shell=True, check=True, cwd=machine.top)
    run = Judged(watches=[seen.result()], targets=[TargetSheet(path=str(place))])
    found = [item.text for item in warnings(run) if item.id == "target_changed"]
    assert [str(place) in text and said in text for text in found] == ([True] if said else [])


def test_a_long_watch_keeps_a_bounded_series_that_loses_no_count(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SAMPLES_MAX", 16)
    with facts.Watch(str(machine.top / "scratch"), machine.roots) as seen:
        for count in range(1, 201):
            machine.put(machine.device / "stat", STAT.replace("200", str(200 + count), 1))
            seen.sample()
    result: Any = seen.result()
    series = result.devices["9:0"].series
    assert 8 <= len(series["at_ns"]) <= 18
    assert series["write_requests"][0] == 0
    assert series["write_requests"][-1] == 200
    # Evenly thinned out: the start, every 16th of the rest, and the end.
    assert [later - earlier for earlier, later in pairwise(series["write_requests"])][1:-1] == [16] * 11
    assert series["at_ns"] == sorted(series["at_ns"])


@pytest.mark.parametrize(("end_ns", "is_cut"), [(1, True), (3600 * support.SECOND, False)])
def test_what_others_do_after_the_last_phase_is_not_counted(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end_ns: int, is_cut: bool
) -> None:
    """Drivers of a replay read the rest of their log for seconds after its end, and others go on meanwhile."""
    roots = machine.roots
    monkeypatch.setattr(facts, "Watch", lambda target: watch.Watch(target, roots))
    seen = circumstances.Watching([str(machine.top / "scratch")], NoWatch("a test"), planned_ns=0)
    looking = Looking(seen, None, lambda _: None)
    looking.event(typed(support.start_event(start_unix_ns=1)))
    looking.event(PhaseStart(phase=0, name="replay", start_ns=0))
    machine.put(machine.device / "stat", STAT.replace("100", "110").replace("2048", "2128"))
    looking.look()
    machine.put(machine.device / "stat", STAT.replace("100", "110000").replace("2048", "204800000"))
    looking.stop()
    cell = support.cell([1_000_000] * 100, operation="call")
    end = support.phase_end(end_ns=end_ns)
    plan = {**support.plan(), "kind": "replay", "replay": {"pace": {"kind": "fire_hose"}}}
    with Store(tmp_path / "s.db") as store:
        record = store.record(support.add_run(store, [support.interval(0, 1, cell), end], plan_=plan, outcome=None))
        found = seen.results(record)
        warned = {item.id for item in warnings(Judged(watches=found))}
        found[0].foreign = None  # all reads count as the server's
        run = support.add_run(store, [support.interval(0, 1, cell), end], plan_=plan, watch=RunWatch(targets=[*found]))
        kept = store.record(run)
    (sheet,) = found
    series = (sheet.devices or {})["9:0"].series
    total = replay_disks.disk_total(kept)
    assert total is not None
    # The table of the disks, the reads for each call and the warning of others have one window.
    reads = 10 if is_cut else 109_900
    assert total.reads_per_s * sheet.duration_ns / 1e9 == pytest.approx(reads)
    assert replay_served.served([kept]).reads_per_call == pytest.approx(reads / 100)
    assert series["read_requests"][-1] == reads
    assert series["at_ns"][-1] == sheet.duration_ns
    assert sheet.process is not None
    assert ("foreign_io" in warned) is not is_cut


def test_sampling_outside_the_watch_does_nothing(machine: Machine) -> None:
    seen = facts.Watch(str(machine.top), machine.roots)
    seen.sample()
    seen.stop()
    assert seen.samples == []
    with seen:
        pass
    count = len(seen.samples)
    seen.sample()
    seen.stop()
    assert len(seen.samples) == count


def compare(file_system: str, ours: int, counted: int, process: int = 0, *data_profiles: str) -> Any:
    mount = MountSheet(file_system=file_system)
    if data_profiles:
        mount.btrfs = BtrfsSheet(profiles={"data": list(data_profiles)})
    target = TargetSheet(stack=[DeviceSheet(name="sda", major_minor="8:0")], mount=mount)
    delta = {"8:0": {"read_bytes": 0, "write_bytes": counted, "read_requests": 0, "write_requests": 1}}
    use = ProcessUse(user_ns=0, system_ns=0, write_bytes=process)
    return foreign.compare(target, delta, OwnIo(write_bytes=ours), use, duration_ns=10**9, unknown={}).write


def test_tolerance_excuses_a_journal_and_no_more() -> None:
    ours = 1 << 30
    slack = foreign.tolerance_bytes(ours, 10**9)
    assert slack == ours // 100 + (4 << 20) + (64 << 10)
    assert compare("ext4", ours, ours + slack).seen is False
    assert compare("ext4", ours, ours + slack + 1).seen is True


def test_a_mirror_has_the_tolerance_of_all_its_copies() -> None:
    ours = 1 << 30
    slack = foreign.tolerance_bytes(2 * ours, 10**9)
    assert compare("btrfs", ours, 2 * ours + slack, 0, "raid1").seen is False
    assert compare("btrfs", ours, 2 * ours + slack + 1, 0, "raid1").seen is True


def test_own_store_on_the_same_device_is_no_neighbour() -> None:
    told = compare("ext4", 1 << 20, 101 << 20, process=101 << 20)
    assert (told.foreign_bytes, told.own_beside_bytes) == (0, 100 << 20)


def test_cached_writes_that_never_came_down_are_no_negative_foreigners() -> None:
    told = compare("ext4", 1 << 30, 1 << 20)
    assert (told.foreign_bytes, told.unseen_bytes, told.seen) == (0, (1 << 30) - (1 << 20), False)


def test_file_systems_that_write_a_byte_unknown_times_accuse_nobody() -> None:
    assert compare("zfs", 1, 1 << 40).seen is None
    assert compare("btrfs", 1, 1 << 40, 0, "raid1", "single").seen is None
    assert compare("btrfs", 1 << 30, 2 << 30, 0, "raid1").foreign_bytes == 0

"""Many hosts as one run: clocks, merged intervals, lost hosts, and what is said of each host."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from brickyard import _core, facts
from brickyard.analysis.figures.hosts import host_rows, host_words
from brickyard.analysis.figures.totals import totals
from brickyard.analysis.judging import answers
from brickyard.analysis.judging.cached import taken_by
from brickyard.analysis.judging.summary import circumstance_lines
from brickyard.cli import main
from brickyard.fleet import agent
from brickyard.fleet.clocks import offset_of, start_bound
from brickyard.fleet.eyes import eyes
from brickyard.fleet.merging import Merger, merged_end
from brickyard.fleet.shares import divide
from brickyard.report.tables import slowest_table
from brickyard.schema import (
    AllWritten,
    CellEvent,
    DepthReached,
    DeviceSheet,
    Event,
    HostKnown,
    HostSheet,
    HostWatched,
    Identity,
    Interval,
    LoadShare,
    PhaseEnd,
    PhaseStart,
    Start,
    TargetFacts,
    TargetKind,
    TargetSheet,
    typed,
)
from brickyard.schema.host_sheet import MemorySheet
from brickyard.schema.target_sheet import QueueSheet
from brickyard.store import Store
from brickyard.study.running import circumstances
from fleet_parts import HOSTS, load, of_host, told_to_all, two_hosts
from support import MS, SECOND, US, add_run, cell, histogram, interval, phase_end, plan, start_event, stream


def test_the_bound_of_a_clock_holds_whatever_the_way_back_takes() -> None:
    """A clock that is 5 ms ahead, over ways of random and unequal length."""
    draw = random.Random(3)
    for _ in range(200):
        trips = []
        for number in range(30):
            sent = number * MS
            reading = sent + draw.randrange(50 * US, 900 * US)
            trips.append((sent, reading + 5 * MS, reading + draw.randrange(20 * US, 900 * US)))
        found = offset_of(trips)
        assert abs(found.offset_ns - 5 * MS) <= found.bound_ns
        assert found.bound_ns < MS


def test_a_clock_that_is_set_meanwhile_is_known_to_nobody() -> None:
    trips = [(0, 50 * US, 100 * US), (MS, 9 * MS, MS + 100 * US)]
    assert offset_of(trips).bound_ns > SECOND
    assert start_bound([offset_of(trips[:1])] * 3) == 2 * offset_of(trips[:1]).bound_ns
    assert start_bound([offset_of(trips[:1])]) == 0, "one host begins with itself"


def cells(event: Event) -> list[CellEvent]:
    assert isinstance(event, Interval)
    return event.cells


def test_histograms_of_hosts_are_merged_and_a_late_host_is_waited_for() -> None:
    division = divide("x", load(), HOSTS, ["/f"], LoadShare.COPIES)
    merger = Merger(division.parts)
    for host in HOSTS:
        merger.hear(host, PhaseStart(phase=0, name="m", start_ns=0), 0.0)
    merger.hear("a", of_host([10 * US] * 99, 0), 1.0)
    merger.hear("b", of_host([20 * US] * 99, 0), 1.0)
    assert merger.whole(1.1) == [], "c is still to tell its interval"
    merger.hear("c", of_host([9 * MS] * 2, 0), 1.2)
    (told,) = merger.whole(1.2)
    assert [item.stream for item in cells(told)] == [0, 1, 2]
    responses = [item.measures.response for item in cells(told)]
    merged = _core.Histogram.merged([response.histogram for response in responses if response])
    everything = _core.Histogram.merged([histogram([10 * US] * 99 + [20 * US] * 99 + [9 * MS] * 2)])
    assert merged is not None
    assert merged == everything


def test_a_host_that_is_gone_holds_nobody_up() -> None:
    merger = Merger(divide("x", load(), HOSTS, ["/f"], LoadShare.COPIES).parts)
    for host in HOSTS:
        merger.hear(host, PhaseStart(phase=0, name="m", start_ns=0), 0.0)
    merger.gone("c")
    merger.hear("a", of_host([MS], 0), 1.0)
    merger.hear("b", of_host([MS], 0), 1.0)
    assert len(merger.whole(1.0)) == 1
    merger.back("c")
    merger.hear("c", of_host([MS], 0), 9.0)
    (late,) = merger.whole(9.0)
    assert [item.stream for item in cells(late)] == [2], "what it did meanwhile is an event of its own"


def test_a_lost_host_has_the_rate_that_it_had_and_is_not_among_all_hosts(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        record = store.record(two_hosts(store))
    rows = {row.host: row for row in host_rows(record)}
    assert [rows[name].iops for name in ("a", "b", "")] == pytest.approx([100, 100, 100])
    assert (rows["b"].state, rows[""].state, rows[""].requests) == ("lost", "without b", 1200)
    assert host_words(record)[0] == "Lost, and not included in the figures of all hosts: b."


def test_the_slowest_requests_have_the_host_that_issued_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slowest = [
        {
            "at_ns": SECOND, "stream": stream, "worker": 0, "operation": "read", "offset_bytes": 0,
            "request_bytes": 4096, "service_ns": (stream + 1) * MS, "response_ns": (stream + 1) * MS,
        }
        for stream in (0, 1)
    ]  # fmt: skip
    with Store(tmp_path / "runs.db") as store:
        number = two_hosts(store, typed(phase_end(end_ns=12 * SECOND, slowest=slowest)))
        table = slowest_table([store.record(number)])
    assert table.columns[:2] == ["run", "host"]
    assert [row[1] for row in table.rows] == ["b", "a"]
    assert main(["show", str(number), "--store", str(tmp_path / "runs.db")]) == 0
    above, _, below = capsys.readouterr().out.partition("Slowest requests")
    assert "were slow" not in above, "what the causes are is not known"
    shown = below.splitlines()
    assert shown[1].split()[:2] == ["host", "at"]
    assert [line.split()[0] for line in shown[2:4]] == ["b", "a"]
    assert main(["show", str(number), "--json", "--store", str(tmp_path / "runs.db")]) == 0
    assert [one["host"] for one in json.loads(capsys.readouterr().out)["slowest"]] == ["b", "a"]


def test_a_run_on_hosts_is_not_said_to_have_circumstances_that_nobody_recorded(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        record = store.record(two_hosts(store))
        warned = {warning.id for warning in circumstances.warnings(store, record, [])}
    assert "fleet_circumstances" in warned
    lines = dict(circumstance_lines(record))
    assert "Hosts a, b" in lines
    assert "Host" not in lines
    assert "Kernel" not in lines, "of the host that started the others"
    assert "whether storage or generator was the limit is not known" in answers.belief([record])


def used_s(pid: int) -> float:
    """Of a processor, by a process of ours."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(words[11]) / os.sysconf("SC_CLK_TCK")


def test_a_host_without_anything_of_ours_is_looked_at_as_this_one_is(tmp_path: Path) -> None:
    """What is sent needs a Python and no package beside it."""
    target = tmp_path / "f"
    target.write_bytes(b"1" * 8192)
    hand, found = agent.Agent("a"), eyes()
    try:
        said = hand.look(found.archive, found.native, [str(target)])
        hand._worker = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        hand.watch()
        while used_s(hand._worker.pid) < 1.0:
            time.sleep(0.1)
        target.unlink()
        hand._worker.kill()
        hand._code = hand._worker.wait()
        watched = msgspec.json.decode(hand.watched(), type=HostWatched)
    finally:
        hand._worker = None
        hand.end()
    known = msgspec.json.decode(said, type=HostKnown)
    here = facts.collect(str(target))
    assert known.sheet is not None
    assert (known.sheet.kernel, known.sheet.name) == (here.host.kernel, here.host.name)
    assert (known.targets[0].kind, known.targets[0].size_bytes) == ("file", 8192)
    assert known.targets[0].leaf_devices == here.target.leaf_devices
    (sheet,) = watched.targets
    assert sheet.identity is not None
    assert sheet.identity.end == Identity(exists=False)
    assert sheet.process is not None
    assert sheet.process.user_ns > 0, "of the worker, which is gone"
    with pytest.raises(RuntimeError, match="no answer"):
        hand.watched()


def opened(path: str, io: str = "buffered") -> Start:
    target = TargetFacts(path=path, kind=TargetKind.FILE, size_bytes=8 << 20, unwritten=AllWritten())
    start = typed(start_event(io=io))
    assert isinstance(start, Start)
    return msgspec.structs.replace(start, targets=[target])


def seen_on(host: str, target: int, path: str, *, cached: bool = True, why: str = "") -> circumstances.HostSeen:
    drive = DeviceSheet(name="sda", major_minor="8:0", type="disk", queue=QueueSheet(write_cache="write back"))
    sheet = TargetSheet(path=path, kind="file", stack=[drive] if cached else [], cache_bytes=1)
    memory = HostSheet(memory=MemorySheet(total_bytes=(1 << 30) * (target + 1)))
    known = HostKnown(host=host, why=why) if why else HostKnown(host=host, sheet=memory, targets=[sheet])
    return circumstances.HostSeen(host, [target], opened(path), known, HostWatched(host=host, why=why))


def test_every_warning_of_a_target_names_its_hosts_in_one_line(tmp_path: Path) -> None:
    """As a run on each host alone has it; what could not be looked at is said with its cause."""
    with Store(tmp_path / "runs.db") as store:
        record = store.record(two_hosts(store))
        seen = [seen_on("a", 0, "/f"), seen_on("b", 1, "/g"), seen_on("c", 1, "/g", why="no Python there")]
        found = circumstances.warnings(store, record, [], seen, ["b: keeps no copy of its record: no room"])
    told: dict[str, list[str]] = {}
    for warning in found:
        told.setdefault(warning.id, []).append(warning.text)
    (cache,) = told["volatile_write_cache"]
    assert cache.startswith("a, b: The write cache of sda is volatile and on")
    (memory,) = told["smaller_than_memory"]
    assert memory.startswith("a, b (figures of b, the worst): /g has 8.0 MiB and the host 2.0 GiB of memory")
    assert told["fleet_circumstances"] == ["Other load on c during the run was not recorded: no Python there."]
    assert told["fleet_note"] == ["b: keeps no copy of its record: no room."]
    with Store(tmp_path / "runs.db") as store:
        seen = [seen_on("a", 0, "/f"), seen_on("b", 1, "/f", cached=False)]
        found = circumstances.warnings(store, record, [], seen)
    texts = [warning.text for warning in found if warning.id == "volatile_write_cache"]
    assert [text.partition(":")[0] for text in texts] == ["a"]


def test_the_depth_that_hosts_reached_is_that_of_all_of_them() -> None:
    """Where requests end as they are submitted, a hundred hosts are warned as one is."""
    ends = [typed(phase_end(depth={"in_flight": 32.0, "at_once": at_once})) for at_once in (1.0, 2.0)]
    merged = merged_end([end for end in ends if isinstance(end, PhaseEnd)])
    assert merged.depth == DepthReached(in_flight=64.0, at_once=3.0)


def test_a_row_without_requests_has_all_its_fields_and_the_slowest_host_comes_first(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        rows = host_rows(store.record(two_hosts(store)))
    assert [row.host for row in rows] == ["a", "b", ""], "what was lost comes last"
    empty = replace(rows[0], response=None).document()
    assert set(empty) == set(rows[0].document())
    assert empty["p50_ns"] is None


def test_writes_to_a_loop_device_of_one_host_are_those_of_its_memory(tmp_path: Path) -> None:
    """The sheets of targets are those of hosts, each with its own targets."""
    below = {"name": "loop0", "type": "loop", "loop": {"direct_io": False, "backing_file": "/image"}}
    hosts = [{"host": "a", "targets": [{"path": "/f"}]}, {"host": "b", "targets": [{"path": "/f", "stack": [below]}]}]
    writes = {"read": 0, "write": 100}
    asked = plan(*(stream(name=name, target=at, operations=writes) for at, name in enumerate("ab")))
    done = interval(0, SECOND, *(cell([MS] * 100, stream=at, operation="write") for at in range(2)))
    with Store(tmp_path / "runs.db") as store:
        events = [told_to_all(), done, phase_end()]
        record = store.record(add_run(store, events, plan_=asked, targets=["a:/f", "b:/f"], facts={"hosts": hosts}))
    assert [taken_by(record, row) for row in totals(record)] == ["", "the page cache behind loop0"]

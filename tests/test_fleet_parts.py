"""What a run on many hosts is made of, without Ray: shares, clocks, merging, records that hosts kept, censuses."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from scipy import stats

from brickyard import _core, facts, profiles
from brickyard.analysis import answers
from brickyard.analysis.census import Peer, census, least_score
from brickyard.analysis.hosts import host_rows, host_words
from brickyard.analysis.summary import circumstance_lines
from brickyard.cli import main
from brickyard.cli.census import words
from brickyard.errors import BadInputError, BrickyardError
from brickyard.fleet import agent, cluster, collect, nodes
from brickyard.fleet import up as starting
from brickyard.fleet.clocks import offset_of, start_bound
from brickyard.fleet.cluster import Node
from brickyard.fleet.drive import rounds
from brickyard.fleet.eyes import eyes
from brickyard.fleet.hosts import HostEntry, read_hosts, refuse_near
from brickyard.fleet.merging import Merger, merged_start
from brickyard.fleet.sending import traces_of, with_traces_at
from brickyard.fleet.shares import Division, divide, shared_places
from brickyard.report.tables import slowest_table
from brickyard.schema import (
    CellEvent,
    DeviceSheet,
    Event,
    HostEnd,
    HostKnown,
    HostLost,
    HostSheet,
    HostWatched,
    Identity,
    Interval,
    PhaseStart,
    ProcessMark,
    RunFacts,
    RunOutcome,
    Start,
    TargetFacts,
    TargetSheet,
    encode,
    plan_document,
    typed,
)
from brickyard.schema.host_sheet import MemorySheet
from brickyard.schema.plan import Plan
from brickyard.schema.target_sheet import QueueSheet
from brickyard.store import Json, Store
from brickyard.store.process import own_process
from brickyard.study import circumstances
from support import MS, SECOND, US, cell, histogram, interval, phase_end, start_event

HOSTS = ["a", "b", "c"]


def load(*changes: str, pace: str = "") -> Plan:
    text = f"""
title = "fleet"
[[phase]]
duration = "1s"
[[phase.stream]]
request = "4KiB"
address = "random"
{pace}
"""
    return profiles.validate(profiles.ProfileText("fleet", text, "fleet"), list(changes))


def phases_of(division: Division, host: str) -> list[Json]:
    (plan,) = [plan for part, plan in zip(division.parts, division.plans, strict=True) if part.host == host]
    found: list[Json] = plan_document(plan)["phase"]
    return found


def test_copies_split_and_partition_are_arithmetic() -> None:
    asked = load("workers=7", pace='pace = { loop = "open", rate = 1000 }')
    copies = divide("x", asked, HOSTS, ["/data/f"], "copies")
    split = divide("x", asked, HOSTS, ["/data/f"], "split")
    partition = divide("x", asked, HOSTS, ["/data/f"], "partition")
    rates = [phases_of(split, host)[0]["stream"][0]["pace"]["rate"] for host in HOSTS]
    assert sum(rates) == pytest.approx(1000, rel=1e-9)
    assert [phases_of(copies, host)[0]["stream"][0]["pace"]["rate"] for host in HOSTS] == [1000.0] * 3
    regions = [phases_of(partition, host)[0]["stream"][0]["region"] for host in HOSTS]
    assert regions == ["0%..33.3333333%", "33.3333333%..66.6666667%", "66.6666667%..100%"]
    assert len({plan.seed for plan in copies.plans}) == 3, "hosts ask for different addresses"


def test_a_closed_loop_is_split_by_its_workers() -> None:
    split = divide("x", load("workers=7"), HOSTS, ["/data/f"], "split")
    assert [phases_of(split, host)[0]["stream"][0]["workers"] for host in HOSTS] == [3, 2, 2]
    with pytest.raises(BadInputError, match="cannot be divided over 3 hosts; raise workers or depth"):
        divide("x", load("workers=1", "depth=2"), HOSTS, ["/data/f"], "split")


def ramped(ramp: str, *changes: str, pace: str = "") -> Plan:
    whole = load(*changes, pace=pace)
    text = f'title = "r"\n[[phase]]\nduration = "9s"\nramp = {{ {ramp}, every = "3s" }}\n[[phase.stream]]\n{pace}\n'
    text += f'request = "4KiB"\naddress = "random"\nworkers = {whole.phase[0].stream[0].workers}\n'
    return profiles.validate(profiles.ProfileText("ramped", text, "ramped"), [])


def test_a_ramp_of_the_rate_is_divided_like_the_rate() -> None:
    pace = 'pace = { loop = "open", rate = 90 }'
    for rule, step in (("step = 90", 30.0), ("factor = 2", None)):
        asked = ramped(f'knob = "rate", from = 90, to = 270, {rule}', pace=pace)
        for share in ("split", "partition"):
            found = divide("x", asked, HOSTS, ["/data/f"], share)
            for plan in (*found.plans, found.plan):
                ramp = plan.phase[0].ramp
                assert ramp is not None
                assert (ramp.from_, ramp.to, ramp.step) == (30.0, 90.0, step)
        assert divide("x", asked, HOSTS, ["/data/f"], "copies").plans[0].phase[0].ramp == asked.phase[0].ramp
    load_of = ramped('knob = "load", from = 10, to = 100, step = 10', pace=pace)
    assert divide("x", load_of, HOSTS, ["/f"], "split").plans[0].phase[0].ramp == load_of.phase[0].ramp


def test_ramps_that_hosts_cannot_divide_are_refused() -> None:
    workers = ramped('knob = "workers", from = 1, to = 7, step = 3', "workers=7")
    depth = 'knob = "depth", from = 1, to = 7, step = 3'
    for asked in (workers, ramped(depth, "workers=2")):
        with pytest.raises(BadInputError, match="cannot be divided over 3 hosts; ramp the rate"):
            divide("x", asked, HOSTS, ["/data/f"], "split")
    each = divide("x", ramped(depth, "workers=6"), HOSTS, ["/data/f"], "split").plans[0].phase[0]
    assert each.ramp is not None
    assert (each.stream[0].workers, each.ramp.to) == (2, 7), "the depth is that of each worker"


def test_streams_for_named_hosts_and_targets_of_their_own() -> None:
    two = profiles.validate(profiles.read("overland-oltp-two-hosts"), ["workers=8"])
    found = divide("oltp", two, ["a", "b"], ["a:/dev/sdb", "b:/dev/sdc"], "copies", ["a:/dev/sdb", "b:/dev/sdc"])
    assert found.targets == ["a:/dev/sdb", "b:/dev/sdc"]
    assert [part.targets for part in found.parts] == [["/dev/sdb"], ["/dev/sdc"]]
    assert [part.overwrite for part in found.parts] == [["/dev/sdb"], ["/dev/sdc"]]
    (first,), (second,) = (phases_of(found, host)[0]["stream"] for host in ("a", "b"))
    assert (first["workers"], second["workers"]) == (8, 8)
    assert (first["region"], second["region"]) == ("0B..50%", "50%..100%"), "neither overwrites what the other verifies"


@pytest.mark.parametrize(
    ("changes", "targets", "overwrite", "words"),
    [
        ([], ["/f", "/g"], [], "the workload has 1 targets on each host"),
        ([], ["a:/f", "b:f", "c:/f"], [], "b:f: with --hosts write the whole path"),
        (["requests=5"], ["/f"], [], "requests would end or pace each host apart"),
        ([], ["/dev/sdb"], ["/dev/sdb"], "with --hosts name host and device"),
        ([], ["/dev/sdb"], ["d:/dev/sdb"], "with --hosts name host and device"),
    ],
)
def test_what_has_no_answer_is_refused(
    changes: list[str], targets: list[str], overwrite: list[str], words: str
) -> None:
    with pytest.raises(BadInputError, match=words):
        divide("x", load(*changes), HOSTS, targets, "copies", overwrite)


@pytest.mark.parametrize("name", ["sqliosim", "jetstress", "postmark", "bonnie"])
def test_programs_are_refused_as_such(name: str) -> None:
    plan = profiles.validate(profiles.read(name), [])
    with pytest.raises(BadInputError, match="programs over files and servers run on one host; leave --hosts out"):
        divide(name, plan, HOSTS, ["/data/f"], "copies")


def traced(place: Path) -> Plan:
    text = f"""
title = "again"
[[phase]]
[[phase.stream]]
name = "trace"
trace = {{ file = "{place}", reads = 3, writes = 0, flushes = 0, discards = 0, largest = "4KiB", reach = "1MiB" }}
"""
    return profiles.validate(profiles.ProfileText("again", text, "again"), [])


def test_a_trace_is_issued_whole_by_each_host_and_never_divided(tmp_path: Path) -> None:
    asked = traced(tmp_path / "load.byt")
    found = divide("again", asked, HOSTS, ["/data/f"], "copies")
    assert traces_of(found.plan) == [f"{tmp_path}/load.byt"]
    moved = with_traces_at(found.plans[1], {f"{tmp_path}/load.byt": "/proc/self/fd/9"})
    assert traces_of(moved) == ["/proc/self/fd/9"]
    assert traces_of(found.plans[1]) == [f"{tmp_path}/load.byt"], "the plan of the record keeps the name"
    for share in ("split", "partition"):
        with pytest.raises(BadInputError, match="a trace is not divided; with --share copies each host issues all"):
            divide("again", asked, HOSTS, ["/data/f"], share)


def test_addresses_that_only_one_host_reaches_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    place = tmp_path / "hosts.toml"
    hosts = '[[host]]\nname = "a"\naddress = "10.0.0.2"\n[[host]]\nname = "b"\naddress = "10.0.0.3"\n'
    for head, said in (("127.0.0.1", "127.0.0.1 is"), ("localhost", "here, is"), ("0.0.0.0", "0.0.0.0 is")):
        place.write_text(f'[head]\naddress = "{head}"\n{hosts}')
        assert main(["fleet", "up", "--hosts", str(place)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"[head]: {head}" in line
        assert said in line
        assert "name the address by which the others reach it (a, b)" in line
    place.write_text(f'[head]\naddress = "10.0.0.1"\n{hosts.replace("10.0.0.3", "127.0.0.1")}')
    with pytest.raises(BadInputError, match=r"b: 127\.0\.0\.1 is reached from its own host alone"):
        refuse_near(read_hosts(place))


def test_a_host_that_does_not_reach_the_head_says_so_and_starts_nothing(tmp_path: Path) -> None:
    """Nobody listens at the address that the host is told."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    host = HostEntry("a", "127.0.0.1", reach=["env"], python=sys.executable)
    planned = Node("a", "127.0.0.1", ["env", "sh", "-s"], f"/tmp/brickyard-fleet-{os.urandom(8).hex()}")
    with pytest.raises(BrickyardError, match=f"a: does not reach the head at {address}: .*refused"):
        nodes.start_host(host, planned, address, nodes.Secret("0" * 64, ""))
    assert not Path(planned.folder).exists()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("naa.600508b1001c", "mpath-3600508b1001c"),
        ("eui.0025385b71b0", "mpath-eui.0025385b71b0"),
        ("mpath-3600508b1001c", "naa.600508b1001c"),
    ],
)
def test_a_disk_has_one_name_by_whichever_path(one: str, other: str) -> None:
    assert agent._wide_name(one) == agent._wide_name(other)
    assert agent._wide_name("part1-mpath-3600508b1001c") == "3600508b1001c 1"


def test_machines_that_are_copies_of_one_another_share_no_disk(tmp_path: Path) -> None:
    """Their volumes have one number, and so have the disks of QEMU; what tells them apart is the boot."""
    volume, disk = tmp_path / "dm-0", tmp_path / "sda"
    for place in (volume / "dm", volume / "slaves", disk / "device"):
        place.mkdir(parents=True)
    (volume / "dm" / "uuid").write_text("LVM-abc")
    (volume / "slaves" / "sda").symlink_to(disk)
    (disk / "dev").write_text("8:0\n")
    (disk / "device" / "wwid").write_text("t10.QEMU    QEMU HARDDISK   drive-scsi0\n")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert agent._block_name(str(volume), 0) == f"{boot} 8:0 LVM-abc"
    (disk / "device" / "wwid").write_text("naa.600508b1001c\n")
    assert agent._block_name(str(volume), 0) == "3600508b1001c LVM-abc", "on a disk that two hosts see it is the same"


def test_a_disk_and_what_is_within_it_are_known_as_shared() -> None:
    """A whole disk on one host, and its partition, a file on that, or a volume over it on another."""

    def shared(one: str, other: str) -> list[str]:
        return [words for _, _, words in shared_places([("a", ["/x"], [one]), ("b", ["/y"], [other])])]

    disk = "3600a0b80001"
    assert shared(disk, disk) == ["a:/x and b:/y are one and the same"]
    assert shared(disk, f"{disk} 1") == ["b:/y is a part of a:/x"]
    assert shared(f"{disk} 1", disk) == ["a:/x is a part of b:/y"]
    assert shared(f"{disk} 1", f"{disk} 1 4711") == ["b:/y is a part of a:/x"]
    assert shared(disk, f"3500 {disk} LVM-abc") == ["b:/y is a part of a:/x"]
    for other in (f"{disk} 2", f"{disk} 12", f"{disk}2 1", ""):
        assert shared(f"{disk} 1", other) == []
    assert shared("", "") == []
    assert agent._wide_name("t10.ATA     Disk 1") != agent._wide_name("t10.ATA     Disk 2")
    assert " " not in agent._wide_name("t10.ATA     Disk 1"), "a space parts a disk from its partition"


def test_a_file_that_is_yet_to_be_made_is_known_by_its_name(tmp_path: Path) -> None:
    """By whatever path: hosts that would each make it are found before they do."""
    (tmp_path / "way").symlink_to(tmp_path)
    assert agent._identity(f"{tmp_path}/f") == agent._identity(f"{tmp_path}/way/f") != ""
    assert agent._identity(f"{tmp_path}/f") != agent._identity(f"{tmp_path}/g")
    assert agent._identity(f"{tmp_path}/none/f") == ""


def test_a_record_that_the_head_has_goes_even_where_its_worker_ended_long_ago(tmp_path: Path) -> None:
    ended = agent.Agent("a")
    ended._code = 0
    for text, stays in (('{"brickyard_record": 1, "run": "x"}\n', False), ("somebody's own\n", True)):
        record = tmp_path / "x-1" / "a.jsonl"
        record.parent.mkdir(exist_ok=True)
        record.write_text(text)
        ended._record = str(record)
        ended.forget()
        assert (record.exists(), record.parent.exists()) == (stays, stays)


def test_the_manifest_claims_a_volume_for_each_pod(capsys: pytest.CaptureFixture[str]) -> None:
    yaml = pytest.importorskip("yaml")
    words = ["fleet", "up", "--kubernetes", "10.0.0.1:6399", "--count", "5"]
    assert main([*words, "--volume", "100Gi", "--storage-class", "gp3"]) == 0
    spec = yaml.safe_load(capsys.readouterr().out)["spec"]
    assert (spec["completions"], spec["parallelism"]) == (5, 5)
    assert spec["backoffLimitPerIndex"] > 0, "a pod that fails takes no other with it"
    pod = spec["template"]["spec"]
    (volume,) = [volume for volume in pod["volumes"] if "ephemeral" in volume]
    claim = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert (claim["resources"]["requests"]["storage"], claim["storageClassName"]) == ("100Gi", "gp3")
    (host,) = pod["containers"]
    assert {"name": volume["name"], "mountPath": "/brick"} in host["volumeMounts"]
    assert host["image"].endswith(f"-py{sys.version_info.major}{sys.version_info.minor}"), "as the head's Python"
    assert main(words) == 0
    plain = yaml.safe_load(capsys.readouterr().out)["spec"]["template"]["spec"]
    assert not any("ephemeral" in volume for volume in plain["volumes"])
    assert main([*words, "--volume", "100Gi\n      hostPID: true"]) == 2
    assert "is no size as Kubernetes writes it" in capsys.readouterr().err


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


def of_host(values: list[int], index: int) -> Event:
    start = index * SECOND
    return typed(interval(start, start + SECOND, cell(values), index=index))


def cells(event: Event) -> list[CellEvent]:
    assert isinstance(event, Interval)
    return event.cells


def test_histograms_of_hosts_are_merged_and_a_late_host_is_waited_for() -> None:
    division = divide("x", load(), HOSTS, ["/f"], "copies")
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
    merger = Merger(divide("x", load(), HOSTS, ["/f"], "copies").parts)
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "missing required field `head`"),
        ('[head]\naddress="h"\n', "missing required field `host`"),
        ('[head]\naddress="h"\n[[host]]\nname="all"\naddress="x"\n', "'all' is no name for a host"),
        ('[head]\naddress="h"\nport=70000\n[[host]]\nname="a"\naddress="x"\n', "port 70000 is not between 1 and 65535"),
        ('[head]\naddress=""\n[[host]]\nname="a"\naddress="x"\n', "'' is no address"),
        ('[head]\naddress="h"\n[[host]]\nname="a"\naddress="x; reboot"\n', "a: 'x; reboot' is no address"),
        (
            '[head]\naddress="h"\n[[host]]\nname="a"\naddress="x"\n[[host]]\nname="b"\naddress="x"\n',
            "a and b have one address, x",
        ),
        ('[head]\naddress="h"\n[[host]]\nname="a;b"\naddress="x"\n', "'a;b' is no name for a host"),
        ('[head]\naddress="h"\n[[host]]\nname="a"\naddress="x"\n' * 1 + '[[host]]\nname="a"\naddress="y"\n', "once"),
    ],
)
def test_a_file_of_hosts_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    place = tmp_path / "hosts.toml"
    place.write_text(text)
    with pytest.raises(BadInputError, match=words):
        read_hosts(place)


@pytest.mark.parametrize("words", [("--share", "split"), ("--lost", "end"), ("--clock-tolerance", "2ms")])
def test_what_needs_hosts_is_refused_without_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, str]
) -> None:
    own = ["run", "sqlio-random-read-4", f"{tmp_path}/f", "--size", "1MiB", "--store", f"{tmp_path}/s.db"]
    assert main([*own, *words]) == 2
    assert f"{words[0]}: needs --hosts" in capsys.readouterr().err
    assert not (tmp_path / "f").exists()


def test_without_ray_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('none')\n")
    code = "import sys; sys.path.insert(0, sys.argv[1]); from brickyard.fleet import needs_ray; needs_ray()"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "many hosts need Ray, which is not installed: pip install 'brickyard[fleet]'" in done.stderr.splitlines()[-1]


def healthy(count: int, seed: int, spread: float = 0.03) -> list[Peer]:
    draw = random.Random(seed)
    made = []
    for number in range(count):
        own = draw.gauss(1, spread)
        series = [(depth, 8 * MS * depth / own * draw.gauss(1, 0.05)) for depth in (1.0, 4.0, 16.0) for _ in range(8)]
        traits = {"model": "m", "firmware": draw.choice(["1.0", "1.1", "2.0"]), "kernel": "6.1"}
        made.append(Peer(f"u{number}", {"iops": 100 * own}, {"p99": 30 * MS / own}, traits, {"read": series}))
    return made


def test_a_census_names_the_slow_ones_and_what_they_have_in_common() -> None:
    units = healthy(200, 1)
    for number in (7, 90, 150):
        old = units[number]
        traits = {**old.traits, "firmware": "9.9"}
        units[number] = Peer(old.name, {"iops": old.figures["iops"] / 2}, old.times, traits, old.series)
    found = census(units)
    assert found.slow[:3] == sorted(
        found.slow[:3], key=lambda name: -max(f.factor for f in found.findings if f.unit == name)
    )
    assert set(found.slow) == {"u7", "u90", "u150"}
    (common,) = found.common
    assert (common.trait, common.value, common.slow_with, common.others_with) == ("firmware", "9.9", 3, 0)


def test_a_unit_that_is_slow_for_a_while_is_found_by_its_peers() -> None:
    units = healthy(60, 2)
    old = units[33]
    series = list(old.series["read"])
    series[9:13] = [(load, time * 4) for load, time in series[9:13]]
    units[33] = Peer(old.name, old.figures, old.times, old.traits, {"read": series})
    found = census(units)
    assert [(f.unit, f.how) for f in found.findings] == [("u33", "intervals")]


def test_healthy_units_are_left_alone_and_few_are_not_judged() -> None:
    named = sum(bool(census(healthy(100, seed)).slow) for seed in range(40))
    assert named <= 4, f"{named} of 40 healthy censuses name somebody"
    assert census(healthy(4, 1)).too_few
    assert not census(healthy(4, 1)).slow


def alike(count: int, sigma: float, draw: random.Random) -> list[Peer]:
    """Healthy units with five figures and intervals of a steady load, log-normal about one middle."""
    made = []
    for number in range(count):
        figures = {f"f{figure}": math.exp(draw.gauss(0, sigma)) for figure in range(3)}
        times = {f"t{figure}": math.exp(draw.gauss(0, sigma)) for figure in range(2)}
        own = draw.gauss(0, sigma)
        series = [(4.0, MS * math.exp(own + draw.gauss(0, 0.05))) for _ in range(12)]
        made.append(Peer(f"u{number}", figures, times, {"model": "m"}, {"read": series}))
    return made


@pytest.mark.parametrize(("count", "sigma"), [(5, 0.1), (20, 0.1), (50, 0.05), (250, 0.05)])
def test_a_healthy_census_names_somebody_in_five_of_a_hundred(count: int, sigma: float) -> None:
    draw, tried = random.Random(count), 60 if count > 100 else 200
    named = sum(bool(census(alike(count, sigma, draw)).slow) for _ in range(tried))
    assert stats.binomtest(named, tried, 0.05, alternative="greater").pvalue > 0.001, f"{named} of {tried}"


def test_the_farthest_of_alike_units_is_as_far_by_draws_as_by_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = least_score(200, 0.01)
    monkeypatch.setattr("brickyard.analysis.census.MOST_DRAWN", 100)
    assert least_score.__wrapped__(200, 0.01) == pytest.approx(drawn, rel=0.05)


def test_a_unit_with_errors_is_named_and_is_nobodys_peer() -> None:
    units = healthy(12, 3)
    units[4] = replace(units[4], errors=54_000, figures={"iops": 1e6})
    found = census(units)
    assert found.errors == {"u4": 54_000}
    assert (found.judged, found.slow) == (11, [])
    said = words(found, [])
    assert said[0].startswith("Requests failed on u4 (54,000).")
    assert "None of 11 units" in said[1]
    assert max(spread.high for spread in found.spreads if spread.name == "iops") < 1e6


def test_kinds_of_few_units_are_not_judged_nor_mixed() -> None:
    disks = [replace(unit, name=f"hdd{n}", traits={"model": "hdd"}) for n, unit in enumerate(healthy(2, 1))]
    disks = [replace(unit, figures={"iops": 1.0}) for unit in disks]
    flash = [replace(unit, traits={"model": "ssd"}) for unit in healthy(4, 2)]
    found = census([*disks, *flash])
    assert (found.too_few, found.slow) == (True, [])
    assert words(found, []) == [
        "Not judged, since at least 5 units of a kind are needed: hdd (2), ssd (4).",
        "No unit was judged.",
    ]
    found = census([*disks, *(replace(unit, traits={"model": "A"}) for unit in healthy(10, 4))])
    assert "hdd (2)" in words(found, [])[0]
    assert "None of 10 units" in words(found, [])[1]


def told_to_all() -> Json:
    hosts = [
        {
            "host": host, "targets": [at], "seed": 1, "offset_ns": 0, "bound_ns": 0, "round_trip_ns": 0,
            "synchronized": True, "max_error_ns": 0, "core_free": True, "facts": {},
        }
        for at, host in enumerate("ab")
    ]  # fmt: skip
    told = {"event": "fleet", "share": "copies", "bound_ns": 0, "tolerance_ns": MS, "within_tolerance": True}
    return {**told, "hosts": hosts}


def two_hosts(store: Store, *more: Event) -> int:
    """Twelve intervals of 1 s, of which b told three before it was lost; each of 100 requests."""
    division = divide("x", load(), ["a", "b"], ["/f"], "copies")
    merger = Merger(division.parts)
    number = store.add_run(
        profile="x",
        profile_hash="",
        plan=division.plan,
        condition="normal",
        targets=division.targets,
        options={"hosts": ["a", "b"], "share": "copies", "fleet_run": "x-1"},
        software_version="",
        facts=RunFacts(),
    )
    started = typed(start_event())
    assert isinstance(started, Start)
    events: list[Event] = [
        merged_start(division.parts, {"a": started, "b": started}, []),
        typed(told_to_all()),
    ]
    for host in "ab":
        events += merger.hear(host, PhaseStart(phase=0, name="m", start_ns=0), 0.0)
    for index in range(12):
        merger.hear("a", of_host([MS] * 100, index), 0.0)
        if index < 3:
            merger.hear("b", of_host([MS] * 100, index), 0.0)
        if index == 3:
            merger.gone("b")
        events += merger.whole(0.0)
    events.append(HostLost(host="b", at_ns=3 * SECOND, reason="killed", streams=["b"]))
    events += [
        HostEnd(host=host, outcome=outcome, message="", kept="")
        for host, outcome in (("a", RunOutcome.DONE), ("b", RunOutcome.FAILED))
    ]
    store.add_events(number, [*events, *more])
    store.end_run(number, {"event": "end", "end_ns": 12 * SECOND, "outcome": "failed", "message": "b"}, None, [])
    return number


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
    shown = capsys.readouterr().out.partition("Slowest requests")[2].splitlines()
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
    target = TargetFacts(path=path, kind="file", size_bytes=8 << 20, unwritten="none")
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
    assert memory.startswith("a, b: The target has 8.0 MiB and the host 1.0 GiB to 2.0 GiB of memory")
    assert told["fleet_circumstances"] == ["Other load on c during the run was not recorded: no Python there."]
    assert told["fleet_note"] == ["b: keeps no copy of its record: no room."]
    with Store(tmp_path / "runs.db") as store:
        seen = [seen_on("a", 0, "/f"), seen_on("b", 1, "/f", cached=False)]
        found = circumstances.warnings(store, record, [], seen)
    texts = [warning.text for warning in found if warning.id == "volatile_write_cache"]
    assert [text.partition(":")[0] for text in texts] == ["a"]


def kept_record(folder: Path, run: str, host: str, intervals: int) -> Path:
    """As a worker writes it; without intervals it never began."""
    parts = divide("x", load(), ["a", "b"], ["/f"], "copies")
    note = {
        "brickyard_record": 1,
        "run": run,
        "plan": plan_document(parts.plan),
        "targets": parts.targets,
        "host": host,
    }
    note |= {"share": "copies", "parts": msgspec.to_builtins(parts.parts)}
    events = [start_event(), {"event": "phase", "phase": 0, "name": "m", "start_ns": 0}] if intervals else []
    events += [told_to_all()] if intervals else []
    events += [json.loads(encode(of_host([MS] * 100, index))) for index in range(intervals)]
    place = folder / f"{run}-{host}.jsonl"
    place.write_text("".join(json.dumps(line) + "\n" for line in [note, *events]))
    return place


def test_collect_leaves_out_what_says_nothing_new_and_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "runs.db"
    with Store(place) as store:
        two_hosts(store)  # x-1, of which three intervals of b came
    (kept := tmp_path / "kept").mkdir()
    kept_record(kept, "a-0", "a", 0)
    kept_record(kept, "x-1", "b", 3)
    kept_record(kept, "z-9", "a", 4)
    words = ["fleet", "collect", str(kept), "--store", str(place), "--json"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert list(json.loads(said.out)["runs"]) == ["z-9"]
    assert "a-0: no host had begun; nothing was measured" in said.err
    assert "x-1: is run 1 already, with all that was kept" in said.err
    (kept / "x").mkdir()
    (kept / "x" / "b.jsonl").touch()
    (kept / "x" / "c.jsonl").write_text("5\n")
    assert main(words) == 0, "what is no record costs no other its place"
    said = capsys.readouterr()
    assert f"{kept}/x/b.jsonl: is no record that a host of a fleet kept" in said.err
    assert f"{kept}/x/c.jsonl: is no record that a host of a fleet kept" in said.err
    assert json.loads(said.out)["runs"] == {}
    (bare := tmp_path / "bare.jsonl").write_text('{"brickyard_record": 1}\n')
    assert main(["fleet", "collect", str(bare), "--store", str(place)]) == 2
    assert "is no record that a host of a fleet kept" in capsys.readouterr().err
    kept_record(kept, "x-1", "b", 12)  # b came back, and has what nobody heard
    assert main(words) == 0
    assert list(json.loads(capsys.readouterr().out)["runs"]) == ["x-1"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == {}


def test_only_what_the_store_has_is_removed_unless_more_is_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "runs.db"
    (kept := tmp_path / "kept").mkdir()
    whole = str(kept_record(kept, "x-1", "b", 3))
    new = str(kept_record(kept, "z-9", "a", 4))
    never = str(kept_record(kept, "n-0", "a", 0))
    going = str(kept_record(kept, "g-1", "a", 2))
    (empty := kept / "e-0-a.jsonl").touch()
    with Store(place) as store:
        two_hosts(store)  # x-1, of which three intervals of b came
        begun_on_hosts(store, "g-1", own_process())
        found = collect.from_files([kept])
        removal = collect.to_remove(store, found)
        assert set(removal.goes) == {whole}
        assert removal.stays[new] == "not collected"
        assert removal.stays[never] == "no host had begun; nothing was measured"
        assert removal.stays[going] == "is run 2, which goes on"
        assert str(empty) in removal.stays
        asked = collect.to_remove(store, found, uncollected=True)
        assert set(asked.goes) == {whole, new, never, str(empty)}
        assert set(asked.stays) == {going}, "never what is still written"


def test_a_host_removes_only_the_record_that_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    hand = agent.Agent("a")
    home = tmp_path / "brickyard" / "fleet" / "x-1"
    home.mkdir(parents=True)
    record = kept_record(tmp_path, "x-1", "a", 3).rename(home / "a.jsonl")
    (other := home / "notes.txt").write_text("mine")
    size = record.stat().st_size
    assert hand.remove("x-1/a.jsonl", size - 1) == "has become longer since it was read"
    with record.open("a"):
        assert hand.remove("x-1/a.jsonl", size) == "a worker is still writing it"
    assert hand.remove("../../../etc/passwd", 1) == "is gone already"
    assert record.exists()
    assert hand.remove("x-1/a.jsonl", size) == ""
    assert not record.exists()
    assert other.exists()
    record.write_text("something else")
    assert hand.remove("x-1/a.jsonl", 14) == "is no record that a host of a fleet kept"


def begun_on_hosts(store: Store, name: str, runner: ProcessMark) -> None:
    store.add_run(
        profile="x",
        profile_hash="",
        plan=divide("x", load(), ["a", "b"], ["/f"], "copies").plan,
        condition="normal",
        targets=["a:/f", "b:/f"],
        options={"hosts": ["a", "b"], "share": "copies", "fleet_run": name},
        software_version="",
        facts=RunFacts(process=runner),
    )


def test_a_run_that_goes_on_is_not_collected_and_one_collected_too_early_is_collected_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "runs.db"
    (kept := tmp_path / "kept").mkdir()
    words = ["fleet", "collect", str(kept), "--store", str(place), "--json"]
    for name, runner in (("g-1", own_process()), ("k-1", ProcessMark(pid=1, start_ticks=1, boot_id="another"))):
        with Store(place) as store:
            begun_on_hosts(store, name, runner)
        kept_record(kept, name, "a", 3)
    assert main(words) == 0
    said = capsys.readouterr()
    assert "g-1: is run 1, which goes on" in said.err
    assert list(json.loads(said.out)["runs"]) == ["k-1"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == {}, "all of it is collected already"
    kept_record(kept, "k-1", "a", 9)  # it went on at that time, on another host
    assert main(words) == 0
    assert list(json.loads(capsys.readouterr().out)["runs"]) == ["k-1"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == {}


def test_a_run_whose_head_died_is_collected_up_to_the_last_interval_that_all_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (kept := tmp_path / "kept").mkdir()
    words = ["fleet", "collect", str(kept), "--store", str(tmp_path / "runs.db"), "--json"]
    kept_record(kept, "k-1", "a", 9)
    kept_record(kept, "k-1", "b", 7)
    kept_record(kept, "l-1", "a", 20)
    kept_record(kept, "l-1", "b", 3)  # its host died long before
    assert main(words) == 0
    numbers = json.loads(capsys.readouterr().out)["runs"]
    with Store(tmp_path / "runs.db") as store:
        whole, partly = store.record(numbers["k-1"]), store.record(numbers["l-1"])
    rows = {row.host: row for row in host_rows(whole)}
    assert [(rows[name].state, rows[name].requests) for name in ("a", "b", "")] == [
        ("interrupted", 700),
        ("interrupted", 700),
        ("", 1400),
    ]
    assert whole.info.outcome == "interrupted"
    assert rows[""].iops == pytest.approx(200)
    assert "up to the last interval that a and b have" in whole.info.message
    assert {row.host: row.state for row in host_rows(partly)} == {"a": "interrupted", "b": "lost", "": "without b"}
    assert partly.info.outcome == "failed"
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == {}, "what was cut is not new"


def test_a_row_without_requests_has_all_its_fields_and_the_slowest_host_comes_first(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        rows = host_rows(store.record(two_hosts(store)))
    assert [row.host for row in rows] == ["a", "b", ""], "what was lost comes last"
    empty = replace(rows[0], response=None).document()
    assert set(empty) == set(rows[0].document())
    assert empty["p50_ns"] is None


@pytest.fixture
def fleet_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    cluster.home().mkdir(parents=True)
    cluster.token_file().write_text("0" * 64)
    return cluster.home()


def node(name: str, folder: str, *command: str) -> Json:
    return {"name": name, "address": "10.0.0.1", "command": list(command or ("sh", "-s")), "folder": folder}


def note_fleet(*hosts: Json, address: str = "10.0.0.1:1") -> None:
    head = node("head", "/tmp/brickyard-fleet-none0")
    told = {"brickyard_fleet": 1, "address": address, "node_address": "", "hosts": hosts, "head": head}
    cluster.state_file().write_text(json.dumps(told))


def test_down_ends_no_process_and_no_folder_that_is_not_the_fleets(fleet_home: Path, tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    mine = tmp_path / "mine"
    mine.mkdir()
    try:
        note_fleet(
            {**node("a", "/tmp/brickyard-fleet-none1"), "pid": bystander.pid},
            node("b", f"/tmp/brickyard-fleet-x/../..{mine}"),
        )
        (failure,) = starting.down()
        assert failure.startswith("b: ")
        assert "is no folder that `fleet up` makes" in failure
        assert bystander.poll() is None
        assert mine.is_dir()
        done = subprocess.run(
            ["sh", "-s"],
            input=nodes.END.replace("@DIR@", f"/tmp/brickyard-fleet-x/../..{mine}").replace("@MARK@", nodes.MARK),
            text=True,
            check=False,
        )
        assert (done.returncode, mine.is_dir()) == (2, True)
    finally:
        bystander.kill()
        bystander.wait()


def test_down_ends_what_wrote_its_title_over_its_environment(tmp_path: Path) -> None:
    """As Ray's agents do, which live on where their raylet was killed; whoever else is in the folder is left alone."""
    folder = Path(f"/tmp/brickyard-fleet-{os.urandom(8).hex()}")
    folder.mkdir()
    titled = "import time; open('/proc/self/comm', 'w').write('ray::Some'); print('named', flush=True); time.sleep(60)"
    agents = subprocess.Popen([sys.executable, "-c", titled], cwd=folder, stdout=subprocess.PIPE, text=True)
    elsewhere = subprocess.Popen([sys.executable, "-c", titled], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    bystander = subprocess.Popen(["sleep", "60"], cwd=folder, text=True)
    try:
        for one in (agents, elsewhere):
            assert one.stdout is not None
            assert one.stdout.readline() == "named\n"
        threading.Thread(target=agents.wait, daemon=True).start()  # as init does for those without a parent
        assert nodes.end(Node("a", "127.0.0.1", ["sh", "-s"], str(folder))) == ""
        assert agents.wait(5) == -signal.SIGKILL
        assert bystander.poll() is None
        assert elsewhere.poll() is None
        assert not folder.exists()
    finally:
        for one in (agents, elsewhere, bystander):
            one.kill()
            one.wait()
        shutil.rmtree(folder, ignore_errors=True)


class Nodes:
    """What Ray says of its nodes; a dead one has no resources, and so no name."""

    def __init__(self, **nodes: bool) -> None:
        self._nodes = nodes

    def nodes(self) -> list[Json]:
        return [
            {"Alive": alive, "NodeManagerAddress": "10.0.0.9", "Resources": {f"brickyard:{name}": 1} if alive else {}}
            for name, alive in self._nodes.items()
        ]


def test_all_hosts_are_those_of_the_fleet_and_one_that_is_down_is_named(fleet_home: Path) -> None:
    note_fleet(*(node(name, f"/tmp/brickyard-fleet-none{name}") for name in "abc"))
    assert cluster.chosen(Nodes(a=True, b=True, c=True), "all") == ["a", "b", "c"]
    with pytest.raises(BadInputError, match="--hosts all: c is down; to leave it out, name the others: --hosts a,b"):
        cluster.chosen(Nodes(a=True, b=True, c=False), "all")
    assert cluster.chosen(Nodes(a=True, b=True, c=False), "a,b") == ["a", "b"]
    with pytest.raises(BadInputError, match="--hosts c: is down; the fleet has a, b"):
        cluster.chosen(Nodes(a=True, b=True, c=False), "b,c")
    assert cluster.up_and_down(Nodes(a=True, b=True, c=False)) == (["a", "b"], ["c"])
    cluster.save(cluster.Cluster("10.0.0.1:1", joined={"k0": "10.0.0.2", "k1": "10.0.0.3"}))
    with pytest.raises(BadInputError, match="--hosts all: k1 is down"):
        cluster.chosen(Nodes(k0=True, k1=False), "all")


def test_what_cannot_be_ended_stays_known(fleet_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note_fleet(node("a", "/tmp/brickyard-fleet-none1"), node("b", "/tmp/brickyard-fleet-none2", "false"))
    assert main(["fleet", "down"]) == 1
    assert "b: " in capsys.readouterr().err
    assert [host.name for host in cluster.load().nodes] == ["b"]
    assert cluster.token_file().is_file()
    assert main(["fleet", "down", "--forget"]) == 1
    assert list(fleet_home.iterdir()) == []


def test_garbage_in_place_of_a_fleet_is_told_in_one_line(fleet_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.state_file().write_text('{"brickyard_fleet": 1, "hosts": [')
    for verb in ("status", "down"):
        assert main(["fleet", verb]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "is not what `fleet up` wrote" in line


def test_the_hosts_of_a_fleet_without_an_answer_are_listed_as_not_known(
    fleet_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(cluster, "PROBE_S", 2.0)
    note_fleet(node("a", "/tmp/brickyard-fleet-none1"), address="127.0.0.1:1")
    assert main(["fleet", "status"]) == 1
    said = capsys.readouterr()
    assert "not known" in said.out
    assert "cannot be reached" in said.err
    assert "fleet down" in said.err, "what to do"
    assert main(["fleet", "status", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [host["alive"] for host in document["hosts"].values()] == [None]


def test_a_killed_up_leaves_a_fleet_that_down_ends(fleet_home: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    reached = tmp_path / "reached"
    way = tmp_path / "way"
    checked = tmp_path / "checked"
    way.write_text(
        f'#!/bin/sh\n[ -e {reached} ] || [ ! -e {checked} ] && touch {checked} && exec "$@"\n'
        f"touch {reached}\nexec sleep 20\n"
    )
    way.chmod(0o755)
    hosts = tmp_path / "hosts.toml"
    entry = f'address = "127.0.0.1"\nreach = ["{way}"]\n'
    hosts.write_text(f'[head]\n{entry}[[host]]\nname = "a"\n{entry}')
    words = [sys.executable, "-P", "-m", "brickyard", "fleet", "up", "--no-tls", "--hosts", str(hosts)]
    process = subprocess.Popen(words, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not reached.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert [one.name for one in cluster.load().nodes] == ["a", "head"]
    assert starting.down() == []
    assert not cluster.state_file().exists()


def of_host_file(tmp_path: Path, *hosts: str) -> Path:
    """A free port for the head, and hosts with addresses of their own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    entries = [
        f'[[host]]\nname = "{name}"\naddress = "127.0.0.{number}"\n{words}\n'
        for number, (name, words) in enumerate(zip("abcdef", hosts, strict=False), 2)
    ]
    place = tmp_path / "hosts.toml"
    place.write_text(f'[head]\naddress = "127.0.0.1"\nport = {port}\n' + "".join(entries))
    return place


def test_every_host_that_cannot_have_ray_is_named_with_its_cause_before_anything_starts(
    fleet_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    hosts = of_host_file(
        tmp_path,
        f'reach = ["env"]\npython = "{sys.executable}"',
        f'reach = ["env"]\npython = "{tmp_path}/bare/bin/python"',
        'reach = ["env"]\npython = "/no/such/python"',
        f'reach = ["env", "PATH={tmp_path}/bin", "XDG_STATE_HOME={tmp_path}"]',
        'reach = ["false"]',
    )
    begun_s = time.monotonic()
    assert main(["fleet", "up", "--hosts", str(hosts)]) == 1
    assert time.monotonic() - begun_s < 60
    (said,) = capsys.readouterr().err.splitlines()
    assert f"b: its Python ({tmp_path}/bare/bin/python) has no Ray; install it with" in said
    assert "c: has no Python at /no/such/python; correct `python` in hosts.toml" in said
    assert "d: has no python3; install Python 3." in said
    assert "e: no reason given" in said
    assert " a: " not in said
    assert not cluster.state_file().exists(), "nothing is in the way of the next one"


def test_a_host_that_ends_as_it_is_started_is_named_at_once(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    folder = Path(f"/tmp/brickyard-fleet-{os.urandom(8).hex()}")
    folder.mkdir()
    try:
        (folder / "pid").write_text(f"{ended.pid}\n")
        (folder / "log").write_text("Traceback\n\nImportError: libc is too old\n\n")
        with pytest.raises(BrickyardError, match="a: Ray ended as it was started: ImportError: libc is too old"):
            nodes.refuse_ended([Node("a", "127.0.0.1", ["sh", "-s"], str(folder))])
    finally:
        shutil.rmtree(folder)


def test_an_up_that_failed_is_not_in_the_way_of_the_next_one(
    fleet_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The host is lost between the look at it and the start; later what an earlier fleet left cannot be ended."""
    pytest.importorskip("ray")
    way, checked = tmp_path / "way", tmp_path / "checked"
    way.write_text(f'#!/bin/sh\n[ -e {checked} ] && echo gone >&2 && exit 255\ntouch {checked}\nexec "$@"\n')
    way.chmod(0o755)
    hosts = of_host_file(tmp_path, f'reach = ["{way}"]\npython = "{sys.executable}"')
    assert main(["fleet", "up", "--no-tls", "--hosts", str(hosts)]) == 1
    assert "a: gone (exit code 255)" in capsys.readouterr().err
    assert not cluster.state_file().exists()
    cluster.save(cluster.Cluster("127.0.0.1:1", hosts=[Node("z", "10.0.0.1", ["false"], "/tmp/brickyard-fleet-none1")]))
    assert main(["fleet", "up", "--no-tls", "--hosts", str(hosts)]) == 1
    said = capsys.readouterr().err
    assert "an earlier fleet has not ended on all hosts: z: " in said
    assert "brickyard fleet down --forget" in said
    assert main(["fleet", "down", "--forget"]) == 1
    assert not cluster.state_file().exists()


def test_a_fleet_that_is_up_takes_no_other_head_and_no_stranger(fleet_home: Path, tmp_path: Path) -> None:
    note_fleet(node("a", "/tmp/brickyard-fleet-none1"), address="127.0.0.1:1")
    hosts = read_hosts(of_host_file(tmp_path, 'reach = ["env"]'))
    with pytest.raises(BadInputError, match=r"a fleet is up at 127\.0\.0\.1:1, and the file has its head at"):
        starting.up(hosts)
    cluster.certificate_file().write_text("# brickyard fleet\n")
    with pytest.raises(BadInputError, match=r"a \(127\.0\.0\.2\): the certificate of the fleet that is up"):
        starting._refuse_strange(cluster.load(), hosts.host)


def test_each_host_has_the_volumes_of_all_and_its_own() -> None:
    together = rounds(["a", "b"], ["/dev/sdb", "a:/dev/sdc"], one_at_a_time=False)
    assert together == [[("a", "/dev/sdb"), ("b", "/dev/sdb")], [("a", "/dev/sdc")]]
    with pytest.raises(BadInputError, match="c is not among the hosts a, b"):
        rounds(["a", "b"], ["c:/dev/sdc"], one_at_a_time=False)


def test_units_are_compared_with_their_own_kind() -> None:
    units = healthy(40, 5)
    slower = [
        Peer(f"old{n}", {"iops": u.figures["iops"] / 3}, u.times, {**u.traits, "model": "old"}, {})
        for n, u in enumerate(healthy(10, 6))
    ]
    assert census([*units, *slower]).slow == []

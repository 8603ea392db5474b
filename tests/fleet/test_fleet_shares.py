"""Who does what of a load on many hosts: shares, addresses, and disks that are one disk by several names."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from brickyard import profiles
from brickyard.cli import main
from brickyard.errors import BadInputError, BrickyardError
from brickyard.fleet import agent, nodes
from brickyard.fleet.cluster import Node
from brickyard.fleet.hosts import HostEntry, command_of, read_hosts, refuse_near
from brickyard.fleet.sending import traces_of, with_traces_at
from brickyard.fleet.shares import Division, divide, shared_places
from brickyard.fleet.shells import answer
from brickyard.schema import LoadShare, plan_document
from brickyard.schema.plan import Plan
from brickyard.store import Json
from fleet_parts import HOSTS, load


def phases_of(division: Division, host: str) -> list[Json]:
    (plan,) = [plan for part, plan in zip(division.parts, division.plans, strict=True) if part.host == host]
    found: list[Json] = plan_document(plan)["phase"]
    return found


def test_copies_split_and_partition_are_arithmetic() -> None:
    asked = load("workers=7", pace='pace = { loop = "open", rate = 1000 }')
    copies = divide("x", asked, HOSTS, ["/data/f"], LoadShare.COPIES)
    split = divide("x", asked, HOSTS, ["/data/f"], LoadShare.SPLIT)
    partition = divide("x", asked, HOSTS, ["/data/f"], LoadShare.PARTITION)
    rates = [phases_of(split, host)[0]["stream"][0]["pace"]["rate"] for host in HOSTS]
    assert sum(rates) == pytest.approx(1000, rel=1e-9)
    assert [phases_of(copies, host)[0]["stream"][0]["pace"]["rate"] for host in HOSTS] == [1000.0] * 3
    regions = [phases_of(partition, host)[0]["stream"][0]["region"] for host in HOSTS]
    assert regions == ["0%..33.3333333%", "33.3333333%..66.6666667%", "66.6666667%..100%"]
    assert len({plan.seed for plan in copies.plans}) == 3, "hosts ask for different addresses"


def test_a_closed_loop_is_split_by_its_workers() -> None:
    split = divide("x", load("workers=7"), HOSTS, ["/data/f"], LoadShare.SPLIT)
    assert [phases_of(split, host)[0]["stream"][0]["workers"] for host in HOSTS] == [3, 2, 2]
    with pytest.raises(BadInputError, match="cannot be divided over 3 hosts; raise workers or depth"):
        divide("x", load("workers=1", "depth=2"), HOSTS, ["/data/f"], LoadShare.SPLIT)


def ramped(ramp: str, *changes: str, pace: str = "") -> Plan:
    whole = load(*changes, pace=pace)
    text = f'title = "r"\n[[phase]]\nduration = "9s"\nramp = {{ {ramp}, every = "3s" }}\n[[phase.stream]]\n{pace}\n'
    text += f'request = "4KiB"\naddress = "random"\nworkers = {whole.phase[0].stream[0].workers}\n'
    return profiles.validate(profiles.ProfileText("ramped", text, "ramped"), [])


def test_a_ramp_of_the_rate_is_divided_like_the_rate() -> None:
    pace = 'pace = { loop = "open", rate = 90 }'
    for rule, step in (("step = 90", 30.0), ("factor = 2", None)):
        asked = ramped(f'knob = "rate", from = 90, to = 270, {rule}', pace=pace)
        for share in (LoadShare.SPLIT, LoadShare.PARTITION):
            found = divide("x", asked, HOSTS, ["/data/f"], share)
            for plan in (*found.plans, found.plan):
                ramp = plan.phase[0].ramp
                assert ramp is not None
                assert (ramp.from_, ramp.to, ramp.step) == (30.0, 90.0, step)
        assert divide("x", asked, HOSTS, ["/data/f"], LoadShare.COPIES).plans[0].phase[0].ramp == asked.phase[0].ramp
    load_of = ramped('knob = "load", from = 10, to = 100, step = 10', pace=pace)
    assert divide("x", load_of, HOSTS, ["/f"], LoadShare.SPLIT).plans[0].phase[0].ramp == load_of.phase[0].ramp


def test_ramps_that_hosts_cannot_divide_are_refused() -> None:
    workers = ramped('knob = "workers", from = 1, to = 7, step = 3', "workers=7")
    depth = 'knob = "depth", from = 1, to = 7, step = 3'
    for asked in (workers, ramped(depth, "workers=2")):
        with pytest.raises(BadInputError, match="cannot be divided over 3 hosts; ramp the rate"):
            divide("x", asked, HOSTS, ["/data/f"], LoadShare.SPLIT)
    each = divide("x", ramped(depth, "workers=6"), HOSTS, ["/data/f"], LoadShare.SPLIT).plans[0].phase[0]
    assert each.ramp is not None
    assert (each.stream[0].workers, each.ramp.to) == (2, 7), "the depth is that of each worker"


def test_streams_for_named_hosts_and_targets_of_their_own() -> None:
    two = profiles.validate(profiles.read("overland-oltp-two-hosts"), ["workers=8"])
    found = divide(
        "oltp", two, ["a", "b"], ["a:/dev/sdb", "b:/dev/sdc"], LoadShare.COPIES, ["a:/dev/sdb", "b:/dev/sdc"]
    )
    assert found.targets == ["a:/dev/sdb", "b:/dev/sdc"]
    assert [part.targets for part in found.parts] == [["/dev/sdb"], ["/dev/sdc"]]
    assert [part.overwrite for part in found.parts] == [["/dev/sdb"], ["/dev/sdc"]]
    (first,), (second,) = (phases_of(found, host)[0]["stream"] for host in ("a", "b"))
    assert (first["workers"], second["workers"]) == (8, 8)
    assert (first["region"], second["region"]) == ("0B..50%", "50%..100%"), "neither overwrites what the other verifies"


@pytest.mark.parametrize(
    ("changes", "targets", "overwrite", "words"),
    [
        ([], ["/f", "/g"], [], "the workload has 1 target on each host"),
        ([], ["a:/f", "b:f", "c:/f"], [], "b:f: with --hosts write the whole path"),
        (["requests=5"], ["/f"], [], "requests would end or pace each host separately"),
        ([], ["/dev/sdb"], ["/dev/sdb"], "with --hosts name host and device"),
        ([], ["/dev/sdb"], ["d:/dev/sdb"], "with --hosts name host and device"),
    ],
)
def test_what_has_no_answer_is_refused(
    changes: list[str], targets: list[str], overwrite: list[str], words: str
) -> None:
    with pytest.raises(BadInputError, match=words):
        divide("x", load(*changes), HOSTS, targets, LoadShare.COPIES, overwrite)


@pytest.mark.parametrize("name", ["sqliosim", "jetstress", "postmark", "bonnie"])
def test_programs_are_refused_as_such(name: str) -> None:
    plan = profiles.validate(profiles.read(name), [])
    with pytest.raises(BadInputError, match="programs over files and servers run on one host; leave --hosts out"):
        divide(name, plan, HOSTS, ["/data/f"], LoadShare.COPIES)


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
    found = divide("again", asked, HOSTS, ["/data/f"], LoadShare.COPIES)
    assert traces_of(found.plan) == [f"{tmp_path}/load.byt"]
    moved = with_traces_at(found.plans[1], {f"{tmp_path}/load.byt": "/proc/self/fd/9"})
    assert traces_of(moved) == ["/proc/self/fd/9"]
    assert traces_of(found.plans[1]) == [f"{tmp_path}/load.byt"], "the plan of the record keeps the name"
    for share in (LoadShare.SPLIT, LoadShare.PARTITION):
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
    place.write_text('[head]\naddress = "127.0.0.1"\n[[host]]\nname = "a"\naddress = "localhost"\nreach = ["false"]\n')
    assert main(["fleet", "up", "--hosts", str(place)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "[head] and a: 127.0.0.1 does not work with TLS" in line
    assert "name another address of the host, or add --no-tls" in line
    assert not (tmp_path / "data").exists(), "nothing was started"


def test_a_shell_is_no_way_to_reach_a_host(tmp_path: Path) -> None:
    """`bash sh -s` would read the program `sh` as a script."""
    place = tmp_path / "hosts.toml"
    for word, is_shell in (("bash", True), ("/bin/sh", True), ("env", False)):
        place.write_text(
            f'[head]\naddress = "10.0.0.1"\n[[host]]\nname = "a"\naddress = "10.0.0.1"\nreach = ["{word}"]\n'
        )
        if is_shell:
            with pytest.raises(BadInputError, match=rf'a: reach ends with {word}, .*write reach = \["env"\]'):
                read_hosts(place)
        else:
            assert answer("a", command_of(read_hosts(place).host[0]), "echo it answers", 10) == "it answers\n"


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

"""Parsers of other programs' words: real samples give figures, garbage gives nothing and no exception."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brickyard import facts
from brickyard.analysis.judging.caveats import warnings
from brickyard.analysis.judging.judged import Judged
from brickyard.facts import (
    NoTools,
    OwnIo,
    Roots,
    arrays,
    block,
    bus,
    cache,
    cgroups,
    counters,
    health,
    host,
    mounts,
    roots,
)
from brickyard.facts.host import host_facts
from brickyard.schema import stored
from brickyard.schema.target_sheet import DmRaid

SAMPLES = Path(__file__).parents[1] / "samples" / "facts"


def test_hdparm() -> None:
    told = (SAMPLES / "hdparm-wd4003.txt").read_text()
    assert cache.parse_hdparm_cache(told) == 256 << 20
    assert cache.parse_hdparm_cache("\tcache/buffer size  = unknown\n") is None
    assert cache.parse_hdparm_cache("\tcache/buffer size  = 8192 KBytes (type=DualPortCache)") == 8 << 20


def test_smartctl_of_a_sata_drive() -> None:
    told = health.parse_smartctl((SAMPLES / "smartctl-sata-ssd.json").read_text())
    assert told.passed is False
    assert (told.percentage_used, told.bytes_written) == (31, 20_000_000_000 * 512)
    assert (told.reallocated_sectors, told.temperature_celsius, told.power_on_hours) == (17, 36, 20000)
    assert told.media_errors is None


def test_storcli() -> None:
    assert cache.parse_storcli((SAMPLES / "storcli-show-all.json").read_text()) == {"0000:65:00.0": 4 << 30}
    assert cache.parse_size("8.0 GB") == 8 << 30
    assert cache.parse_size("0MB") is None


@pytest.mark.parametrize(
    ("words", "speed"),
    [("8.0 GT/s PCIe", 8.0), ("2.5 GT/s", 2.5), ("Unknown", None), (None, None), ("64.0 GT/s PCIe", 64)],
)
def test_pcie_speed(words: str | None, speed: float | None) -> None:
    assert bus.gigatransfers(words) == speed


def test_md_and_device_mapper() -> None:
    assert arrays.parse_progress("250 / 1000") == 0.25
    assert arrays.parse_progress("none") is None
    assert arrays.parse_progress("delayed") is None
    assert arrays.under_way("frozen") is None
    status = "0 2097152 raid raid5_ls 3 AaD 1048576/2097152 recover 0 0 -\n"
    assert arrays.parse_dm_raid(status) == DmRaid(
        level="raid5_ls", raid_disks=3, degraded=1, in_sync_share=0.5, sync_action="recover"
    )
    assert arrays.parse_dm_table("0 10 linear 8:0 0\n10 10 linear 8:1 0\n20 5 striped 2 128\n") == ["linear", "striped"]


def test_btrfs() -> None:
    told = (
        "Data, RAID1: total=1.00GiB, used=0.00B\nSystem, DUP: total=8.00MiB, used=1B\nGlobalReserve, single: total=1B\n"
    )
    assert mounts.parse_btrfs_df(told) == {"data": ["raid1"], "system": ["dup"]}
    stats = "[/dev/loop0].write_io_errs    0\n[/dev/loop0].corruption_errs  2\n"
    assert mounts.parse_btrfs_stats(stats) == {"/dev/loop0": {"write_io_errs": 0, "corruption_errs": 2}}


def test_mount_points_with_blanks_and_the_longest_one_wins(tmp_path: Path) -> None:
    place = tmp_path / "with blank"
    place.mkdir()
    escaped = str(place).replace(" ", "\\040")
    self_ = tmp_path / "proc" / "self"
    self_.mkdir(parents=True)
    lines = ["1 0 8:1 / / rw - ext4 /dev/sda1 rw", f"2 1 8:2 / {escaped} rw,noatime - xfs /dev/sda2 rw,logbufs=8"]
    lines += [f"3 1 0:30 / {escaped}er rw - tmpfs none rw", f"4 2 8:3 / {escaped} ro - ext4 /dev/sda3 ro"]
    (self_ / "mountinfo").write_text("\n".join(lines))
    found = mounts.mount_of(Roots(proc=str(tmp_path / "proc")), str(place / "scratch"))
    assert found is not None
    # The one mounted last covers what was there.
    assert (found.source, found.mount_point, found.options) == ("/dev/sda3", str(place), "ro")


@pytest.mark.parametrize(
    ("file_system", "words"),
    [("nfs4", "another host"), ("9p", "host of this virtual machine"), ("fuse.sshfs", "served by a program")],
)
def test_file_systems_without_a_visible_device_say_so(tmp_path: Path, file_system: str, words: str) -> None:
    self_ = tmp_path / "proc" / "self"
    self_.mkdir(parents=True)
    (self_ / "mountinfo").write_text(f"1 0 0:50 / {tmp_path} rw - {file_system} server:/export rw")
    collected: Any = facts.collect(str(tmp_path), roots=Roots(proc=str(tmp_path / "proc"), tools=NoTools())).target
    assert words in collected.unknown["stack"]
    assert collected.mount.file_system == file_system


def test_overlay_is_looked_through_to_its_upper_directory(tmp_path: Path) -> None:
    self_ = tmp_path / "proc" / "self"
    self_.mkdir(parents=True)
    upper, merged = tmp_path / "upper", tmp_path / "merged"
    upper.mkdir()
    merged.mkdir()
    (self_ / "mountinfo").write_text(
        f"1 0 0:40 / {tmp_path} rw - tmpfs none rw\n"
        f"2 1 0:50 / {merged} rw - overlay overlay rw,lowerdir=/l,upperdir={upper},workdir=/w\n"
        f"3 1 0:51 / {upper} rw - 9p share rw\n"
    )
    collected: Any = facts.collect(str(merged), roots=Roots(proc=str(tmp_path / "proc"), tools=NoTools())).target
    assert "9p" in collected.unknown["stack"]
    assert collected.mount.upper_directory == str(upper)


def test_a_program_that_hangs_or_fails_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, body in (("slow", "exec sleep 60"), ("broken", "echo 'no such thing' >&2; exit 3")):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(roots, "TOOL_TIMEOUT_S", 0.2)
    assert roots.Tools().run("slow") == (None, "not known: slow did not answer within 0 s")
    assert roots.Tools().run("broken") == (None, "not known: broken said: no such thing")
    assert roots.Tools().run("no-such-program")[1] == "not known: no-such-program is not installed"


def test_reading_never_waits_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert roots.text(str(tmp_path / "pipe")) is None
    assert roots.text(str(tmp_path)) is None
    assert roots.text(str(tmp_path / "nothing")) is None
    assert roots.text("\0") is None


def test_page_of_a_serial_number() -> None:
    assert block.parse_vpd_serial(b"\0\x80\0\x04AB12trailing") == "AB12"
    assert block.parse_vpd_serial(b"\0\x83\0\x04AB12") is None


TEXT_PARSERS: list[Callable[[str], Any]] = [
    cache.parse_hdparm_cache, cache.parse_storcli, cache.parse_size,
    cache.pci_of_storcli, health.parse_smartctl, health.whole, bus.gigatransfers, bus.parse_lspci,
    arrays.parse_progress, arrays.parse_dm_table, arrays.parse_dm_raid, mounts.parse_mountinfo, mounts.parse_btrfs_df,
    mounts.parse_btrfs_stats, host.parse_cpuinfo, host.parse_meminfo, host.parse_os_release, block.parse_scheduler,
    roots.as_number,
]  # fmt: skip
BYTE_PARSERS: list[Callable[[bytes], Any]] = [
    counters.parse_stat, counters.parse_cpus, cgroups.parse_cpu_stat, block.parse_vpd_serial,
]  # fmt: skip

WORDS = st.sampled_from(
    ["cpu", "cpu0", "raid", " - ", "Data, RAID1: total=", "cache/buffer size = ", "KBytes", "nr_throttled", "{", "[",
     "PRETTY_NAME=", "MemTotal:", "kB", "/", "0:1", "9" * 30, "\n", " ", "::", "GT/s", '"Controllers"', "physical id"]
)  # fmt: skip
GARBAGE = st.one_of(st.text(max_size=200), st.lists(st.one_of(WORDS, st.text(max_size=8)), max_size=30).map("".join))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["Controllers", "Response Data", "Basics", "PCI Address", "HwCfg", "On Board Memory Size", "temperature",
             "current", "ata_device_statistics", "pages", "table", "name", "value", "id", "raw", "smart_status",
             "nvme_smart_health_information_log", "percentage_used", "data_units_written", "ata_smart_attributes"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(GARBAGE)
def test_text_parsers_take_garbage(garbage: str) -> None:
    for parse in TEXT_PARSERS:
        parse(garbage)


@given(st.one_of(st.binary(max_size=200), GARBAGE.map(lambda words: words.encode("utf-8", "surrogatepass"))))
def test_byte_parsers_take_garbage(garbage: bytes) -> None:
    for parse in BYTE_PARSERS:
        parse(garbage)


@given(JSON)
def test_json_of_any_shape_is_taken(value: Any) -> None:
    content = json.dumps(value)
    health.parse_smartctl(content)
    cache.parse_storcli(content)


FILES = [
    "sys/class/block/sda/dev", "sys/class/block/sda/size", "sys/class/block/sda/stat", "sys/class/block/sda/partition",
    "sys/class/block/sda/device/model", "sys/class/block/sda/device/vpd_pg80", "sys/class/block/sda/queue/scheduler",
    "sys/class/block/sda/queue/rotational", "sys/class/block/sda/md/sync_completed",
    "sys/class/block/sda/loop/backing_file",
    "sys/class/block/sda/slaves/sda", "sys/dev/block/8:0/stat", "proc/self/mountinfo", "proc/self/cgroup", "proc/stat",
    "proc/cpuinfo", "proc/meminfo", "proc/uptime", "proc/loadavg", "proc/self/io", "proc/1/environ", "etc/os-release",
    "sys/fs/btrfs/u/devices/sda", "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "sys/class/block/nvme0n1/dev",
]  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from(FILES),
        st.one_of(st.binary(max_size=80), GARBAGE.map(lambda words: words.encode("utf-8", "replace"))),
        max_size=12,
    )
)
def test_garbage_files_raise_nothing(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    top = tmp_path_factory.mktemp("garbage")
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    place = Roots(str(top / "sys"), str(top / "proc"), str(top / "etc"), "/dev", str(top / "run"), NoTools())
    json.dumps(stored(host_facts(place)))
    collected = facts.collect(str(top / "scratch"), roots=place)
    json.dumps(stored(collected.target))
    for name in ("sda", "nvme0n1"):
        node = facts.stack.device_node(place, name, False)
        json.dumps(stored(node))
        collected.target.stack.append(node)
    with facts.Watch(str(top), place) as watch:
        watch.sample()
    result = watch.result(OwnIo(read_bytes=1))
    told = json.dumps(stored([result, collected.host, collected.target]))
    # Garbage is an unreadable number or name; these would be mistakes of ours that a reason hides.
    assert not [name for name in ("TypeError", "KeyError", "IndexError", "AttributeError") if name in told]
    warnings(Judged(host=collected.host, targets=[collected.target], watches=[result]))
    facts.doctor(str(top), roots=place)
    facts.cache_bytes(str(top), roots=place)
    assert facts.endurance(str(top), 1, roots=place).text


@pytest.mark.parametrize(
    ("content", "rotation"),
    [
        (bytes([0, 0xB1, 0, 60, 0x1C, 0x20]) + bytes(58), 7200),
        (bytes([0, 0xB1, 0, 60, 0, 1]) + bytes(58), None),  # nothing turns
        (bytes([0, 0xB1, 0, 60, 0, 0]) + bytes(58), None),  # not reported
        (bytes([0, 0x80, 0, 60, 0x1C, 0x20]), None),
        (b"", None),
        (None, None),
    ],
)
def test_the_rotation_of_page_b1(content: bytes | None, rotation: int | None) -> None:
    assert block.parse_vpd_rotation(content) == rotation

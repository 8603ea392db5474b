"""Figures and verdicts from what a watch has seen."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from brickyard.watch.cgroups import Throttle
from brickyard.watch.figures import csv_text
from brickyard.watch.seen import SeenCell, SeenDevice, WatchInterval, time_ns
from brickyard.watch.totals import WatchTotals, aligned_share, median_ns, percentile_ns
from brickyard.watch.verdicts import held_back, opinions
from support import MS, SECOND
from watch_support import fio, loop, seen_by_kernel, shell, watching

__all__ = ["loop"]


@seen_by_kernel
def test_sequential_streams_at_once_are_told_apart(loop: str) -> None:
    with watching(loop) as running:
        fio(loop, "--rw=write", "--bs=16k", "--offset_increment=48m", "--io_size=8m", "--ioengine=psync", jobs=4)
        found = running.ended()
    writes = found["devices"][0]["operations"]["write"]
    assert writes["sequential"] / writes["requests"] > 0.9


def test_a_percentile_needs_samples_beyond_it() -> None:
    """As everywhere (`percentiles.is_supported`), the median among them."""
    middle_ns = (time_ns(100) + time_ns(101)) // 2
    for percentile, enough in ((50.0, 20), (90.0, 100), (99.0, 1000)):
        assert percentile_ns([(100, enough - 1)], percentile) is None
        assert percentile_ns([(100, enough)], percentile) == middle_ns
    assert median_ns([(100, 1)]) == middle_ns
    assert median_ns([]) is None


def test_alignment_counts_larger_boundaries_for_smaller_ones() -> None:
    cell = SeenCell("write", 4, 4 * 4096, alignments=[(3, 1), (7, 3)])
    assert aligned_share(cell, 4096) == 1
    assert aligned_share(cell, 64 << 10) == 0.75
    assert aligned_share(cell, 128 << 10) == 0


def test_intervals_of_a_long_watch_lengthen_and_lose_nothing() -> None:
    totals = WatchTotals()
    for number in range(4000):
        cell = SeenCell("read", 2, 8192, total=[(100, 2)], total_ns=10)
        totals.add(WatchInterval(number * SECOND, (number + 1) * SECOND, [SeenDevice("sda", [cell])]))
    assert len(totals.intervals) < 3600
    assert sum(one.devices[0].cells[0].requests for one in totals.intervals) == 8000
    assert totals.devices["sda"].cells["read"].total == [(100, 8000)]
    edges = [(one.start_ns, one.end_ns) for one in totals.intervals]
    assert all(before[1] == after[0] for before, after in itertools.pairwise(edges))


def test_few_requests_have_no_verdict() -> None:
    totals = WatchTotals()
    cell = SeenCell("write", 99, 99 * 512, alignments=[(0, 99)], sizes=[(0, 99)], depths=[(0, 99)])
    totals.add(WatchInterval(0, SECOND, [SeenDevice("sda", [cell])]))
    assert opinions(totals.devices["sda"], 65536, totals.seconds) == []
    totals.add(WatchInterval(SECOND, 2 * SECOND, [SeenDevice("sda", [cell])]))
    assert {one.figure for one in opinions(totals.devices["sda"], 65536, totals.seconds)} >= {"unaligned_to_4k_share"}
    assert csv_text(totals).count("sda,write,99") == 2


def test_flushes_are_told_with_what_their_share_is_of() -> None:
    """They are most of the sum of request times, and hardly any of the time; few of them are not told at all."""

    def said(flushes: int) -> list[str]:
        reads = SeenCell("read", 1000, total_ns=60 * MS)
        waited = SeenCell("flush", flushes, total_ns=400 * MS)
        totals = WatchTotals()
        totals.add(WatchInterval(0, 20 * SECOND, [SeenDevice("sda", [reads, waited])]))
        return [one.text for one in opinions(totals.devices["sda"], 0, totals.seconds)]

    (told,) = said(10)
    assert "take 87 % of all request time, which is 2 % of the time watched" in told
    assert said(9) == []


@pytest.mark.parametrize(("queue_ns", "figures"), [(0, {"reads_one_deep_share"}), (10**10, {"waiting_share"})])
def test_requests_that_wait_before_the_device_do_not_come_one_at_a_time(queue_ns: int, figures: set[str]) -> None:
    """A scheduler that gives the device one of sixteen requests at a time."""
    reads = SeenCell("read", 1000, 4096 * 1000, queue_ns=queue_ns, device_ns=10**9, total_ns=queue_ns + 10**9,
                     depths=[(0, 1000)])  # fmt: skip
    totals = WatchTotals()
    totals.add(WatchInterval(0, SECOND, [SeenDevice("sda", [reads])]))
    assert {one.figure for one in opinions(totals.devices["sda"], 0, totals.seconds)} == figures


@pytest.mark.parametrize(("sequential_bytes", "figures"), [(8 << 10, {"sequential_writes_share"}), (256 << 10, set())])
def test_only_sequential_requests_are_called_sequential_but_small(sequential_bytes: int, figures: set[str]) -> None:
    """Beside 1,000 random writes of 4 KiB, which make the mean of all writes small."""
    count = (100 << 20) // sequential_bytes
    writes = SeenCell("write", count + 1000, count * sequential_bytes + 1000 * 4096,
                      sequential=count, sequential_bytes=count * sequential_bytes)  # fmt: skip
    totals = WatchTotals()
    totals.add(WatchInterval(0, SECOND, [SeenDevice("sda", [writes])]))
    said = {one.figure for one in opinions(totals.devices["sda"], 0, totals.seconds)}
    assert {figure for figure in said if figure.startswith("sequential")} == figures


def test_a_drivers_commands_are_in_no_verdict() -> None:
    """A program that asks a disk for its serial number makes nothing saturated."""
    reads = SeenCell("read", 1000, 4096 * 1000, queue_ns=1, device_ns=10**9, total_ns=10**9 + 1)
    asked = SeenCell("other", 500, 20 * 500, queue_ns=10**11, device_ns=1, total_ns=10**11 + 1)
    totals = WatchTotals()
    totals.add(WatchInterval(0, SECOND, [SeenDevice("sda", [reads, asked])]))
    assert "waiting_share" not in {one.figure for one in opinions(totals.devices["sda"], 0, totals.seconds)}


def test_a_cgroup_at_its_limit_is_told() -> None:
    said = held_back("sda", "/batch", Throttle("riops", 200), [199.0, 20.0, 201.0, 195.0])
    assert said is not None
    assert "its limit of 200 requests/s (riops) in 3 of 4 intervals" in said.text
    assert held_back("sda", "/batch", Throttle("riops", 200), [120.0, 150.0, 199.0]) is None


@seen_by_kernel
def test_a_throttled_cgroup_is_named(loop: str) -> None:
    root = Path("/sys/fs/cgroup/blkio")
    if not (root / "blkio.throttle.read_iops_device").exists():
        pytest.skip("this host has no cgroup of version 1 with throttling")
    group = root / f"brickyard-test-{os.getpid()}"
    group.mkdir()
    try:
        number = Path(f"/sys/block/{Path(loop).name}/dev").read_text().strip()
        (group / "blkio.throttle.read_iops_device").write_text(f"{number} 200")
        with watching(loop, "--every", "500ms") as running:
            words = ["fio", "--name=held", f"--filename={loop}", "--direct=1", "--size=48m", "--output=/dev/null"]
            inside = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
            shell(*inside, *words, "--rw=randread", "--bs=4k", "--time_based", "--runtime=2")
            found = running.ended()
    finally:
        group.rmdir()
    said = [one for one in found["verdicts"] if one["figure"] == "cgroup_at_limit_share"]
    assert said, found["processes"]
    assert f"/blkio/{group.name}" in said[0]["text"]

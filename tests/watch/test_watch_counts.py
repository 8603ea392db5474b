"""The counts of a watch beside the kernel's own, and beside those of another watch."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from brickyard.databases.ephemeral import ephemeral_postgres
from brickyard.lab import disks
from watch_support import counters, fio, loaded, loop, moved, seen_by_kernel, settle, shell, slow_disk, watching, zram

__all__ = ["loop", "slow_disk", "zram"]


def counted(device: dict[str, Any]) -> dict[str, int]:
    """The same from a watch: the kernel counts a flush without data as a write."""

    def of(key: str, *names: str) -> int:
        return sum(device["operations"].get(name, {}).get(key, 0) for name in names)

    return {
        "reads": of("requests", "read"),
        "read_bytes": of("bytes", "read"),
        "writes": of("requests", "write", "durable_write", "write_zeroes", "flush"),
        "write_bytes": of("bytes", "write", "durable_write", "write_zeroes"),
        "merges": device["merged_bios"] + device["merged_requests"],
        "discards": of("requests", "discard"),
        "flushes": of("requests", "flush_command"),
    }


def agree(found: dict[str, Any], before: list[int], after: list[int], *, at_the_edges: int = 0) -> None:
    """`at_the_edges`: requests that may be in one of the two alone, where a load goes on all the time."""
    (device,) = found["devices"]
    seen, kernel = counted(device), moved(before, after)
    flushes = kernel.pop("flushes")
    assert seen["flushes"] == pytest.approx(flushes, rel=0.001, abs=at_the_edges)
    writes = kernel.pop("writes")  # with flushes among them
    assert seen["writes"] == pytest.approx(writes, rel=0.001, abs=at_the_edges)
    assert {key: seen[key] for key in kernel} == pytest.approx(kernel, rel=0.001)
    assert found["lost"]["entries"] == 0


@seen_by_kernel
def test_counts_are_those_of_the_kernel_over_fio_and_dd(loop: str) -> None:
    """Sizes from 512 B to 1 MiB, flushes, durable writes, discards, and what the page cache writes and merges."""
    settle()
    before = counters(loop)
    with watching(loop) as running:
        fio(loop, "--rw=randrw", "--bsrange=512-1m", "--ioengine=libaio", "--iodepth=8", "--fsync=16")
        fio(loop, "--rw=write", "--bs=8k", "--io_size=2m", "--sync=1")
        fio(loop, "--rw=randtrim", "--bs=64k", "--io_size=4m")
        shell("dd", "if=/dev/zero", f"of={loop}", "bs=1M", "count=64", "conv=fsync")
        shell("dd", f"if={loop}", "of=/dev/null", "bs=64k", "iflag=nocache", "count=500")
        settle()
        after = counters(loop)
        found = running.ended()
    assert moved(before, after)["flushes"] > 0
    assert moved(before, after)["discards"] > 0
    agree(found, before, after)
    (device,) = found["devices"]
    assert device["in_flight"] <= 1
    assert device["operations"]["durable_write"]["requests"] == 256
    assert device["operations"]["read"]["read_ahead_bytes"] > 0, "dd reads through the page cache"


@seen_by_kernel
def test_tracepoints_without_programs_count_the_same(loop: str, tmp_path: Path) -> None:
    settle()
    before = counters(loop)
    with watching(loop, "--method", "tracepoints", "--save", str(tmp_path / "seen.byt")) as running:
        assert not loaded(running), "no program is in the kernel"
        fio(loop, "--rw=randrw", "--bsrange=512-1m", "--ioengine=libaio", "--iodepth=8", "--fsync=16")
        fio(loop, "--rw=randtrim", "--bs=64k", "--io_size=4m")
        shell("dd", "if=/dev/zero", f"of={loop}", "bs=1M", "count=64", "conv=fsync")
        settle()
        after = counters(loop)
        found = running.ended()
    agree(found, before, after)
    assert found["method"] == "tracepoints"
    assert "cgroups" in found["not_seen"]
    (device,) = found["devices"]
    asked = [of["requests"] for name, of in device["operations"].items() if name != "flush_command"]
    assert found["traced"] == sum(asked)
    assert any(one["comm"] == "fio" for one in found["processes"])
    assert device["operations"]["read"]["percentiles_ns"]["p50"] > 1000


@seen_by_kernel
def test_tracepoints_see_flushes_and_a_flush_is_slow_once(loop: str) -> None:
    settle()
    with watching(loop, "--method", "tracepoints") as running:
        fio(loop, "--rw=write", "--bs=4k", "--io_size=400k", "--ioengine=psync", "--fsync=10")
        found = running.ended()
    requests = {name: of["requests"] for name, of in found["devices"][0]["operations"].items()}
    assert (requests["write"], requests["flush"]) == (100, requests["flush_command"])
    assert requests["flush"] >= 9
    assert found["lost"]["unknown"] == 0
    assert not [note for note in found["notes"] if note.startswith("Causes are of the")]


@seen_by_kernel
@pytest.mark.parametrize("method", ["bpf", "tracepoints"])
def test_a_drivers_command_is_no_older_than_the_watch(method: str) -> None:
    """virtio asks the disk for its serial number each time; other drivers keep what they have read."""
    serial = next(Path("/sys/block").glob("vd*/serial"), None)
    if serial is None:
        pytest.skip("no disk of virtio")
    begun_ns = time.monotonic_ns()
    with watching(f"/dev/{serial.parent.name}", "--method", method) as running:
        for _ in range(20):
            serial.read_text()
        found = running.ended()
    lasted_ns = time.monotonic_ns() - begun_ns
    (device,) = found["devices"]
    commands = device["operations"].get("other")
    if method == "tracepoints" and (commands is None or commands["requests"] < 20):
        # The kernel may keep the ends of those that end while a CPU is idle from perf; they seem to be under way.
        assert device["in_flight"] + (commands or {"requests": 0})["requests"] >= 20
    if commands is None:
        pytest.skip("the kernel reports no end of a driver's command")
    assert method == "tracepoints" or commands["requests"] >= 20
    assert 0 < commands["max_ns"] <= commands["total_ns"] <= lasted_ns, "they came one after the other"
    assert (commands["before_ns"], commands["queue_ns"]) == (0, 0)
    assert commands["latency"]["queue"] == [], "not known"
    assert commands["total_ns"] == commands["device_ns"]


@seen_by_kernel
def test_counts_are_those_of_the_kernel_on_a_device_without_requests(zram: str) -> None:
    settle()
    before = counters(zram)
    with watching(zram) as running:
        fio(zram, "--rw=randrw", "--bsrange=4k-128k", "--bs_unaligned=0", "--io_size=64m", "--ioengine=psync")
        settle()
        after = counters(zram)
        found = running.ended()
    agree(found, before, after)


@seen_by_kernel
def test_counts_are_those_of_the_kernel_over_postgresql(loop: str) -> None:
    # Nothing is written later by the file system itself, so that both count over the same time.
    shell("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", loop)
    with ExitStack() as undo:
        place = Path(undo.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        place.chmod(0o755)  # the server is another account
        shell("mount", loop, str(place))
        undo.callback(shell, "umount", str(place))
        place.chmod(0o755)
        settle()
        with watching(loop) as running:
            settle()
            before = counters(loop)
            with ephemeral_postgres(place, settings={"shared_buffers": "32MB"}) as server:
                import psycopg

                with psycopg.connect(server.dsn, autocommit=True) as connection:
                    connection.execute("create table t as select generate_series(1, 50000) as n")
                    for number in range(50):
                        connection.execute("insert into t values (%s)", (number,))
            settle()
            after = counters(loop)
            found = running.ended()
    agree(found, before, after, at_the_edges=2)
    (device,) = found["devices"]
    commits = device["operations"]["flush"]["requests"] + device["operations"]["durable_write"]["requests"]
    assert commits >= 50, "each commit is flushed"
    assert any("postgres" in one["comm"] for one in found["processes"])


def size_bucket(size_bytes: int) -> tuple[int, bool]:
    """Bytes from which it counts, and whether these alone."""
    lower = 1 << size_bytes.bit_length() - 1
    return lower, lower == size_bytes


@seen_by_kernel
def test_sizes_and_latencies_are_those_of_fios_own_log(slow_disk: disks.About, tmp_path: Path) -> None:
    """Requests of milliseconds, one at a time: what fio itself needs for one is below a bucket."""
    log = tmp_path / "log"
    sizes = "--bssplit=4k/40:16k/40:64k/20"
    with watching(slow_disk.device) as running:
        fio(slow_disk.device, "--rw=randread", sizes, "--number_ios=200", f"--write_lat_log={log}", at_once=True)
        found = running.ended()
    lines = [line.split(",") for line in Path(f"{log}_clat.1.log").read_text().splitlines()]
    logged = sorted(int(words[1]) for words in lines)
    (device,) = found["devices"]
    reads = device["operations"]["read"]
    by_size = {(size["bytes"], size["is_exact"]): size["requests"] for size in reads["sizes"]}
    logged_sizes = Counter(size_bucket(int(words[3])) for words in lines)
    assert by_size == pytest.approx(logged_sizes, abs=1), "an end may be missed"
    buckets = [(one["from_ns"], one["requests"]) for one in reads["latency"]["total"]]
    seen = [from_ns * 17 // 16 for from_ns, requests in buckets for _ in range(requests)]  # the middle of an eighth
    for share in (0.25, 0.5, 0.75, 0.9):
        assert seen[int(share * len(seen))] == pytest.approx(logged[int(share * len(logged))], rel=0.14), share
    assert reads["percentiles_ns"]["p50"] == pytest.approx(logged[len(logged) // 2], rel=0.14)
    assert reads["total_ns"] / reads["requests"] == pytest.approx(sum(logged) / len(logged), rel=0.125)


@seen_by_kernel
def test_tracepoints_tell_requests_for_one_sector_apart(loop: str) -> None:
    settle()
    before = counters(loop)
    with watching(loop, "--method", "tracepoints") as running:
        fio(loop, "--rw=randread", "--bs=4k", "--size=64k", "--ioengine=libaio", "--iodepth=32", "--io_size=16m",
            "--randrepeat=0", "--norandommap")  # fmt: skip
        settle()
        after = counters(loop)
        found = running.ended()
    agree(found, before, after)
    (device,) = found["devices"]
    assert device["in_flight"] == 0
    assert found["lost"]["unknown"] == 0
    assert not [one["text"] for one in found["verdicts"] if one["figure"] == "reads_mean_depth"]


@seen_by_kernel
def test_two_watches_at_once_see_the_same(loop: str) -> None:
    with watching(loop) as first, watching(loop) as second:
        fio(loop, "--rw=randread", "--bs=4k", "--io_size=4m", "--ioengine=psync")
        one, other = first.ended(), second.ended()
    assert [found["devices"][0]["operations"]["read"]["requests"] for found in (one, other)] == [1024, 1024]


def test_counters_see_rates(loop: str) -> None:
    with watching(loop, "--method", "counters", "--every", "200ms") as running:
        fio(loop, "--rw=randread", "--bs=4k", "--io_size=4m", "--ioengine=psync")
        time.sleep(0.5)
        found = running.ended()
    read = found["devices"][0]["operations"]["read"]
    assert (read["requests"], read["bytes"]) == (1024, 4 << 20)

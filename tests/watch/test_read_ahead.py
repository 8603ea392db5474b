"""How much of what is read ahead is used, as a watch sees it, beside what programs read and what the cache holds."""

from __future__ import annotations

import csv
import json
import mmap
import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from brickyard.units import format_percent
from brickyard.watch import metrics
from brickyard.watch.figures import Watched, ahead_line
from brickyard.watch.seen import SeenCell, SeenDevice, WatchInterval
from brickyard.watch.totals import WatchTotals
from brickyard.watch.verdicts import opinions
from watch_support import BRICKYARD, CAN_WATCH, loop, settle, shell, watching

__all__ = ["loop"]
BTF = Path("/sys/kernel/btf/vmlinux")
pages_are_seen = pytest.mark.skipif(
    not CAN_WATCH or b"btf_trace_mm_filemap_get_pages" not in BTF.read_bytes(),
    reason="needs root and a kernel that reports which pages are used (6.14)",
)
SECOND = 1_000_000_000
KIB, MIB = 1 << 10, 1 << 20
BLOCK = 64 * KIB
"""The kernel maps so much around a page that is touched (fault_around_bytes)."""


@pytest.fixture
def ext4(loop: str) -> Iterator[tuple[str, Path]]:
    shell("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", loop)
    with ExitStack() as undo:
        place = Path(undo.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        shell("mount", loop, str(place))
        undo.callback(shell, "umount", str(place))
        yield loop, place


def read_ahead_by(device: str, kib: int) -> None:
    """Holds for files that are opened from then on."""
    Path(f"/sys/block/{Path(device).name}/queue/read_ahead_kb").write_text(f"{kib}\n")


def touched(file: Path, offsets: list[int]) -> None:
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as memory:
        for offset in offsets:
            memory[offset]


def in_cache(*files: Path) -> int:
    found = shell("fincore", "--bytes", "--noheadings", "--output", "RES", *(str(file) for file in files))
    return sum(int(line) for line in found.splitlines())


@pages_are_seen
def test_what_is_read_ahead_is_followed_until_it_is_used_or_dropped(ext4: tuple[str, Path], tmp_path: Path) -> None:
    """What each program read is known by itself; what else was read is in the page cache, and then is dropped."""
    device, place = ext4
    whole, scattered, halves, single = (place / name for name in ("whole", "scattered", "halves", "single"))
    sizes = {whole: 16 * MIB, scattered: 64 * MIB, halves: 8 * MIB, single: 16 * MIB}
    for file, size in sizes.items():
        shell("dd", "if=/dev/zero", f"of={file}", f"bs={MIB}", f"count={size // MIB}", "conv=fsync")
    drop = Path("/proc/sys/vm/drop_caches")
    settle()
    drop.write_text("1")
    draw = random.Random(7)
    table = tmp_path / "table.csv"
    with watching(device, "--read-ahead", "--csv", str(table)) as running:
        read_ahead_by(device, 128)
        shell("dd", f"if={whole}", "of=/dev/null", "bs=64k")
        window = 128 * KIB
        touched(
            halves, [at + more for at in range(0, sizes[halves], window) for more in range(0, window // 2, 4 * KIB)]
        )
        places = draw.sample(range(sizes[single] // (64 * KIB)), 40)
        with single.open("rb", buffering=0) as opened:
            for number in places:  # the kernel reads nothing ahead of these
                os.pread(opened.fileno(), 4 * KIB, number * 64 * KIB)
        read_ahead_by(device, 1024)
        blocks = sorted(draw.sample(range(sizes[scattered] // BLOCK), 60))
        touched(scattered, [number * BLOCK for number in draw.sample(blocks, len(blocks))])
        cached = in_cache(*sizes)
        drop.write_text("1")
        found = running.ended()
    seen = found["devices"][0]["read_ahead"]
    mapped = sizes[halves] // 2 + len(blocks) * BLOCK
    used = sizes[whole] + len(places) * 4 * KIB + mapped
    assert seen["followed_bytes"] == pytest.approx(cached, rel=0.01)
    assert seen["used_bytes"] == pytest.approx(used, rel=0.01)
    assert seen["mapped_bytes"] == pytest.approx(mapped, rel=0.05), "a page that is read for a touch may be used itself"
    assert seen["dropped_bytes"] == pytest.approx(cached - used, rel=0.01)
    assert seen["unused_bytes"] + seen["unfollowed_bytes"] <= 0.01 * cached
    assert used < cached / 2, "most of what is read around a page is never used"
    said = {one["figure"]: one["value"] for one in found["verdicts"]}
    assert said["read_ahead_used_share"] == pytest.approx(used / cached, rel=0.02)
    rows = list(csv.DictReader(table.open()))
    assert sum(int(row["ahead_used_bytes"] or 0) for row in rows) == seen["used_bytes"]
    unseen = json.loads(
        shell(*BRICKYARD, "watch", device, "--for", "100ms", "--read-ahead", "--json", "--method", "counters")
    )
    assert unseen["devices"][0]["read_ahead"] is None
    assert any("not available: only programs in the kernel" in note for note in unseen["notes"])


@pages_are_seen
def test_all_that_large_reads_take_is_used(ext4: tuple[str, Path]) -> None:
    """The kernel tells of no batch of a read before a page that is still being read: a tenth was called unused."""
    device, place = ext4
    sizes, gaps = {"1M": 32 * MIB, "16M": 32 * MIB}, place / "gaps"
    for name, size in sizes.items():
        shell("dd", "if=/dev/zero", f"of={place / name}", f"bs={MIB}", f"count={size // MIB}", "conv=fsync")
    shell("dd", "if=/dev/zero", f"of={gaps}", f"bs={MIB}", "count=16", "conv=fsync")
    settle()
    Path("/proc/sys/vm/drop_caches").write_text("1")
    with watching(device, "--read-ahead") as running:
        for name in sizes:
            shell("dd", f"if={place / name}", "of=/dev/null", f"bs={name}")
        taken = 0
        with gaps.open("rb", buffering=0) as opened:
            for at in range(0, 16 * MIB, 320 * KIB):
                taken += len(os.pread(opened.fileno(), 256 * KIB, at))
        cached = in_cache(*(place / name for name in sizes), gaps)
        found = running.ended()
    seen = found["devices"][0]["read_ahead"]
    assert seen["followed_bytes"] == pytest.approx(cached, rel=0.01)
    assert seen["used_bytes"] == pytest.approx(sum(sizes.values()) + taken, rel=0.005)


def left(used: int, dropped: int) -> str:
    return format_percent((64 * MIB - used - dropped) / (64 * MIB))


def test_read_ahead_that_is_hardly_used_has_a_verdict() -> None:
    def said(requests: int, used: int, dropped: int = 0) -> list[str]:
        reads = SeenCell("read", requests, 64 * MIB, read_ahead=requests, ahead_followed_bytes=64 * MIB,
                         ahead_used_bytes=used, ahead_dropped_bytes=dropped)  # fmt: skip
        totals = WatchTotals(sees_ahead=True)
        totals.add(WatchInterval(0, SECOND, [SeenDevice("sda", [reads])]))
        told = opinions(totals.devices["sda"], 0, totals.seconds)
        lines = metrics.exposition(totals, "bpf").splitlines()
        line = ahead_line(Watched(totals, "bpf", ""), totals.devices["sda"])
        assert line.startswith("sda: of 64 MiB read ahead, ")
        assert line.endswith(
            f" {format_percent(dropped / (64 * MIB))} dropped unused, {left(used, dropped)} not used yet"
        )
        assert f'brickyard_watch_ahead_used_bytes_total{{device="sda"}} {used}' in lines
        return [one.text for one in told if one.figure == "read_ahead_used_share"]

    assert said(100, 33 * MIB) == said(99, MIB) == []
    (text,) = said(100, 20 * MIB, 10 * MIB)
    assert text.startswith("read-ahead reads 3.20 times what is used (20 MiB of 64 MiB so far): lower read_ahead_kb")
    (text,) = said(100, 0)
    assert text.startswith("nothing of what is read ahead is used (0 B of 64 MiB so far)")

"""What a watch costs: fio's random reads without a watch, with histograms, with every request kept.

The three alternate within one run, and medians are taken. On zram, which needs no time of a device: as fast as two
busy cores can (nothing hides the cost), and at fixed rates and depths that leave CPU free, 250,000 IOPS among them. On
devices that end requests themselves: the disk below a file, and an emulated disk (`brickyard lab`: a model that real
time drives, below a loop device). Each row has the rate that is kept, the CPU time of the whole host that comes on
top, and by the kernel's own statistics the time that one run of a program of the watch takes. The table is the one in
docs/benchmarks.md.

    python benches/watch.py [--only LOAD]… [--rounds N] [--seconds S] [--file-in DIR] [--smoke]

Needs root and zram; the emulated disk needs FUSE. About eight minutes for all loads.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brickyard.lab import disks

CONTROL = Path("/sys/class/zram-control")
SIZE_MIB = 512
TIMEOUT_S = 120
WAYS: dict[str, list[str] | None] = {"no watch": None, "histograms": [], "every request": ["--save"]}
BASE = "no watch"


@dataclass(frozen=True)
class Load:
    about: str
    place: str
    jobs: int
    depth: int
    rate: int = 0


ZRAM, FILE, EMULATED = "zram", "file", "emulated"
LOADS = {
    "saturated": Load("zram, as fast as it goes, 2 jobs 16 deep", ZRAM, 2, 16),
    "fixed": Load("zram, 250,000/s, 2 jobs 16 deep", ZRAM, 2, 16, 250_000),
    "half": Load("zram, 125,000/s, 2 jobs 16 deep", ZRAM, 2, 16, 125_000),
    "one deep": Load("zram, 125,000/s, 2 jobs 1 deep", ZRAM, 2, 1, 125_000),
    "deep": Load("zram, 125,000/s, 2 jobs 64 deep", ZRAM, 2, 64, 125_000),
    "file": Load("disk below a file, as fast as it goes, 2 jobs 16 deep", FILE, 2, 16),
    "emulated": Load("emulated disk, as fast as it goes, 8 deep", EMULATED, 1, 8),
}


@dataclass
class Measured:
    iops: float
    busy_cores: float
    lost: int
    seen_share: float
    run_ns: float
    """Of a program of the watch in the kernel."""


def busy_s() -> float:
    """CPU time of the host that was not idle."""
    words = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(words) - words[3] - words[4]) / os.sysconf("SC_CLK_TCK")


def fio(target: str, load: Load, seconds: int) -> tuple[float, int]:
    """The rate, and how many requests there were in all."""
    words = ["fio", "--name=bench", f"--filename={target}", "--rw=randread", "--bs=4k", "--direct=1", "--time_based"]
    words += ["--ioengine=io_uring", f"--iodepth={load.depth}", f"--size={SIZE_MIB}m", f"--runtime={seconds}"]
    words += [f"--numjobs={load.jobs}", "--group_reporting", "--output-format=json", "--norandommap"]
    words += [f"--rate_iops={load.rate // load.jobs}"] if load.rate else []
    ended = subprocess.run(words, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    found: dict[str, Any] = json.loads(ended.stdout)["jobs"][0]["read"]
    return float(found["iops"]), int(found["total_ios"])


@dataclass(frozen=True)
class Place:
    """What fio reads, and the device that is watched."""

    target: str
    device: str


def measured(place: Place, options: list[str] | None, load: Load, seconds: int, room: Path) -> Measured:
    if options is None:
        before = busy_s()
        rate, _ = fio(place.target, load, seconds)
        return Measured(rate, (busy_s() - before) / seconds, 0, 1.0, 0.0)
    trace = room / "bench.byt"
    words = [sys.executable, "-m", "brickyard", "watch", place.device, "--method", "bpf", "--json"]
    words += [*options, str(trace)] if options else []
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if line.startswith("watching"))
        before = busy_s()
        rate, requests = fio(place.target, load, seconds)
        busy = busy_s() - before
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=TIMEOUT_S)
    trace.unlink(missing_ok=True)
    told = json.loads(out)
    seen = told["traced"] if options else told["devices"][0]["operations"]["read"]["requests"]
    programs = told["programs"]
    lost = told["lost"]["ring"] + told["lost"]["entries"]
    return Measured(rate, busy / seconds, lost, seen / requests, programs["ns"] / max(programs["runs"], 1))


def fill(target: str) -> None:
    words = ["fio", "--name=fill", f"--filename={target}", "--rw=write", "--bs=1m", "--direct=1", "--output=/dev/null"]
    subprocess.run([*words, f"--size={SIZE_MIB}m", "--end_fsync=1"], check=True, timeout=TIMEOUT_S)


@contextmanager
def zram() -> Iterator[Place]:
    number = (CONTROL / "hot_add").read_text().strip()
    device = f"/dev/zram{number}"
    try:
        Path(f"/sys/block/zram{number}/disksize").write_text(f"{SIZE_MIB}M")
        fill(device)
        yield Place(device, device)
    finally:
        (CONTROL / "hot_remove").write_text(number)


@contextmanager
def file(folder: Path) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir=folder) as room:
        target = Path(room) / "data"
        number = os.stat(room).st_dev
        device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
        if not device.exists():
            raise SystemExit(f"{folder}: no block device is below it; name another with --file-in")
        fill(str(target))
        yield Place(str(target), f"/dev/{device.resolve().name}")


@contextmanager
def emulated() -> Iterator[Place]:
    about = disks.up(disks.Wanted("watch-bench", "sim:msr-2003-wd", 1 << 30, "honest", 8 << 20, None, None, 8.0))
    try:
        yield Place(about.device, about.device)
    finally:
        disks.down("watch-bench")


def rows(load: Load, place: Place, rounds: int, seconds: int, room: Path) -> Iterator[str]:
    found: list[dict[str, Measured]] = []
    for turn in range(rounds):
        names = list(WAYS)[turn % 3 :] + list(WAYS)[: turn % 3]
        found.append({name: measured(place, WAYS[name], load, seconds, room) for name in names})
    for name in WAYS:
        some = [one[name] for one in found]
        rates = [one.iops for one in some]
        share = statistics.median(one[name].iops / one[BASE].iops for one in found)
        more = statistics.median(one[name].busy_cores - one[BASE].busy_cores for one in found)
        busy = statistics.median(one.busy_cores for one in some)
        cost = f"{share:.1%} | {busy:.2f}" + ("" if name == BASE else f" ({more:+.2f})")
        seen = "" if name == BASE else f"{min(one.seen_share for one in some):.2%}"
        run = "" if name == BASE else f"{statistics.median(one.run_ns for one in some):.0f}"
        spread = f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"
        begin = load.about if name == BASE else ""
        yield f"| {begin} | {name} | {spread} | {cost} | {run} | {sum(one.lost for one in some):,} | {seen} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=LOADS, action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--file-in", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--smoke", action="store_true", help="two loads once, too short for a figure")
    asked = parser.parse_args()
    names = asked.only or (["saturated", "file"] if asked.smoke else list(LOADS))
    if asked.smoke:
        asked.rounds, asked.seconds = 1, 1
    if os.geteuid() != 0 or not CONTROL.exists():
        print("left out: needs root and zram")
        return
    print(f"Medians (least to most) of {asked.rounds} rounds of {asked.seconds} s\n")
    columns = "load | | IOPS | of no watch, within rounds | busy cores (more) | ns per run | lost | requests seen"
    print(f"| {columns} |\n|{'---|' * 8}")
    for name in names:
        load = LOADS[name]
        with ExitStack() as undo:
            room = Path(undo.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
            at = {ZRAM: zram, FILE: lambda: file(asked.file_in), EMULATED: emulated}[load.place]
            place = undo.enter_context(at())
            for row in rows(load, place, asked.rounds, asked.seconds, room):
                print(row, flush=True)


if __name__ == "__main__":
    main()

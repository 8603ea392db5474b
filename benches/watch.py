"""What a watch costs: fio's random reads of 4 KiB on zram, without a watch, with histograms, with every request kept.

The three alternate within one run, and medians are taken. zram needs no time of a device, so nothing hides the cost.
With `--rate` fio offers a rate of its own and the CPU time of the host is compared instead.

    python benches/watch.py [--rounds N] [--seconds S] [--jobs N] [--rate IOPS] [--smoke]

Needs root and zram.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONTROL = Path("/sys/class/zram-control")
SIZE_MIB = 512
TIMEOUT_S = 120
WAYS: dict[str, list[str] | None] = {"no watch": None, "histograms": [], "every request": ["--save"]}


@dataclass
class Measured:
    iops: float
    busy_s: float
    lost: int
    seen_share: float


def busy_s() -> float:
    """CPU time of the host that was not idle."""
    words = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(words) - words[3] - words[4]) / os.sysconf("SC_CLK_TCK")


def fio(device: str, asked: argparse.Namespace) -> tuple[float, int]:
    """The rate, and how many requests there were in all."""
    words = ["fio", "--name=bench", f"--filename={device}", "--rw=randread", "--bs=4k", "--direct=1", "--time_based"]
    words += ["--ioengine=io_uring", "--iodepth=16", f"--size={SIZE_MIB}m", f"--runtime={asked.seconds}"]
    words += [f"--numjobs={asked.jobs}", "--group_reporting", "--output-format=json", "--norandommap"]
    words += [f"--rate_iops={asked.rate // asked.jobs}"] if asked.rate else []
    ended = subprocess.run(words, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    found: dict[str, Any] = json.loads(ended.stdout)["jobs"][0]["read"]
    return float(found["iops"]), int(found["total_ios"])


def measured(device: str, options: list[str] | None, asked: argparse.Namespace, room: Path) -> Measured:
    if options is None:
        before = busy_s()
        rate, _ = fio(device, asked)
        return Measured(rate, busy_s() - before, 0, 1.0)
    trace = room / "bench.byt"
    words = [sys.executable, "-m", "brickyard", "watch", device, "--json", *options, *([str(trace)] if options else [])]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if line.startswith("watching"))
        before = busy_s()
        rate, requests = fio(device, asked)
        busy = busy_s() - before
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=TIMEOUT_S)
    trace.unlink(missing_ok=True)
    told = json.loads(out)
    seen = told["traced"] if options else told["devices"][0]["operations"]["read"]["requests"]
    return Measured(rate, busy, told["lost"]["ring"] + told["lost"]["entries"], seen / requests)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="everything once, too short for a figure")
    asked = parser.parse_args()
    if asked.smoke:
        asked.rounds, asked.seconds = 1, 1
    if os.geteuid() != 0 or not CONTROL.exists():
        print("left out: needs root and zram")
        return
    number = (CONTROL / "hot_add").read_text().strip()
    device = f"/dev/zram{number}"
    rounds: list[dict[str, Measured]] = []
    try:
        Path(f"/sys/block/zram{number}/disksize").write_text(f"{SIZE_MIB}M")
        fill = [
            "fio",
            "--name=fill",
            f"--filename={device}",
            "--rw=write",
            "--bs=1m",
            "--direct=1",
            "--output=/dev/null",
        ]
        subprocess.run([*fill, f"--size={SIZE_MIB}m"], check=True, timeout=TIMEOUT_S)
        with tempfile.TemporaryDirectory() as room:
            for turn in range(asked.rounds):
                names = list(WAYS)[turn % 3 :] + list(WAYS)[: turn % 3]
                rounds.append({name: measured(device, WAYS[name], asked, Path(room)) for name in names})
    finally:
        (CONTROL / "hot_remove").write_text(number)
    print(f"Medians (least to most) of {asked.rounds} rounds of {asked.seconds} s, {asked.jobs} jobs\n")
    print("| | IOPS | of no watch, within rounds | host's CPU s | lost | requests seen |\n|---|---|---|---|---|---|")
    for name in WAYS:
        some = [one[name] for one in rounds]
        rates = [one.iops for one in some]
        share = statistics.median(one[name].iops / one["no watch"].iops for one in rounds)
        seen = min(one.seen_share for one in some)
        print(
            f"| {name} | {statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f}) | {share:.1%}"
            f" | {statistics.median(one.busy_s for one in some):.2f} | {sum(one.lost for one in some):,} | {seen:.2%} |"
        )


if __name__ == "__main__":
    main()

"""What FUSE over io_uring saves: random reads of an emulated disk without a model, by either way on which the kernel
may hand requests over, side by side.

    python benches/lab_ways.py [--duration 2s] [--repeat 3] [--smoke]

Needs root, /dev/fuse, loop devices and Linux 6.14 or later. It switches the host's setting of FUSE, and back at the
end.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SETTING = Path("/sys/module/fuse/parameters/enable_uring")
WAYS = {"N": "/dev/fuse", "Y": "io_uring"}
DEPTHS = (1, 32)
LOAD = "sqlio-random-read-1"
NAME = "lab-ways"


def brickyard(*words: str) -> Any:
    """Its document; what it says goes nowhere."""
    done = subprocess.run(
        [sys.executable, "-m", "brickyard", *words, "--json"], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"brickyard {' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def rates(way: str, store: Path, duration: str, repeat: int) -> dict[int, list[float]]:
    """Requests/s, by depth."""
    SETTING.write_text(way)
    device = brickyard("lab", "up", NAME)["device"]
    try:
        if brickyard("lab", "status", NAME)["is_over_ring"] != (way == "Y"):
            raise SystemExit(f"the disk does not take requests by {WAYS[way]}")
        found: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
        changes = [f"duration={duration}", "warmup=0s", "fill=never"]
        for depth in [depth for depth in DEPTHS for _ in range(repeat)]:
            words = [part for change in (*changes, f"depth={depth}") for part in ("--set", change)]
            place = ["--overwrite", device, "--store", str(store)]
            run = brickyard("run", LOAD, device, *place, *words)["run"]
            (total,) = brickyard("show", str(run), "--store", str(store))["totals"]
            found[depth].append(total["iops"])
        return found
    finally:
        subprocess.run([sys.executable, "-m", "brickyard", "lab", "down", NAME], check=True, stdout=subprocess.DEVNULL)


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--duration", default="2s")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="once, too short for a figure")
    options = parser.parse_args()
    duration, repeat = ("200ms", 1) if options.smoke else (options.duration, options.repeat)
    try:
        before = SETTING.read_text()
        SETTING.write_text(before)
    except OSError as error:
        print(f"{SETTING}: {error.strerror}; nothing is compared")
        return
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as room:
            found = {way: rates(way, Path(room, "runs.db"), duration, repeat) for way in WAYS}
    finally:
        SETTING.write_text(before)
    print("| in flight | /dev/fuse, reads/s | io_uring, reads/s | ratio of medians |\n|---|---|---|---|")
    for depth in DEPTHS:
        cells = [spread(found[way][depth]) for way in WAYS]
        ratio = statistics.median(found["Y"][depth]) / statistics.median(found["N"][depth])
        print(f"| {depth} | {cells[0]} | {cells[1]} | {ratio:.2f} |")


if __name__ == "__main__":
    main()

"""Whether an emulated disk is as fast as its model: loads in real time on `lab up` beside the same in virtual time.

    python benches/lab_sim.py [--duration 8s] [--models sim:msr-2003-wd …] [--smoke]

Needs root, /dev/fuse and loop devices, and a quiet host: a disk counts the requests that it ended late.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LOADS = (
    "sqlio-random-read-1",
    "sqlio-random-read-4",
    "sqlio-random-write-4",
    "sqlio-sequential-read-4",
    "mixed-70-30",
    "group-commit",
)
MODELS = ("sim:msr-2003-wd", "sim:cheetah-15k4-300", "sim:barracuda-7200-11-500")
AGREED = 0.05


def brickyard(*words: str) -> Any:
    """Its document; progress goes nowhere."""
    done = subprocess.run(
        [sys.executable, "-m", "brickyard", *words, "--json"], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"brickyard {' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def rate(load: str, target: str, store: Path, duration: str) -> float:
    """IOPS of all streams."""
    words = ["run", load, target, "--store", str(store), "--set", "warmup=0s", "--set", "fill=never"]
    words += ["--set", f"duration={duration}"]
    consent = [] if target.startswith("sim:") else ["--overwrite", target]
    run = brickyard(*words, *consent)["run"]
    totals = brickyard("show", str(run), "--store", str(store))["totals"]
    return sum(row["iops"] or 0.0 for row in totals)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--duration", default="8s")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--smoke", action="store_true", help="one load, too short for a figure")
    options = parser.parse_args()
    models, loads = (options.models[:1], LOADS[:1]) if options.smoke else (options.models, LOADS)
    duration = "500ms" if options.smoke else options.duration
    print("| model | load | emulated IOPS | simulated IOPS | difference | late |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="bench-") as room:
        store = Path(room, "runs.db")
        for model in models:
            for load in loads:
                device = brickyard("lab", "up", "lab-sim", "--model", model)["device"]
                try:
                    real = rate(load, device, store, duration)
                    status = brickyard("lab", "status", "lab-sim")["status"]
                finally:
                    subprocess.run([sys.executable, "-m", "brickyard", "lab", "down", "lab-sim"], check=True,
                                   stdout=subprocess.DEVNULL)  # fmt: skip
                virtual = rate(load, model, store, duration)
                ended = status["reads"] + status["writes"] + status["flushes"]
                agreed = "" if abs(real / virtual - 1) <= AGREED else " !"
                print(
                    f"| {model} | {load} | {real:,.1f} | {virtual:,.1f} | {real / virtual - 1:+.1%}{agreed} |"
                    f" {status['late'] / ended:.1%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

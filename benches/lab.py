"""What `brickyard lab durability` must be able to find, and how fast: a table of bars, asked beside measured.

    python benches/lab.py [--states 2000] [--duration 10s] [--logs FOLDER] [--smoke]

Needs root, /dev/fuse and loop devices. It takes about 15 minutes on two cores; figures of fewer states are coarse.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TIMES = 10  # as often is a state judged again
RATE_S = 600

# Share of states that must be found, by configuration.
SHARES = {
    "fsync=off": 0.95,
    "synchronous_commit=off": 0.95,
    "lying cache": 0.65,
    "full_page_writes=off, torn": 0.60,
    "the same without checksums": 0.40,
}
HONEST, LOSSY = "honest cache", "cache loses 1 flush in 50"


def brickyard(*words: str) -> Any:
    """Its document; progress goes to the terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "brickyard", *words, "--json"], check=False, stdout=subprocess.PIPE, text=True
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"brickyard {' '.join(words)} ended with {done.returncode}")
    return json.loads(done.stdout)


def line(what: str, asked: str, found: str, *, met: bool) -> None:
    print(f"| {what} | {asked} | {found} | {'yes' if met else 'NO'} |", flush=True)


def again(one: Any) -> tuple[int, int]:
    """How many of a configuration's findings, judged again each time by its seed, were the same every time."""
    words = ["lab", "crash", "explore", "--log", one["log"], "--cache", one["cache"], "--aim", one["aim"]]
    words += ["--torn", str(one["torn_bytes"] or "none")]
    seeds = [first["seed"] for first in one["first"].values()]
    if not seeds:
        return 0, 0
    for seed in seeds:
        words += ["--only", seed]
    asked = {kind: int(kind in one["first"]) for kind in ("lost", "corrupt")}
    tries = [brickyard(*words) for _ in range(TIMES)]
    same = all({kind: document[kind] for kind in asked} == asked for document in tries)
    return len(seeds) * same, len(seeds)


def bars(found: dict[str, Any]) -> None:
    print("| bar | asked | measured | met |\n|---|---|---|---|")
    honest = found[HONEST]
    states = sum(one["states"] for one in found.values())
    seconds = sum(one["judging_s"] for one in found.values())
    rate, distinct = (honest[key] / honest["judging_s"] * RATE_S for key in ("states", "distinct"))
    shown = f"{rate:,.0f} (of {honest['states']:,} in {honest['judging_s']:.0f} s)"
    line("states in 10 minutes, honest cache", "≥ 3,000", shown, met=rate >= 3000)
    line("of these distinct", "≥ 2,000", f"{distinct:,.0f}", met=distinct >= 2000)
    alarms = honest["lost"] + honest["corrupt"]
    line("false alarms, honest cache", "0", f"{alarms} in {honest['states']:,} states", met=not alarms)
    for name, share in SHARES.items():
        one = found[name]
        hit = one["lost"] + one["corrupt"]
        text = f"{hit / one['states']:.0%} ({hit:,} of {one['states']:,})"
        line(f"found: {name}", f"≥ {share:.0%}", text, met=hit >= share * one["states"])
    lossy = found[LOSSY]
    hit = lossy["lost"] + lossy["corrupt"]
    line(f"found: {LOSSY}", "within 1,000 states", f"{hit:,} of {lossy['states']:,}", met=hit > 0)
    for name in ("no cache", "nobarrier"):
        one = found[name]
        hit = one["lost"] + one["corrupt"]
        met = (hit > 0) == one["must_fail"]
        line(f"found: {name}", "> 0" if one["must_fail"] else "0", f"{hit:,} of {one['states']:,}", met=met)
    unjudged = sum(one["not_judged"] for one in found.values())
    line("states that could not be judged", "0", f"{unjudged:,} of {states:,}", met=not unjudged)
    pairs = [again(one) for one in found.values()]
    same, judged = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    line("the same verdict 10 of 10 times by its seed", "all", f"{same} of {judged} findings", met=same == judged)
    print(f"\n{states:,} states were judged in {seconds:,.0f} s on {len(os.sched_getaffinity(0))} cores.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=2000)
    parser.add_argument("--duration", default="10s")
    parser.add_argument("--logs", type=Path, help="a new folder in which the logs stay")
    parser.add_argument("--smoke", action="store_true", help="too few states for a figure")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as room:
        logs = options.logs or Path(room, "logs")
        if options.smoke:
            told = brickyard("lab", "durability", "files", "--states", "10", "--duration", "1s", "--logs", str(logs))
            print(f"{sum(one['states'] for one in told['configurations'])} states were judged")
            return
        words = ("--states", str(options.states), "--duration", options.duration, "--logs", str(logs))
        told = brickyard("lab", "durability", *words)
        bars({one["name"]: one for one in told["configurations"]})


if __name__ == "__main__":
    main()

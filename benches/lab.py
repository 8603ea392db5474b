"""What `brickyard lab durability` must be able to find, and how fast: a table of bars, asked beside measured.

    python benches/lab.py [--states 4000] [--duration 10s] [--logs FOLDER] [--smoke]

So many states are of the honest cache, half of them of the lossy one, and a tenth of each other configuration. It needs
root, /dev/fuse and loop devices, takes about 18 minutes on two cores, and ends with 1 where a bar is missed; figures of
fewer states are coarse.
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

UNCHECKED = "the same without checksums"

# Share of states that must be found, by configuration.
SHARES = {
    "fsync=off": 0.95,
    "synchronous_commit=off": 0.95,
    "lying cache": 0.65,
    "full_page_writes=off, torn": 0.60,
    UNCHECKED: 0.40,
}
JUDGED = ("lost", "corrupt")
HONEST, LOSSY = "honest cache", "cache loses 1 flush in 50"


def brickyard(*words: str) -> Any:
    """Its document; progress goes to the terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "brickyard", *words, "--json"], check=False, stdout=subprocess.PIPE, text=True
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"brickyard {' '.join(words)} ended with {done.returncode}")
    return json.loads(done.stdout)


def line(what: str, asked: str, found: str, *, met: bool) -> bool:
    print(f"| {what} | {asked} | {found} | {'yes' if met else 'NO'} |", flush=True)
    return met


def again(one: Any) -> tuple[int, int]:
    """How many of a configuration's findings were the same each time that their seed was judged again."""
    words = ["lab", "crash", "explore", "--log", one["log"], "--cache", one["cache"], "--aim", one["aim"]]
    words += ["--torn", str(one["torn_bytes"] or "none")]
    seeds = {kind: first["seed"] for kind, first in one["first"].items()}
    same = 0
    for kind, seed in seeds.items():
        tries = [brickyard(*words, "--only", seed) for _ in range(TIMES)]
        same += all({k: first["seed"] for k, first in told["first"].items()} == {kind: seed} for told in tries)
    return same, len(seeds)


def bars(found: dict[str, Any]) -> bool:
    """Whether all are met."""
    print("| bar | asked | measured | met |\n|---|---|---|---|")
    honest = found[HONEST]
    states = sum(one["states"] for one in found.values())
    seconds = sum(one["judging_s"] for one in found.values())
    count, took_s = honest["states"], honest["judging_s"]
    rate = count / took_s * RATE_S
    all_met = [line("states in 10 minutes, honest cache", "≥ 3,000", f"{count:,} in {took_s:.0f} s", met=rate >= 3000)]
    shown = f"{honest['distinct']:,} of these {count:,}"
    all_met.append(line("of these distinct", "≥ 2,000", shown, met=honest["distinct"] >= 2000 and took_s <= RATE_S))
    alarms = honest["lost"] + honest["corrupt"]
    shown = f"{alarms} in {count:,} states of {honest['cuts']:,} cuts"
    all_met.append(line("false alarms, honest cache", "0 in ≥ 2,000", shown, met=not alarms and count >= 2000))
    for name, share in SHARES.items():
        one = found[name]
        hit = one["lost"] + one["corrupt"]
        text = f"{hit / one['states']:.0%} ({hit:,} of {one['states']:,})"
        if name == UNCHECKED and "corrupt" in one["first"]:
            text += f"; the first: {one['first']['corrupt']['why']}"
        all_met.append(line(f"found: {name}", f"≥ {share:.0%}", text, met=hit >= share * one["states"]))
    lossy = found[LOSSY]
    hit = lossy["lost"] + lossy["corrupt"]
    shown = f"{hit:,} of {lossy['states']:,}"
    all_met.append(line(f"found: {LOSSY}", "≥ 1 in 1,000", shown, met=hit * 1000 >= lossy["states"]))
    for name in ("no cache", "nobarrier"):
        one = found[name]
        hit = one["lost"] + one["corrupt"]
        asked, shown = "> 0" if one["must_fail"] else "0", f"{hit:,} of {one['states']:,}"
        all_met.append(line(f"found: {name}", asked, shown, met=(hit > 0) == one["must_fail"]))
    unjudged = sum(one["not_judged"] for one in found.values())
    whys = [told["why"] for one in found.values() for kind, told in one["first"].items() if kind not in JUDGED]
    shown = "; ".join([f"{unjudged:,} of {states:,}", *whys])
    all_met.append(line("states that could not be judged", "0", shown, met=not unjudged))
    pairs = [again(one) for one in found.values()]
    same, judged = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    shown = f"{same} of {judged} findings"
    all_met.append(line("the same verdict 10 of 10 times by its seed", "all", shown, met=same == judged))
    print(f"\n{states:,} states were judged in {seconds:,.0f} s on {len(os.sched_getaffinity(0))} cores.")
    return all(all_met)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=4000)
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
        if not bars({one["name"]: one for one in told["configurations"]}):
            sys.exit(1)


if __name__ == "__main__":
    main()

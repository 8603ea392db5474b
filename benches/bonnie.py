"""Bonnie's block phases, side by side with Debian's bonnie++ in one run: block output, rewrite, block input.

Both use blocks of 8 KiB on a file of the same size in the same directory; rounds alternate, and medians are taken. Left
out, since they are not the same thing: the per-character phases, where bonnie++ 2.00 makes a system call for each byte
that it writes, and seeks, which it makes by five processes.

    python benches/bonnie.py DIRECTORY [--rounds N] [--mib N] [--smoke]

On tmpfs (/dev/shm) both show what the tool itself costs; elsewhere choose more than the memory.
"""

from __future__ import annotations

import argparse
import getpass
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

COLUMNS = {"block output": 11, "rewrite": 13, "block input": 17}
"""Where they stand in bonnie++'s line of values (bon_csv2txt(1), format 1.98), in K/s."""
OURS = {("output", "block"): "block output", ("output", "rewrite"): "rewrite", ("input", "block"): "block input"}
TIMEOUT_S = 900
Figures = dict[str, float]


def bonnie_plus_plus(place: str, mib: int) -> Figures:
    # Without -r it refuses a file smaller than twice the memory; -n 0 leaves the small files out, -f the characters.
    words = ["bonnie++", "-d", place, "-f", "-s", str(mib), "-r", str(mib // 2), "-n", "0", "-q", "-m", "bench"]
    words += ["-u", getpass.getuser()]
    ended = subprocess.run(words, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    values = ended.stdout.strip().splitlines()[-1].split(",")
    return {name: float(values[at]) for name, at in COLUMNS.items() if values[at].isdecimal()}


def brickyard(place: str, mib: int) -> Figures:
    with tempfile.TemporaryDirectory() as home:
        store = ["--store", str(Path(home) / "runs.db")]
        words = [sys.executable, "-m", "brickyard", "run", "bonnie", place, "--size", f"{mib}MiB", "--json", *store]
        ended = subprocess.run(words, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    figures = json.loads(ended.stdout)["table"]["figures"]
    return {OURS[key]: f["per_s"] for f in figures if (key := (f["group"], f["name"])) in OURS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--smoke", action="store_true", help="everything once, too short for a figure")
    asked = parser.parse_args()
    if asked.smoke:
        asked.rounds, asked.mib = 1, 16
    if shutil.which("bonnie++", path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
        sys.exit("bonnie++ is not installed; apt-get install bonnie++")
    rounds = [
        (bonnie_plus_plus(asked.directory, asked.mib), brickyard(asked.directory, asked.mib))
        for _ in range(asked.rounds)
    ]
    print(f"Medians (least to most) of {asked.rounds} rounds, a file of {asked.mib:,} MiB, K/s\n")
    print("| | bonnie++ | Brickyard | ratio within rounds |\n|---|---|---|---|")
    for name in COLUMNS:
        pairs = [(theirs[name], ours[name]) for theirs, ours in rounds if name in theirs]
        if not pairs:
            print(f"| {name} | too fast for it to tell | | |")
            continue
        cells = [f"{statistics.median(v):,.0f} ({min(v):,.0f} to {max(v):,.0f})" for v in zip(*pairs, strict=True)]
        ratios = [ours / theirs for theirs, ours in pairs]
        print(f"| {name} | {' | '.join(cells)} | {statistics.median(ratios):.2f} |")


if __name__ == "__main__":
    main()

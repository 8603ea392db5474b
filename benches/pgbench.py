"""What our reading of pgbench's log costs: pgbench alone beside `brickyard run pgbench`, in one server, by turns.

    python benches/pgbench.py [DIRECTORY] [--smoke]

Three contestants: pgbench without a log, pgbench with its log of each transaction (`-l`), and ours, which has pgbench
write that log and reads it meanwhile. Medians of rounds, each with all in random order. The aim is 0.97 of the rate
that pgbench itself has with its log on; the ratio to pgbench without a log stands beside it.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from brickyard.databases.pgbench_home import Home, Homes
from brickyard.databases.pgbench_plan import PgbenchSpec, read_changes
from brickyard.databases.pgbench_run import PgbenchRun, summary

AIM = 0.97


def plain(spec: PgbenchSpec, home: Home) -> float:
    """pgbench without a log."""
    return _pgbench(spec, home, [])


def logged(spec: PgbenchSpec, home: Home) -> float:
    """pgbench with its log in a directory of memory, as ours has it."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/dev/shm") as place:
        return _pgbench(spec, home, ["-l", f"--log-prefix={place}/log"])


def _pgbench(spec: PgbenchSpec, home: Home, more: list[str]) -> float:
    target, environment = home.arguments()
    words = ["-n", "-M", spec.protocol, "-c", str(spec.clients), "-j", str(spec.threads_used), "-b", spec.script]
    words += [*more, "-T", str((spec.duration_ns or 0) // 1_000_000_000), target]
    done = subprocess.run([home.pgbench, *words], env=environment, capture_output=True, text=True, check=True)
    told = summary(done.stdout)
    assert told is not None
    return told.transactions_per_s


def ours(spec: PgbenchSpec, home: Home) -> float:
    """The run as the verb makes it, without the store."""
    run, rate = PgbenchRun(spec, home), 0.0
    while not run.finished():
        for text in run.events(50):
            event = json.loads(text)
            if event["event"] == "phase_end" and event.get("pgbench"):
                rate = float(event["pgbench"]["transactions_per_s"])
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, nargs="?", default=Path("/var/tmp"))
    parser.add_argument("--smoke", action="store_true", help="once, too short for a figure")
    options = parser.parse_args()
    seconds, rounds = (1, 1) if options.smoke else (4, 21)
    heads = ("no log, tps", "own log, tps", "ours, tps", "ours/own log", "ours/no log")
    print(f"{'script':12} " + " ".join(f"{head:>12}" for head in heads))
    for script in ("select-only",) if options.smoke else ("select-only", "tpcb-like"):
        with tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory) as place, Homes(print) as homes:
            Path(place).chmod(0o755)
            # Without waits for the disk the rate is the highest there is, and so is the cost of each line.
            words = ["scale=5", "clients=4", "pg.fsync=off", f"script={script}", f"duration={seconds}s"]
            spec = read_changes(place, words)
            home = homes.take(spec)
            ours(read_changes(place, [*words[:-1], "duration=1s"]), home)  # loads the tables and warms the caches
            rates = _rounds(spec, home, rounds)
        whole, ratio = (
            median(a / b for a, b in zip(rates["ours"], rates[x], strict=True)) for x in ("plain", "logged")
        )
        medians = " ".join(f"{median(rates[name]):12,.0f}" for name in ("plain", "logged", "ours"))
        print(f"{script:12} {medians} {ratio:12.3f} {whole:12.3f}")
        if not options.smoke and ratio < AIM:
            print(f"below the aim of {AIM}")


def _rounds(spec: PgbenchSpec, home: Home, count: int) -> dict[str, list[float]]:
    ways: dict[str, Callable[[PgbenchSpec, Home], float]] = {"plain": plain, "logged": logged, "ours": ours}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    dice = random.Random(1)  # an order, not a secret
    for _ in range(count):
        for name in dice.sample(list(ways), len(ways)):
            rates[name].append(ways[name](spec, home))
    return rates


if __name__ == "__main__":
    main()

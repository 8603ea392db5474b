"""What each verb costs in a store of 10,000 runs: time from start to end of the process, and its peak memory.

A few runs are measured on a real file; the others are copies of these with ids and times of their own, because
10,000 minutes would take a week. All are on one target, so `history` has to look at every one of them.

    python benches/store.py [--runs N] [--repeat N] [--smoke]
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from brickyard.store import sums
from brickyard.store.schema import APPEND_ONLY

PROFILES = ("mixed-70-30", "group-commit")
EACH = 4  # real runs of each profile, so that figures vary as they do between runs
INTERVALS = 60  # as a run of a minute has with intervals of a second
HOUR_NS = 3600 * 10**9
TIME_COLUMNS = ("created_unix_ns", "start_unix_ns", "ended_unix_ns")
MIB = 1 << 20


@dataclass(frozen=True)
class Cost:
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def process(words: list[str]) -> Cost:
    """A verb as its user starts it; what it prints goes nowhere."""
    begin = time.perf_counter()
    with open(os.devnull, "wb") as nowhere:
        child = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "brickyard", *words],
            {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            file_actions=[(os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)],
        )
    _, status, used = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"brickyard {' '.join(words)}: exit code {os.waitstatus_to_exitcode(status)}")
    return Cost(time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def real_runs(store: Path, target: Path, interval_ms: int, each: int) -> None:
    for profile in PROFILES:
        words = ["run", profile, str(target), "--size", "64MiB", "--repeat", str(each), "--store", str(store)]
        length_ms = interval_ms * INTERVALS
        words += ["--set", f"interval={interval_ms}ms", "--set", f"duration={length_ms}ms", "--set", "warmup=0s"]
        process(words)


def copied(store: Path, count: int) -> None:
    """Copies the runs of a store until there are `count`, in random order, an hour apart."""
    chosen = random.Random(1)
    with closing(sqlite3.connect(store, isolation_level=None)) as db:
        sums.register(db)
        db.execute("PRAGMA synchronous = OFF")
        sources = [row[0] for row in db.execute("SELECT id FROM run ORDER BY id")]
        first = len(sources) + 1
        db.execute("CREATE TEMP TABLE copy (new INTEGER PRIMARY KEY, old INTEGER)")
        copies = [(run, chosen.choice(sources)) for run in range(first, count + 1)]
        db.executemany("INSERT INTO copy VALUES (?, ?)", copies)
        db.execute("BEGIN IMMEDIATE")
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for table in (name for name in tables if name in (*APPEND_ONLY, "run_summary")):
            columns = [str(row[1]) for row in db.execute(f"PRAGMA table_info({table})")]
            key = "id" if table == "run" else "run"
            if key in columns:
                given = [name for name in columns if name != "id" or table == "run"]
                wanted = ", ".join(f"new * {HOUR_NS} + {n}" if n in TIME_COLUMNS else n for n in given)
                wanted = f", {wanted},".replace(f", {key},", ", new,").strip(", ")
                db.execute(
                    f"INSERT INTO {table} ({', '.join(given)}) SELECT {wanted} FROM copy"
                    f" JOIN {table} ON {table}.{key} = copy.old ORDER BY new"
                )
        db.execute("COMMIT")


def verbs(store: Path, empty: Path, target: Path, folder: Path) -> dict[str, list[str]]:
    at = ["--store", str(store)]
    return {
        "brickyard --version": ["--version"],
        "runs (store without runs)": ["runs", "--store", str(empty)],
        "runs": ["runs", *at],
        "runs --limit 0": ["runs", "--limit", "0", *at],
        "show latest": ["show", "latest", *at],
        "compare 1 2": ["compare", "1", "2", *at],
        "history": ["history", str(target), *at],
        "report latest": ["report", "latest", "-o", str(folder), *at],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="keep the store here, or use the one that is here")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    count, repeat, interval_ms, each = (24, 1, 10, 2) if given.smoke else (given.runs, given.repeat, 100, EACH)
    with tempfile.TemporaryDirectory(prefix="brickyard-bench-store-") as made:
        folder = given.keep or Path(made)
        folder.mkdir(exist_ok=True)
        store, empty, target = folder / "runs.db", folder / "empty.db", folder / "target"
        if not store.exists():
            real_runs(store, target, interval_ms, each)
            copied(store, count)
        process(["import", "--help"])  # the interpreter's and our files are in the page cache from here on
        with closing(sqlite3.connect(store)) as db:
            [(runs,)] = db.execute("SELECT count(*) FROM run").fetchall()
            [(intervals,)] = db.execute("SELECT count(*) FROM interval").fetchall()
        from brickyard.store import Store

        Store(empty).close()
        print(f"{runs:,} runs, {intervals:,} rows of intervals, {store.stat().st_size / MIB:,.0f} MiB\n")
        print(f"{'verb':28}  {'median s':>8}  {'CPU s':>8}  {'peak MiB':>8}")
        for name, words in verbs(store, empty, target, Path(made) / "report").items():
            costs = [process(words) for _ in range(repeat)]
            seconds = statistics.median(cost.seconds for cost in costs)
            cpu = statistics.median(cost.cpu_seconds for cost in costs)
            peak = max(cost.peak_bytes for cost in costs) / MIB
            print(f"{name:28}  {seconds:8.2f}  {cpu:8.2f}  {peak:8.0f}", flush=True)


if __name__ == "__main__":
    main()

"""What the page costs: processor of the server with 100 browsers on one live run and with none, the measured rate
beside it, lists of 10,000 runs, the page of a run, and a prediction.

Both states of the server are interleaved in one run of the load (A/B/A/B), since a rate drifts with its host. The runs
of the list are copies of one simulated run with ids of their own.

    python benches/web.py [--browsers N] [--runs N] [--seconds S] [--smoke]
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import brickyard
from brickyard.jobs import Jobs, Order
from brickyard.store.sums import register

TOKEN = "0123456789abcdef0123456789abcdef-bench"
TICKS = os.sysconf("SC_CLK_TCK")
COPIED = ("run", "run_start", "run_end")
"""What a list reads; `run_place` is made by a trigger."""
WHAT_IF: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("terraserver-2003", "obl-load", {"members": 12}),
    ("terraserver-2003", "random-4k-qd32", {"level": "raid5", "condition": "degraded"}),
    ("msr-2003-wd", "sqlio-random-read-4", {"cache_mib": 0}),
)


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextlib.contextmanager
def server(folder: Path) -> Iterator[tuple[int, int]]:
    """Process id and port."""
    place = folder / "tokens"
    if not place.exists():
        place.write_text(f"# tokens of brickyard web\noperator {TOKEN}\n")
        place.chmod(0o600)
    words = [sys.executable, "-m", "brickyard", "web", "--port", "0", "--token-file", str(place)]
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    started = subprocess.Popen(
        [*words, "--store", str(folder / "runs.db")], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        assert started.stderr is not None
        match = re.search(r":(\d+)/login", started.stderr.readline())
        if match is None:
            raise SystemExit("the server did not start")
        yield started.pid, int(match[1])
    finally:
        started.terminate()
        started.wait(20)


def asked(port: int, path: str, asks: dict[str, object] | None = None) -> tuple[float, bytes]:
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    connection.request("GET" if asks is None else "POST", path, None if asks is None else json.dumps(asks), headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {body[:200]!r}")
    return time.perf_counter() - began, body


class Browsers:
    """So many streams of events, all read by one thread."""

    def __init__(self, port: int, count: int) -> None:
        request = f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        self.sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        for one in self.sockets:
            one.sendall(request.encode())
            one.settimeout(0)
        self.bytes = 0
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while not self._over.wait(0.1):
            for one in self.sockets:
                with contextlib.suppress(BlockingIOError):
                    self.bytes += len(one.recv(1 << 20))

    def close(self) -> None:
        self._over.set()
        self._reader.join()
        for one in self.sockets:
            one.close()


def predictions(folder: Path, repeat: int) -> None:
    """What if, from a server that has just begun."""
    with server(folder) as (_, port):
        for name, workload, changes in WHAT_IF:
            asks = {"name": name, "workload": workload, **changes}
            times = [asked(port, "/api/what-if", asks)[0] for _ in range(repeat + 1)]
            print(f"what if {name}, {workload}: first {times[0]:.2f} s, then at most {max(times[1:]):.2f} s")


def live(folder: Path, browsers: int, seconds: float, rounds: int) -> None:
    """Rates and the server's processor by turns, with browsers and without, in one run of the load."""
    store = folder / "runs.db"
    length = int(seconds * rounds * 2 + 12)
    jobs = Jobs(folder / "jobs")
    with server(folder) as (pid, port):
        changes = [f"duration={length}s", "interval=1s"]
        job = jobs.start(Order(kind="run", name="random-4k-qd1", changes=changes, size="64MiB", store=str(store)))
        until_s = time.monotonic() + 60
        while time.monotonic() < until_s and b'"phase":"' not in asked(port, "/api/now")[1].replace(b'"phase":""', b""):
            time.sleep(0.5)
        time.sleep(3)
        used: dict[int, list[float]] = {0: [], browsers: []}
        spans: dict[int, list[tuple[int, int]]] = {0: [], browsers: []}
        for _ in range(rounds):
            for count in (0, browsers):
                watching = Browsers(port, count)
                time.sleep(1)  # until the whole state has been sent
                began_s, before = time.monotonic(), processor_s(pid)
                first = time.time_ns()
                time.sleep(seconds)
                used[count].append((processor_s(pid) - before) / (time.monotonic() - began_s))
                spans[count].append((first, time.time_ns()))
                watching.close()
        jobs.stop(job.name)
    with brickyard.Store(store) as kept:
        record = kept.record(1)
        start_ns = record.info.start_unix_ns or 0
        for count, found in spans.items():
            rates = [
                one.requests / ((one.end_ns - one.start_ns) / 1e9)
                for one in record.intervals
                if one.measure == "service"
                and any(low <= start_ns + one.start_ns and start_ns + one.end_ns <= high for low, high in found)
            ]
            rate = (
                f"{statistics.median(rates):,.0f} IOPS in the median of {len(rates)} s"
                if rates
                else "no whole interval"
            )
            print(f"{count} browsers: {statistics.median(used[count]):.1%} of a core; {rate}")


def lists(folder: Path, runs: int, repeat: int) -> None:
    """Copies of one run, then the list, a search that finds few, and the page of a run."""
    store = folder / "many.db"
    with brickyard.Store(store) as kept:
        load = brickyard.profile("sqlio-random-read-4", "duration=60s")
        brickyard.run(kept, load, ["sim:msr-2003-wd"])
    with contextlib.closing(sqlite3.connect(store)) as db:
        register(db)
        for table in COPIED:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            key = "id" if table == "run" else "run"
            made = ", ".join("number" if name == key else name for name in columns)
            db.execute(
                f"INSERT INTO {table} ({', '.join(columns)}) WITH RECURSIVE n(number) AS"
                f" (SELECT 2 UNION ALL SELECT number + 1 FROM n WHERE number < {runs})"
                f" SELECT {made} FROM n, (SELECT * FROM {table} WHERE {key} = 1)"
            )
        db.commit()
    (folder / "many").mkdir()
    store.rename(folder / "many" / "runs.db")
    with server(folder / "many") as (_, port):
        for path in (
            "/api/runs",
            "/results",
            "/api/runs?q=nothing",
            "/results?first=5000",
            "/results/1",
            "/api/runs/1",
        ):
            times = [asked(port, path)[0] for _ in range(repeat + 1)]
            print(f"{path}: first {times[0] * 1e3:.0f} ms, then {statistics.median(times[1:]) * 1e3:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browsers", type=int, default=100)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    smoke = given.smoke
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        brickyard.Store(folder / "runs.db").close()
        predictions(folder, 1 if smoke else 5)
        lists(folder, 50 if smoke else given.runs, 1 if smoke else 5)
        live(folder, 3 if smoke else given.browsers, 2 if smoke else given.seconds, 1 if smoke else 3)


if __name__ == "__main__":
    main()

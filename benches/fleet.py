"""What many hosts cost the one that listens, and what they bring a sweep of simulations.

Merging: streams are made beforehand, as workers tell them: lines of JSON, one interval a second of 8 cells with a
service and a response histogram each. What a run on many hosts does with them is measured on one core: decode, merge,
hand over as JSON.

Scaling: the cells of `study reference` on Ray nodes of this machine, each bound to a core of its own; as many
simulations by one node and by all of them, in turns, of which the medians count. Without Ray, or with one core, it is
left out.

    python benches/fleet.py [--workers 1000] [--cells 8] [--intervals 5] [--nodes 2] [--tasks 240] [--smoke]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from brickyard import _core, bricks
from brickyard.fleet import cluster, up
from brickyard.fleet.hosts import HostsFile
from brickyard.fleet.merging import Merger
from brickyard.fleet.shares import HostPart
from brickyard.fleet.sweeping import Sweep
from brickyard.schema import PhaseStart, decode, encode
from brickyard.store import Json

SECOND = 1_000_000_000
CELLS = 81  # of `study reference` that are simulated
BUCKETS = 60  # that a histogram of a second's requests has entries in


def cell(stream: int, draw: random.Random) -> Json:
    pairs = [(round(80_000 * 1.06**step), draw.randrange(1, 200)) for step in range(BUCKETS)]
    requests = sum(count for _, count in pairs)
    figures = {"mean_ns": 2e5, "p50_ns": 2 * 10**5, "p99_ns": 2 * 10**6, "max_ns": pairs[-1][0]}
    measure = {**figures, "histogram": _core.Histogram.of_counts(pairs).text()}
    return {
        "stream": stream,
        "operation": "read",
        "requests": requests,
        "bytes": requests * 4096,
        "errors": 0,
        "depth_max": 4,
        "measures": {"service": measure, "response": measure},
    }


def part(number: int, host: str, cells: int) -> HostPart:
    """Of a load with so many streams on every host."""
    streams = [number * cells + at for at in range(cells)]
    return HostPart(host, ["/f"], [], [0], [streams], [number])


@contextmanager
def nodes(home: Path, cores: list[int]) -> Iterator[Any]:
    """A Ray node on each of some cores, with a fleet's state of its own below `home`.

    All have the address that Ray takes instead of a loopback one, so that the certificate is for it. Another process
    tells, since Ray reads its settings when it is imported.
    """
    words = [sys.executable, "-c", "from ray.util import get_node_ip_address as found; print(found())"]
    address = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    os.environ["BRICKYARD_STATE_HOME"] = os.environ["XDG_DATA_HOME"] = os.environ["XDG_STATE_HOME"] = str(home)
    lines = ["[head]", f'address = "{address}"', "port = 6397"]
    for core in cores:
        lines += ["[[host]]", f'name = "core{core}"', f'address = "{address}"']
        lines += [f'reach = ["taskset", "-c", "{core}"]', f'python = "{sys.executable}"']
    # Not by `read_hosts`, which refuses two hosts of one address.
    fleet = up.up(msgspec.convert(tomllib.loads("\n".join(lines)), HostsFile)).fleet
    try:
        yield cluster.enter(fleet)
    finally:
        up.down()


def swept(ray: Any, hosts: list[str], tasks: list[int]) -> tuple[float, list[float]]:
    """How long some simulations take on some nodes, and what they come to."""
    sweep = Sweep(ray, hosts, print)
    texts = bricks.texts()
    try:
        with ThreadPoolExecutor(sweep.cores) as pool:

            def simulated(numbers: list[int]) -> list[float]:
                return list(pool.map(lambda number: sweep.reference(number, texts, 2, False), numbers))

            simulated(tasks[: 2 * sweep.cores])  # until then the first of each core waits for its process
            began_s = time.monotonic()
            found = simulated(tasks)
            return time.monotonic() - began_s, found
    finally:
        sweep.close()


def scaling(count: int, tasks: int, rounds: int) -> None:
    if importlib.util.find_spec("ray") is None:
        print("scaling: left out, Ray is not installed (make .venv/.fleet)")
        return
    cores = sorted(os.sched_getaffinity(0))[:count]
    if len(cores) < 2:
        print("scaling: left out, there is one core")
        return
    numbers = [number % CELLS for number in range(tasks)]
    alone_s, all_s = [], []
    with tempfile.TemporaryDirectory(prefix="brickyard-fleet-bench-") as home, nodes(Path(home), cores) as ray:
        hosts = cluster.chosen(ray, "all")
        for _ in range(rounds):
            took_s, one = swept(ray, hosts[:1], numbers)
            alone_s.append(took_s)
            took_s, several = swept(ray, hosts, numbers)
            all_s.append(took_s)
            assert one == several, "the same to the bit"
    times = median(alone_s) / median(all_s)
    print(
        f"sweep of {tasks} simulations: {median(alone_s):.2f} s on one core, {median(all_s):.2f} s on {len(cores)}:"
        f" {times:.2f} ×; load of the machine {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--cells", type=int, default=8)
    parser.add_argument("--intervals", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=240)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    workers, intervals = (20, 2) if asked.smoke else (asked.workers, asked.intervals)
    hosts = [f"h{number}" for number in range(workers)]
    merger = Merger(part(number, host, asked.cells) for number, host in enumerate(hosts))
    for host in hosts:
        merger.hear(host, PhaseStart(phase=0, name="", start_ns=0), 0.0)
    draw = random.Random(1)
    some = [[cell(number, draw) for number in range(asked.cells)] for _ in range(min(workers, 50))]
    took_s, lines_bytes = [], 0
    for index in range(intervals):
        lines = [
            json.dumps(
                {
                    "event": "interval",
                    "phase": 0,
                    "index": index,
                    "start_ns": index * SECOND,
                    "end_ns": (index + 1) * SECOND,
                    "warmup": False,
                    "drain": False,
                    "cells": some[number % len(some)],
                    "cpu": {"user_ns": 1, "system_ns": 1},
                    "loop_busy_share": 0.5,
                    "knob": None,
                }
            )
            for number in range(workers)
        ]
        lines_bytes = sum(map(len, lines))
        began_s = time.process_time()
        told = [event for host, line in zip(hosts, lines, strict=True) for event in merger.hear(host, decode(line), 0)]
        told += merger.whole(0.0)
        handed = [encode(event) for event in told]
        took_s.append(time.process_time() - began_s)
        assert len(handed) == 1, "all hosts in one interval"
    cost_s = sorted(took_s)[len(took_s) // 2]
    print(
        f"{workers} workers × {asked.cells} cells: {lines_bytes / 1e6:.1f} MB/s of lines, merged with {cost_s:.3f} s of"
        f" CPU for each second ({cost_s:.1%} of a core)"
    )
    scaling(asked.nodes, 6 if asked.smoke else asked.tasks, 1 if asked.smoke else asked.rounds)


if __name__ == "__main__":
    main()

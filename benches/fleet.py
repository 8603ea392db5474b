"""What many hosts cost the one that listens: streams of intervals are merged, on one core.

Streams are made beforehand, as workers tell them: lines of JSON, one interval a second of 8 cells with a service and a
response histogram each. Merging is what a run on many hosts does with them: decode, merge, hand over as JSON.

    python benches/fleet.py [--workers 1000] [--cells 8] [--intervals 5] [--smoke]
"""

from __future__ import annotations

import argparse
import json
import random
import time

from brickyard import _core
from brickyard.fleet.merging import Merger
from brickyard.fleet.shares import HostPart
from brickyard.store import Json

SECOND = 1_000_000_000
BUCKETS = 60  # that a histogram of a second's requests has entries in


def cell(stream: int, draw: random.Random) -> Json:
    pairs = [(round(80_000 * 1.06**step), draw.randrange(1, 200)) for step in range(BUCKETS)]
    requests = sum(count for _, count in pairs)
    figures = {"mean_ns": 2e5, "p50_ns": 2 * 10**5, "p99_ns": 2 * 10**6, "max_ns": pairs[-1][0]}
    measure = {**figures, "histogram": _core.histogram_from_counts(pairs)}
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
    return HostPart(host, {}, ["/f"], [], [0], [streams], [number])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--cells", type=int, default=8)
    parser.add_argument("--intervals", type=int, default=5)
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    workers, intervals = (20, 2) if asked.smoke else (asked.workers, asked.intervals)
    hosts = [f"h{number}" for number in range(workers)]
    merger = Merger(part(number, host, asked.cells) for number, host in enumerate(hosts))
    for host in hosts:
        merger.hear(host, {"event": "phase", "phase": 0, "name": "", "start_ns": 0}, 0.0)
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
        told = [
            event for host, line in zip(hosts, lines, strict=True) for event in merger.hear(host, json.loads(line), 0)
        ]
        told += merger.whole(0.0)
        handed = [json.dumps(event) for event in told]
        took_s.append(time.process_time() - began_s)
        assert len(handed) == 1, "all hosts in one interval"
    cost_s = sorted(took_s)[len(took_s) // 2]
    print(
        f"{workers} workers × {asked.cells} cells: {lines_bytes / 1e6:.1f} MB/s of lines, merged with {cost_s:.3f} s of"
        f" CPU for each second ({cost_s:.1%} of a core)"
    )


if __name__ == "__main__":
    main()

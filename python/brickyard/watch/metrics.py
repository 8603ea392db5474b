"""Duty: a watch as Prometheus text, with classic buckets. Refusal: opens no socket."""

from __future__ import annotations

from collections.abc import Iterator

from brickyard.watch.seen import Pairs, time_ns
from brickyard.watch.totals import DeviceTotals, WatchTotals

NS = 1e9
BOUNDS_NS = [1000 * 4**power for power in range(13)]
"""From 1 µs to 17 s by fours."""


def exposition(totals: WatchTotals, method: str) -> str:
    lines = [
        "# HELP brickyard_watch_info How requests are seen.",
        "# TYPE brickyard_watch_info gauge",
        f'brickyard_watch_info{{method="{method}"}} 1',
    ]
    for name, about, attribute in (
        ("requests", "Requests that ended.", "requests"),
        ("bytes", "Bytes of requests that ended.", "bytes"),
        ("errors", "Requests that failed.", "errors"),
        ("sequential_bytes", "Bytes of requests that begin where another ended.", "sequential_bytes"),
    ):
        lines += _head(f"brickyard_watch_{name}_total", "counter", about)
        lines += [
            f"brickyard_watch_{name}_total{_labels(device, operation)} {getattr(cell, attribute)}"
            for device in totals.devices.values()
            for operation, cell in device.cells.items()
        ]
    lines += _head("brickyard_watch_in_flight", "gauge", "Requests in the device at the end of the last interval.")
    lines += [f"brickyard_watch_in_flight{_labels(one)} {one.in_flight}" for one in totals.devices.values()]
    if method != "counters":
        lines += _head("brickyard_watch_seconds", "histogram", "From the arrival of a request to its end.")
        for device in totals.devices.values():
            for operation, cell in device.cells.items():
                lines += _buckets(device, operation, cell.total, cell.total_ns)
        lines += _head("brickyard_watch_lost_total", "counter", "Events that were lost.")
        lines += [
            f'brickyard_watch_lost_total{{what="{what}"}} {getattr(totals.lost, what)}'
            for what in totals.lost.__struct_fields__
        ]
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _labels(device: DeviceTotals, operation: str = "", bound: str = "") -> str:
    name = device.name.replace("\\", "\\\\").replace('"', '\\"')
    more = (f',operation="{operation}"' if operation else "") + (f',le="{bound}"' if bound else "")
    return f'{{device="{name}"{more}}}'


def _buckets(device: DeviceTotals, operation: str, times: Pairs, sum_ns: int) -> Iterator[str]:
    """Counts up to each bound, of the buckets that end at or below it."""
    count = sum(number for _, number in times)
    for bound in BOUNDS_NS:
        below = sum(number for bucket, number in times if time_ns(bucket + 1) <= bound)
        labels = _labels(device, operation, f"{bound / NS:g}")
        yield f"brickyard_watch_seconds_bucket{labels} {below}"
    yield f"brickyard_watch_seconds_bucket{_labels(device, operation, '+Inf')} {count}"
    yield f"brickyard_watch_seconds_sum{_labels(device, operation)} {sum_ns / NS:.9f}"
    yield f"brickyard_watch_seconds_count{_labels(device, operation)} {count}"

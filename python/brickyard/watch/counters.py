"""Duty: the kernel's own counters of block devices (`/sys/block/*/stat`) as intervals; everybody may read them.

Refusal: what they do not hold is left out, and `NOT_SEEN` says what that is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from brickyard.units import SECTOR_BYTES
from brickyard.watch.devices import BlockDevice
from brickyard.watch.seen import SeenCell, SeenDevice, WatchInterval

NOT_SEEN = (
    "latency per request (only means), request sizes (only means), alignment, seek distance, depth per request,"
    " processes, cgroups, slow requests and their causes, FUA,"
    " how much of what is read ahead is used; an empty flush is counted as a write"
)
MS_NS = 1_000_000
GROUPS = (("read", 0), ("write", 4), ("discard", 11))
"""Operation, and the first of its four fields: requests, merges, sectors, milliseconds."""
FLUSHES = 15


class Counters:
    """As `Capture`, without programs in the kernel."""

    def __init__(self, devices: list[BlockDevice], every_s: float) -> None:
        self._devices, self._every_s = devices, every_s
        self._stopped = False
        self._before = {device.name: _read(device) for device in devices}
        self.start_ns = time.monotonic_ns()

    def stop(self) -> None:
        self._stopped = True

    def intervals(self) -> Iterator[WatchInterval | None]:
        begin = self.start_ns
        while not self._stopped:
            due = begin + round(self._every_s * 1e9)
            while not self._stopped and time.monotonic_ns() < due:
                time.sleep(max(0.0, min(0.1, (due - time.monotonic_ns()) / 1e9)))
                yield None
            end = time.monotonic_ns()
            yield WatchInterval(begin, end, [self._seen(device) for device in self._devices])
            begin = end

    def _seen(self, device: BlockDevice) -> SeenDevice:
        now, before = _read(device), self._before[device.name]
        if not now or not before:  # it has vanished
            return SeenDevice(device.name, [])
        self._before[device.name] = now
        since = [new - old for new, old in zip(now, before, strict=False)]
        cells = [
            SeenCell(name, since[at], since[at + 2] * SECTOR_BYTES, total_ns=since[at + 3] * MS_NS)
            for name, at in GROUPS
            if len(since) > at + 3 and since[at] > 0
        ]
        if len(since) > FLUSHES + 1 and since[FLUSHES] > 0:
            cells.append(SeenCell("flush_command", since[FLUSHES], total_ns=since[FLUSHES + 1] * MS_NS))
        return SeenDevice(device.name, cells, in_flight=now[8], merged_bios=since[1] + since[5])


def _read(device: BlockDevice) -> list[int]:
    try:
        return [int(word) for word in device.statistics.read_text().split()]
    except (OSError, ValueError):
        return []

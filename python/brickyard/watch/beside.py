"""Duty: a watch beside a run, for the causes of the run's slow requests. Refusal: it stays away where it would be felt:
from short runs, and from devices that end more requests than it can follow at no cost; it never fails a run.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from brickyard.errors import BrickyardError, one_line
from brickyard.schema.watch_sheet import HeldBack, SlowAtDevice, SlowSheet
from brickyard.watch.causes import Explained, explained
from brickyard.watch.cgroups import cgroup_names, own_cgroups, rate_of, throttles
from brickyard.watch.devices import BlockDevice, found_by_number
from brickyard.watch.program import Capture
from brickyard.watch.seen import NS, WatchInterval
from brickyard.watch.totals import WatchTotals
from brickyard.watch.verdicts import AT_LIMIT

EVERY_S = 0.5
LEAST_RUN_S = 5.0
"""A shorter run is over before what the watch costs at its start has paid."""
MOST_PER_S = 20_000
"""Chosen so that the watch stays small beside the load; what a request costs it was not measured alone on a host."""
SLOWEST_KEPT = 400
OURS, ALL = "our own", "all processes"


@dataclass(frozen=True)
class NoWatch:
    """Why there is no watch."""

    reason: str


class WatchBeside:
    """From its making to `stop`; `begin` says that what is seen from now on counts."""

    def __init__(self, devices: Sequence[BlockDevice]) -> None:
        self._devices = list(devices)
        self._capture = Capture(self._devices, EVERY_S)
        self._totals = WatchTotals()
        self._begun_ns: int | None = None
        self._planned_end_ns: int | None = None
        self._late: list[WatchInterval] = []
        """Of after the planned end; whether they belong to the run is known when it has ended."""
        self._stopped, self._ended = "", False
        self._thread = threading.Thread(target=self._follow, name="watch", daemon=True)
        self._thread.start()

    def begin(self, planned_ns: int | None = None) -> None:
        self._begun_ns = time.monotonic_ns()
        self._planned_end_ns = None if planned_ns is None else self._begun_ns + planned_ns

    def _follow(self) -> None:
        try:
            for interval in self._capture.intervals():
                if interval is not None and self._begun_ns is not None and interval.end_ns > self._begun_ns:
                    if self._planned_end_ns is not None and interval.start_ns > self._planned_end_ns:
                        self._late.append(interval)
                    else:
                        self._totals.add(interval)
                    if not self._stopped and (rate := _rate(interval)) > MOST_PER_S:
                        self._stopped = f"the watch would slow down a load of {rate:,.0f} requests/s"
                        self._capture.stop()
        except BrickyardError as error:
            self._stopped = one_line(error)

    def stop(self) -> None:
        """Called again it does nothing."""
        if not self._ended:
            self._ended = True
            self._capture.stop()
            self._thread.join()
            self._capture.__exit__()

    def seen(self, end_ns: int | None = None) -> SlowSheet:
        """After `stop`; up to an instant of the monotonic clock, or to the stop."""
        late, self._late = self._late, []
        for interval in late:
            if end_ns is None or interval.start_ns < end_ns:
                self._totals.add(interval)
        totals, ours = self._totals, os.getpid()
        told = explained(totals)
        own = [one for one in told if one.request.process == ours]
        to_unix_ns = time.time_ns() - time.monotonic_ns()
        kept = (own or told)[:SLOWEST_KEPT]
        return SlowSheet(
            devices=[device.name for device in self._devices],
            whose=OURS if own else ALL,
            requests=sum(device.asked.requests for device in totals.devices.values()),
            slow=totals.slow_count,
            slowest=[_at_device(one, to_unix_ns) for one in kept],
            held=_held_back(self._devices, totals, to_unix_ns),
            cpu_ns=totals.cpu_ns,
            duration_ns=totals.end_ns - totals.start_ns,
            stopped=self._stopped,
        )


def _rate(interval: WatchInterval) -> float:
    requests = sum(cell.requests for device in interval.devices for cell in device.cells)
    return requests * NS / max(interval.end_ns - interval.start_ns, 1)


def _held_back(devices: Sequence[BlockDevice], totals: WatchTotals, to_unix_ns: int) -> list[HeldBack]:
    """Where the control group of this process was at its limit. What it is held back for happens before a request is
    seen, so it shows in the rate alone."""
    own = own_cgroups(cgroup_names({owner.cgroup for owner in totals.owners.values() if owner.cgroup}))
    found = []
    for number, device in enumerate(devices):
        for cgroup, name in own.items():
            for limit in throttles(name, device):
                rates = [rate_of(limit.kind, one, number, cgroup) for one in totals.intervals]
                spans = [
                    (one.start_ns + to_unix_ns, one.end_ns + to_unix_ns)
                    for one, reached in zip(totals.intervals, at_limit(rates, limit.per_s), strict=True)
                    if reached
                ]
                if spans:
                    found.append(
                        HeldBack(device=device.name, cgroup=name, kind=limit.kind, per_s=limit.per_s,
                                 spans_unix_ns=spans)
                    )  # fmt: skip
    return found


def at_limit(rates_per_s: Sequence[float], per_s: float) -> list[bool]:
    """For each interval, whether its rate was at the limit, or that of it and its two neighbours was: the kernel lets
    requests of a few go in bursts, so an interval of half a second may have a tenth less than the limit allows.
    """
    wide = [fmean(rates_per_s[max(at - 1, 0) : at + 2]) for at in range(len(rates_per_s))]
    return [max(own, both) >= AT_LIMIT * per_s for own, both in zip(rates_per_s, wide, strict=True)]


def _at_device(one: Explained, to_unix_ns: int) -> SlowAtDevice:
    request = one.request
    return SlowAtDevice(
        end_unix_ns=request.arrived_ns + request.total_ns + to_unix_ns,
        total_ns=request.total_ns,
        operation=request.operation,
        offset_bytes=request.offset_bytes,
        bytes=request.bytes,
        cause=one.cause,
        evidence=one.evidence,
    )


def beside(numbers: Sequence[str], planned_s: float | None) -> WatchBeside | NoWatch:
    """A watch of devices, by MAJOR:MINOR, beside a run of that length; None where it has no end of its own."""
    if planned_s is not None and planned_s < LEAST_RUN_S:
        return NoWatch(f"the run is planned for less than {LEAST_RUN_S:g} s")
    if not numbers:
        return NoWatch("no block device of this host is below the target")
    try:
        return WatchBeside(found_by_number(numbers))
    except BrickyardError as error:
        return NoWatch(one_line(error))

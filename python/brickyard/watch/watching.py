"""Duty: a watch from its begin to its end: which method, what was seen so far, and what it means.

Refusal: shows and writes nothing; a listener does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.watch.cgroups import cgroup_names, rate_of, throttles
from brickyard.watch.counters import NOT_SEEN, Counters
from brickyard.watch.devices import BlockDevice
from brickyard.watch.figures import Watched
from brickyard.watch.program import AHEAD_NEEDS, BPF, POINTS_DO_NOT_SEE, TRACEPOINTS, Capture, NotHereError
from brickyard.watch.seen import SeenDevice, WatchInterval
from brickyard.watch.totals import DeviceTotals, WatchTotals
from brickyard.watch.verdicts import Opinion, held_back, opinions

AUTO, COUNTERS = "auto", "counters"
METHODS = (AUTO, BPF, TRACEPOINTS, COUNTERS)
FOLIOS = (
    "Before Linux 6.14, the kernel reports which folios of the page cache are used, not which of their pages: a large"
    " one counts as used whole."
)
UNSEEN = {TRACEPOINTS: POINTS_DO_NOT_SEE, COUNTERS: NOT_SEEN}


@dataclass
class LiveWatch:
    """One watch. `note` hears what a user should know at once."""

    devices: list[BlockDevice]
    every_s: float
    method: str = AUTO
    stripe_bytes: int = 0
    trace: int | None = None
    read_ahead: bool = False
    note: Callable[[str], None] = lambda _: None
    totals: WatchTotals = field(default_factory=WatchTotals)
    traced: int = 0
    ahead_note: str = ""
    """What limits belief in how much of what is read ahead is used, or why that is not available."""
    broken: str = ""
    """Why it ended before it was to."""
    process: int | None = None
    cgroups: dict[int, str] = field(default_factory=dict)
    looked_up: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(
        self, stopped: threading.Event, for_s: float | None, shown: Callable[[], None], started: Callable[[], None]
    ) -> None:
        """Until it is stopped or over; `shown` is called after each interval."""
        with ExitStack() as ending:
            capture = self._capture(ending)
            started()
            end_ns = None if for_s is None else capture.start_ns + round(for_s * 1e9)
            timer = threading.Timer(for_s, stopped.set) if for_s is not None else None
            if timer is not None:
                timer.daemon = True
                timer.start()
                ending.callback(timer.cancel)
            gone: set[str] = set()
            for interval in self._heard(capture):
                if stopped.is_set() or (end_ns is not None and interval is not None and interval.end_ns >= end_ns):
                    capture.stop()
                if interval is None:
                    continue
                with self.lock:
                    self.totals.add(interval)
                self._missing(interval.devices, gone)
                if len(gone) == len(self.devices):
                    capture.stop()
                shown()
            if isinstance(capture, Capture):
                self.traced = capture.ended.traced

    def _heard(self, capture: Capture | Counters) -> Iterator[WatchInterval | None]:
        """Its intervals. That it fails is the end of the watch, not of what was seen."""
        try:
            yield from capture.intervals()
        except BrickyardError as error:
            self.broken = f"{one_line(error)}; the watch ended early, and what was seen until then is kept"

    def _missing(self, seen: Sequence[SeenDevice], gone: set[str]) -> None:
        for device in self.devices:
            if device.name not in gone and not device.is_there:
                gone.add(device.name)
                self.note(f"{device.name}: has vanished or was detached; what was seen until then is kept")

    def _capture(self, ending: ExitStack) -> Capture | Counters:
        for method in (BPF, TRACEPOINTS) if self.method == AUTO else (self.method,):
            if method == COUNTERS:
                break
            try:
                capture = Capture(
                    self.devices,
                    self.every_s,
                    stripe_bytes=self.stripe_bytes,
                    trace=self.trace,
                    method=method,
                    read_ahead=self.read_ahead,
                )
            except NotHereError as error:
                if self.trace is not None and method in (self.method, TRACEPOINTS):
                    raise BadInputError(f"--save: {error.saving}") from error
                if self.method == method:
                    raise
                self.note(f"no watch by {method}: {error}")
            else:
                self.method, self.process = method, capture.process
                self._sees_ahead(capture.ahead_unseen, by_folios=capture.ahead_by_folios)
                return ending.enter_context(capture)
        if self.trace is not None:
            raise BadInputError("--save: single requests are seen by --method bpf and tracepoints only")
        if self.method == AUTO:
            self.note("only the kernel's counters are watched")
        self.method = COUNTERS
        self._sees_ahead(AHEAD_NEEDS)
        return Counters(self.devices, self.every_s)

    def _sees_ahead(self, unseen: str, *, by_folios: bool = False) -> None:
        if not self.read_ahead:
            return
        self.totals.sees_ahead = not unseen
        if unseen:
            self.ahead_note = f"How much of what is read ahead is used is not available: {unseen}."
            self.note(self.ahead_note)
        elif by_folios:
            self.ahead_note = FOLIOS

    def watched(self) -> Watched:
        """What was seen so far, with what follows from it."""
        with self.lock:
            totals = self.totals
            unknown = {owner.cgroup for owner in totals.owners.values() if owner.cgroup} - self.looked_up
            if unknown:
                self.cgroups |= cgroup_names(unknown)
                self.looked_up |= unknown
            names = self.cgroups
            devices = totals.devices.values()
            said = [one for device in devices for one in opinions(device, self.stripe_bytes, totals.seconds)]
            said += self._held_back(names)
            return Watched(
                totals, self.method, UNSEEN.get(self.method, ""), self.stripe_bytes, said, names, self.ahead_note
            )

    def _held_back(self, names: dict[int, str]) -> list[Opinion]:
        found = []
        for number, device in enumerate(self.devices):
            for cgroup, name in names.items():
                for limit in throttles(name, device):
                    rates = [rate_of(limit.kind, one, number, cgroup) for one in self.totals.intervals]
                    said = held_back(device.name, name, limit, rates)
                    found += [said] if said else []
        return found

    def latest(self) -> tuple[dict[str, DeviceTotals], float]:
        """The last interval alone, and how long it was."""
        with self.lock:
            if not self.totals.intervals:
                return {}, 1e-9
            alone = WatchTotals()
            alone.add(self.totals.intervals[-1])
            return alone.devices, alone.seconds

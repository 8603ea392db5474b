"""Duty: how long a model takes on this computer, before it begins: a little of its loads is computed and timed.

Refusal: no figure of what is modelled; nothing is stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from brickyard.advise.simulate import computed
from brickyard.errors import BrickyardError
from brickyard.schema import Duration, Interval, RunOptions, plan_text, told
from brickyard.schema.plan import Phase, Plan
from brickyard.units import format_seconds

PROBES_S = 0.02, 0.1
"""How much CPU time a load is computed for at least: a little, and more where all take longer than `LONG_S`. A load
that begins with empty caches and queues has another pace at first."""
LONG_S = 60.0
FIRST_S, LONGER, LONGEST_S = 0.01, 4.0, 600.0
"""Virtual time of the first try, by what each further one is longer, and the end of that."""
MODELLED_WRITES = "writes: none; a model has no storage"
SAMPLES = 12, 6, 12
"""Of so many first, second and further phases the pace is tried: a second in all, some seconds before a long study."""
RUN_S = 0.06
"""Of each run beside its load: starting it, its record and its commit (measured on 2 cores)."""


@dataclass(frozen=True)
class Computed:
    """A run on modelled targets."""

    plan: Plan
    targets: list[str]
    options: RunOptions


def computing_s(runs: Sequence[Computed]) -> float:
    """Of all of them; about, since only some of their loads are tried. It counts the CPU's time, which other programs
    do not change, and how much longer the trials took than that."""

    def of_cpu_s() -> float:
        found_s = 0.0
        for probe_s in PROBES_S:
            found_s = len(runs) * RUN_S + sum(_loads_s(loads, most, probe_s) for loads, most in by_place(runs))
            if found_s < LONG_S:
                break
        return found_s

    return slowed_s(of_cpu_s) if runs else 0.0


def slowed_s(tried: Callable[[], float]) -> float:
    """The CPU time that trials find, times how much longer than their own CPU time they took beside other programs."""
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    found_s = tried()
    slowed = (time.perf_counter() - began_s) / max(time.process_time() - began_cpu_s, 1e-9)
    return found_s * max(1.0, slowed)


def by_place(runs: Sequence[Computed]) -> list[tuple[list[tuple[Computed, Phase]], int]]:
    """First, second and further phases, which are often of different kinds, and how many of them are tried."""
    last = len(SAMPLES) - 1
    return [
        ([(run, phase) for run in runs for at, phase in enumerate(run.plan.phase) if min(at, last) == place], most)
        for place, most in enumerate(SAMPLES)
    ]


def _loads_s(loads: Sequence[tuple[Computed, Phase]], most: int, probe_s: float) -> float:
    tried = [_load_s(run, phase, probe_s) for run, phase in loads[:: max(1, -(-len(loads) // most))]]
    return len(loads) * sum(tried) / max(1, len(tried))


def computing_lines(seconds: float) -> list[str]:
    """In the words of other forecasts."""
    return [f"duration: about {computing_words(seconds)}", MODELLED_WRITES]


def computing_words(seconds: float) -> str:
    return f"{format_seconds(max(1.0, seconds))} of this computer"


def _load_s(run: Computed, phase: Phase, probe_s: float) -> float:
    """CPU time. What goes on to the end of the load is the pace of the last part that was tried: its beginning, and
    what a run costs anyway, are in the parts before."""
    whole_s = None if phase.duration is None else (phase.duration.ns + phase.warmup.ns) / 1e9
    length_s, spent_s = 0.0, 0.0
    while True:
        before_s, spent_before_s = length_s, spent_s
        length_s = min(length_s * LONGER or FIRST_S, whole_s or LONGEST_S)
        began_s = time.process_time()
        try:
            events = computed(plan_text(_short(run.plan, phase, length_s)), run.targets, run.options)
        except (BrickyardError, ValueError):
            return 0.0  # it can't run, and whoever runs it says why; or not without the phases before it
        spent_s = time.process_time() - began_s
        if length_s == (whole_s or LONGEST_S) or (before_s and spent_s >= probe_s):
            break
    rest_s = (whole_s or _counted_s(phase, events, length_s)) - length_s
    return spent_s + rest_s * max(0.0, spent_s - spent_before_s) / (length_s - before_s)


def _short(plan: Plan, phase: Phase, length_s: float) -> Plan:
    alone = replace(
        phase,
        duration=Duration(max(1_000_000, round(length_s * 1e9))),
        warmup=Duration(0),
        passes=None,
        requests=None,
        bytes=None,
        steady=None,
        stop=None,
    )
    return replace(plan, phase=[alone])


def _counted_s(phase: Phase, events: Sequence[str], length_s: float) -> float:
    """How long a phase lasts that ends after bytes or requests; any other is taken to last as long as was tried."""
    cells = [cell for text in events if isinstance(event := told(text).event, Interval) for cell in event.cells]
    moved_bytes, requests = sum(cell.bytes for cell in cells), sum(cell.requests for cell in cells)
    if phase.bytes and moved_bytes:
        return phase.bytes / moved_bytes * length_s
    if phase.requests and requests:
        return phase.requests / requests * length_s
    return length_s

"""Duty: how long a model takes on this computer, before it begins: a little of its loads is computed and timed.

Refusal: no figure of what is modelled; nothing is stored.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from brickyard.advise.simulate import computed
from brickyard.errors import BrickyardError
from brickyard.schema import Duration, Interval, RunOptions, plan_text, told
from brickyard.schema.plan import Phase, Plan
from brickyard.units import format_seconds

PROBE_S = 0.02
"""How long a load is computed at least, so that its pace stands above what a run costs anyway (some ms)."""
FIRST_S, LONGER, LONGEST_S = 0.01, 4.0, 600.0
"""Virtual time of the first try, by what each further one is longer, and the end of that."""
MODELLED_WRITES = "writes: none; a model has no storage"
SAMPLES = 12
"""Of so many loads the pace is tried: a quarter of a second in all."""
RUN_S = 0.06
"""Of each run beside its load: starting it, its record and its commit (measured on 2 cores)."""


@dataclass(frozen=True)
class Computed:
    """A run on modelled targets."""

    plan: Plan
    targets: list[str]
    options: RunOptions


def computing_s(runs: Sequence[Computed]) -> float:
    """Of all of them; about, since only some of their loads are tried."""
    loads = [(run, phase) for run in runs for phase in run.plan.phase]
    every = max(1, -(-len(loads) // SAMPLES))
    tried = [_load_s(run, phase) for run, phase in loads[::every]]
    return len(loads) * sum(tried) / max(1, len(tried)) + len(runs) * RUN_S


def computing_lines(seconds: float) -> list[str]:
    """In the words of other forecasts."""
    return [f"duration: about {computing_words(seconds)}", MODELLED_WRITES]


def computing_words(seconds: float) -> str:
    return f"{format_seconds(max(1.0, seconds))} of this computer"


def _load_s(run: Computed, phase: Phase) -> float:
    whole_s = None if phase.duration is None else (phase.duration.ns + phase.warmup.ns) / 1e9
    length_s = min(FIRST_S, whole_s or FIRST_S)
    while True:
        began_s = time.perf_counter()
        try:
            events = computed(plan_text(_short(run.plan, phase, length_s)), run.targets, run.options)
        except (BrickyardError, ValueError):
            return 0.0  # it can't run, and whoever runs it says why; or not without the phases before it
        spent_s = time.perf_counter() - began_s
        if whole_s is not None and length_s >= whole_s:
            return spent_s
        if spent_s >= PROBE_S or length_s >= LONGEST_S:
            break
        length_s = min(length_s * LONGER, whole_s or LONGEST_S)
    return spent_s * (whole_s or _counted_s(phase, events, length_s)) / length_s


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

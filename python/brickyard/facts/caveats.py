"""The warnings that a record deserves: what a reader must know before believing its figures.

Duty: a pure function from a record to warnings, each one sentence with the figure in it and one sentence of remedy.
Refusal: it reads nothing but the record, and says nothing where the record does not tell.

Keys of the record; every one may be absent or null, and what is absent is not judged:

    facts          {"host": …, "target": … or a list of them}, as collect() returns
    watch          Watch.result(ours), or a list of them, one a target
    start          the "start" event
    intervals      list of "interval" events; a shorter form is {"phase", "index", "start_ns", "end_ns", "warmup",
                   "drain", "knob", "requests", "errors"} in the place of "cells"
    phase_ends     list of "phase_end" events
    power_cuts     list of "power_cut" events
    power_cuts_ns  when the power of modelled targets was to fail
    volatile_caches  list of {"path", "caches"}: modelled targets with caches that a power cut empties
    hangs          list of "hang" events
    totals         {"requests", "errors", "write_bytes"}; goes before the sums of `intervals`
    plan           the canonical plan as a dictionary; "io", "engine" and each "phase"[i]["ramp"] are looked at
    store          store_facts(path): {"path", "devices"}
    release_build  bool, as _core.is_release_build()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import caveats_run, caveats_site
from .roots import Json

Rule = Callable[[Json], Iterator[Json]]

RULES: tuple[Rule, ...] = (
    caveats_run.debug_build,
    caveats_run.failures,
    caveats_run.verification,
    caveats_run.hangs,
    caveats_run.generator,
    caveats_run.depth_reached,
    caveats_run.overload,
    caveats_run.fallbacks,
    caveats_run.never_failed,
    caveats_run.never_cut,
    caveats_site.replaced,
    caveats_site.write_cache,
    caveats_site.modelled_write_cache,
    caveats_site.arrays_busy,
    caveats_site.memory,
    caveats_site.device_cache,
    caveats_site.unwritten,
    caveats_site.neighbours,
    caveats_site.processor,
    caveats_site.heat,
    caveats_site.store,
    caveats_site.virtual,
)


def warnings(record: Json) -> list[Json]:
    """[{"id", "severity": "warning" or "note", "text", "remedy"}], warnings before notes, each text once."""
    found: dict[tuple[str, str], Json] = {}
    for rule in RULES:
        try:
            for item in rule(record):
                found.setdefault((item["id"], item["text"]), item)
        except Exception as error:
            # A record of another version, or a damaged one, must still be shown with the warnings that can be told.
            text = f"The rule {rule.__name__} could not read this record ({type(error).__name__}: {error})."
            found.setdefault(("unreadable", text), unreadable(text))
    return sorted(found.values(), key=lambda item: item["severity"] != "warning")


def unreadable(text: str) -> dict[str, Any]:
    return {
        "id": "unreadable",
        "severity": "note",
        "text": text,
        "remedy": "Show the record with the version of Brickyard that made it.",
    }

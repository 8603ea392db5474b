"""Makes records as the engine would, with known contents, so that figures can be checked by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
from hdrh.histogram import HdrHistogram

from brickyard.schema import End, RunOutcome, RunWarning, RunWatch, Told, facts_of, typed
from brickyard.store import Json, Record, Store

SECOND = 1_000_000_000
MS = 1_000_000
US = 1_000

# For a command with mounts of its own: what is unmounted outside is unmounted there, too.
OWN_MOUNTS = ("unshare", "--mount", "--propagation", "slave")


def histogram(values_ns: Iterable[int]) -> str:
    """Encoded by the HdrHistogram project's own library, so that every test also shows that the core can read it."""
    made = HdrHistogram(1, 3600 * SECOND, 3)
    for value, count in Counter(values_ns).items():
        made.record_value(value, count)
    text: bytes = made.encode()
    return text.decode()


def stream(**changes: Any) -> Json:
    return {
        "name": "cell",
        "target": 0,
        "operations": {"read": 100.0, "write": 0.0, "flush": 0.0, "trim": 0.0},
        "request": [{"size": 4096, "share": 100.0}],
        "address": {"kind": "random"},
        "region": "0..100%",
        "workers": 1,
        "depth": 4,
        "pace": {"loop": "closed"},
        **changes,
    }


def plan(*streams: Json, **phase: Any) -> Json:
    return {
        "title": "A load",
        "source": "",
        "about": "",
        "seed": 7,
        "engine": "auto",
        "io": "direct",
        "reap": 1,
        "interval": "1000000000ns",
        "phase": [{"name": "measure", "duration": "3000000000ns", "stream": list(streams) or [stream()], **phase}],
    }


def start_event(**changes: Any) -> Json:
    target = {
        "path": "/data/a file",
        "kind": "file",
        "size_bytes": 1 << 30,
        "data_start_bytes": 4096,
        "data_bytes": (1 << 30) - 4096,
        "align_bytes": 512,
        "unwritten": {"kind": "none"},
    }
    return {
        "event": "start",
        "start_unix_ns": 1_790_000_000 * SECOND,
        "engine": "io_uring",
        "engine_reason": {"kind": "offered"},
        "io": "direct",
        "clock": {"source": "tsc", "read_cost_ns": 16.0},
        "reap": 1,
        "features": [],
        "targets": [target],
        "phases": [],
        **changes,
    }


def cell(values_ns: list[int], *, request_bytes: int = 4096, **changes: Any) -> Json:
    ordered = sorted(values_ns)
    figures = {
        "mean_ns": sum(ordered) / len(ordered),
        "p50_ns": ordered[len(ordered) // 2],
        "p99_ns": ordered[-1],
        "max_ns": ordered[-1],
        "histogram": histogram(ordered),
    }
    return {
        "stream": 0,
        "operation": "read",
        "requests": len(ordered),
        "bytes": len(ordered) * request_bytes,
        "errors": 0,
        "depth_max": 4,
        "measures": {"service": figures, "response": figures},
        **changes,
    }


def interval(start_ns: int, end_ns: int, *cells: Json, **changes: Any) -> Json:
    return {
        "event": "interval",
        "phase": 0,
        "index": 0,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "warmup": False,
        "drain": False,
        "cells": list(cells),
        "cpu": {"user_ns": 10 * MS, "system_ns": 30 * MS},
        "loop_busy_share": 0.25,
        "knob": None,
        **changes,
    }


def slow(response_ns: int) -> Json:
    """One of the slowest requests of a phase."""
    place = {"at_ns": 0, "stream": 0, "operation": "read", "offset_bytes": 0, "request_bytes": 4096}
    return {**place, "service_ns": response_ns, "response_ns": response_ns}


def phase_end(**changes: Any) -> Json:
    return {
        "event": "phase_end",
        "phase": 0,
        "end_ns": 3 * SECOND,
        "reason": "duration",
        "unsent": 0,
        "outstanding": 0,
        "errors_by_errno": {},
        "errors_by_kind": {},
        "slowest": [],
        "cpu": {"user_ns": 30 * MS, "system_ns": 90 * MS},
        "generator_bound": False,
        "loop_busy_share": 0.25,
        **changes,
    }


def told(event: Json) -> Told:
    """An event as its writer would give it."""
    return Told(typed(event), json.dumps(event))


def add_run(
    store: Store,
    events: Iterable[Json],
    *,
    plan_: Json | None = None,
    outcome: str | None = "done",
    study: int | None = None,
    labels: Json | None = None,
    warnings: list[Json] | None = None,
    facts: Json | None = None,
    targets: list[str] | None = None,
    watch: RunWatch | None = None,
    engine: str = "io_uring",
    profile: str = "a-load",
    io: str = "direct",
    condition: str = "normal",
    start: Json | None = None,
) -> int:
    run = store.add_run(
        profile=profile,
        profile_hash="0" * 64,
        plan=plan_ or plan(),
        condition=condition,
        targets=targets or ["/data/a file"],
        options={},
        software_version="0.1.0",
        facts=facts_of(facts or {}),
        study=study,
        labels=labels,
    )
    store.add_events(run, map(told, [start_event(engine=engine, io=io, **(start or {})), *events]))
    if outcome is not None:
        end = End(end_ns=3 * SECOND, outcome=RunOutcome(outcome))
        store.end_run(run, end, watch, msgspec.convert(warnings or [], list[RunWarning]))
    return run


def add_characterization(store: Store, *, sizes: Iterable[int] = (4096, 65536, 1048576), io: str = "direct") -> int:
    """A study of all four patterns: service times grow with the size, and writes take twice as long as reads."""
    study = store.add_study("characterize", {"mode": "quick"})
    for address in ("sequential", "random"):
        for operation in ("read", "write"):
            for size in sizes:
                share = {"read": 0.0, "write": 0.0, "flush": 0.0, "trim": 0.0, operation: 100.0}
                load = stream(operations=share, request=[{"size": size, "share": 100.0}], address={"kind": address})
                base = (50 * US + size) * (2 if operation == "write" else 1)
                events = [
                    interval(
                        number * SECOND,
                        (number + 1) * SECOND,
                        cell([base + k * US for k in range(400)], request_bytes=size, operation=operation),
                    )
                    for number in range(3)
                ]
                add_run(
                    store,
                    [*events, phase_end()],
                    plan_=plan(load),
                    study=study,
                    labels={"address": address, "operation": operation, "request_bytes": size},
                    io=io,
                    warnings=[{"id": "cache", "severity": "note", "text": "Cache unknown.", "remedy": "Look it up."}],
                )
    store.end_study(study, "done", ["512 B left out"])
    return study


def events_of(record: Record, kind: str) -> list[Json]:
    """Events of one name as documents, as the store has them."""
    return [event for event in record.events if event.get("event") == kind]

"""Duty: take runs one after another through the core, and pass every event to the store and to a listener.

Refusal: it neither decides what to run nor shows anything.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from brickyard.analysis import PhaseRate, phase_rates
from brickyard.errors import BadInputError, one_line
from brickyard.store import Json, Store
from brickyard.store.process import own_process
from brickyard.study import circumstances
from brickyard.study.interrupt import Interrupt

EVENT_WAIT_MS = 50
"""An interval is committed within 250 ms of its end and Ctrl-C acts within 200 ms; this is a fraction of both."""


@dataclass(frozen=True)
class RunSpec:
    """One profile on its targets in one condition."""

    profile: str
    plan: str
    targets: list[str]
    options: Json = field(default_factory=dict)
    condition: str = "normal"
    labels: Json = field(default_factory=dict)
    places: tuple[str, ...] | None = None
    """Where the targets lie on this host, where they are no paths themselves."""
    start: Callable[[], Any] | None = None
    """Sets something going that tells the same events as the core does."""


@dataclass(frozen=True)
class RunResult:
    run: int
    outcome: str
    message: str
    start: Json
    rates: tuple[PhaseRate, ...] = ()


class Listener(Protocol):
    """Whoever shows what happens. Called between events of the core, never inside its loop."""

    def expect(self, runs: int) -> None: ...
    def run_begins(self, spec: RunSpec, plan: Json) -> None: ...
    def event(self, event: Json) -> None: ...
    def run_ended(self, result: RunResult) -> None: ...
    def note(self, text: str) -> None: ...


class Silent:
    """A listener that shows nothing."""

    def expect(self, runs: int) -> None: ...
    def run_begins(self, spec: RunSpec, plan: Json) -> None: ...
    def event(self, event: Json) -> None: ...
    def run_ended(self, result: RunResult) -> None: ...
    def note(self, text: str) -> None: ...


class Runner:
    """Runs specs one after another; facts about a list of targets are collected once."""

    def __init__(self, store: Store, listener: Listener, interrupt: Interrupt) -> None:
        self.store = store
        self.listener = listener
        self.interrupt = interrupt
        self._facts: dict[tuple[str, ...], Json] = {}

    def run(self, spec: RunSpec, study: Callable[[], int] | None = None) -> RunResult:
        """Carries one run out. What the core refuses is bad input; what fails later is an outcome."""
        from brickyard import _core

        if not _core.is_release_build():
            raise BadInputError("the core is a debug build, which measures itself; build it with `make run`")
        key = tuple(spec.targets if spec.places is None else spec.places)
        if key not in self._facts:
            self._facts[key] = circumstances.collect(list(key))
        watch = circumstances.Watching(list(key))
        plan = json.loads(spec.plan)
        handle = _start(spec) if spec.start is None else spec.start()
        self.interrupt.attach(handle)
        try:
            run = self.store.add_run(
                profile=spec.profile,
                profile_hash=hashlib.sha256(spec.plan.encode()).hexdigest(),
                plan=plan,
                condition=spec.condition,
                targets=spec.targets,
                options=spec.options,
                software_version=_core.version(),
                facts={**self._facts[key], "process": own_process()},
                study=study() if study else None,
                labels=spec.labels,
            )
            self.listener.run_begins(spec, plan)
            start, end = self._followed(handle, run, watch)
        finally:
            self.interrupt.attach(None)
            watch.stop()
            if not handle.finished():
                handle.abandon()
        record = self.store.record(run)
        watched = watch.results(record)
        self.store.end_run(run, end, {"targets": watched}, circumstances.warnings(self.store, record, watched))
        ended = replace(record, info=replace(record.info, outcome=end["outcome"]))
        result = RunResult(run, end["outcome"], end.get("message", ""), start, tuple(phase_rates(ended)))
        self.listener.run_ended(result)
        return result

    def _followed(self, handle: Any, run: int, watch: circumstances.Watching) -> tuple[Json, Json]:
        """A store that takes no more ends the run as failed, as far as there is room left to say so."""
        try:
            return self._follow(handle, run, watch)
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                end = {"end_ns": 0, "outcome": "failed", "message": f"the store: {one_line(error)}"}
                self.store.end_run(run, end, {}, [])
            raise

    def _follow(self, handle: Any, run: int, watch: circumstances.Watching) -> tuple[Json, Json]:
        """Stores and passes on every event until the end; gives back the first and the last."""
        start: Json = {}
        end: Json | None = None
        while end is None:
            try:
                events = [json.loads(text) for text in handle.events(EVENT_WAIT_MS)]
            except RuntimeError as error:
                return start, {"event": "end", "end_ns": 0, "outcome": "failed", "message": one_line(error)}
            end = next((event for event in events if event["event"] == "end"), None)
            kept = [event for event in events if event["event"] != "end"]
            if kept:
                self.store.add_events(run, kept)
            if end is not None:
                watch.stop()
            for event in kept:
                watch.event(event)
                if event["event"] == "start":
                    start = event
                self.listener.event(event)
            if end is None and handle.finished():
                end = {"event": "end", "end_ns": 0, "outcome": "failed", "message": "the core ended without a word"}
        return start, end


def _start(spec: RunSpec) -> Any:
    from brickyard import _core

    try:
        return _core.start(spec.plan, spec.targets, json.dumps(spec.options))
    except ValueError as error:
        raise BadInputError(one_line(error)) from error

"""Duty: take runs one after another through the core, and pass every event to the store and to a listener.

Refusal: it neither decides what to run nor shows anything.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import msgspec

from brickyard.analysis import PhaseRate
from brickyard.analysis.figures.moments import planned_ns
from brickyard.analysis.figures.ramp_result import closing_rates
from brickyard.conditions import Held
from brickyard.errors import BadInputError, BrickyardError, core_refusals, one_line
from brickyard.schema import (
    Condition,
    ConditionSample,
    CoreSilent,
    End,
    EndAsWritten,
    Event,
    HeldCondition,
    PhaseStart,
    RunFacts,
    RunOptions,
    RunOutcome,
    RunWarning,
    RunWatch,
    Start,
    StoreFailed,
    asks_databases,
    encode,
    failed_end,
    plan_text,
    told,
    words_of,
)
from brickyard.schema.plan import OtherPlan, Plan
from brickyard.store import Record, Store
from brickyard.store.lost import StoreLostError
from brickyard.store.process import own_process
from brickyard.store.record import NO_MARKS, RunMarks, ended_as
from brickyard.study.running import circumstances, summaries
from brickyard.study.running.interrupt import Interrupt

EVENT_WAIT_MS = 50
"""An interval is committed within 250 ms of its end and Ctrl-C acts within 200 ms; this is a fraction of both."""

LOOKING_SHARE = 0.1
"""Of the time of a run, spent on asking the array: a look at sysfs takes 0.1 ms, a controller's tool up to a second."""


@dataclass(frozen=True)
class RunSpec:
    """One profile on its targets in one condition."""

    profile: str
    plan: Plan | OtherPlan
    targets: list[str]
    options: RunOptions = field(default_factory=RunOptions)
    condition: str = "normal"
    marks: RunMarks = NO_MARKS
    places: tuple[str, ...] | None = None
    """Where the targets lie on this host, where they are no paths themselves."""
    start: Callable[[], Any] | None = None
    """Sets something going that tells the same events as the core does."""
    judged: Callable[[Record], list[RunWarning]] = lambda _: []
    """What is found of the run when its last event has come, kept among its warnings."""

    @cached_property
    def plan_text(self) -> str:
        """The plan as the core reads it."""
        return plan_text(self.plan)

    @property
    def profile_plan(self) -> Plan:
        """The plan, of a load that our engine carries."""
        if not isinstance(self.plan, Plan):
            raise BadInputError(f"{self.profile}: no load for the engine")
        return self.plan

    @property
    def profile_hash(self) -> str:
        """Equal plans have equal ones."""
        return hashlib.sha256(self.plan_text.encode()).hexdigest()


@dataclass(frozen=True)
class RunResult:
    run: int
    outcome: str
    message: str
    start: Start | None
    rates: tuple[PhaseRate, ...] = ()
    invalid: str = ""
    """Why the run does not stand for its condition, where the array was in another state meanwhile."""


class Listener(Protocol):
    """Whoever shows what happens. Called between events of the core, never inside its loop."""

    def expect(self, runs: int) -> None: ...
    def run_begins(self, spec: RunSpec) -> None: ...
    def event(self, event: Event) -> None: ...
    def run_ended(self, result: RunResult) -> None: ...
    def note(self, text: str) -> None: ...


class Silent:
    """A listener that shows nothing."""

    def expect(self, runs: int) -> None: ...
    def run_begins(self, spec: RunSpec) -> None: ...
    def event(self, event: Event) -> None: ...
    def run_ended(self, result: RunResult) -> None: ...
    def note(self, text: str) -> None: ...


class Looking:
    """What is looked at while a run goes on: the counters of the devices, and the state of the array."""

    def __init__(
        self, watch: circumstances.Watching, held: Held | None, keep: Callable[[ConditionSample], None]
    ) -> None:
        self._watch, self._held, self._keep = watch, held, keep
        self._looked_s: float | None = None
        self._cost_s = 0.0

    def event(self, event: Event) -> None:
        self._watch.event(event)
        if self._held is not None and isinstance(event, PhaseStart) and self._looked_s is None:
            self._held.begin()
            self._keep_sample()
            self._looked_s = time.monotonic()

    def look(self) -> None:
        """Samples the array about once a second, less often where its tool takes long to answer; and the counters."""
        self._watch.look()
        if self._held is not None and self._looked_s is not None:
            now = time.monotonic()
            if now - self._looked_s >= max(circumstances.SAMPLE_EVERY_S, self._cost_s / LOOKING_SHARE):
                self._looked_s = now
                self._held.sample()
                self._keep_sample()
                self._cost_s = time.monotonic() - now

    def stop(self) -> None:
        if self._held is not None and self._looked_s is not None:
            self._held.sample()
            self._keep_sample()
        self._watch.stop()

    def _keep_sample(self) -> None:
        """Each sample is kept when it comes, so that a kill leaves those that there were."""
        if self._held is not None and self._held.samples:
            unix_ns, state, share = self._held.samples[-1]
            self._keep(ConditionSample(unix_ns=unix_ns, state=state, progress_share=share))


class Runner:
    """Runs specs one after another; facts about a list of targets are collected once."""

    def __init__(self, store: Store, listener: Listener, interrupt: Interrupt) -> None:
        self.store = store
        self.listener = listener
        self.interrupt = interrupt
        self._facts: dict[tuple[str, ...], RunFacts] = {}

    def facts_of(self, places: Sequence[str]) -> RunFacts:
        """What is known of targets and host before their first run; gathered once."""
        key = tuple(places)
        if key not in self._facts:
            self._facts[key] = circumstances.collect(list(key))
        return self._facts[key]

    def run(self, spec: RunSpec, study: Callable[[], int] | None = None, held: Held | None = None) -> RunResult:
        """Carries one run out. What the core refuses is bad input; what fails later is an outcome."""
        from brickyard import _core

        if not _core.is_release_build():
            raise BadInputError("the core is a debug build, which measures itself; build it with `make run`")
        key = tuple(spec.targets if spec.places is None else spec.places)
        known = circumstances.looked_at(self.facts_of(key), spec.plan)
        are_servers = asks_databases(spec.plan)
        watch = circumstances.Watching(
            list(key),
            circumstances.watch_beside(known, spec.plan),
            are_servers=are_servers,
            planned_ns=planned_ns(spec.plan),
        )
        try:
            handle = _start(spec) if spec.start is None else spec.start()
        except BaseException:
            watch.stop()
            raise
        self.interrupt.attach(handle)
        is_far = spec.options.hosts is not msgspec.UNSET
        hosts = [one.known for one in handle.seen() if one.known is not None] if is_far else []
        try:
            run = self.store.add_run(
                profile=spec.profile,
                profile_hash=spec.profile_hash,
                plan=spec.plan,
                condition=spec.condition,
                targets=spec.targets,
                options=spec.options,
                software_version=_core.version(),
                facts=msgspec.structs.replace(known, process=own_process(), hosts=hosts),
                study=study() if study else None,
                labels=spec.marks,
            )
            self.listener.run_begins(spec)
            start, end = self._followed(
                handle, run, Looking(watch, held, lambda event: self.store.add_events(run, [event]))
            )
        finally:
            self.interrupt.attach(None)
            watch.stop()
            if not handle.finished():
                handle.abandon()
        record = self.store.record(run)
        watched = watch.results(record)
        invalid = self._judged(run, held) if held is not None and end.outcome is RunOutcome.DONE else []
        seen, notes = (handle.seen(), handle.notes) if is_far else ([], [])
        told = circumstances.warnings(self.store, record, watched, seen, notes)
        beside = [one.watched for one in seen if one.watched is not None]
        watch_found = RunWatch(targets=list(watched), hosts=beside)
        self.store.end_run(run, end, watch_found, [*invalid, *spec.judged(record), *told])
        outcome = ended_as(end.outcome)
        ended = replace(record, info=replace(record.info, outcome=outcome))
        rates = tuple(closing_rates(ended))
        if end.outcome is RunOutcome.DONE:
            summaries.keep(self.store, ended)
        reason = invalid[0].reason if invalid else ""
        result = RunResult(run, outcome, words_of(end.message), start, rates, reason)
        self.listener.run_ended(result)
        return result

    def _judged(self, run: int, held: Held) -> list[RunWarning]:
        """Keeps how the array stood while the run went on; a warning where that was not the run's condition."""
        verdict = held.verdict()
        array = held.array.sheet().document() if held.array is not None else None
        # Its samples were told one by one when they came.
        judged = Condition(
            condition=HeldCondition(held.condition), array=array, valid=verdict.valid, reason=verdict.reason
        )
        self.store.add_events(run, [judged])
        return [] if verdict.valid else [circumstances.invalid_condition(held.condition, words_of(verdict.reason))]

    def _followed(self, handle: Any, run: int, watch: Looking) -> tuple[Start | None, End]:
        """A store that takes no more, or an array that does not do its part, ends the run as failed."""
        try:
            return self._follow(handle, run, watch)
        except StoreLostError as error:
            handle.abandon()
            raise StoreLostError(self.store.rescued(error)) from error
        except (sqlite3.Error, BrickyardError) as error:
            with suppress(sqlite3.Error):
                said = one_line(error)
                reason = EndAsWritten(text=said) if isinstance(error, BrickyardError) else StoreFailed(error=said)
                self.store.end_run(run, failed_end(reason), None, [])
            raise

    def _follow(self, handle: Any, run: int, watch: Looking) -> tuple[Start | None, End]:
        """Stores and passes on every event until the end; gives back the first and the last."""
        start: Start | None = None
        end: End | None = None
        while end is None:
            try:
                events = [told(text) for text in handle.events(EVENT_WAIT_MS)]
            except RuntimeError as error:
                return start, failed_end(one_line(error))
            end = next((one.event for one in events if isinstance(one.event, End)), None)
            kept = [one for one in events if not isinstance(one.event, End)]
            if kept:
                self.store.add_events(run, kept)
            if end is not None:
                watch.stop()
            for one in kept:
                watch.event(one.event)
                if isinstance(one.event, Start):
                    start = one.event
                self.listener.event(one.event)
            watch.look()
            if end is None:
                self.interrupt.heed(self.listener.note)
            if end is None and handle.finished():
                end = failed_end(CoreSilent())
        return start, end


def _start(spec: RunSpec) -> Any:
    from brickyard import _core

    with core_refusals():
        return _core.start(spec.plan_text, spec.targets, encode(spec.options))

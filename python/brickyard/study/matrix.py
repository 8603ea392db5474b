"""Duty: a study from its first missing run to its last: order, repetitions, settling, repeats of invalid runs, stops.

Whatever has been finished stays finished: a run is looked up by the identity of its cell in the whole store, so that a
study goes on where Ctrl-C, a kill or a reboot has ended it.

Refusal: no figure is computed here but the interval that a stop rule asks for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from brickyard import _core
from brickyard.analysis.figures import FIGURES, measured
from brickyard.analysis.samples import sample
from brickyard.errors import BadInputError, one_line
from brickyard.store import Json, RunInfo, Store
from brickyard.study.cells import Layout, Specs, StudyCell, Wishes, rate_bytes_per_s
from brickyard.study.design import Design
from brickyard.study.holding import holding
from brickyard.study.interrupt import Interrupt
from brickyard.study.runner import Listener, Runner, RunResult, RunSpec

SETTLE_STEP_S = 0.1  # how soon Ctrl-C is seen while storage settles
PRECISE_FROM = 3  # repetitions below which no interval is worth stopping for


@dataclass(frozen=True)
class Step:
    """One repetition of one cell, with what it is known by."""

    cell: StudyCell
    repetition: int
    spec: RunSpec

    @property
    def identity(self) -> str:
        return str(self.spec.labels["cell"])


@dataclass
class MatrixResult:
    study: int | None
    outcome: str = "done"
    message: str = ""
    made: list[int] = field(default_factory=list)
    reused: int = 0
    notes: list[str] = field(default_factory=list)


def steps(design: Design, layout: Layout, wishes: Wishes, specs: Specs) -> list[Step]:
    """All repetitions in the order in which they run: a repetition is a block, and so is each level of `blocks`."""
    found = []
    for repetition in range(1, (wishes.repetitions or design.repetitions) + 1):
        blocks: dict[tuple[str, ...], list[StudyCell]] = {}
        for cell in layout.cells:
            blocks.setdefault(tuple(cell.levels[name] for name in design.blocks), []).append(cell)
        for number, block in enumerate(blocks.values()):
            dice = random.Random(f"{design.seed}/{repetition}/{number}")  # noqa: S311  # an order, not a secret
            ordered = dice.sample(block, len(block)) if design.order == "random" else block
            found += [Step(cell, repetition, specs.spec(cell, repetition)) for cell in ordered]
    return found


def finished(runs: Iterable[RunInfo], identities: Iterable[str]) -> dict[str, list[RunInfo]]:
    """Runs of cells by identity, whatever became of them."""
    wanted = set(identities)
    found: dict[str, list[RunInfo]] = {}
    for run in runs:
        identity = run.labels.get("cell")
        if identity in wanted:
            found.setdefault(str(identity), []).append(run)
    return found


def is_good(run: RunInfo) -> bool:
    return run.outcome == "done" and not run.invalid


class Matrix:
    """One study being carried out."""

    def __init__(
        self,
        store: Store,
        listener: Listener,
        interrupt: Interrupt,
        design: Design,
        wishes: Wishes,
        planned: list[Step],
    ) -> None:
        self.store, self.listener, self.interrupt = store, listener, interrupt
        self.design, self.wishes, self.planned = design, wishes, planned
        self.runner = Runner(store, listener, interrupt)
        self.earlier = finished(store.runs(), (step.identity for step in planned))
        self.result = MatrixResult(None)
        self._values: dict[tuple[str, ...], list[float]] = {}
        self._failed = 0
        self._began_s = time.monotonic()

    @property
    def missing(self) -> list[Step]:
        return [step for step in self.planned if not any(map(is_good, self.earlier.get(step.identity, [])))]

    def run(self) -> MatrixResult:
        todo = self.missing
        self.result.reused = len(self.planned) - len(todo)
        self.listener.expect(len(todo))
        if self.result.reused:
            self.listener.note(f"{self.result.reused} of {len(self.planned)} runs are in the store already")
        for number, step in enumerate(todo):
            if why := self._stop(step):
                if why != "precise":
                    self._end("stopped", why)
                    break
                continue
            if number and not step.cell.is_modelled and not self._settle():
                self._end("interrupted", "while storage settled")
                break
            if not self._carry_out(step):
                break
        self._close()
        return self.result

    def _carry_out(self, step: Step) -> bool:
        """One repetition, again while it is invalid; whether the study goes on."""
        known = [run for run in self.earlier.get(step.identity, []) if run.invalid]
        for attempt in range(len(known), self.design.retries + 1):
            try:
                last = self._one(step)
            except BadInputError as error:
                if not self.result.made and not self.result.reused:
                    raise
                return self._fail(f"{step.cell.name}: {one_line(error)}")
            self.result.made.append(last.run)
            if last.outcome == "interrupted":
                self._end("interrupted", last.message)
                return False
            if last.outcome != "done":
                return self._fail(f"run {last.run}, {step.cell.name}: {last.message or last.outcome}")
            if not last.invalid:
                return self._counted(step, last)
            more = "; once more" if attempt < self.design.retries else "; no more tries, see retries"
            self.listener.note(f"run {last.run} is invalid: {last.invalid}{more}")
        self._note(f"{step.cell.name}, repetition {step.repetition}: no valid run in {self.design.retries + 1} tries")
        return True

    def _one(self, step: Step) -> RunResult:
        recipe = step.cell.recipe
        rate = rate_bytes_per_s(recipe.rebuild_rate) if recipe.rebuild_rate else None
        with holding(
            step.spec,
            manage=self.wishes.manage,
            rate_bytes_per_s=rate,
            neighbour=recipe.neighbour,
            array=recipe.array,
            say=self.listener.note,
        ) as held:
            return self.runner.run(step.spec, self._study, held)

    def _counted(self, step: Step, last: RunResult) -> bool:
        errors = sum(rate.errors for rate in last.rates)
        if errors and self.design.stop.errors:
            self._end("stopped", f"{errors:,} requests failed in run {last.run} (stop.errors)")
            return False
        return True

    def _fail(self, text: str) -> bool:
        self._note(text)
        self._failed += 1
        if self._failed >= self.design.stop.failed_runs:
            self._end("failed", text)
            return False
        return True

    def _stop(self, step: Step) -> str:
        stop = self.design.stop
        if self.interrupt.requested:
            return "interrupted"
        if stop.after and (time.monotonic() - self._began_s) * 1e9 >= _core.parse_duration_ns(stop.after):
            return f"{stop.after} are over (stop.after)"
        if stop.precision is not None and self._is_precise(step, stop.precision):
            return "precise"
        return ""

    def _is_precise(self, step: Step, wanted: float) -> bool:
        """Whether the first table's figure of this cell is known well enough by its earlier repetitions."""
        if step.repetition <= PRECISE_FROM:
            return False
        others = [s for s in self.planned if s.cell.levels == step.cell.levels and s.repetition < step.repetition]
        runs = [r for s in others for r in finished(self.store.runs(), [s.identity]).get(s.identity, []) if is_good(r)]
        figure = FIGURES[self.design.tables[0].figure]
        values = [m.value for run in runs for m in measured(self.store.record(run.id), figure) if m.value is not None]
        made = sample(values) if len(values) >= PRECISE_FROM else None
        width = made.relative_width if made else None
        return width is not None and width <= wanted

    def _settle(self) -> bool:
        until_s = time.monotonic() + _core.parse_duration_ns(self.design.settle) / 1e9
        while (left_s := until_s - time.monotonic()) > 0:
            if self.interrupt.requested:
                return False
            time.sleep(min(left_s, SETTLE_STEP_S))
        return not self.interrupt.requested

    def _study(self) -> int:
        """The newest row of this very study that has not ended, or a new one when its first run has really begun."""
        if self.result.study is None:
            about = self.about()
            rows = [s for s in self.store.studies() if s.about == about and s.outcome == "interrupted"]
            self.result.study = rows[-1].id if rows else self.store.add_study(self.design.name, about)
        return self.result.study

    def about(self) -> Json:
        return {
            "study": self.design.name,
            "title": self.design.title,
            "label": self.wishes.label,
            "text": self.design.text,
            "targets": list(self.wishes.targets),
            "only": list(self.wishes.only),
            "changes": list(self.wishes.changes),
            "prices": list(self.wishes.prices),
            "cells": [step.identity for step in self.planned],
        }

    def _note(self, text: str) -> None:
        self.result.notes.append(text)
        self.listener.note(text)

    def _end(self, outcome: str, message: str) -> None:
        self.result.outcome, self.result.message = outcome, message

    def _close(self) -> None:
        """A study that was interrupted has no end, so that the next call goes on with it."""
        if self.result.study is not None and self.result.outcome in ("done", "failed"):
            self.store.end_study(self.result.study, self.result.outcome, self.result.notes)

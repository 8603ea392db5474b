"""Duty: a study from its first missing run to its last: order, repetitions, settling, repeats of invalid runs, stops.

Whatever has been finished stays finished: a run is looked up by the identity of its cell in the whole store, so that a
study goes on where Ctrl-C, a kill or a reboot has ended it.

Refusal: no figure is computed here but the interval that a stop rule asks for.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from brickyard import _core
from brickyard.analysis.figures.named import FIGURES, measured
from brickyard.analysis.figures.samples import sample
from brickyard.analysis.figures.sending import asked_noun
from brickyard.databases.pgbench_home import Homes
from brickyard.databases.pgbench_plan import KIND
from brickyard.errors import BadInputError, one_line
from brickyard.schema import Document
from brickyard.store import RunHead, Store
from brickyard.study.designs.apart import check_apart
from brickyard.study.designs.cells import Layout, Specs, StudyCell, Wishes, lay_out, shown_aim
from brickyard.study.designs.design import Design, read_design
from brickyard.study.designs.holding import Keeper, SetUp, is_rebuilt_next
from brickyard.study.designs.texts import StudyText
from brickyard.study.running.forecast import forecast
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Listener, Runner, RunResult, RunSpec
from brickyard.units import format_counted

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
        return self.spec.marks.cell


Hosting = Callable[[StudyCell, RunSpec], RunSpec]
"""Makes of a run one over the hosts of its cell; raises BadInputError where they cannot carry it."""


@dataclass
class MatrixResult:
    study: int | None
    outcome: str = "done"
    message: str = ""
    made: list[int] = field(default_factory=list)
    reused: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PlannedStudy:
    """A study with the wishes of whoever carries it out."""

    design: Design
    layout: Layout
    steps: list[Step]


def planned_study(text: StudyText, wishes: Wishes) -> PlannedStudy:
    """Raises BadInputError where the study or a wish is wrong. Paths in a study's file are looked up beside it."""
    design = read_design(text)
    layout = lay_out(design, wishes)
    check_apart(design, wishes, layout.cells, text.folder)
    return PlannedStudy(design, layout, steps(design, layout, wishes, Specs(design, wishes, text.folder)))


def steps(design: Design, layout: Layout, wishes: Wishes, specs: Specs) -> list[Step]:
    """All repetitions in the order in which they run: a repetition is a block, and so is each level of `blocks`."""
    found = []
    for repetition in range(1, (wishes.repetitions or design.repetitions) + 1):
        blocks: dict[tuple[str, ...], list[StudyCell]] = {}
        for cell in layout.cells:
            blocks.setdefault(tuple(cell.levels[name] for name in design.blocks), []).append(cell)
        for number, block in enumerate(blocks.values()):
            dice = random.Random(f"{design.seed}/{repetition}/{number}")  # noqa: S311  # an order, not a secret
            ordered = _shuffled(block, dice) if design.order == "random" else block
            found += [Step(cell, repetition, specs.spec(cell, repetition)) for cell in ordered]
    return found


def _shuffled(block: list[StudyCell], dice: random.Random) -> list[StudyCell]:
    """At random; where conditions have to be set up, one after the other, each with its cells at random.

    To rebuild an array takes hours, so a condition is set up once in a block. Drift within a block then falls on
    conditions, as it does on whole plots of a split-plot design; a repetition sets each of them up anew, in another
    order. An array that is measured degraded is rebuilt right after that, since else it would be rebuilt twice.
    """
    ordered = dice.sample(block, len(block))
    if not any(cell.set_up.changes_something for cell in block):
        return ordered
    plots: dict[SetUp, list[StudyCell]] = {}
    for cell in ordered:
        plots.setdefault(cell.set_up, []).append(cell)
    order = dice.sample(list(plots), len(plots))
    for rebuilding in [what for what in order if what.condition == "rebuilding"]:
        degraded = next((what for what in order if is_rebuilt_next(what, rebuilding)), None)
        if degraded is not None:
            order.remove(degraded)
            order.insert(order.index(rebuilding), degraded)
    return [cell for what in order for cell in plots[what]]


SHARED_WORDS = (
    "conditions are set up once per repetition and held for its runs. Their order, and the order of the runs within "
    "each, is random or as written, except that a degraded array is rebuilt next. Drift within a repetition may "
    "affect one condition; further repetitions show this"
)


def shares_conditions(planned: Iterable[Step]) -> bool:
    """Whether several runs of a repetition share a condition that is set up for them."""
    counts = Counter((step.repetition, step.cell.set_up) for step in planned if step.cell.set_up.changes_something)
    return any(count > 1 for count in counts.values())


def finished(runs: Iterable[RunHead], identities: Iterable[str]) -> dict[str, list[RunHead]]:
    """Runs of cells by identity, whatever became of them."""
    wanted = set(identities)
    found: dict[str, list[RunHead]] = {}
    for run in runs:
        if (identity := run.marks.cell) in wanted:
            found.setdefault(identity, []).append(run)
    return found


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
        hosting: Hosting | None = None,
    ) -> None:
        self._hosting = hosting
        self.store, self.listener, self.interrupt = store, listener, interrupt
        self.design, self.wishes, self.planned = design, wishes, planned
        self.runner = Runner(store, listener, interrupt)
        self.earlier = finished(store.heads(), (step.identity for step in planned))
        self.result = MatrixResult(None)
        self._homes = Homes(listener.note)
        self._values: dict[tuple[str, ...], list[float]] = {}
        self._keeper = Keeper(
            lambda what: what.hold(
                manage=wishes.manage, say=listener.note, stopped=lambda: self.runner.interrupt.requested
            )
        )
        self._failed = 0
        self._began_s = time.monotonic()

    @property
    def missing(self) -> list[Step]:
        return [step for step in self.planned if not any(run.is_valid for run in self.earlier.get(step.identity, []))]

    def run(self, expected: Sequence[str] = ()) -> MatrixResult:
        """`expected`: what the study is going to do, told once nothing refuses it."""
        todo = self.missing
        self._check(todo)
        for line in expected:
            self.listener.note(line)
        self.result.reused = len(self.planned) - len(todo)
        self.listener.expect(len(todo))
        if self.result.reused:
            self.listener.note(f"{self.result.reused} of {len(self.planned)} runs are in the store already")
        if shares_conditions(todo):
            self._note(SHARED_WORDS)
        try:
            self._all(todo)
            self._homes.close()
            self._keeper.close()
        except BaseException as error:
            self._homes.close()
            self._keeper.abandon(error)
            raise
        self._close()
        return self.result

    def _check(self, todo: list[Step]) -> None:
        """Conditions that cannot be had are refused before anything is measured."""
        for cell in {step.cell.set_up: step.cell for step in todo}.values():
            try:
                cell.set_up.check(manage=self.wishes.manage)
            except BadInputError as error:
                raise BadInputError(f"{self.design.name}: {cell.name}: {one_line(error)}") from error
        for step in {(step.cell.recipe.hosts, step.cell.share, step.spec.profile): step for step in todo}.values():
            self._placed(step, step.spec)

    def _placed(self, step: Step, spec: RunSpec) -> RunSpec:
        if step.cell.recipe.hosts is None:
            return spec
        if self._hosting is None:
            raise BadInputError(f"{self.design.name}: {step.cell.name}: no fleet; see `brickyard fleet up`")
        return self._hosting(step.cell, spec)

    def _all(self, todo: list[Step]) -> None:
        for number, step in enumerate(todo):
            if self.interrupt.requested:
                self._end("interrupted", "before the next run began")
                break
            if why := self._over():
                self._end("stopped", why)
                break
            if self.design.stop.precision is not None and self._is_precise(step, self.design.stop.precision):
                continue
            if number and not step.cell.is_modelled and not self._settle():
                self._end("interrupted", "while storage settled")
                break
            if not self._carry_out(step):
                break

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
            (kept,) = self.store.heads(last.run, last.run)
            if not kept.invalid:
                return self._counted(step, last)
            self._keeper.close()  # whatever became of the condition, the next try has one of its own
            more = "; it is repeated" if attempt < self.design.retries else "; no tries are left (see retries)"
            self.listener.note(f"run {last.run} is invalid: {kept.invalid}{more}")
        self._note(f"{step.cell.name}, repetition {step.repetition}: no valid run in {self.design.retries + 1} tries")
        return True

    def _one(self, step: Step) -> RunResult:
        is_pgbench = step.spec.profile == KIND
        lasts_s = None if is_pgbench else forecast(step.spec.profile_plan, []).duration_s
        held = self._keeper.keep(step.cell.set_up, lasts_s)
        spec = step.spec
        if held is not None and step.cell.set_up.changes_something:
            # Which runs were measured in one and the same condition is part of the design.
            spec = replace(spec, marks=structs.replace(spec.marks, set_up=self._keeper.set_ups))
        if is_pgbench:
            from brickyard.study.running.pgbench import at_home

            spec = at_home(spec, self._homes)
        return self.runner.run(self._placed(step, spec), self._study, held)

    def _counted(self, step: Step, last: RunResult) -> bool:
        errors = sum(rate.errors or 0 for rate in last.rates)
        if errors and self.design.stop.errors:
            self._end(
                "stopped",
                f"{format_counted(errors, asked_noun(step.spec.plan))} failed in run {last.run} (stop.errors)",
            )
            return False
        return True

    def _fail(self, text: str) -> bool:
        self._note(text)
        self._failed += 1
        if self._failed >= self.design.stop.failed_runs:
            self._end("failed", text)
            return False
        return True

    def _over(self) -> str:
        after = self.design.stop.after
        if after and (time.monotonic() - self._began_s) * 1e9 >= _core.parse_duration_ns(after):
            return f"{after} are over (stop.after)"
        return ""

    def _is_precise(self, step: Step, wanted: float) -> bool:
        """Whether the first table's figure of this cell is known well enough by its earlier repetitions."""
        if step.repetition <= PRECISE_FROM:
            return False
        others = [s for s in self.planned if s.cell.levels == step.cell.levels and s.repetition < step.repetition]
        runs = [r for s in others for r in finished(self.store.heads(), [s.identity]).get(s.identity, []) if r.is_valid]
        figure = FIGURES[self.design.tables[0].figure]
        found = [m.value for run in runs for m in measured(self.store.record(run.id), figure)]
        values = [value for value in found if value is not None]
        made = sample(values) if len(found) == len(values) >= PRECISE_FROM else None
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

    def about(self) -> Document:
        return {
            "study": self.design.name,
            "title": self.design.title,
            "label": self.wishes.label,
            "text": self.design.text,
            "targets": [shown_aim(self.design, text) for text in self.wishes.targets],
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

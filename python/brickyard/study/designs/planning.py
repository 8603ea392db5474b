"""Duty: what a study is going to do, in order, and how long that takes. Refusal: nothing is touched."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import structs

from brickyard import _core
from brickyard.databases.pgbench_plan import KIND
from brickyard.errors import BadInputError, one_line
from brickyard.schema import Document, plan_text
from brickyard.store import Store, default_place
from brickyard.study.designs.design import Design
from brickyard.study.designs.matrix import Step, finished
from brickyard.study.running.check import check_run
from brickyard.study.running.computing import MODELLED_WRITES, Computed, computing_s, computing_words
from brickyard.study.running.forecast import change_lines, forecast
from brickyard.units import format_counted, format_seconds

OVERHEAD_S = 0.5  # opening, closing and committing, on top of the run's own time


@dataclass(frozen=True)
class Line:
    number: int
    step: Step
    seconds: float | None
    is_done: bool

    def words(self, design: Design) -> list[str]:
        cell = self.step.cell
        labels = [factor.level(cell.levels[factor.name]).label for factor in design.factors]
        lasts = "until its limits" if self.seconds is None else format_seconds(self.seconds)
        lasts, done = ("", "in the store") if self.is_done else (lasts, "")
        where = ", ".join(cell.targets) + (f" on {cell.recipe.hosts}" if cell.recipe.hosts else "")
        condition = "" if cell.condition == "normal" else cell.condition.replace("_", " ")
        return [
            str(self.number),
            *labels,
            str(self.step.repetition),
            where,
            self.step.spec.profile,
            condition,
            lasts,
            done,
        ]


@dataclass(frozen=True)
class StudyPlan:
    lines: list[Line]

    @property
    def done(self) -> int:
        return sum(line.is_done for line in self.lines)

    @property
    def seconds(self) -> float:
        return sum(line.seconds or 0.0 for line in self.lines if not line.is_done)

    @property
    def open_ended(self) -> int:
        return sum(line.seconds is None for line in self.lines if not line.is_done)

    @property
    def missing_targets(self) -> list[str]:
        """Files that are neither there nor going to be made, so that their runs would be refused."""
        missing = [
            target
            for line in self.lines
            if not line.is_done
            and not line.step.cell.is_modelled
            and line.step.cell.recipe.hosts is None
            and line.step.spec.options.size_bytes is None
            for target in line.step.cell.targets
            if not os.path.lexists(target)
        ]
        return list(dict.fromkeys(missing))

    @property
    def missing(self) -> list[Line]:
        return [line for line in self.lines if not line.is_done]

    def forecast_lines(self) -> list[str]:
        """Before the missing runs begin: how long they take, and what they write."""
        missing = self.missing
        if not missing:
            return []
        lines = [f"duration of {len(missing)} runs: {self.duration_words()}"]
        if all(line.step.cell.is_modelled for line in missing):
            return [*lines, MODELLED_WRITES]
        # A database server writes whatever it is asked.
        plans = [None if line.step.spec.profile == KIND else line.step.spec.profile_plan for line in missing]
        expected = [None if plan is None else forecast(plan, []) for plan in plans]
        is_written = any(one is None or one.writes for one in expected)
        is_trimmed = any(one is not None and one.trims for one in expected)
        first, *others = change_lines(is_written, is_trimmed, "none, apart from filling made files")
        return [*lines, first + (", and the databases that are loaded" if None in plans else ""), *others]

    def duration_words(self) -> str:
        open_ended, missing = self.open_ended, self.missing
        all_modelled = all(line.step.cell.is_modelled for line in missing)
        said = []
        if open_ended < len(missing):
            said.append(f"about {computing_words(self.seconds) if all_modelled else format_seconds(self.seconds)}")
        if open_ended:
            ending = "that ends at its limit" if open_ended == 1 else "that end at their limits"
            said.append(f"{format_counted(open_ended, 'runs')} {ending}")
        real = {line.step.spec.profile for line in missing if not line.step.cell.is_modelled}
        if real - {KIND}:
            said.append("the time for filling the parts that are not known to hold data")
        # How long that takes is up to the server, and it is done once for all runs of one database.
        unknown = ", without the time for making servers and loading databases" if KIND in real else ""
        return ", and ".join(said) + unknown

    def document(self) -> Document:
        return {
            "runs": [
                {
                    "levels": dict(line.step.cell.levels),
                    "repetition": line.step.repetition,
                    "targets": list(line.step.cell.targets),
                    "profile": line.step.spec.profile,
                    "condition": line.step.cell.condition,
                    "duration_s": line.seconds,
                    "done": line.is_done,
                    "cell": line.step.identity,
                }
                for line in self.lines
            ],
            "duration_s": self.seconds,
            "open_ended": self.open_ended,
            "missing_targets": self.missing_targets,
        }


def refusals(plan: StudyPlan, *, manage: bool) -> list[str]:
    """What runs that are missing would be refused for, each once; nothing is made, written or changed."""
    found: list[str] = []
    seen: set[str] = set()
    for line in plan.lines:
        cell, spec = line.step.cell, line.step.spec
        what = [plan_text(structs.replace(spec.plan, seed=0)), spec.targets, spec.options, cell.condition]
        key = json.dumps(what, default=msgspec.to_builtins)
        is_far = cell.recipe.hosts is not None  # its hosts look at their targets themselves
        if line.is_done or key in seen or is_far or not set(plan.missing_targets).isdisjoint(cell.targets):
            continue
        seen.add(key)
        try:
            cell.set_up.check(manage=manage)
            if spec.profile != KIND:  # its server is made when its set begins, and refuses what it cannot do
                check_run(spec.profile_plan, spec.targets, spec.options)
        except BadInputError as error:
            found.append(one_line(error))
    return list(dict.fromkeys(found))


def plan_of(design: Design, planned: Sequence[Step], place: Path | None) -> StudyPlan:
    settle_s = _core.parse_duration_ns(design.settle) / 1e9
    done = _done(planned, place)
    modelled = [
        Computed(step.spec.profile_plan, step.spec.targets, step.spec.options)
        for step in planned
        if step.cell.is_modelled and step.identity not in done
    ]
    modelled_s = computing_s(modelled) / max(1, len(modelled))
    return StudyPlan(
        [
            Line(number, step, _seconds(step, settle_s, modelled_s), step.identity in done)
            for number, step in enumerate(planned, 1)
        ]
    )


def _seconds(step: Step, settle_s: float, modelled_s: float) -> float | None:
    """How long one run takes; None where only the storage's speed decides."""
    if step.cell.is_modelled:
        return modelled_s
    if step.spec.profile == KIND:
        (phase,) = step.spec.plan.phase
        expected = phase.duration.ns / 1e9 if phase.duration else None
    else:
        expected = forecast(step.spec.profile_plan, [None] * len(step.cell.targets)).duration_s
    return None if expected is None else expected + settle_s + OVERHEAD_S


def _done(planned: Sequence[Step], place: Path | None) -> set[str]:
    """Finished cells; a store that does not exist yet is not made for a dry run."""
    if not (place or default_place()).exists():
        return set()
    with Store(place, must_exist=True) as store:
        runs = finished(store.heads(), (step.identity for step in planned))
    return {identity for identity, group in runs.items() if any(run.is_valid for run in group)}

"""Duty: Brickyard for programs and notebooks: profiles, runs, figures, tables, comparisons and reports as values.

What is here is in `brickyard` itself: `import brickyard; brickyard.run(...)`. Each function calls what the command line
calls, so that both refuse the same and record the same.

Refusal: no figure is computed here, and nothing is printed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from brickyard import analysis, bricks, profiles
from brickyard.analysis.figures.samples import checked_confidence
from brickyard.analysis.figures.totals import Totals
from brickyard.analysis.judging.gate import Compared, compared
from brickyard.analysis.judging.pairing import valid_sides
from brickyard.conditions import Held
from brickyard.databases.connect import refuse_twice
from brickyard.errors import BadInputError, BrickyardError, nearest
from brickyard.report.export import COLUMNS, Rows, arrow_table, rows
from brickyard.schema import RunOptions, RunWarning
from brickyard.schema.plan import OtherPlan, Plan
from brickyard.store import Record, Store
from brickyard.study.designs.cells import Wishes
from brickyard.study.designs.matrix import Matrix, planned_study
from brickyard.study.designs.texts import read as study_text
from brickyard.study.replays.run import ReplaySpec
from brickyard.study.replays.series import (
    MAX_ERRORS,
    carry_out,
    planned,
    refuse_impossible,
    spec_of,
    why_failed,
)
from brickyard.study.running.aim import Aim, aimed, check_unnamed
from brickyard.study.running.check import check_run
from brickyard.study.running.fit import refuse_programs
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.repeat import repeat
from brickyard.study.running.runner import Listener, RunResult, Silent
from brickyard.study.shipped.characterize import TIMING, Characterization, Characterized, Mode, cells, plan_of


@dataclass(frozen=True)
class Load:
    """A profile with its changes. `plan` is what a run does, with every default filled in."""

    name: str
    plan: Plan


@dataclass(frozen=True)
class Table:
    """A table of `brickyard export`: the type of each column, and rows as dictionaries. Times are in ns."""

    types: dict[str, type]
    rows: list[dict[str, Any]]

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The columns by name, as input for `pandas.DataFrame` and `polars.DataFrame`. Values that were not measured
        are None."""
        return {name: [row.get(name) for row in self.rows] for name in self.types}

    def arrow(self) -> Any:
        """The table as a pyarrow.Table. Raises BadInputError if pyarrow is not installed."""
        return arrow_table(self.rows, self.types)


@dataclass(frozen=True)
class Measured:
    """A run and its record."""

    record: Record

    @property
    def run(self) -> int:
        """Its number in the store."""
        return self.record.info.id

    @property
    def outcome(self) -> str:
        """`done`, `interrupted` or `failed`."""
        return self.record.info.outcome

    @property
    def warnings(self) -> list[str]:
        """Warnings that affect the figures of this run."""
        return [warning.text for warning in self.record.info.warnings]

    @cached_property
    def figures(self) -> list[Totals]:
        """Rates, counts and times of each operation of each stream, without the warm-up."""
        return analysis.totals(self.record)


@dataclass(frozen=True)
class Studied:
    """The result of a study: its number in the store, its runs, and its notes."""

    study: int | None
    runs: list[int]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Replayed:
    """The result of a replay of web logs. `failed` has the reasons why the replay failed, such as too many failed
    calls."""

    study: int | None
    runs: list[Measured]
    failed: list[str] = field(default_factory=list)


def is_modelled(target: str) -> bool:
    """Whether a target is a modelled brick."""
    return bricks.is_modelled(target)


def profile(name: str, *changes: str, text: str | None = None) -> Load:
    """Reads a shipped profile by its name, or a TOML file by its path. With `text`, reads that TOML, and `name` names
    it.

    `changes` have the form `key=value`, as for `--set`.
    """
    found = profiles.read(name) if text is None else profiles.ProfileText(name, text, name)
    return Load(found.name, profiles.changed(found, list(changes)))


def run(
    store: Store,
    load: Load | str,
    targets: Sequence[str] = (),
    *,
    condition: str | None = None,
    brick_changes: Sequence[str] = (),
    repetitions: int = 1,
    size: str | None = None,
    overwrite: Sequence[str] = (),
    destroys_data: bool = False,
    say: Callable[[str], None] | None = None,
) -> list[Measured]:
    """Runs a workload on files, block devices or modelled bricks (`sim:NAME`), once or several times with different
    seeds.

    Without a target it makes a scratch file of `size` and removes it at the end. A device is written only if
    `overwrite` names it, and a device with a signature only with `destroys_data`. `condition` and `brick_changes` apply
    to modelled bricks; for conditions of real arrays, use `brickyard run --condition`. `say` is called with each note.

    Raises BadInputError if the run is refused, KeyboardInterrupt if it was stopped, and BrickyardError if it failed.
    The store keeps everything that was measured.
    """
    _refuse_texts(targets=targets)
    found = profile(load) if isinstance(load, str) else load
    refuse_programs(found.name, found.plan, "brickyard.run()")
    if repetitions < 1:
        raise BadInputError(f"repetitions = {repetitions}: at least 1")
    with (
        _aimed(targets, condition, brick_changes, size, overwrite, destroys_data=destroys_data) as aim,
        _interruptible() as interrupt,
    ):
        results = run_at(store, _Notes(say), interrupt, found, aim, repetitions)
    last = results[-1]
    _refuse_failed(f"run {last.run}", last.outcome, last.message)
    return [Measured(store.record(result.run)) for result in results]


def run_at(
    store: Store,
    listener: Listener,
    interrupt: Interrupt,
    load: Load,
    aim: Aim,
    repetitions: int = 1,
    by: str = "brickyard",
    holding: Callable[[], AbstractContextManager[Held | None]] = nullcontext,
    judged: Callable[[Record], list[RunWarning]] = lambda _: [],
) -> list[RunResult]:
    """What `run` and `brickyard run` do with targets that are known: see `repeat`."""
    for note in aim.notes:
        listener.note(note)
    targets, options, condition = aim.targets, aim.options, aim.condition
    return repeat(
        store,
        listener,
        interrupt,
        load.name,
        load.plan,
        targets,
        options,
        repetitions,
        condition,
        by,
        holding,
        judged,
    )


def check(
    load: Load | str,
    targets: Sequence[str] = (),
    *,
    condition: str | None = None,
    overwrite: Sequence[str] = (),
    size: str | None = None,
) -> None:
    """Raises BadInputError if `run` would refuse the run, with the same message; makes and writes nothing.

    If the target does not exist yet, only the workload is checked.
    """
    _refuse_texts(targets=targets)
    found = profile(load) if isinstance(load, str) else load
    refuse_programs(found.name, found.plan, "brickyard.run()")
    if any(bricks.is_modelled(target) for target in targets):
        with _aimed(targets, condition, (), None, (), destroys_data=False) as aim:
            check_run(found.plan, aim.targets, aim.options)
    elif targets:
        check_run(found.plan, list(targets), RunOptions(create_bytes=None, overwrite=list(overwrite)))
    else:
        place, size_bytes = check_unnamed(size=size, scratch=None, overwrite=overwrite)
        check_run(found.plan, [str(place)], RunOptions(create_bytes=size_bytes))


def plans_of_study(
    name: str, *, targets: Sequence[str] = (), only: Sequence[str] = (), changes: Sequence[str] = ()
) -> list[Plan | OtherPlan]:
    """The plan of each run of a study. Raises BadInputError if `run_study` would, before anything is measured."""
    _refuse_texts(targets=targets, only=only, changes=changes)
    wishes = Wishes(targets=tuple(targets), only=tuple(only), changes=tuple(changes))
    planned = planned_study(study_text(name), wishes).steps
    for cell in {step.cell.set_up: step.cell for step in planned}.values():
        cell.set_up.check(manage=False)
    return [step.spec.plan for step in planned]


def plans_of_characterization(
    target: str | None = None,
    *,
    mode: Literal["quick", "default", "full"] = "default",
    changes: Sequence[str] = (),
    overwrite: Sequence[str] = (),
) -> list[Plan]:
    """The plan of each cell. Raises BadInputError if `characterize` would, before anything is measured."""
    _refuse_texts(changes=changes)
    chosen = _mode(mode)
    cell_s = TIMING[chosen].cell_max_s if chosen in TIMING else 0.0
    found = [plan_of(cell, chosen, cell_s, list(changes)) for cell in cells()]
    check(Load("characterize", found[0]), () if target is None else (target,), overwrite=overwrite)
    return found


def characterize(
    store: Store,
    target: str | None = None,
    *,
    mode: Literal["quick", "default", "full"] = "default",
    changes: Sequence[str] = (),
    overwrite: Sequence[str] = (),
    destroys_data: bool = False,
    say: Callable[[str], None] | None = None,
) -> Studied:
    """Measures request sizes, sequential and random, reads and writes, as `brickyard characterize`; each cell is a run.

    Raises as `run` does.
    """
    _refuse_texts(changes=changes)
    chosen = _mode(mode)
    targets = () if target is None else (target,)
    aiming = _aimed(targets, None, (), None, overwrite, destroys_data=destroys_data, quick=chosen is Mode.QUICK)
    with aiming as aim, _interruptible() as interrupt:
        result = characterize_at(store, _Notes(say), interrupt, aim, chosen, changes)
    _refuse_failed(f"study s{result.study}", result.outcome, result.message)
    return Studied(result.study, result.runs, result.notes)


def characterize_at(
    store: Store, listener: Listener, interrupt: Interrupt, aim: Aim, mode: Mode, changes: Sequence[str] = ()
) -> Characterized:
    """What `characterize` and `brickyard characterize` do with a target that is known."""
    for note in aim.notes:
        listener.note(note)
    return Characterization(store, listener, interrupt, mode).run(aim.targets[0], aim.options, list(changes))


def run_study(
    store: Store,
    name: str,
    *,
    targets: Sequence[str] = (),
    only: Sequence[str] = (),
    changes: Sequence[str] = (),
    repetitions: int | None = None,
    overwrite: Sequence[str] = (),
    say: Callable[[str], None] | None = None,
) -> Studied:
    """Runs a study, given by its name or the path of its file. Runs that are already in the store are not measured
    again.

    `targets` and `only` have the form of `brickyard study --target` and `--only`. Raises as `run` does.
    """
    _refuse_texts(targets=targets, only=only, changes=changes, overwrite=overwrite)
    wishes = Wishes(
        targets=tuple(targets),
        only=tuple(only),
        changes=tuple(changes),
        repetitions=repetitions,
        overwrite=tuple(overwrite),
    )
    planned = planned_study(study_text(name), wishes)
    listener = _Notes(say)
    for note in planned.layout.notes:
        listener.note(note)
    with _interruptible() as interrupt:
        result = Matrix(store, listener, interrupt, planned.design, wishes, planned.steps).run()
    _refuse_failed(planned.design.name, "done" if result.outcome == "stopped" else result.outcome, result.message)
    return Studied(result.study, result.made, [*planned.layout.notes, *result.notes])


def web_log(
    logs: Sequence[str],
    mapping: Path | str,
    databases: Sequence[str],
    *,
    speed: str = "1x",
    drivers: int = 1,
    sessions: int = 20,
    duration: str | None = None,
    again: bool = False,
    seed: int = 1,
) -> ReplaySpec:
    """Prepares a replay: the web logs, the mapping of their requests to calls, and the databases that share the calls,
    as for `brickyard replay`. If a connection string has no password, PGPASSWORD or ~/.pgpass is used."""
    _refuse_texts(logs=logs, databases=databases)
    if not logs or not databases:
        raise BadInputError("a replay needs a log and a database at least")
    refuse_twice(databases, "databases")
    found = spec_of(logs, Path(mapping), databases, duration)
    return replace(found, speed=speed, drivers=drivers, sessions=sessions, again=again, seed=seed)


def check_replay(load: ReplaySpec, pace: str = "time-synchronized", repetitions: int = 1) -> None:
    """Raises BadInputError if `replay` would refuse the replay, with the same message. Connects to nothing and reads no
    complete log, so errors within a log appear only in the replay.
    """
    refuse_impossible(load, pace, repetitions)


def replay(
    store: Store,
    load: ReplaySpec,
    pace: str = "time-synchronized",
    *,
    repetitions: int = 1,
    say: Callable[[str], None] | None = None,
) -> Replayed:
    """Replays web logs against databases. `pace` has the form of `brickyard replay --pace`; several runs become a
    study.

    Raises as `run` does.
    """
    listener = _Notes(say)
    with _interruptible() as interrupt:
        found = carry_out(store, listener, interrupt, planned(load, pace, repetitions))
    last = found.results[-1]
    _refuse_failed(f"run {last.run}", last.outcome, last.message)
    records = [store.record(result.run) for result in found.results]
    return Replayed(found.study, [Measured(record) for record in records], why_failed(records, MAX_ERRORS, check=False))


def _refuse_failed(what: str, outcome: str, message: str) -> None:
    if outcome == "interrupted":
        raise KeyboardInterrupt
    if outcome != "done":
        raise BrickyardError(f"{what} {outcome}: {message}")


def measured(store: Store, runs: Iterable[int]) -> list[Measured]:
    """Reads runs that are already in the store."""
    return [Measured(store.record(number)) for number in runs]


def table(runs: Sequence[Measured], which: Rows = "totals") -> Table:
    """`totals`: a row per stream, operation and measure; `intervals`: the same per interval; `runs`: circumstances."""
    if which not in COLUMNS:
        raise BadInputError(f"which = {which!r}: not a table", nearest(which, COLUMNS))
    return Table(dict(COLUMNS[which]), list(rows([item.record for item in runs], which)))


def compare(
    before: Sequence[Measured], after: Sequence[Measured], *, tolerance: float = 0.05, confidence: float = 0.95
) -> Compared:
    """Compares runs, like with like. Repeat the runs of both sides, since two single runs have no verdict. Runs that
    did not end validly are left out. Raises BadInputError if a side has no valid runs, or if both sides are the same
    runs."""
    sure = checked_confidence(confidence, f"confidence = {confidence:g}")
    return compared(valid_sides(*([item.record for item in side] for side in (before, after))), tolerance, sure)


def draw(runs: Sequence[Measured], place: Path | str) -> Path:
    """Writes a report with its pictures into the directory `place`, or as the page `place`; returns the path of the
    page."""
    if not runs:
        raise BadInputError("runs: none; a report needs at least one run")
    from brickyard.report.page import write_report  # loading what draws takes longer than all the rest

    return write_report([item.record for item in runs], None, Path(place))


def _mode(name: str) -> Mode:
    modes = [mode.value for mode in Mode]
    if name not in modes:
        raise BadInputError(f"mode = {name!r}: not a mode", nearest(name, modes))
    return Mode(name)


def _refuse_texts(**lists: Sequence[str]) -> None:
    """A text is a sequence of its letters to Python, each of which would be taken for an entry of the list."""
    for name, given in lists.items():
        if isinstance(given, str):
            raise BadInputError(f"{name} = {given!r}: a text; write a list of texts, [{given!r}]")


class _Notes(Silent):
    def __init__(self, say: Callable[[str], None] | None) -> None:
        self._say = say

    def note(self, text: str) -> None:
        if self._say is not None:
            self._say(text)


def _aimed(
    targets: Sequence[str],
    condition: str | None,
    brick_changes: Sequence[str],
    size: str | None,
    overwrite: Sequence[str],
    *,
    destroys_data: bool,
    quick: bool = False,
) -> AbstractContextManager[Aim]:
    _refuse_texts(brick_changes=brick_changes, overwrite=overwrite)
    modelled = any(bricks.is_modelled(target) for target in targets)
    if not modelled and (condition is not None or brick_changes):
        raise BadInputError(
            "condition, brick_changes: of modelled bricks alone; `brickyard run --condition` holds arrays"
        )
    return aimed(
        targets,
        brick_changes=[*brick_changes, *([bricks.condition_override(condition)] if condition else [])],
        size=size,
        overwrite=overwrite,
        destroys_data=destroys_data,
        quick=quick,
    )


def _interruptible() -> AbstractContextManager[Interrupt]:
    """Only the main thread of a program is told of signals."""
    is_main = threading.current_thread() is threading.main_thread()
    return Interrupt() if is_main else nullcontext(Interrupt())

"""Duty: Brickyard for programs and notebooks: profiles, runs, figures, tables, comparisons and reports as values.

What is here is in `brickyard` itself: `import brickyard; brickyard.run(...)`. Each function calls what the command line
calls, so that both refuse the same and record the same.

Refusal: no figure is computed here, and nothing is printed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from brickyard import analysis, bricks, profiles
from brickyard.analysis.comparison import Comparison, default_figures, loads_differ
from brickyard.analysis.comparison import compare as compared
from brickyard.analysis.gate import Gate, gate
from brickyard.analysis.totals import Totals
from brickyard.errors import BadInputError, BrickyardError
from brickyard.report.export import COLUMNS, Rows, arrow_table, rows
from brickyard.schema.plan import Plan
from brickyard.store import Record, Store
from brickyard.study.aim import Aim, aim, aim_modelled
from brickyard.study.cells import Specs, Wishes, lay_out
from brickyard.study.characterize import Characterization, Mode
from brickyard.study.check import check_run
from brickyard.study.design import read_design
from brickyard.study.fit import refuse_programs
from brickyard.study.interrupt import Interrupt
from brickyard.study.matrix import Matrix, steps
from brickyard.study.repeat import repeat
from brickyard.study.runner import Silent
from brickyard.study.texts import read as study_text


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
        """By name, as `pandas.DataFrame` and `polars.DataFrame` take them. What was not measured is None."""
        return {name: [row.get(name) for row in self.rows] for name in self.types}

    def arrow(self) -> Any:
        """A pyarrow.Table. Raises BadInputError where pyarrow is not installed."""
        return arrow_table(self.rows, self.types)


@dataclass(frozen=True)
class Measured:
    """A run with all that is known of it."""

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
        """What a reader must know before believing a figure of this run."""
        return [warning.text for warning in self.record.info.warnings]

    @cached_property
    def figures(self) -> list[Totals]:
        """Rates, counts and times of each operation of each stream, warm-up left out."""
        return analysis.totals(self.record)


@dataclass(frozen=True)
class Compared:
    """Two sides, figure by figure, each with its confidence interval, judged as one family."""

    comparison: Comparison
    judged: Gate
    loads_differ: list[str] = field(default_factory=list)
    """How the loads of the two sides differ; a difference in figures then says nothing of the storage."""


@dataclass(frozen=True)
class Studied:
    """What a study came to: its number in the store, its runs, and what there is to say of it."""

    study: int | None
    runs: list[int]
    notes: list[str] = field(default_factory=list)


def is_modelled(target: str) -> bool:
    """Whether a target is a modelled brick."""
    return bricks.is_modelled(target)


def profile(name: str, *changes: str, text: str | None = None) -> Load:
    """A shipped profile or a TOML file by its path; with `text`, TOML of one's own, which `name` then names.

    `changes` are `key=value`, as `--set` takes them.
    """
    found = profiles.read(name) if text is None else profiles.ProfileText(name, text, name)
    return Load(found.name, profiles.validate(found, list(changes)))


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
    """Runs a load on files, block devices or modelled bricks (`sim:NAME`), once or several times with other seeds.

    Without a target it makes a scratch file of `size` and removes it at the end. A device is written only where
    `overwrite` names it, one that carries a signature only with `destroys_data`. `condition` and `brick_changes` are
    those of modelled bricks; conditions of real arrays are held by `brickyard run --condition`. `say` gets notes.

    Raises BadInputError where the run is refused, KeyboardInterrupt where it was stopped, BrickyardError where it
    failed. All that was measured is in the store.
    """
    found = profile(load) if isinstance(load, str) else load
    refuse_programs(found.name, found.plan, "brickyard.run()")
    if repetitions < 1:
        raise BadInputError(f"repetitions = {repetitions}: at least 1")
    listener = _Notes(say)
    with _aimed(targets, condition, brick_changes, size, overwrite, destroys_data=destroys_data) as aimed:
        for note in aimed.notes:
            listener.note(note)
        with _interruptible() as interrupt:
            results = repeat(
                store,
                listener,
                interrupt,
                found.name,
                found.plan,
                aimed.targets,
                aimed.options,
                repetitions,
                aimed.condition,
            )
    last = results[-1]
    _refuse_failed(f"run {last.run}", last.outcome, last.message)
    return [Measured(store.record(result.run)) for result in results]


def check(load: Load | str, targets: Sequence[str] = (), *, overwrite: Sequence[str] = ()) -> None:
    """Raises BadInputError with the line by which `run` would refuse it; nothing is made or written.

    Without a target, or with one that does not exist yet, only the load itself is checked.
    """
    found = profile(load) if isinstance(load, str) else load
    refuse_programs(found.name, found.plan, "brickyard.run()")
    if any(bricks.is_modelled(target) for target in targets):
        aimed = aim_modelled(tuple(targets), [])
        check_run(found.plan, aimed.targets, aimed.options)
    elif targets:
        check_run(found.plan, list(targets), {"overwrite": list(overwrite), "create_bytes": None})


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
    """Request sizes × sequential and random × read and write, each cell one run, as `brickyard characterize`.

    Raises as `run` does.
    """
    listener = _Notes(say)
    targets = () if target is None else (target,)
    is_quick = mode == "quick"
    aiming = _aimed(targets, None, (), None, overwrite, destroys_data=destroys_data, quick=is_quick)
    with aiming as aimed:
        for note in aimed.notes:
            listener.note(note)
        with _interruptible() as interrupt:
            studying = Characterization(store, listener, interrupt, Mode(mode))
            result = studying.run(aimed.targets[0], aimed.options, list(changes))
    _refuse_failed(f"study s{result.study}", result.outcome, result.message)
    return Studied(result.study, result.runs, result.notes)


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
    """Carries out a study, by its name or the path of its file; runs that are in the store are not measured again.

    `targets` and `only` are as `brickyard study --target` and `--only` take them. Raises as `run` does.
    """
    design = read_design(study_text(name))
    wishes = Wishes(
        targets=tuple(targets),
        only=tuple(only),
        changes=tuple(changes),
        repetitions=repetitions,
        overwrite=tuple(overwrite),
    )
    layout = lay_out(design, wishes)
    folder = Path(name).parent if "/" in name or name.endswith(".toml") else None
    planned = steps(design, layout, wishes, Specs(design, wishes, folder))
    listener = _Notes(say)
    for note in layout.notes:
        listener.note(note)
    with _interruptible() as interrupt:
        result = Matrix(store, listener, interrupt, design, wishes, planned).run()
    _refuse_failed(design.name, "done" if result.outcome == "stopped" else result.outcome, result.message)
    return Studied(result.study, result.made, [*layout.notes, *result.notes])


def _refuse_failed(what: str, outcome: str, message: str) -> None:
    if outcome == "interrupted":
        raise KeyboardInterrupt
    if outcome != "done":
        raise BrickyardError(f"{what} {outcome}: {message}")


def measured(store: Store, runs: Iterable[int]) -> list[Measured]:
    """Runs that are in the store already."""
    return [Measured(store.record(number)) for number in runs]


def table(runs: Sequence[Measured], which: Rows = "totals") -> Table:
    """`totals`: a row for each stream, operation and measure; `intervals`: their course; `runs`: circumstances."""
    return Table(dict(COLUMNS[which]), list(rows([item.record for item in runs], which)))


def compare(
    before: Sequence[Measured], after: Sequence[Measured], *, tolerance: float = 0.05, confidence: float = 0.95
) -> Compared:
    """Like with like. Repeat runs on both sides: two single runs have no verdict."""
    sides = [[item.record for item in side] for side in (before, after)]
    found = compared(*sides, names=default_figures(*sides), confidence=confidence)
    return Compared(found, gate(found.changes, tolerance, confidence), loads_differ(*sides))


def draw(runs: Sequence[Measured], place: Path | str) -> Path:
    """Writes a report with its pictures into a directory, or as the page that `place` names; gives the page's path."""
    from brickyard.report.page import write_report  # loading what draws takes longer than all the rest

    return write_report([item.record for item in runs], None, Path(place))


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
    if any(bricks.is_modelled(target) for target in targets):
        changes = [*brick_changes, *([bricks.condition_override(condition)] if condition else [])]
        return nullcontext(aim_modelled(tuple(targets), changes))
    if condition is not None or brick_changes:
        raise BadInputError(
            "condition, brick_changes: of modelled bricks alone; `brickyard run --condition` holds arrays"
        )
    return aim(
        tuple(targets),
        size=size,
        scratch=None,
        keep=False,
        overwrite=tuple(overwrite),
        destroys_data=destroys_data,
        quick=quick,
    )


def _interruptible() -> AbstractContextManager[Interrupt]:
    """Only the main thread of a program is told of signals."""
    is_main = threading.current_thread() is threading.main_thread()
    return Interrupt() if is_main else nullcontext(Interrupt())

"""Duty: the characterization of a target: request sizes × {sequential, random} × {read, write}, each cell one run.

Refusal: it gives no consent. Where the core refuses to write, the reads are done and the refusal is told.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from enum import Enum

from brickyard import bricks, profiles
from brickyard.advise.simulate import filled
from brickyard.analysis.figures.latency import latency_of
from brickyard.analysis.figures.totals import rated_intervals, waited
from brickyard.analysis.judging.cached import doubted
from brickyard.analysis.judging.without_rate import PATTERNS, SIZES_BYTES
from brickyard.bricks.resolved import ModelledBrick
from brickyard.errors import BadInputError
from brickyard.schema import RunOptions
from brickyard.schema.plan import Plan
from brickyard.store import Store
from brickyard.store.record import RunMarks
from brickyard.study.running.computing import Computed, computing_lines, computing_s
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Listener, Runner, RunResult, RunSpec
from brickyard.units import format_percent, format_seconds, format_size

INTERVALS_A_CELL = 6  # enough to tell spread, which needs five
AS_MUCH = "as much as the target takes"
REPORT_S = 3  # drawing the report
CELL_OVERHEAD_S = 0.15  # opening, closing and committing, on top of the cell's own time


class Mode(Enum):
    """How much time the whole is given (fill included) and how long one cell may last."""

    QUICK = "quick"
    DEFAULT = "default"
    FULL = "full"


@dataclass(frozen=True)
class Timing:
    total_s: float
    cell_min_s: float
    cell_max_s: float


TIMING = {
    Mode.QUICK: Timing(total_s=22, cell_min_s=0.2, cell_max_s=0.3),
    Mode.DEFAULT: Timing(total_s=92, cell_min_s=0.5, cell_max_s=1.5),
}
MODELLED_CELL_S = {Mode.QUICK: 30.0, Mode.DEFAULT: 60.0}  # virtual time costs little, and modelled arms are slow
FULL_CELL = ("duration=30min", 'steady={ round = "10s", rounds = 5, stop = true }', "interval=1s", "warmup=2s")
"""Ends at steady state by SNIA's criteria (five rounds), or after half an hour where there is none."""


CELLS_OWN = {"operations", "request", "address"}
"""Keys of the profile by which cells differ."""


@dataclass
class Characterized:
    study: int
    runs: list[int]
    outcome: str
    message: str
    notes: list[str]
    planned: int
    """Cells that there would be if none were left out."""


@dataclass(frozen=True)
class Cell:
    address: str
    operation: str
    request_bytes: int

    @property
    def words(self) -> str:
        return f"{self.address} {self.operation}, {format_size(self.request_bytes)}"

    @property
    def marks(self) -> RunMarks:
        return RunMarks(address=self.address, operation=self.operation, request_bytes=self.request_bytes)


def cells() -> list[Cell]:
    """Sizes in a shuffled order within each pattern, always the same one: a drift of the machine then falls on no end
    of the graph. The largest request comes first of all: it tells the alignment that smaller ones would have to meet.
    """
    dice = random.Random(1)  # noqa: S311  # an order, not a secret
    found = [
        Cell(address, operation, size)
        for address, operation in PATTERNS
        for size in dice.sample(SIZES_BYTES, len(SIZES_BYTES))
    ]
    first = next(cell for cell in found if cell.request_bytes == SIZES_BYTES[-1])
    return [first, *(cell for cell in found if cell is not first)]


def plan_of(cell: Cell, mode: Mode, cell_s: float, overrides: list[str]) -> Plan:
    """The plan of one cell; what the user sets comes last and wins."""
    if mode is Mode.FULL:
        length = list(FULL_CELL)
    else:
        length = [f"duration={round(cell_s * 1000)}ms", f"interval={round(cell_s * 1000 / INTERVALS_A_CELL)}ms"]
        if mode is Mode.QUICK:
            length.append("warmup=50ms")
    for change in overrides:
        if own := CELLS_OWN.intersection(change.partition("=")[0].strip().split(".")):
            raise BadInputError(
                f"--set {change}: each cell sets {own.pop()} itself, and all cells would be alike; `brickyard run "
                f"characterize TARGET --set {change}` runs one"
            )
    load = [
        f'title="Characterization: {cell.words}"',
        f"operations={{ {cell.operation} = 100 }}",
        f"request={cell.request_bytes}",
        f'address="{cell.address}"',
    ]
    return profiles.validate(profiles.read("characterize"), [*length, *load, *overrides])


def forecast_lines(mode: Mode, target: str, options: RunOptions, overrides: list[str]) -> list[str]:
    """How long it takes and how much is written, before it begins; bad overrides are refused before that is said."""
    plan_of(cells()[0], mode, TIMING[mode].cell_max_s if mode in TIMING else 0.0, overrides)
    if mode is Mode.FULL:
        return [
            f"duration: up to {len(cells())} cells, each until it is steady and at most half an hour",
            f"writes: {AS_MUCH} in half of them",
        ]
    if bricks.is_modelled(target):
        brick = bricks.resolve(target, options.changes).brick
        plans = [filled(plan_of(cell, mode, MODELLED_CELL_S[mode], overrides), brick) for cell in cells()]
        return computing_lines(computing_s([Computed(plan, [target], options) for plan in plans]))
    lasts = format_seconds(TIMING[mode].total_s + REPORT_S)
    return [
        f"duration: about {lasts}, longer where filling what was never written takes most of it",
        f"writes, if the target may be written: what was never written is filled; then {AS_MUCH} in half of that time",
    ]


def into_caches(store: Store, runs: list[int]) -> str | None:
    """What is to be said of cells that were still filling caches; None where none was, as far as anybody knows."""
    records = {run: store.record(run) for run in runs}
    found = doubted(records.values())
    if not found:
        return None
    patterns = {records[run].info.marks.address for run in found}
    return (
        f"no steady state: {len(found)} write cells ({' and '.join(sorted(patterns))}) may show the rates of caches (at"
        f" worst, {next(iter(found.values()))}); --full measures until they are steady"
    )


TURNS_MIN = 20
"""How many mean service times a cell lasts: at either end part of a turn is counted, so that its rate and times are
right to a twentieth at most."""


def too_short(store: Store, runs: list[int], mode: Mode) -> str | None:
    """What is to be said of cells that lasted few service times; None where all lasted long enough."""
    turns: list[float] = []
    for run in runs:
        record = store.record(run)
        times = latency_of(i for i in waited(record, record.intervals) if i.measure == "service" and not i.warmup)
        span_ns = sum(span.end_ns - span.start_ns for span in rated_intervals(record, 0))
        if times and span_ns:
            turns.append(span_ns / times.mean_ns)
    few = [one for one in turns if one < TURNS_MIN]
    if not few:
        return None
    share = format_percent(min(1.0, 1 / min(few)))
    return (
        f"{len(few)} of {len(turns)} cells were too short: they lasted less than {TURNS_MIN} times their mean service "
        f"time, so their rates and times may be wrong by up to {share}; "
        f"{'without --quick, or with --full,' if mode is Mode.QUICK else 'with --full'} cells last longer"
    )


class Characterization:
    """One characterization from its first cell to its last."""

    def __init__(self, store: Store, listener: Listener, interrupt: Interrupt, mode: Mode) -> None:
        self.store = store
        self.listener = listener
        self.interrupt = interrupt
        self.mode = mode
        self.runner = Runner(store, listener, interrupt)
        self.study: int | None = None
        self.planned = 0
        self.notes: list[str] = []
        self.align_bytes = 0
        self.cell_s = TIMING[mode].cell_max_s if mode in TIMING else 0.0
        self._is_modelled = False
        self._brick: ModelledBrick | None = None

    def run(self, target: str, options: RunOptions, overrides: list[str]) -> Characterized:
        self._is_modelled = bricks.is_modelled(target)
        if self._is_modelled:
            self.cell_s = MODELLED_CELL_S.get(self.mode, 0.0)
            self._brick = bricks.resolve(target, options.changes).brick
        plan_of(cells()[0], self.mode, self.cell_s, overrides)  # bad overrides are refused before anything is noted
        began = time.monotonic()
        runs: list[int] = []
        last = RunResult(0, "done", "", None)
        todo = cells()
        self.planned = sum(cell.request_bytes >= self.align_bytes for cell in todo)
        self.listener.expect(len(todo))
        while todo and last.outcome == "done":
            cell = todo.pop(0)
            if cell.request_bytes < self.align_bytes:
                continue
            spec = RunSpec(
                profile="characterize",
                plan=self._loaded(plan_of(cell, self.mode, self.cell_s, overrides)),
                targets=[target],
                options=options,
                marks=cell.marks,
            )
            try:
                last = self.runner.run(spec, lambda: self._study(target))
            except BadInputError as error:
                if cell.operation != "write" or not runs:
                    raise
                self.note(f"writes are left out: {error}")
                break
            if not runs:
                self._learn(last, time.monotonic() - began, todo)
            runs.append(last.run)
        study = self._study(target)
        if (found := into_caches(self.store, runs)) is not None:
            self.note(found)
        if (found := too_short(self.store, runs, self.mode)) is not None:
            self.note(found)
        self.store.end_study(study, last.outcome, self.notes)
        return Characterized(study, runs, last.outcome, last.message, self.notes, self.planned)

    def _loaded(self, plan: Plan) -> Plan:
        """Virtual time costs little: a model's caches are filled before a write is measured."""
        return filled(plan, self._brick) if self._brick else plan

    def _study(self, target: str) -> int:
        """The study is noted when its first run has really begun."""
        if self.study is None:
            self.study = self.store.add_study(
                "characterize", {"mode": self.mode.value, "target": target, "planned": self.planned}
            )
        return self.study

    def _learn(self, first: RunResult, spent_s: float, todo: list[Cell]) -> None:
        """The first run tells the alignment, and how much of the time the filling took."""
        targets = first.start.targets if first.start else []
        self.align_bytes = targets[0].align_bytes if targets else 0
        skipped = [size for size in SIZES_BYTES if size < self.align_bytes]
        if skipped:
            names = ", ".join(format_size(size) for size in skipped)
            self.note(f"{names} left out: below the target's alignment of {format_size(self.align_bytes)}")
        left = sum(cell.request_bytes >= self.align_bytes for cell in todo)
        self.listener.expect(left + 1)
        if self.mode in TIMING and not self._is_modelled:
            timing = TIMING[self.mode]
            each = (timing.total_s - spent_s) / max(left, 1) - CELL_OVERHEAD_S
            self.cell_s = round(min(max(each, timing.cell_min_s), timing.cell_max_s), 2)

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.listener.note(text)

"""Duty: carry a PTS test out: precondition, go round until the state is steady, measure; every run is in the store.

A real target keeps its state from run to run, so that each round is a run. A model begins anew with every run, so that
a test on one is a single run with as many rounds as it takes; it is repeated with more where they were too few.

Refusal: no figure is computed here, nothing is purged, and no write cache is switched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from brickyard.analysis.studies.pts import Measured, Point, Steadiness, mean_of, measured_phases, points, steadiness
from brickyard.analysis.studies.pts_points import OperatingPoint, troubles
from brickyard.errors import BrickyardError
from brickyard.formats.profile_parts import ProfilePhase
from brickyard.schema import Document, RunOptions
from brickyard.store import Record, Store
from brickyard.store.record import RunMarks
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Listener, Runner, RunSpec
from brickyard.study.snia import tests
from brickyard.study.snia.loads import MODELLED_ROUNDS, Loads, Setting
from brickyard.study.snia.tests import DIRTH, Cell, RoundTest

HISTOGRAMS = "histograms"
"""The part of DIRTH's test that has the runs of its operating points."""
SHORTENED = "Shorter or smaller than PTS asks: no PTS result."
"""The note that a study has in the store where it is not by the book."""


@dataclass
class Rounds:
    """What a test of rounds found."""

    test: RoundTest
    rounds: list[list[Measured]] = field(default_factory=list)
    window: Steadiness | None = None

    @property
    def is_steady(self) -> bool:
        return self.window is not None and self.window.is_steady

    def of(self, cell: Cell) -> Measured:
        """The mean over the measurement window, which is the last rounds."""
        at = self.test.cells.index(cell)
        return mean_of([cells[at] for cells in self.rounds[-tests.WINDOW :]])

    def judge(self) -> None:
        at = self.test.cells.index(self.test.steady)
        values = [float(getattr(cells[at], self.test.figure)) for cells in self.rounds[-tests.WINDOW :]]
        self.window = steadiness(values) if len(values) == tests.WINDOW else None


@dataclass
class Found:
    """Everything of one call, in the order in which it was measured."""

    study: int
    is_shortened: bool = False
    """Whether rounds or range were smaller than PTS requires, so that nothing here is a result of PTS."""
    runs: list[int] = field(default_factory=list)
    rounds: dict[str, Rounds] = field(default_factory=dict)
    saturation: list[Point] = field(default_factory=list)
    stimuli: dict[str, list[Point]] = field(default_factory=dict)
    operating: list[OperatingPoint] = field(default_factory=list)

    @property
    def is_steady(self) -> bool:
        """Of DIRTH's table, out of which the operating points were chosen."""
        return self.rounds[DIRTH].is_steady

    @property
    def without_result(self) -> dict[str, str]:
        """The tests that have no result, each with its cause."""
        lacking = {}
        for name, rounds in self.rounds.items():
            if not rounds.is_steady:
                lacking[name] = f"the state was not steady after {len(rounds.rounds)} rounds"
            elif name == DIRTH and troubles(self.operating, is_steady=True):
                lacking[name] = "the operating points do not match their cells"
        return lacking


class Specification:
    """One target under the tests, one after the other."""

    def __init__(
        self,
        store: Store,
        listener: Listener,
        interrupt: Interrupt,
        setting: Setting,
        targets: list[str],
        options: RunOptions,
        condition: str,
    ) -> None:
        self.store, self.listener, self.interrupt, self.setting = store, listener, interrupt, setting
        self.targets, self.options, self.condition = targets, options, condition
        self.loads = Loads(setting)
        self.runner = Runner(store, listener, interrupt)
        about = {"kind": setting.kind.name, "source": tests.SOURCE, "round_s": setting.round_s}
        study = store.add_study(f"pts-{setting.kind.name}", {**about, "region": setting.region})
        self.found = Found(study, is_shortened=not setting.is_by_the_book)

    @property
    def is_modelled(self) -> bool:
        return self.options.is_modelled

    def carry_out(self, name: str) -> None:
        if name == "write-saturation":
            self._saturate()
        elif name == "cross-stimulus":
            self._cross()
        else:
            self._go_round(name)
            if name == DIRTH:
                self._draw_histograms()

    def end(self, outcome: str) -> None:
        notes = [SHORTENED] if self.found.is_shortened else []
        self.store.end_study(self.found.study, outcome, notes)

    def _go_round(self, name: str) -> None:
        test = tests.round_test(name, self.setting.kind.queue)
        found = self.found.rounds[name] = Rounds(test)
        skipped = 0 if test.prewrite is None else 1
        size = skipped + len(test.cells)
        if not self.is_modelled:
            self._run(name, [self.loads.precondition()], RunMarks(part="precondition"))
        wanted = MODELLED_ROUNDS if self.is_modelled else 1
        while not found.is_steady and len(found.rounds) < self.setting.rounds_max:
            if self.is_modelled:
                planned = [phase for number in range(1, wanted + 1) for phase in self.loads.round(test, number)]
                phases = self._run(name, [self.loads.precondition(), *planned], RunMarks(rounds=wanted))[1:]
                found.rounds = [self._cells(phases[k * size :], skipped, test) for k in range(wanted)]
                wanted = min(wanted + MODELLED_ROUNDS, self.setting.rounds_max)
            else:
                number = len(found.rounds) + 1
                phases = self._run(name, self.loads.round(test, number), RunMarks(round=number))
                found.rounds.append(self._cells(phases, skipped, test))
            found.judge()

    def _cells(self, phases: list[Measured | None], skipped: int, test: RoundTest) -> list[Measured]:
        cells = phases[skipped : skipped + len(test.cells)]
        for cell, figures in zip(test.cells, cells, strict=True):
            # On real storage a rate of zero is a finding; on a model the round is shorter than its requests.
            if figures is None or (self.is_modelled and not figures.iops):
                raise BrickyardError(
                    f"{test.title}: nothing ended in {cell.mix} of {cell.size_bytes} bytes; lengthen --round"
                )
        return [figures for figures in cells if figures is not None]

    def _saturate(self) -> None:
        """Random writes of 4 KiB from a new drive on, no preconditioning."""
        run = self._kept("write-saturation", self.loads.saturation(), RunMarks())
        self.found.saturation = points(self.store.record(run), 0)

    def _cross(self) -> None:
        """Sequential, then random, then sequential writes again, no preconditioning."""
        run = self._kept("cross-stimulus", self.loads.stimuli(), RunMarks())
        self.found.stimuli = stimuli_of(self.store.record(run))

    def _draw_histograms(self) -> None:
        """The rates with the least, middling and most demand, each measured for longer."""
        rounds = self.found.rounds[DIRTH]
        chosen = operating_points(rounds)
        before = [self.loads.precondition()] if self.is_modelled else []
        planned = [self.loads.phase(replace(cell, rounds=tests.POINT_ROUNDS), name) for name, cell in chosen]
        run = self._kept(DIRTH, [*before, *planned], RunMarks(part=HISTOGRAMS))
        phases = measured_phases(self.store.record(run))[len(before) :]
        self.found.operating = _points(rounds, phases, run)

    def _run(self, name: str, phases: list[ProfilePhase], marks: RunMarks) -> list[Measured | None]:
        return measured_phases(self.store.record(self._kept(name, phases, marks)))

    def _kept(self, name: str, phases: list[ProfilePhase], marks: RunMarks) -> int:
        plan = self.loads.plan(name, phases)
        spec = RunSpec(
            f"pts-{name}", plan, self.targets, self.options, self.condition, structs.replace(marks, test=name)
        )
        result = self.runner.run(spec, lambda: self.found.study)
        self.found.runs.append(result.run)
        if result.outcome == "interrupted":
            raise KeyboardInterrupt
        if result.outcome != "done":
            raise BrickyardError(f"{tests.TITLES[name]}: run {result.run} {result.outcome}: {result.message}")
        return result.run


def _points(rounds: Rounds, phases: list[Measured | None], run: int) -> list[OperatingPoint]:
    """What the longer measurements of the chosen cells gave, beside what the cells had."""
    return [
        OperatingPoint(name, cell.workers, cell.depth, rounds.of(cell), figures, run)
        for (name, cell), figures in zip(operating_points(rounds), phases, strict=True)
        if figures is not None
    ]


def stored_points(records: Sequence[Record]) -> tuple[list[OperatingPoint], bool] | None:
    """DIRTH's operating points out of the runs of a study, and whether its table was steady; None where it has none."""
    own = [record for record in records if record.info.marks.test == DIRTH and record.info.outcome == "done"]
    drawn = [record for record in own if record.info.marks.part == HISTOGRAMS]
    whole = [record for record in own if record.info.marks.rounds is not None][-1:]
    single = [record for record in own if record.info.marks.round is not None][-tests.WINDOW :]
    if not drawn or not (whole or single):
        return None
    rounds = Rounds(tests.demand_test())
    size = len(rounds.test.cells)
    for record in whole or single:
        phases = measured_phases(record)[len(whole) :]  # a model is preconditioned in the same run
        for start in range(0, len(phases), size + 1):
            cells = [figures for figures in phases[start + 1 : start + 1 + size] if figures is not None]
            if len(cells) != size:
                return None
            rounds.rounds.append(cells)
    rounds.judge()
    last = measured_phases(drawn[-1])[-tests.POINTS :]
    return _points(rounds, last, drawn[-1].info.id), rounds.is_steady


def stimuli_of(record: Record) -> dict[str, list[Point]]:
    """The groups of cross-stimulus recovery, each after the one before it."""
    found: dict[str, list[Point]] = {}
    shift_s, written = 0.0, 0
    for phase, (name, *_) in enumerate(tests.STIMULI):
        found[name] = points(record, phase, shift_s, written)
        if found[name]:
            last = found[name][-1]
            shift_s, written = last.end_s, last.written_bytes
    return found


def operating_points(rounds: Rounds) -> list[tuple[str, Cell]]:
    """The most requests/s within a mean of 5 ms, those of one thread with one request, and the middle between."""
    cells = {cell: rounds.of(cell) for cell in rounds.test.cells}
    least = rounds.test.cells[-1]
    within = {cell: found for cell, found in cells.items() if found.mean_ns <= tests.ART_MAX_NS} or cells
    most = max(within, key=lambda cell: within[cell].iops)
    wanted = (cells[most].iops + cells[least].iops) / 2
    middle = min(within, key=lambda cell: abs(within[cell].iops - wanted))
    chosen = {"MinIOPS": least, "MidIOPS": middle, "MaxIOPS": most}
    return list(chosen.items())


def document(found: Found) -> Document:
    """All figures, for `--json`."""
    return {
        "study": found.study,
        "runs": found.runs,
        "has_result": not found.without_result,
        "without_result": found.without_result,
        "tests": {name: _rounds_document(item) for name, item in found.rounds.items()},
        "write-saturation": [_point_document(point) for point in found.saturation],
        "cross-stimulus": {name: [_point_document(p) for p in group] for name, group in found.stimuli.items()},
        "operating_points_hold": not troubles(found.operating, is_steady=found.is_steady) if found.operating else None,
        "histograms": [
            {
                "point": point.name,
                **_cell_document(Cell(tests.DEMAND_READS, tests.DEMAND_BYTES, True, point.workers, point.depth)),
                **point.figures.document(),
                "run": point.run,
                "cell": point.promised.document(),
                "difference": point.difference,
                "is_as_promised": point.is_as_promised,
            }
            for point in found.operating
        ],
    }


def _rounds_document(item: Rounds) -> Document:
    return {
        "rounds": len(item.rounds),
        "is_steady": item.is_steady,
        "steady_state": item.window.document() if item.window else None,
        "steady_load": _cell_document(item.test.steady),
        "cells": [{**_cell_document(cell), **item.of(cell).document()} for cell in item.test.cells],
        "by_round": [[figures.document() for figures in cells] for cells in item.rounds],
    }


def _cell_document(cell: Cell) -> Document:
    return {
        "reads_percent": cell.reads,
        "request_bytes": cell.size_bytes,
        "is_random": cell.is_random,
        "workers": cell.workers,
        "depth": cell.depth,
    }


def _point_document(point: Point) -> Document:
    figures = point.figures.document()
    return {"end_s": point.end_s, "written_bytes": point.written_bytes, "partial_s": point.partial_s, **figures}

"""Duty: what the store holds of a study: its counted runs, its invalid ones, its tables.

Refusal: nothing is measured. Of several good runs of one cell the newest counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard import bricks
from brickyard.analysis.figures.cells import Told
from brickyard.analysis.figures.observe import Observed, observe
from brickyard.analysis.judging.answers import Answer
from brickyard.analysis.studies import demartek, kirkwood
from brickyard.analysis.studies.answer import study_answer
from brickyard.analysis.studies.published import Cells, agreement, beside, conclusion_table, judged
from brickyard.store import Record, Store, StudyInfo
from brickyard.study.designs.apart import HOW_LONG
from brickyard.study.designs.cells import StudyCell, Wishes, lay_out
from brickyard.study.designs.design import Design, read_design
from brickyard.study.designs.matrix import finished
from brickyard.study.designs.texts import StudyText


@dataclass(frozen=True)
class Results:
    counted: list[Record]
    invalid: list[Record]
    observed: Observed
    planned: int
    """Runs that were to be made."""


@dataclass(frozen=True)
class StudyView:
    """What a page is made of. `trades` are pairs of table names that are drawn against each other, with a title."""

    title: str
    source: str
    about: str
    records: Sequence[Record]
    invalid: Sequence[Record]
    observed: Observed
    answer: Answer
    notes: Sequence[str]
    trades: Sequence[tuple[str, str, str]] = ()
    published: Sequence[Told] = ()
    """Tables of others beside which the study stands: title, columns and rows."""


@dataclass(frozen=True)
class _Source:
    """What a study's source says of it: in the answer, and in tables."""

    said: list[str]
    tables: Sequence[Told]


def _beside(design: Design, found: Results, cells: Cells, changes: Sequence[str]) -> _Source:
    """Nothing where another load was run than the source's."""
    others = [change for change in changes if _leaf(change) not in HOW_LONG and not bricks.is_override(change)]
    if others and (design.conclusions or design.published):
        return _Source([f"Not compared with the source, since --set {' '.join(others)} makes it another workload."], [])
    pivots = found.observed.pivots
    drawn = [*judged(pivots, design.conclusions, cells), *demartek.judged(design.name, found.counted, cells)]
    modelled = bool(found.counted) and all(record.info.is_modelled for record in found.counted)
    agreed = agreement(drawn, is_modelled=modelled)
    tables = [
        *conclusion_table(drawn),
        *beside(pivots, design.published),
        *kirkwood.tables(design.name, found.counted),
        *demartek.tables(design.name, found.counted),
    ]
    return _Source([agreed] if agreed else [], tables)


def _leaf(change: str) -> str:
    return change.partition("=")[0].strip().rpartition(".")[2]


def _cells(found: Results, planned: Sequence[StudyCell]) -> Cells:
    there = [record.info.marks.levels for record in found.counted]
    levels = [cell.levels for cell in planned]
    return Cells(levels, [each for each in levels if each not in there])


def _missing_runs(design: Design, found: Results) -> int:
    """A study that stops at a precision need not make all of its repetitions."""
    return 0 if design.stop.precision is not None else found.planned - len(found.counted)


def view_of(
    design: Design, found: Results, planned: Sequence[StudyCell], changes: Sequence[str], notes: Sequence[str]
) -> StudyView:
    """`planned` are the cells that were to be measured, `changes` those of the command line."""
    cells = _cells(found, planned)
    source = _beside(design, found, cells, changes)
    told = study_answer(
        design.question,
        design.answer,
        found.observed.pivots,
        found.counted,
        found.invalid,
        design.answer_by,
        design.answer_levels,
        design.axes,
    )
    lack = cells.words(found.planned, _missing_runs(design, found))
    said = (*([lack] if lack else []), *source.said, *told.sentences)
    return StudyView(
        title=design.title,
        source=design.source,
        about=design.about,
        records=found.counted,
        invalid=found.invalid,
        observed=found.observed,
        answer=Answer(told.question, said, told.belief),
        notes=notes,
        trades=design.trades,
        published=source.tables,
    )


def results(store: Store, design: Design, identities: Sequence[str]) -> Results:
    runs = finished(store.heads(), identities)
    chosen = [good[-1].id for identity in identities if (good := [r for r in runs.get(identity, []) if r.is_valid])]
    counted = [record for record in map(store.record, sorted(chosen)) if record.info.is_valid]
    invalid = [store.record(run.id) for group in runs.values() for run in group if run.invalid]
    return Results(counted, invalid, observe(counted, design.tables, design.axes), len(identities))


def kept_view(store: Store, study: StudyInfo) -> StudyView | None:
    """Of a study in the store; None where it was no study of a file."""
    kept = study.kept
    if kept.cells is None or kept.text is None:
        return None
    design = read_design(StudyText(study.name, kept.text, f"study s{study.id}"))
    planned = lay_out(design, Wishes(targets=tuple(kept.targets), only=tuple(kept.only))).cells
    return view_of(design, results(store, design, kept.cells), planned, kept.changes, study.notes)

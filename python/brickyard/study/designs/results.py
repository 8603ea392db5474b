"""Duty: what the store holds of a study: its counted runs, its invalid ones, its tables.

Refusal: nothing is measured. Of several good runs of one cell the newest counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard import bricks
from brickyard.analysis.figures.observe import Observed, observe
from brickyard.analysis.judging.answers import Answer
from brickyard.analysis.studies import demartek, kirkwood
from brickyard.analysis.studies.answer import study_answer
from brickyard.analysis.studies.published import agreement, beside, conclusion_table, judged
from brickyard.store import Record, Store, StudyInfo
from brickyard.study.designs.design import Design, read_design
from brickyard.study.designs.matrix import finished
from brickyard.study.designs.texts import StudyText


@dataclass(frozen=True)
class Results:
    counted: list[Record]
    invalid: list[Record]
    observed: Observed


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
    published: Sequence[tuple[str, tuple[str, ...], list[list[str]]]] = ()
    """Tables of others beside which the study stands: title, columns and rows."""


def view_of(design: Design, found: Results, notes: Sequence[str]) -> StudyView:
    pivots = found.observed.pivots
    drawn = [*judged(pivots, design.conclusions), *demartek.judged(design.name, found.counted)]
    modelled = bool(found.counted) and all(bricks.is_modelled(t) for r in found.counted for t in r.info.targets)
    told = study_answer(
        design.question,
        design.answer,
        pivots,
        found.counted,
        found.invalid,
        design.answer_by,
        design.answer_levels,
        design.axes,
    )
    if agreed := agreement(drawn, is_modelled=modelled):
        told = Answer(told.question, (agreed, *told.sentences), told.belief)
    return StudyView(
        title=design.title,
        source=design.source,
        about=design.about,
        records=found.counted,
        invalid=found.invalid,
        observed=found.observed,
        answer=told,
        notes=notes,
        trades=design.trades,
        published=[
            *conclusion_table(drawn),
            *beside(pivots, design.published),
            *kirkwood.tables(design.name, found.counted),
            *demartek.tables(design.name, found.counted),
        ],
    )


def results(store: Store, design: Design, identities: Sequence[str]) -> Results:
    runs = finished(store.heads(), identities)
    chosen = [good[-1].id for identity in identities if (good := [r for r in runs.get(identity, []) if r.is_valid])]
    counted = [record for record in map(store.record, sorted(chosen)) if record.info.is_valid]
    invalid = [store.record(run.id) for group in runs.values() for run in group if run.invalid]
    return Results(counted, invalid, observe(counted, design.tables, design.axes))


def kept_design(study: StudyInfo) -> Design | None:
    """The design that a study in the store was carried out by; None where it was no study of a file."""
    kept = study.kept
    if kept.cells is None or kept.text is None:
        return None
    return read_design(StudyText(study.name, kept.text, f"study s{study.id}"))

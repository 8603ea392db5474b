"""Duty: a study in a store → its question and answer, made again from what is kept, and the tables that it rests on.

Refusal: a study whose kind has no answer of its own gets none; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from brickyard.analysis.judging.answers import Answer
from brickyard.analysis.judging.crosscheck import crosscheck_answer, crosschecked, is_crosscheck
from brickyard.analysis.studies.census_answer import census_answer, censused, is_census
from brickyard.analysis.studies.curve_words import curve_answer
from brickyard.analysis.studies.curves import curve_of
from brickyard.honesty.answers import DURABLE, WritePath, is_of_write_path, write_path, write_path_answer
from brickyard.report.study_tables import (
    census_tables,
    crosscheck_tables,
    durable_tables,
    finding_table,
    honesty_tables,
)
from brickyard.report.tables import Table
from brickyard.store import Record, StudyInfo
from brickyard.study.snia.stored import pts_answer, stored


@dataclass(frozen=True)
class Answered:
    answer: Answer
    tables: list[Table] = field(default_factory=list)
    write_path: WritePath | None = None
    """Of `durable` and `honesty`: what a picture is made of."""


def answered(study: StudyInfo, records: Sequence[Record]) -> Answered | None:
    """Of the kinds whose answer is tables rather than pictures."""
    if is_census(study):
        result = censused(study, records)
        return Answered(census_answer(result, records), census_tables(result.census, records))
    if is_of_write_path(study):
        path = write_path(study, records)
        made = durable_tables(path) if study.name == DURABLE else honesty_tables(path.measured)
        return Answered(write_path_answer(study, path), [*made, finding_table(path)], path)
    if is_crosscheck(records):
        compared = crosschecked(records)
        return Answered(crosscheck_answer(compared, records), crosscheck_tables(compared, records))
    return None


def study_answer(study: StudyInfo, records: list[Record]) -> Answer | None:
    """Of every kind of study that has one beside those of its runs."""
    if (found := answered(study, records)) is not None:
        return found.answer
    if (curve := curve_of(study, records)) is not None:
        return curve_answer(curve, records, study.notes)
    tests = stored(study, records)
    return pts_answer(tests, records) if tests is not None else None

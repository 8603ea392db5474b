"""Duty: a study → one self-contained HTML page, its pictures, and all cells as CSV and JSON beside it.

Refusal: nothing is measured, and no figure comes from anywhere but `analysis`.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import msgspec

from brickyard.analysis.figures.pivot import Pivot
from brickyard.analysis.figures.workload import workload_words
from brickyard.analysis.judging import summary as summaries
from brickyard.analysis.judging.answers import counted_words
from brickyard.analysis.judging.conclusions import conclusions
from brickyard.analysis.judging.differing import differing_in_study
from brickyard.analysis.judging.merging import distinct_warnings
from brickyard.outputs import report_place
from brickyard.printable import csv_cell, json_text
from brickyard.report.matrix_charts import matrix_picture, trade_picture
from brickyard.report.matrix_documents import named_levels, pivot_document, unit_of
from brickyard.report.matrix_tables import footnotes, matrix_table
from brickyard.report.page import Figure
from brickyard.report.tables import Table
from brickyard.report.written import Beside, templates, write_page
from brickyard.schema import Document
from brickyard.study.designs.results import StudyView

CELLS_MARK, DOCUMENT_MARK = re.compile(rb"\Atable,"), re.compile(rb'\A\{\s+"title": ')
INTERVALS = "Lines in the bars are 95 % t intervals over repetitions, cut at twice the largest figure."


def write_study_report(view: StudyView, place: Path) -> Path:
    """Writes `report.html`, `pictures/`, `cells.csv`, `study.json`; a place that ends in .html is the page itself."""
    where = report_place(place)
    figures = _figures(view)
    text = json.dumps(study_document(view), ensure_ascii=False, allow_nan=False, indent=1, default=msgspec.to_builtins)
    beside = [
        Beside("cells.csv", cells_csv(view.observed.pivots), CELLS_MARK),
        Beside("study.json", json_text(text) + "\n", DOCUMENT_MARK),
    ]
    html = _render(view, figures, where.pictures.name)
    return write_page(where, html, (picture for figure in figures for picture in figure.pictures), beside)


def study_document(view: StudyView) -> Document:
    return {
        "title": view.title,
        "source": view.source,
        "differing": [
            {"label": i.label, "values": [list(v) for v in i.values]} for i in differing_in_study(view.records)
        ],
        **view.answer.document(),
        "conclusions": conclusions(view.observed.pivots, view.records),
        "tables": [pivot_document(pivot) for pivot in view.observed.pivots],
        "published": [
            {"title": title, "columns": list(columns), "rows": rows} for title, columns, rows in view.published
        ],
        "invalid": [{"run": record.info.id, "reason": record.info.invalid} for record in view.invalid],
    }


def cells_csv(pivots: Sequence[Pivot]) -> str:
    """One row a cell and table; every factor has a column."""
    factors = list(dict.fromkeys(axis.name for pivot in pivots for axis in (*pivot.row_axes, *pivot.column_axes)))
    keys = ("value", "low", "high", "n", "share_of_best", "rank")
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    ends = ("difference", "difference_low", "difference_high", "seen")
    writer.writerow(map(csv_cell, ("table", *factors, "figure", "unit", *keys, *ends)))
    for pivot in pivots:
        for row, column in product(pivot.rows, pivot.columns):
            entry = pivot.at(row, column)
            if entry is None and (row, column) not in pivot.blanks:
                continue
            named = named_levels(pivot, row, column)
            levels = [named.get(name, "") for name in factors]
            told: list[object] = [None] * len(keys)
            if entry is not None:
                of = entry.sample
                told = [of.centre, of.low, of.high, of.repetitions, entry.share_of_best, entry.rank]
            apart = entry.difference if entry is not None else None
            told += [apart.share, apart.low, apart.high, apart.seen] if apart else [None] * len(ends)
            cells = [pivot.spec.name, *levels, pivot.figure.name, unit_of(pivot), *told]
            writer.writerow(map(csv_cell, cells))
    return text.getvalue()


def _figures(view: StudyView) -> list[Figure]:
    found = [_trade(view, *trade) for trade in view.trades]
    for pivot in view.observed.pivots:
        if "value" in pivot.spec.show:
            picture = matrix_picture(pivot, _workload(view, pivot))
            caption = INTERVALS if pivot.repetitions > 1 else "Each cell was measured once: noise is unknown."
            narrow = matrix_picture(pivot, _workload(view, pivot), narrow=True)
            found.append(Figure(pivot.spec.title, caption, [picture], [narrow]) if picture and narrow else None)
    return [figure for figure in found if figure is not None]


def view_tables(view: StudyView) -> list[Table]:
    """With what the runs of each asked of their targets."""
    own = [replace(matrix_table(pivot), note=_workload(view, pivot)) for pivot in view.observed.pivots if pivot.rows]
    return [*own, *(Table(title, list(columns), rows, text_columns=1) for title, columns, rows in view.published)]


def _workload(view: StudyView, pivot: Pivot) -> str:
    """What the runs of one table asked of their targets."""
    runs = {run for entry in pivot.entries.values() for run in entry.runs} | {*pivot.untold}
    return workload_words([record for record in view.records if record.info.id in runs])


def _trade(view: StudyView, x: str, y: str, title: str) -> Figure | None:
    by_name = {pivot.spec.name: pivot for pivot in view.observed.pivots}
    if x not in by_name or y not in by_name:
        return None
    workload = _workload(view, by_name[y])
    wide, narrow = (
        trade_picture(by_name[x], by_name[y], title, workload, narrow=is_narrow) for is_narrow in (False, True)
    )
    return Figure(title, "Each point is a level of the study.", [wide], [narrow]) if wide and narrow else None


def _render(view: StudyView, figures: list[Figure], pictures: str) -> str:
    records = list(view.records)
    return (
        templates()
        .get_template("study.html.j2")
        .render(
            title=view.title,
            when=summaries.when(records[0].info),
            version=records[0].info.software_version,
            differing=differing_in_study(records),
            warnings=distinct_warnings(records),
            notes=[*view.notes, *view.observed.troubles],
            unfinished=[f"Run {r.info.id} is excluded from the tables: {r.info.invalid}" for r in view.invalid],
            circumstances=_circumstances(view),
            about=" ".join(view.about.split()),
            workload=workload_words(records),
            answer=view.answer,
            counted=counted_words(records, [*view.notes, *view.observed.troubles], len(view.invalid)),
            conclusions=conclusions(view.observed.pivots, view.records),
            figures=figures,
            of_runs=(),
            tables=view_tables(view),
            footnotes=footnotes(view.observed.pivots),
            verdicts=[],
            failures=None,
            slowest=Table("", [], []),
            pictures=pictures,
        )
    )


OF_ONE_TARGET = ("Test area", "Array", "Cache", "File system")


def _circumstances(view: StudyView) -> list[tuple[str, str]]:
    """What belongs to one target is told where there is but one; conditions, seeds and changes of a model are levels
    here."""
    records = list(view.records)
    many = len({tuple(record.info.targets) for record in records}) > 1
    changes = {tuple(summaries.model_changes(record.info)) for record in records}
    levels = ("Condition", "Seed", *([summaries.MODEL_SET] if len(changes) > 1 else []))
    lines = [
        (label, text)
        for label, text in summaries.circumstances(records)
        if label not in levels and not (many and (label in OF_ONE_TARGET or label.startswith("Device ")))
    ]
    conditions = dict.fromkeys(record.info.condition.replace("_", " ") for record in records)
    return [*lines, ("Conditions", ", ".join(conditions)), *([("Source", view.source)] if view.source else [])]

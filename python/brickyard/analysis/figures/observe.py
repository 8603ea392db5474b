"""Duty: records of a study → observations and tables. Refusal: invalid and unfinished runs are in none of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard import _core
from brickyard.analysis.figures.cells import DASH
from brickyard.analysis.figures.conditions import of_words
from brickyard.analysis.figures.named import FIGURES, PARTS, measured
from brickyard.analysis.figures.pivot import Axis, Observation, Pivot, TableSpec, pivot
from brickyard.analysis.figures.totals import rated_rows, totals
from brickyard.store import Record
from brickyard.units import format_runs


@dataclass(frozen=True)
class Observed:
    """Tables of a study, why some runs gave no value, and whose values are means over several conditions."""

    pivots: list[Pivot]
    troubles: list[str]


def observe(
    records: Sequence[Record], specs: Sequence[TableSpec], axes: Sequence[Axis], *, confidence: float = 0.95
) -> Observed:
    pivots, troubles = [], []
    for spec in specs:
        found = observations(records, spec)
        pivots.append(made := pivot(spec, axes, found.values, confidence=confidence))
        troubles += lacking_words(made)
        troubles += [f"{spec.title}: {text}" for text in found.troubles]
    return Observed(pivots, list(dict.fromkeys(troubles)))


def lacking_words(of: Pivot) -> list[str]:
    """What becomes of cells of which some repetitions, or all, lack the figure."""
    said = []
    if of.lacking:
        few = f"{_have(of.lacking)} fewer than ten requests beyond the figure"
        left = (
            "these may be the slow ones, so their cells have the figure of all requests together, without an interval"
        )
        said.append(f"{of.spec.title}: {few}; {left}")
    if of.untold and of.figure.is_percentile:
        said.append(
            f"{of.spec.title}: {DASH}: {_have(of.untold)} fewer than ten requests beyond the figure, even together"
        )
    elif of.untold:
        left = "these may be the slow ones, so the others alone make no figure"
        said.append(f"{of.spec.title}: {DASH}: {_have(of.untold)} no figure; {left}")
    return said


def _have(runs: Sequence[int]) -> str:
    return f"{format_runs(runs)} {'has' if len(runs) == 1 else 'have'}"


@dataclass(frozen=True)
class Found:
    """`values` has the runs that lack the figure as well."""

    values: list[Observation]
    troubles: list[str]


def observations(records: Sequence[Record], spec: TableSpec) -> Found:
    """The figure of a table in every finished, valid run that the table is about."""
    split = tuple(part for part in PARTS if part in (*spec.rows, *spec.columns))
    of_levels = {name: wanted for name, wanted in spec.where.items() if name not in PARTS}
    of_parts = {name: wanted for name, wanted in spec.where.items() if name in PARTS}
    limit_ns = _core.parse_duration_ns(spec.limit) if spec.limit else None
    values, troubles = [], []
    for record in records:
        marks = record.info.marks
        levels = marks.levels or {}
        if not record.info.is_valid or any(levels.get(name) not in wanted for name, wanted in of_levels.items()):
            continue
        fixed = {name: wanted[0] for name, wanted in of_parts.items() if len(wanted) == 1}
        found = measured(record, FIGURES[spec.figure], split=split, where=of_parts, limit_ns=limit_ns, usd=marks.usd)
        operations = {row.operation for row in rated_rows(totals(record))} if spec.figure == "iops" else set()
        operation = operations.pop() if len(operations) == 1 else ""
        if FIGURES[spec.figure].kind != "span":
            troubles += [words for phase in range(len(record.info.plan.phase)) if (words := of_words(record, phase))]
        for item in found:
            if item.trouble:
                troubles.append(item.trouble)
            named = {**levels, **item.part.named(split), **fixed}
            number, run = marks.repetition or 1, record.info.id
            values.append(Observation(named, number, run, item.value, item.times, operation))
    return Found(values, list(dict.fromkeys(troubles)))

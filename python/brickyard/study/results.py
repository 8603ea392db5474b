"""Duty: what the store holds of a study: its counted runs, its invalid ones, its tables.

Refusal: nothing is measured. Of several good runs of one cell the newest counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.analysis.observe import Observed, is_counted, observe
from brickyard.store import Record, Store
from brickyard.study.design import Design
from brickyard.study.matrix import Step, finished, is_good


@dataclass(frozen=True)
class Results:
    counted: list[Record]
    invalid: list[Record]
    observed: Observed


def results(store: Store, design: Design, planned: Sequence[Step]) -> Results:
    runs = finished(store.runs(), planned)
    chosen = [good[-1].id for step in planned if (good := [r for r in runs.get(step.identity, []) if is_good(r)])]
    counted = [record for record in map(store.record, sorted(chosen)) if is_counted(record)]
    invalid = [store.record(run.id) for group in runs.values() for run in group if run.invalid]
    return Results(counted, invalid, observe(counted, design.tables, design.axes))

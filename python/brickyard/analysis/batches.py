"""Duty: one run as several figures in turn, by batch means: the noise within a run where there is no other.

A run's intervals are cut into at most ten batches of equal length, whose figures are nearly independent where a batch
is much longer than what makes neighbouring intervals alike (batch means, as in Law and Kelton: Simulation Modeling and
Analysis).

Refusal: noise between runs is larger than within one, and nothing here can tell it.
"""

from __future__ import annotations

from dataclasses import replace

from brickyard.analysis.figures import Figure, measured
from brickyard.analysis.totals import full_intervals
from brickyard.store import Record

BATCHES = 10  # fewer leave the variance unknown, more make batches short (Schmeiser 1982 advises 10 to 30)
BATCHES_MIN = 5


def batches(record: Record, figure: Figure, phase: str, stream: str, operation: str) -> list[float]:
    """The figure in each batch; empty where the run has too few intervals."""
    names = [p.get("name") or f"phase {n + 1}" for n, p in enumerate(record.info.plan.get("phase", []))]
    if phase not in names:
        return []
    spans = full_intervals(record, names.index(phase))
    count = min(BATCHES, len(spans))
    if count < BATCHES_MIN:
        return []
    where: dict[str, tuple[str, ...]] = {"phase": (phase,), "stream": (stream,), "operation": (operation,)}
    values = []
    for number in range(count):
        chosen = {s.start_ns for s in spans[number * len(spans) // count : (number + 1) * len(spans) // count]}
        part = replace(
            record,
            intervals=[item for item in record.intervals if item.start_ns in chosen],
            costs=[cost for cost in record.costs if cost.start_ns in chosen],
        )
        found = measured(part, figure, split=("phase", "stream", "operation"), where=where)
        values += [item.value for item in found if item.value is not None]
    return values if len(values) == count else []

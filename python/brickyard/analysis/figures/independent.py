"""Duty: which runs of a side are measurements of their own.

A model gives the same figures for the same seed: a second run of it is the first one again, and no evidence. Nor is a
result of fio that was imported twice.

Refusal: a real target is never taken for deterministic.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.schema import plan_values
from brickyard.store import Record

SAME_SEED = "same seed, modelled target"


@dataclass(frozen=True)
class Repeat:
    """A run with those that only repeat it."""

    run: int
    by: tuple[int, ...]
    why: str = SAME_SEED


def independent(records: Sequence[Record]) -> tuple[list[Record], list[Repeat]]:
    """Runs that count, and what was left out because it repeats one of them."""
    kept: list[Record] = []
    first: dict[str, int] = {}
    repeats: dict[int, list[int]] = {}
    for record in records:
        same = determined_by(record)
        if same is None or same not in first:
            kept.append(record)
            if same is not None:
                first[same] = record.info.id
        else:
            repeats.setdefault(first[same], []).append(record.info.id)
    tools = {record.info.id: record.info.tool for record in kept if record.info.is_by_tool}
    why = {run: f"same result of {tool}, imported again" for run, tool in tools.items()}
    return kept, [Repeat(run, tuple(by), why.get(run, SAME_SEED)) for run, by in repeats.items()]


def is_same_computation(one: Sequence[Record], other: Sequence[Record]) -> bool:
    """Whether two sides are the same runs on models, so that every figure of theirs is exactly equal."""
    mine, others = ({determined_by(record) for record in side} for side in (one, other))
    return mine == others and None not in mine


def same_result(record: Record) -> str | None:
    """What a result of another tool has alone: when it was printed, and its figures; None of any other run."""
    info = record.info
    if not info.is_by_tool:
        return None
    figures = [
        (one.phase, one.stream, one.operation, one.end_ns, one.requests, one.bytes, one.errors, one.mean_ns, one.max_ns)
        for one in record.intervals
    ]
    return json.dumps([info.start_unix_ns, sorted(figures)])


def determined_by(record: Record) -> str | None:
    """All that decides the figures of a run on models, or what another tool's result has alone: runs that have it in
    common are one measurement. None of any other run."""
    if (result := same_result(record)) is not None:
        return result
    info = record.info
    if not info.is_modelled:
        return None
    # Neither a title nor the name of a factor decides a figure; cells of one study stay apart by their levels.
    levels = list((info.marks.levels or {}).values())
    plan = {**plan_values(info.plan), "title": ""}
    what = [plan, info.targets, info.condition, info.options, info.software_version, levels]
    return json.dumps(what, sort_keys=True)

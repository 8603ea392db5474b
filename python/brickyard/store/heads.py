"""Duty: reads what lists and selections need of each run, without plans, facts and events of the others.

Refusal: no run is judged here; whoever shows one reads it whole.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import msgspec

from brickyard.ready import ready
from brickyard.schema import ConditionReason, ProcessMark, words_of
from brickyard.store.damage import check_outcome
from brickyard.store.process import is_alive
from brickyard.store.record import INTERRUPTED, RUNNING, Outcome, RunHead
from brickyard.store.schema import has_derived


def read_heads(db: sqlite3.Connection, first: int, last: int) -> list[RunHead]:
    """Of the runs from `first` to `last`, in order. Each statement is answered by an index alone where there is one."""
    span = (first, last)

    def rows(statement: str) -> sqlite3.Cursor:
        return db.execute(statement, span)

    starts = dict(rows("SELECT run, start_unix_ns FROM run_start WHERE run BETWEEN ? AND ?"))
    ends = dict(rows("SELECT run, outcome FROM run_end WHERE run BETWEEN ? AND ?"))
    studies = {
        run: (study, json.loads(labels))
        for run, study, labels in rows("SELECT run, study, labels FROM study_run WHERE run BETWEEN ? AND ?")
    }
    invalid = {
        run: invalid_reason(body)
        for run, body in rows(
            "SELECT run, body FROM event WHERE kind = 'condition' AND run BETWEEN ? AND ? ORDER BY run, id"
        )
    }
    paths = dict(rows("SELECT run, real_paths FROM run_place WHERE run BETWEEN ? AND ?")) if has_derived(db) else {}
    found = []
    listed = rows("SELECT id, created_unix_ns, profile, targets FROM run WHERE id BETWEEN ? AND ? ORDER BY id")
    for run, created, profile, targets in listed:
        study, labels = studies.get(run, (None, {}))
        found.append(
            RunHead(
                id=run,
                created_unix_ns=created,
                profile=profile,
                targets=json.loads(targets),
                real_paths=json.loads(paths[run]) if run in paths else _facts(db, run).real_paths,
                study=study,
                labels=labels,
                start_unix_ns=starts.get(run),
                outcome=_outcome(db, run, ends.get(run)),
                invalid=invalid.get(run, ""),
            )
        )
    return found


def _outcome(db: sqlite3.Connection, run: int, told: Any) -> Outcome:
    if (ended := check_outcome(told)) is not None:
        return ended
    return RUNNING if is_alive(_facts(db, run).process) else INTERRUPTED


def _facts(db: sqlite3.Connection, run: int) -> FactsHead:
    [(text,)] = db.execute("SELECT facts FROM run WHERE id = ?", (run,))
    return facts_head(json.loads(text))


class TargetHead(msgspec.Struct):
    real_path: str | None = None


class FactsHead(msgspec.Struct):
    """What a head needs of the facts of a run; its targets are as the trigger `run_place_noted` has them."""

    process: ProcessMark | None = None
    targets: list[TargetHead] | None = None

    @property
    def real_paths(self) -> list[str | None]:
        return [target.real_path for target in self.targets or []]


def facts_head(facts: object) -> FactsHead:
    """Raises ValueError where the facts are no facts."""
    try:
        return msgspec.convert(facts, FactsHead)
    except msgspec.ValidationError as error:
        raise ValueError(f"facts: {error}") from error


def invalid_reason(condition: str | None) -> str:
    """Why a run does not stand for its condition, by its event `condition`; empty where it does."""
    try:
        told = msgspec.json.decode(condition or "{}", type=_Judged)
    except msgspec.MsgspecError as error:
        raise ValueError(f"condition: {error}") from error
    if told.valid:
        return ""
    words = told.reason if isinstance(told.reason, str) else words_of(told.reason)
    return words or "the condition did not last"


class _Judged(msgspec.Struct):
    """What a head needs of the event `condition`."""

    valid: bool = True
    reason: str | ConditionReason | None = None
    """Words in stores from before version 3 of the events."""


ready(FactsHead, _Judged)

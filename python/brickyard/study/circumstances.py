"""Duty: the facts that belong to a run (host, target, what else happened meanwhile) and the warnings that follow.

Refusal: no fact is gathered here; `brickyard.facts` knows where each one stands.
"""

from __future__ import annotations

import importlib
from contextlib import ExitStack
from typing import Any

from brickyard.analysis import summary
from brickyard.store import Json, Store


def _facts() -> Any:
    try:
        return importlib.import_module("brickyard.facts")
    except ModuleNotFoundError:
        return None


def collect(targets: list[str]) -> Json:
    """Facts about the host and each target, taken once before the first run of a study."""
    facts = _facts()
    found = [facts.collect(target) for target in targets] if facts else []
    return {"host": found[0]["host"] if found else {}, "targets": [item["target"] for item in found]}


class Watching:
    """The counters of the host and the devices around one run."""

    def __init__(self, targets: list[str]) -> None:
        self._stack = ExitStack()
        facts = _facts()
        self._watches = [self._stack.enter_context(facts.Watch(target)) for target in targets] if facts else []

    def end(self) -> Json:
        self._stack.close()
        return {"targets": [watch.result() for watch in self._watches]}


def warnings(store: Store, run: int, end: Json, watched: Json) -> list[Json]:
    """What the reader must know before believing a figure of this run."""
    facts = _facts()
    if not facts:
        return []
    record = store.record(run)
    found: list[Json] = facts.warnings(summary.facts_record(record, end, watched, str(store.place)))
    return found

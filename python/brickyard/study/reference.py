"""Duty: the published block-level tables, repeated on modelled bricks: published, simulated and error side by side.

Refusal: which load and which brick repeat a cell is known to the core; nothing is fitted here.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from brickyard import bricks
from brickyard.errors import BadInputError, one_line
from brickyard.store import Json

CLEARLY = 1.10
"""Two published figures that differ by less than a tenth are not called better or worse."""


@dataclass(frozen=True)
class Outcome:
    """One published figure and its simulated counterpart."""

    cell: Json
    simulated: float

    @property
    def error(self) -> float:
        return self.simulated / float(self.cell["published"]) - 1

    @property
    def label(self) -> str:
        condition = self.cell["condition"]
        state = "" if condition == "normal" else f" ({condition.replace('_', ' ')})"
        return f"{self.cell['label']}{state}, {self.cell['unit']}"

    @property
    def name(self) -> str:
        return f"{self.cell['table']}: {self.label}"

    def document(self) -> Json:
        return {**self.cell, "simulated": self.simulated, "error_percent": self.error * 100}


@dataclass(frozen=True)
class Table:
    """One table in one kind of condition: normal, or while something is rebuilt."""

    name: str
    outcomes: list[Outcome]

    @property
    def median_error(self) -> float:
        return statistics.median(abs(outcome.error) for outcome in self.outcomes)

    @property
    def largest_error(self) -> float:
        return max(abs(outcome.error) for outcome in self.outcomes)

    def document(self) -> Json:
        return {
            "table": self.name,
            "median_error_percent": self.median_error * 100,
            "largest_error_percent": self.largest_error * 100,
            "cells": [outcome.document() for outcome in self.outcomes],
        }


def run_reference(progress: Callable[[int, int], None]) -> list[Outcome]:
    """Simulates every published cell, on as many cores as there are."""
    from brickyard import _core

    cells: list[Json] = json.loads(_core.reference_cells())
    texts = bricks.texts()
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        figures = pool.map(lambda number: _core.reference_simulate(number, texts), range(len(cells)))
        outcomes = []
        try:
            for cell, figure in zip(cells, figures, strict=True):
                outcomes.append(Outcome(cell, figure))
                progress(len(outcomes), len(cells))
        except ValueError as error:
            raise BadInputError(one_line(error)) from error
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return outcomes


def tables(outcomes: Iterable[Outcome]) -> list[Table]:
    """Grouped by table and by whether anything is rebuilt, because the accuracies that hold differ."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        state = "" if outcome.cell["condition"] == "normal" else ", under rebuilds"
        found.setdefault(f"{outcome.cell['table']}{state}", []).append(outcome)
    return [Table(name, group) for name, group in found.items()]


@dataclass(frozen=True)
class Rankings:
    """Of the pairs of a table that clearly differ as published: how many, and which the models order otherwise."""

    pairs: int
    disagreements: list[tuple[Outcome, Outcome]]


def rankings(outcomes: list[Outcome]) -> Rankings:
    pairs = list(_clear_pairs(outcomes))
    return Rankings(len(pairs), [(high, low) for high, low in pairs if high.simulated <= low.simulated])


def _clear_pairs(outcomes: list[Outcome]) -> Iterator[tuple[Outcome, Outcome]]:
    for number, one in enumerate(outcomes):
        for other in outcomes[number + 1 :]:
            if one.cell["group"] != other.cell["group"] or one.cell["unit"] != other.cell["unit"]:
                continue
            low, high = sorted((one, other), key=lambda outcome: float(outcome.cell["published"]))
            if high.cell["published"] > low.cell["published"] * CLEARLY:
                yield high, low

"""Duty: the published block-level tables, repeated on modelled bricks: published, simulated and error side by side.

Refusal: which load and which brick repeat a cell is known to the core; nothing is fitted here.
"""

from __future__ import annotations

import csv
import io
import os
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources

import msgspec
from msgspec import structs

from brickyard import bricks, profiles
from brickyard.advise.simulate import Brick
from brickyard.bricks.caps import caps_of
from brickyard.bricks.spread import (
    COLUMNS,
    FAR,
    FEW_TABLES,
    KINDS,
    LEAST_TABLES,
    Spread,
    SpreadRow,
    left_out_share,
    printed_kind,
    sources,
    spread,
    storage_kind,
    unit_of,
)
from brickyard.errors import BadInputError, one_line
from brickyard.ready import ready
from brickyard.schema import Document
from brickyard.units import MIB, three_digits

CLEARLY = 1.10
"""Two published figures that differ by less than a tenth are not called better or worse."""


SEEDS = (1, 2, 3)
"""Each decides how spindles stand and where requests and streams begin; a cell is the median of them."""


class PublishedCell(msgspec.Struct, frozen=True, kw_only=True):
    """One published figure, and what repeats it (`crates/sim/src/reference.rs`)."""

    condition: str
    fitted: bool
    """Whether values of its products were set by its table."""
    group: str
    """Figures of one group are compared with one another."""
    label: str
    profile: str
    """What it asks of the brick, in TOML."""
    left_out: str | None
    """The brick with the values that it would have without this table, where those differ."""
    published: float
    table: str
    target: str
    unit: str


def published_cells() -> list[PublishedCell]:
    """In the order of their numbers."""
    from brickyard import _core

    return msgspec.json.decode(_core.reference_cells(), type=list[PublishedCell])


@dataclass(frozen=True)
class Outcome:
    """One published figure and its simulated counterparts: a figure for each seed, with what was fitted to its table
    and, where that differs, without."""

    cell: PublishedCell
    figures: tuple[float, ...]
    without: tuple[float, ...] | None

    @property
    def published(self) -> float:
        return self.cell.published

    @property
    def simulated(self) -> float:
        return statistics.median(self.figures)

    @property
    def left_out(self) -> float:
        """The figure of a model that was not fitted to this cell's table."""
        return statistics.median(self.without or self.figures)

    @property
    def error(self) -> float:
        return self.simulated / self.published - 1

    @property
    def left_out_error(self) -> float:
        return self.left_out / self.published - 1

    @property
    def label(self) -> str:
        condition = self.cell.condition
        state = "" if condition == "normal" else f" ({condition.replace('_', ' ')})"
        return f"{self.cell.label}{state}, {self.cell.unit}"

    @property
    def table(self) -> str:
        return self.cell.table

    @property
    def target(self) -> str:
        """The brick without what stands before its name."""
        return self.cell.target.removeprefix(bricks.MODELLED)

    @property
    def name(self) -> str:
        return f"{self.table}: {self.label}"

    def document(self) -> Document:
        return {
            **structs.asdict(self.cell),
            "simulated": self.simulated,
            "simulated_of_seeds": list(self.figures),
            "error_percent": self.error * 100,
            "left_out": self.left_out,
            "left_out_error_percent": self.left_out_error * 100,
        }


@dataclass(frozen=True)
class Table:
    """One table in one kind of condition: normal, or while something is rebuilt."""

    name: str
    outcomes: list[Outcome]

    @property
    def fitted(self) -> bool:
        return self.outcomes[0].cell.fitted

    @property
    def median_error(self) -> float:
        return statistics.median(abs(outcome.error) for outcome in self.outcomes)

    @property
    def largest_error(self) -> float:
        return max(abs(outcome.error) for outcome in self.outcomes)

    @property
    def left_out_median(self) -> float:
        return statistics.median(abs(outcome.left_out_error) for outcome in self.outcomes)

    @property
    def left_out_largest(self) -> float:
        return max(abs(outcome.left_out_error) for outcome in self.outcomes)

    def document(self) -> Document:
        return {
            "table": self.name,
            "fitted": self.fitted,
            "median_error_percent": self.median_error * 100,
            "largest_error_percent": self.largest_error * 100,
            "left_out_median_error_percent": self.left_out_median * 100,
            "left_out_largest_error_percent": self.left_out_largest * 100,
            "cells": [outcome.document() for outcome in self.outcomes],
        }


Figure = Callable[[int, dict[str, str], int, bool], float]
"""Of a published cell by its number, the texts of all bricks, a seed, and whether it was left out."""


def run_reference(
    progress: Callable[[int, int], None], *, source: str = "", figure: Figure | None = None, cores: int | None = None
) -> list[Outcome]:
    """Simulates every published cell with each seed, on as many cores as there are, here or where `figure` computes.

    `source`: only those of tables whose name begins so.
    """
    from brickyard import _core

    simulated = figure or _core.reference_simulate

    cells = published_cells()
    texts = bricks.texts()
    numbers = [number for number, cell in enumerate(cells) if cell.table.startswith(source)]

    def outcome(number: int) -> Outcome:
        def figures(*, left_out: bool) -> tuple[float, ...]:
            return tuple(simulated(number, texts, seed, left_out) for seed in SEEDS)

        cell = cells[number]
        return Outcome(cell, figures(left_out=False), figures(left_out=True) if cell.left_out else None)

    outcomes = []
    with ThreadPoolExecutor(max_workers=cores or os.cpu_count() or 1) as pool:
        try:
            for found in pool.map(outcome, numbers):
                outcomes.append(found)
                progress(len(outcomes), len(numbers))
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
        state = "" if outcome.cell.condition == "normal" else ", under rebuilds"
        found.setdefault(f"{outcome.table}{state}", []).append(outcome)
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
            if one.cell.group != other.cell.group or one.cell.unit != other.cell.unit:
                continue
            low, high = sorted((one, other), key=lambda outcome: outcome.published)
            if high.published > low.published * CLEARLY:
                yield high, low


@dataclass(frozen=True)
class LeftOutCover:
    """The intervals of a table's kinds of storage, made without it (of durable writes of flash: without the drive), and
    which part of its figures they hold."""

    spreads: list[Spread]
    covered: float | None


def held(table: Table, rows: Sequence[SpreadRow]) -> LeftOutCover:
    """`rows` are of every table. Of a kind that has no interval without this table, no figure is judged."""
    own = [_spread_row(outcome) for outcome in table.outcomes]
    units = {(row.table, row.kind) for row in own}
    found = {
        (unit, kind): made
        for unit, kind in sorted(units)
        if (made := spread(kind, [row for row in rows if row.table != unit]))
    }
    inside = [found[row.table, row.kind].holds(row) for row in own if (row.table, row.kind) in found]
    return LeftOutCover(list(found.values()), statistics.fmean(inside) if inside else None)


def _spread_row(outcome: Outcome) -> SpreadRow:
    kind = KINDS[printed_kind(storage_kind(Brick(outcome.target).resolve().brick), outcome.table, outcome.label)]
    cap = cap_of(outcome.cell)
    return SpreadRow(unit_of(outcome.table, kind, outcome.label), kind, outcome.published, outcome.left_out, cap=cap)


def cap_of(cell: PublishedCell) -> float | None:
    """What the storage of a published figure can have at most, in its unit; a time has no cap."""
    plan = profiles.validate(profiles.ProfileText(cell.table, cell.profile, cell.table), [])
    caps = caps_of(bricks.resolve(cell.target.removeprefix(bricks.MODELLED)).brick, plan)
    if cell.unit == "MiB/s":
        return None if caps.bytes_per_s is None else caps.bytes_per_s / MIB
    return caps.requests_per_s if cell.unit.startswith("requests/s") else None


def truth(outcomes: list[Outcome]) -> str:
    """The page `docs/truth.md`."""
    every = tables(outcomes)
    left_out = [abs(outcome.left_out_error) for outcome in outcomes]
    unfitted = [abs(o.left_out_error) for o in outcomes if not o.cell.fitted]
    rows = [_spread_row(outcome) for outcome in outcomes]
    ranked = rankings(outcomes)
    alike = ranked.pairs - len(ranked.disagreements)
    beyond = sum(error > _GOAL for error in left_out)
    lines = [
        _HEAD.format(cells=len(outcomes), seeds=len(SEEDS)),
        f"With the table left out, the median error is {statistics.median(left_out):.1%} and the largest "
        f"{max(left_out):.0%}; of {len(outcomes)} cells,",
        f"{beyond} are off by more than {_GOAL:.0%}. For tables to which nothing was fitted ({len(unfitted)} "
        "figures), the",
        f"median is {statistics.median(unfitted):.1%} and the largest {max(unfitted):.0%}. Of {ranked.pairs} pairs "
        "of cells in the same published table",
        f"that differ by more than 10 % as published, {alike} are simulated in the same order. This",
        "includes pairs of a cell in normal condition and one under a rebuild, which are in no",
        "row below.",
        "",
        *_intervals(rows),
        "",
        *_sources(rows),
        "",
        "## By table",
        "",
        "| table | fitted to | cells | fitted: median | largest | left out: median | largest | ordered alike "
        "| interval | covered |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for table in every:
        pairs = rankings(table.outcomes)
        found = held(table, rows)
        agreed = f"{pairs.pairs - len(pairs.disagreements)} of {pairs.pairs}" if pairs.pairs else ""
        cells = [
            table.name, "yes" if table.fitted else "no", str(len(table.outcomes)), f"{table.median_error:.1%}",
            f"{table.largest_error:.1%}", f"{table.left_out_median:.1%}", f"{table.left_out_largest:.1%}", agreed,
            ", ".join(dict.fromkeys(f"× {made.factor:.2f}" for made in found.spreads)),
            "" if found.covered is None else f"{found.covered:.0%}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"## Cells that are off by more than {_FAR:.0%}, left out", ""]
    lines += ["| cell | published | simulated | of seeds | left out | why |", "|---|---|---|---|---|---|"]
    for outcome in sorted(outcomes, key=lambda o: -abs(o.left_out_error)):
        if abs(outcome.left_out_error) <= _FAR:
            break
        low, high = min(outcome.figures), max(outcome.figures)
        lines.append(
            f"| {outcome.name} | {outcome.published:g} | {three_digits(outcome.simulated)} | {three_digits(low)} to "
            f"{three_digits(high)} | {three_digits(outcome.left_out)} ({outcome.left_out_error:+.0%}) "
            f"| {why(outcome.name) or ''} |"
        )
    return "\n".join([*lines, *_PROGRAMS]) + "\n"


class Miss(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cells that models miss by far, with `*` for anything, and the reason."""

    cells: list[str]
    why: str


class _Misses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    miss: list[Miss]


@cache
def misses() -> list[Miss]:
    text = (resources.files("brickyard.study") / "misses.toml").read_text("utf-8")
    return msgspec.toml.decode(text, type=_Misses).miss


def why(name: str) -> str | None:
    """The reason why a cell is missed by far, where one is known."""
    return next((item.why for item in misses() if any(fnmatchcase(name, cells) for cells in item.cells)), None)


def _intervals(rows: Sequence[SpreadRow]) -> list[str]:
    """The factors that answers cite."""
    lines = [
        "## Intervals of answers",
        "",
        "`advise buy` and `predict` use these factors. The interval of a kind of storage contains nine tenths of",
        "its published figures, each simulated with its own table left out; this holds both if figures are counted",
        "one by one and if each table has the same weight. If a kind",
        f"has fewer than {FEW_TABLES} tables, the factor is the widest that one",
        f"of them needs, and no less than that of all kinds together. If it has fewer than {LEAST_TABLES} tables, "
        "there is",
        "no factor, and nothing is called sure. *Of left-out tables*: the share of figures within the",
        "interval that was computed without their table. Durable writes of flash differ by drive more than by",
        "table, so each drive counts as a table there, and is left out by itself. An interval ends where the storage",
        "has a cap: what a volume is sold with, and what links and controllers carry. *Above caps*: how far beyond its",
        "cap an interval may reach. Nine tenths of the published figures that exceed their cap do so by no more.",
        "",
        "| kind | tables | figures | factor | above caps | of left-out tables |",
        "|---|---|---|---|---|---|",
    ]
    for kind in KINDS.values():
        own = [row for row in rows if row.kind == kind]
        made = spread(kind, rows)
        count = len({row.table for row in own})
        share = "" if (found := left_out_share(kind, rows)) is None else f"{found:.0%}"
        above = f"{made.above_cap - 1:.0%}" if made and any(row.cap for row in own) else ""
        factor = f"× {made.factor:.2f}" if made else "none"
        lines.append(f"| {kind} | {count} | {len(own)} | {factor} | {above} | {share} |")
    return lines


def _sources(rows: Sequence[SpreadRow]) -> list[str]:
    """What the factors hold of a source that had no part in them."""
    lines = [
        "Tables of one source share people, hosts and drives, so the factor of a kind is also computed without each",
        "source in turn. *Within*: how many figures of that source lie within the factor.",
        "",
        "| source | kind | figures | within |",
        "|---|---|---|---|",
    ]
    for kind in KINDS.values():
        for source in sources(kind, rows):
            held = "" if source.held is None else source.held
            lines.append(f"| {source.name} | {kind} | {source.figures} | {held} |")
    return lines


_FAR, _GOAL = 0.25, FAR
_PROGRAMS = (
    "",
    "## Loads of servers",
    "",
    "Workloads that are programs have no figures per request, so they are not in these tables.",
    "[servers](servers.md#beside-demarteks-tables) compares Demartek's tables of SQLIOSim and Jetstress with",
    "Brickyard's, and says where the models give a different order.",
)
ERRORS_MARK = re.compile(rb"^table,kind,cell,published,simulated")
"""What the file of left-out figures begins with."""


def left_out_rows(outcomes: list[Outcome]) -> str:
    """The left-out figures by table and kind of storage, as `advise` reads them for its intervals."""
    lines = io.StringIO()
    rows = csv.writer(lines, lineterminator="\n")
    rows.writerow(COLUMNS)
    for outcome in outcomes:
        row = _spread_row(outcome)
        figures = f"{row.published:g}", f"{row.simulated:.5g}", "" if row.cap is None else f"{row.cap:.6g}"
        rows.writerow([outcome.table, row.kind, outcome.label, *figures])
    return lines.getvalue()


TRUTH_MARK = re.compile(rb"Written by `brickyard study reference --truth")
"""What the page begins with: a file without it is not replaced."""
_HEAD = """# How true the models are

Written by `brickyard study reference --truth docs/truth.md`; do not edit.

{cells} published figures, each simulated with {seeds} seeds, which change the spindle angles, the offsets and
the start positions of streams; an error is that of the median. *Fitted*: with the values that ship.
*Left out*: with the values that the products would have without this table
(`reference/left_out.toml`). Both are the same if nothing was fitted to a table, or if other tables
give the same values. *Interval*: from figure / factor to figure × factor, where the factor is
computed as described below from all *other* tables of the kind of storage, but no higher than a cap
of the storage; *covered* is the share of this table's published figures within the interval.
"""


ready(list[PublishedCell])

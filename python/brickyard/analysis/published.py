"""Duty: what a study's source printed beside what came out here: value, ratio and rank of each cell, and whether the
source's conclusions come out.

Refusal: nothing is called right or wrong but the order or the ratio that a conclusion names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from brickyard.analysis.cells import DASH
from brickyard.analysis.figures import Figure
from brickyard.analysis.pivot import Entry, Pivot, Where

Told = tuple[str, tuple[str, ...], list[list[str]]]
COLUMNS = ("cell", "published", "here", "here / published", "rank, published", "rank, here")


@dataclass(frozen=True)
class Published:
    """One printed figure, in the unit of the table of the study that it belongs to (times in ns); its levels, and what
    the source says of it."""

    table: str
    at: Where
    value: float
    of: str = ""


@dataclass(frozen=True)
class Conclusion:
    """What the source concludes: that one level is ahead of another, or within a ratio of it."""

    says: str
    table: str
    ahead: Where
    behind: Where
    at: Where
    low: float = 1.0
    high: float = float("inf")


@dataclass(frozen=True)
class Judged:
    """A conclusion beside the ratio that came out; None where a cell is missing."""

    conclusion: Conclusion
    ratio: float | None

    @property
    def agrees(self) -> bool | None:
        return None if self.ratio is None else self.conclusion.low <= self.ratio <= self.conclusion.high


def beside(pivots: Sequence[Pivot], published: Sequence[Published]) -> list[Told]:
    """A table for each of the study's that has printed figures."""
    found: list[Told] = []
    for pivot in pivots:
        rows = [(item, entry) for item in published if item.table == pivot.spec.name for entry in _at(pivot, item.at)]
        if rows:
            found.append((f"{pivot.spec.title}, compared with the source", COLUMNS, _rows(pivot, rows)))
    return found


def _at(pivot: Pivot, where: Where) -> list[Entry]:
    return [entry for entry in pivot.entries.values() if _fits(entry.levels, where)]


def _fits(levels: Mapping[str, str], where: Where) -> bool:
    return all(levels.get(name) in wanted for name, wanted in where.items())


def _rows(pivot: Pivot, rows: list[tuple[Published, Entry]]) -> list[list[str]]:
    printed, ours = [item.value for item, _ in rows], [entry.sample.centre for _, entry in rows]
    return [
        [
            _label(pivot, item, entry),
            pivot.figure.text(item.value),
            pivot.figure.text(entry.sample.centre),
            f"{entry.sample.centre / item.value:.2f}" if item.value else DASH,
            str(_rank(pivot.figure, printed, item.value)),
            str(_rank(pivot.figure, ours, entry.sample.centre)),
        ]
        for item, entry in rows
    ]


def _rank(figure: Figure, values: Sequence[float], mine: float) -> int:
    """Figures that a reader sees as equal have one rank."""
    better = [value for value in values if (value > mine if figure.more_is_better else value < mine)]
    return 1 + sum(figure.text(value) != figure.text(mine) for value in better)


def _label(pivot: Pivot, item: Published, entry: Entry) -> str:
    axes = (*pivot.row_axes, *pivot.column_axes)
    text = ", ".join(axis.label(entry.levels[axis.name]) for axis in axes if entry.levels.get(axis.name))
    return f"{text} ({item.of})" if item.of else text


def judged(pivots: Sequence[Pivot], conclusions: Sequence[Conclusion]) -> list[Judged]:
    by_name = {pivot.spec.name: pivot for pivot in pivots}
    return [Judged(item, _ratio(by_name.get(item.table), item)) for item in conclusions]


def _ratio(pivot: Pivot | None, item: Conclusion) -> float | None:
    """How many times better the one is than the other."""
    if pivot is None:
        return None
    ends = [_at(pivot, {**item.at, **where}) for where in (item.ahead, item.behind)]
    if not all(ends):
        return None
    ahead, behind = (sum(entry.sample.centre for entry in found) / len(found) for found in ends)
    if not ahead or not behind:
        return None
    return ahead / behind if pivot.figure.more_is_better else behind / ahead


def disagreement(found: Sequence[Judged], *, is_modelled: bool) -> str:
    """The sentence that stands before all others; empty where every conclusion comes out."""
    against = [item for item in found if item.agrees is False]
    if not against:
        return ""
    who = "The models disagree with their source" if is_modelled else "The results here disagree with the source"
    said = "; ".join(f"{item.conclusion.says} (here {item.ratio or 0:.2f} ×)" for item in against)
    return f"{who} on {len(against)} of {sum(i.agrees is not None for i in found)} conclusions: {said}."


def conclusion_table(found: Sequence[Judged]) -> list[Told]:
    known = [item for item in found if item.agrees is not None]
    if not known:
        return []
    rows = [[item.conclusion.says, f"{item.ratio or 0:.2f} ×", "yes" if item.agrees else "no"] for item in known]
    return [("What the source concludes", ("conclusion", "ratio here", "confirmed"), rows)]

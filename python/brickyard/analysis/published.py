"""Duty: what a study's source printed beside what came out here: value, ratio and rank of each cell, and whether the
source's conclusions come out.

Refusal: nothing is called right or wrong but the order or the ratio that a conclusion names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from brickyard.analysis.cells import DASH
from brickyard.analysis.figures import Figure
from brickyard.analysis.pivot import Entry, Pivot, Where
from brickyard.analysis.samples import difference

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
    """What the source concludes: that one level is ahead of another, or within a ratio of it. With `than`, that it is
    further ahead at `at` than there: the ratio is that of both ratios."""

    says: str
    table: str
    ahead: Where
    behind: Where
    at: Where
    low: float = 1.0
    high: float = float("inf")
    than: Where = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """A conclusion beside what came out; `agrees` is None where a cell is missing, or no difference is beyond noise."""

    says: str
    here: str
    """What came out, in words; empty where a cell is missing."""
    agrees: bool | None
    ratio: float | None = None

    @property
    def is_measured(self) -> bool:
        return bool(self.here)

    @property
    def confirmed(self) -> str:
        return "not seen beyond noise" if self.agrees is None else "yes" if self.agrees else "no"


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
    return [_judged(by_name.get(item.table), item) for item in conclusions]


def _judged(pivot: Pivot | None, item: Conclusion) -> Judged:
    ratio = _ratio(pivot, item, item.at)
    if item.than and ratio is not None:
        other = _ratio(pivot, item, {**item.at, **item.than})
        ratio = ratio / other if other else None
    if pivot is None or ratio is None:
        return Judged(item.says, "", None)
    agrees = item.low <= ratio <= item.high
    is_blurred = item.low >= 1 and not item.than and _is_within_noise(pivot, item)
    return Judged(item.says, f"{ratio:.2f} ×", None if agrees and is_blurred else agrees, ratio)


def _ratio(pivot: Pivot | None, item: Conclusion, at: Where) -> float | None:
    """How many times better the one is than the other."""
    if pivot is None:
        return None
    ends = [_at(pivot, {**at, **where}) for where in (item.ahead, item.behind)]
    if not all(ends):
        return None
    ahead, behind = (sum(entry.sample.centre for entry in found) / len(found) for found in ends)
    if not ahead or not behind:
        return None
    return ahead / behind if pivot.figure.more_is_better else behind / ahead


def _is_within_noise(pivot: Pivot, item: Conclusion) -> bool:
    """Whether two cells that are compared were repeated and are no further apart than their repetitions."""
    ahead, behind = (_at(pivot, {**item.at, **where}) for where in (item.ahead, item.behind))
    if len(ahead) != 1 or len(behind) != 1:
        return False
    found = difference(ahead[0].sample, behind[0].sample, resolution=pivot.figure.resolution)
    return found is not None and found.seen is False


def agreement(found: Sequence[Judged], *, is_modelled: bool) -> str:
    """The sentence that stands before all others; empty for a study without conclusions."""
    known = [item for item in found if item.is_measured]
    missing = len(found) - len(known)
    if not known:
        return f"None of the source's {missing} conclusions was judged: cells are missing." if missing else ""
    who = "the models" if is_modelled else "the results here"
    agrees = sum(item.agrees is True for item in known)
    parts = [f"{agrees} of {len(known)} conclusions of the source agree with {who}"]
    for words, value in (("these do not", False), ("not seen beyond noise", None)):
        listed = [f"{item.says} (here {item.here})" for item in known if item.agrees is value]
        parts += [f"{words}: {'; '.join(listed)}"] if listed else []
    parts += [f"{missing} not judged, as cells are missing"] if missing else []
    return f"{'; '.join(parts)}."


def conclusion_table(found: Sequence[Judged]) -> list[Told]:
    known = [item for item in found if item.is_measured]
    if not known:
        return []
    rows = [[item.says, item.here, item.confirmed] for item in known]
    return [("What the source concludes", ("conclusion", "here", "confirmed"), rows)]

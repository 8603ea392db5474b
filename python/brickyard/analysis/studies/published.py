"""Duty: what a study's source printed beside what came out here: value, ratio and rank of each cell, and whether the
source's conclusions come out.

Refusal: nothing is called right or wrong but the order or the ratio that a conclusion names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from brickyard.analysis.figures.cells import DASH, Told
from brickyard.analysis.figures.named import Figure
from brickyard.analysis.figures.pivot import Entry, Pivot, Where
from brickyard.analysis.figures.samples import Ratio, Sample, mean_ratio

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
    why: str = ""
    """The reason that is known for models to come out otherwise."""
    given: str = ""
    """What models must assume for it, and the source does not say."""

    def holds(self, ratio: float) -> bool:
        return self.low <= ratio <= self.high


@dataclass(frozen=True)
class Cells:
    """The levels of every cell of a study, and of those without a valid run."""

    planned: Sequence[Mapping[str, str]]
    missing: Sequence[Mapping[str, str]]

    def words(self, runs: int, missing_runs: int) -> str:
        """What stands before an answer that not all runs were made for; empty where it lacks none."""
        lack = f"{missing_runs} of {runs} runs {'is' if missing_runs == 1 else 'are'} missing"
        if self.missing:
            were = "was" if len(self.missing) == 1 else "were"
            return f"Incomplete: {len(self.missing)} of {len(self.planned)} cells {were} not measured ({lack})."
        return f"Incomplete: {lack}; each cell was measured at least once." if missing_runs else ""


@dataclass(frozen=True)
class Judged:
    """A conclusion beside what came out; `agrees` is None where a cell is missing, or the repetitions do not decide."""

    says: str
    here: str
    """What came out, in words; empty where a cell is missing."""
    agrees: bool | None
    ratio: float | None = None
    why: str = ""
    """Why it does not agree, where that is known of models."""
    given: str = ""
    """What it rests on, where models assume something for it."""
    group: str = ""
    """What an answer calls it together with others of its kind, of which a table has each."""

    @property
    def is_measured(self) -> bool:
        return bool(self.here)

    @property
    def confirmed(self) -> str:
        return "not decided" if self.agrees is None else "yes" if self.agrees else "no"


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


def judged(pivots: Sequence[Pivot], conclusions: Sequence[Conclusion], cells: Cells | None = None) -> list[Judged]:
    """`cells` are those of the study; without them, none of its cells is missing."""
    by_name = {pivot.spec.name: pivot for pivot in pivots}
    return [_judged(by_name.get(item.table), item, cells or Cells((), ())) for item in conclusions]


def _judged(pivot: Pivot | None, item: Conclusion, cells: Cells) -> Judged:
    """A conclusion is a range of a ratio: it agrees where the 95 % interval of the ratio lies in it, and does not where
    the interval lies outside. Where they only overlap, the repetitions decide nothing."""
    found = None if pivot is not None and _lacks(pivot, item, cells) else _ratio(pivot, item)
    if found is None:
        return Judged(item.says, "", None)
    if found.low is None or found.high is None:
        return Judged(
            item.says,
            f"{found.centre:.2f} ×, measured once",
            item.holds(found.centre),
            found.centre,
            item.why,
            item.given,
        )
    low, high = found.low, found.high
    is_in, is_out = item.low <= low and high <= item.high, high < item.low or low > item.high
    here = f"{found.centre:.2f} ×"
    if f"{low:.2f}" != f"{high:.2f}":
        here += f", {low:.2f} to {high:.2f}"
    return Judged(item.says, here, True if is_in else False if is_out else None, found.centre, item.why, item.given)


def _lacks(pivot: Pivot, item: Conclusion, cells: Cells) -> bool:
    """Whether a missing cell belongs to a pair that it is about: the mean over those that happen to be there would be
    that of other cells."""
    return any(
        _is_missing(pivot, item, at, cells) for at in (item.at, *([{**item.at, **item.than}] if item.than else []))
    )


def _is_missing(pivot: Pivot, item: Conclusion, at: Where, cells: Cells) -> bool:
    fixed = {*item.ahead, *item.behind}

    def end(which: Sequence[Mapping[str, str]], where: Where) -> set[frozenset[tuple[str, str]]]:
        there = [one for one in which if _may_fit(one, {**at, **where}) and _may_fit(one, pivot.spec.where)]
        return {frozenset((name, level) for name, level in one.items() if name not in fixed) for one in there}

    pairs = end(cells.planned, item.ahead) & end(cells.planned, item.behind)
    return bool(pairs & (end(cells.missing, item.ahead) | end(cells.missing, item.behind)))


def _may_fit(levels: Mapping[str, str], where: Where) -> bool:
    """Parts of a run are no levels, and are there with it."""
    return all(levels[name] in wanted for name, wanted in where.items() if name in levels)


def _ratio(pivot: Pivot | None, item: Conclusion) -> Ratio | None:
    """How many times better the one is than the other, over all cells that are otherwise alike."""
    if pivot is None:
        return None
    pairs = _pairs(pivot, item, item.at)
    than = _pairs(pivot, item, {**item.at, **item.than}) if item.than else []
    if not pairs or (item.than and not than):
        return None
    return mean_ratio(pairs, than, resolution=pivot.figure.resolution)


def _pairs(pivot: Pivot, item: Conclusion, at: Where) -> list[tuple[Sample, Sample]]:
    """The better one first. Levels that neither side fixes are those that both cells share."""
    fixed = {*item.ahead, *item.behind}

    def end(where: Where) -> dict[frozenset[tuple[str, str]], Sample]:
        return {
            frozenset((name, level) for name, level in entry.levels.items() if name not in fixed): entry.sample
            for entry in _at(pivot, {**at, **where})
        }

    ahead, behind = end(item.ahead), end(item.behind)
    pairs = [(ahead[key], behind[key]) for key in ahead if key in behind]
    return pairs if pivot.figure.more_is_better else [(slow, fast) for fast, slow in pairs]


def agreement(found: Sequence[Judged], *, is_modelled: bool) -> str:
    """The sentence that stands before all others; empty for a study without conclusions."""
    known = [item for item in found if item.is_measured]
    missing = len(found) - len(known)
    if not known:
        return f"None of the source's {missing} conclusions was judged: cells are missing." if missing else ""
    who = "the models" if is_modelled else "the results here"
    agrees = sum(item.agrees is True for item in known)
    assumed = [item.given for item in known if is_modelled and item.given and item.agrees]
    only = f", {len(assumed)} of them only if {' and '.join(dict.fromkeys(assumed))}" if assumed else ""
    parts = [f"{agrees} of {len(known)} conclusions of the source agree with {who}{only}"]
    for words, value in (("these do not", False), ("not decided by these repetitions", None)):
        listed = _listed([item for item in known if item.agrees is value], known, is_modelled=is_modelled)
        parts += [f"{words}: {'; '.join(listed)}"] if listed else []
    parts += [f"{missing} not judged, as cells are missing"] if missing else []
    return f"{'; '.join(parts)}."


def _listed(of_value: Sequence[Judged], known: Sequence[Judged], *, is_modelled: bool) -> list[str]:
    """Each of them; of a group how many."""
    said = [_said(item, is_modelled=is_modelled) for item in of_value if not item.group]
    for group in dict.fromkeys(item.group for item in of_value if item.group):
        own = [item for item in of_value if item.group == group]
        every = sum(item.group == group for item in known)
        why = f" ({own[0].why})" if is_modelled and own[0].why and own[0].agrees is False else ""
        said.append(f"{len(own)} of {every} {group}{why}")
    return said


def _said(item: Judged, *, is_modelled: bool) -> str:
    why = f": {item.why}" if is_modelled and item.why and item.agrees is False else ""
    return f"{item.says} (here {item.here}{why})"


def conclusion_table(found: Sequence[Judged]) -> list[Told]:
    known = [item for item in found if item.is_measured]
    if not known:
        return []
    rows = [[item.says, item.here, item.confirmed] for item in known]
    return [("What the source concludes", ("conclusion", "here", "confirmed"), rows)]

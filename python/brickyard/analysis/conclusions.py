"""Duty: sentences out of tables: who beats whom in how many cells, what a condition costs, what is cheapest.

Refusal: no judgement beyond the figures. What was measured once is "ahead", never "better".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from brickyard.analysis.pivot import Axis, Entry, Pivot
from brickyard.analysis.samples import Difference, difference
from brickyard.units import three_digits

EQUAL_SHARE = 0.01
"""Figures measured once that are nearer than this are called alike: a % of best is shown no finer."""
CONTESTANTS_MAX = 4  # more levels make more pairs than anybody reads; then the best are counted instead


@dataclass
class Contest:
    """Two levels of one factor in all cells that are otherwise alike."""

    cells: int = 0
    ahead: int = 0
    behind: int = 0
    alike: int = 0
    is_known: bool = True


def conclusions(pivots: Sequence[Pivot]) -> list[str]:
    said: list[str] = []
    axes: dict[str, Axis] = {}
    for pivot in pivots:
        axes |= {axis.name: axis for axis in (*pivot.row_axes, *pivot.column_axes)}
    for name, axis in axes.items():
        if "normal" in axis.labels or any(name in pivot.spec.baseline for pivot in pivots):
            said += _costs(pivots, axis)
        elif not axis.changes_load:
            said += _contests(pivots, axis)
    return said + _cheapest(pivots)


def _rated(pivots: Sequence[Pivot]) -> list[Pivot]:
    """Each cell once: IOPS and MiB/s of the same runs are one finding. Prices have sentences of their own."""
    seen: set[frozenset[tuple[str, str]]] = set()
    kept = []
    for pivot in pivots:
        if pivot.figure.per_usd or pivot.figure.kind in ("errors", "span"):
            continue
        cells = {frozenset(entry.levels.items()) for entry in pivot.entries.values()}
        if not cells <= seen:
            kept.append(pivot)
            seen |= cells
    return kept


def _contests(pivots: Sequence[Pivot], axis: Axis) -> list[str]:
    found: dict[tuple[str, str], Contest] = {}
    best: dict[str, int] = {}
    rounds = 0
    for pivot in _rated(pivots):
        for rivals in _rivals(pivot, axis.name):
            if len(rivals) < 2:
                continue
            rounds += 1
            ranked = sorted(rivals.items(), key=lambda item: _worth(pivot, item[1]))
            best[ranked[-1][0]] = best.get(ranked[-1][0], 0) + 1
            for one, other in combinations([level for level in axis.labels if level in rivals], 2):
                _count(found.setdefault((one, other), Contest()), pivot, rivals[one], rivals[other])
    if len({level for pair in found for level in pair}) > CONTESTANTS_MAX:
        first = max(best, key=lambda level: best[level])
        return [f"Of {axis.title}, {axis.label(first)} has the best figure in {best[first]} of {rounds} comparisons."]
    return [_contest_words(axis, one, other, contest) for (one, other), contest in found.items()]


def _worth(pivot: Pivot, entry: Entry) -> float:
    return entry.sample.centre if pivot.figure.more_is_better else -entry.sample.centre


def _rivals(pivot: Pivot, factor: str) -> list[dict[str, Entry]]:
    """Cells that are alike but for one factor, by its level."""
    groups: dict[frozenset[tuple[str, str]], dict[str, Entry]] = {}
    for entry in pivot.entries.values():
        if factor in entry.levels:
            rest = frozenset((name, level) for name, level in entry.levels.items() if name != factor)
            groups.setdefault(rest, {})[entry.levels[factor]] = entry
    return list(groups.values())


def _count(contest: Contest, pivot: Pivot, one: Entry, other: Entry) -> None:
    found = difference(one.sample, other.sample, pivot.spec.centre)
    contest.cells += 1
    if found is None or not is_seen(found):
        contest.alike += 1
    elif (found.share > 0) == pivot.figure.more_is_better:
        contest.ahead += 1
    else:
        contest.behind += 1
    contest.is_known = contest.is_known and found is not None and found.seen is not None


def is_seen(found: Difference) -> bool:
    return found.seen if found.seen is not None else abs(found.share) >= EQUAL_SHARE


def _contest_words(axis: Axis, one: str, other: str, contest: Contest) -> str:
    first, second, won, lost = one, other, contest.ahead, contest.behind
    if contest.behind > contest.ahead:
        first, second, won, lost = other, one, contest.behind, contest.ahead
    names = axis.label(first), axis.label(second)
    alike = "no difference seen" if contest.is_known else "less than 1 % apart"
    if not won:
        return f"{_capital(axis.title)}: between {names[0]} and {names[1]} {alike} in any of {contest.cells} cells."
    verb = "beats" if contest.is_known else "is ahead of"
    if contest.cells == 1:
        return f"{_capital(axis.title)}: {names[0]} {verb} {names[1]}."
    text = f"{_capital(axis.title)}: {names[0]} {verb} {names[1]} in {won} of {contest.cells} cells"
    if lost:
        text += f", {names[1]} {verb} {names[0]} in {lost}"
    if contest.alike:
        text += f"; {alike} in {contest.alike}"
    return text + "."


def _capital(title: str) -> str:
    """Of the first letter alone: RAID stays RAID."""
    return title[:1].upper() + title[1:]


def _costs(pivots: Sequence[Pivot], axis: Axis) -> list[str]:
    """What each other level costs or brings against the baseline, in rates and times apart."""
    said = []
    for is_rate in (True, False):
        group = [p for p in _rated(pivots) if p.figure.more_is_better is is_rate]
        shares: dict[str, list[Difference]] = {}
        for pivot in group:
            base = next(iter(pivot.spec.baseline.get(axis.name, ("normal",))))
            for rivals in _rivals(pivot, axis.name):
                for level, entry in rivals.items():
                    if level != base and base in rivals:
                        found = difference(entry.sample, rivals[base].sample, pivot.spec.centre)
                        if found is not None:
                            shares.setdefault(level, []).append(found)
        bases = {next(iter(p.spec.baseline.get(axis.name, ("normal",)))) for p in group}
        what = "rates" if is_rate else "times"
        said += [_cost_words(axis, level, shares[level], bases, what) for level in axis.labels if level in shares]
    return said


def _cost_words(axis: Axis, level: str, found: list[Difference], bases: set[str], what: str) -> str:
    base = " or ".join(axis.label(name) for name in sorted(bases))
    seen = [item.share for item in found if is_seen(item)]
    head = f"{axis.label(level)} against {base}: {what}"
    if not seen:
        return f"{head} show no difference in {len(found)} cells."
    low, high = min(seen), max(seen)
    middle = f", in the median {_signed(median(seen))}" if len(seen) > 2 else ""
    span = _signed(low) if len(seen) == 1 else f"between {_signed(low)} and {_signed(high)}"
    alike = len(found) - len(seen)
    word = "less than 1 % apart" if any(item.seen is None for item in found) else "no difference seen"
    rest = f"; {word} in {alike} of {len(found)} cells" if alike else ""
    return f"{head} change by {span}{middle}{rest}."


def _signed(share: float) -> str:
    return f"{share * 100:+,.0f} %"


def _cheapest(pivots: Sequence[Pivot]) -> list[str]:
    said = []
    for pivot in pivots:
        if not pivot.figure.per_usd or not pivot.entries:
            continue
        entry = min(pivot.entries.values(), key=lambda item: item.sample.centre)
        dearest = max(pivot.entries.values(), key=lambda item: item.sample.centre)
        axes = {axis.name: axis for axis in (*pivot.row_axes, *pivot.column_axes)}
        text = f"Cheapest by {pivot.figure.unit}: {_name(axes, entry.levels)} at {three_digits(entry.sample.centre)}"
        if dearest is not entry:
            text += f"; dearest: {_name(axes, dearest.levels)} at {three_digits(dearest.sample.centre)}"
        said.append(text + ".")
    return said


def _name(axes: Mapping[str, Axis], levels: Mapping[str, str]) -> str:
    """The levels that tell cells of this table apart."""
    told = [axis.label(levels[name]) for name, axis in axes.items() if name in levels and len(axis.labels) > 1]
    return ", ".join(told)

"""Duty: sentences out of tables: who beats whom in how many cells, what a condition costs, what is cheapest.

Each figure speaks for itself and is named, so that the order of tables decides nothing.

All differences that one sentence counts are judged as one family (`analysis.figures.samples`), and where none was seen
the sentence says what would have been.

Refusal: no judgement beyond the figures. What was measured once is "ahead", never "better", and the sentence says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import median

from brickyard.analysis.figures.pivot import Axis, Entry, Pivot
from brickyard.analysis.figures.samples import Difference, difference, in_family
from brickyard.analysis.judging.idle import idle_switches
from brickyard.store import Record
from brickyard.units import three_digits

EQUAL_SHARE = 0.01
"""Figures measured once that are nearer than this are called alike: a % of best is shown no finer."""
SHOWN_SHARE = 0.0005
"""What is shown as 0.0 % is no lead, however sure it is."""
SEES_MAX = 9.0  # a share beyond which more figures would say no more
ONCE = "noise unknown"
CONTESTANTS_MAX = 4  # more levels make more pairs than anybody reads; then the best are counted instead


@dataclass
class Contest:
    """Two levels of one factor in all cells that are otherwise alike."""

    ahead: int = 0
    behind: int = 0
    unseen: list[Difference] = field(default_factory=list)
    is_known: bool = True

    @property
    def cells(self) -> int:
        return self.ahead + self.behind + len(self.unseen)


def conclusions(pivots: Sequence[Pivot], records: Sequence[Record] = ()) -> list[str]:
    """`records` are the runs that the tables were made of; a condition that changed nothing of one is said first."""
    said = idle_switches(records)
    axes: dict[str, Axis] = {}
    for pivot in pivots:
        axes |= {axis.name: axis for axis in (*pivot.row_axes, *pivot.column_axes)}
    groups = by_figure(pivots)
    for name, axis in axes.items():
        if "normal" in axis.labels or any(name in pivot.spec.baseline for pivot in pivots):
            said += [line for figure, group in groups.items() for line in _costs(group, axis, figure)]
        elif not axis.changes_load:
            said += [line for figure, group in groups.items() for line in _contests(group, axis, figure)]
    return said + cheapest(pivots)


def by_figure(pivots: Sequence[Pivot]) -> dict[str, list[Pivot]]:
    """Tables that show one figure, by its name; prices have sentences of their own."""
    found: dict[str, list[Pivot]] = {}
    for pivot in pivots:
        if not pivot.figure.per_usd and pivot.figure.kind not in ("errors", "span"):
            found.setdefault(figure_words(pivot), []).append(pivot)
    return found


def figure_words(pivot: Pivot) -> str:
    """What the tables of one figure have in common; a rate within a limit is another one with each limit."""
    return f"{pivot.figure.title} of {pivot.spec.limit}" if pivot.spec.limit else pivot.figure.title


@dataclass(frozen=True)
class Duel:
    """Two levels in one cell; `apart` is how far the first is above the second; `levels` are those of the first."""

    one: str
    other: str
    more_is_better: bool
    apart: Difference
    levels: Mapping[str, str]


def _contests(pivots: Sequence[Pivot], axis: Axis, figure: str) -> list[str]:
    rounds = [(pivot, rivals) for pivot, rivals in rivals_of(pivots, axis.name) if len(rivals) > 1]
    present = [level for level in axis.labels if any(level in rivals for _, rivals in rounds)]
    if len(present) > CONTESTANTS_MAX:
        return [_best_words(axis, rounds, figure)]
    pairs = [
        (pivot, rivals, one, other)
        for pivot, rivals in rounds
        for one, other in combinations([level for level in axis.labels if level in rivals], 2)
    ]
    found: dict[tuple[str, str], Contest] = {}
    for duel in judged([duel_of(*pair) for pair in pairs]):
        _count(found.setdefault((duel.one, duel.other), Contest()), duel)
    return [_contest_words(axis, one, other, contest, figure) for (one, other), contest in found.items()]


def _best_words(axis: Axis, rounds: list[tuple[Pivot, dict[str, Entry]]], figure: str) -> str:
    """More levels than anybody compares in pairs: who is the best how often, and how often beyond noise."""
    duels = []
    best: dict[str, int] = {}
    for pivot, rivals in rounds:
        ranked = sorted(rivals, key=lambda level: _worth(pivot, rivals[level]), reverse=True)
        best[ranked[0]] = best.get(ranked[0], 0) + 1
        duels.append(duel_of(pivot, rivals, ranked[0], ranked[1]))
    first = max(best, key=lambda level: best[level])
    mine = [duel for duel in judged(duels) if duel.one == first]
    text = (
        f"For {axis.title}, {axis.label(first)} has the best {figure} in {best[first]} of {_comparisons(len(rounds))}"
    )
    is_known = all(entry.sample.has_interval for _, rivals in rounds for entry in rivals.values())
    if is_known:
        text += f", and its lead over the next is beyond noise in {sum(is_seen(duel.apart) for duel in mine)}"
    return _closed(text, is_known)


def duel_of(pivot: Pivot, rivals: Mapping[str, Entry], one: str, other: str) -> Duel | None:
    found = difference(rivals[one].sample, rivals[other].sample, resolution=pivot.figure.resolution)
    return None if found is None else Duel(one, other, pivot.figure.more_is_better, found, rivals[one].levels)


def judged(duels: Sequence[Duel | None]) -> list[Duel]:
    kept = [duel for duel in duels if duel is not None]
    together = in_family([duel.apart for duel in kept])
    return [replace(duel, apart=found) for duel, found in zip(kept, together, strict=True) if found is not None]


def _comparisons(count: int) -> str:
    return "1 comparison" if count == 1 else f"{count} comparisons"


def _closed(text: str, is_known: bool) -> str:
    return f"{text}." if is_known else f"{text} ({ONCE})."


def _worth(pivot: Pivot, entry: Entry) -> float:
    return entry.sample.centre if pivot.figure.more_is_better else -entry.sample.centre


def rivals_of(pivots: Sequence[Pivot], factor: str) -> list[tuple[Pivot, dict[str, Entry]]]:
    """Cells that are alike but for one factor, by its level; a cell that several tables show counts once."""
    seen: set[frozenset[tuple[str, str]]] = set()
    found = []
    for pivot in pivots:
        groups: dict[frozenset[tuple[str, str]], dict[str, Entry]] = {}
        for entry in pivot.entries.values():
            if factor in entry.levels:
                rest = frozenset((name, level) for name, level in entry.levels.items() if name != factor)
                groups.setdefault(rest, {})[entry.levels[factor]] = entry
        for rivals in groups.values():
            cells = {frozenset(entry.levels.items()) for entry in rivals.values()}
            if not cells <= seen:
                found.append((pivot, rivals))
                seen |= cells
    return found


def _count(contest: Contest, duel: Duel) -> None:
    if not is_seen(duel.apart):
        contest.unseen.append(duel.apart)
    elif (duel.apart.share > 0) == duel.more_is_better:
        contest.ahead += 1
    else:
        contest.behind += 1
    contest.is_known = contest.is_known and duel.apart.seen is not None


def is_seen(found: Difference) -> bool:
    if found.seen is None:
        return abs(found.share) >= EQUAL_SHARE
    return found.seen and abs(found.share) >= SHOWN_SHARE


def unseen_words(unseen: Sequence[Difference], is_known: bool) -> str:
    """Nothing is said to be equal: what was not seen may be there, if it is small enough."""
    if not is_known:
        return "less than 1 % apart"
    sees = [item.sees for item in unseen if item.sees is not None]
    if not sees:
        return "no difference seen"
    return f"no difference seen (these runs see one of {sees_words(median(sees))} with 80 % probability)"


def sees_words(share: float) -> str:
    """A change that so many repetitions see: by 12 % or more."""
    return "more than tenfold" if share >= SEES_MAX else f"{least_words(share)} or more"


def least_words(share: float) -> str:
    return f"{'more than ' if share >= SEES_MAX else ''}{three_digits(min(share, SEES_MAX) * 100)} %"


def _contest_words(axis: Axis, one: str, other: str, contest: Contest, figure: str) -> str:
    first, second, won, lost = one, other, contest.ahead, contest.behind
    if contest.behind > contest.ahead:
        first, second, won, lost = other, one, contest.behind, contest.ahead
    names = axis.label(first), axis.label(second)
    head = f"{_capital(axis.title)}, by {figure}:"
    alike = unseen_words(contest.unseen, contest.is_known)
    if not won:
        where = "" if contest.cells == 1 else f" in any of {contest.cells} cells"
        return _closed(f"{head} between {names[0]} and {names[1]} {alike}{where}", contest.is_known)
    verb = "beats" if contest.is_known else "is ahead of"
    if contest.cells == 1:
        return _closed(f"{head} {names[0]} {verb} {names[1]}", contest.is_known)
    text = f"{head} {names[0]} {verb} {names[1]} in {won} of {contest.cells} cells"
    if lost:
        text += f", {names[1]} {verb} {names[0]} in {lost}"
    if contest.unseen:
        text += f"; in {len(contest.unseen)}, {alike}" if contest.is_known else f"; {alike} in {len(contest.unseen)}"
    return _closed(text, contest.is_known)


def _capital(title: str) -> str:
    """Of the first letter alone: RAID stays RAID."""
    return title[:1].upper() + title[1:]


def _costs(pivots: Sequence[Pivot], axis: Axis, figure: str) -> list[str]:
    """What each other level costs or brings against the baseline."""
    shares: dict[str, list[Difference]] = {}
    bases: set[str] = set()
    duels = []
    for pivot, rivals in rivals_of(pivots, axis.name):
        base = base_of(pivot, axis)
        bases.add(base)
        duels += [duel_of(pivot, rivals, level, base) for level in rivals if level != base and base in rivals]
    for duel in judged(duels):
        shares.setdefault(duel.one, []).append(duel.apart)
    return [_cost_words(axis, level, shares[level], bases, figure) for level in axis.labels if level in shares]


def base_of(pivot: Pivot, axis: Axis) -> str:
    return next(iter(pivot.spec.baseline.get(axis.name, ("normal",))))


def _cost_words(axis: Axis, level: str, found: list[Difference], bases: set[str], figure: str) -> str:
    base = " or ".join(axis.named(name) for name in sorted(bases))
    seen = sum(is_seen(item) for item in found)
    is_known = all(item.seen is not None for item in found)
    alike = unseen_words([item for item in found if not is_seen(item)], is_known)
    head = f"{axis.named(level)} compared with {base}, by {figure}:"
    if not seen:
        return _closed(f"{head} {alike}" + ("" if len(found) == 1 else f" in any of {len(found)} cells"), is_known)
    # Every cell counts: a median of those alone that differ would show a larger cost than there is.
    shares = [item.share for item in found]
    low, high = min(shares), max(shares)
    middle = f", median {_signed(median(shares))}" if len(shares) > 2 else ""
    span = _signed(low) if len(shares) == 1 else f"between {_signed(low)} and {_signed(high)}"
    rest = f"; {alike} in {len(found) - seen} of {len(found)} cells" if len(found) > seen else ""
    return _closed(f"{head} {span}{middle}{rest}", is_known)


def _signed(share: float) -> str:
    return f"{share * 100:+,.0f} %"


def cheapest(pivots: Sequence[Pivot]) -> list[str]:
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
        said.append(_closed(text, entry.sample.has_interval and dearest.sample.has_interval))
    return said


def _name(axes: Mapping[str, Axis], levels: Mapping[str, str]) -> str:
    """The levels that tell cells of this table apart."""
    told = [axis.label(levels[name]) for name, axis in axes.items() if name in levels and len(axis.labels) > 1]
    return ", ".join(told)

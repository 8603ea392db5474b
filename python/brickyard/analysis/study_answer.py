"""Duty: the answer to the question of a study: one sentence for each factor that the question is about.

Each sentence states a difference as the median over all cells that are otherwise alike, with the range of these cells,
so that no mean hides a cell where it is the other way round.

Refusal: no figure that the tables do not have, and at most three sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median

from brickyard.analysis import cached
from brickyard.analysis.answers import SENTENCES_MAX, Answer, belief
from brickyard.analysis.conclusions import base_of, by_figure, cheapest, duel_of, is_seen, judged, rivals_of
from brickyard.analysis.pivot import Axis, Entry, Pivot
from brickyard.analysis.samples import Difference
from brickyard.store import Record

FIGURES_MAX = 2  # in one sentence; more are read in the tables
LEVELS_MAX = 3  # beside the baseline; of more, the two ends are named
TIMES_FROM = 1.0  # a rise above 100 % is read as a multiple


def study_answer(
    question: str,
    factors: Sequence[str],
    pivots: Sequence[Pivot],
    records: Sequence[Record],
    invalid: Sequence[Record],
) -> Answer:
    """`factors` are those that the question is about; without any, all that can be compared, in their order."""
    axes: dict[str, Axis] = {}
    for pivot in pivots:
        axes |= {axis.name: axis for axis in (*pivot.row_axes, *pivot.column_axes)}
    chosen = [axes[name] for name in factors if name in axes] or [a for a in axes.values() if not a.changes_load]
    said = [words for axis in chosen if (words := _sentence(pivots, axis))]
    said += cheapest(pivots)
    caches = cached.words(cached.doubted(records), sum(map(cached.wrote, records)), "")
    return Answer(question, tuple(said[:SENTENCES_MAX]), belief(records, caches, *_limits(pivots, invalid)))


def _limits(pivots: Sequence[Pivot], invalid: Sequence[Record]) -> list[str]:
    once = sum(entry.sample.n == 1 for pivot in pivots for entry in pivot.entries.values())
    cells = sum(len(pivot.entries) for pivot in pivots)
    said = []
    if cells and once == cells:
        said.append("Each cell was measured only once, so its noise is unknown.")
    elif once:
        said.append(f"{once} of {cells} cells were measured once, so their noise is unknown.")
    if invalid:
        runs = "1 run is" if len(invalid) == 1 else f"{len(invalid)} runs are"
        said.append(f"{runs} invalid and left out.")
    return said


def _sentence(pivots: Sequence[Pivot], axis: Axis) -> str:
    """All figures of one factor."""
    has_base = "normal" in axis.labels or any(axis.name in pivot.spec.baseline for pivot in pivots)
    said = []
    for figure, group in by_figure(pivots).items():
        rounds = [(pivot, rivals) for pivot, rivals in rivals_of(group, axis.name) if len(rivals) > 1]
        if not rounds:
            continue
        words = (
            _against_base(axis, figure, rounds, _base(group, axis))
            if has_base
            else _best_and_worst(axis, figure, rounds)
        )
        said += [words] if words else []
    return f"{'; '.join(said[:FIGURES_MAX])}." if said else ""


Rounds = list[tuple[Pivot, dict[str, Entry]]]


def _base(group: Sequence[Pivot], axis: Axis) -> str:
    """Of all tables of a figure, as not each that shows it has a baseline."""
    bases = [base_of(pivot, axis) for pivot in group]
    return next((level for level in bases if level in axis.labels), bases[0])


def _against_base(axis: Axis, figure: str, rounds: Rounds, base: str) -> str:
    """`IOPS against Normal: Volume Rebuild -49 % (median of 16 cells, -62 % to +2 %)`."""
    duels = [
        duel_of(pivot, rivals, level, base)
        for pivot, rivals in rounds
        if base in rivals
        for level in rivals
        if level != base
    ]
    kept = judged([duel for duel in duels if duel is not None])
    by_level = {level: [duel.apart for duel in kept if duel.one == level] for level in axis.labels}
    found = {level: shares for level, shares in by_level.items() if shares}
    if len(found) > LEVELS_MAX:
        ordered = sorted(found, key=lambda level: median(item.share for item in found[level]))
        found = {level: found[level] for level in (ordered[0], ordered[-1])}
    parts = [f"{axis.label(level)} {change_words(shares)}" for level, shares in found.items()]
    return f"{figure} against {axis.label(base)}: {', '.join(parts)}" if parts else ""


def _best_and_worst(axis: Axis, figure: str, rounds: Rounds) -> str:
    """The level that is best in the median of all cells, against the one that is worst."""
    more = rounds[0][0].figure.more_is_better
    shares: dict[str, list[float]] = {}
    for _, rivals in rounds:
        values = {level: entry.sample.centre for level, entry in rivals.items()}
        top = max(values.values()) if more else min(values.values())
        for level, value in values.items():
            if value > 0 and top > 0:
                shares.setdefault(level, []).append(value / top if more else top / value)
    # Only levels that stand in all cells are compared: a median over others would be one of other cells.
    whole = {level: median(found) for level, found in shares.items() if len(found) == len(rounds)}
    if len(whole) < 2:
        return ""
    best, worst = max(whole, key=lambda level: whole[level]), min(whole, key=lambda level: whole[level])
    if best == worst:
        return ""
    # The two were picked by the very figures that are judged, so all pairs that they were picked from are the family.
    pairs = [
        (pivot, rivals, *((best, worst) if {one, other} == {best, worst} else (one, other)))
        for pivot, rivals in rounds
        for one, other in combinations(rivals, 2)
    ]
    duels = judged([duel_of(*pair) for pair in pairs])
    words = change_words([duel.apart for duel in duels if (duel.one, duel.other) == (best, worst)])
    return f"{figure} by {axis.title}, {axis.label(best)} against {axis.label(worst)}: {words}"


def change_words(found: Sequence[Difference]) -> str:
    """`-49 % (median of 16 cells, -62 % to +2 %)`, and in how many a difference was seen beyond noise."""
    shares = [item.share for item in found]
    text = share_words(median(shares))
    notes = []
    if len(shares) > 1:
        notes.append(f"median of {len(shares)} cells, {share_words(min(shares))} to {share_words(max(shares))}")
    if all(item.seen is not None for item in found):
        seen = sum(is_seen(item) for item in found)
        if len(found) == 1:
            notes.append("seen beyond noise" if seen else "not seen beyond noise")
        else:
            notes.append(f"seen beyond noise in {seen}")
    return f"{text} ({'; '.join(notes)})" if notes else text


def share_words(share: float) -> str:
    if share > TIMES_FROM:
        return f"{1 + share:,.1f} ×" if share < 99 else f"{1 + share:,.0f} ×"
    text = f"{share * 100:+.1f} %" if abs(share) < 0.1 else f"{share * 100:+.0f} %"
    return "0 %" if text in ("+0.0 %", "-0.0 %") else text

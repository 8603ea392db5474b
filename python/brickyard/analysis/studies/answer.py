"""Duty: the answer to the question of a study: one sentence for each factor that the question is about.

Each sentence states a difference as the median over all cells that are otherwise alike, with the range of these cells.
Where only some of the cells differ, or some the other way round, and one factor tells which, the sentence names its
levels instead: a median over both would be that of neither.

Refusal: no figure that the tables do not have, and at most three sentences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from statistics import median

from brickyard.analysis.figures.pivot import Axis, Entry, Pivot, Where
from brickyard.analysis.figures.samples import Difference
from brickyard.analysis.judging import cached
from brickyard.analysis.judging.answers import SENTENCES_MAX, Answer, belief
from brickyard.analysis.judging.conclusions import (
    Duel,
    base_of,
    by_figure,
    cheapest,
    duel_of,
    is_seen,
    judged,
    rivals_of,
)
from brickyard.store import Record

FIGURES_MAX = 2  # in one sentence, or one for each level that is answered for itself; more are read in the tables
PARTS_MAX = 3  # of more levels that are answered for themselves, the two ends are named
LEVELS_MAX = 3  # beside the baseline; of more, the two ends are named
CELLS_NAMED_FROM = 3  # fewer are all given anyhow
TIMES_FROM = 1.0  # a rise above 100 % is read as a multiple


def study_answer(
    question: str,
    factors: Sequence[str],
    pivots: Sequence[Pivot],
    records: Sequence[Record],
    invalid: Sequence[Record],
    by: str = "",
    only: Where | None = None,
    known: Sequence[Axis] = (),
) -> Answer:
    """`factors` are those that the question is about; without any, all that can be compared, in their order. Each level
    of the factor `by` is answered for itself: one median over reads and writes would be that of neither. Of the factors
    in `only`, the question is about these levels, compared with the last of them. `known` are factors that no table may
    show, since each has one level of them."""
    axes: dict[str, Axis] = {}
    for pivot in pivots:
        axes |= {axis.name: axis for axis in (*pivot.row_axes, *pivot.column_axes)}
    chosen = [axes[name] for name in factors if name in axes] or [a for a in axes.values() if not a.changes_load]
    asked, every = only or {}, {axis.name: axis for axis in known} | axes
    told = [_first(pivots, chosen), *(_sentence(pivots, axis, every, by, asked.get(axis.name, ())) for axis in chosen)]
    said = [words for words in (_not_compared(factors, every, records), *told) if words]
    said += cheapest(pivots)
    if question and records and not said:
        said.append("These runs do not answer it: no two cells that it compares have figures.")
    caches = cached.words(cached.doubted(records), records, "")
    return Answer(question, tuple(said[:SENTENCES_MAX]), belief(records, caches, *_limits(pivots, invalid)))


def _not_compared(factors: Sequence[str], axes: Mapping[str, Axis], records: Sequence[Record]) -> str:
    """Which factors of the question have one level in these runs."""
    levels = {name: {(record.info.marks.levels or {}).get(name, "") for record in records} for name in factors}
    alone = {name: next(iter(found)) for name, found in levels.items() if len(found) == 1 and name in axes}
    said = [f"{axes[name].title} ({axes[name].label(level)})" for name, level in alone.items() if level]
    return f"Not compared, as all runs have the same: {', '.join(said)}." if said else ""


def _limits(pivots: Sequence[Pivot], invalid: Sequence[Record]) -> list[str]:
    samples = [entry.sample for pivot in pivots for entry in pivot.entries.values()]
    once, cells = sum(of.repetitions == 1 for of in samples), len(samples)
    said = []
    if cells and once == cells:
        said.append("Each cell was measured only once, so its noise is unknown.")
    elif once:
        said.append(f"{once} of {cells} cells were measured once, so their noise is unknown.")
    if partial := sum(of.lacking > 0 for of in samples):
        have, whose = ("has", "its") if partial == 1 else ("have", "their")
        said.append(f"{partial} of {cells} cells {have} no interval, as not all of {whose} runs have the figure.")
    empty = [pivot for pivot in pivots if pivot.blanks]
    if blank := sum(len(pivot.blanks) for pivot in empty):
        few = all(pivot.figure.is_percentile for pivot in empty)
        why = "a percentile of too few requests" if few else "not all of their runs have it"
        said.append(f"{blank} of {cells + blank} cells {'has' if blank == 1 else 'have'} no figure ({why}).")
    if invalid:
        runs = "1 run is" if len(invalid) == 1 else f"{len(invalid)} runs are"
        said.append(f"{runs} invalid and left out.")
    return said


Rounds = list[tuple[Pivot, dict[str, Entry]]]


def _sentence(pivots: Sequence[Pivot], axis: Axis, axes: Mapping[str, Axis], by: str, asked: Sequence[str]) -> str:
    """All figures of one factor; of its levels those that were `asked` for, or all."""
    has_base = "normal" in axis.labels or any(axis.name in pivot.spec.baseline for pivot in pivots)
    said: dict[str, dict[str, list[str]]] = {}
    found = _found(pivots, axis, axes.get(by), asked, has_base=has_base)
    if len({one.part for one in found}) > PARTS_MAX:
        return _condensed(axis, found, axes[by])
    for one in found:
        part, figure = one.part, one.figure
        words = (
            _against_base(axis, figure, one.rounds, one.base, axes)
            if one.base
            else _best_and_worst(axis, figure, one.rounds, axes)
        )
        if words:  # IOPS and throughput of one request size differ alike, which is read once
            said.setdefault(part, {}).setdefault(words.removeprefix(figure), []).append(figure)
    told = [
        f"{f'{part}: ' if part else ''}{' and '.join(figures)}{words}"
        for part, differences in said.items()
        for words, figures in list(differences.items())[: 1 if part else FIGURES_MAX]
    ]
    return f"{'; '.join(told)}." if told else ""


@dataclass(frozen=True)
class _Found:
    """Cells that are compared: those of one figure, and of one level of the factor by which it is answered."""

    figure: str
    part: str
    rounds: Rounds
    base: str
    """The level that others are compared with; empty where the best is compared with the worst."""


def _found(
    pivots: Sequence[Pivot], axis: Axis, by: Axis | None, asked: Sequence[str], *, has_base: bool
) -> list[_Found]:
    made = []
    for figure, group in by_figure(pivots).items():
        rounds = [(pivot, rivals) for pivot, rivals in _asked_of(group, axis, asked) if len(rivals) > 1]
        base = asked[-1] if asked else _base(group, axis) if has_base else ""
        made += [_Found(figure, part, of_part, base) for part, of_part in (_parts(rounds, by) if rounds else ())]
    return made


def _condensed(axis: Axis, found: Sequence[_Found], by: Axis) -> str:
    """`Compared with Normal: Volume Rebuild -31 % (random read, 1 deep) to -79 % (sequential read, 4 deep) (medians of
    each of 6 loads; single cells -92 % to +5 %: 48 of 60 differ beyond noise, 2 of them in the direction opposite to
    their median)`. Of each part the figure that comes first."""
    first: dict[str, _Found] = {}
    for one in found:
        first.setdefault(one.part, one)
    told: dict[tuple[str, str], list[tuple[float, str]]] = {}
    cells: list[tuple[float, Duel]] = []
    for figure in dict.fromkeys(one.figure for one in first.values()):
        parts = [(part, *_duels_of(axis, one)) for part, one in first.items() if one.figure == figure]
        for part, level, base, duels in _as_one_family(parts):
            middle = median(duel.apart.share for duel in duels)
            told.setdefault((level, base), []).append((middle, part))
            cells += [(middle, duel) for duel in duels]
    if not told:
        return ""
    bases = list(dict.fromkeys(base for _, base in told))
    groups = [
        f"compared with {_named(axis, base).rstrip(':')}: "
        + ", ".join(f"{_named(axis, level)} {_ends(ends)}" for (level, of), ends in told.items() if of == base)
        for base in bases
    ]
    figures = " and ".join(dict.fromkeys(one.figure for one in first.values()))
    return f"{figures} {'; '.join(groups)} (medians of each of {len(first)} {by.title}s{_cell_words(cells)})."


def _cell_words(cells: Sequence[tuple[float, Duel]]) -> str:
    """`cells`: each with the median that it is told by."""
    shares = [duel.apart.share for _, duel in cells]
    span = f"; single cells {share_words(min(shares))} to {share_words(max(shares))}"
    if any(duel.apart.seen is None for _, duel in cells):
        return span
    seen = [(middle, duel.apart.share) for middle, duel in cells if is_seen(duel.apart)]
    other = sum(middle * share < 0 for middle, share in seen)
    turned = ""
    if other:
        turned = f", {other} of them in the direction opposite to {'its' if other == 1 else 'their'} median"
    return f"{span}: {len(seen)} of {len(cells)} differ beyond noise{turned}"


def _as_one_family(
    parts: Sequence[tuple[str, Sequence[Duel], Sequence[tuple[str, str]]]],
) -> list[tuple[str, str, str, list[Duel]]]:
    """Part, level, baseline and cells, judged together as the comparisons below the answer are: else it would count
    other cells as seen. Of each part its duels, and the pairs of levels that are told of."""
    family = iter(judged([duel for _, duels, _ in parts for duel in duels]))
    found = []
    for part, duels, pairs in parts:
        of_part = list(islice(family, len(duels)))
        for level, base in pairs:
            if kept := [duel for duel in of_part if (duel.one, duel.other) == (level, base)]:
                found.append((part, level, base, kept))
    return found


def _duels_of(axis: Axis, one: _Found) -> tuple[list[Duel], list[tuple[str, str]]]:
    """All duels that are judged with those that are told of, and which pairs of levels are told of."""
    if one.base:
        duels = _base_duels(one.rounds, one.base)
        there = {duel.one for duel in duels}
        return duels, [(level, one.base) for level in axis.labels if level in there]
    if (pair := _pair(one.rounds)) is None:
        return [], []
    best, worst = pair
    # Two levels are always compared in the same order, so that parts in which they change places are seen.
    levels = list(axis.labels)
    if len(levels) == 2:
        best, worst = levels[-1], levels[0]
    return _all_pairs(one.rounds, best, worst), [(best, worst)]


def _ends(found: Sequence[tuple[float, str]]) -> str:
    """From the nearest to the furthest from none, each with its part."""
    ends = sorted(found, key=lambda one: abs(one[0]))
    if len({share_words(share) for share, _ in ends}) == 1:
        return share_words(ends[0][0])
    low, high = (min(found), max(found)) if min(found)[0] < 0 < max(found)[0] else (ends[0], ends[-1])
    return " to ".join(f"{share_words(share)} ({part})" for share, part in (low, high))


def _asked_of(group: Sequence[Pivot], axis: Axis, asked: Sequence[str]) -> Rounds:
    found = rivals_of(group, axis.name)
    if not asked:
        return found
    return [(pivot, {level: rivals[level] for level in asked if level in rivals}) for pivot, rivals in found]


def _parts(rounds: Rounds, by: Axis | None) -> list[tuple[str, Rounds]]:
    """The cells of each level of `by`, with its name."""
    if by is None:
        return [("", rounds)]
    level_of = [_level_of(pivot, next(iter(rivals.values())), by) for pivot, rivals in rounds]
    parts = [
        (by.label(level), [one for one, its in zip(rounds, level_of, strict=True) if its == level])
        for level in ("", *by.labels)
    ]
    return [(label, found) for label, found in parts if found]


def _level_of(pivot: Pivot, entry: Entry, by: Axis) -> str:
    """Of a factor that the table shows, or of which it has one level."""
    fixed = pivot.spec.where.get(by.name, ())
    return entry.levels.get(by.name, "") or (fixed[0] if len(fixed) == 1 else "")


def _first(pivots: Sequence[Pivot], chosen: Sequence[Axis]) -> str:
    """The best combination of the factors, where some levels meet no other of theirs in a cell that is otherwise alike
    (an SSD that is no RAID), so that no sentence about one factor names them."""
    said = []
    for figure, group in by_figure(pivots).items():
        rounds = [(axis.name, rivals) for axis in chosen for _, rivals in rivals_of(group, axis.name)]
        present: dict[str, set[str]] = {}
        met: dict[str, set[str]] = {}
        for name, rivals in rounds:
            present.setdefault(name, set()).update(rivals)
            met.setdefault(name, set()).update(rivals if len(rivals) > 1 else ())
        # A factor of which one level is there compares nothing, and lacks nothing.
        if len(chosen) > 1 and any(len(there) > 1 and there - met[name] for name, there in present.items()):
            said += [words] if (words := _best_combination(group, chosen, figure)) else []
    return f"{'; '.join(said[:FIGURES_MAX])}." if said else ""


def _best_combination(group: Sequence[Pivot], chosen: Sequence[Axis], figure: str) -> str:
    names = [axis.name for axis in chosen]
    cells: dict[frozenset[tuple[str, str]], dict[tuple[str, ...], float]] = {}
    for pivot in group:
        for entry in pivot.entries.values():
            if all(name in entry.levels for name in names) and entry.sample.centre > 0:
                rest = frozenset((name, level) for name, level in entry.levels.items() if name not in names)
                worth = entry.sample.centre if pivot.figure.more_is_better else 1 / entry.sample.centre
                cells.setdefault(rest, {})[tuple(entry.levels[name] for name in names)] = worth
    best: dict[tuple[str, ...], list[float]] = {}
    for rivals in cells.values():
        if len(rivals) > 1:
            first, second = sorted(rivals, key=lambda key: rivals[key], reverse=True)[:2]
            best.setdefault(first, []).append(rivals[first] / rivals[second])
    if not best:
        return ""
    winner = max(best, key=lambda key: len(best[key]))
    leads, compared = best[winner], sum(map(len, best.values()))
    label = ", ".join(axis.label(level) for axis, level in zip(chosen, winner, strict=True))
    span = f"{min(leads):,.1f} to {max(leads):,.1f} times" if len(leads) > 1 else f"{leads[0]:,.1f} times"
    where = f" in {len(leads)} of {compared} workloads" if compared > 1 else ""
    return f"Best {figure}{where}: {label} ({span} the next)"


def _base(group: Sequence[Pivot], axis: Axis) -> str:
    """Of all tables of a figure, as not each that shows it has a baseline."""
    bases = [base_of(pivot, axis) for pivot in group]
    return next((level for level in bases if level in axis.labels), bases[0])


def _against_base(axis: Axis, figure: str, rounds: Rounds, base: str, axes: Mapping[str, Axis]) -> str:
    """`IOPS against Normal: Volume Rebuild -49 % (median of 16 cells, -62 % to +2 %)`."""
    found = _by_level(axis, rounds, base)
    if len(found) > LEVELS_MAX:
        ordered = sorted(found, key=lambda level: median(duel.apart.share for duel in found[level]))
        found = {level: found[level] for level in (ordered[0], ordered[-1])}
    parts = [f"{_named(axis, level)} {_duel_words(of_level, axis, axes)}" for level, of_level in found.items()]
    return f"{figure} compared with {_named(axis, base).rstrip(':')}: {', '.join(parts)}" if parts else ""


def _by_level(axis: Axis, rounds: Rounds, base: str) -> dict[str, list[Duel]]:
    """Of each level, in their order, the cells in which it meets the baseline."""
    kept = judged(_base_duels(rounds, base))
    by_level = {level: [duel for duel in kept if duel.one == level] for level in axis.labels}
    return {level: of_level for level, of_level in by_level.items() if of_level}


def _base_duels(rounds: Rounds, base: str) -> list[Duel]:
    """Each level against the baseline, where both are there, not yet judged."""
    duels = [
        duel_of(pivot, rivals, level, base)
        for pivot, rivals in rounds
        if base in rivals
        for level in rivals
        if level != base
    ]
    return [duel for duel in duels if duel is not None]


def _named(axis: Axis, level: str) -> str:
    """A level beside a figure: a number with its factor, as in `queue depth 4:`."""
    label = axis.label(level)
    return f"{axis.title} {label}:" if NUMBER.fullmatch(label) else label


NUMBER = re.compile(r"[\d.,]+")


def _best_and_worst(axis: Axis, figure: str, rounds: Rounds, axes: Mapping[str, Axis]) -> str:
    """The level that is best in the median of all cells, against the one that is worst."""
    pair = _pair(rounds)
    if pair is None:
        return ""
    best, worst = pair
    words = _duel_words(_pair_duels(rounds, best, worst), axis, axes)
    return f"{figure} by {axis.title}, {axis.label(best)} compared with {axis.label(worst)}: {words}"


def _pair(rounds: Rounds) -> tuple[str, str] | None:
    """The best level and the worst; None where no two stand in all cells."""
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
        return None
    best, worst = max(whole, key=lambda level: whole[level]), min(whole, key=lambda level: whole[level])
    return None if best == worst else (best, worst)


def _pair_duels(rounds: Rounds, best: str, worst: str) -> list[Duel]:
    """The two were picked by the very figures that are judged, so all pairs that they were picked from are the
    family."""
    return [duel for duel in judged(_all_pairs(rounds, best, worst)) if (duel.one, duel.other) == (best, worst)]


def _all_pairs(rounds: Rounds, best: str, worst: str) -> list[Duel]:
    """Of all levels, not yet judged; the two stand in this order."""
    pairs = [
        (pivot, rivals, *((best, worst) if {one, other} == {best, worst} else (one, other)))
        for pivot, rivals in rounds
        for one, other in combinations(rivals, 2)
    ]
    return [duel for pair in pairs if (duel := duel_of(*pair)) is not None]


def _duel_words(duels: Sequence[Duel], axis: Axis, axes: Mapping[str, Axis]) -> str:
    """`-23 % to -18 % (request size: 64KiB, 1MiB; seen beyond noise), 0 % (request size: 512; not seen beyond noise)`
    where one factor tells which cells differ, and in which direction; else one median of all."""
    found = [duel.apart for duel in duels]
    varied = [
        name for name in axes if name != axis.name and len({duel.levels.get(name, "") for duel in duels} - {""}) > 1
    ]
    groups: dict[int, list[Duel]] = {}
    for duel in duels:
        groups.setdefault(_direction(duel.apart), []).append(duel)
    if len(duels) < CELLS_NAMED_FROM or len(groups) < 2 or len(varied) != 1:
        return change_words(found)
    by = axes[varied[0]]
    return ", ".join(_group_words(groups[way], by) for way in (-1, 1, 0) if way in groups)


def _direction(found: Difference) -> int:
    if not is_seen(found):
        return 0
    return 1 if found.share > 0 else -1


def _group_words(duels: Sequence[Duel], by: Axis) -> str:
    shares = [duel.apart.share for duel in duels]
    span = list(dict.fromkeys([share_words(min(shares)), share_words(max(shares))]))
    there = {duel.levels.get(by.name, "") for duel in duels}
    where = f"{by.title}: {', '.join(label for level, label in by.labels.items() if level in there)}"
    if any(duel.apart.seen is None for duel in duels):
        return f"{' to '.join(span)} ({where})"
    return f"{' to '.join(span)} ({where}; {'seen' if is_seen(duels[0].apart) else 'not seen'} beyond noise)"


def change_words(found: Sequence[Difference]) -> str:
    """`-49 % (median of 16 cells, -62 % to +2 %)`, and in how many a difference was seen beyond noise."""
    shares = [item.share for item in found]
    text = share_words(median(shares))
    notes = []
    if len(shares) == 2:  # which have no cell in their middle
        text, notes = " and ".join(map(share_words, sorted(shares))), ["2 cells"]
    elif len(shares) > 2:
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

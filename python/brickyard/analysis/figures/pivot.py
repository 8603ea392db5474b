"""Duty: observations of a study → tables over any factors: value, % of best, difference, penalty, rank.

A factor that a table neither shows nor fixes, and that was measured at several levels, becomes a row factor: figures of
different circumstances are never averaged into one.

Refusal: no text and no layout, and nothing is read from anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from brickyard.analysis.figures.latency import Latency
from brickyard.analysis.figures.named import FIGURES, PARTS, Figure, figure_of, percentile_of_all
from brickyard.analysis.figures.samples import Difference, Sample, difference, in_family, sample

Where = dict[str, tuple[str, ...]]
"""Levels by factor; all of them must fit."""


@dataclass(frozen=True)
class TableSpec:
    """What a table shows. `within` are the factors whose levels are never compared in "% of best" and ranks."""

    name: str
    title: str
    figure: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    where: Where
    show: tuple[str, ...]
    best_of: Where
    within: tuple[str, ...] | None
    baseline: Where
    centre: str
    limit: str | None


SWITCHED = ("on", "off", "yes", "no", "true", "false")


@dataclass(frozen=True)
class Axis:
    """A factor with its levels in order: what they are called, and with whom each is compared."""

    name: str
    title: str
    labels: dict[str, str]
    groups: dict[str, str]
    changes_load: bool = False

    @property
    def is_bare(self) -> bool:
        """Whether its levels are values that do not say of what, such as 8 or on."""
        return any(label[:1].isdigit() or label.lower() in SWITCHED for label in self.labels.values())

    def label(self, level: str) -> str:
        return self.labels.get(level, level)

    def named(self, level: str) -> str:
        """The label where the factor stands nowhere beside it."""
        return f"{self.title} {self.label(level)}" if self.is_bare else self.label(level)

    def group(self, level: str) -> str:
        return self.groups.get(level, level)


@dataclass(frozen=True)
class Observation:
    """One figure of one run at known levels; None where the run lacks it."""

    levels: Mapping[str, str]
    repetition: int
    run: int
    value: float | None
    times: Latency | None = None
    operation: str = ""
    """The only one that its rate counts; empty where there are several."""


@dataclass(frozen=True)
class Entry:
    """One cell of a table; None where it was not measured or has nothing to be compared with."""

    levels: Mapping[str, str]
    sample: Sample
    runs: tuple[int, ...]
    share_of_best: float | None
    difference: Difference | None
    rank: int | None

    @property
    def penalty(self) -> float | None:
        """How much is lost against the baseline, as a share of it."""
        return None if self.difference is None else -self.difference.share


Key = tuple[str, ...]


@dataclass(frozen=True)
class Pivot:
    spec: TableSpec
    figure: Figure
    row_axes: tuple[Axis, ...]
    column_axes: tuple[Axis, ...]
    rows: tuple[Key, ...]
    columns: tuple[Key, ...]
    entries: Mapping[tuple[Key, Key], Entry]
    blanks: frozenset[tuple[Key, Key]] = frozenset()
    """Cells that were measured, but have no figure, such as a percentile of too few requests."""
    lacking: tuple[int, ...] = ()
    """Runs that lack the figure in cells that have it: a percentile of all requests together."""
    untold: tuple[int, ...] = ()
    """Runs that lack the figure in `blanks`."""

    def at(self, row: Key, column: Key) -> Entry | None:
        return self.entries.get((row, column))

    @property
    def repetitions(self) -> int:
        return max((entry.sample.repetitions for entry in self.entries.values()), default=0)


def pivot(
    spec: TableSpec, axes: Sequence[Axis], observations: Iterable[Observation], *, confidence: float = 0.95
) -> Pivot:
    kept = [item for item in observations if _fits(item.levels, spec.where)]
    told = [item for item in kept if item.value is not None or item.times is not None]
    known = _with_parts(axes, told)
    by_name = {axis.name: axis for axis in known}
    # The baseline's factor is needed to find it, even where its levels are not shown apart.
    shown = [*spec.rows, *spec.columns]
    more = [axis.name for axis in known if axis.name not in shown and _levels_of(axis.name, told) > 1]
    row_axes = tuple(by_name[name] for name in (*spec.rows, *more) if name in by_name)
    column_axes = tuple(by_name[name] for name in spec.columns if name in by_name)
    groups = _groups(kept, row_axes, column_axes)
    found = _samples(groups, spec, confidence)
    figure = _named(FIGURES[spec.figure], kept)
    load = tuple(axis.name for axis in known if axis.changes_load or axis.name in PARTS)
    blanks = groups.keys() - found.keys()
    entries = _compared(found, spec, figure, by_name, load, tuple(a.name for a in column_axes), confidence)
    return Pivot(
        spec=spec,
        figure=figure,
        row_axes=row_axes,
        column_axes=column_axes,
        rows=_ordered({row for row, _ in (*entries, *blanks)}, row_axes),
        columns=_ordered({column for _, column in (*entries, *blanks)}, column_axes),
        entries=entries,
        blanks=frozenset(blanks),
        lacking=_without(item for key in found for item in groups[key]),
        untold=_without(item for key in blanks for item in groups[key]),
    )


def _named(figure: Figure, kept: Sequence[Observation]) -> Figure:
    """As all of its operations call it, where they agree."""
    named = {figure_of(figure, item.operation) for item in kept}
    return named.pop() if len(named) == 1 else figure


def _without(items: Iterable[Observation]) -> tuple[int, ...]:
    """The runs that lack the figure."""
    return tuple(sorted({item.run for item in items if item.value is None}))


def _fits(levels: Mapping[str, str], where: Where) -> bool:
    return all(levels.get(name) in wanted for name, wanted in where.items())


def _with_parts(axes: Sequence[Axis], kept: Sequence[Observation]) -> list[Axis]:
    """Parts that observations tell apart are axes in the order in which they were met."""
    found = list(axes)
    for part in PARTS:
        levels = list(dict.fromkeys(item.levels[part] for item in kept if item.levels.get(part)))
        if levels:
            found.append(Axis(part, part, {level: level for level in levels}, {}, changes_load=True))
    return found


def _levels_of(name: str, kept: Sequence[Observation]) -> int:
    return len({item.levels.get(name) for item in kept})


_Groups = dict[tuple[Key, Key], list[Observation]]


def _groups(kept: Sequence[Observation], rows: Sequence[Axis], columns: Sequence[Axis]) -> _Groups:
    """The repetitions of each cell, of which at least one has the figure or measured requests for it."""
    groups: _Groups = {}
    for item in sorted(kept, key=lambda item: (item.repetition, item.run)):
        key = tuple(item.levels.get(a.name, "") for a in rows), tuple(item.levels.get(a.name, "") for a in columns)
        groups.setdefault(key, []).append(item)
    return {
        key: own for key, own in groups.items() if any(item.value is not None or item.times is not None for item in own)
    }


def _samples(groups: _Groups, spec: TableSpec, confidence: float) -> dict[tuple[Key, Key], Entry]:
    figure = FIGURES[spec.figure]
    found = {}
    for key, items in groups.items():
        values = [item.value for item in items if item.value is not None]
        is_whole = len(items) > 1 and all(item.times is not None for item in items)
        whole = percentile_of_all(figure, (item.times for item in items)) if is_whole else None
        lacking, resolution = len(items) - len(values), figure.resolution
        made = sample(values, spec.centre, whole=whole, confidence=confidence, lacking=lacking, resolution=resolution)
        if made is not None:
            found[key] = Entry(items[0].levels, made, tuple(item.run for item in items), None, None, None)
    return found


def _compared(
    found: dict[tuple[Key, Key], Entry],
    spec: TableSpec,
    figure: Figure,
    axes: Mapping[str, Axis],
    load: tuple[str, ...],
    columns: tuple[str, ...],
    confidence: float,
) -> dict[tuple[Key, Key], Entry]:
    within = load if spec.within is None else tuple(dict.fromkeys((*spec.within, *load)))
    entries = list(found.values())

    def group(entry: Entry, names: tuple[str, ...]) -> Key:
        return tuple(axes[n].group(entry.levels.get(n, "")) if n in axes else "" for n in names)

    best: dict[Key, float] = {}
    for entry in entries:
        if _fits(entry.levels, spec.best_of):
            key = group(entry, within)
            best[key] = _better(figure, best.get(key), entry.sample.centre)
    # All differences of a table are looked at together.
    apart = in_family([_against_baseline(entry, entries, spec, figure, confidence) for entry in entries], confidence)
    return {
        key: Entry(
            levels=entry.levels,
            sample=entry.sample,
            runs=entry.runs,
            share_of_best=_share(figure, entry.sample.centre, best.get(group(entry, within))),
            difference=against,
            rank=_rank(entry, [e for e in entries if _same(group, e, entry, within, columns)], figure),
        )
        for (key, entry), against in zip(found.items(), apart, strict=True)
    }


def _same(group: Callable[[Entry, Key], Key], one: Entry, other: Entry, within: Key, columns: Key) -> bool:
    return group(one, within) == group(other, within) and all(
        one.levels.get(name) == other.levels.get(name) for name in columns
    )


def _better(figure: Figure, one: float | None, other: float) -> float:
    if one is None:
        return other
    return max(one, other) if figure.more_is_better else min(one, other)


def _share(figure: Figure, value: float, best: float | None) -> float | None:
    """Above 1 where a cell is better than the best of the reference level."""
    if best is None or (not value and not figure.more_is_better) or (not best and figure.more_is_better):
        return None
    return value / best if figure.more_is_better else best / value


def _against_baseline(
    entry: Entry, entries: list[Entry], spec: TableSpec, figure: Figure, confidence: float
) -> Difference | None:
    """The counterpart is alike in all factors but those that the baseline names."""
    if not spec.baseline or _fits(entry.levels, spec.baseline):
        return None
    base = next(
        (
            other
            for other in entries
            if _fits(other.levels, spec.baseline)
            and all(other.levels.get(n) == level for n, level in entry.levels.items() if n not in spec.baseline)
        ),
        None,
    )
    if base is None:
        return None
    return difference(entry.sample, base.sample, resolution=figure.resolution, confidence=confidence)


def _rank(entry: Entry, rivals: list[Entry], figure: Figure) -> int:
    """1 is the best; equal figures share a rank."""
    mine = entry.sample.centre
    ahead = [r for r in rivals if (r.sample.centre > mine if figure.more_is_better else r.sample.centre < mine)]
    return 1 + len(ahead)


def _ordered(keys: set[Key], axes: Sequence[Axis]) -> tuple[Key, ...]:
    places = [{level: number for number, level in enumerate(axis.labels)} for axis in axes]
    return tuple(sorted(keys, key=lambda key: [(p.get(k, len(p)), k) for p, k in zip(places, key, strict=True)]))

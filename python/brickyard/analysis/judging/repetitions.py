"""Duty: the figures of repetitions together, with their intervals.

Refusal: runs on other storage, of another load or in another condition are no repetitions of each other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from brickyard.analysis.figures.all_rows import AllRow, all_rates, all_times
from brickyard.analysis.figures.independent import independent
from brickyard.analysis.figures.named import FIGURES, Figure, percentile_of_all
from brickyard.analysis.figures.samples import CONFIDENCE, Sample, sample
from brickyard.analysis.figures.sending import length_told
from brickyard.analysis.figures.totals import totals
from brickyard.analysis.judging.groups import StorageState, group_of, told_apart
from brickyard.analysis.judging.pairing import (
    Apart,
    Name,
    any_changes,
    default_figures,
    figure_of_sides,
    levels_of,
    parts_of,
    row_name,
    several_loads,
    sides_of,
    stood,
    stored_of,
    time_of,
    value_of,
    whole_of,
    with_called,
    with_words,
)
from brickyard.schema import Timed
from brickyard.store import Record
from brickyard.units import format_name


def _told(groups: Collection[StorageState], stored: Collection[StorageState]) -> dict[StorageState, str]:
    """What tells the groups of a name apart; of one alone its storage, where other names have another."""
    if len(groups) > 1:
        return told_apart(groups)
    told = told_apart(stored) if len(stored) > 1 else {}
    return {group: told.get(group.in_any_condition, "") for group in groups}


@dataclass(frozen=True)
class Repeated:
    """One figure of one stream and operation over all repetitions."""

    name: Name
    figure: Figure
    sample: Sample | None
    """A percentile may be of more runs than have one each; of another figure that some lack there is none."""
    runs: int
    lacking: tuple[int, ...] = ()
    """Runs without the figure."""


def _one_of_all(
    name: Name, figure: Figure, values: Sequence[tuple[Record, float | None]], whole: float | None, confidence: float
) -> list[Repeated]:
    """Of two repetitions or more. One may have a row of rates and one of times, or several streams of one name."""
    runs = {record.info.id for record, _ in values}
    lacking = tuple(sorted(runs - {record.info.id for record, value in values if value is not None}))
    own = [value for _, value in values if value is not None]
    if len(runs) < 2 or not (own or whole is not None):
        return []
    of = sample(own, whole=whole, confidence=confidence, lacking=len(lacking), resolution=figure.resolution)
    return [Repeated(name, figure, of, len(runs), lacking)]


def repeated(records: Sequence[Record], *, confidence: float = CONFIDENCE) -> list[Repeated]:
    """Figures of valid repetitions that are independent of each other, with their intervals; none of fewer than two.
    Runs on other storage, or in another condition, are no repetitions of each other. What several streams or operations
    did together comes last."""
    single, _ = independent([record for record in records if record.info.is_valid])
    found, apart = [], several_loads(single)
    stored = stored_of(single)
    for pooled, sides in sides_of(single, apart, any_changes(*single)).items():
        groups = sides.groups()
        told = _told(groups, stored[levels_of(sides.found[0][0])])
        for group, side in groups.items():
            name = with_words(pooled, told[group])
            if not apart:
                name = with_called(name, side.found[0][0].info)
            asked = (figure_of_sides(FIGURES[n], side) for n in default_figures(records))
            for figure in filter(None, asked):
                values = [(record, value_of(row, figure)) for record, row in side.found]
                found += _one_of_all(name, figure, values, whole_of(side, figure), confidence)
    return [*found, *_repeated_together(single, apart, default_figures(records), confidence)]


LOADS_TOLD = 3
"""Loads of repetitions that have a sentence each; of more, their table says it all."""


def together_words(found: Sequence[Repeated]) -> list[str]:
    """The figures of repetitions together, in a sentence for each load and operation."""
    names = list(dict.fromkeys(item.name for item in found))
    if len(names) > LOADS_TOLD:
        return []
    said = []
    for name in names:
        own = [item for item in found if item.name == name]
        figures = "; ".join(f"{item.figure.title} {_centre_words(item)}" for item in own)
        said.append(f"{own[0].runs} runs together, {format_name(name)}: {figures}.")
    return said


def _centre_words(item: Repeated) -> str:
    text, of = item.figure.text, item.sample
    if of is None:
        return text(None)
    between = "" if of.low is None or of.high is None else f" (95 % interval {text(of.low)} to {text(of.high)})"
    return f"{text(of.centre)}{between}"


_AllOf = list[tuple[Record, AllRow]]


def _repeated_together(
    records: Sequence[Record], apart: Apart, names: Sequence[str], confidence: float
) -> list[Repeated]:
    found, stored = [], stored_of(records)
    for pooled, rows in _all_of(records, apart).items():
        groups: dict[StorageState, _AllOf] = {}
        for record, row in rows:
            groups.setdefault(group_of(record), []).append((record, row))
        told = _told(groups, stored[levels_of(rows[0][0])])
        for group, own in groups.items():
            name = with_words(pooled, told[group])
            for figure in (FIGURES[name_] for name_ in names):
                values = [(record, _value_of_all(row, figure)) for record, row in own]
                if figure.measure == Timed.RESPONSE and any(length_told(record) for record, _ in own):
                    continue
                times = [row.times for _, row in own] if figure.measure == Timed.RESPONSE else []
                whole = percentile_of_all(figure, times)
                found += _one_of_all(name, figure, values, whole, confidence)
    return found


def _all_of(records: Sequence[Record], apart: Apart) -> dict[Name, _AllOf]:
    """The rows `all` of each load; the steps of a ramp have none."""
    found: dict[Name, _AllOf] = {}
    changing = any_changes(*records)
    for record in records:
        for condition, part in ((condition, part) for step, condition, part in parts_of(record) if not step):
            rows = totals(part)
            for row in (*all_rates(part, rows), *all_times(part, rows)):
                name = with_words(row_name(record, row, apart), stood(record, condition, changing))
                found.setdefault(name, []).append((record, row))
    return found


def _value_of_all(row: AllRow, figure: Figure) -> float | None:
    if figure.kind == "rate":
        return row.iops
    return None if row.times is None or figure.measure != Timed.RESPONSE else time_of(row.times, figure)

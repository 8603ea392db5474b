"""Duty: warnings of several runs or hosts, each once: figures as their range, phases and targets as lists.

Two warnings are the same by their id, sentence and names. Figures that belong together have no range; the worst warning
speaks for them. Refusal: no text is looked into; of a store from before warnings had figures, texts are alike or not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar, get_args

import msgspec

from brickyard.analysis.figures.traced import TRACE_VERDICT
from brickyard.schema import RunWarning
from brickyard.schema.warning import PHASE, TARGET, Quantity, Severity, Wording
from brickyard.store import Record

T = TypeVar("T")
GRAVE = get_args(Severity)
TEXTS_MAX = 3
"""Texts of one id without figures; of more, the first is shown with the number of the others."""


@dataclass(frozen=True)
class Merged:
    """One warning out of several."""

    warning: RunWarning
    is_worst: bool
    """Its figures are those of the worst one alone."""


def kind_of(warning: RunWarning, listed: Sequence[str] = ()) -> Hashable:
    """What warnings have in common that are one but for their figures, and for names in the places `listed`."""
    said = warning.wording
    if said is None:
        return warning.id, warning.text, warning.remedy
    names = tuple((place, tuple(names)) for place, names in said.names.items() if place not in listed)
    units = tuple((place, figure.unit) for place, figure in said.figures.items())
    # What to do about figures that belong together may depend on them, and is then that of the worst.
    return warning.id, said.template, names, units, said.gravity is None, warning.remedy if said.gravity is None else ""


def merged(warnings: Sequence[RunWarning]) -> Merged:
    """Of warnings that are of one kind (`kind_of`). Where they differ in severity, the graver one speaks."""
    first = min(warnings, key=_rank)
    wordings = [said for warning in warnings if (said := warning.wording)]
    if first.wording is None:
        return Merged(first, is_worst=False)
    if first.wording.gravity is not None and any(said.figures != first.wording.figures for said in wordings):
        worst = max(warnings, key=lambda warning: (warning.wording and warning.wording.gravity) or 0.0)
        return Merged(msgspec.structs.replace(worst, severity=first.severity), is_worst=True)
    wording = reduce(_both, wordings)
    return Merged(msgspec.structs.replace(first, text=wording.words(), wording=wording), is_worst=False)


def _rank(warning: RunWarning) -> int:
    return GRAVE.index(warning.severity)


def _both(one: Wording, other: Wording) -> Wording:
    figures: dict[str, Quantity] = {
        place: figure.with_other(other.figures[place]) for place, figure in one.figures.items()
    }
    names = {place: list(dict.fromkeys([*names, *other.names[place]])) for place, names in one.names.items()}
    return msgspec.structs.replace(one, figures=figures, names=names)


def grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items of one key together, in the order of the first of each."""
    found: dict[Hashable, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())


@dataclass(frozen=True)
class _Met:
    """A warning of one run."""

    record: Record
    warning: RunWarning

    def key(self) -> Hashable:
        """Of a run with one target, its name tells no warning apart."""
        said, paths = self.warning.wording, self.record.info.targets
        is_lone = said is not None and len(paths) == 1 and said.names.get(TARGET) == paths
        return kind_of(self.warning, (PHASE, TARGET) if is_lone else (PHASE,))


def distinct_warnings(records: Sequence[Record]) -> list[RunWarning]:
    """Each warning of several runs once, with the number of runs where not all have it."""
    met = [
        _Met(record, warning)
        for record in records
        for warning in record.info.warnings
        if warning.id != TRACE_VERDICT  # a part of the answer
    ]
    found = [_told(own, len(records)) for own in grouped(met, _Met.key) if own[0].warning.wording]
    untyped = [one for one in met if one.warning.wording is None]
    for of_id in grouped(untyped, lambda one: one.warning.id):
        texts = grouped(of_id, _Met.key)
        if len(texts) > TEXTS_MAX:
            found.append(_told(of_id, len(records), f"{len(texts) - 1} more like it"))
        else:
            found += [_told(own, len(records)) for own in texts]
    return sorted(found, key=_rank)


def _told(own: Sequence[_Met], of: int, more: str = "") -> RunWarning:
    told = merged([one.warning for one in own])
    count = len({one.record.info.id for one in own})
    where = f"{count} of {of} runs" if count < of else f"{of} runs" if told.is_worst and of > 1 else ""
    cases = f"{len(own)} cases" if told.is_worst and not where else ""
    said = "; ".join(part for part in (where or cases, more, "the worst is shown" if told.is_worst else "") if part)
    return msgspec.structs.replace(told.warning, text=f"{told.warning.text} ({said})") if said else told.warning

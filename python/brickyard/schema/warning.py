"""Duty: warnings of runs as types: a kind, its sentence with places for values, and the values, each with its unit.

A sentence is worded here alone, out of one value of each figure or out of the range of several. Two warnings are alike
by their sentence and their names; nothing is ever read out of a finished sentence. Refusal: it judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from string import Formatter
from types import MappingProxyType
from typing import Literal

import msgspec

from brickyard import units
from brickyard.ready import ready

Severity = Literal["error", "warning", "note"]
PHASE, TARGET = "phase", "target"
"""Places for names of the run's own phases and targets."""
LISTED_MAX = 2
"""Names in one place; of more, the number is shown."""


class Unit(StrEnum):
    """What a figure is a figure of, and so how it is written."""

    NUMBER = "number"
    COUNT = "count"
    """With thousands separators."""
    TENTHS = "tenths"
    FACTOR = "factor"
    RATE = "per_s"
    MEGABIT_RATE = "megabit_per_s"
    CELSIUS = "celsius"
    BYTES = "bytes"
    BYTES_TENTHS = "bytes_tenths"
    MEAN_BYTES = "mean_bytes"
    NS = "ns"
    EXACT_NS = "exact_ns"
    """As seconds, to the millisecond."""
    SECONDS = "seconds"
    """Whole ones."""
    DURATION = "duration_s"
    SHARE = "share"
    SHARE_TENTHS = "share_tenths"
    PERCENT = "percent_of_share"
    PERCENT_TENTHS = "percent_of_share_tenths"
    VARIATION = "variation"
    COVERAGE = "coverage"

    def of(self, value: float) -> Quantity:
        return Quantity(value, value, self)


WRITTEN: Mapping[Unit, Callable[[float], str]] = {
    Unit.NUMBER: lambda value: f"{value:.0f}",
    Unit.COUNT: lambda value: f"{value:,.0f}",
    Unit.TENTHS: lambda value: f"{value:.1f}",
    Unit.FACTOR: lambda value: f"{value:g}",
    Unit.RATE: units.format_iops,
    Unit.MEGABIT_RATE: lambda value: f"{value:,.0f} Mbit/s",
    Unit.CELSIUS: lambda value: f"{value:.0f} °C",
    Unit.BYTES: units.format_size,
    Unit.BYTES_TENTHS: units.format_size_tenths,
    Unit.MEAN_BYTES: units.format_mean_size,
    Unit.NS: units.format_ns,
    Unit.EXACT_NS: lambda value: f"{value / 1e9:,.3f}".rstrip("0").rstrip(".") + " s",
    Unit.SECONDS: lambda value: f"{value:.0f} s",
    Unit.DURATION: units.format_seconds,
    Unit.SHARE: lambda value: f"{value:.0%}",
    Unit.SHARE_TENTHS: units.format_share_tenths,
    Unit.PERCENT: units.format_percent,
    Unit.PERCENT_TENTHS: lambda value: f"{value * 100:.1f} %",
    Unit.VARIATION: units.format_variation,
    Unit.COVERAGE: units.format_coverage,
}


class Quantity(msgspec.Struct, frozen=True):
    """A figure, or the range of it over several warnings."""

    least: int | float
    most: int | float
    unit: Unit

    @property
    def words(self) -> str:
        low, high = (WRITTEN[self.unit](value) for value in (self.least, self.most))
        return low if low == high else f"{low} to {high}"

    def with_other(self, other: Quantity) -> Quantity:
        return Quantity(min(self.least, other.least), max(self.most, other.most), self.unit)


Value = Quantity | str | Sequence[str]


class Wording(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A sentence and what stands in its places."""

    template: str
    """`{name}` is the place of a value; `{phase:is|are}` is the first word for one name, or for the number 1, the
    second for several."""
    figures: dict[str, Quantity] = msgspec.field(default_factory=dict)
    names: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """What is no figure: devices, streams, reasons. More than one only where warnings of several were made one."""
    gravity: float | None = None
    """Of figures that only mean something together (3 of 12 requests), which have no range: how bad they are. The worst
    of several speaks for them. None where each figure has a range of its own."""

    @property
    def values(self) -> dict[str, Value]:
        return {**self.figures, **self.names}

    def words(self, template: str | None = None) -> str:
        pieces = Formatter().parse(self.template if template is None else template)
        return "".join(
            text + ("" if place is None else self._word(place, choice or "")) for text, place, choice, _ in pieces
        )

    def _word(self, place: str, choice: str) -> str:
        if choice:
            one, several = choice.split("|")
            is_one = self.figures[place].words == "1" if place in self.figures else len(self.names[place]) == 1
            return one if is_one else several
        return self.figures[place].words if place in self.figures else listed(self.names[place])


class RunWarning(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a reader must know before believing a figure of a run."""

    id: str
    severity: Severity
    text: str
    remedy: str = ""
    reason: str = ""
    """Of the run's condition: why the run does not show it."""
    wording: Wording | None = None
    """What the text was made of; None in stores from before there was one."""


def warned(
    identifier: str,
    severity: Severity,
    template: str,
    remedy: str = "",
    *,
    gravity: float | None = None,
    reason: str = "",
    also: Mapping[str, Value] = MappingProxyType({}),
    **values: Value,
) -> RunWarning:
    """A warning in words. What comes from outside is a value, never part of a template; the remedy is a template too.
    `also` are further values."""
    wording = wording_of(template, gravity=gravity, also={**values, **also})
    return RunWarning(
        id=identifier,
        severity=severity,
        text=wording.words(),
        remedy=wording.words(remedy),
        reason=reason,
        wording=wording,
    )


def wording_of(
    template: str, *, gravity: float | None = None, also: Mapping[str, Value] = MappingProxyType({}), **values: Value
) -> Wording:
    every = {**values, **also}
    return Wording(
        template=template,
        figures={place: value for place, value in every.items() if isinstance(value, Quantity)},
        names={
            place: [value] if isinstance(value, str) else list(value)
            for place, value in every.items()
            if not isinstance(value, Quantity)
        },
        gravity=gravity,
    )


def tally(counts: Mapping[str, int], pair: str, unit: Unit = Unit.NUMBER) -> tuple[str, dict[str, Value]]:
    """A part of a template, and its values: each name with its number, in their order. `pair` is one of them, with the
    places `name` and `number`."""
    places = [(f"name_{at}", f"number_{at}") for at in range(len(counts))]
    part = ", ".join(
        pair.replace("{name}", f"{{{name}}}").replace("{number}", f"{{{number}}}") for name, number in places
    )
    values: dict[str, Value] = {}
    for (name, number), (said, count) in zip(places, counts.items(), strict=True):
        values |= {name: said, number: unit.of(count)}
    return part, values


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED_MAX} more" if len(names) > LISTED_MAX else ""
    return (", " if more else " and ").join(names[:LISTED_MAX]) + more


ready(RunWarning, list[RunWarning])

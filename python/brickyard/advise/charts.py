"""Duty: the rule-of-thumb charts of the studies, computed from the models and held next to the published ratings.

`level_chart`, `drive_chart` and `suitability` say how each is computed; here computed and published come together.

Refusal: no rule is changed for a cell. What a chart says otherwise than the models stays so, with the reason where it
is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from brickyard import shipped
from brickyard.advise import drive_chart, level_chart, suitability
from brickyard.schema import Document
from brickyard.units import three_digits

_AS_PUBLISHED = "the order is as published, the step is larger"
WHY_LEVELS = {
    "transactional I/O": {
        "raid0": "a mirror has two arms for the same data; with the same number of drives RAID 0 is ahead, since it "
        "writes nothing twice",
        "raid5": f"a small write is two reads and two writes: {_AS_PUBLISHED}",
        "raid6": f"a small write is three reads and three writes: {_AS_PUBLISHED}",
    },
    "failure and rebuild": {
        "raid1": "one arm of two is left, where RAID 10 has seven of eight",
        "raid5": f"reads of what is missing take all other drives: {_AS_PUBLISHED}",
        "raid6": f"outlives any second failure, at half of a mirror's rate: {_AS_PUBLISHED}",
    },
}
"""What lies behind a rating that differs from the published one."""


@dataclass(frozen=True)
class Cell:
    """One published rating with its computed counterpart; all texts are as they are shown."""

    study: str
    chart: str
    item: str
    criterion: str
    published: str
    computed: str | None
    figure: str
    agrees: bool | None
    why: str = ""

    @property
    def agrees_word(self) -> str:
        return {True: "yes", False: "no", None: "–"}[self.agrees]

    def document(self) -> Document:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Charts:
    """All cells, and what lies behind them."""

    cells: list[Cell]
    levels: level_chart.Figures
    ordered: list[level_chart.Ordered]
    suited: list[suitability.Suited]
    assumed: suitability.Assumed

    @property
    def compared(self) -> int:
        return sum(cell.agrees is not None for cell in self.cells)

    @property
    def agree(self) -> int:
        return sum(cell.agrees is True for cell in self.cells)


def published() -> list[level_chart.PublishedRating]:
    return [level_chart.PublishedRating(**row) for row in shipped.rows("brickyard.advise", "advice_charts")]


def compute(given: suitability.Assumed, progress: Callable[[str], None]) -> Charts:
    """Every published rating with what the models say to it."""
    facts = published()
    progress("RAID levels, with two kinds of drives")
    levels = level_chart.compute()
    progress("drives by themselves")
    drives = [_drive_cell(fact) for fact in facts if fact.chart in ("drive class", "interface")]
    progress("classes of drives for applications: counts and levels, while rebuilding and normal")
    suited = suitability.compute(given)
    on_levels = [fact for fact in facts if fact.chart == "RAID"]
    cells = [_level_cell(fact, levels) for fact in on_levels] + drives
    cells += [_suited_cell(fact, suited) for fact in facts if fact.chart == "suitability"]
    return Charts(cells, levels, level_chart.all_ordered(levels, on_levels), suited, given)


def _level_cell(fact: level_chart.PublishedRating, levels: level_chart.Figures) -> Cell:
    level, criterion = level_chart.level_of(fact.item), fact.criterion
    computed = level_chart.rating(level_chart.share(levels, level, criterion))
    values = {kind: figures[level].figure(criterion) for kind, figures in levels.items()}
    if criterion == level_chart.CAPACITY:
        text = f"{next(iter(values.values())):.1%} usable"
    else:
        text = ", ".join(f"{kind} {three_digits(value)}/s" for kind, value in values.items())
        if criterion == level_chart.FAILURE and level != "raid0":
            worst = max(figures[level].rebuild_fails for figures in levels.values())
            longest = max(figures[level].rebuild_hours or 0.0 for figures in levels.values())
            text += f"; a rebuild takes up to {three_digits(longest)} h and fails {worst:.1%}"
    agreed = computed == fact.rating
    why = "" if agreed else WHY_LEVELS.get(criterion, {}).get(level, "")
    return _cell(fact, computed, text, agreed, why)


def _drive_cell(fact: level_chart.PublishedRating) -> Cell:
    drives = drive_chart.CLASSES.get(fact.item, ())
    found = drive_chart.computed_range(fact.item, fact.chart, fact.criterion)
    if found is None:
        return _cell(fact, None, "no drive of this class is modelled", None)
    why = drive_chart.WHY.get((fact.item, fact.criterion), "")
    agreed = drive_chart.agrees(*found, fact.rating)
    return _cell(fact, drive_chart.range_text(*found), ", ".join(drives), agreed, why)


def _suited_cell(fact: level_chart.PublishedRating, suited: list[suitability.Suited]) -> Cell:
    found = next(s for s in suited if (s.item, s.application.criterion) == (fact.item, fact.criterion))
    agreed = found.verdict == fact.rating
    return _cell(fact, found.verdict, offer_text(found), agreed, price_text(found))


def offer_text(found: suitability.Suited) -> str:
    """What the class offers, in words."""
    is_time = found.application.response_ns is not None

    def figure(value: float) -> str:
        return f"{three_digits(value / 1e6)} {'ms' if is_time else 'MB/s'}"

    if found.offer is None:
        nearest = "" if found.nearest is None else f"; at best {figure(found.nearest)}"
        return f"none up to {suitability.COUNTS[-1]} drives{nearest}"
    offer = found.offer
    return f"{offer.name}, cost {offer.cost:g}: {figure(offer.value)}, {three_digits(offer.loss_years)} years"


def price_text(found: suitability.Suited) -> str:
    """At which price the verdict turns."""
    if found.flips_at is None:
        return "no price changes it" if found.offer is None else "no other class does it"
    turns = "NO (cost) above" if found.verdict.startswith("YES") else "YES up to"
    return f"{turns} {three_digits(found.flips_at)}"


def _cell(
    fact: level_chart.PublishedRating, computed: str | None, figure: str, agreed: bool | None, why: str = ""
) -> Cell:
    return Cell(fact.study, fact.chart, fact.item, fact.criterion, fact.rating, computed, figure, agreed, why)


def footnotes(charts: Charts, chart: str) -> list[str]:
    """What has to be known beside a chart: its rule, its assumptions, and what differs and why."""
    reasons = [
        f"{cell.item}, {cell.criterion}: {cell.why}" for cell in charts.cells if cell.chart == chart and cell.why
    ]
    if chart == "RAID":
        return [*_level_notes(charts), *reasons]
    if chart == SUITABILITY:
        return _suited_notes(charts.assumed)
    said = "Ranges agree when they touch"
    if chart == "interface":
        said += f", single figures within {drive_chart.AGREES_WITHIN:.0%}; random 8 KiB reads, 1 and 4 in flight"
    return [f"{said}.", *reasons]


SUITABILITY = "suitability"


def _level_notes(charts: Charts) -> list[str]:
    steps = ", ".join(f"{name} from {least:.0%}" for name, least in level_chart.RATINGS[:-1])
    notes = [
        f"Share of the best level's figure, averaged over both drives: {steps}, else Poor. Random 8 KiB, "
        f"{level_chart.READ_PERCENT:.0f}% reads, {level_chart.IN_FLIGHT} in flight; requests/s for each drive's "
        "worth of data. Failure and rebuild: the rate while rebuilding × the chance that the rebuild comes to its end, "
        "at the pace of the simulated rebuild beside this load."
    ]
    for item in charts.ordered:
        text = f"{item.criterion}, {item.basis}: {item.agree} of {item.pairs} pairs of levels are ordered as published"
        if item.against:
            against = [
                f"{suitability.level_name(better)} over {suitability.level_name(worse)}{_with(kinds)}"
                for better, worse, kinds in item.against
            ]
            text += f"; not {', '.join(against)}"
        notes.append(f"{text}.")
    return notes


def _with(kinds: tuple[str, ...]) -> str:
    return "" if len(kinds) == len(level_chart.DRIVES) else f" ({', '.join(kinds)})"


def _suited_notes(given: suitability.Assumed) -> list[str]:
    prices = ", ".join(f"{kind.item} {kind.price:g}" for kind in given.classes)
    drives = ", ".join(f"{kind.item} {kind.drive}" for kind in given.classes)
    source = suitability.PRICES_FROM if given.classes == suitability.CLASSES else "as given"
    return [
        *(f"{item.criterion}: {item.asked}." for item in given.applications),
        f"All in normal condition and while rebuilding (the figures shown), on {drives}, behind {suitability.KEEPER}. "
        "Years to data loss: at the pace of the simulated rebuild beside the workload, of the fewest drives that have "
        "the room.",
        f"NO: no level and no count meets it. NO (cost): another class does for less than {given.too_dear:g} of the "
        "cost. YES with RAID 6: no other level lasts so long with these drives.",
        f"Prices of a drive: {prices} ({source}). "
        "--price changes them; at the price in the last column a verdict turns, the others as they are.",
    ]


def document(charts: Charts) -> Document:
    given = charts.assumed
    return {
        "rule": {
            "shares_of_the_best": dict(level_chart.RATINGS),
            "single_figures_within": drive_chart.AGREES_WITHIN,
            "too_dear": given.too_dear,
        },
        "assumed": {
            "prices": {kind.word: kind.price for kind in given.classes},
            "prices_from": suitability.PRICES_FROM,
            "applications": {application.criterion: application.asked for application in given.applications},
        },
        "agree": charts.agree,
        "compared": charts.compared,
        "pairs": [item.document() for item in charts.ordered],
        "suitability": [item.document() for item in charts.suited],
        "cells": [cell.document() for cell in charts.cells],
    }

"""Duty: the same load by two programs: how far apart their figures are, and whether the runs are enough to tell.

A rate or a mean of repeated runs is their geometric mean; percentiles are those of the merged histograms.

Refusal: which of them is right is not decided, and a difference that the runs are too few to see is not called none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from brickyard.analysis.figures import samples
from brickyard.analysis.figures.difference_words import WITHIN_NOISE, difference_text
from brickyard.analysis.figures.latency import Latency, as_one
from brickyard.analysis.figures.samples import Difference, in_family, repetitions_for, sample
from brickyard.analysis.figures.totals import Totals, totals
from brickyard.analysis.judging.answers import Answer, belief
from brickyard.analysis.judging.conclusions import sees_words
from brickyard.percentiles import MEDIAN_AND_P99
from brickyard.schema import Document
from brickyard.store import Record
from brickyard.store.record import FIO

DECIDES = 0.2  # two engines that differ by less do the same for most purposes; five runs find 14 % at a noise of 6 %
OURS = "brickyard"
APART = 2.0  # means that differ by this factor are said to


@dataclass(frozen=True)
class Side:
    """One program's figures for one operation of one stream."""

    runs: int
    iops: float
    bytes_per_s: float
    service: Latency | None
    mean_ns: float | None
    rates: tuple[float, ...] = ()
    """IOPS of each run."""

    def time_ns(self, name: str) -> float | None:
        if name == "mean":
            return self.mean_ns
        return None if self.service is None else self.service.percentiles.get(name)


@dataclass(frozen=True)
class Comparison:
    phase: str
    stream: str
    operation: str
    ours: Side
    theirs: Side
    rates: Difference | None = None
    """How far theirs are above ours by the runs' rates, as one of all that are compared."""

    @property
    def is_decided(self) -> bool | None:
        """Whether the runs see a difference, or would see one of `DECIDES`; None where noise is unknown."""
        if self.rates is None or self.rates.seen is None:
            return None
        return self.rates.seen or (self.rates.sees is not None and self.rates.sees <= DECIDES)

    @property
    def repetitions(self) -> int | None:
        """How many runs of each would find a difference as large as this one, or as `DECIDES` if it is smaller."""
        test = self.rates.test if self.rates else None
        if self.rates is None or test is None or not test.is_log:
            return None
        spread = test.error / math.sqrt(1 / self.ours.runs + 1 / self.theirs.runs)
        return repetitions_for(spread, max(DECIDES, math.expm1(abs(test.apart))), self.rates.level)

    @property
    def iops_difference(self) -> float | None:
        return self.rates.share if self.rates else None

    def time_difference(self, name: str) -> float | None:
        return difference(self.ours.time_ns(name), self.theirs.time_ns(name))


TIMES = ("mean", *MEDIAN_AND_P99)


def difference(ours: float | None, theirs: float | None) -> float | None:
    """How much theirs is above ours, as a share of ours."""
    return None if ours is None or theirs is None or not ours else theirs / ours - 1


def compare(ours: list[Record], theirs: list[Record]) -> list[Comparison]:
    mine, other = _by_place(ours), _by_place(theirs)
    found = [
        Comparison(rows[0].phase_name, rows[0].stream_name, rows[0].operation, _side(rows), _side(other[key]))
        for key, rows in mine.items()
        if key in other
    ]
    together = in_family([_rates(item.ours, item.theirs) for item in found])
    return [replace(item, rates=apart) for item, apart in zip(found, together, strict=True)]


def _rates(ours: Side, theirs: Side) -> Difference | None:
    base, value = sample(ours.rates), sample(theirs.rates)
    return None if base is None or value is None else samples.difference(value, base)


def _by_place(records: list[Record]) -> dict[tuple[int, int, str], list[Totals]]:
    found: dict[tuple[int, int, str], list[Totals]] = {}
    for record in records:
        for row in totals(record):
            found.setdefault((row.phase, row.stream, row.operation), []).append(row)
    return found


def _side(rows: list[Totals]) -> Side:
    times = [row.service for row in rows if row.service]
    return Side(
        runs=len(rows),
        iops=_mean(row.iops for row in rows) or 0.0,
        bytes_per_s=_mean(row.bytes_per_s for row in rows) or 0.0,
        service=as_one(times),
        mean_ns=_mean(item.mean_ns for item in times),
        rates=tuple(row.iops for row in rows),
    )


def _mean(values: Iterable[float]) -> float | None:
    found = sample(tuple(values))
    return found.centre if found else None


def verdict(found: Comparison) -> str:
    """What the runs say of the two rates, in words that never read as agreement where they cannot tell."""
    if found.rates is None:
        return "not compared: one of the rates is zero"
    fewest = min(found.ours.runs, found.theirs.runs)
    runs = f"{fewest} run{'' if fewest == 1 else 's'} each"
    if found.is_decided is None:
        return f"{_apart(found)}{runs} cannot decide, since noise between runs is unknown; --repeat 5"
    if found.rates.seen:
        return f"seen over {runs}"
    sees = sees_words(found.rates.sees) if found.rates.sees is not None else ""
    if found.is_decided:
        return f"no difference seen over {runs} ({sees} would be seen)"
    needed = found.repetitions
    remedy = (
        f"--repeat {max(needed, fewest + 1)} may decide" if needed else "the runs vary too much; see each by itself"
    )
    return f"{_apart(found)}{runs} cannot decide (only {sees} would be seen); {remedy}"


def _apart(found: Comparison) -> str:
    low, high = sorted((found.ours.iops, found.theirs.iops))
    return f"the means differ {high / low:.3g}-fold; " if low and high / low >= APART else ""


@dataclass(frozen=True)
class TwoPrograms:
    """The runs of each program, and what was compared of those that came to their end."""

    ours: list[Record]
    theirs: list[Record]
    found: list[Comparison]

    @property
    def version(self) -> str:
        return self.theirs[0].info.software_version if self.theirs else FIO


def is_crosscheck(records: Sequence[Record]) -> bool:
    """Whether `crosscheck` made them: each is marked with the program that ran it."""
    return bool(records) and all(record.info.marks.engine for record in records)


def crosschecked(records: Sequence[Record]) -> TwoPrograms:
    good = [record for record in records if record.info.is_valid]
    ours = [record for record in good if record.info.marks.engine == OURS]
    theirs = [record for record in good if record.info.marks.engine == FIO]
    return TwoPrograms(ours, theirs, compare(ours, theirs))


def crosscheck_answer(of: TwoPrograms, records: Sequence[Record]) -> Answer:
    """Of each operation of each stream what is known of the two rates."""
    said = [
        f"{', '.join((item.phase, item.stream, item.operation))}: {rates_words(item, of.version)}: {verdict(item)}."
        for item in of.found
    ]
    if not said:
        said = ["Nothing was compared: no run of each program came to its end."]
    return Answer(f"Do {of.version} and Brickyard measure the same?", tuple(said), belief(records))


def rates_words(item: Comparison, version: str) -> str:
    if item.rates is None:
        return f"IOPS of {version}"
    return f"IOPS of {version} {difference_text(item.rates).removesuffix(f' {WITHIN_NOISE}')}"


def comparison_document(found: Comparison) -> Document:
    return {
        "phase": found.phase,
        "stream": found.stream,
        "operation": found.operation,
        "brickyard": _document(found.ours),
        "fio": _document(found.theirs),
        "difference": {
            "iops": found.iops_difference,
            "iops_low": found.rates.low if found.rates else None,
            "iops_high": found.rates.high if found.rates else None,
            "iops_seen": found.rates.seen if found.rates else None,
            "iops_sees": found.rates.sees if found.rates else None,
            "iops_decided": found.is_decided,
            **{f"service_{name}": found.time_difference(name) for name in TIMES},
        },
    }


def _document(side: Side) -> Document:
    times = {f"service_{name}_ns": side.time_ns(name) for name in TIMES}
    return {"runs": side.runs, "iops": side.iops, "bytes_per_s": side.bytes_per_s, **times}

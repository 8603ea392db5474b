"""Duty: how far figures of models are off, as an interval around each: by the kind of storage, from the published
figures that were simulated with models that their table had taught nothing.

`left_out.csv` is written by `brickyard study reference --errors`. An interval reaches from a figure divided by a
factor to the figure times it; the factor is the one that holds nine tenths of the kind's left-out figures, counted one
by one, and also where each table counts the same, since the question is how much of a further table it will hold. A
kind with few tables gets the widest factor that any of them needs, and no less than that of all kinds together. Whether
intervals made so hold what they promise is tested by leaving whole tables out, for each kind by itself
(`tests/advise/test_advise_costs.py`).

An interval ends where the storage has a cap (`caps`), however far models of other storage were off: no higher than nine
tenths of the kind's published figures that were above theirs. `Spread.ends` is the one place, for answers and for
`docs/truth.md`.

Flash is several kinds by what it is asked for, since models of its reads are off by far less than those of its durable
writes. Of durable writes, drives differ more than tables do, so each drive is a table of its own there.

Refusal: no interval for a kind with fewer tables than can be told apart, so that nothing of it is called sure.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import accumulate

from brickyard.bricks.resolved import ModelledBrick
from brickyard.schema.plan import IoMode, Plan, StepWord, Stream, SyncMode

COVERAGE = 0.9
FILE = "left_out.csv"
COLUMNS = ("table", "kind", "cell", "published", "simulated", "cap")
LEAST_TABLES = 3
"""With two, one left out leaves one, which tells nothing of how far tables are from one another."""
FEW_TABLES = 10
"""The widest of n tables holds a further one n times in n + 1: with fewer tables than ten, nothing less will do."""
FLASH = "ssd"
"""The kind of drives, in the words of their files."""
READS, WRITES, DURABLE = "ssd-reads", "ssd-writes", "ssd-durable"
"""What flash is asked for. A mix counts as reads, since reads are what waits in it, unless its writes are durable: then
these wait longer, and models are further off."""
CLOUD = "cloud"
ZFS = "zfs"
BUFFERED = "buffered"
TRIMS = "trims"
KINDS = {
    "rotating": "disks",
    READS: "reads and mixes of flash",
    WRITES: "writes of flash",
    DURABLE: "durable writes of flash",
    CLOUD: "volumes",
    ZFS: "ZFS",
    BUFFERED: "page caches and file systems",
    TRIMS: "trims",
}
"""What stands for each kind of modelled storage in tables and words."""
LIMITED = "requests/s within "
"""In the labels of figures that are rates within a limit on the response time."""
ROUNDED = 1 + 1e-9
"""A figure that made the factor is not put outside by a last digit."""
FAR = 0.40
"""A figure that is off by more than this factor is called far off."""
FAR_SHARE = 0.2
"""A kind of which more than this share of published figures are far off is named beside its answers."""


@dataclass(frozen=True)
class SpreadRow:
    """One published figure beside that of a model that its table taught nothing."""

    table: str
    kind: str
    published: float
    simulated: float
    is_within_limit: bool = False
    """Whether the figure is the highest rate within a limit on the response time, as `advise predict` gives it."""
    cap: float | None = None
    """Of its storage, in its unit (`caps.Caps`); None where none is known."""

    @property
    def source(self) -> str:
        """Tables of one study or one collection are of one source: measured by the same people on the same hosts."""
        return self.table.split(", ", 1)[0]

    @property
    def distance(self) -> float:
        return abs(math.log(self.simulated / self.published))

    @property
    def is_far(self) -> bool:
        return abs(self.simulated / self.published - 1) > FAR


@dataclass(frozen=True)
class Source:
    """How many figures of a kind are from one source. `held`: how many of them lie in the interval that is made of the
    others; None where the others make none."""

    name: str
    figures: int
    held: int | None


@dataclass(frozen=True)
class Spread:
    """The interval of a kind of storage."""

    kind: str
    factor: float
    figures: int
    tables: int
    sources: tuple[Source, ...] = ()
    """The largest first."""
    above_cap: float = 1.0
    """Of the published figures above their cap, nine tenths are no more than this times it: some providers let a little
    more pass than they sell."""

    @property
    def basis(self) -> str:
        """What the factor was made of, and what became of sources that had no part in it."""
        few = (
            ". With so few tables, the factor is the largest that one of them needs" if self.tables < FEW_TABLES else ""
        )
        return f"{self.figures} figures are in {self.tables} tables{few}{self._of_sources()}"

    def _of_sources(self) -> str:
        said = self.largest_words
        if not said:
            return ""
        shares = [s.held / s.figures for s in self.sources if s.held is not None]
        if not shares:
            return said
        mean = sum(shares) / len(shares)
        return (
            f"{said}. If the factor is computed without one of the {len(shares)} sources, {min(shares):.0%} to "
            f"{max(shares):.0%} of that source's figures lie within it, {mean:.0%} on average"
        )

    @property
    def largest_words(self) -> str:
        """How many of the figures the two largest sources have; nothing where there is one source."""
        if len(self.sources) < 2:
            return ""
        largest = self.sources[:2]
        count = sum(source.figures for source in largest)
        return f". {count} of the {self.figures} are from {' and '.join(source.name for source in largest)}"

    @property
    def others_words(self) -> str:
        """How many figures of all but the two largest sources are in the interval that is computed without their
        source: what the factor is worth for products of which nothing was known."""
        others = [source for source in self.sources[2:] if source.held is not None]
        figures = sum(source.figures for source in others)
        held = sum(source.held or 0 for source in others)
        if not others:
            return ""
        only = "only " if held < COVERAGE * figures else ""
        return (
            f"; of {figures} figures from smaller sources, {only}{held} lie within the factor that all other sources "
            "give"
        )

    @property
    def claim(self) -> str:
        """What the factor says, without the kind of storage."""
        return (
            f"lie within {self.words} of a model that was not fitted to their own table (but perhaps to other tables "
            "of the same product)"
        )

    def holds(self, row: SpreadRow) -> bool:
        low, high = self.ends(row.simulated, row.cap)
        return low <= row.published * ROUNDED and row.published <= high * ROUNDED

    def ends(self, value: float, cap: float | None = None) -> tuple[float, float]:
        """The interval around a figure; `cap` is that of its storage."""
        high = value * self.factor
        return value / self.factor, high if cap is None else max(value, min(high, cap * self.above_cap))

    def is_capped(self, value: float, cap: float | None) -> bool:
        return self.ends(value, cap)[1] < self.ends(value)[1]

    @property
    def cap_words(self) -> str:
        """Where an interval ends that reaches above a cap."""
        beyond = ""
        if self.above_cap >= 1.005:
            beyond = f", plus {self.above_cap - 1:.0%} (nine of ten figures above a limit exceed it by at most that)"
        merged = ""
        if self.kind == KINDS[CLOUD]:
            merged = "; sequential requests that a provider merges count as one"
        return f"the most that links, controllers and their own limits allow{beyond}{merged}"

    @property
    def words(self) -> str:
        """A rate may be this much lower or higher."""
        return f"a factor of {self.factor:.2f} ({1 / self.factor - 1:+.0%} to {self.factor - 1:+.0%})"


@cache
def rows() -> tuple[SpreadRow, ...]:
    text = (resources.files("brickyard.bricks") / FILE).read_text("utf-8")
    lines = list(csv.reader(text.splitlines()))[1:]
    return tuple(
        SpreadRow(
            unit_of(table, kind, cell), kind, float(printed), float(found), LIMITED in cell, float(cap) if cap else None
        )
        for table, kind, cell, printed, found, cap in lines
    )


def unit_of(table: str, kind: str, cell: str) -> str:
    """What is left out together with a figure: its table, or of durable writes its drive."""
    drive = re.search(r" \d+ × \d+ (.+), ", cell) if kind == KINDS[DURABLE] else None
    return f"{table}, {drive[1]}" if drive else table


def printed_kind(storage: str, table: str, cell: str) -> str:
    """Of a published figure, as a key of `KINDS`; `storage` by `storage_kind`. Labels of flash begin with the pattern
    and the per cent of reads and writes."""
    shares = re.match(r"\w+ (\d+)/(\d+) ", cell)
    if storage != FLASH or shares is None:
        return storage
    return asked_of(reads=shares[1] != "0", durable="durable" in table)


def asked_of(*, reads: bool, durable: bool) -> str:
    """The kind of a load on flash."""
    return DURABLE if durable else READS if reads else WRITES


def far_off(kind: str, every: Iterable[SpreadRow]) -> str | None:
    """What is said beside answers of a kind whose published figures models often missed by far."""
    own = [row for row in every if row.kind == KINDS[kind]]
    far = sum(row.is_far for row in own)
    if far <= FAR_SHARE * len(own):
        return None
    return (
        f"{KINDS[kind]}: {far} of {len(own)} published figures were simulated more than {FAR:.0%} off"
        " (docs/truth.md lists them with the reasons)"
    )


def asked(plan: Plan | None) -> list[str]:
    """The kinds of what a plan asks of flash, the one that models are furthest off first; all of them where it is not
    known."""
    if plan is None:
        return [DURABLE, WRITES, READS]
    found = {_asked(stream) for phase in plan.phase for stream in phase.stream}
    return [kind for kind in (DURABLE, WRITES, READS) if kind in found]


def _asked(stream: Stream) -> str:
    operations, steps = stream.operations, set(stream.chain)
    reads, writes = (
        (StepWord.READ in steps, StepWord.WRITE in steps) if steps else (operations.read > 0, operations.write > 0)
    )
    flushes = StepWord.FLUSH in steps or (not steps and operations.flush > 0)
    syncs = stream.flush_every is not None or stream.sync is not SyncMode.NONE
    return asked_of(reads=reads, durable=flushes or (writes and syncs))


def storage_kind(brick: ModelledBrick) -> str:
    """What a brick is made of, as a key of `KINDS` but that flash is one: its drives, or ZFS above them."""
    of_zfs = brick.keeper is not None and brick.keeper.zfs is not None
    return ZFS if of_zfs else brick.drive.kind


def kinds_of(brick: ModelledBrick, plan: Plan | None = None) -> list[str]:
    """What figures of a brick rest on, as keys of `KINDS`: its drives and what they are asked for, unless ZFS or a page
    cache lies above them, whose published figures are not among those of drives; trims are in no published figure."""
    if plan is not None and plan.io is IoMode.BUFFERED:
        return [BUFFERED]
    if plan is not None and any(stream.operations.trim > 0 for phase in plan.phase for stream in phase.stream):
        return [TRIMS]
    if storage_kind(brick) == ZFS:
        return [ZFS]
    drives = sorted({drive.kind for drive in brick.drives})
    return [kind for drive in drives for kind in (asked(plan) if drive == FLASH else [drive])]


def kind_of(brick: ModelledBrick, plan: Plan | None = None) -> str:
    """The same of a brick whose drives are of one kind, as those of advice are, and of what models are furthest off."""
    return kinds_of(brick, plan)[0]


@cache
def spread_of(kind: str) -> Spread | None:
    """By one of `kinds_of`; None for one of which too little was published."""
    made = spread(KINDS[kind], rows())
    return made and replace(made, sources=sources(KINDS[kind], rows()))


def held_within_limits(kind: str) -> tuple[int, int]:
    """Of the published rates within a limit on the response time: how many lie in intervals that are made without
    their table, and how many there are."""
    among = [row for row in rows() if row.kind == KINDS[kind]]
    own = [row for row in among if row.is_within_limit]
    held = 0
    for table in {row.table for row in own}:
        made = spread(KINDS[kind], [row for row in rows() if row.table != table])
        held += sum(made is not None and made.holds(row) for row in own if row.table == table)
    return held, len(own)


def limited_words(kinds: Iterable[str]) -> list[str]:
    """How little is known of how true such rates are, a sentence for each kind of storage."""
    said = []
    for kind in sorted(set(kinds)):
        held, compared = held_within_limits(kind)
        of = f"of {KINDS[kind]} within a limit on the response time"
        how = "how far this answer may be off is not known"
        if compared:
            said.append(
                f"Only {compared} published rates {of} were compared with models, and {held} of them lay in the"
                f" interval that holds nine of ten rates without a limit: {how}."
            )
        else:
            said.append(f"No published rate {of} was compared with models: {how}.")
    return said


def sources(kind: str, every: Iterable[SpreadRow]) -> tuple[Source, ...]:
    among = list(every)
    found = []
    for name in {row.source for row in among if row.kind == kind}:
        made = spread(kind, [row for row in among if row.source != name])
        own = [row for row in among if (row.source, row.kind) == (name, kind)]
        found.append(Source(name, len(own), sum(map(made.holds, own)) if made else None))
    return tuple(sorted(found, key=lambda source: (-source.figures, source.name)))


def basis_words(kind: str) -> str:
    """How far models of one of `kinds_of` are off, without a full stop."""
    made = spread_of(kind)
    if made is None:
        return f"How far models of {KINDS[kind]} are off is not known: too few figures are published"
    above = ""
    if made.above_cap >= 1.005:
        above = f"; nine of ten figures above a limit exceed it by at most {made.above_cap - 1:.0%}"
    return (
        f"Nine of ten published figures of {KINDS[kind]} lie within {made.words} of models{made.others_words}{above} "
        "(docs/truth.md)"
    )


def spread(kind: str, every: Iterable[SpreadRow]) -> Spread | None:
    among = list(every)
    by_table: dict[str, list[float]] = {}
    for row in among:
        if row.kind == kind:
            by_table.setdefault(row.table, []).append(row.distance)
    if len(by_table) < LEAST_TABLES:
        return None
    whole = [distance for distances in by_table.values() for distance in distances]
    if len(by_table) < FEW_TABLES:
        widest = max(bound(whole), bound(row.distance for row in among), *map(bound, by_table.values()))
    else:
        widest = max(bound(whole), bound_of_tables(by_table.values()))
    above = [row.published / row.cap for row in among if row.kind == kind and row.cap and row.published > row.cap]
    return Spread(kind, math.exp(widest), len(whole), len(by_table), above_cap=bound(above) if above else 1.0)


def left_out_share(kind: str, every: Iterable[SpreadRow]) -> float | None:
    """Which part of a kind's figures lies in intervals that are made without their own table; None where there are
    none."""
    among = list(every)
    inside: list[bool] = []
    for table in {row.table for row in among if row.kind == kind}:
        made = spread(kind, [row for row in among if row.table != table])
        own = [row for row in among if (row.table, row.kind) == (table, kind)]
        inside += map(made.holds, own) if made else []
    return sum(inside) / len(inside) if inside else None


def bound(distances: Iterable[float]) -> float:
    """The least that holds `COVERAGE` of them and of one more like them (split conformal prediction)."""
    ordered = sorted(distances)
    return ordered[min(len(ordered) - 1, math.ceil((len(ordered) + 1) * COVERAGE) - 1)]


def bound_of_tables(tables: Collection[Sequence[float]]) -> float:
    """The least that holds `COVERAGE` of the distances where each table counts the same, however many it has."""
    ordered = sorted((distance, 1 / len(table) / len(tables)) for table in tables for distance in table)
    shares = accumulate(share for _, share in ordered)
    return next((d for (d, _), held in zip(ordered, shares, strict=True) if held * ROUNDED >= COVERAGE), ordered[-1][0])

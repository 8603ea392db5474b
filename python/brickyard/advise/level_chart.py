"""Duty: the chart of RAID levels (Demartek 2009), computed: transactions, capacity, failure and rebuild.

Levels are compared at the same usable capacity, four drives' worth: 4 drives at RAID-0, 5 at RAID-5, 6 at RAID-6, 8 at
RAID-10; a pair at RAID-1 counts as one drive's worth. The study compared so (8 drives at RAID-10 with 5 at RAID-5), and
the price of the additional drives has a criterion of its own, capacity. Each is done with both drives of the study, SAS
and SATA, on its controller, under the mix of its Jetstress runs: random 8 KiB, 51 % reads (123.4 reads and 118.9 writes
a second), four requests in flight for each drive's worth of data.

- transactional I/O: requests a second for each drive's worth of data;
- capacity: the usable share of what was bought;
- failure and rebuild: requests a second for each drive's worth of data while a member is rebuilt, times the chance that
  the rebuild comes to its end (`lifetime.rebuild_fails`: a further failure while it lasts, at the pace of that very
  rebuild, or a sector that cannot be read), which is what a failure leaves of the brick on the average; 0 where it
  loses the volume.

A figure's share of the best level's, averaged over both drives, becomes a rating: Best from 90 % on, Good from 80 %,
Moderate from 60 %, Poor below. These steps fit capacities, where there is nothing to argue. But ratings are an order
and claim no ratio, so what counts is another figure: of all pairs of levels that are rated differently as published,
how many are ordered alike with both drives. PublishedRating ties claim nothing.

Refusal: no weights are made up to join the criteria.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations

from brickyard.advise import parts as parts_of
from brickyard.advise.chart_loads import plan
from brickyard.advise.lifetime import DEFAULT_MTTF_HOURS, rebuild_fails, simulated_rebuild_hours, unreadable
from brickyard.advise.simulate import Brick, rates, simulate
from brickyard.schema import Document

RATINGS = (("Best", 0.9), ("Good", 0.8), ("Moderate", 0.6), ("Poor", 0.0))
ORDER = [name for name, _ in RATINGS]
DRIVES, KEEPER = {"SAS": "cheetah-15k5-300", "SATA": "barracuda-7200-11-500"}, "intel-srcasj4"
"""What Demartek measured with in 2009, whose chart this is."""
MEMBERS = {"raid0": (4, 4), "raid1": (2, 1), "raid5": (5, 4), "raid6": (6, 4), "raid10": (8, 4)}
"""Drives, and how many drives' worth of data they hold."""
READ_PERCENT, IN_FLIGHT = 51.0, 4
FILLING_S = 600  # for one drive's worth of data, a quarter for four: longer changes no rate by more than the noise
TRANSACTIONS, CAPACITY, FAILURE = "transactional I/O", "capacity", "failure and rebuild"
CRITERIA = (TRANSACTIONS, CAPACITY, FAILURE)
PER_DATA, PER_DRIVE = "at the same usable capacity", "at the same number of drives"


@dataclass(frozen=True)
class LevelFigures:
    """Of one level with one drive: requests a second for each drive's worth of data, the chance that a rebuild fails,
    the usable share, and how long the simulated rebuild takes beside this load; None where nothing is rebuilt."""

    normal: float
    rebuilding: float
    rebuild_fails: float
    capacity: float
    rebuild_hours: float | None = None

    def figure(self, criterion: str, basis: str = PER_DATA) -> float:
        if criterion == CAPACITY:
            return self.capacity
        rate = self.normal if criterion == TRANSACTIONS else self.rebuilding * (1 - self.rebuild_fails)
        return rate * (self.capacity if basis == PER_DRIVE else 1.0)


Figures = dict[str, dict[str, LevelFigures]]
"""By drive (SAS, SATA), then by level."""


def level_figures(level: str, drive: str) -> LevelFigures:
    count, worth = MEMBERS[level]
    text = f'title = "{level}"\ndrive = "{drive}"\ncontroller = "{KEEPER}"\nlevel = "{level}"\nmembers = {count}\n'
    brick = Brick("chart", text)
    resolved = brick.resolve()
    seconds, warmup = 200 // worth, FILLING_S // worth
    load = plan("transactions", "8KiB", "random", IN_FLIGHT * worth, reads=READ_PERCENT, seconds=seconds, warmup=warmup)
    beside = None if level == "raid0" else simulate(load, brick, "rebuilding")
    repair = None if beside is None else simulated_rebuild_hours(resolved.brick, beside)
    capacity = float(Brick(drive).resolve().capacity_bytes)
    bits = parts_of.shipped()[f"drives/{drive}"].bits_per_read_error
    return LevelFigures(
        normal=rates(simulate(load, brick))[0] / worth,
        rebuilding=0.0 if beside is None else rates(beside)[0] / worth,
        rebuild_fails=rebuild_fails(level, count, DEFAULT_MTTF_HOURS, repair or 0.0, unreadable(capacity, bits)),
        capacity=float(resolved.capacity_bytes) / (capacity * count),
        rebuild_hours=repair,
    )


def compute() -> Figures:
    todo = [(kind, level) for kind in DRIVES for level in MEMBERS]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        done = list(pool.map(lambda item: level_figures(item[1], DRIVES[item[0]]), todo))
    found: Figures = {kind: {} for kind in DRIVES}
    for (kind, level), figures in zip(todo, done, strict=True):
        found[kind][level] = figures
    return found


def rating(share: float) -> str:
    """The rating of a figure by its share of the best one."""
    return next(name for name, least in RATINGS if share >= least)


def share(figures: Figures, level: str, criterion: str) -> float:
    """Of the best level's figure, averaged over the drives."""
    parts = [
        levels[level].figure(criterion) / max(other.figure(criterion) for other in levels.values())
        for levels in figures.values()
    ]
    return sum(parts) / len(parts)


@dataclass(frozen=True)
class Ordered:
    """Pairs of levels that are rated differently as published, and which of them the models order otherwise."""

    criterion: str
    basis: str
    pairs: int
    against: tuple[tuple[str, str, tuple[str, ...]], ...]
    """(published as better, than, with which drives it is not)."""

    @property
    def agree(self) -> int:
        return self.pairs - len(self.against)

    def document(self) -> Document:
        return {
            "criterion": self.criterion,
            "basis": self.basis,
            "pairs": self.pairs,
            "agree": self.agree,
            "against": [
                {"published_better": better, "published_worse": worse, "drives": list(kinds)}
                for better, worse, kinds in self.against
            ],
        }


@dataclass(frozen=True)
class PublishedRating:
    """One rating of a study's chart."""

    study: str
    chart: str
    item: str
    criterion: str
    rating: str


def ordered(figures: Figures, published: dict[str, str], criterion: str, basis: str = PER_DATA) -> Ordered:
    """Holds the order of the figures against that of the published ratings of levels."""
    claims = [
        (a, b) if ORDER.index(published[a]) < ORDER.index(published[b]) else (b, a)
        for a, b in combinations(published, 2)
        if published[a] != published[b]
    ]
    found: Callable[[str, str, str], bool] = lambda kind, better, worse: (  # noqa: E731
        figures[kind][better].figure(criterion, basis) > figures[kind][worse].figure(criterion, basis)
    )
    against = [
        (better, worse, tuple(kind for kind in figures if not found(kind, better, worse))) for better, worse in claims
    ]
    return Ordered(criterion, basis, len(claims), tuple(item for item in against if item[2]))


def all_ordered(figures: Figures, facts: Sequence[PublishedRating]) -> list[Ordered]:
    """Every criterion on both bases; capacity has no basis."""
    found = []
    for criterion in CRITERIA:
        said = {level_of(fact.item): fact.rating for fact in facts if fact.criterion == criterion}
        found += [
            ordered(figures, said, criterion, basis)
            for basis in ((PER_DATA,) if criterion == CAPACITY else (PER_DATA, PER_DRIVE))
        ]
    return found


def level_of(item: str) -> str:
    return item.lower().replace(" ", "")

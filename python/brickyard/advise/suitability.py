"""Duty: the suitability chart (Overland 2007), computed: which class of drives does for which application.

For each class a drive that we ship, all behind the same controller (Overland's) and at the redundant levels; for each
application a load and what is asked of it, in normal condition and while a member is rebuilt:

- *high-end OLTP*: the guide's OLTP mix (random, 4 to 64 KiB, 20 % writes) from its 16 threads, each of which waits for
  its own request; mean response of reads and of writes within 10 ms; mean time to data loss 100 years;
- *mid-range OLTP*: the same load; within 50 ms; 100 years;
- *nearline sequential*: the guide's large files (sequential, 256 KiB to 2 MiB, 10 % writes); 120 MB/s, so that one
  LTO-4 drive streams; 10 years, since what is nearline is a second copy;
- all three: room for 3.3 TB (as printed, so 3.25 is enough), the database of TerraServer (MSR TR-2003-70).

With T threads that wait, a mean of R is a rate of T / R: 1,600 requests a second are asked at 10 ms, 320 at 50 ms.
These are the two ends of the scale that Microsoft gave for SQL Server 2005: below 10 ms very good, above 50 ms a
serious bottleneck (Troubleshooting Performance Problems in SQL Server 2005). The guide's text has each transaction
read its value again; here it does not, because that read comes out of a cache and would halve the mean.

For every level, the smallest count of drives up to 48 is sought that has the room, lasts long enough (`lifetime`:
further failures and unreadable sectors during the rebuild) and meets the rest. The level with the lowest cost is the
class's offer. Cost is drives times price. No price of these classes was published in any of the studies, so prices are
relative assumptions that the user can change, and shelf and controller, the same for all, are left out. Then

- NO: no level and no count meets what is asked;
- NO (cost): another class meets it for less than half of the cost;
- YES with RAID 6: of the levels that could take the drives of the offer, only this one lasts long enough;
- YES: else.

One rule for all nine cells; nothing is set for a single one. `flips_at` is the price at which a verdict would turn.

Refusal: what an interface costs beside its drives (host adapters, switches, what a data centre has already) is not
known here and weighs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property

from brickyard import profiles
from brickyard.advise import parts as parts_of
from brickyard.advise.chart_loads import plan
from brickyard.advise.costs import HOURS_A_YEAR
from brickyard.advise.lifetime import (
    DEFAULT_MTTF_HOURS,
    data_loss_hours,
    simulated_rebuild_hours,
    unreadable,
)
from brickyard.advise.simulate import Brick, rates, simulate
from brickyard.analysis.judging.verdict import verdict
from brickyard.errors import BadInputError
from brickyard.rulers import Requirement, Ruler
from brickyard.schema import Document
from brickyard.schema.plan import Plan

KEEPER = "overland-ultamus"
LEVELS = ("raid5", "raid6", "raid10", "raid1")
COUNTS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 28, 32, 36, 40, 44, 48)
"""Up to four shelves of twelve."""
TOO_DEAR = 0.5
"""NO (cost) where another class costs less than this part; an assumption, `--dear` changes it."""
CONDITIONS = ("rebuilding", "normal")  # the harder one first


@dataclass(frozen=True)
class DriveClass:
    """A class of the chart. `word` names it on the command line; `price` is for one drive."""

    item: str
    word: str
    drive: str
    price: float


CLASSES = (
    DriveClass("Fibre Channel", "fc", "cheetah-15k5-300-fc", 3.0),
    DriveClass("SAS", "sas", "cheetah-15k5-300", 2.5),
    DriveClass("SATA II", "sata", "barracuda-es-750", 1.0),
)
PRICES_FROM = (
    "assumed: SAS at 15,000 rpm as 2.5 SATA drives, between 1.6 in a vendor's list for one shelf of 2010 (717 and 439 "
    "USD) and 6.6 at retail; FC a fifth above SAS"
)
"""The list prices: EMC AX4, as quoted by TechRepublic, Storage array capacity: performance vs. cost (2010). The retail
prices: Server Fault, Why is enterprise storage so expensive: Cheetah 440 USD, Barracuda 67 USD."""


@dataclass(frozen=True)
class Application:
    """A column of the chart and what is asked; either a response time or a rate in bytes."""

    criterion: str
    word: str
    response_ns: float | None
    bytes_per_s: float | None
    capacity_bytes: int
    loss_years: float

    @cached_property
    def load(self) -> Plan:
        if self.response_ns is None:
            return profiles.validate(profiles.read("overland-large-file"), ["duration=15s", "warmup=20s"])
        sizes = ("4KiB", "8KiB", "16KiB", "32KiB", "64KiB")
        return plan("OLTP", sizes, "random", 1, reads=80, workers=THREADS, seconds=15, warmup=60)

    @property
    def ruler(self) -> Ruler:
        if self.response_ns is None:
            assert self.bytes_per_s is not None
            needs: tuple[Requirement, ...] = (Requirement("throughput", "throughput", self.bytes_per_s),)
        else:
            needs = tuple(
                Requirement(f"{operation}, mean", "mean", self.response_ns, operation=operation)
                for operation in ("read", "write")
            )
        return Ruler(self.criterion, self.criterion, "", "", needs)

    @property
    def asked(self) -> str:
        if self.response_ns is not None:
            rate = THREADS * 1e9 / self.response_ns
            need = f"{THREADS} threads, mean ≤ {self.response_ns / 1e6:g} ms ({rate:,.0f} requests/s)"
        else:
            need = f"{(self.bytes_per_s or 0) / 1e6:g} MB/s"
        return f"{need}, {self.capacity_bytes / 1e12:g} TB, {self.loss_years:g} years to data loss"


THREADS = 16
ROOM_BYTES = 3_250_000_000_000
APPLICATIONS = (
    Application("high-end OLTP", "high-end", 10e6, None, ROOM_BYTES, 100),
    Application("mid-range OLTP", "mid-range", 50e6, None, ROOM_BYTES, 100),
    Application("nearline sequential", "nearline", None, 120e6, ROOM_BYTES, 10),
)


@dataclass(frozen=True)
class Offer:
    """The cheapest brick of a class that meets what is asked of it. `value` is the figure while it is rebuilt."""

    level: str
    members: int
    cost: float
    value: float
    loss_years: float
    lasting: tuple[str, ...]
    """The levels that last long enough with so many drives, or with the next number that they take."""

    @property
    def name(self) -> str:
        return f"{self.members} drives, {level_name(self.level)}"


def level_name(level: str) -> str:
    return level.upper().replace("RAID", "RAID ")


@dataclass(frozen=True)
class Suited:
    """The verdict on one class for one application. `flips_at` is the price of the class's own drive at which YES
    becomes NO (cost) or the reverse, the other prices as they are; None where price decides nothing."""

    item: str
    application: Application
    offer: Offer | None
    verdict: str
    flips_at: float | None
    nearest: float | None
    """Where nothing meets it: the best figure while rebuilding that was seen."""

    def document(self) -> Document:
        return {
            "item": self.item,
            "criterion": self.application.criterion,
            "asked": self.application.asked,
            "verdict": self.verdict,
            "offer": None if self.offer is None else {**self.offer.__dict__, "lasting": list(self.offer.lasting)},
            "flips_at_price": self.flips_at,
            "nearest": self.nearest,
        }


@dataclass(frozen=True)
class Assumed:
    """Everything that the user may change."""

    classes: tuple[DriveClass, ...] = CLASSES
    applications: tuple[Application, ...] = APPLICATIONS
    too_dear: float = TOO_DEAR


def assumed(prices: Mapping[str, float], responses: Mapping[str, float], too_dear: float = TOO_DEAR) -> Assumed:
    """The assumptions with the user's own: prices by fc, sas, sata; response limits in ns by high-end, mid-range."""
    _known("--price", prices, [c.word for c in CLASSES])
    _known("--response", responses, [a.word for a in APPLICATIONS if a.response_ns is not None])
    if wrong := [word for word, price in prices.items() if not 0 < price < float("inf")]:
        raise BadInputError(f"--price {wrong[0]}: must be above 0")
    if wrong := [word for word, limit in responses.items() if limit <= 0]:
        raise BadInputError(f"--response {wrong[0]}: must be above 0")
    if not 0 < too_dear <= 1:
        raise BadInputError(f"--dear {too_dear:g}: a part of a cost, above 0 and at most 1")
    return Assumed(
        tuple(replace(c, price=prices.get(c.word, c.price)) for c in CLASSES),
        tuple(replace(a, response_ns=responses.get(a.word, a.response_ns)) for a in APPLICATIONS),
        too_dear,
    )


def _known(option: str, given: Mapping[str, float], words: list[str]) -> None:
    if wrong := sorted(set(given) - set(words)):
        raise BadInputError(f"{option} {wrong[0]}: there are {', '.join(words)}")


def brick(drive: str, level: str, members: int) -> Brick:
    text = f'title = "{level}"\ndrive = "{drive}"\ncontroller = "{KEEPER}"\nlevel = "{level}"\nmembers = {members}\n'
    return Brick("chart", text)


@cache
def loss_years(drive: str, level: str, members: int, application: Application) -> float | None:
    """Mean time to data loss; None where the level takes no such count, or no count of it has the room."""
    least = _least(drive, level, application.capacity_bytes)
    if least is None or not _takes(level, members):
        return None
    hours = data_loss_hours(level, members, DEFAULT_MTTF_HOURS, *_repair(drive, level, least, application))
    return hours / HOURS_A_YEAR


@cache
def _least(drive: str, level: str, capacity_bytes: int) -> int | None:
    """The fewest drives that have the room: of more, each has less to do, and its rebuild is no slower."""
    counts = [n for n in COUNTS if _takes(level, n) and _room_bytes(drive, level, n) >= capacity_bytes]
    return min(counts, default=None)


@cache
def _repair(drive: str, level: str, members: int, application: Application) -> tuple[float, float]:
    """How long the simulated rebuild takes beside the load, and the chance that a drive has an unreadable sector."""
    candidate = brick(drive, level, members)
    hours = simulated_rebuild_hours(candidate.resolve().brick, simulate(application.load, candidate, "rebuilding"))
    bits = parts_of.shipped()[f"drives/{drive}"].bits_per_read_error
    return hours, unreadable(float(brick(drive, "raid1", 2).resolve().capacity_bytes), bits)


@cache
def _room_bytes(drive: str, level: str, members: int) -> int:
    return brick(drive, level, members).resolve().capacity_bytes


def _takes(level: str, members: int) -> bool:
    if level == "raid1":
        return members == 2
    least = {"raid10": 4, "raid5": 3, "raid6": 4}[level]
    return members >= least and (level != "raid10" or members % 2 == 0)


def _candidates(drive: str, level: str, application: Application) -> Iterator[tuple[int, float]]:
    """Counts that have the room and last long enough, with their mean time to data loss."""
    for members in COUNTS:
        years = loss_years(drive, level, members, application)
        if years is None or years < application.loss_years:
            continue
        if _room_bytes(drive, level, members) >= application.capacity_bytes:
            yield members, years


@dataclass(frozen=True)
class Sought:
    offer: Offer | None
    nearest: float | None


def seek(kind: DriveClass, application: Application) -> Sought:
    """The cheapest offer of a class, over all levels.

    Of a level, the smallest count is tried first and then the largest: where that is not enough, none is. Then what
    lies between is halved.
    """
    best: Offer | None = None
    seen: list[float] = []
    for level in LEVELS:
        counts = dict(_candidates(kind.drive, level, application))
        left = [members for members in counts if best is None or members < best.members]
        order = [min(left), max(left)] if left else []
        while left:
            tried = order.pop(0) if order else left[len(left) // 2]
            value, met = _tried(brick(kind.drive, level, tried), application)
            seen.append(value)
            if met:
                best = Offer(level, tried, tried * kind.price, value, counts[tried], ())
                left = [members for members in left if members < tried]
            else:
                left = [members for members in left if members > tried and tried != max(counts)]
    if best is None:
        lower_is_better = application.response_ns is not None
        return Sought(None, (min(seen) if lower_is_better else max(seen)) if seen else None)
    lasting = tuple(level for level in LEVELS if _lasts(kind.drive, level, best.members, application))
    return Sought(replace(best, lasting=lasting), None)


def _lasts(drive: str, level: str, members: int, application: Application) -> bool:
    """With so many drives, or one more where the level takes only even numbers."""
    years = loss_years(drive, level, members, application) or loss_years(drive, level, members + 1, application)
    return years is not None and years >= application.loss_years


def _tried(candidate: Brick, application: Application) -> tuple[float, bool]:
    """The figure while a member is rebuilt, and whether both conditions meet what is asked."""
    value = 0.0
    for condition in CONDITIONS:
        record = simulate(application.load, candidate, condition)
        found = verdict(record, application.ruler)
        if condition == CONDITIONS[0]:
            value = found.decided.value or 0.0
            if application.response_ns is None:
                value = rates(record)[1]
        if not found.passed:
            return value, False
    return value, True


def compute(given: Assumed) -> list[Suited]:
    """Every class for every application."""
    todo = [(kind, application) for application in given.applications for kind in given.classes]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        sought = list(pool.map(lambda item: seek(*item), todo))
    found = {
        (kind.item, application.criterion): item for (kind, application), item in zip(todo, sought, strict=True)
    }  # fmt: skip
    return judge(given, found)


def judge(given: Assumed, found: Mapping[tuple[str, str], Sought]) -> list[Suited]:
    """The rule: NO, NO (cost), YES with a level, YES."""
    suited = []
    for application in given.applications:
        costs = {
            kind.item: offer.members * kind.price
            for kind in given.classes
            if (offer := found[kind.item, application.criterion].offer) is not None
        }
        for kind in given.classes:
            item = found[kind.item, application.criterion]
            if item.offer is None:
                suited.append(Suited(kind.item, application, None, "NO", None, item.nearest))
                continue
            offer = replace(item.offer, cost=costs[kind.item])
            cheapest = min((cost for name, cost in costs.items() if name != kind.item), default=None)
            flips_at = None if cheapest is None else cheapest / given.too_dear / offer.members
            verdict_word = "YES"
            if cheapest is not None and cheapest < given.too_dear * offer.cost:
                verdict_word = "NO (cost)"
            elif offer.lasting == (offer.level,):
                verdict_word = f"YES with {level_name(offer.level)}"
            suited.append(Suited(kind.item, application, offer, verdict_word, flips_at, None))
    return suited

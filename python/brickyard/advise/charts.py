"""Duty: the rule-of-thumb charts of the studies, computed from the models and held next to the published ratings.

RAID levels. Eight drives at each level (two for RAID-1) under random 8 KiB requests, two reads to one write, four in
flight for each drive, and the figures per drive, so that levels of different size can be compared:

- transactional I/O: requests a second for each drive;
- capacity: the usable share;
- failure and rebuild: requests a second for each drive while a member is rebuilt; 0 where a failure loses the volume.

A figure becomes a rating by its share of the best level's: Best from 90 % on, Good from 80 %, Moderate from 60 %, Poor
below. The steps follow from the capacities of eight drives, where there is nothing to argue (87.5 % is Good, 75 %
Moderate, 50 % Poor as published), and are used unchanged for the rest.

Drives. One drive by itself: the mean service time of random 512 B reads, one at a time, without half a rotation and the
command, is its seek; sequential reads of 1 MiB give the transfer rate at its first and its last per cent; random 8 KiB
reads, four in flight, the I/Os per second. A computed figure agrees with a published range when it touches it, and with
a single published figure when it is within 25 %: the guides round that much.

Refusal: a class without a modelled drive has no figure, and suitability is not computed: it says what people pay for.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import resources

from brickyard import profiles
from brickyard.advise.simulate import FILL_S, Brick, rates, simulate
from brickyard.analysis.totals import totals
from brickyard.store import Json
from brickyard.units import three_digits

RATINGS = (("Best", 0.9), ("Good", 0.8), ("Moderate", 0.6), ("Poor", 0.0))
DRIVE, KEEPER, MEMBERS = "cheetah-15k5-300", "intel-srcasj4", 8
"""The SAS drive and the controller with which Demartek measured in 2009, whose charts these are."""
AGREES_WITHIN = 0.25
CLASSES = {
    "Enterprise": ("cheetah-15k4-300", "cheetah-15k5-300"),
    "Desktop": ("barracuda-7200-11-500", "barracuda-es-750"),
    "ATA/IDE": ("deskstar-75gxp", "fireball-plus-60"),
    "SATA II": ("barracuda-es-500", "barracuda-es-750"),
    "SCSI": ("cheetah-x15",),
    "SAS": ("cheetah-15k4-300", "cheetah-15k5-300"),
    "FC": ("cheetah-10k-36-fc",),
}
"""Modelled drives of the classes and interfaces that the charts speak of, as near to their years as there are."""

LOAD = """title = "{title}"
[[phase]]
name = "measure"
duration = "{seconds}s"
warmup = "{warmup}s"
[[phase.stream]]
name = "load"
operations = {{ read = {reads}, write = {writes} }}
request = "{size}"
address = "{address}"
region = "{region}"
depth = {depth}
"""


@dataclass(frozen=True)
class Cell:
    """One published rating with its computed counterpart; both texts are as they are shown."""

    study: str
    chart: str
    item: str
    criterion: str
    published: str
    computed: str | None
    figure: str
    agrees: bool | None

    def document(self) -> Json:
        return dict(self.__dict__)


def published() -> list[dict[str, str]]:
    text = (resources.files("brickyard.advise") / "advice_charts.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def rating(share: float) -> str:
    """The rating of a figure by its share of the best one."""
    return next(name for name, least in RATINGS if share >= least)


def plan(
    title: str,
    size: str,
    address: str,
    depth: int,
    *,
    reads: float = 100,
    region: str = "0..100%",
    seconds: int = 20,
    warmup: int = 2,
) -> str:
    text = LOAD.format(
        title=title,
        size=size,
        address=address,
        depth=depth,
        reads=reads,
        writes=100 - reads,
        region=region,
        seconds=seconds,
        warmup=warmup,
    )
    return profiles.validate(profiles.ProfileText(title, text, ""), [])


@dataclass(frozen=True)
class LevelFigures:
    """Of one RAID level: requests a second for each drive, and the usable share."""

    normal: float
    rebuilding: float
    capacity: float


def level_figures(level: str) -> LevelFigures:
    count = 2 if level == "raid1" else MEMBERS
    text = f'title = "{level}"\ndrive = "{DRIVE}"\ncontroller = "{KEEPER}"\nlevel = "{level}"\nmembers = {count}\n'
    brick = Brick("chart", text)
    alone = Brick(DRIVE).resolve()["capacity_bytes"]
    load = plan("transactions", "8KiB", "random", 4 * count, reads=66.7, seconds=60, warmup=FILL_S)
    normal = rates(simulate(load, brick))[0] / count
    rebuilding = 0.0 if level == "raid0" else rates(simulate(load, brick, "rebuilding"))[0] / count
    return LevelFigures(normal, rebuilding, brick.resolve()["capacity_bytes"] / (alone * count))


@dataclass(frozen=True)
class DriveFigures:
    seek_ms: float
    transfer_mb_per_s: tuple[float, float]
    ios_per_s: float
    interface_mb_per_s: float


@cache
def drive_figures(name: str) -> DriveFigures:
    brick = Brick(name)
    drive = brick.resolve()["brick"]["drive"]
    from brickyard import _core

    single = totals(simulate(plan("seeks", "512", "random", 1), brick))[0].measures["service"].mean_ns
    half_rotation_ns = 60e9 / float(drive["rpm"]) / 2
    seek_ns = single - half_rotation_ns - _core.parse_duration_ns(drive["command_overhead"])
    ends = [
        rates(simulate(plan("transfer", "1MiB", "sequential", 2, region=region, seconds=5), brick))[1] / 1e6
        for region in ("99%..100%", "0..1%")
    ]
    ios = rates(simulate(plan("reads", "8KiB", "random", 4), brick))[0]
    return DriveFigures(seek_ns / 1e6, (min(ends), max(ends)), ios, float(drive["interface_mb_per_s"]))


def compute(progress: Callable[[int, int], None]) -> list[Cell]:
    """Every published rating with what the models say to it."""
    facts = published()
    names = ("raid0", "raid1", "raid5", "raid6", "raid10")
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        levels = dict(zip(names, pool.map(level_figures, names), strict=True))
    found = []
    for number, fact in enumerate(facts, 1):
        found.append(_level_cell(fact, levels) if fact["chart"] == "RAID" else _drive_cell(fact))
        progress(number, len(facts))
    return found


def _level_cell(fact: dict[str, str], levels: dict[str, LevelFigures]) -> Cell:
    figure_of: Callable[[LevelFigures], float] = {
        "transactional I/O": lambda f: f.normal,
        "capacity": lambda f: f.capacity,
        "failure and rebuild": lambda f: f.rebuilding,
    }[fact["criterion"]]
    value = figure_of(levels[fact["item"].lower().replace(" ", "")])
    computed = rating(value / max(figure_of(figures) for figures in levels.values()))
    text = f"{value:.1%}" if fact["criterion"] == "capacity" else f"{three_digits(value)} requests/s a drive"
    return _cell(fact, computed, text, computed == fact["rating"])


def _drive_cell(fact: dict[str, str]) -> Cell:
    drives = CLASSES.get(fact["item"], ())
    if fact["chart"] == "suitability":
        return _cell(fact, None, "not computed: it weighs costs", None)
    if not drives:
        return _cell(fact, None, "no drive of this class is modelled", None)
    figures = [drive_figures(name) for name in drives]
    if fact["criterion"] == "average seek ms":
        values = [f.seek_ms for f in figures]
    elif fact["criterion"] == "I/Os per s":
        values = [f.ios_per_s for f in figures]
    elif fact["chart"] == "interface":
        values = [f.interface_mb_per_s for f in figures]
    else:
        values = [end for f in figures for end in f.transfer_mb_per_s]
    low, high = min(values), max(values)
    text = three_digits(low) if three_digits(low) == three_digits(high) else f"{three_digits(low)}-{three_digits(high)}"
    return _cell(fact, text, ", ".join(drives), agrees(low, high, fact["rating"]))


def agrees(low: float, high: float, said: str) -> bool:
    """Whether a computed range touches a published one, or comes within 25 % of a single figure."""
    ends = [float(word) for word in said.split("-")]
    slack = AGREES_WITHIN if len(ends) == 1 else 0.0
    return low <= ends[-1] * (1 + slack) and high >= ends[0] * (1 - slack)


def _cell(fact: dict[str, str], computed: str | None, figure: str, agreed: bool | None) -> Cell:
    return Cell(fact["study"], fact["chart"], fact["item"], fact["criterion"], fact["rating"], computed, figure, agreed)


def document(cells: list[Cell]) -> Json:
    judged = [cell for cell in cells if cell.agrees is not None]
    return {
        "rule": {"shares_of_the_best": dict(RATINGS), "single_figures_within": AGREES_WITHIN},
        "agree": sum(cell.agrees is True for cell in judged),
        "compared": len(judged),
        "cells": [cell.document() for cell in cells],
    }

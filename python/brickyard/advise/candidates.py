"""Duty: what can be put together from parts: drives on controllers or software by level and count, and cloud volumes by
size and rates.

Refusal: nothing is simulated here. Volumes of a provider are mirrored by it, so they are striped where one does not
suffice, and never put into a level with redundancy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from brickyard import bricks
from brickyard.advise.costs import TERMS, PricedSetting, Terms, fitted, total_usd, usd_a_month
from brickyard.advise.parts import UNPROTECTED, Part, Parts
from brickyard.advise.simulate import Brick, capacity_of, drive_kind
from brickyard.bricks import condition_override
from brickyard.bricks.resolved import Resolved
from brickyard.errors import BadInputError
from brickyard.schema.plan import Plan, Stream
from brickyard.units import GIB

MIRROR = 2
STRIPED_OVER_CONTROLLERS = ("raid0", "raid10", "jbod")  # parity is kept by one controller, stripes of mirrors need none
MEMBERS = tuple(range(1, 61))
"""Every count up to the largest common enclosure: one between two others may be the least that suffices."""
MOST_CONTROLLERS = 4
MOST_ARMS = 4  # of one mirror; more than that nobody builds
VOLUMES = (1, 2, 3, 4, 6, 8)  # volumes in a stripe, where one does not suffice
STEP = 1.08  # between the rates that a volume is offered with
DRAID_SPARES = 1  # what a dRAID is bought for: a distributed spare
SOFTWARE = Part("linux-md", 0.0, "part of the operating system")


@dataclass(frozen=True)
class Candidate:
    """A brick that could be bought, or rented by the month."""

    drive: Part
    keeper: Part
    level: str
    members: int
    controllers: int = 1
    software: bool = False
    setting: PricedSetting | None = None
    terms: Terms = TERMS

    @property
    def name(self) -> str:
        if self.setting is not None:
            many = f"{self.members} × " if self.members > 1 else ""
            return f"{many}{self.drive.name} ({self.setting_words}){', raid0' if self.members > 1 else ''}"
        many = f"{self.controllers} × " if self.controllers > 1 else ""
        return f"{self.members} × {self.drive.name}, {self.level}, {many}{self.keeper.name}"

    @property
    def setting_words(self) -> str:
        return self.setting.words(self.drive.volume) if self.setting and self.drive.volume else ""

    @property
    def family(self) -> object:
        """What differs by size alone has the same one."""
        return (self.drive, self.keeper, self.level if self.setting is None else "", self.software)

    @property
    def usd(self) -> float | None:
        """What is paid once."""
        if self.setting is not None:
            return 0.0
        if self.drive.usd is None or self.keeper.usd is None:
            return None
        return self.members * self.drive.usd + self.controllers * self.keeper.usd

    @property
    def usd_a_month(self) -> float:
        if self.setting is not None and self.drive.volume is not None:
            return self.members * usd_a_month(self.drive.volume, self.setting)
        return self.members * self.drive.usd_a_month + self.controllers * self.keeper.usd_a_month

    @property
    def watts(self) -> float:
        return self.members * (self.drive.watts or 0.0) + self.controllers * (self.keeper.watts or 0.0)

    @property
    def cost_usd(self) -> float | None:
        """All of it over the time of the terms."""
        return None if self.usd is None else total_usd(self.terms, self.usd, self.usd_a_month, self.watts)

    @property
    def parts(self) -> list[Part]:
        """What is paid for."""
        return [self.drive] if self.setting is not None else [self.drive, self.keeper]

    @property
    def assumed_prices(self) -> list[str]:
        """The parts whose price is nobody's offer."""
        return [part.name for part in self.parts if part.priced and part.usd != 0 and part.is_assumed]

    @property
    def dollars(self) -> float:
        """The price as it is shown: what differs by less than a dollar is of one price to a reader. Without a price,
        it is beyond all others."""
        return math.inf if self.cost_usd is None else round(self.cost_usd)

    @cached_property
    def drive_kind(self) -> str:
        return drive_kind(self.brick)

    @cached_property
    def brick(self) -> Brick:
        role = "software" if self.software else "controller"
        drive = self.drive.drive or self.drive.name
        text = (
            f'title = "{self.name}"\ndrive = "{drive}"\n{role} = "{self.keeper.name}"\n'
            f'level = "{self.level}"\nmembers = {self.members}\ncontrollers = {self.controllers}\n'
        )
        if self.level.startswith("draid"):
            text += f"draid_spares = {DRAID_SPARES}\n"
        if self.setting is not None and self.drive.volume is not None:
            mb_per_s = self.setting.throughput * self.drive.volume.unit_bytes / 1e6
            text += (
                f"[changes.drive]\ncapacity_bytes = {self.setting.gib * GIB}\niops = {self.setting.iops}\n"
                f'mb_per_s = {mb_per_s}\n[basis.drive]\ncapacity_bytes = "derived: chosen"\n'
                'iops = "derived: chosen"\nmb_per_s = "derived: chosen"\n'
            )
        named = {drive, self.keeper.name}
        texts = {place: known for place, known in bricks.texts().items() if place.split("/", 1)[1] in named}
        return Brick("candidate", None, {**texts, "arrays/candidate": text})

    @cached_property
    def resolved(self) -> Resolved:
        return self.brick.resolve()

    @cached_property
    def capacity_bytes(self) -> int:
        return capacity_of(self.brick)

    @cached_property
    def drive_bytes(self) -> float:
        if self.setting is not None:
            return float(self.setting.gib * GIB)
        return float(capacity_of(Brick(self.drive.drive or self.drive.name)))


def candidates(
    parts: Parts,
    levels: Sequence[str],
    members: Sequence[int],
    conditions: Sequence[str],
    *,
    terms: Terms = TERMS,
    capacity_bytes: int = 0,
    plan: Plan | None = None,
) -> list[Candidate]:
    """Everything that fits together and that the core takes for a brick in these conditions."""
    found: list[Candidate] = []
    for drive in parts.drives:
        for keeper in parts.controllers:
            if drive.fits and keeper.fits and not set(drive.fits) & set(keeper.fits):
                continue
            software = _is_software(drive, keeper)
            known = _levels_of(drive, levels, keeper)
            for level in known:
                for count in _counts_of(level, members, known):
                    first = Candidate(drive, keeper, level, count, software=software, terms=terms)
                    made = _fitting(first)
                    found += [made] if made is not None else []
    for part in parts.volumes:
        found += _volumes(part, capacity_bytes, plan, terms)
    kept = _conditioned([made for made in found if not made.setting], conditions)
    found = [made for made in found if made.setting or made.family in kept]
    if not found:
        raise BadInputError("no drive of the parts fits a controller of them at these levels, counts and conditions")
    return found


def _levels_of(drive: Part, levels: Sequence[str], keeper: Part) -> list[str]:
    """Cloud volumes that are named as drives are striped at most: their provider mirrors them."""
    allowed = UNPROTECTED if "cloud" in drive.fits else levels
    return [level for level in allowed if level in keeper.levels]


def _counts_of(level: str, members: Sequence[int], levels: Sequence[str]) -> list[int]:
    """A RAID-10 of two is a RAID-1 of two, and no second answer beside it."""
    if level == "raid1":
        return [count for count in members if count <= MOST_ARMS]
    return [count for count in members if not (level == "raid10" and count == MIRROR and "raid1" in levels)]


def _volumes(part: Part, capacity_bytes: int, plan: Plan | None, terms: Terms) -> list[Candidate]:
    """One volume of no more room than is needed with ever higher rates, then stripes of several where one does not do.
    Rates go with the load's mean request; a second row has the most throughput for the least IOPS, as loads whose
    requests are merged need."""
    volume = part.volume
    if volume is None:
        return []
    mean = _mean_request_bytes(plan)
    found: dict[tuple[int, PricedSetting], Candidate] = {}
    for count in VOLUMES:
        each = capacity_bytes / count
        iops = 1.0 * max(volume.base_iops, 1000)
        base = volume.base_throughput * volume.unit_bytes
        most = volume.most_throughput * volume.unit_bytes
        while iops <= volume.most_iops * STEP:
            rate = min(iops, volume.most_iops)
            moved = min(max(base, rate * mean), most)
            paced = fitted(volume, each, rate, moved) if count == 1 or rate > volume.most_iops / 2 else None
            merged = fitted(volume, each, 0, moved) if count == 1 or moved > most / 2 else None
            for setting in (paced, merged):
                if setting is not None:
                    level = "jbod" if count == 1 else "raid0"
                    made = Candidate(part, SOFTWARE, level, count, 1, software=True, setting=setting, terms=terms)
                    found[count, setting] = made
            iops *= STEP
    return list(found.values())


def _mean_request_bytes(plan: Plan | None) -> float:
    streams = [s for phase in plan.phase for s in phase.stream if isinstance(s, Stream)] if plan else []
    means = [sum(item.size * item.share for item in s.request) / 100 for s in streams if s.request]
    return sum(means) / len(means) if means else 4096.0


def _is_software(drive: Part, keeper: Part) -> bool:
    level, count = ("zmirror", 2) if "zmirror" in keeper.levels else ("jbod", 1)
    try:
        found = Candidate(drive, keeper, level, count, software=True).resolved.brick.software
    except BadInputError:
        return False
    return found is not None and found.software


def _conditioned(found: Sequence[Candidate], conditions: Sequence[str]) -> set[object]:
    """The families that can be in each of the conditions: that depends on the level, not on the count."""
    kept: set[object] = set()
    for made in {made.family: made for made in found}.values():
        try:
            for condition in conditions if "cloud" not in made.drive.fits else ("normal",):
                made.brick.resolve([condition_override(condition)])
        except BadInputError:
            continue
        kept.add(made.family)
    return kept


def _fitting(candidate: Candidate) -> Candidate | None:
    """With as few controllers as have the ports; None where no number of them does or the level takes other counts."""
    spread = candidate.level in STRIPED_OVER_CONTROLLERS and not candidate.software
    pair = 2 if candidate.level == "raid10" else 1  # both arms of a mirror are on one controller
    for controllers in range(1, MOST_CONTROLLERS + 1 if spread else 2):
        if not candidate.software and candidate.members % (controllers * pair):
            continue
        made = replace(candidate, controllers=controllers)
        try:
            made.capacity_bytes  # noqa: B018  # what the core refuses is no brick
        except BadInputError:
            continue
        return made
    return None

"""Duty: what a brick costs over a stated time: what is paid once, every month, and for power; and what a cloud volume
of some size and rates costs a month.

Refusal: no price is known here, and none is guessed; what is not stated costs nothing and is named by whoever asks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from brickyard.units import GIB

MONTHS_A_YEAR = 12
HOURS_A_YEAR = 8766.0
UNITS = {"MiB": 1 << 20, "MB": 1_000_000}


@dataclass(frozen=True)
class Terms:
    """The time over which costs are summed, and what a kilowatt hour costs with its cooling."""

    years: float = 3.0
    usd_a_kwh: float = 0.15


TERMS = Terms()


@dataclass(frozen=True)
class Volume:
    """What a provider sells by the month: a volume whose size and rates are chosen. `throughput` is in `unit_bytes` a
    second."""

    least_gib: float
    most_gib: float
    base_iops: float
    most_iops: float
    iops_a_gib: float
    base_throughput: float
    most_throughput: float
    throughput_an_iops: float
    unit_bytes: int
    usd_a_gib_month: float
    usd_an_iops_month: tuple[tuple[float, float], ...]
    usd_a_throughput_month: float
    throughput_follows_iops: bool = False
    """Whether throughput comes with the provisioned IOPS and is not chosen."""
    limits_from: str = ""


@dataclass(frozen=True)
class PricedSetting:
    """The size and the rates that a volume is given."""

    gib: int
    iops: int
    throughput: float

    def words(self, volume: Volume) -> str:
        unit = next(name for name, size in UNITS.items() if size == volume.unit_bytes)
        return f"{self.gib:,} GiB, {self.iops:,} IOPS, {self.throughput:,.0f} {unit}/s"


def fitted(volume: Volume, capacity_bytes: float, iops: float, bytes_per_s: float) -> PricedSetting | None:
    """The cheapest setting with these rates and this room, within what the provider allows; None where it does not."""
    throughput = bytes_per_s / volume.unit_bytes
    if volume.throughput_an_iops:
        iops = max(iops, throughput / volume.throughput_an_iops)
    iops = max(volume.base_iops, math.ceil(iops))
    gib = max(volume.least_gib, math.ceil(capacity_bytes / GIB))
    if iops > volume.base_iops:
        gib = max(gib, math.ceil(iops / volume.iops_a_gib))
    if volume.throughput_follows_iops:
        throughput = min(iops * volume.throughput_an_iops, volume.most_throughput)
    throughput = max(volume.base_throughput, throughput)
    too_much = iops > volume.most_iops or throughput > volume.most_throughput + 1e-9 or gib > volume.most_gib
    short = bytes_per_s > throughput * volume.unit_bytes * (1 + 1e-9)
    return None if too_much or short else PricedSetting(math.ceil(gib), math.ceil(iops), round(throughput, 3))


def usd_a_month(volume: Volume, setting: PricedSetting) -> float:
    """Room, and IOPS and throughput beyond what comes with it."""
    usd = setting.gib * volume.usd_a_gib_month
    steps = volume.usd_an_iops_month
    for number, (above, price) in enumerate(steps):
        until = steps[number + 1][0] if number + 1 < len(steps) else math.inf
        usd += max(0.0, min(setting.iops, until) - above) * price
    if not volume.throughput_follows_iops:
        usd += (setting.throughput - volume.base_throughput) * volume.usd_a_throughput_month
    return usd


def total_usd(terms: Terms, once_usd: float, monthly_usd: float, watts: float) -> float:
    return (
        once_usd
        + monthly_usd * MONTHS_A_YEAR * terms.years
        + watts / 1000 * HOURS_A_YEAR * terms.years * terms.usd_a_kwh
    )

"""Duty: which classes a brick could be of, by its first figures. Refusal: which of them it is, the errors decide."""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.advise.fitting.arrays import array
from brickyard.advise.fitting.classes import CACHED_WRITES, cloud, flash, rotating
from brickyard.advise.fitting.model import Model, first, mean_ns, random, read, small, write
from brickyard.advise.fitting.seen import Seen


def classes(loads: Sequence[Seen], capacity_bytes: int) -> list[Model]:
    """Every class that could be meant, with first values; which it is, the errors decide."""
    lone = first(loads, read, random) or first(loads)
    if lone is None:
        return []
    read_ns = mean_ns(lone) / lone.in_flight if lone.in_flight > 1 else mean_ns(lone)
    wrote = first(loads, write, random, small)
    write_ns = mean_ns(wrote) if wrote and wrote.in_flight == 1 else None
    found = []
    if read_ns >= LEAST_ROTATING_NS:
        found.append(rotating(loads, capacity_bytes, read_ns, write_ns))
        found.append(array(loads, capacity_bytes, read_ns, write_ns))
    volume = cloud(loads, capacity_bytes, read_ns, write_ns)
    if read_ns >= LEAST_ROTATING_NS:
        return [*found, volume]
    found.append(volume)
    cached = write_ns is None or write_ns < CACHED_WRITES * read_ns
    found.append(flash(loads, capacity_bytes, read_ns, write_ns, cached=True))
    if write_ns is not None and not cached:
        found.append(flash(loads, capacity_bytes, read_ns, write_ns, cached=False))
    return found


LEAST_ROTATING_NS = 2.5e6
"""The fastest disks turned 15,000 times a minute: half a turn is 2 ms, and their arms moved in 3 ms on the average."""

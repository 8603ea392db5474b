"""Duty: whether runs wrote enough to pass the caches that end writes. Refusal: it asks nobody to write more."""

from __future__ import annotations

from collections.abc import Iterable

from brickyard import bricks
from brickyard.analysis.judging.cached import CACHE_TIMES
from brickyard.bricks import caches
from brickyard.facts.cache import cache_bytes as known_cache
from brickyard.schema import RunOptions
from brickyard.store import Record
from brickyard.store.record import RunInfo
from brickyard.units import format_size


def cache_bytes(target: str, options: RunOptions) -> int | None:
    """What the caches hold that end writes of a target; None where nobody knows."""
    if bricks.is_modelled(target):
        return caches.to_write_bytes(bricks.resolve(target, options.changes).brick)
    return known_cache(target)


def short_of(records: Iterable[Record], held_bytes: int) -> tuple[list[RunInfo], int]:
    """The runs that wrote, but not enough; and how many wrote at all. Records are held one at a time."""
    written = [
        (record.info, sum(i.bytes for i in record.intervals if i.operation == "write" and i.measure == "service"))
        for record in records
    ]
    wrote = [(info, count) for info, count in written if count]
    return [info for info, count in wrote if count < CACHE_TIMES * held_bytes], len(wrote)


def into_caches(records: Iterable[Record], held_bytes: int | None, option: str) -> str | None:
    """What is to be said of rates that may be those of a cache; None where nothing was written, or enough. `option`
    makes runs longer."""
    short, wrote = short_of(records, 0 if held_bytes is None else held_bytes)
    if not wrote or held_bytes == 0:
        return None
    if held_bytes is None:
        return (
            f"the size of the caches below the target is not known, so the rates may be those of a cache. A longer "
            f"{option} shows whether they last"
        )
    if not short:
        return None
    return (
        f"{len(short)} of {wrote} runs wrote less than {CACHE_TIMES} times the size of the write caches "
        f"({format_size(held_bytes)}), so the rates may be those of a cache: use a longer {option}"
    )

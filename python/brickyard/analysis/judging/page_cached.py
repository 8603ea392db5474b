"""Duty: which targets a run reaches through the page cache of the host: all of a buffered run, and those on a loop
device without direct I/O, which hands even requests with O_DIRECT to the page cache of its file.

Refusal: how much of it memory took or answered is not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.facts import stack
from brickyard.schema import DeviceSheet, Engine, IoPath, Start, TargetSheet
from brickyard.store import Record

PAGE_CACHE = "the page cache"


def is_cached_loop(node: DeviceSheet) -> bool:
    return node.loop is not None and node.loop.emulated is None and node.loop.direct_io is False


def cached_loops(start: Start | None, sheets: Sequence[TargetSheet], target: int) -> list[str]:
    """Loop devices below a target that hand its requests to a page cache."""
    if start is None or start.engine is Engine.SIM or target >= len(sheets):
        return []
    return list(dict.fromkeys(node.name for node in stack.walk(sheets[target].stack) if is_cached_loop(node)))


def is_page_cached(start: Start | None, sheets: Sequence[TargetSheet], target: int) -> bool:
    return start is not None and (start.io is IoPath.BUFFERED or bool(cached_loops(start, sheets, target)))


def has_page_cache(record: Record, target: int) -> bool:
    return is_page_cached(record.info.start, record.info.facts.targets, target)


def page_cache_words(record: Record, target: int) -> str:
    """`the page cache`, with the device behind which it is where the run itself had none."""
    start = record.info.start
    if start is None or start.io is IoPath.BUFFERED:
        return PAGE_CACHE
    names = cached_loops(start, record.info.facts.targets, target)
    return f"{PAGE_CACHE} behind {' and '.join(names)}" if names else PAGE_CACHE

"""Duty: which targets a run reaches through the page cache of the host: all of a buffered run, and those on a loop
device without direct I/O, which hands even requests with O_DIRECT to the page cache of its file.

Refusal: how much of it memory took or answered is not known.
"""

from __future__ import annotations

from brickyard.analysis.figures.hosts import fleet_of
from brickyard.facts import stack
from brickyard.schema import DeviceSheet, Engine, IoPath, TargetSheet
from brickyard.store import Record

PAGE_CACHE = "the page cache"


def is_cached_loop(node: DeviceSheet) -> bool:
    return node.loop is not None and node.loop.emulated is None and node.loop.direct_io is False


def cached_loops(sheet: TargetSheet) -> list[str]:
    """Loop devices below a target that hand its requests to a page cache."""
    return list(dict.fromkeys(node.name for node in stack.walk(sheet.stack) if is_cached_loop(node)))


def has_page_cache(record: Record, target: int) -> bool:
    start = record.info.start
    return start is not None and (start.io is IoPath.BUFFERED or bool(_loops(record, target)))


def page_cache_words(record: Record, target: int) -> str:
    """`the page cache`, with the device behind which it is where the run itself had none."""
    start = record.info.start
    names = [] if start is None or start.io is IoPath.BUFFERED else _loops(record, target)
    return f"{PAGE_CACHE} behind {' and '.join(names)}" if names else PAGE_CACHE


def _loops(record: Record, target: int) -> list[str]:
    start, sheet = record.info.start, _sheet_of(record, target)
    return [] if sheet is None or start is None or start.engine is Engine.SIM else cached_loops(sheet)


def _sheet_of(record: Record, target: int) -> TargetSheet | None:
    """Of a run on many hosts, that of the host whose target it is."""
    known, fleet = record.info.facts, fleet_of(record)
    if fleet is None:
        return known.targets[target] if target < len(known.targets) else None
    sheets = {host.host: host.targets for host in known.hosts}
    found = (dict(zip(host.targets, sheets.get(host.host, ()), strict=False)).get(target) for host in fleet.hosts)
    return next((sheet for sheet in found if sheet), None)

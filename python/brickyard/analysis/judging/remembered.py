"""Duty: which reads a page cache may have answered, since what they read fits the host's memory.

Refusal: how many it answered is not known; a modelled page cache counts them itself (`analysis.judging.caveats_site`).
"""

from __future__ import annotations

from brickyard.analysis.figures.reach import region_bytes
from brickyard.analysis.figures.totals import Totals, asked_stream
from brickyard.analysis.judging.page_cached import has_page_cache
from brickyard.schema import Engine, TargetKind
from brickyard.schema.plan import Stream
from brickyard.store import Record
from brickyard.units import format_size


def remembered_words(record: Record, row: Totals) -> str:
    """`25.6 MiB are read, and the host has 23.5 GiB of memory`; nothing where the storage must have answered."""
    start, host = record.info.start, record.info.facts.host
    memory = host.memory_bytes if host else None
    asked = asked_stream(record, row.phase, row.stream)
    if row.operation != "read" or not memory or start is None or start.engine is Engine.SIM:
        return ""
    if not isinstance(asked, Stream) or asked.target >= len(start.targets) or not has_page_cache(record, asked.target):
        return ""
    target = start.targets[asked.target]
    if target.kind is TargetKind.DIRECTORY or not target.data_bytes:
        return ""
    size = region_bytes(asked.region, target.data_bytes)
    if size >= memory:
        return ""
    return f"{format_size(size)} are read, and the host has {format_size(memory)} of memory"

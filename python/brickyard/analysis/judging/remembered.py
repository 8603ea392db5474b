"""Duty: which reads a page cache may have answered, since what they read fits the host's memory.

Refusal: how many it answered is not known; a modelled page cache counts them itself (`analysis.judging.caveats_site`).
"""

from __future__ import annotations

from brickyard.analysis.figures.reach import MOST_BYTES, region_bytes
from brickyard.analysis.figures.totals import Totals, asked_stream
from brickyard.analysis.judging.page_cached import has_page_cache
from brickyard.schema import Engine, TargetKind
from brickyard.schema.plan import Stream
from brickyard.store import Record
from brickyard.units import format_size


def remembered_words(record: Record, row: Totals) -> str:
    """`25.6 MiB are read, and the host has 23.5 GiB of memory`; nothing where the storage must have answered."""
    start, host = record.info.start, record.info.facts.host
    asked = asked_stream(record, row.phase, row.stream)
    if row.operation != "read" or start is None or start.engine is Engine.SIM or not isinstance(asked, Stream):
        return ""
    if not has_page_cache(record, asked.target):
        return ""
    if record.info.is_by_tool:
        return _words_of_tool(record.info.tool, asked)
    memory = host.memory_bytes if host else None
    if not memory or asked.target >= len(start.targets):
        return ""
    target = start.targets[asked.target]
    if target.kind is TargetKind.DIRECTORY or not target.data_bytes:
        return ""
    size = region_bytes(asked.region, target.data_bytes)
    if size >= memory:
        return ""
    return f"{format_size(size)} are read, and the host has {format_size(memory)} of memory"


def _words_of_tool(tool: str, asked: Stream) -> str:
    """Of a result of another tool, which says nothing of its host, and not always how large its file was."""
    if asked.region.endswith("%"):
        return f"{tool} reports neither the size of what is read nor the host's memory"
    size = format_size(region_bytes(asked.region, MOST_BYTES))
    return f"{size} are read, and {tool} does not report the host's memory"

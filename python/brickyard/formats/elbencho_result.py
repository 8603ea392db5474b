"""Duty: results of elbencho (--csvfile, --jsonfile) → what was printed: a phase for each READ or WRITE.

Figures are those of the column [last], until the last thread had finished. Latencies are least, mean and longest in µs.

Refusal: --livecsv is no result; phases on names alone, and those that count reads and writes together, are left out.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from brickyard.errors import BadInputError
from brickyard.formats.profile_parts import RANDOM, SEQUENTIAL, Address
from brickyard.formats.tool_result import (
    Ends,
    Moved,
    Printed,
    PrintedLoad,
    PrintedTimes,
    ToolResult,
    count_of,
    profile_of,
    span_s,
)
from brickyard.ready import ready
from brickyard.schema import Counted
from brickyard.units import format_size

TOOL = "elbencho"
OPERATIONS = {"READ": Counted.READ, "WRITE": Counted.WRITE}
LAST = "The figures are elbencho's of the column [last]: until its last thread had finished."
MIB = 1 << 20
ONE_PLACE = ("file", "blockdev")
"""In directories each thread has files of its own; in a file or device they share what is there."""


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a phase, by the names of its columns. Empty ones are absent."""

    began: str = msgspec.field(name="ISO date")
    label: str = ""
    operation: str = ""
    version: str = ""
    path_type: str = msgspec.field(name="path type", default="")
    paths: int = 1
    hosts: int = 1
    threads: int = 1
    depth: int = msgspec.field(name="IO depth", default=1)
    file_bytes: int = msgspec.field(name="file size", default=0)
    block_bytes: int = msgspec.field(name="block size", default=0)
    direct: int | None = msgspec.field(name="direct IO", default=None)
    random: int = 0
    iops: float = msgspec.field(name="IOPS [last]", default=0.0)
    moved_mib: float = msgspec.field(name="MiB [last]", default=0.0)
    lasted_ms: float = msgspec.field(name="time ms [last]", default=0.0)
    least_us: float = msgspec.field(name="IO lat us [min]", default=0.0)
    mean_us: float | None = msgspec.field(name="IO lat us [avg]", default=None)
    longest_us: float | None = msgspec.field(name="IO lat us [max]", default=None)


def read_elbencho(name: str, text: str) -> ToolResult:
    """Raises BadInputError where it is no result of elbencho, or only a part of one."""
    try:
        rows = list(_of_json(text) if text.lstrip()[:1] in ("[", "{") else _of_csv(text))
        taken = [row for row in rows if row.operation in OPERATIONS]
        left = dict.fromkeys(row.operation for row in rows if row.operation not in OPERATIONS)
        if not taken:
            raise BadInputError(f"elbencho's result has no READ or WRITE, only {', '.join(left) or 'no phase'}")
        phases = [_phase(row, number) for number, row in enumerate(taken, 1)]
        began = datetime.fromisoformat(taken[0].began).astimezone().timestamp()
    except (ValueError, OverflowError, csv.Error) as error:
        raise BadInputError(f"not as elbencho writes results: {type(error).__name__} {error}") from error
    direct = {row.direct for row in taken}
    io = {1: "direct", 0: "buffered"}.get(direct.pop() or 0, "") if len(direct) == 1 and None not in direct else ""
    notes = (LAST, *([f"Left out are the phases {', '.join(left)}."] if left else []))
    versions = {row.version for row in taken}
    version = versions.pop() if len(versions) == 1 else ""
    profile = profile_of(TOOL, name, io, phases)
    return ToolResult(TOOL, version, round(began) * 10**9, [], io, phases, profile, notes)


def _row(cells: Mapping[str, object]) -> _Row:
    return msgspec.convert({name: cell for name, cell in cells.items() if cell != ""}, _Row, strict=False)


def _of_csv(text: str) -> Iterator[_Row]:
    """A file that several runs have appended to may hold the line of names again."""
    names: list[str] = []
    for row in csv.reader(text.splitlines()):
        if row and row[0].lower() == "iso date":
            names = row
            if "RuntimeMS" in names:
                raise BadInputError("these are elbencho's live statistics (--livecsv); import the file of --csvfile")
        elif row:
            if len(row) < len(names):
                raise BadInputError(f"a line of elbencho's CSV has {len(row)} of {len(names)} columns; it was cut off")
            yield _row(dict(zip(names, row, strict=False)))


def _of_json(text: str) -> Iterator[_Row]:
    """A list of phases, or phases one after the other."""
    decoder, at = json.JSONDecoder(), 0
    while rest := text[at:].lstrip(" \n\t,"):
        try:
            found, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError) as error:
            raise BadInputError(f"not elbencho's JSON, or cut off: {error}") from error
        at = len(text) - len(rest) + end
        for item in found if isinstance(found, list) else [found]:
            if not isinstance(item, dict):
                raise BadInputError("not elbencho's JSON: a phase is no object")
            yield _row({str(key): value if isinstance(value, str) else str(value) for key, value in item.items()})


def _phase(row: _Row, number: int) -> Printed:
    moved_bytes, size_bytes = count_of(row.moved_mib * MIB), count_of(row.block_bytes)
    if not size_bytes or not moved_bytes:
        raise BadInputError(f"phase {number} ({row.operation}) has no block size or moved nothing")
    requests = max(1, round(moved_bytes / size_bytes))
    seconds = span_s(requests, row.iops, row.lasted_ms / 1000)
    if not seconds:
        raise BadInputError(f"phase {number} ({row.operation}) has neither a rate nor a time")
    workers, hosts = max(1, row.threads), max(1, row.hosts)
    operation = OPERATIONS[row.operation]
    is_one = hosts == 1 and row.paths == 1 and row.path_type in ONE_PLACE and row.file_bytes > 0
    asked = PrintedLoad(
        size_bytes,
        100.0 if operation is Counted.READ else 0.0,
        RANDOM if row.random else Address("sequential", apart=True) if workers > 1 else SEQUENTIAL,
        workers * hosts,
        max(1, row.depth),
        Ends(bytes=moved_bytes, region_bytes=row.file_bytes) if is_one else None,
    )
    order = "random" if row.random else "sequential"
    name = f"{number}: {order} {operation} {format_size(size_bytes)}"
    moved = Moved(operation, requests, moved_bytes, times=_times(row))
    return Printed(f"{name}, {row.label.strip()}" if row.label.strip() else name, seconds, asked, [moved])


def _times(row: _Row) -> PrintedTimes | None:
    if row.mean_us is None or row.longest_us is None:
        return None
    return PrintedTimes(row.mean_us * 1000, count_of(row.longest_us * 1000), count_of(row.least_us * 1000))


ready(_Row)

"""Duty: results of elbencho (--csvfile, --jsonfile) → what was printed: a phase for each READ or WRITE.

Figures are those of the column [last], until the last thread had finished. Latencies are least, mean and longest in µs.

Refusal: --livecsv is no result; phases on names alone, and those that count reads and writes together, are left out.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from datetime import datetime

from brickyard.errors import BadInputError
from brickyard.formats import toml_text
from brickyard.formats.tool_result import Moved, Printed, Stream, Times, ToolResult, count_of, profile_of, span_s
from brickyard.units import format_size

TOOL = "elbencho"
OPERATIONS = {"READ": "read", "WRITE": "write"}
LAST = "The figures are elbencho's of the column [last]: until its last thread had finished."
RANK = re.compile(r"IO lat us \[(?:p)?([\d.]+)%?\]")
MIB = 1 << 20

Row = dict[str, str]


def read_elbencho(name: str, text: str) -> ToolResult:
    """Raises BadInputError where it is no result of elbencho, or only a part of one."""
    try:
        rows = list(_of_json(text) if text.lstrip()[:1] in ("[", "{") else _of_csv(text))
        taken = [row for row in rows if row.get("operation", "") in OPERATIONS]
        left = dict.fromkeys(row.get("operation", "") for row in rows if row.get("operation", "") not in OPERATIONS)
        if not taken:
            raise BadInputError(f"elbencho's result has no READ or WRITE, only {', '.join(left) or 'no phase'}")
        phases = [_phase(row, number) for number, row in enumerate(taken, 1)]
        began = datetime.fromisoformat(taken[0]["ISO date"]).astimezone().timestamp()
    except (ValueError, KeyError, TypeError, OverflowError, csv.Error) as error:
        raise BadInputError(f"not as elbencho writes results: {type(error).__name__} {error}") from error
    direct = {row.get("direct IO", "") for row in taken}
    io = {"1": "direct", "0": "buffered"}.get(direct.pop(), "") if len(direct) == 1 else ""
    notes = [LAST, *([f"Left out are the phases {', '.join(left)}."] if left else [])]
    versions = {row.get("version", "") for row in taken}
    version = versions.pop() if len(versions) == 1 else ""
    profile = profile_of(TOOL, name, io, phases)
    return ToolResult(TOOL, version, round(began) * 10**9, [], io, phases, profile, tuple(notes))


def _of_csv(text: str) -> Iterator[Row]:
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
            yield dict(zip(names, row, strict=False))


def _of_json(text: str) -> Iterator[Row]:
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
            yield {str(key): str(value) for key, value in item.items()}


def _phase(row: Row, number: int) -> Printed:
    size_bytes, rate, mib = (_number(row, name) for name in ("block size", "IOPS [last]", "MiB [last]"))
    moved_bytes = count_of(mib * MIB)
    if not size_bytes or not moved_bytes:
        raise BadInputError(f"phase {number} ({row['operation']}) has no block size or moved nothing")
    requests = max(1, round(moved_bytes / size_bytes))
    seconds = span_s(requests, rate, _number(row, "time ms [last]") / 1000)
    if not seconds:
        raise BadInputError(f"phase {number} ({row['operation']}) has neither a rate nor a time")
    workers, depth = (max(1, round(_number(row, name))) for name in ("threads", "IO depth"))
    hosts = max(1, round(_number(row, "hosts")))
    is_random = row.get("random", "") == "1"
    operation = OPERATIONS[row["operation"]]
    # In directories each thread has files of its own; in a file or device they share what is there.
    is_one = hosts == 1 and row.get("path type", "") in ("file", "blockdev") and _number(row, "paths") == 1
    whole = {
        "bytes": toml_text.size(moved_bytes),
        "region": f"0..{toml_text.size(count_of(_number(row, 'file size')))}",
    }
    asked = Stream(
        count_of(size_bytes),
        100.0 if operation == "read" else 0.0,
        "random" if is_random else {"kind": "sequential", "apart": True} if workers > 1 else "sequential",
        workers * hosts,
        depth,
        whole if is_one else None,
    )
    order = "random" if is_random else "sequential"
    name = f"{number}: {order} {operation} {format_size(count_of(size_bytes))}"
    label = row.get("label", "").strip()
    moved = Moved(operation, requests, moved_bytes, times=_times(row))
    return Printed(f"{name}, {label}" if label else name, seconds, asked, [moved])


def _times(row: Row) -> Times | None:
    mean, longest = row.get("IO lat us [avg]", ""), row.get("IO lat us [max]", "")
    if not mean or not longest:
        return None
    ranks = {
        float(found[1]): count_of(float(value) * 1000)
        for name, value in row.items()
        if (found := RANK.fullmatch(name)) and value
    }
    least = count_of(_number(row, "IO lat us [min]") * 1000)
    return Times(float(mean) * 1000, count_of(float(longest) * 1000), least, ranks)


def _number(row: Row, name: str) -> float:
    """0 where the column is empty or not there."""
    return float(row.get(name) or 0)

"""Duty: records as CSV, JSON or Parquet. Refusal: no figure is rounded or left out.

CSV and Parquet have one row for each interval, stream, operation and measure; JSON has the whole record. `headline`
says whether the figures of the phase are made of the interval: not of a warm-up, nor of what went before steady state.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal

from brickyard.analysis.steady import headline_from_ns
from brickyard.analysis.summary import run_document
from brickyard.analysis.totals import phase_name, stream_name
from brickyard.errors import BadInputError
from brickyard.printable import csv_cell, json_text
from brickyard.store import Interval, Record

COLUMNS: dict[str, type] = {
    "run": int,
    "study": int,
    "profile": str,
    "profile_hash": str,
    "condition": str,
    "outcome": str,
    "target": str,
    "start_unix_ns": int,
    "phase": str,
    "stream": str,
    "operation": str,
    "measure": str,
    "warmup": bool,
    "headline": bool,
    "start_ns": int,
    "end_ns": int,
    "requests": int,
    "bytes": int,
    "errors": int,
    "depth_max": int,
    "mean_ns": float,
    "p50_ns": int,
    "p99_ns": int,
    "max_ns": int,
    "histogram": str,
}
_FIELDS = [*(name for name in Interval.__slots__ if name not in ("row", "histograms")), "histogram"]
_OF_INTERVAL = [name for name in COLUMNS if name in _FIELDS and name not in ("phase", "stream")]


def rows(records: list[Record]) -> Iterator[dict[str, Any]]:
    for record in records:
        info = record.info
        circumstances = {
            "run": info.id,
            "study": info.study,
            "profile": info.profile,
            "profile_hash": info.profile_hash,
            "condition": info.condition,
            "outcome": info.outcome,
            "target": ",".join(info.targets),
            "start_unix_ns": info.start_unix_ns,
        }
        from_ns = {phase: headline_from_ns(record, phase) for phase in {item.phase for item in record.intervals}}
        for item in record.intervals:
            yield {
                **circumstances,
                "phase": phase_name(record, item.phase),
                "stream": stream_name(record, item.phase, item.stream),
                "headline": not item.warmup and item.start_ns >= from_ns[item.phase],
                **{name: getattr(item, name) for name in _OF_INTERVAL},
            }


def documents(records: list[Record]) -> list[dict[str, Any]]:
    return [
        {
            **run_document(record),
            "intervals": [{name: getattr(item, name) for name in _FIELDS} for item in record.intervals],
            "events": record.events,
        }
        for record in records
    ]


def write_export(records: list[Record], form: Literal["csv", "json", "parquet"], file: BinaryIO) -> int:
    """Writes to an open file and gives back the number of rows (of runs, for JSON)."""
    if form == "json":
        found = documents(records)
        text = json.dumps({"runs": found}, ensure_ascii=False, allow_nan=False, indent=1)
        file.write(json_text(text).encode() + b"\n")
        return len(found)
    table = list(rows(records))
    if form == "csv":
        lines = io.StringIO(newline="")
        writer = csv.DictWriter(lines, list(COLUMNS), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in table)
        file.write(lines.getvalue().encode())
    else:
        _write_parquet(table, file)
    return len(table)


def _write_parquet(table: list[dict[str, Any]], file: BinaryIO) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise BadInputError("Parquet needs pyarrow; install brickyard[parquet], or choose --format csv") from error
    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    pq.write_table(pa.Table.from_pylist(table, schema=schema), file)

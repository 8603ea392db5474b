"""Duty: records as CSV, JSON or Parquet. Refusal: no figure is rounded or left out.

CSV and Parquet have three tables: `intervals` (a row for each interval, stream, operation and measure), `totals` (each
stream, operation and measure of a run) and `runs` (circumstances and outcome). JSON has the whole record. `headline`
says whether the figures of the phase are made of the interval: not of a warm-up, nor of what went before steady state.
`condition` has all conditions of what the row is of, in their order.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal

import msgspec

from brickyard.analysis.figures.conditions import Stood
from brickyard.analysis.figures.imported import interval_times
from brickyard.analysis.figures.steady import headline_from_ns
from brickyard.analysis.figures.totals import asked_stream, phase_name, stream_name, totals
from brickyard.analysis.judging.marks import marks_of
from brickyard.analysis.judging.summary import changed, run_document
from brickyard.errors import BadInputError
from brickyard.percentiles import PERCENTILE_NAMES
from brickyard.printable import csv_cell, json_text
from brickyard.report.hdr_log import HDR_HEAD, histogram_log
from brickyard.report.metrics import RUN, metrics_text
from brickyard.schema import Document, HostSheet, event_document
from brickyard.store import Interval, Record, RunInfo

Form = Literal["csv", "json", "parquet", "hdr", "prometheus", "openmetrics"]
Rows = Literal["intervals", "totals", "runs"]
OF_RUN: dict[str, type] = {
    "run": int,
    "study": int,
    "profile": str,
    "profile_hash": str,
    "condition": str,
    "outcome": str,
    "target": str,
    "start_unix_ns": int,
    "workload_changes": str,
    "model_changes": str,
    "study_cell": str,
    "marks": str,
}
INTERVALS: dict[str, type] = {
    **OF_RUN,
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
TOTALS: dict[str, type] = {
    **OF_RUN,
    "phase": str,
    "stream": str,
    "operation": str,
    "measure": str,
    "workers": int,
    "depth": int,
    "requests": int,
    "bytes": int,
    "errors": int,
    "rated_ns": int,
    "iops": float,
    "bytes_per_s": float,
    "count": int,
    "mean_ns": float,
    "min_ns": int,
    **{f"{name}_ns": int for name in PERCENTILE_NAMES},
    "max_ns": int,
    "histogram": str,
}
RUNS: dict[str, type] = {
    **OF_RUN,
    "end_ns": int,
    "message": str,
    "invalid": str,
    "seed": int,
    "engine": str,
    "io": str,
    "software_version": str,
    "hostname": str,
    "kernel": str,
    "labels": str,
    "warnings": str,
    "plan": str,
}
COLUMNS: dict[Rows, dict[str, type]] = {"intervals": INTERVALS, "totals": TOTALS, "runs": RUNS}
HEADS = [
    "run,study,profile,profile_hash,condition,outcome,target,start_unix_ns,",
    '{\n "runs": [\n  {\n   "run": ',
    HDR_HEAD,
    f"# HELP {RUN}_info ",
    f"# TYPE {RUN} info\n",
]
EXPORT_MARK = re.compile(b"|".join(rb"\A" + re.escape(head.encode()) for head in HEADS))
"""How a file begins that an export of this or an earlier version wrote; Parquet has its columns at the end, so that
none is known for ours."""
_SHOWN = [*(name for name in Interval.__slots__ if name not in ("row", "histograms")), "histogram"]
_FIELDS = {"depth_max" if name == "in_flight_bound" else name: name for name in _SHOWN}
"""Columns and keys, which keep their names, with the field of `Interval` that each has."""


def _of_interval(record: Record, item: Interval) -> Document:
    counted = {name: getattr(item, of) for name, of in _FIELDS.items()}
    errors = record.info.known_errors(item.errors)
    return {**counted, "errors": errors, **interval_times(record, item)._asdict()}


def of_run(info: RunInfo, condition: str) -> Document:
    return {
        "run": info.id,
        "study": info.study,
        "profile": info.profile,
        "profile_hash": info.profile_hash,
        "condition": condition,
        "outcome": info.outcome,
        "target": ",".join(info.targets),
        "start_unix_ns": info.began_unix_ns,
        **changed(info),
        "marks": ",".join(marks_of(info)),
    }


def rows(records: list[Record], which: Rows = "intervals") -> Iterator[Document]:
    """The rows of one of the tables."""
    of_record = {"intervals": _interval_rows, "totals": _total_rows, "runs": _run_rows}[which]
    for record in records:
        yield from of_record(record)


def _interval_rows(record: Record) -> Iterator[Document]:
    from_ns = {phase: headline_from_ns(record, phase) for phase in {item.phase for item in record.intervals}}
    stood = Stood(record)
    for item in record.intervals:
        figures = _of_interval(record, item)
        yield {
            **of_run(record.info, stood.within(item.phase, item.stream, item.start_ns, item.end_ns)),
            **{name: figures[name] for name in INTERVALS if name in figures},
            "phase": phase_name(record, item.phase),
            "stream": stream_name(record, item.phase, item.stream),
            "headline": not item.warmup and item.start_ns >= from_ns[item.phase],
        }


def _total_rows(record: Record) -> Iterator[Document]:
    """Warm-up left out. Where every request failed there is no measure, and the counts stand alone."""
    stood = Stood(record)
    for row in totals(record):
        asked = asked_stream(record, row.phase, row.stream)
        common = {
            **of_run(record.info, stood.rated(row.phase, row.stream)),
            "phase": row.phase_name,
            "stream": row.stream_name,
            "operation": row.operation,
            "workers": asked.workers if asked else None,
            "depth": asked.depth if asked else None,
            "requests": row.requests,
            "bytes": row.bytes,
            "errors": row.errors,
            "rated_ns": row.rated_ns,
            "iops": row.iops if row.is_rated else None,
            "bytes_per_s": row.bytes_per_s if row.is_rated else None,
        }
        if not row.measures:
            yield common
        for name, found in row.measures.items():
            yield {
                **common,
                "measure": name,
                "count": found.count,
                "mean_ns": found.mean_ns,
                "min_ns": found.min_ns,
                **{f"{key}_ns": value for key, value in found.percentiles.items()},
                "max_ns": found.max_ns,
                "histogram": found.histogram_text,
            }


def _run_rows(record: Record) -> Iterator[Document]:
    info = record.info
    host = info.facts.host or HostSheet()
    yield {
        **of_run(info, Stood(record).throughout),
        "end_ns": info.end_ns,
        "message": info.message,
        "invalid": info.invalid,
        "seed": info.seed,
        "engine": info.start.engine if info.start else None,
        "io": info.start.io if info.start else None,
        "software_version": info.software_version,
        "hostname": host.name,
        "kernel": host.kernel,
        "labels": json.dumps(info.labels, ensure_ascii=False, sort_keys=True),
        "warnings": ",".join(warning.id for warning in info.warnings),
        "plan": json.dumps(info.plan_document, ensure_ascii=False),
    }


def documents(records: list[Record]) -> list[Document]:
    return [
        {
            **run_document(record),
            "intervals": [_of_interval(record, item) for item in record.intervals],
            "events": [event_document(event) for event in record.events],
        }
        for record in records
    ]


def write_export(records: list[Record], form: Form, file: BinaryIO, which: Rows = "intervals") -> int:
    """Writes to an open file and gives back the number of rows, lines of figures, or runs (for JSON)."""
    if form == "json":
        found = documents(records)
        text = json.dumps({"runs": found}, ensure_ascii=False, allow_nan=False, indent=1, default=msgspec.to_builtins)
        file.write(json_text(text).encode() + b"\n")
        return len(found)
    if form in ("csv", "parquet"):
        table = list(rows(records, which))
        write = _write_csv if form == "csv" else _write_parquet
        write(table, COLUMNS[which], file)
        return len(table)
    text = histogram_log(records) if form == "hdr" else metrics_text(records, openmetrics=form == "openmetrics")
    file.write(text.encode())
    return sum(1 for line in text.splitlines() if line and line[0] not in '#"')


def _write_csv(table: list[Document], columns: dict[str, type], file: BinaryIO) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in table)
    file.write(text.getvalue().encode())


def arrow_table(table: list[Document], columns: dict[str, type]) -> Any:
    """A pyarrow.Table of rows and the types of their columns."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise BadInputError("Arrow and Parquet need pyarrow; install brickyard[parquet], or choose CSV") from error
    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
    return pa.Table.from_pylist(table, schema=schema)


def _write_parquet(table: list[Document], columns: dict[str, type], file: BinaryIO) -> None:
    made = arrow_table(table, columns)
    import pyarrow.parquet as pq

    pq.write_table(made, file)

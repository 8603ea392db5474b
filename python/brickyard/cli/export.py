"""Duty: `brickyard export`. Refusal: what the rows are is decided in `brickyard.report.export`."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from brickyard.cli import options
from brickyard.cli.output import emit
from brickyard.cli.selection import open_store, select
from brickyard.errors import BadInputError, one_line
from brickyard.outputs import whole_file
from brickyard.outputs.folders import folder
from brickyard.report.export import Form, Rows, write_export
from brickyard.store import Json

ENDINGS: dict[str, Form] = {
    ".csv": "csv",
    ".json": "json",
    ".parquet": "parquet",
    ".hlog": "hdr",
    ".hdr": "hdr",
    ".prom": "prometheus",
    ".om": "openmetrics",
    "": "csv",
}
PARQUET_NEEDS_A_FILE = "--format parquet is no text; name a file with --output"
TABLES: tuple[Rows, ...] = ("intervals", "totals", "runs")


def export(
    *runs: str,
    format: Annotated[Form | None, Parameter(name=["--format", "-f"], help="Else by the file's ending.")] = None,  # noqa: A002
    rows: Annotated[
        Literal["intervals", "totals", "runs", "all"] | None,
        Parameter(help="Which table, of CSV and Parquet; all writes three files into the folder --output."),
    ] = None,
    output: options.Output = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Write runs as CSV or Parquet (intervals, totals or runs), JSON, an HdrHistogram log, Prometheus or OpenMetrics.

    Parameters
    ----------
    runs
        Runs (12, 3-7), a study (s2) or latest; without any, the newest study or run.
    """
    chosen = format or _by_ending(output.suffix if output and rows != "all" else "")
    if rows is not None and chosen not in ("csv", "parquet"):
        raise BadInputError(f"--rows {rows}: {chosen} has no tables; choose csv or parquet with --format")
    if output is None and (chosen == "parquet" or rows == "all"):
        raise BadInputError("--rows all: name a folder with --output" if rows == "all" else PARQUET_NEEDS_A_FILE)
    if output is None and json and chosen != "json":
        raise BadInputError("--json and the rows would both go to stdout; name a file with --output")
    with open_store(store) as kept:
        records = select(kept, runs).records
    if output is None:
        write_export(records, chosen, sys.stdout.buffer, _one(rows))
        sys.stdout.flush()
        return 0
    written: dict[str, int] = {}
    places = {output / f"{name}.{chosen}": name for name in TABLES} if rows == "all" else {output: _one(rows)}
    try:
        if rows == "all":
            folder(output)
        for place, which in places.items():
            with whole_file(place, stream=rows != "all") as file:
                written[str(place)] = write_export(records, chosen, file, which)
    except OSError as error:
        raise BadInputError(f"{output}: cannot be written: {one_line(error.strerror)}") from error
    if json:
        ids = [record.info.id for record in records]
        whole: Json = {"output": str(output), "format": chosen, "rows": sum(written.values()), "runs": ids}
        emit({**whole, "files": list(written)} if rows == "all" else whole)
    else:
        for path, count in written.items():
            print(f"{path}: {count:,} rows", file=sys.stderr)
    return 0


def _one(rows: str | None) -> Rows:
    return next((name for name in TABLES if name == rows), "intervals")


def _by_ending(suffix: str) -> Form:
    if suffix.lower() not in ENDINGS:
        known = ", ".join(dict.fromkeys(ENDINGS.values()))
        raise BadInputError(f"{suffix}: no such format; choose one of {known} with --format")
    return ENDINGS[suffix.lower()]

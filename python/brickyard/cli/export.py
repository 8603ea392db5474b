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

Format = Literal["csv", "json", "parquet"]


def export(
    *runs: str,
    format: Annotated[Format | None, Parameter(name=["--format", "-f"], help="Else by the file's ending.")] = None,  # noqa: A002
    output: options.Output = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Write runs as CSV or Parquet (one row for each interval, stream, operation and measure) or as JSON.

    Parameters
    ----------
    runs
        Runs (12, 3-7), a study (s2) or latest; without any, the newest study or run.
    """
    from brickyard.report.export import write_export

    chosen_format = format or _by_ending(output.suffix if output else "")
    if output is None and chosen_format == "parquet":
        raise BadInputError("--format parquet is no text; name a file with --output")
    if output is None and json and chosen_format != "json":
        raise BadInputError("--json and the rows would both go to stdout; name a file with --output")
    with open_store(store) as kept:
        records = select(kept, runs).records
    try:
        if output is None:
            rows = write_export(records, chosen_format, sys.stdout.buffer)
            sys.stdout.flush()
            return 0
        with whole_file(output, stream=True) as file:
            rows = write_export(records, chosen_format, file)
    except OSError as error:
        raise BadInputError(f"{output}: cannot be written: {one_line(error.strerror)}") from error
    if json:
        ids = [record.info.id for record in records]
        emit({"output": str(output), "format": chosen_format, "rows": rows, "runs": ids})
    else:
        print(f"{output}: {rows:,} rows", file=sys.stderr)
    return 0


def _by_ending(suffix: str) -> Format:
    endings: dict[str, Format] = {".json": "json", ".parquet": "parquet", ".csv": "csv", "": "csv"}
    if suffix.lower() not in endings:
        raise BadInputError(f"{suffix}: no such format; choose csv, json or parquet with --format")
    return endings[suffix.lower()]

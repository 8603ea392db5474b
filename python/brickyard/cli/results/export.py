"""Duty: `brickyard export`. Refusal: what the rows are is decided in `brickyard.report.export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit
from brickyard.cli.parts.selection import open_store, select
from brickyard.errors import BadInputError, one_line
from brickyard.outputs import whole_file
from brickyard.outputs.folders import folder
from brickyard.report.export import EXPORT_MARK, Form, Rows, write_export
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
TABLES: tuple[Rows, ...] = ("intervals", "totals", "runs")


def export(
    *runs: str,
    format: Annotated[  # noqa: A002
        Form | None, Parameter(name=["--format", "-f"], help="Format; by default taken from the file's ending.")
    ] = None,
    rows: Annotated[
        Rows | None, Parameter(help="Which table to write as CSV or Parquet; intervals by default.")
    ] = None,
    output: options.ExportPlace = None,
    tables: Annotated[
        Path | None,
        Parameter(validator=options.FOLDER, help="A folder for all three tables, a file of CSV or Parquet each."),
    ] = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Write runs as CSV or Parquet (intervals, totals or runs), JSON, an HdrHistogram log, Prometheus or OpenMetrics.

    Parameters
    ----------
    runs
        Runs (12 or 3-7,9), a study (s2) or latest; the newest study or run unless given.
    """
    chosen = format or _by_ending(output.suffix if output else "")
    _check(chosen, rows, output, tables, as_json=json)
    with open_store(store) as kept:
        records = select(kept, runs).records
    places: dict[Path, Rows] = {} if output is None else {output: rows or "intervals"}
    if tables is not None:
        places = {folder(tables) / f"{name}.{chosen}": name for name in TABLES}
    if not places:
        write_export(records, chosen, sys.stdout.buffer, rows or "intervals")
        sys.stdout.flush()
        return 0
    written: dict[str, int] = {}
    for place, which in places.items():
        try:
            with whole_file(place, EXPORT_MARK, stream=tables is None) as file:
                written[str(place)] = write_export(records, chosen, file, which)
        except OSError as error:
            raise BadInputError(f"{place}: cannot be written: {one_line(error.strerror)}") from error
    if json:
        ids = [record.info.id for record in records]
        whole: Json = {"output": str(output or tables), "format": chosen, "rows": sum(written.values()), "runs": ids}
        emit(whole if tables is None else {**whole, "files": list(written)})
    else:
        for path, count in written.items():
            print(f"{path}: {count:,} row{'' if count == 1 else 's'}", file=sys.stderr)
    return 0


def _check(chosen: Form, rows: Rows | None, output: Path | None, tables: Path | None, *, as_json: bool) -> None:
    """Options that do not go together."""
    if (rows is not None or tables is not None) and chosen not in ("csv", "parquet"):
        raise BadInputError(f"{chosen} has no tables; choose csv or parquet with --format, or take --rows away")
    if tables is not None and (output is not None or rows is not None):
        raise BadInputError("--tables writes all three tables; leave --output and --rows out")
    if output is None and tables is None and chosen == "parquet":
        raise BadInputError("--format parquet is a binary format; name a file with --output")
    if output is None and tables is None and as_json and chosen != "json":
        raise BadInputError("--json and the rows would both go to stdout; name a file with --output")


def _by_ending(suffix: str) -> Form:
    if suffix.lower() in (".fio", ".toml"):
        to_fio = "`brickyard profiles show PROFILE --format fio` writes a profile as a fio job"
        raise BadInputError(f"{suffix}: runs and their figures are exported here; {to_fio}")
    if suffix.lower() not in ENDINGS:
        known = ", ".join(dict.fromkeys(ENDINGS.values()))
        raise BadInputError(f"{suffix}: no such format; choose one of {known} with --format")
    return ENDINGS[suffix.lower()]

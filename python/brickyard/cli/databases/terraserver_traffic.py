"""Duty: `brickyard terraserver traffic`: web logs in files. Refusal: `brickyard.databases` says what is in them."""

from __future__ import annotations

import datetime
import re
import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard.cli.databases.terraserver import DEFAULT_SIZE, Seed
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, stderr, stdout
from brickyard.databases import terraserver
from brickyard.databases.connect import split_dsns
from brickyard.databases.layout import Layout
from brickyard.databases.traffic import COVERED_SHARE, Traffic, spots_of, write_log, zipf_weights
from brickyard.errors import DONE, INTERRUPTED, BadInputError
from brickyard.outputs import check_file, folder, whole_file
from brickyard.reading import parsed_bytes
from brickyard.units import format_size

LOG_MARK = re.compile(rb"\A#Software: Brickyard")
MONDAY = "2003-06-02"  # a Monday of the study's year; nothing depends on it but the stamps
OTHERS = round(100 - COVERED_SHARE * 100, 3)


def traffic(
    *,
    to: Annotated[str | None, Parameter(help="The loaded bricks whose tiles the traffic requests.")] = None,
    size: Annotated[str | None, Parameter(help="Instead of --to: the size with which the database was loaded.")] = None,
    output: Annotated[
        Path, Parameter(name=["--output", "-o"], validator=options.FOLDER, help="Folder for the logs.")
    ] = Path("terraserver-logs"),
    servers: Annotated[int, Parameter(help="Web servers, each with logs of its own.")] = 4,
    days: Annotated[int, Parameter(help="Number of days; there is one log per server and day.")] = 1,
    first_day: Annotated[str, Parameter(help="The first day, as 2003-06-02; Mondays are busiest.")] = MONDAY,
    requests: Annotated[
        int, Parameter(help="Requests that each server gets on a Monday; the study's got 1,800,000.")
    ] = (100_000),
    hours: Annotated[str, Parameter(help="Only these hours of each day, such as 17-18, in UTC.")] = "0-24",
    zipf: Annotated[float, Parameter(help="How much more popular the first places are: 1/rank^ZIPF.")] = 1.0,
    misses: Annotated[float, Parameter(help="Per cent of tile requests for tiles that do not exist.")] = 0.0,
    others: Annotated[float, Parameter(help="Per cent of requests that have no corresponding database call.")] = OTHERS,
    seed: Seed = terraserver.DEFAULT_SEED,
    json: options.Json = False,
) -> int:
    """Write the logs of a busy site in IIS W3C format. People pan and zoom, the load varies over the day, and the mix
    of pages is that of the study."""
    console = stderr()
    if (to is None) == (size is None):
        raise BadInputError(
            "give either --to with the loaded database, or --size with the size that was loaded, such as "
            f"{DEFAULT_SIZE}"
        )
    layout = Layout(parsed_bytes(size, "--size")) if size else terraserver.bricks_of(split_dsns(to or ""))[0].layout
    try:
        day = datetime.date.fromisoformat(first_day)
    except ValueError as error:
        raise BadInputError(f"--first-day {first_day}: not a date; write it as {MONDAY}") from error
    span = hours.split("-")
    if len(span) != 2 or not all(part.strip().isdigit() for part in span):
        raise BadInputError(f"--hours {hours}: write them as 17-18")
    between = (int(span[0]), int(span[1]))
    wanted = Traffic(layout, seed, requests, servers, days, day, zipf, misses / 100, others / 100, between)
    wanted.check()
    files: list[Path] = []
    lines = written_bytes = 0
    begun = time.monotonic()
    try:
        folder(output)
        for name, _, _ in wanted.logs():
            check_file(output / name, LOG_MARK)
        spots = spots_of(layout, seed)
        weights = zipf_weights(len(spots), zipf)
        for name, server, number in wanted.logs():
            with whole_file(output / name, LOG_MARK) as file:
                for piece in write_log(wanted, spots, weights, server, number):
                    written_bytes += file.write(piece.encode("ascii"))
                    lines += piece.count("\n")
            lines -= 4  # the head
            files.append(output / name)
            console.print(f"{output / name}", markup=False, style="dim")
    except OSError as error:
        raise BadInputError(f"{output}: cannot be written: {error.strerror}; name another place") from error
    except KeyboardInterrupt:
        console.print(f"interrupted: {len(files)} logs in {output} are complete", markup=False)
        return INTERRUPTED
    seconds = time.monotonic() - begun
    if json:
        emit({"files": [str(f) for f in files], "requests": lines, "bytes": written_bytes, "seconds": seconds})
    else:
        stdout().print(
            f"{lines:,} requests in {len(files)} logs, {format_size(written_bytes)}, in {output} ({seconds:.1f} s)",
            markup=False,
        )
    return DONE

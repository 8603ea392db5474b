"""Duty: `brickyard characterize`. Refusal: see `brickyard.study.shipped.characterize` for what is run and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard import analysis, api
from brickyard.analysis.judging.answers import answer
from brickyard.analysis.judging.merging import distinct_warnings
from brickyard.analysis.judging.summary import totals_document
from brickyard.cli.parts import options
from brickyard.cli.parts.drawing import drawn, report_command
from brickyard.cli.parts.output import EXIT_CODES, emit, print_line, stderr, stdout
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.tables import print_answer, print_characterization, print_circumstances, print_warnings
from brickyard.cli.parts.target import aim_at, named, split_overrides
from brickyard.errors import BAD_INPUT, BadInputError
from brickyard.schema import Document, stored
from brickyard.store import Record, Store
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.shipped.characterize import Characterized, Mode, forecast_lines


def characterize(
    target: str | None = None,
    /,
    *,
    quick: Annotated[bool, Parameter(negative="", show_default=False, help="All cells within about 25 s.")] = False,
    full: Annotated[
        bool, Parameter(negative="", show_default=False, help="Each cell until it is steady; takes hours.")
    ] = False,
    overrides: options.Overrides = (),
    placing: options.Placing = options.AS_IT_IS,
    output: options.ReportPlace = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Measure request sizes from 512 B to 1 MiB, sequential and random, read and write, and write a report.

    Parameters
    ----------
    target
        A file or block device, or a modelled brick such as sim:terraserver-2003; without it, a scratch file is made,
        filled, and removed at the end.
    """
    if quick and full:
        raise BadInputError("--quick and --full exclude each other")
    mode = Mode.QUICK if quick else Mode.FULL if full else Mode.DEFAULT
    targets = named(target)
    changes, brick_changes = split_overrides(targets, list(overrides))
    place = aim_at(targets, placing, brick_changes=brick_changes, quick=quick)
    with Store(store) as kept, place as aimed:
        for line in forecast_lines(mode, aimed.targets[0], aimed.options, changes):
            print_line(stderr(), line)
        with Interrupt() as interrupt, Terminal() as terminal:
            result = api.characterize_at(kept, terminal, interrupt, aimed, mode, changes)
        records = [kept.record(run) for run in result.runs]
        made = drawn(lambda: _report(kept, result, records, output), report_command(kept, result.study))
        if json:
            emit(document(result, records, made.page))
        else:
            _print(result, records, made.page)
    return made.code(EXIT_CODES.get(result.outcome, BAD_INPUT))


def _report(store: Store, result: Characterized, records: list[Record], output: Path | None) -> Path | None:
    """A report also of what an interrupted study has measured, if it has measured anything."""
    if not any(record.intervals for record in records):
        return None
    from brickyard.report.page import default_directory, write_report

    study = store.studies(result.study)[0]
    return write_report(records, study, output or default_directory(records, study))


def document(result: Characterized, records: list[Record], page: Path | None) -> Document:
    """The one document of `--json`."""
    return {
        "study": result.study,
        "runs": result.runs,
        "outcome": result.outcome,
        "message": result.message,
        "notes": result.notes,
        **(answer(records, analysis.characterization(records), result.planned).document() if records else {}),
        "warnings": stored(distinct_warnings(records)),
        "cells": [
            {
                "run": item.cell.run,
                "address": address,
                "operation": operation,
                "request_bytes": item.cell.request_bytes,
                "iops_share_of_best": item.iops_share,
                "throughput_share_of_best": item.throughput_share,
                **totals_document(item.cell.row),
            }
            for (address, operation), cells in analysis.characterization(records).items()
            for item in cells
        ],
        "report": str(page) if page else None,
    }


def _print(result: Characterized, records: list[Record], page: Path | None) -> None:
    console = stdout()
    patterns = analysis.characterization(records)
    if records:
        print_answer(console, answer(records, patterns, result.planned))
    print_warnings(console, records)
    print_characterization(console, patterns, records)
    if records:
        print_circumstances(console, records)
    if result.outcome != "done":
        said = f": {result.message}" if result.message else ""
        print_line(console, f"{result.outcome}{said}; its measurements are kept as study s{result.study}")
    if page:
        console.print(f"report: {page}", markup=False, soft_wrap=True)

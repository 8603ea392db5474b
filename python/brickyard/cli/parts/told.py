"""Duty: what any program of `run` says in the end: each run, the repetitions together, and the verdicts.

Refusal: nothing is measured or computed here.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from brickyard.analysis.figures.cells import DASH
from brickyard.analysis.judging.comparison import Repeated, repeated
from brickyard.analysis.judging.summary import run_document
from brickyard.cli.parts import again as traces
from brickyard.cli.parts.judging import Judging
from brickyard.cli.parts.output import EXIT_CODES, emit, stderr, stdout, table
from brickyard.cli.parts.tables import LEFT, RIGHT, print_run
from brickyard.errors import BAD_INPUT
from brickyard.store import Record
from brickyard.units import format_name

COLUMNS = ("load", "figure", "runs", "together", "95 % interval", "lowest to highest run")


def tell(
    records: Sequence[Record],
    judge: Judging,
    *,
    repetitions: int,
    as_json: bool,
    trace: traces.AgainAnswer | None = None,
) -> int:
    """Gives back the exit code. `trace` is what the last run says of the trace that it issued."""
    together = repeated(records)
    if as_json:
        documents = [{**run_document(record), **judge.document(record)} for record in records]
        if trace is not None:
            documents[-1]["trace"] = trace.document()
        emit(documents[0] if repetitions == 1 else {"runs": documents, "repetitions": [*map(_document, together)]})
    else:
        console = stdout()
        for record in records:
            print_run(console, record)
            judge.print(console, record)
            console.print()
        if together:
            _print_together(console, together)
        if trace is not None:
            traces.print_answer(console, trace)
    for line in judge.failures(records):
        stderr().print(line, markup=False, soft_wrap=True)
    return judge.exit_code(records, EXIT_CODES.get(records[-1].info.outcome, BAD_INPUT))


def _document(item: Repeated) -> dict[str, object]:
    of = item.sample
    return {
        "load": list(item.name),
        "figure": item.figure.name,
        "n": of.n,
        "centre": of.centre,
        "low": of.low,
        "high": of.high,
        "values": list(of.values),
    }


def _print_together(console: Console, found: Sequence[Repeated]) -> None:
    rows = []
    for item in found:
        text, of = item.figure.text, item.sample
        interval = DASH if of.low is None or of.high is None else f"{text(of.low)} to {text(of.high)}"
        spread = f"{text(min(of.values))} to {text(max(of.values))}"
        rows.append([format_name(item.name), item.figure.title, str(of.n), text(of.centre), interval, spread])
    columns = list(zip(COLUMNS, (LEFT, LEFT, RIGHT, RIGHT, RIGHT, RIGHT), strict=True))
    console.print(table("Repetitions together", columns, rows))
    console.print(
        "The interval is Student's t, computed on the logarithms of the figures of the single runs "
        "(docs/statistics.md)."
    )
    if any(item.sample.is_outside for item in found):
        console.print(
            "A percentile over all requests may lie outside the interval, which comes from the percentiles of the "
            "single runs."
        )
    console.print()

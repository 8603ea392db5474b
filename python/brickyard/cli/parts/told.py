"""Duty: what any program of `run` says in the end: the repetitions together, each run, and the verdicts.

Refusal: nothing is measured or computed here.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from brickyard.analysis.judging.answers import cautions
from brickyard.analysis.judging.repetitions import Repeated, repeated
from brickyard.analysis.judging.summary import run_document
from brickyard.cli.parts import again as traces
from brickyard.cli.parts.judging import Judging
from brickyard.cli.parts.output import EXIT_CODES, emit, print_line, stderr, stdout, table
from brickyard.cli.parts.tables import LEFT, RIGHT, print_run
from brickyard.errors import BAD_INPUT
from brickyard.report.tables import repetitions_table
from brickyard.store import Record


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
        several = {"runs": documents, "repetitions": [*map(_document, together)], **judge.together_document(records)}
        emit(documents[0] if repetitions == 1 else several)
    else:
        console = stdout()
        if together:
            print_together(console, records, together, judge.together_lines(records))
        for record in records:
            print_run(console, record, judge.lines(record))
            judge.print(console, record)
            console.print()
        if trace is not None:
            traces.print_answer(console, trace)
    for line in judge.failures(records):
        print_line(stderr(), line)
    return judge.exit_code(records, EXIT_CODES.get(records[-1].info.outcome, BAD_INPUT))


def _document(item: Repeated) -> dict[str, object]:
    of = item.sample
    return {
        "load": list(item.name),
        "figure": item.figure.name,
        "n": item.runs,
        "centre": of.centre if of else None,
        "low": of.low if of else None,
        "high": of.high if of else None,
        "values": list(of.values) if of else [],
        "lacking": list(item.lacking),
    }


def print_together(
    console: Console, records: Sequence[Record], found: Sequence[Repeated], verdicts: Sequence[str]
) -> None:
    """What repetitions came to, and the verdicts on all of them; before both, why the rates are not the storage's."""
    for line in cautions(records):
        print_line(console, line)
    made = repetitions_table(records, found)
    columns = [(name, LEFT if number < made.text_columns else RIGHT) for number, name in enumerate(made.columns)]
    console.print(table(made.title, columns, made.rows))
    print_line(console, made.note, "dim")
    for line in verdicts:
        print_line(console, line)
    console.print()

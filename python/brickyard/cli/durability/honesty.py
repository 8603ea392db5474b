"""Duty: `brickyard honesty`: measure, and say what is suspicious. Refusal: the judgement is in `brickyard.honesty`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from rich.console import Console
from rich.text import Text

from brickyard import bricks
from brickyard.analysis.judging.answers import Answer
from brickyard.analysis.judging.merging import distinct_warnings
from brickyard.cli.parts import options
from brickyard.cli.parts.output import EXIT_CODES, emit, print_labelled, print_line, stdout
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.tables import print_answer, print_circumstances, print_table, print_warnings
from brickyard.cli.parts.target import aim_at, named
from brickyard.errors import BAD_INPUT, FAILED, BadInputError
from brickyard.honesty import SUSPICIOUS
from brickyard.honesty.answers import WritePath, write_path, write_path_answer
from brickyard.honesty.measure import Declared, measure
from brickyard.report.study_tables import honesty_tables
from brickyard.schema import Document, stored
from brickyard.store import Store
from brickyard.study.running.interrupt import Interrupt

DEFAULT_SIZE = "256MiB"  # four times what is written between two flushes at most
STYLE = {"suspicious": "bold red", "plausible": "green", "no verdict": "dim"}

Protected = Annotated[
    bool,
    Parameter(negative="", show_default=False, help="The data sheet says that the write cache survives a power cut."),
]

app = App(name="honesty", help="Flushes and durable writes, compared with what the medium can do.")
app.command(
    "brickyard.cli.durability.witness:write",
    name="write",
    help="Write until the power is cut, while a recorder notes every acknowledged write.",
)
app.command(
    "brickyard.cli.durability.witness:verify",
    name="verify",
    help="After the power cut: check that every acknowledged write is there.",
)


@app.default
def honesty(
    target: str | None = None,
    /,
    *,
    check: Annotated[
        bool, Parameter(negative="", show_default=False, help="Exit with 1 if something is suspicious.")
    ] = False,
    protected: Protected = False,
    overrides: options.Overrides = (),
    placing: options.Placing = options.AS_IT_IS,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Compare flushes and durable writes with what the medium can do, and report what is suspicious.

    Parameters
    ----------
    target
        A file or block device; without it, a scratch file is made, and removed at the end.
    """
    targets = named(target)
    if target and bricks.is_modelled(target):
        raise BadInputError(
            f"{target}: a modelled brick only does what its model says, so there is nothing to check; name a file "
            "or a device"
        )
    with (
        Store(store) as kept,
        aim_at(
            targets,
            placing if target or placing.size else replace(placing, size=DEFAULT_SIZE),
        ) as aimed,
    ):
        with Interrupt() as interrupt, Terminal() as terminal:
            study, results = measure(kept, terminal, interrupt, aimed, list(overrides), Declared(protected))
        records = [kept.record(result.run) for result in results]
        made = kept.studies(study)[0]
    found = write_path(made, records)
    said = write_path_answer(made, found)
    if json:
        emit({**said.document(), **_document(study, found)})
    else:
        _print(stdout(), said, found)
    code = EXIT_CODES.get(results[-1].outcome, BAD_INPUT)
    return FAILED if check and code == 0 and found.word == SUSPICIOUS else code


def _document(study: int, found: WritePath) -> Document:
    last = found.records[-1].info
    return {
        "study": study,
        "runs": [record.info.id for record in found.records],
        "outcome": last.outcome,
        "message": last.message,
        "warnings": stored(distinct_warnings(list(found.records))),
        "verdict": found.word,
        "findings": [{"id": item.id, "state": item.state, "text": item.text} for item in found.findings],
        "figures": found.measured.document(),
        "write_cache": msgspec.to_builtins(found.cache),
    }


def _print(console: Console, said: Answer, found: WritePath) -> None:
    records = list(found.records)
    print_answer(console, said)
    print_labelled(console, [(Text(item.state, STYLE[item.state]), item.text) for item in found.findings], "right")
    console.print()
    print_warnings(console, records)
    for made in honesty_tables(found.measured):
        print_table(console, made)
        console.print()
    print_circumstances(console, records)
    last = records[-1].info
    if last.outcome != "done":
        print_line(console, f"{last.outcome}: {last.message}; the findings are based on what was measured before that")

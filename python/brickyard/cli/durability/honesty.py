"""Duty: `brickyard honesty`: measure, and say what is suspicious. Refusal: the judgement is in `brickyard.honesty`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from rich.console import Console
from rich.text import Text

from brickyard import bricks
from brickyard.analysis.judging.answers import belief
from brickyard.analysis.judging.merging import distinct_warnings
from brickyard.cli.parts import options
from brickyard.cli.parts.output import EXIT_CODES, emit, print_labelled, print_line, stdout, table
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.tables import print_circumstances, print_warnings
from brickyard.cli.parts.target import aim_at, named
from brickyard.errors import BAD_INPUT, FAILED, BadInputError
from brickyard.facts.write_cache import write_cache_facts
from brickyard.honesty import SUSPICIOUS, Figures, Finding, figures, findings, verdict
from brickyard.honesty.measure import measure
from brickyard.schema import Document, stored
from brickyard.schema.target_sheet import WriteCaches
from brickyard.store import Record, Store
from brickyard.study.running.interrupt import Interrupt
from brickyard.units import format_iops, format_mib_per_s, format_ns, format_size

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
            study, results = measure(kept, terminal, interrupt, aimed, list(overrides))
        records = [kept.record(result.run) for result in results]
    measured = figures(records)
    facts = cache_of(records)
    found = findings(measured, facts, protected=protected)
    if json:
        emit(_document(study, records, measured, facts, found))
    else:
        _print(stdout(), records, measured, found)
    code = EXIT_CODES.get(results[-1].outcome, BAD_INPUT)
    return FAILED if check and code == 0 and verdict(found) == SUSPICIOUS else code


def cache_of(records: list[Record]) -> WriteCaches:
    """What is known of the write caches below the one target of these runs."""
    return write_cache_facts(records[0].info.facts.targets[0])


def _document(
    study: int, records: list[Record], measured: Figures, facts: WriteCaches, found: list[Finding]
) -> Document:
    return {
        "study": study,
        "runs": [record.info.id for record in records],
        "outcome": records[-1].info.outcome,
        "message": records[-1].info.message,
        "warnings": stored(distinct_warnings(records)),
        "verdict": verdict(found),
        "findings": [{"id": item.id, "state": item.state, "text": item.text} for item in found],
        "figures": measured.document(),
        "write_cache": msgspec.to_builtins(facts),
    }


def _print(console: Console, records: list[Record], measured: Figures, found: list[Finding]) -> None:
    console.print(Text.assemble("verdict: ", (verdict(found), STYLE[verdict(found)])))
    print_labelled(console, [(Text(item.state, STYLE[item.state]), item.text) for item in found], "right")
    print_line(console, f"Before you rely on it: {belief(records)}", "dim")
    console.print()
    print_warnings(console, records)
    if measured.groups:
        rows = [[f"{g.writes:,}", format_iops(g.writes_per_s), format_ns(g.flush_ns)] for g in measured.groups]
        columns = [("writes per flush", "right"), ("writes/s", "right"), ("flush", "right")]
        console.print(table("Group commits", columns, rows))
        console.print()
    if measured.dirty:
        rows = [
            [
                format_size(d.dirty_bytes),
                f"{d.flushes:,}",
                format_ns(d.writes_ns),
                format_ns(d.flush_ns),
                format_mib_per_s(d.bytes_per_s) if d.dirty_bytes else "–",
            ]
            for d in measured.dirty
        ]
        columns = [(name, "right") for name in ("dirty data", "flushes", "writes", "flush", "MiB/s with flush")]
        console.print(table("Flush time against dirty data", columns, rows))
        console.print()
    print_circumstances(console, records)
    last = records[-1].info
    if last.outcome != "done":
        print_line(console, f"{last.outcome}: {last.message}; the findings are based on what was measured before that")

"""Duty: `brickyard store check` and `brickyard store salvage`. Refusal: no store is repaired in its place."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_line, stdout
from brickyard.cli.parts.selection import open_store
from brickyard.errors import DONE, FAILED
from brickyard.store import command_on
from brickyard.store.record import DAMAGED
from brickyard.store.salvage import Loss
from brickyard.units import format_count

store = App(name="store", help="Check the store of runs, and copy what can still be read from a damaged store.")
ROWS_SHOWN = 20


@store.command
def check(*, store: options.StorePlace = None, json: options.Json = False) -> int:
    """Read every record of the store, and name the runs that are damaged. Exit code 1: at least one is damaged."""
    with open_store(store, may_be_cut=True) as kept:
        found, losses = kept.examine()
        runs = kept.runs()
    damaged = sorted({run.id for run in runs if run.outcome == DAMAGED} | {x.run for x in losses if x.run is not None})
    if json:
        emit(
            {
                "store": str(kept.place),
                "runs": len(runs),
                "damaged_runs": damaged,
                "file": found,
                "rows": [_document(item) for item in losses],
            }
        )
    else:
        _say([f"file: {line}" for line in found], losses)
        every = f"{format_count(len(runs))} run{'' if len(runs) == 1 else 's'}"
        _line(f"{every}, {format_count(len(damaged))} damaged{_named(damaged)}")
        if found or losses:
            _line(f"{command_on(kept.place, 'store salvage -o NEW')} copies all that can be read into a new store")
    return FAILED if found or losses or damaged else DONE


@store.command
def salvage(
    *,
    output: Annotated[
        Path, Parameter(name=["--output", "-o"], validator=options.STORE, help="The new store; must not exist.")
    ],
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Copy everything readable into a new store. The old one is not changed. Exit code 1: something was lost."""
    with open_store(store, may_be_cut=True) as kept:
        losses, found = kept.salvage(output), kept.file_damage()
    if json:
        emit(
            {
                "store": str(kept.place),
                "output": str(output),
                "file": found,
                "lost": [_document(item) for item in losses],
            }
        )
    else:
        _say([f"file: {line}" for line in found], losses)
        lost = f"{format_count(len(losses))} rows were lost" if losses else "nothing was lost"
        _line(f"{output}: written; {lost}")
    return FAILED if losses else DONE


def _document(loss: Loss) -> dict[str, object]:
    return {"table": loss.table, "row": loss.row, "run": loss.run, "cause": loss.cause}


def _named(runs: list[int]) -> str:
    return f" ({', '.join(map(str, runs))})" if runs else ""


def _say(lines: list[str], losses: list[Loss]) -> None:
    for line in lines:
        _line(line)
    for loss in losses[:ROWS_SHOWN]:
        of = f" of run {loss.run}" if loss.run is not None and loss.table != "run" else ""
        row = "" if loss.row is None else f" {loss.row}"
        _line(f"{loss.table}{row}{of}: {loss.cause}")
    rest = Counter(loss.table for loss in losses[ROWS_SHOWN:])
    if rest:
        _line("further rows: " + ", ".join(f"{table} {count}" for table, count in rest.items()))


def _line(text: str) -> None:
    print_line(stdout(), text)

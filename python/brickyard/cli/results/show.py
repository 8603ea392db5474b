"""Duty: `brickyard show`: everything about one run. Refusal: nothing that is not in the record."""

from __future__ import annotations

from brickyard.analysis.judging.summary import run_document
from brickyard.cli.parts import judging as judges
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, stdout
from brickyard.cli.parts.selection import one, open_store
from brickyard.cli.parts.tables import print_run


def show(
    run: str = "latest",
    /,
    *,
    ruler: judges.Rulers = (),
    check: judges.Check = False,
    price: judges.Usd = None,
    capacity: judges.Capacity = None,
    ports: judges.Ports = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Show a run: answer, warnings, figures, errors, the slowest requests, and circumstances.

    Parameters
    ----------
    run
        The number of a run, or latest.
    """
    judge = judges.judging(ruler, check, price, capacity, ports)
    with open_store(store) as kept:
        record = one(kept, run)
    if json:
        emit({**run_document(record), **judge.document(record)})
    else:
        print_run(stdout(), record)
        judge.print(stdout(), record)
    return judge.exit_code([record], 0)

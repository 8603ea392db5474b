"""Duty: `brickyard run pgbench`. Refusal: what its keys mean is `databases.pgbench_plan`'s to know."""

from __future__ import annotations

from pathlib import Path

from brickyard.analysis.summary import run_document
from brickyard.cli import judging as judges
from brickyard.cli.characterize import EXIT_CODES
from brickyard.cli.output import emit, stderr, stdout
from brickyard.cli.progress import TRANSACTIONS, Terminal
from brickyard.cli.tables import print_run
from brickyard.databases.connect import spoken
from brickyard.databases.ephemeral import DEFAULT_PLACE
from brickyard.databases.pgbench_plan import KIND, SCALE_BYTES, read_changes
from brickyard.errors import BAD_INPUT, BadInputError
from brickyard.schema import plan_document
from brickyard.store import Store, check_place
from brickyard.study.interrupt import Interrupt
from brickyard.study.pgbench import measure
from brickyard.units import format_size


def run_pgbench(
    targets: tuple[str, ...],
    changes: tuple[str, ...],
    times: int,
    judge: judges.Judging,
    store: Path | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    """PostgreSQL's pgbench on a directory, in which a server of our own is made, or on a running server."""
    if len(targets) > 1:
        raise BadInputError(f"pgbench: takes one directory or DSN, and {len(targets)} were named")
    spec = read_changes(targets[0] if targets else str(DEFAULT_PLACE), changes)
    check_place(store)
    if dry_run:
        shown = spoken(spec.target) if spec.is_dsn else spec.target
        if as_json:
            emit({"profile": KIND, "plan": plan_document(spec.plan()), "targets": [shown], "forecast": None})
            return 0
        size = format_size(spec.scale * SCALE_BYTES)
        stdout().print(f"{spec.plan().title} on {shown}: about {size}, and its log", markup=False, soft_wrap=True)
        stdout().print("nothing was touched (--dry-run)")
        return 0
    with Store(store) as kept:
        with Interrupt() as interrupt, Terminal(words=TRANSACTIONS) as terminal:
            results = measure(kept, terminal, interrupt, spec, times)
        records = [kept.record(result.run) for result in results]
    if as_json:
        documents = [{**run_document(record), **judge.document(record)} for record in records]
        emit(documents[0] if times == 1 else {"runs": documents})
    else:
        for record in records:
            print_run(stdout(), record)
            judge.print(stdout(), record)
    for line in judge.failures(records):
        stderr().print(line, markup=False, soft_wrap=True)
    return judge.exit_code(records, EXIT_CODES.get(results[-1].outcome, BAD_INPUT))


def refuse_options(**given: object) -> None:
    """Options of other loads, which would have no effect here."""
    for name, value in given.items():
        if value:
            raise BadInputError(
                f"--{name.replace('_', '-')}: has no effect on pgbench; see --set scale=, clients=, pg.NAME="
            )

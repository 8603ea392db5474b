"""Duty: `brickyard run pgbench`. Refusal: what its keys mean is `databases.pgbench_plan`'s to know."""

from __future__ import annotations

from pathlib import Path

from brickyard.analysis.databases.pgbench import SCALE_BYTES
from brickyard.cli.parts import judging as judges
from brickyard.cli.parts.output import emit, print_line, stdout
from brickyard.cli.parts.progress import TRANSACTIONS, Terminal
from brickyard.cli.parts.told import tell
from brickyard.databases.connect import spoken
from brickyard.databases.ephemeral import DEFAULT_PLACE
from brickyard.databases.pgbench_plan import KIND, read_changes
from brickyard.errors import BadInputError
from brickyard.schema import plan_document
from brickyard.store import Store, check_place
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.pgbench import measure
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
    """Run PostgreSQL's pgbench on a directory, in which Brickyard makes its own server, or on a running server."""
    if len(targets) > 1:
        raise BadInputError(f"pgbench: needs exactly one directory or DSN; {len(targets)} were named")
    spec = read_changes(targets[0] if targets else str(DEFAULT_PLACE), changes)
    check_place(store)
    if dry_run:
        shown = spoken(spec.target) if spec.is_dsn else spec.target
        if as_json:
            emit({"profile": KIND, "plan": plan_document(spec.plan()), "targets": [shown], "forecast": None})
            return 0
        size = format_size(spec.scale * SCALE_BYTES)
        print_line(stdout(), f"{spec.plan().title} on {shown}: about {size}, and its log")
        stdout().print("nothing was touched (--dry-run)")
        return 0
    with Store(store) as kept:
        with Interrupt() as interrupt, Terminal(words=TRANSACTIONS) as terminal:
            results = measure(kept, terminal, interrupt, spec, times)
        records = [kept.record(result.run) for result in results]
    return tell(records, judge, repetitions=times, as_json=as_json)


def refuse_options(**given: object) -> None:
    """Options of other loads, which would have no effect here."""
    for name, value in given.items():
        if value:
            raise BadInputError(
                f"--{name.replace('_', '-')}: has no effect on pgbench; see --set scale=, clients=, pg.NAME="
            )

"""Duty: runs of pgbench through the ordinary runner, in the database of their set.

Refusal: what is measured is pgbench's and the server's to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from msgspec import UNSET

from brickyard.databases.connect import spoken
from brickyard.databases.pgbench_home import Homes
from brickyard.databases.pgbench_plan import KIND, PgbenchSpec, read_changes, spec_of
from brickyard.databases.pgbench_run import starter
from brickyard.errors import BadInputError
from brickyard.schema import RunOptions
from brickyard.schema.plan import OtherPlan
from brickyard.store import Store
from brickyard.store.record import RunMarks
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Listener, Runner, RunResult, RunSpec
from brickyard.study.running.seeds import seed_of


def run_spec(target: str, changes: Iterable[str]) -> RunSpec:
    """Without its server, which is made when the run begins; no password stands in it."""
    spec = read_changes(target, changes)
    shown = spoken(target) if spec.is_dsn else target
    return RunSpec(KIND, spec.plan(), [shown], RunOptions(room_bytes=spec.room_bytes or UNSET))


def at_home(run: RunSpec, homes: Homes, target: str | None = None) -> RunSpec:
    """With the server or database of its set. `target` is the DSN where it has a password."""
    if not isinstance(run.plan, OtherPlan):
        raise BadInputError(f"{run.profile}: is no run of pgbench")
    spec = replace(spec_of(run.plan, target or run.targets[0]), room_bytes=run.options.room)
    home = homes.take(spec)
    return replace(run, start=starter(spec, home), places=(home.place,) if home.place else (), targets=[home.shown])


def measure(store: Store, listener: Listener, interrupt: Interrupt, spec: PgbenchSpec, times: int) -> list[RunResult]:
    """All repetitions in one database, or up to the first that does not end well. More than one make a study."""
    runner = Runner(store, listener, interrupt)
    listener.expect(times)
    study: int | None = None

    def noted() -> int:
        nonlocal study
        if study is None:
            study = store.add_study(f"pgbench × {times}", {"profile": KIND, "repetitions": times})
        return study

    results: list[RunResult] = []
    with Homes(listener.note) as homes:
        for repetition in range(1, times + 1):
            own = replace(spec, seed=seed_of(spec.seed, repetition)) if times > 1 else spec
            marks = RunMarks(repetition=repetition if times > 1 else None)
            shown = spoken(spec.target) if spec.is_dsn else spec.target
            room = RunOptions(room_bytes=own.room_bytes or UNSET)
            run = RunSpec(KIND, own.plan(), [shown], room, marks=marks)
            results.append(runner.run(at_home(run, homes, spec.target), noted if times > 1 else None))
            if results[-1].outcome != "done" or interrupt.requested:
                break
    if study is not None:
        store.end_study(study, results[-1].outcome, [])
    return results

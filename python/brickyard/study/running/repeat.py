"""Duty: one profile several times over, under the same conditions. Refusal: nothing is averaged here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from brickyard.conditions import Held
from brickyard.schema import RunOptions, RunWarning
from brickyard.schema.plan import Plan
from brickyard.store import Record, Store
from brickyard.store.record import RunMarks
from brickyard.study.running.by_fio import run_fio
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Listener, Runner, RunResult, RunSpec
from brickyard.study.running.seeds import with_seed_of


def repeat(
    store: Store,
    listener: Listener,
    interrupt: Interrupt,
    profile: str,
    plan: Plan,
    targets: list[str],
    options: RunOptions,
    times: int,
    condition: str = "normal",
    by: str = "brickyard",
    holding: Callable[[], AbstractContextManager[Held | None]] = nullcontext,
    judged: Callable[[Record], list[RunWarning]] = lambda _: [],
) -> list[RunResult]:
    """Runs until all repetitions are done, or one of them is interrupted or fails. More than one make a study.

    Each repetition has a seed of its own, the first one that of the plan.

    `holding` brings the array below the targets into the condition, for each repetition anew.
    `judged` finds out what is kept among the warnings of each.
    """
    runner = Runner(store, listener, interrupt)
    listener.expect(times)
    study: int | None = None

    def noted() -> int:
        nonlocal study
        if study is None:
            study = store.add_study(f"{profile} × {times}", {"profile": profile, "repetitions": times})
        return study

    results: list[RunResult] = []
    for repetition in range(1, times + 1):
        marks = RunMarks(repetition=repetition if times > 1 else None)
        own = with_seed_of(plan, repetition)
        spec = RunSpec(profile, own, targets, options, condition=condition, marks=marks, judged=judged)
        if by == "fio":
            results.append(run_fio(store, listener, interrupt, spec, noted() if times > 1 else None))
        else:
            # Each repetition in a condition of its own: a rebuild is used up by the run that was measured during it.
            with holding() as held:
                results.append(runner.run(spec, noted if times > 1 else None, held))
        if results[-1].outcome != "done":
            break
    if study is not None:
        store.end_study(study, results[-1].outcome, [])
    return results

"""Duty: one profile by our engine and by fio in turn, so that what drifts meanwhile falls on both alike. The two runs
of a repetition have its seed, and each repetition has a seed of its own.

Refusal: no figures; `brickyard.analysis.judging.crosscheck` compares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from brickyard.store import Store
from brickyard.store.record import RunMarks
from brickyard.study.running.by_fio import run_fio
from brickyard.study.running.check import check_run
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Listener, Runner, RunResult, RunSpec
from brickyard.study.running.seeds import with_seed_of


@dataclass(frozen=True)
class Crosschecked:
    study: int
    ours: list[int]
    theirs: list[int]
    outcome: str
    message: str


def crosscheck(store: Store, listener: Listener, interrupt: Interrupt, spec: RunSpec, times: int) -> Crosschecked:
    check_run(spec.profile_plan, spec.targets, spec.options, by_fio=True)
    runner = Runner(store, listener, interrupt)
    listener.expect(times)
    study = store.add_study(f"crosscheck of {spec.profile}", {"profile": spec.profile, "repetitions": times})
    ours: list[int] = []
    theirs: list[int] = []
    outcome = "done"
    for repetition in range(1, times + 1):
        for program, runs in (("brickyard", ours), ("fio", theirs)):
            own = with_seed_of(spec.profile_plan, repetition)
            labelled = replace(spec, plan=own, marks=RunMarks(engine=program, repetition=repetition))
            result = _one(store, listener, interrupt, runner, labelled, study, program)
            runs.append(result.run)
            outcome = result.outcome
            if outcome != "done":
                store.end_study(study, outcome, [])
                return Crosschecked(study, ours, theirs, outcome, result.message)
    store.end_study(study, outcome, [])
    return Crosschecked(study, ours, theirs, outcome, "")


def _one(
    store: Store, listener: Listener, interrupt: Interrupt, runner: Runner, spec: RunSpec, study: int, program: str
) -> RunResult:
    if program == "fio":
        return run_fio(store, listener, interrupt, spec, study)
    return runner.run(spec, lambda: study)

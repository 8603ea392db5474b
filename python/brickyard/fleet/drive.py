"""Duty: a load on many hosts into the store, once or several times. Refusal: no arithmetic of shares, no merging."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from brickyard.fleet.head import FleetRun, Wishes
from brickyard.fleet.shares import divide
from brickyard.schema.plan import Plan
from brickyard.store import Json, Store
from brickyard.study.interrupt import Interrupt
from brickyard.study.runner import Listener, Runner, RunResult, RunSpec
from brickyard.study.seeds import with_seed_of


def drive(
    store: Store,
    listener: Listener,
    interrupt: Interrupt,
    ray: Any,
    name: str,
    plan: Plan,
    hosts: Sequence[str],
    targets: Sequence[str],
    overwrite: Sequence[str],
    wishes: Wishes,
    times: int = 1,
) -> list[RunResult]:
    """Each repetition has a seed of its own; ends with the first that is not done."""
    runner = Runner(store, listener, interrupt)
    listener.expect(times)
    study = store.add_study(f"{name} × {times}", {"profile": name, "repetitions": times}) if times > 1 else None
    results: list[RunResult] = []
    for repetition in range(1, times + 1):
        division = divide(name, with_seed_of(plan, repetition), hosts, targets, wishes.share, overwrite)
        run_name = f"{name.rpartition('/')[2]}-{secrets.token_hex(6)}"
        options: Json = {"hosts": list(hosts), "share": wishes.share, "fleet_run": run_name}

        def start(division: Any = division, run_name: str = run_name) -> FleetRun:
            return FleetRun(ray, division, wishes, run_name, listener.note)

        spec = RunSpec(
            name,
            division.plan,
            division.targets,
            options,
            labels={"repetition": repetition} if times > 1 else {},
            places=(),
            start=start,
        )
        number = study
        results.append(runner.run(spec, (lambda number=number: number) if number is not None else None))
        if results[-1].outcome != "done":
            break
    if study is not None:
        store.end_study(study, results[-1].outcome, [])
    return results

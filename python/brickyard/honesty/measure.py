"""Duty: run the honesty profiles on a target, one after the other, as one study.

Refusal: it judges nothing, and has no way of its own to the storage: every run goes through the ordinary runner.
"""

from __future__ import annotations

from brickyard import profiles
from brickyard.honesty.figures import PROFILES
from brickyard.store import Json, Store
from brickyard.study.interrupt import Interrupt
from brickyard.study.runner import Listener, Runner, RunResult, RunSpec


def measure(
    store: Store, listener: Listener, interrupt: Interrupt, target: str, options: Json, overrides: list[str]
) -> tuple[int, list[RunResult]]:
    """The study and its runs, up to the first that does not end well."""
    plans = [(name, profiles.validate(profiles.read(name), overrides)) for name in PROFILES]
    runner = Runner(store, listener, interrupt)
    listener.expect(len(plans))
    study: int | None = None

    def noted() -> int:
        nonlocal study
        if study is None:
            study = store.add_study("honesty", {"target": target})
        return study

    results: list[RunResult] = []
    for name, plan in plans:
        results.append(runner.run(RunSpec(profile=name, plan=plan, targets=[target], options=options), noted))
        if results[-1].outcome != "done":
            break
    store.end_study(noted(), results[-1].outcome, [])
    return noted(), results

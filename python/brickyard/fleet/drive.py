"""Duty: loads on many hosts into the store: one, several repetitions of it, or one on each volume of each host.

Refusal: no arithmetic of shares, no merging, no figure.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from brickyard.errors import BrickyardError
from brickyard.fleet.head import FleetRun, FleetWishes, worker_program
from brickyard.fleet.shares import divide, split_targets
from brickyard.schema import RunOptions
from brickyard.schema.plan import Plan
from brickyard.store import Store, StudyAbout
from brickyard.store.record import NO_MARKS, RunMarks
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Listener, Runner, RunResult, RunSpec
from brickyard.study.running.seeds import with_seed_of


@dataclass(frozen=True)
class Fleets:
    """Where loads go, and who hears of them."""

    store: Store
    listener: Listener
    interrupt: Interrupt
    ray: Any
    wishes: FleetWishes
    overwrite: Sequence[str] = ()
    _runners: list[Runner] = field(default_factory=list)

    @property
    def runner(self) -> Runner:
        """One for all runs, so that the facts of this host are gathered once."""
        if not self._runners:
            self._runners.append(Runner(self.store, self.listener, self.interrupt))
        return self._runners[0]

    def one(
        self,
        name: str,
        plan: Plan,
        hosts: Sequence[str],
        targets: Sequence[str],
        marks: RunMarks = NO_MARKS,
        study: int | None = None,
    ) -> RunResult:
        asked = RunSpec(name, plan, list(targets), marks=marks)
        return self.runner.run(self.over(asked, hosts), (lambda: study) if study is not None else None)

    def over(self, spec: RunSpec, hosts: Sequence[str]) -> RunSpec:
        """A run as one over hosts; raises BadInputError where its shares have no answer."""
        own = [text for text in self.overwrite if text.partition(":")[0] in hosts]
        division = divide(spec.profile, spec.profile_plan, hosts, spec.targets, self.wishes.share, own)
        run_name = f"{spec.profile.rpartition('/')[2]}-{secrets.token_hex(6)}"
        return replace(
            spec,
            plan=division.plan,
            targets=division.targets,
            options=RunOptions(hosts=list(hosts), share=self.wishes.share, fleet_run=run_name),
            places=(),
            start=lambda: FleetRun(self.ray, division, self.wishes, run_name, self.listener.note),
        )


def drive(
    on: Fleets, name: str, plan: Plan, hosts: Sequence[str], targets: Sequence[str], times: int = 1
) -> list[RunResult]:
    """Each repetition has a seed of its own; ends with the first that is not done."""
    divide(name, plan, hosts, targets, on.wishes.share, on.overwrite)  # refused before anything is written down
    on.listener.expect(times)
    words = {"profile": name, "repetitions": times}
    study = on.store.add_study(f"{name} × {times}", words) if times > 1 else None
    results: list[RunResult] = []
    for repetition in range(1, times + 1):
        marks = RunMarks(repetition=repetition if times > 1 else None)
        results.append(on.one(name, with_seed_of(plan, repetition), hosts, targets, marks, study))
        if results[-1].outcome != "done":
            break
    if study is not None:
        on.store.end_study(study, results[-1].outcome, [])
    return results


def rounds(hosts: Sequence[str], targets: Sequence[str], *, one_at_a_time: bool) -> list[list[tuple[str, str]]]:
    """Hosts and volumes that are measured together: each host's first, then the second ones, and so on. Each host has
    the volumes that all have, and its own."""
    of_host = {host: [*split[1], *split[0]] for host in hosts if (split := split_targets(host, hosts, targets))}
    longest = max((len(own) for own in of_host.values()), default=0)
    together = [[(host, own[at]) for host, own in of_host.items() if at < len(own)] for at in range(longest)]
    return [[unit] for some in together for unit in some] if one_at_a_time else together


def each_volume(
    on: Fleets,
    name: str,
    plan: Plan,
    about: StudyAbout,
    together: Sequence[Sequence[tuple[str, str]]],
    down: Sequence[str] = (),
) -> tuple[int, list[RunResult], dict[str, str]]:
    """The same load on every volume; the number of the study, its runs, and why volumes were not measured at all.

    A round that one of its volumes holds up is taken apart: each volume by itself. `down`: what is to be said of hosts
    that are not there.
    """
    worker_program()  # without it no volume can be measured
    on.listener.expect(len(together))
    study = on.store.add_study(f"census of {len(about.units)}", msgspec.to_builtins(about))
    results: list[RunResult] = []
    refused: dict[str, str] = {}
    notes = list(down)
    waiting = [(number, list(some)) for number, some in enumerate(together, 1)]
    try:
        while waiting:
            number, some = waiting.pop(0)
            targets = [f"{host}:{target}" for host, target in some]
            try:
                results.append(on.one(name, plan, [host for host, _ in some], targets, RunMarks(round=number), study))
            except BrickyardError as error:
                notes.append(f"round {number}: {error}")
                on.listener.note(notes[-1])
                if len(some) == 1:
                    refused[targets[0]] = str(error)
                waiting[:0] = [(number, [unit]) for unit in some] if len(some) > 1 else []
                continue
            if results[-1].outcome == "interrupted":
                break
    finally:
        bad = next((result.outcome for result in results if result.outcome != "done"), "done")
        on.store.end_study(study, "failed" if refused and bad == "done" else bad, notes)
    return study, results, refused

"""Duty: runs on one target, one after the other, as one study; and those of `honesty`.

Refusal: it judges nothing, and has no way of its own to the storage: every run goes through the ordinary runner.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from brickyard import profiles
from brickyard.facts.write_cache import write_cache_facts
from brickyard.honesty.figures import PROFILES
from brickyard.schema.plan import Plan
from brickyard.store import Proof, Store
from brickyard.study.running.aim import Aim
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Listener, Runner, RunResult, RunSpec


@dataclass(frozen=True)
class Declared:
    """What the user said of the target and a power cut had shown; the study keeps both, since its verdict needs them
    when it is made again."""

    protected: bool
    proof: Proof | None = None


class OneStudy:
    """Runs up to the first that does not end well. The study is noted when its first run has really begun."""

    def __init__(
        self,
        store: Store,
        listener: Listener,
        interrupt: Interrupt,
        aimed: Aim,
        name: str,
        declared: Declared,
        runs: int,
    ) -> None:
        self.store, self.aimed, self.name, self.declared = store, aimed, name, declared
        self.runner = Runner(store, listener, interrupt)
        self.results: list[RunResult] = []
        self._study: int | None = None
        listener.expect(runs)

    def run(self, plans: Iterable[tuple[str, Plan]]) -> bool:
        """Whether all of them, and those before, ended well."""
        for name, plan in plans:
            if self.results and self.results[-1].outcome != "done":
                break
            spec = RunSpec(profile=name, plan=plan, targets=self.aimed.targets[:1], options=self.aimed.options)
            self.results.append(self.runner.run(spec, self._noted))
        return self.results[-1].outcome == "done"

    def end(self) -> tuple[int, list[RunResult]]:
        self.store.end_study(self._noted(), self.results[-1].outcome, [])
        return self._noted(), self.results

    def _noted(self) -> int:
        """Once the facts of the target are known: its verdict needs those of the caches, which no sheet has whole."""
        if self._study is None:
            targets = self.aimed.targets[:1]
            caches = write_cache_facts(self.runner.facts_of(targets).targets[0])
            about = {"target": targets[0], **msgspec.to_builtins(self.declared), "caches": msgspec.to_builtins(caches)}
            self._study = self.store.add_study(self.name, about)
        return self._study


def measure(
    store: Store, listener: Listener, interrupt: Interrupt, aimed: Aim, overrides: list[str], declared: Declared
) -> tuple[int, list[RunResult]]:
    """The study of the honesty profiles and its runs."""
    plans = [(name, profiles.validate(profiles.read(name), overrides)) for name in PROFILES]
    study = OneStudy(store, listener, interrupt, aimed, "honesty", declared, len(plans))
    study.run(plans)
    return study.end()

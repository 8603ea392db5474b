"""Duty: simulations spread over the hosts of a fleet. Which host computes a task has no influence on its result.

Refusal: no task is read here. One whose host dies is given to another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any

from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.fleet import cluster
from brickyard.fleet.head import AGENT_S, worker_program
from brickyard.store import Json

MOST_AT_ONCE = 4
"""Of one host, whatever its cores; its process answers so many questions at once, and some more."""


@dataclass(frozen=True)
class _Slot:
    """A core of a host."""

    host: str
    agent: Any


class Sweep:
    """The cores of some hosts. Many threads may ask at once; so many are answered at once as there are cores."""

    def __init__(self, ray: Any, hosts: Iterable[str], say: Callable[[str], None]) -> None:
        self._ray = ray
        self._say = say
        self._free: Queue[_Slot] = Queue()
        self._dead: set[str] = set()
        self.cores = 0
        program = ray.put(worker_program())
        self._agents = {host: cluster.agent_on(ray, host) for host in hosts}
        for host, agent in self._agents.items():
            try:
                ray.get(agent.place.remote(program), timeout=AGENT_S)
                cores = ray.get(agent.facts.remote([]), timeout=AGENT_S)["cpus"]
            except ray.exceptions.RayError as error:
                raise BrickyardError(f"{host}: computes nothing: {one_line(error)[:300]}") from error
            for _ in range(min(int(cores), MOST_AT_ONCE)):
                self._free.put(_Slot(host, agent))
                self.cores += 1

    def close(self) -> None:
        for agent in self._agents.values():
            with suppress(Exception):
                self._ray.kill(agent)

    def result(self, task: Json) -> Json:
        """What a task comes to, on whichever core is free."""
        text = json.dumps(task)
        while True:
            slot = self._slot()
            try:
                (line,) = self._ray.get(slot.agent.compute.remote(text))
            except self._ray.exceptions.RayTaskError as error:
                self._free.put(slot)
                raise BrickyardError(f"{slot.host}: {one_line(error)[-300:]}") from error
            except self._ray.exceptions.RayError:
                if slot.host not in self._dead:
                    self._dead.add(slot.host)
                    self._say(f"{slot.host}: lost; others compute its part")
                continue
            self._free.put(slot)
            told: Json = json.loads(line)
            if "error" in told:
                raise BadInputError(one_line(told["error"]))
            return told

    def _slot(self) -> _Slot:
        while len(self._dead) < len(self._agents):
            try:
                slot = self._free.get(timeout=1.0)
            except Empty:
                continue
            if slot.host not in self._dead:
                return slot
        raise BrickyardError("no host of the fleet is left to compute on")

    def reference(self, number: int, texts: dict[str, str], seed: int, left_out: bool) -> float:
        """As the core's `reference_simulate`."""
        cell = {"number": number, "seed": seed, "left_out": left_out}
        return float(self.result({"reference": cell, "bricks": texts})["figure"])

    def events(self, plan: str, target: str, options: Json) -> Iterator[Json]:
        """As those of a run of the core."""
        told = self.result({"plan": plan, "target": target, "options": options})
        return (json.loads(text) for text in told["events"])

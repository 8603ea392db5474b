"""Duty: simulations spread over the hosts of a fleet. Which host computes a task has no influence on its result.

Refusal: no task is read here. One whose host dies is given to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any

import msgspec

from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.fleet import cluster
from brickyard.fleet.answers import HostFacts, answer_of
from brickyard.fleet.head import AGENT_S, worker_program
from brickyard.schema import RunOptions, encode

MOST_AT_ONCE = 4
"""Of one host, whatever its cores; its process answers so many questions at once, and some more."""


@dataclass(frozen=True)
class _Slot:
    """A core of a host."""

    host: str
    agent: Any


class _Cell(msgspec.Struct, frozen=True):
    number: int
    seed: int
    left_out: bool


class _ReferenceTask(msgspec.Struct, frozen=True):
    """A cell of a published table, as the worker simulates it."""

    reference: _Cell
    bricks: dict[str, str]


class _RunTask(msgspec.Struct, frozen=True):
    """A run on a model; the plan is JSON."""

    plan: str
    target: str
    options: RunOptions


class _Computed(msgspec.Struct, frozen=True):
    """What a task came to, by its kind; or why it came to nothing."""

    figure: float = 0.0
    events: list[str] = []
    error: str | None = None


_COMPUTED = msgspec.json.Decoder(_Computed)


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
                facts = answer_of(host, ray.get(agent.facts.remote([]), timeout=AGENT_S), HostFacts)
            except ray.exceptions.RayError as error:
                raise BrickyardError(f"{host}: computes nothing: {one_line(error)[:300]}") from error
            for _ in range(min(facts.cpus, MOST_AT_ONCE)):
                self._free.put(_Slot(host, agent))
                self.cores += 1

    def close(self) -> None:
        for agent in self._agents.values():
            with suppress(Exception):
                self._ray.kill(agent)

    def _result(self, task: _ReferenceTask | _RunTask) -> _Computed:
        """On whichever core is free."""
        text = encode(task)
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
            told = _COMPUTED.decode(line)
            if told.error is not None:
                raise BadInputError(one_line(told.error))
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
        return self._result(_ReferenceTask(_Cell(number, seed, left_out), texts)).figure

    def events(self, plan: str, target: str, options: RunOptions) -> Iterator[str]:
        """As those of a run of the core."""
        return iter(self._result(_RunTask(plan, target, options)).events)

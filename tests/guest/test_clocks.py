"""Hosts whose clock is set while they wait for their start and while they measure: a guest's clock is nobody else's."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from brickyard import profiles
from brickyard.fleet.agent import Agent
from brickyard.fleet.head import worker_program
from brickyard.schema import plan_document

SECOND = 1_000_000_000
HOUR = 3_600 * SECOND
LEAD_S, LASTS_S, RATE = 8, 6, 20  # an emulated processor needs seconds for what takes milliseconds elsewhere
LOAD = f"""
title = "paced"
interval = "1s"
[[phase]]
name = "measure"
duration = "{LASTS_S}s"
[[phase.stream]]
name = "reads"
request = "4KiB"
address = "random"
depth = 4
pace = {{ loop = "open", rate = {RATE}, arrivals = "constant" }}
"""


class Host:
    """A worker with the agent that speaks to it."""

    def __init__(self, name: str, target: str, plan: str) -> None:
        self.agent = Agent(name)
        self.lines: list[dict[str, Any]] = []
        self.code: int | None = None
        self._next = 0
        self.agent.place(worker_program())
        self.agent.start(run="clocks", plan=plan, targets=[target], bricks="", note="{}", words=[])

    def hear(self) -> None:
        taken = self.agent.take(self._next, 0.2)
        self._next, self.code = taken["next"], taken["code"]
        self.lines += [json.loads(line) for line in taken["lines"]]
        assert not taken["errors"], taken["errors"]

    def word(self, name: str) -> dict[str, Any] | None:
        return next((line for line in self.lines if line.get("word") == name), None)


def set_by(ns: int) -> None:
    time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + ns)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    (tmp_path / "paced.toml").write_text(LOAD)
    plan = json.dumps(plan_document(profiles.validate(profiles.read(str(tmp_path / "paced.toml")), [])))
    apart_ns = time.time_ns() - time.monotonic_ns()
    with ExitStack() as both:
        made = []
        for name, target in (("a", "/dev/vda"), ("b", "/dev/vdb")):
            made.append(Host(name, target, plan))
            both.callback(made[-1].agent.end)
        yield made
    time.clock_settime_ns(time.CLOCK_REALTIME, time.monotonic_ns() + apart_ns)


def until(hosts: list[Host], name: str, within_s: float) -> None:
    end_s = time.monotonic() + within_s
    while any(host.word(name) is None for host in hosts):
        assert time.monotonic() < end_s, [host.lines for host in hosts]
        for host in hosts:
            host.hear()


def told_of_start(host: Host) -> None:
    """Its start is fixed by then: before, a clock that is set would move it."""
    end_s = time.monotonic() + LEAD_S / 2
    while not any(line.get("event") == "phase" for line in host.lines):
        assert time.monotonic() < end_s, host.lines
        host.hear()


def test_clocks_that_are_set_move_neither_the_start_nor_an_interval(hosts: list[Host]) -> None:
    until(hosts, "ready", 60)
    first, second = hosts
    instant_ns = [host.agent.now() + LEAD_S * SECOND for host in hosts]
    due_s = time.monotonic() + LEAD_S
    told_first = first.agent.begin(0, instant_ns[0])
    told_of_start(first)
    set_by(-HOUR)  # one waits for its start already, the other was compared and is yet to be told
    told_second = second.agent.begin(0, instant_ns[1])
    assert told_second - told_first == pytest.approx(-HOUR, abs=SECOND), "each by the clock as it is set"
    while time.monotonic() < due_s + LASTS_S / 2:
        for host in hosts:
            host.hear()
    set_by(60 * SECOND)
    until(hosts, "began", LASTS_S + 90)
    for host, moved_s in ((first, -3540), (second, 60)):
        began = host.word("began")
        assert began is not None
        assert 0 <= began["late_ns"] < 2 * SECOND
        assert began["clock_moved_ns"] == pytest.approx(moved_s * SECOND, abs=SECOND), "as good as it was set"
        intervals = [line for line in host.lines if line.get("event") == "interval" and not line["drain"]]
        spans = [line["end_ns"] - line["start_ns"] for line in intervals]
        assert spans == pytest.approx([SECOND] * LASTS_S, abs=SECOND // 100)
        requests = sum(cell["requests"] for line in intervals for cell in line["cells"])
        assert requests == pytest.approx(RATE * LASTS_S, abs=4)

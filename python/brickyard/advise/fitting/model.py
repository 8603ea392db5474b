"""Duty: what a model to be fitted is: values of its parameters, stages that fit them, and its text as a brick file.

Refusal: no stage has a load for itself: loads are told by what they ask for, never one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from brickyard.advise.fitting.seen import MIXED, MOST_WRITES, READ, WRITE, Seen
from brickyard.ready import ready

Values = dict[str, float | str | bool]
Test = Callable[[Seen], bool]
SMALL_BYTES, LARGE_BYTES = 16 * 1024, 32 * 1024
"""Below, the number of requests limits; above, the bytes do."""


@dataclass(frozen=True)
class Stage:
    """One parameter and the loads that it is fitted to. With `choices`, in their order, it takes one of these, and
    `nested` parameters are fitted anew for each; with `course` it is set by that figure of a rate's fall; else it is
    any value above 0."""

    parameter: str
    words: str
    takes: Test
    choices: tuple[float | str | bool, ...] = ()
    nested: tuple[Stage, ...] = ()
    tails: bool = False
    """Also to the 10th and 90th percentile of the service time."""
    lowest: float = 0.0
    highest: float = float("inf")
    course: str = ""
    """`first_per_s`, `lasting_per_s`, `surplus` or `done` of `rates.Step`; the parameter goes with it, or `against`."""
    against: bool = False
    scan: bool = False
    """All choices are tried, where the best is not reached from its neighbours."""
    gain: float = 0.0003
    """A value has to be so much better than the one that was there: more than the luck of few requests."""
    when: Callable[[Values], bool] = lambda _values: True
    """Whether the parameter does anything beside these others."""


Amount = float | int | str | None


class Said(msgspec.Struct, frozen=True):
    """Parameters by which models are described; None where a class does not have one."""

    members: Amount = None
    level: str | None = None
    stripe: Amount = None
    write_cache: bool = False
    scheduler: str | None = msgspec.field(name="drive.scheduler", default=None)
    write_back: bool = msgspec.field(name="controller.write_back", default=False)
    cache_bytes: Amount = msgspec.field(name="controller.cache_bytes", default=None)
    bus_mb_per_s: Amount = msgspec.field(name="controller.bus_mb_per_s", default=None)
    bus_write_efficiency: Amount = msgspec.field(name="controller.bus_write_efficiency", default=None)
    read_command: Amount = msgspec.field(name="controller.read_command", default=None)
    write_command: Amount = msgspec.field(name="controller.write_command", default=None)


ready(Said)


@dataclass
class Model:
    """A class with values for its parameters."""

    name: str
    kind: str
    values: Values
    stages: tuple[Stage, ...]
    derived: dict[str, str] = field(default_factory=dict)
    """Why a value that is fitted to nothing is what it is."""
    rules: Callable[[Values], None] = lambda _values: None
    """Sets what is derived from fitted values."""

    first_stages: tuple[Stage, ...] = ()
    """Those of the first pass, where others are known from the family that it is of."""
    most_writes: int = MOST_WRITES
    """After so many a steady load of writes has shown what it does."""
    alike: dict[str, str] = field(default_factory=dict)
    """Other values of a parameter that do as well."""

    @property
    def said(self) -> Said:
        return msgspec.convert(self.values, Said)

    def follow(self) -> None:
        self.rules(self.values)

    def having(self, **values: float | str | bool) -> Model:
        """The same class with other values."""
        other = replace(self, values={**self.values, **values})
        other.follow()
        return other

    def variants(self, loads: Sequence[Seen]) -> list[Model]:
        """What it stands for; a model by itself stands for none but itself."""
        return []

    def own(self) -> dict[str, str]:
        """The texts that a simulation of it needs, as those of a brick named `fit`."""
        return {"drives/fit": self.text("fit", "", "", {})}

    def text(self, title: str, about: str, source: str, fitted: dict[str, str]) -> str:
        head = [f"title = {quoted(title)}", f"source = {quoted(source)}", f"about = {quoted(about)}"]
        lines = [*head, f'kind = "{self.kind}"', ""]
        lines += [f"{key} = {literal(key, value)}" for key, value in self.values.items()]
        lines += ["", "[basis]"]
        lines += [f"{key} = {quoted(self.basis(key, fitted))}" for key in self.values]
        return "\n".join(lines) + "\n"

    def basis(self, key: str, fitted: dict[str, str]) -> str:
        if key in fitted:
            others = f"; {self.alike[key]} would do as well" if key in self.alike else ""
            return f"fitted to {fitted[key]}{others}"
        return f"derived: {self.derived.get(key, 'no workload determines it')}"


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "; ") + '"'


RATES = ("mb_per_s", "_percent", "_efficiency")
TIMES = ("_time", "_latency", "_overhead", "_interval", "_tail", "_switch", "_settle", "_limit", "_command")


def literal(key: str, value: float | str | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if key.startswith("seek_") or key.endswith(TIMES):
        return f'"{max(0, round(value))}ns"'
    if key.endswith(RATES):
        return f"{value:.3f}"
    return str(max(0, round(value)))


def number(values: Values, key: str) -> float:
    found = values[key]
    assert isinstance(found, (int, float))
    return float(found)


def alone(s: Seen) -> bool:
    return s.in_flight == 1


def small(s: Seen) -> bool:
    return s.request_bytes <= SMALL_BYTES


def large(s: Seen) -> bool:
    return s.request_bytes >= LARGE_BYTES


def read(s: Seen) -> bool:
    return s.operation == READ


def write(s: Seen) -> bool:
    return s.operation == WRITE and not s.is_durable


def durable(s: Seen) -> bool:
    return s.operation == WRITE and s.is_durable


def random(s: Seen) -> bool:
    return s.is_random


def sequential(s: Seen) -> bool:
    return s.address == "sequential"


def deep(s: Seen) -> bool:
    return s.in_flight > 1


def mixed(s: Seen) -> bool:
    return s.operation == MIXED


def steady(s: Seen) -> bool:
    return not s.parts


def changing(s: Seen) -> bool:
    return bool(s.parts)


def both(*tests: Test) -> Test:
    """A load that passes all of these."""
    return lambda s: all(test(s) for test in tests)


LATENCY = both(read, random, small, alone)
PARALLEL = both(read, random, small, deep, steady)
LARGE_ALONE = both(read, large, alone)
ALONE = both(read, alone)
LARGE_DEEP = both(read, large, deep)
STREAM = both(read, sequential, large)
STREAM_SMALL = both(read, sequential, small, alone)
WRITE_LATENCY = both(write, small, alone, steady)
WRITE_STREAM = both(write, sequential, large, steady)
WRITE_PARALLEL = both(write, random, deep)
WRITE_SMALL = both(write, random, small)


def mean_ns(s: Seen) -> float:
    """Mean service time, by Little's law."""
    return s.in_flight * 1e9 / s.iops


def first(loads: Sequence[Seen], *tests: Test) -> Seen | None:
    """Of the loads that pass, the one with the fewest requests in flight and the smallest of them."""
    found = [s for s in loads if all(test(s) for test in tests)]
    return min(found, key=lambda s: (s.in_flight, s.request_bytes), default=None)


def most_mb(loads: Sequence[Seen], test: Test) -> float:
    return max((s.bytes_per_s / 1e6 for s in loads if test(s)), default=100.0)

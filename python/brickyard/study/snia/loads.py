"""Duty: what a PTS test asks of its target, as plans; how long that takes and how much it writes.

Refusal: nothing is run here but a little of a model's loads, to time it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from brickyard import _core, facts
from brickyard.formats import toml_text
from brickyard.formats.profile_parts import RANDOM, SEQUENTIAL, Limits, ProfilePhase, ProfileStream
from brickyard.schema import Document, RunOptions, read_plan
from brickyard.schema.plan import Plan
from brickyard.study.running.computing import MODELLED_WRITES, Computed, computing_s, computing_words
from brickyard.study.snia import tests
from brickyard.study.snia.tests import Cell, Kind, RoundTest
from brickyard.units import format_seconds, format_size

MODELLED_ROUNDS = 5  # of a model's first try, and how many more each further one has
SATURATION = "write-saturation"
ON_AND_ON = frozenset({SATURATION, "cross-stimulus"})
"""Tests without rounds and without preconditioning."""
EXAMPLE_PER_S = 1_000_000_000
"""By which a time of writes is said in bytes: how much a target takes is known only afterwards."""


@dataclass(frozen=True)
class Setting:
    """How a test is carried out: PTS's own, but where the user shortens it."""

    kind: Kind
    range_percent: float
    round_s: float
    rounds_max: int
    seed: int = 1

    @property
    def region(self) -> str:
        return f"0..{self.range_percent:g}%"

    @property
    def is_by_the_book(self) -> bool:
        full = (self.kind.range_percent, tests.ROUND_S, tests.ROUNDS_MAX)
        return (self.range_percent, self.round_s, self.rounds_max) == full


@dataclass(frozen=True)
class Loads:
    """The phases of the tests."""

    setting: Setting

    def plan(self, name: str, phases: list[ProfilePhase]) -> Plan:
        """One run. In tests that go on and on an interval is a round; else a round has ten, which show its spread."""
        parts = 1 if name in ON_AND_ON else 10
        interval_ns = max(round(self.setting.round_s * 1e9) // parts, 1_000_000)
        title = f"{self.setting.kind.title}: {tests.TITLES[name]}"
        text = toml_text.profile_text(
            f"pts-{name}", title, tests.SOURCE, [], phases, seed=self.setting.seed, interval=f"{interval_ns}ns"
        )
        return read_plan(_core.validate(text, []))

    def saturation(self) -> list[ProfilePhase]:
        queue = self.setting.kind.queue
        cell = Cell(0, 4 * tests.KIB, True, queue.workers, queue.depth, tests.SATURATION_ROUNDS)
        phase = self.phase(cell, f"random {cell.words}")
        return [replace(phase, limits=replace(phase.limits, passes=tests.SATURATION_FILLS))]

    def stimuli(self) -> list[ProfilePhase]:
        queue = self.setting.kind.queue
        cells = {
            name: Cell(0, size, is_random, queue.workers if is_random else 1, queue.depth, rounds)
            for name, size, is_random, rounds in tests.STIMULI
        }
        return [self.phase(cell, f"{name}: {cell.words}") for name, cell in cells.items()]

    def precondition(self) -> ProfilePhase:
        """Workload-independent: the range twice, in order, by 128 KiB."""
        stream = ProfileStream(
            name="precondition",
            operations=toml_text.operations(0),
            request=toml_text.size(tests.PRECONDITION_BYTES),
            address=SEQUENTIAL,
            region=self.setting.region,
            depth=32,
        )
        return ProfilePhase("precondition", Limits(passes=tests.PRECONDITION_PASSES), [stream])

    def round(self, test: RoundTest, number: int) -> list[ProfilePhase]:
        before = [] if test.prewrite is None else [self.phase(test.prewrite, f"writes before round {number}")]
        return [*before, *(self.phase(cell, f"{test.words(cell)} of round {number}") for cell in test.cells)]

    def phase(self, cell: Cell, name: str) -> ProfilePhase:
        stream = ProfileStream(
            name=f"{cell.mix} {toml_text.size(cell.size_bytes)}",
            operations=toml_text.operations(cell.reads),
            request=toml_text.size(cell.size_bytes),
            address=RANDOM if cell.is_random else SEQUENTIAL,
            region=self.setting.region,
            workers=cell.workers,
            depth=cell.depth,
        )
        duration = f"{round(cell.rounds * self.setting.round_s * 1e9)}ns"
        return ProfilePhase(name, Limits(duration=duration), [stream])


@dataclass(frozen=True)
class Extent:
    """How long a test takes: seconds in all, or seconds a round of so many, and those of what follows the rounds."""

    loads: int
    seconds: float
    rounds: tuple[int, int] | None = None
    after_s: float = 0.0
    writing_s: float = 0.0
    """Of `seconds`, by the share of writes; write saturation has none, as it ends by what it wrote."""
    writing_after_s: float = 0.0

    @property
    def in_all_s(self) -> tuple[float, float]:
        """At least and at most."""
        least, most = self.rounds or (1, 1)
        return least * self.seconds + self.after_s, most * self.seconds + self.after_s

    @property
    def in_all_writing_s(self) -> tuple[float, float]:
        least, most = self.rounds or (1, 1)
        return least * self.writing_s + self.writing_after_s, most * self.writing_s + self.writing_after_s

    def document(self) -> Document:
        if self.rounds is None:
            return {"loads": self.loads, "seconds": self.seconds}
        after = {"seconds_after": self.after_s} if self.after_s else {}
        return {"loads": self.loads, "seconds_a_round": self.seconds, "rounds": list(self.rounds), **after}


def extent(setting: Setting, name: str) -> Extent:
    """Without a target, and without preconditioning."""
    if name == SATURATION:
        return Extent(1, tests.SATURATION_ROUNDS * setting.round_s)
    if name == "cross-stimulus":
        lasts_s = sum(rounds for *_, rounds in tests.STIMULI) * setting.round_s
        return Extent(len(tests.STIMULI), lasts_s, writing_s=lasts_s)
    test = tests.round_test(name, setting.kind.queue)
    prewrites = test.prewrite.rounds if test.prewrite else 0
    seconds = (len(test.cells) + prewrites) * setting.round_s
    points = tests.POINTS * tests.POINT_ROUNDS * setting.round_s if name == tests.DIRTH else 0.0
    writing_s = (prewrites + sum(1 - cell.reads / 100 for cell in test.cells)) * setting.round_s
    of_points = points * (1 - tests.DEMAND_READS / 100)
    return Extent(len(test.cells), seconds, (tests.WINDOW, setting.rounds_max), points, writing_s, of_points)


@dataclass(frozen=True)
class Forecast:
    """How long the tests take and how much they write, at least and at most: of a model, this computer's seconds."""

    least_s: float
    most_s: float
    is_modelled: bool
    prepared: int
    """How many of the tests write the range first."""
    range_bytes: int | None
    """None where the target's size is not known."""
    rounds: tuple[int, int]
    writing_s: tuple[float, float]
    """How long the loads write, at least and at most."""
    saturates: bool
    """Whether write saturation is among the tests."""

    @property
    def passes(self) -> int:
        """How often preconditioning writes the range."""
        return 0 if self.is_modelled else tests.PRECONDITION_PASSES * self.prepared

    @property
    def precondition_bytes(self) -> int | None:
        """What preconditioning writes; how much the loads write is decided by how fast the target is."""
        return self._of_range(self.passes)

    @property
    def saturation_bytes(self) -> int | None:
        """The most that write saturation writes."""
        return self._of_range(tests.SATURATION_FILLS if self.saturates and not self.is_modelled else 0)

    def _of_range(self, times: int) -> int | None:
        return times * self.range_bytes if self.range_bytes is not None else None if times else 0

    def document(self) -> Document:
        return {
            "seconds": [self.least_s, self.most_s],
            "of_this_computer": self.is_modelled,
            "precondition_passes": self.passes,
            "precondition_bytes": self.precondition_bytes,
            "write_saturation_bytes_max": self.saturation_bytes,
            "write_seconds": [0.0, 0.0] if self.is_modelled else list(self.writing_s),
        }

    def lines(self, targets: Sequence[str]) -> list[str]:
        """In words, with what that is to the targets."""
        if self.is_modelled:
            most = f" if every test is steady after {MODELLED_ROUNDS} rounds, {format_seconds(self.most_s)} at the most"
            return [f"duration: about {computing_words(self.least_s)}{most if self.prepared else ''}", MODELLED_WRITES]
        lasts = _from_to(self.least_s, self.most_s, format_seconds)
        why = [f"{_from_to(*self.rounds, '{:.0f}'.format)} rounds until a test is steady"] if self.prepared else []
        why += ["write saturation may end earlier"] if self.saturates else []
        lasts += f" ({'; '.join(why)})" if why else ""
        before = ", and the time for preconditioning" if self.passes else ""
        lines = [f"duration: {lasts}{before}", f"writes: {self._writes()}"]
        if self.passes and self.precondition_bytes is not None:
            written = self.precondition_bytes
            lines += [f"endurance of {target}: {facts.endurance(target, written).text}" for target in targets]
        return lines

    def _writes(self) -> str:
        parts = [_passes_words(self.passes, self.precondition_bytes, "preconditioning")] if self.passes else []
        if self.saturates:
            most = _passes_words(tests.SATURATION_FILLS, self.saturation_bytes, "write saturation")
            parts.append(f"at most {most}")
        least, most_s = self.writing_s
        if most_s:
            taken = _from_to(least * EXAMPLE_PER_S, most_s * EXAMPLE_PER_S, format_size)
            time = _from_to(least, most_s, format_seconds)
            parts.append(f"what the target takes in {time} of writes (at 1 GB/s, {taken})")
        return ", and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _passes_words(times: int, written: int | None, what: str) -> str:
    passes = f"the range {times} times"
    return f"{passes} for {what}" if written is None else f"{format_size(written)} for {what} ({passes})"


def _from_to(least: float, most: float, words: Callable[[float], str]) -> str:
    return words(most) if least == most else f"{words(least)} to {words(most)}"


def forecast(
    setting: Setting, names: Sequence[str], targets: list[str], options: RunOptions, size_bytes: int | None
) -> Forecast:
    """Before the tests begin. `size_bytes`: how much of the target is for data, if known."""
    range_bytes = None if size_bytes is None else round(size_bytes * setting.range_percent / 100)
    if options.is_modelled:
        least, most = _modelled_s(setting, names, targets, options, range_bytes or 0)
    else:
        least, most = (sum(extent(setting, name).in_all_s[at] for name in names) for at in (0, 1))
    prepared = sum(name not in ON_AND_ON for name in names)
    writing = [extent(setting, name).in_all_writing_s for name in names]
    writing_s = sum(one[0] for one in writing), sum(one[1] for one in writing)
    rounds, saturates = (tests.WINDOW, setting.rounds_max), SATURATION in names
    return Forecast(least, most, options.is_modelled, prepared, range_bytes, rounds, writing_s, saturates)


def _modelled_s(
    setting: Setting, names: Sequence[str], targets: list[str], options: RunOptions, range_bytes: int
) -> tuple[float, float]:
    """A model begins anew with every run, so that further rounds are computed with those before them."""
    loads = Loads(setting)
    least = most = 0.0
    tries = -(-setting.rounds_max // MODELLED_ROUNDS)
    for name in names:
        if name in ON_AND_ON:
            phases = loads.saturation() if name == SATURATION else loads.stimuli()
            spent = [_computing_s(loads, name, phases, targets, options)] * 2
        else:
            moved = Limits(bytes=toml_text.size(max(1, tests.PRECONDITION_PASSES * range_bytes)))
            before = _computing_s(loads, name, [replace(loads.precondition(), limits=moved)], targets, options)
            phases = loads.round(tests.round_test(name, setting.kind.queue), 1)
            each = MODELLED_ROUNDS * _computing_s(loads, name, phases, targets, options)
            spent = [before + each, tries * before + each * tries * (tries + 1) / 2]
        least, most = least + spent[0], most + spent[1]
    return least, most


def _computing_s(loads: Loads, name: str, phases: list[ProfilePhase], targets: list[str], options: RunOptions) -> float:
    return computing_s([Computed(loads.plan(name, phases), targets, options)])

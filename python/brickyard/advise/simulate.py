"""Duty: one plan on one modelled brick in one condition, as a record that lives in memory.

Refusal: no second way of running or of counting: the core runs, a store in memory keeps, `analysis` computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from msgspec import structs

from brickyard import bricks, profiles
from brickyard.analysis.figures.totals import rated_rows, totals
from brickyard.bricks import caches
from brickyard.bricks.resolved import ModelledBrick, Resolved, RotatingDrive
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.schema import (
    CoreSilent,
    Duration,
    End,
    RunFacts,
    RunOptions,
    RunOutcome,
    encode,
    failed_end,
    plan_text,
    told,
    words_of,
)
from brickyard.schema.conditions import REBUILDING
from brickyard.schema.operations import writes
from brickyard.schema.plan import Phase, Plan
from brickyard.store import Record, Store

EVENT_WAIT_MS = 50


@dataclass(frozen=True)
class Brick:
    """A modelled brick. `array` is the text of an array file, or None where `name` is one that ships; with `own` no
    other texts are looked at."""

    name: str
    array: str | None = None
    own: dict[str, str] | None = None

    def texts(self) -> dict[str, str]:
        if self.own is not None:
            return self.own
        known = bricks.texts_for(self.name)
        return known if self.array is None else {**known, f"arrays/{self.name}": self.array}

    def resolve(self, overrides: Sequence[str] = ()) -> Resolved:
        """Parameters and capacity; what the core refuses is bad input."""
        return bricks.resolve(self.name, overrides, self.texts())


def capacity_of(brick: Brick) -> int:
    return brick.resolve().capacity_bytes


def drive_kind(brick: Brick) -> str:
    """What kind of drives a brick is made of, in the words of their files."""
    return brick.resolve().brick.drive.kind


def unverified(profile: str) -> list[str]:
    """The override without which a profile that verifies is refused: a model carries no data that could be checked."""
    plan = profiles.validate(profiles.read(profile), [])
    verifies = any(stream.verify for phase in plan.phase for stream in phase.stream)
    return ["verify=false"] if verifies else []


FILL_S = 300
"""Warm-up before a write-back cache: random writes fill the largest modelled, 512 MB, at the pace of a few drives."""

FILLED_PER_S = 100
"""Writes a second for each drive in the time in which its cache is filled: about what a drive of 7,200 rpm does at
random, one after the other. Drives whose writes come more slowly have nothing to fill."""


def fill_s(brick: ModelledBrick) -> int:
    """The warm-up after which caches that end writes show the pace of what is behind them; 0 where there is none.

    Twice the entries of a drive's cache, as some drain meanwhile; drives are filled side by side.
    """
    if caches.write_back(brick) is not None or caches.dirty_bytes(brick):
        return FILL_S
    rotating = [d for d in brick.drives if isinstance(d, RotatingDrive) and caches.caches_writes(brick, d)]
    entries = max((drive.write_cache_entries for drive in rotating), default=0)
    return -(-2 * entries // FILLED_PER_S)


def filled(plan: Plan, brick: ModelledBrick) -> Plan:
    """The plan with each phase that writes begun by a warm-up that fills the brick's caches, or its own if longer."""
    fill = Duration(fill_s(brick) * 1_000_000_000)

    def begun(phase: Phase) -> Phase:
        is_short = phase.warmup.ns < fill.ns and any(map(writes, phase.stream))
        return structs.replace(phase, warmup=fill) if is_short else phase

    return structs.replace(plan, phase=[begun(phase) for phase in plan.phase])


MID_REBUILD = 50.0
"""Per cent: where a rebuild stands in a brick that says nothing of it."""


def dearest(condition: str, brick: ModelledBrick, asked: Sequence[str] = ()) -> list[str]:
    """A rebuild at its beginning, where the arm has the longest way between it and what users ask for. In the middle
    of a drive, where a run's rebuild stands if nobody says otherwise, it is at its mildest, and nobody should buy by
    that. What a brick says of itself or somebody `asked` for stays."""
    rebuilds = condition.replace("-", "_") in REBUILDING
    said = any("rebuild_position" in word for word in asked) or brick.rebuild_position != MID_REBUILD
    return ["rebuild_position=0"] if rebuilds and not said else []


Carrier = Callable[[str, str, RunOptions], Iterable[str]]
"""Runs a plan on a modelled target with options, here or on another host; its events as JSON."""


def here(plan: str, target: str, options: RunOptions) -> list[str]:
    """By the core of this process."""
    return computed(plan, [target], options)


def computed(plan: str, targets: list[str], options: RunOptions) -> list[str]:
    """The events of a run on modelled targets."""
    from brickyard import _core

    try:
        handle = _core.start(plan, targets, encode(options))
    except ValueError as error:
        raise BadInputError(one_line(error)) from error
    events: list[str] = []
    try:
        while not handle.finished():
            events += handle.events(EVENT_WAIT_MS)
    except RuntimeError as error:
        raise BrickyardError(f"{targets[0]}: {one_line(error)}") from error
    finally:
        if not handle.finished():
            handle.abandon()
    return events


def simulate(
    plan: Plan,
    brick: Brick,
    condition: str | None = "normal",
    overrides: list[str] | None = None,
    carry: Carrier = here,
) -> Record:
    """Runs to the end of the plan in virtual time. Without a condition the brick keeps its own."""
    from brickyard import _core

    changes = [*(overrides or []), *([bricks.condition_override(condition)] if condition else [])]
    options = RunOptions(bricks=brick.texts(), overrides=changes)
    target = bricks.MODELLED + brick.name
    events = [told(text) for text in carry(plan_text(plan), target, options)]
    end = events.pop().event if events else failed_end(CoreSilent())
    if not isinstance(end, End) or end.outcome is not RunOutcome.DONE:
        message = words_of(end.message) if isinstance(end, End) else ""
        raise BrickyardError(f"{target}: {one_line(message or 'the simulation did not end')}")
    with Store(":memory:") as store:
        run = store.add_run(
            profile="",
            profile_hash="",
            plan=plan,
            condition=condition or "normal",
            targets=[target],
            options=options,
            software_version=_core.version(),
            facts=RunFacts(),
        )
        store.add_events(run, events)
        store.end_run(run, end, None, [])
        return store.record(run)


def rates(record: Record) -> tuple[float, float]:
    """Requests/s and bytes/s of all streams, in the phase that did the least."""
    rows = rated_rows(totals(record))
    phases = sorted({row.phase for row in rows})
    return min(
        (
            (sum(r.iops for r in rows if r.phase == phase), sum(r.bytes_per_s for r in rows if r.phase == phase))
            for phase in phases
        ),
        default=(0.0, 0.0),
    )

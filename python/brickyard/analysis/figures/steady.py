"""Duty: the part of a phase that its figures are of: the steady state where the phase was to reach one, else all of it.

A phase's `steady` rule is SNIA's (Solid State Storage Performance Test Specification): range and fitted slope over a
window of rounds. The engine judges it after each round and reports the window in which it was first met. The figures
of a phase are those of the time from the start of that window on, as long as every later window met the rule as well.
Where the state was left again, no part of the phase stands for what lasts: its figures are of all of it, and say so.

Refusal: nothing is judged anew; a phase with a ramp changes its load on purpose and has no steady state.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from brickyard import schema
from brickyard.schema import Document
from brickyard.schema.plan import Phase, SteadyRule
from brickyard.store import Record


class State(Enum):
    """What became of the steady state that a phase was to reach."""

    HELD = "held"
    LEFT = "left"
    NEVER = "never"


@dataclass(frozen=True)
class Steady:
    """`from_ns` is where the figures of the phase begin on the run's clock, None where they are of all of it.

    `changed_ns` is when the state was reached or left, None where it never was.
    """

    state: State
    from_ns: int | None = None
    changed_ns: int | None = None
    rounds: int = 0

    @property
    def words(self) -> str:
        """What stands beside the figure."""
        if self.from_ns is not None:
            return f"steady, from {_seconds(self.from_ns)}"
        if self.state is State.LEFT:
            return f"all; left steady state at {_seconds(self.changed_ns or 0)}"
        return "all; never steady"

    def document(self) -> Document:
        return {"state": self.state.value, "from_ns": self.from_ns, "changed_ns": self.changed_ns}


def steady(record: Record, phase: int) -> Steady | None:
    """None where the phase was not to reach one."""
    phases = record.info.plan.phase
    asked = phases[phase] if phase < len(phases) else None
    if not isinstance(asked, Phase) or asked.steady is None or asked.ramp:
        return None
    told = [event for event in record.of(schema.Steady) if event.phase == phase]
    if not told:
        return Steady(State.NEVER)
    last = max(told, key=lambda event: event.at_ns)
    if not last.reached:
        return Steady(State.LEFT, None, last.at_ns)
    return Steady(State.HELD, _window_start_ns(last, asked.steady), last.at_ns, asked.steady.rounds)


def headline_from_ns(record: Record, phase: int) -> int:
    """Where the figures of a phase begin; the warm-up is left out anyway."""
    found = steady(record, phase)
    return 0 if found is None or found.from_ns is None else found.from_ns


def _window_start_ns(event: schema.Steady, rule: SteadyRule) -> int:
    if event.from_ns is not None:
        return event.from_ns
    # Of a record from before the engine told it: rounds are as long as asked for, but for a part of an interval.
    return event.at_ns - rule.rounds * rule.round.ns


def _seconds(at_ns: int) -> str:
    return f"{at_ns / 1e9:,.1f} s"

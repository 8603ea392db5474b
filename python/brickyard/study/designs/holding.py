"""Duty: which condition is held around a run, and for how many runs.

Refusal: a model is never held, since its condition is part of it; arrays are the business of `brickyard.conditions`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace

from brickyard import arrays, bricks, conditions
from brickyard.conditions.verdict import STATE_OF
from brickyard.errors import BadInputError


@dataclass(frozen=True)
class SetUp:
    """A condition of one target; runs that ask for the same one can share it."""

    targets: tuple[str, ...]
    condition: str
    neighbour: str | None = None
    array: str | None = None
    rate_bytes_per_s: int | None = None

    @property
    def changes_something(self) -> bool:
        """A model's condition is part of it, and what is normal needs no work."""
        return self.condition != "normal" and not any(map(bricks.is_modelled, self.targets))

    def check(self, *, manage: bool) -> None:
        """What could not be held is refused before anything is measured."""
        if self.changes_something:
            target = self._target()
            conditions.check(
                target,
                self.condition,
                manage=manage,
                rate_bytes_per_s=self.rate_bytes_per_s,
                neighbour=self.neighbour,
                array=self.array,
            )

    def _target(self) -> str:
        if len(self.targets) != 1:
            raise BadInputError("a condition is that of one array; name one target")
        return self.targets[0]

    def hold(
        self, *, manage: bool, say: Callable[[str], None], stopped: Callable[[], bool]
    ) -> AbstractContextManager[conditions.Held | None]:
        """A real array is watched in normal condition too: one at work is not normal."""
        if any(map(bricks.is_modelled, self.targets)):
            return nullcontext()
        asked = self.condition != "normal"
        if not asked and (len(self.targets) != 1 or (self.array is None and arrays.find(self.targets[0]) is None)):
            return nullcontext()
        return conditions.hold(
            self._target(),
            self.condition,
            manage=manage,
            rate_bytes_per_s=self.rate_bytes_per_s,
            neighbour=self.neighbour,
            array=self.array,
            say=say,
            stopped=stopped,
        )


def is_rebuilt_next(degraded: SetUp, rebuilding: SetUp) -> bool:
    """Whether the one leaves an array without the member that the other rebuilds."""
    asked = replace(degraded, condition="rebuilding", rate_bytes_per_s=rebuilding.rate_bytes_per_s)
    return degraded.condition == "degraded" and degraded.changes_something and asked == rebuilding


class Keeper:
    """Holds a condition for one run after the other, until another is asked for or this one would not last."""

    def __init__(self, hold: Callable[[SetUp], AbstractContextManager[conditions.Held | None]]) -> None:
        self._hold = hold
        self._stack: ExitStack | None = None
        self._what: SetUp | None = None
        self.held: conditions.Held | None = None
        self.set_ups = 0

    def keep(self, what: SetUp, run_s: float | None) -> conditions.Held | None:
        """The condition for a run of about this length; the one that is held, if it is the same and lasts so long."""
        if self._stack is not None and what == self._what and lasts(self.held, run_s):
            return self.held
        if self._goes_on_as(what):
            self.set_ups += 1
            return self.held
        self.close()
        with ExitStack() as stack:
            self.held = stack.enter_context(self._hold(what))
            self._stack = stack.pop_all()
        self._what = what
        self.set_ups += 1
        return self.held

    def _goes_on_as(self, what: SetUp) -> bool:
        """Whether the array that is held degraded is what has to be rebuilt now: then no rebuild goes before."""
        if self._what is None or self.held is None or not is_rebuilt_next(self._what, what):
            return False
        if not self.held.becomes_rebuilding(what.rate_bytes_per_s):
            return False
        self._what = what
        return True

    def close(self) -> None:
        """Undoes what was done for the condition, and waits until the array is normal."""
        stack, self._stack, self._what, self.held = self._stack, None, None, None
        if stack is not None:
            stack.close()

    def abandon(self, error: BaseException) -> None:
        """Undoes it without waiting, since something has gone wrong."""
        stack, self._stack, self._what, self.held = self._stack, None, None, None
        if stack is not None:
            stack.__exit__(type(error), error, error.__traceback__)


def lasts(held: conditions.Held | None, run_s: float | None) -> bool:
    """Whether the condition is still there and, at the pace of the run before, will be at the end of the next."""
    if held is None or held.begin_work is not None:
        return True
    state = held.look()
    if state.name != STATE_OF[held.condition]:
        return False
    told = [(at_ns, share) for at_ns, _, share in held.samples if share is not None]
    if state.progress_share is None or len(told) < 2 or run_s is None:
        return True
    (begun_ns, begun), (ended_ns, ended) = told[0], told[-1]
    share_of_run = (ended - begun) * run_s * 1e9 / (ended_ns - begun_ns) if ended_ns > begun_ns else 0.0
    return state.progress_share + share_of_run < 1.0

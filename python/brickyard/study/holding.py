"""Duty: keep a real target in its condition while a run is measured, and put down whether it stayed there.

What `brickyard.conditions` gives is described here by its shape, since a model has no array to be held.

Refusal: nothing is changed on an array here, and a model is never held: its condition is part of it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from brickyard import bricks
from brickyard.errors import BadInputError
from brickyard.store import Json

SAMPLE_EVERY_S = 1.0


class Validity(Protocol):
    @property
    def valid(self) -> bool: ...
    @property
    def reason(self) -> str: ...
    @property
    def samples(self) -> Sequence[tuple[int, str, float | None]]: ...


class Held(Protocol):
    def sample(self) -> Any: ...
    def verdict(self) -> Validity: ...


class Unheld:
    """A target that is in no condition that could end: a file, a disk by itself, a model."""

    def sample(self) -> None: ...
    def verdict(self) -> Validity | None:
        return None


def hold(
    targets: Sequence[str], condition: str, *, manage: bool, rate_bytes_per_s: int | None, neighbour: str | None
) -> AbstractContextManager[Any]:
    if any(bricks.is_modelled(target) for target in targets):
        return nullcontext(Unheld())
    try:
        from brickyard import conditions  # type: ignore[attr-defined,unused-ignore]
    except ImportError:
        if condition == "normal":
            return nullcontext(Unheld())
        raise BadInputError(f"{targets[0]}: only a modelled brick (sim:NAME) can be put into a condition") from None
    if condition == "normal" and not conditions.is_array(targets[0]):
        return nullcontext(Unheld())
    held: AbstractContextManager[Any] = conditions.hold(
        targets[0], condition, manage=manage, rate_bytes_per_s=rate_bytes_per_s, neighbour=neighbour
    )
    return held


class Sampling:
    """Asks the array about once a second while the run goes on."""

    def __init__(self, held: Held | Unheld) -> None:
        self._held = held
        self._asked_s = float("-inf")

    def turn(self) -> None:
        if time.monotonic() - self._asked_s >= SAMPLE_EVERY_S:
            self._asked_s = time.monotonic()
            self._held.sample()

    def event(self, condition: str) -> Json | None:
        """What the record keeps: state and progress against time, the verdict, and the pace that follows from them."""
        verdict = self._held.verdict()
        if verdict is None:
            return None
        samples = [[at_ns, str(state), share] for at_ns, state, share in verdict.samples]
        return {
            "event": "condition",
            "condition": condition,
            "valid": verdict.valid,
            "reason": verdict.reason,
            "samples": samples,
            **pace(samples),
        }


def pace(samples: Sequence[Sequence[Any]]) -> Json:
    """The time from nothing to whole at the pace seen between the first and the last sample of a running rebuild."""
    told = [(int(at_ns), float(share)) for at_ns, _, share in samples if share is not None]
    if len(told) < 2 or told[-1][0] <= told[0][0] or told[-1][1] <= told[0][1]:
        return {}
    return {"time_to_redundancy_s": (told[-1][0] - told[0][0]) / 1e9 / (told[-1][1] - told[0][1])}

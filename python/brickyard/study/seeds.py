"""Duty: the seed of each repetition. Refusal: nothing is run."""

from __future__ import annotations

import json

from brickyard.store import Json


def seed_of(first: int, repetition: int) -> int:
    """The seed of a repetition, counted from 1, which has the first one.

    With one seed for all, caches would know the addresses already, and a model would give the same figures again.
    """
    return first + repetition - 1


def with_seed_of(plan: str, repetition: int) -> str:
    """A plan as a repetition runs it; one that draws nothing has no seed, and stays as it is."""
    parsed: Json = json.loads(plan)
    if repetition == 1 or "seed" not in parsed:
        return plan
    parsed["seed"] = seed_of(int(parsed["seed"]), repetition)
    return json.dumps(parsed, ensure_ascii=False, separators=(",", ":"))

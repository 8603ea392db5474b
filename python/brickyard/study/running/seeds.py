"""Duty: the seed of each repetition. Refusal: nothing is run."""

from __future__ import annotations

from msgspec.structs import replace

from brickyard.schema.plan import Plan


def seed_of(first: int, repetition: int) -> int:
    """The seed of a repetition, counted from 1, which has the first one.

    With one seed for all, caches would know the addresses already, and a model would give the same figures again.
    """
    return first + repetition - 1


def with_seed_of(plan: Plan, repetition: int) -> Plan:
    """A plan as a repetition runs it."""
    return replace(plan, seed=seed_of(plan.seed, repetition))

"""Duty: which conditions of a run mean that an array works in the background. Refusal: no array is asked."""

from __future__ import annotations

from brickyard.schema.generated import HeldCondition

AT_WORK = (HeldCondition.REBUILDING, HeldCondition.SCRUBBING, HeldCondition.INITIALIZING)
"""The target's own array works."""
REBUILDING = (HeldCondition.REBUILDING, HeldCondition.NEIGHBOUR_REBUILDING)
ANY_AT_WORK = (*REBUILDING, HeldCondition.SCRUBBING, HeldCondition.INITIALIZING)
"""It, or one that shares its way to the host."""

"""Duty: put the array below a target into a condition, say truthfully in which it is all the while, and bring it back.

Refusal: it measures nothing. Without `manage` no array and no drive is changed, and with it none beyond its redundancy;
what must be undone is journaled before it is done.
"""

from __future__ import annotations

from brickyard.conditions.hold import NAMES, Held, check, hold, scrub_through, spoken, wait_for_normal, written
from brickyard.conditions.journal import left_of, leftovers
from brickyard.conditions.undo import restore
from brickyard.conditions.verdict import Sample, Validity

__all__ = [
    "NAMES",
    "Held",
    "Sample",
    "Validity",
    "check",
    "hold",
    "left_of",
    "leftovers",
    "restore",
    "scrub_through",
    "spoken",
    "wait_for_normal",
    "written",
]

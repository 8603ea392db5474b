"""Duty: what a load leaves open until its host is known: a size that follows from the memory.

Refusal: whatever the user has set stays.
"""

from __future__ import annotations

from brickyard import facts
from brickyard.store import Json

MEMORY_FACTOR = 2  # iowork's file was twice the memory (Kirkwood 2003); a smaller one measures the cache
OF_MEMORY = ("iowork", "bonnie")


def own_size(plan: Json) -> str | None:
    """The size that a profile's file has where nobody says another."""
    if plan.get("table") not in OF_MEMORY:
        return None
    memory = (facts.collect("/")["host"].get("memory") or {}).get("total_bytes")
    return str(MEMORY_FACTOR * int(memory)) if memory else None

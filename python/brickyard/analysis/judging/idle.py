"""Duty: conditions that changed nothing of a modelled brick, and yet are levels of a table.

Refusal: no figure is taken away for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from brickyard import bricks
from brickyard.bricks import caches
from brickyard.bricks.resolved import ModelledBrick
from brickyard.store import Record


def idle_switch_lines(found: Iterable[tuple[str, ModelledBrick]]) -> list[str]:
    """One line for each reason, with the bricks that have it. Names, and bricks as they came to be."""
    reasons: dict[str, list[str]] = {}
    for name, brick in found:
        why = caches.cannot_switch_off(brick)
        if why is not None:
            reasons.setdefault(why, []).append(name)
    return [
        (
            f"write-cache-off has no effect on {_listed(list(dict.fromkeys(names)))}: {why}; the figures are those of "
            "condition normal"
        )
        for why, names in reasons.items()
    ]


def idle_switches(records: Sequence[Record]) -> list[str]:
    """What is to be known of the runs of a study that were to switch write caches off."""
    switched = [r.info for r in records if r.info.condition.replace("-", "_") == "write_cache_off"]
    return idle_switch_lines(
        pair
        for info in switched
        for pair in zip(info.targets, bricks.resolved_of(info.targets, info.asked), strict=False)
    )


SHOWN = 3


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more

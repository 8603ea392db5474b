"""Duty: which targets are modelled bricks, by how they are written: `sim:NAME`.

Refusal: whether there is such a brick is known to `brickyard.bricks`.
"""

from __future__ import annotations

from collections.abc import Sequence

MODELLED = "sim:"


def is_modelled(target: str) -> bool:
    return target.startswith(MODELLED)


def all_modelled(targets: Sequence[str]) -> bool:
    """False of none."""
    return bool(targets) and all(map(is_modelled, targets))

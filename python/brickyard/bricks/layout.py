"""Duty: how the drives of a brick are arranged, in a line. Refusal: no capacity and no figure."""

from __future__ import annotations

from brickyard.bricks.resolved import ModelledBrick


def words(brick: ModelledBrick) -> str:
    """Empty of a lone drive and of a volume. Each controller has an array of its own, and data are striped over them;
    software makes one over all."""
    if brick.members + brick.spares < 2:
        return ""
    arrays = 1 if brick.software or not brick.controller else brick.controllers
    each = f"{brick.level} of {brick.members // arrays} drives"
    said = each if arrays == 1 else f"{arrays} × {each}, one on each controller, data striped over them"
    spares = f"; {brick.spares} spare{'' if brick.spares == 1 else 's'}" if brick.spares else ""
    return f"{said}{spares}"

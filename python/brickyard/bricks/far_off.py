"""Duty: of what a brick is asked for, the kinds of which models often miss published figures by far, in words that
stand beside answers.

Refusal: nothing is corrected; the figures are those that `spread` keeps.
"""

from __future__ import annotations

from collections.abc import Iterable

from brickyard.bricks import spread


def words(kinds: Iterable[str]) -> list[str]:
    """A sentence for each such kind, of keys of `spread.KINDS`."""
    return [said for kind in kinds if (said := spread.far_off(kind, spread.rows()))]

"""Duty: a difference as text, alike in tables, sentences and pages. Refusal: nothing is judged here."""

from __future__ import annotations

from brickyard.analysis.figures.cells import DASH
from brickyard.analysis.figures.samples import Difference

UNKNOWN = "?"
WITHIN_NOISE = "~"
EXACTLY_NONE = "none"
SHARE_MAX = 99.99  # beyond, digits say nothing


def difference_text(found: Difference | None, *, negated: bool = False) -> str:
    if found is None:
        return DASH
    if found.is_exact:
        return EXACTLY_NONE
    sign = -1 if negated else 1
    share = f"{_percent(sign * found.share, signed=not negated)} %"
    if found.seen is None:
        return f"{share} {UNKNOWN}"
    low, high = sorted((sign * (found.low or 0.0), sign * (found.high or 0.0)))
    return f"{share} ({_percent(low)} to {_percent(high)})" + ("" if found.seen else f" {WITHIN_NOISE}")


def _percent(share: float, *, signed: bool = True) -> str:
    """A tenth of a per cent is as fine as anybody reads; from 100 % on whole ones do. The sign stays where that leaves
    nothing, so that an interval with zero in it does not seem to begin there."""
    if share > SHARE_MAX:
        return ">+9,999" if signed else ">9,999"
    if share < -SHARE_MAX:
        return "<-9,999"
    digits = 0 if abs(share) >= 1 else 1
    text = f"{share * 100:,.{digits}f}"
    text = text if share else text.removeprefix("-")
    return f"+{text}" if signed and not text.startswith("-") else text

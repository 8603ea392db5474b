"""Duty: sizes and throughputs that people write, each error with the option or key that it stands in.

Refusal: no parsing. What `8K`, `8KiB` and `4TB` mean is known to the core alone (`crates/plan/src/units.rs`).
"""

from __future__ import annotations

from brickyard import _core
from brickyard.errors import BadInputError, one_line


def parsed_bytes(text: str, at: str) -> int:
    try:
        return _core.parse_bytes(text)
    except ValueError as error:
        raise BadInputError(f"{at}: {one_line(error)}") from error


def parsed_bytes_per_s(text: str, at: str) -> int:
    """`20MiB` or `20MiB/s`, to a whole byte."""
    try:
        return round(_core.parse_bytes_per_s(text))
    except ValueError as error:
        raise BadInputError(f"{at}: {one_line(error)}") from error


def parsed_share(text: str) -> float:
    """`1%` or `0.01` as 0.01; ValueError for what is no share."""
    word = text.strip()
    try:
        value = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"{text} is no share; write 1% or 0.01")
    return value

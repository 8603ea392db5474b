"""Duty: sizes, throughputs, shares, spans and limits that people write; each error names its option or key.

Refusal: no parsing of sizes. What `8K`, `8KiB` and `4TB` mean is known to the core alone (`crates/plan/src/units.rs`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from brickyard import _core
from brickyard.errors import BadInputError, Edit, Remedy, one_line


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
    if value == 1 and not word.endswith("%"):
        raise ValueError(f"{text} may mean 1 % or all; write 1% or 100%")
    return value


def read_limit(text: str, figures: Sequence[str]) -> tuple[str, int]:
    """`mean:100ms`, `p99:20ms` of --limit: one of `figures`, and its time in ns. `p99<=20ms` is how requirements are
    written."""
    figure, colon, time = re.sub(r"\s*<=?\s*", ":", text, count=1).partition(":")
    remedy = Remedy(f"write for example p99:20ms; figures are {', '.join(figures)}", _of_p99(text))
    if not colon or not time:
        raise BadInputError(f"--limit {text}: not FIGURE:TIME", remedy)
    if figure not in figures:
        raise BadInputError(f"--limit {text}: no figure {figure or 'named'}", remedy)
    try:
        limit_ns = _core.parse_limit_ns(time)
    except ValueError as error:
        raise BadInputError(f"--limit {text}: {one_line(error)}") from error
    if limit_ns <= 0:
        raise BadInputError(f"--limit {text}: no request is that fast; write a time such as 10ms")
    return figure, limit_ns


def _of_p99(text: str) -> Edit | None:
    """The limit that a time alone was meant for."""
    try:
        _core.parse_limit_ns(text)
    except ValueError:
        return None
    return Edit(("--limit", text), ("--limit", f"p99:{text}"))


_SPAN_S = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def span_seconds(text: str) -> int | None:
    """Of a span of days as people write it, such as `2h`, `7d` or `4w`; None for what is none."""
    match = re.fullmatch(r"(\d{1,6})(s|min|m|h|d|w)", text)
    return int(match[1]) * _SPAN_S[match[2]] if match else None

"""What the logs of a replay held, as a driver tells it at its end (`crates/replay/src/counts.rs`). Early versions
counted less."""

from __future__ import annotations

import msgspec


class LogRead(msgspec.Struct, frozen=True, kw_only=True):
    """One file."""

    path: str = ""
    torn: str | None = None
    """Why it could not be read to its end."""


class UnmatchedPath(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that the mapping makes no call of."""

    path: str
    requests: int
    method: str = "GET"
    mapped_methods: list[str] = msgspec.field(default_factory=list)
    """With which this path is mapped."""


class UnusableCount(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that lacked a parameter, or had one of another type."""

    requests: int
    page: str = ""
    parameter: str = ""


class LogCounts(msgspec.Struct, frozen=True, kw_only=True):
    logs: list[LogRead] = msgspec.field(default_factory=list)
    lines: int = 0
    requests: int = 0
    calls: int = 0
    bad_lines: int = 0
    unmatched: int = 0
    late: int = 0
    """Calls whose own second had gone by."""
    late_burst_calls: int = 0
    """The most of them that came within one second."""
    outliers: int = 0
    """Requests that were left out because their stamps are far from all others."""
    read_on: int = 0
    """Requests that were read after the end of the run only to see whether they belong before it."""
    missed: int = 0
    """Those of them that do."""
    at_end: bool = False
    """The logs were read to their ends."""
    unmatched_paths: list[UnmatchedPath] = msgspec.field(default_factory=list)
    unusable: list[UnusableCount] = msgspec.field(default_factory=list)
    first_ns: int | None = None
    last_ns: int | None = None
    peak_second_calls: int = 0
    peak_second_unix_s: int | None = None


def log_counts_of(document: object) -> LogCounts:
    """Out of a store of any version. Raises msgspec.ValidationError."""
    return msgspec.convert(document, LogCounts)

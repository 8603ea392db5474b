"""What the logs of a replay held, as a driver tells it at its end (`crates/replay/src/counts.rs`). Early versions
counted less."""

from __future__ import annotations

import msgspec

from brickyard.ready import ready
from brickyard.schema.plan import LogContent, Outlier


class LogRead(msgspec.Struct, frozen=True, kw_only=True):
    """One file."""

    path: str = ""
    format: str = ""
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


class PageCount(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one page."""

    page: str
    calls: int
    example: str | None = None
    """The first of them."""


class CoursePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A minute of the log, or less."""

    unix_s: int
    length_s: int
    requests: int
    calls: int


class BadLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that could not be read."""

    log: str
    line: int
    text: str


EVEN = 0.95
"""Drivers whose calls end within a twentieth of the run are even enough."""


class LogCounts(msgspec.Struct, frozen=True, kw_only=True):
    logs: list[LogRead] = msgspec.field(default_factory=list)
    lines: int = 0
    requests: int = 0
    calls: int = 0
    covered_share: float | None = None
    """Of the requests, those that are calls."""
    bad_lines: int = 0
    bad_by_reason: dict[str, int] = msgspec.field(default_factory=dict)
    bad_samples: list[BadLine] = msgspec.field(default_factory=list)
    out_of_order: int = 0
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
    unmatched_paths_are_lower_bounds: bool = False
    unusable: list[UnusableCount] = msgspec.field(default_factory=list)
    pages: list[PageCount] = msgspec.field(default_factory=list)
    calls_by_brick: list[int] = msgspec.field(default_factory=list)
    first_ns: int | None = None
    last_ns: int | None = None
    peak_second_calls: int = 0
    peak_second_unix_s: int | None = None
    sessions: int | None = None
    sessions_are_lower_bound: bool = False
    course: list[CoursePoint] = msgspec.field(default_factory=list)


def log_counts_of(document: object) -> LogCounts:
    """Out of a store of any version. Raises msgspec.ValidationError."""
    return msgspec.convert(document, LogCounts)


class LogLook(msgspec.Struct, frozen=True, kw_only=True):
    """What a first look at logs found (`crates/replay/src/look.rs`)."""

    outliers: list[Outlier]
    left_out: dict[str, list[tuple[int, int]]]
    """By log, first and last stamp of each piece that is left out."""
    disorder_ns: int
    """The longest step back from the latest stamp before it."""
    beyond_window: int
    """Requests that are further out of order than the window."""


class ReplayKnown(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a replay before it begins: its mapping, its databases without passwords, its logs."""

    title: str
    source: str
    pages: list[str]
    databases: list[str]
    first_ns: int | None
    """The first stamp of all logs; none where standard input is among them."""
    formats: list[str]
    sort: bool
    """Whether calls are sorted before the first is sent."""
    look: LogLook
    calls_by_driver: list[int] = msgspec.field(default_factory=list)
    """Of a rate that several drivers share; read beside what the core tells."""
    content: LogContent | None = None
    """Read beside what the core tells."""

    def rate_parts(self) -> list[float]:
        """Of each driver, so that all of a rate is offered until the end. Equal parts keep calls at equal distances;
        they stand where drivers have nearly as many calls."""
        calls, whole = self.calls_by_driver, sum(self.calls_by_driver)
        if not calls:
            return []
        if not whole or min(calls) >= EVEN * max(calls):
            return [1 / len(calls)] * len(calls)
        return [own / whole for own in calls]


class LogsExplained(msgspec.Struct, frozen=True, kw_only=True):
    """What logs would do, and whether reading them was interrupted."""

    document: LogCounts
    interrupted: bool
    look: LogLook
    sort: bool


def replay_known(text: str) -> ReplayKnown:
    """As the core tells it."""
    return msgspec.json.decode(text, type=ReplayKnown)


def logs_explained(text: str) -> LogsExplained:
    """As the core tells it."""
    return msgspec.json.decode(text, type=LogsExplained)


ready(LogCounts, ReplayKnown, LogsExplained)

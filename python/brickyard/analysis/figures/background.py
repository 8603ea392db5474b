"""Duty: how far a modelled rebuild, initialization or scrub came, and how long a whole member takes at that pace.

Refusal: no guess at another load: the pace is that of this run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from brickyard.schema import BrickBackground, BrickState, Document
from brickyard.store import Record
from brickyard.units import MB, format_seconds, three_digits

WORDS = {"initializing": "initialization", "scrubbing": "check"}
COLUMNS = ("work of", "what", "of a member", "in", "MB/s", "a whole member takes")


@dataclass(frozen=True)
class RebuildPace:
    """Of a rebuild beside the load of a run. Everybody who says how long a rebuild takes has it from here where a
    rebuild was simulated."""

    whole_bytes: int
    bytes_per_s: float

    def whole_s(self, most_bytes_per_s: float = math.inf) -> float:
        """How long a whole member takes, at no more than what the drive itself can do."""
        return self.whole_bytes / min(self.bytes_per_s, most_bytes_per_s)


def rebuild_pace(record: Record) -> RebuildPace | None:
    """None without a rebuild, or where it made no progress."""
    for event in record.of(BrickBackground):
        if event.condition is BrickState.REBUILDING and event.done_bytes and event.spent_ns:
            return RebuildPace(event.whole_bytes, _rate(event))
    return None


def background_words(record: Record) -> list[str]:
    """One line for each target that was at work on itself."""
    return [_words(record, event) for event in record.of(BrickBackground)]


def background_documents(record: Record) -> list[Document]:
    """Its progress, with the rate in bytes/s and the time in which a whole member would be done at this pace."""
    return [
        {
            "target": record.info.targets[event.target],
            "condition": event.condition,
            "done_bytes": event.done_bytes,
            "spent_ns": event.spent_ns,
            "whole_bytes": event.whole_bytes,
            "bytes_per_s": (rate := _rate(event)),
            "whole_s": event.whole_bytes / rate if rate else None,
        }
        for event in record.of(BrickBackground)
    ]


def _rate(event: BrickBackground) -> float:
    return event.done_bytes * 1e9 / event.spent_ns if event.spent_ns else 0.0


def background_rows(record: Record) -> list[list[str]]:
    """The same as rows, for COLUMNS."""
    return [_row(record, event) for event in record.of(BrickBackground)]


def _row(record: Record, event: BrickBackground) -> list[str]:
    rate, whole = _rate(event), float(event.whole_bytes)
    return [
        record.info.targets[event.target],
        WORDS.get(event.condition, "rebuild"),
        f"{three_digits(event.done_bytes / whole * 100)} %",
        _span(event.spent_ns / 1e9),
        three_digits(rate / MB),
        _span(whole / rate) if rate else "–",
    ]


def _words(record: Record, event: BrickBackground) -> str:
    target, what, share, spent, rate, whole = _row(record, event)
    pace = f"{rate} MB/s; at this pace, a whole member takes {whole}"
    return f"{target}: the {what} did {share} of a member in {spent}, {pace}"


def _span(seconds: float) -> str:
    if seconds < 2 * 3600:
        return format_seconds(seconds)
    return f"{three_digits(seconds / 3600)} h" if seconds < 48 * 3600 else f"{three_digits(seconds / 86400)} days"

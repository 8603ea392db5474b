"""Duty: how far a modelled rebuild, initialization or scrub came beside the load, and when it would have ended.

Refusal: no guess at another load: the pace is that of this run.
"""

from __future__ import annotations

from brickyard.store import Json, Record
from brickyard.units import format_seconds, three_digits

WORDS = {"initializing": "initialization", "scrubbing": "check"}
MB = 1e6


def background_words(record: Record) -> list[str]:
    """One line for each target that was at work on itself."""
    return [_words(record, event) for event in record.events_of("brick_background")]


def background_documents(record: Record) -> list[Json]:
    """Its progress, with the rate in bytes/s and the time in which a whole member would be done at this pace."""
    return [
        {
            "target": record.info.targets[int(event["target"])],
            "condition": event["condition"],
            "done_bytes": event["done_bytes"],
            "spent_ns": event["spent_ns"],
            "whole_bytes": event["whole_bytes"],
            "bytes_per_s": (rate := _rate(event)),
            "whole_s": event["whole_bytes"] / rate if rate else None,
        }
        for event in record.events_of("brick_background")
    ]


def _rate(event: Json) -> float:
    return float(event["done_bytes"]) * 1e9 / event["spent_ns"] if event["spent_ns"] else 0.0


def _words(record: Record, event: Json) -> str:
    what = WORDS.get(str(event["condition"]), "rebuild")
    rate, whole = _rate(event), float(event["whole_bytes"])
    share = f"{three_digits(event['done_bytes'] / whole * 100)} %"
    ends = f"; at this pace a whole member takes {_span(whole / rate)}" if rate else ""
    return (
        f"{record.info.targets[int(event['target'])]}: the {what} did {share} of a member in"
        f" {_span(event['spent_ns'] / 1e9)}, {three_digits(rate / MB)} MB/s{ends}"
    )


def _span(seconds: float) -> str:
    if seconds < 2 * 3600:
        return format_seconds(seconds)
    return f"{three_digits(seconds / 3600)} h" if seconds < 48 * 3600 else f"{three_digits(seconds / 86400)} days"

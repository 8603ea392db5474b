"""Duty: clients that pgbench gave up in the middle of a run, and of how many clients its figures are, in words.

pgbench goes on with the other clients to its end. Refusal: why a client was given up is in the list of errors.
"""

from __future__ import annotations

from brickyard.analysis.figures.scheduled import pgbench_asked
from brickyard.schema import ErrorKind, PhaseEnd
from brickyard.store import Record
from brickyard.units import format_counted


def aborted(record: Record) -> int:
    """How many clients were given up."""
    return sum(end.errors_by_kind.get(ErrorKind.ABORTED, 0) for end in record.of(PhaseEnd))


def aborted_uncounted(record: Record) -> int:
    """Of these, those that no interval counts as a failed transaction: older runs know them at their end alone."""
    by_kind = sum(sum(end.errors_by_kind.values()) for end in record.of(PhaseEnd))
    in_intervals = sum(item.errors for item in record.intervals if item.measure == "service")
    return max(min(by_kind - in_intervals, aborted(record)), 0)


def aborted_count_words(record: Record) -> str:
    """Without what it means, which is no sentence; empty where no client was given up."""
    asked, count = pgbench_asked(record), aborted(record)
    if asked is None or not count:
        return ""
    if count < asked.clients:
        return f"{count} of {asked.clients} clients aborted"
    return "the only client aborted" if asked.clients == 1 else f"all {asked.clients} clients aborted"


def aborted_words(record: Record) -> str:
    """Empty where no client was given up."""
    asked, who = pgbench_asked(record), aborted_count_words(record)
    if asked is None or not who:
        return ""
    count = aborted(record)
    text, left = f"{who[0].upper()}{who[1:]}{_when(record, count)}", asked.clients - count
    if left <= 0 and not any(item.requests for item in record.intervals):
        return f"{text} before a transaction had ended."
    if left <= 0:
        return f"{text}, so the figures cover only the time before that."
    return f"{text}: from then on the figures are of {format_counted(left, 'clients')}."


def _when(record: Record, count: int) -> str:
    """Empty where it is not known."""
    if aborted_uncounted(record):
        return ""
    times = sorted(error.at_ns for error in record.errors if error.kind == ErrorKind.ABORTED)
    if not times:
        return ""
    if _seconds(times[0]) == _seconds(times[-1]) and len(times) == count:
        return f" (at {_seconds(times[0])})"
    last = f", the last at {_seconds(times[-1])}" if len(times) == count else ""
    return f" (the first at {_seconds(times[0])}{last})"


def _seconds(at_ns: int) -> str:
    return f"{at_ns / 1e9:.1f} s"

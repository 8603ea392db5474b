"""Duty: the figures of a row as text, alike in the terminal and in the report. Refusal: no layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from brickyard.analysis.figures.latency import FEW_EVENTS, FEW_EVENTS_WORDS, Latency
from brickyard.analysis.figures.sending import FROM_DUE, Length
from brickyard.analysis.figures.totals import Totals
from brickyard.percentiles import SHOWN_NAMES
from brickyard.schema import COMMIT, is_on_data
from brickyard.store import CHAIN, FRAME
from brickyard.units import format_count, format_iops, format_mib_per_s, format_ns, format_variation

DASH = "–"
Told = tuple[str, tuple[str, ...], list[list[str]]]
"""A table: title, columns and rows."""
LATENCY_COLUMNS = ["mean", *SHOWN_NAMES, "max"]


def iops(row: Totals) -> str:
    return format_iops(row.iops) if row.is_rated else DASH


def mib_per_s(row: Totals) -> str:
    """A chain moves nothing by itself: its requests have rows of their own."""
    return format_mib_per_s(row.bytes_per_s) if row.is_rated and is_on_data(row.operation) else DASH


WHOLE = "all, including the transient"


def over_columns(rows: Iterable[Totals]) -> list[str]:
    """The heading of a column that says of what part of its phase a figure is; none where each is of all of it."""
    return ["over"] if any(row.steady or row.ended_ns is not None for row in rows) else []


def over(row: Totals) -> str:
    if row.ended_ns is not None:
        return lasted(row)
    return part_words(row)


def part_words(row: Totals) -> str:
    """What of its phase is in the figures of a row."""
    return row.steady.words if row.steady else "all"


def lasted(row: Totals) -> str:
    """Of a stream that ran for less than its phase: `20 ms of 1.9 s`."""
    return f"{format_ns(row.ended_ns)} of {format_ns(row.phase_ns)}"


def ended_words(row: Totals) -> str:
    """Why a rate is over another time than that of the phase, or is not given."""
    if row.ended_ns is None and row.phase_requests and not row.rated_ns:
        return f"When {row.stream_name} ended is not known, so its rate is not given."
    if row.ended_ns is None:
        return ""
    if row.is_by_tool:
        span = f"{format_ns(row.ended_ns)} of its phase of {format_ns(row.phase_ns)}"
        return f"{row.stream_name} ({row.operation}) was active for {span}; its rate is over that time."
    over_words = "its rate is over its own time" if row.rated_ns else "its rate is not given: set a shorter interval"
    when = f"{'' if row.rated_ns else 'at most '}{format_ns(row.ended_ns)} into its phase of {format_ns(row.phase_ns)}"
    return f"{row.stream_name} ended {when}; {over_words}."


def variation(value: float | None) -> str:
    """Of `analysis.figures.totals.variation`, alike wherever it is shown."""
    return DASH if value is None else format_variation(value)


IN_FLIGHT = "in flight ≤"
"""Heads `Totals.in_flight_bound`."""
RATE_COLUMNS = ["a second", IN_FLIGHT, "errors"]
"""Of what is no request: it is counted, and has no IOPS and moves nothing."""


def errors(count: int | None) -> str:
    """Of a tool's result, they may not be known."""
    return DASH if count is None else format_count(count)


def rate_cells(row: Totals) -> list[str]:
    return [iops(row), in_flight(row), errors(row.errors)]


def in_flight(row: Totals) -> str:
    """Of a tool's result, it may not be known."""
    return format_count(row.in_flight_bound) if row.in_flight_bound else DASH


def chains_title(operations: Iterable[str]) -> str:
    """What a table of chains holds: files done whole, chains of a profile, frames of video."""
    found = set(operations)
    parts = [
        *(["Whole files"] if found - {CHAIN, FRAME, COMMIT} else []),
        *(["Chains"] if CHAIN in found else []),
        *(["Commits, each a write and its flush"] if COMMIT in found else []),
        *(["Frame rates"] if FRAME in found else []),
    ]
    return " and ".join(parts[:1] + [part.lower() for part in parts[1:]])


def latency_cells(figures: Latency | None) -> list[str]:
    if figures is None:
        return [DASH] * len(LATENCY_COLUMNS)
    shown = [percentile_cell(figures, name) for name in SHOWN_NAMES]
    return [format_ns(figures.mean_ns), *shown, format_ns(figures.max_ns)]


def timed_cells(row: Totals, measure: str, lengths: Mapping[tuple[int, int], Length]) -> list[str]:
    """A measure and its times. `lengths` are those of `length_told`: no stall explains the times of such a queue."""
    figures = row.measures[measure]
    if measure in FROM_DUE and (row.phase, row.stream) in lengths:
        return [f"{measure} {OF_LENGTH}", *latency_cells(replace(figures, few_events=frozenset()))]
    return [measure, *latency_cells(figures)]


OF_LENGTH = "‡"
OF_LENGTH_WORDS = (
    f"{OF_LENGTH}: the queue grew, or requests that were due were not sent: these times tell how long the run was"
)


def mark_words(rows: Iterable[Sequence[str]]) -> list[str]:
    """What the marks in the cells of a table mean."""
    shown = [cell for row in rows for cell in row]
    marks = ((FEW_EVENTS, FEW_EVENTS_WORDS), (OF_LENGTH, OF_LENGTH_WORDS))
    return [words for mark, words in marks if any(cell.endswith(mark) for cell in shown)]


def percentile_cell(figures: Latency | None, name: str, *, of_length: bool = False) -> str:
    """With a mark where the samples beyond come from one or two events, or with that of `of_length`: no stall explains
    the times of such a queue."""
    if figures is None or figures.percentiles.get(name) is None:
        return DASH
    return marked_time(figures.percentiles[name], is_of_few=name in figures.few_events, of_length=of_length)


def marked_time(time_ns: float | None, *, is_of_few: bool = False, of_length: bool = False) -> str:
    if time_ns is None:
        return DASH
    return format_ns(time_ns) + (OF_LENGTH if of_length else FEW_EVENTS if is_of_few else "")


def half_and_most(figures: Latency | None) -> tuple[str, str] | None:
    """The median and p99 of a sentence, with their marks; None where there are not both."""
    if figures is None or figures.p50 is None or figures.p99 is None:
        return None
    return percentile_cell(figures, "p50"), percentile_cell(figures, "p99")

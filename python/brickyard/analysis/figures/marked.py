"""Duty: what sets a run of a study apart from the others, in words: `random read 4 KiB`, `604/s offered`.

Refusal: what the run was asked for; `workload` has that.
"""

from __future__ import annotations

from brickyard.store.record import RunMarks
from brickyard.units import format_size


def marks_words(marks: RunMarks) -> tuple[str, ...]:
    """Rates are exact, so that runs are told apart by them; `format_name` rounds them. Empty where only the repetition
    is marked."""
    if marks.levels is not None:
        return tuple(marks.levels.values())
    if marks.request_bytes is not None:
        return (f"{marks.address} {marks.operation} {format_size(marks.request_bytes)}",)
    return (*_programs(marks), *_rounds(marks), *_rates(marks))


def by_tool(tool: str) -> str:
    """Who made a run, if Brickyard did not."""
    return f"by {tool}" if tool else ""


def _programs(marks: RunMarks) -> list[str]:
    return [words for words in (marks.engine, marks.pace) if words]


def _rounds(marks: RunMarks) -> list[str]:
    counts = ["" if marks.rounds is None else f"{marks.rounds} rounds"]
    counts += ["" if marks.round is None else f"round {marks.round}"]
    return [words for words in (marks.test, marks.part, *counts) if words]


def _rates(marks: RunMarks) -> list[str]:
    said = [f"{marks.loop} loop" if marks.loop else "", f"{marks.alone} alone" if marks.alone else ""]
    said += ["" if marks.search is None else f"search {marks.search}"]
    rates = [(marks.offered_per_s, "offered"), (marks.searched_per_s, "offered")]
    rates += [(marks.reads_per_s, "reads"), (marks.writes_per_s, "writes")]
    said += [f"{float(rate)!r}/s {what}" for rate, what in rates if rate is not None]
    return [words for words in said if words]

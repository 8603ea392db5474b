"""Duty: what a replay found: whether the databases sustain the log's load, at what response time, from where.

Refusal: no figure of its own.
"""

from __future__ import annotations

from brickyard.analysis.databases import replay_head_room, replay_pages, replay_runs, replay_served, replay_warnings
from brickyard.analysis.figures.cells import half_and_most
from brickyard.analysis.figures.load_curve import Limit
from brickyard.analysis.judging.answers import SENTENCES_MAX, Answer
from brickyard.store import Record
from brickyard.units import format_count, format_iops, format_ns

QUESTION = "Do the databases sustain this log's load, and how fast do they answer?"


def replay_answer(records: list[Record], limit: Limit | None = None) -> Answer:
    said = replay_head_room.verdict_lines(records, limit)
    for name, group in replay_runs.by_pace(records).items():
        whole = replay_pages.pages(group)[-1]
        rate = replay_runs.calls_per_s(group)
        if rate is None or whole.response is None:
            continue
        text = f"{name[0].upper()}{name[1:]}: {format_iops(rate)} calls/s"
        whence = replay_served.served_words(replay_served.served(group))
        if unsent := replay_pages.unsent_words(group):
            said.append(f"{text}, but {unsent}, so response times depend on how long the run was; {whence}.")
            continue
        if times := half_and_most(whole.response):
            text += f", half of them answered within {times[0]} and 99 % within {times[1]}"
        said.append(f"{text}, the slowest after {format_ns(whole.response.max_ns)}; {whence}.")
    failed = sum(replay_pages.pages([record])[-1].errors for record in records)
    failures = (
        f"{format_count(failed)} calls failed; they are not counted in any rate." if failed else "No call failed."
    )
    coverage = replay_warnings.coverage_words(records)
    cold = replay_served.cold_words(records[0]) or ""
    diverged = replay_pages.divergence_words(records)
    told = [failures, *(f"{text}." for text in (diverged, coverage) if text), cold]
    return Answer(QUESTION, tuple(said[:SENTENCES_MAX]), " ".join(text for text in told if text))

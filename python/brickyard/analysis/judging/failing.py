"""Duty: says where a run's requests failed so much that its figures are of no use.

Refusal: single failures are data, and no verdict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.analysis.figures.sending import asked_noun
from brickyard.analysis.figures.totals import phase_name, stream_name
from brickyard.analysis.judging.caveats_run import DAMAGE_WORDS, NO_DESCRIPTORS, NOTHING_MEASURED
from brickyard.analysis.judging.summary import errors_by
from brickyard.schema import PhaseEnd, is_request
from brickyard.store import Record
from brickyard.units import format_count, format_counted, format_runs

MOST_TIME_WITHOUT_SUCCESS = 0.9
"""Of the time in which a stream asked for anything. By time and not by count, since a request that fails at once is
followed by the next: a drive that dies in the middle of a run has failed most requests, and its first half is sound."""


@dataclass(frozen=True)
class Failing:
    """One stream of one phase, after the warm-up. `dead_ns` is the time of intervals in which nothing succeeded."""

    phase_name: str
    stream_name: str
    failed: int
    asked: int
    dead_ns: int
    asked_ns: int

    @property
    def failed_share(self) -> float:
        return self.failed / self.asked if self.asked else 0.0

    @property
    def dead_share(self) -> float:
        return self.dead_ns / self.asked_ns if self.asked_ns else 0.0


def failing(record: Record) -> list[Failing]:
    """Each stream of each phase in which a request failed."""
    found: dict[tuple[int, int], dict[tuple[int, int], list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for item in record.intervals:
        if item.measure == "service" and not item.warmup and is_request(item.operation):
            counts = found[item.phase, item.stream][item.start_ns, item.end_ns]
            counts[0] += item.errors
            counts[1] += item.requests
    made = []
    for (phase, stream), spans in found.items():
        failed = sum(counts[0] for counts in spans.values())
        if not failed:
            continue
        lasted = {span: counts for span, counts in spans.items() if any(counts)}
        made.append(
            Failing(
                phase_name(record, phase),
                stream_name(record, phase, stream),
                failed,
                sum(sum(counts) for counts in spans.values()),
                sum(end - start for (start, end), (_, succeeded) in lasted.items() if not succeeded),
                sum(end - start for start, end in lasted),
            )
        )
    return made


def damaged_blocks(record: Record) -> int:
    """Reads that returned data other than what was written; a block counts each time."""
    found = errors_by(record, "errors_by_kind")
    return sum(int(number) for name, number in found.items() if name in DAMAGE_WORDS)


def damaged_words(records: Sequence[Record]) -> str:
    """Which runs read damaged blocks, and how often; empty where there is no such run."""
    found = {record.info.id: reads for record in records if (reads := damaged_blocks(record))}
    if not found:
        return ""
    total = format_count(sum(found.values()))
    return (
        f"{format_runs(list(found))}: {total} reads of blocks returned data other than what was written; they are "
        "not counted in any throughput figure"
    )


def without_figures(record: Record) -> bool:
    """Whether a phase ended before anything was measured."""
    return any(warning.id == NOTHING_MEASURED for warning in record.info.warnings)


def too_much(record: Record, most: float | None = None) -> list[str]:
    """Why the run failed, a line a stream; `most` is the share of requests that may fail, where the user named one."""
    said = []
    for item in failing(record):
        who = f"run {record.info.id}, phase {item.phase_name}, stream {item.stream_name}: "
        counts = f"{item.failed:,} of {format_counted(item.asked, asked_noun(record.info.plan))} failed"
        if most is not None and item.failed_share > most:
            said.append(f"{who}{counts}, more than --max-errors {most * 100:g}%")
        elif item.dead_share > MOST_TIME_WITHOUT_SUCCESS:
            said.append(f"{who}{counts}, and nothing succeeded in {item.dead_share:.0%} of its time")
    # Models lose data where they are asked to.
    if (damaged := damaged_blocks(record)) and not record.info.is_modelled:
        said.append(f"run {record.info.id}: {damaged:,} reads of blocks returned data other than what was written")
    lacking = sum(end.errors_by_errno.get(name, 0) for end in record.of(PhaseEnd) for name in NO_DESCRIPTORS)
    if lacking:
        said.append(
            f"run {record.info.id}: {format_counted(lacking, 'requests')} failed because no more files may be "
            "open; that is a limit of this process, not of the storage: raise it, for example with `ulimit -n 65536`"
        )
    return said

"""Duty: what was found, in a reader's terms: one paragraph. Refusal: no judgement beyond the figures."""

from __future__ import annotations

from brickyard import analysis
from brickyard.analysis import RankedCell, Totals, cells
from brickyard.analysis import summary as summaries
from brickyard.facts.caveats_run import DAMAGE_WORDS
from brickyard.schema import Bound, bound_of
from brickyard.store import CHAINS, FRAME, Record
from brickyard.units import format_count, format_iops, format_mib_per_s, format_ns, format_size

Patterns = dict[tuple[str, str], list[RankedCell]]
TYPICAL_BYTES = 4096  # the page of most file systems and of memory
NEAR_BEST = 0.9
RUNS_TOLD = 6  # sentences that a reader still takes in; the others are in the table
QUALIFYING = ("steal", "noisy", "cpu_quota", "cpu_throttled")
"""Warnings that name a third limit beside storage and generator."""


def summary(records: list[Record], patterns: Patterns) -> str:
    done = [record for record in records if record.info.outcome == "done"]
    graph = analysis.is_graph(patterns)
    said = _characterized(patterns) if graph else [_run_words(record) for record in done[:RUNS_TOLD]]
    if len(done) > RUNS_TOLD and not graph:
        said.append(f"The other {len(done) - RUNS_TOLD} runs are in the table.")
    return " ".join([*(s for s in said if s), *_unfinished(records), *_failures(records), _limit(records)]).strip()


def _unfinished(records: list[Record]) -> list[str]:
    """What did not come to its end is in the tables, but no headline."""
    left = [record.info for record in records if record.info.outcome != "done"]
    if not left:
        return []
    if len(records) == 1:
        return [f"The run did not come to its end ({left[0].outcome}), so its figures are those of a part of it."]
    names = ", ".join(f"run {info.id} ({info.outcome})" for info in left)
    return [f"Left out, because they did not come to their end: {names}."]


def _characterized(patterns: Patterns) -> list[str]:
    said = []
    for operation, verb, noun in (("read", "reads", "reads"), ("write", "writes", "writes")):
        sequential, random = patterns.get(("sequential", operation)), patterns.get(("random", operation))
        if sequential:
            best = max(sequential, key=lambda item: item.cell.row.bytes_per_s)
            text = f"It {verb} up to {format_mib_per_s(best.cell.row.bytes_per_s)} MiB/s sequentially"
            text += f", with requests of {format_size(best.cell.request_bytes)}"
            enough = _near_best_from(sequential)
            if enough is not None and enough < best.cell.request_bytes:
                text += f"; from {format_size(enough)} on it stays within 10 % of that"
            said.append(text + ".")
        if random:
            said.append(_random_words(random, noun))
    return said


def _near_best_from(cells: list[RankedCell]) -> int | None:
    """The smallest size from which on every larger one reaches nearly the best throughput."""
    found = None
    for item in reversed(cells):
        if (item.throughput_share or 0) < NEAR_BEST:
            break
        found = item.cell.request_bytes
    return found


def _random_words(cells: list[RankedCell], noun: str) -> str:
    typical = next((i for i in cells if i.cell.request_bytes == TYPICAL_BYTES), cells[0])
    service = typical.cell.service
    size = format_size(typical.cell.request_bytes)
    text = f"It carries {format_iops(typical.cell.row.iops)} random {size} {noun} a second"
    return f"{text}{_latency_words(service)}."


def _latency_words(figures: analysis.Latency | None) -> str:
    if figures is None:
        return ""
    half, most = figures.percentiles["p50"], figures.percentiles["p99"]
    text = f", half of them within {format_ns(half)}" if half else ""
    return text + (f" and 99 % within {format_ns(most)}" if half and most else "")


def _run_words(record: Record) -> str:
    """One sentence for each stream, with its name and that of its phase where there are several."""
    rows = analysis.totals(record)
    streams: dict[tuple[int, int], list[Totals]] = {}
    for row in rows:
        streams.setdefault((row.phase, row.stream), []).append(row)
    head = f"Run {record.info.id}, {record.info.plan.title or record.info.profile}"
    if len(streams) == 1:
        return f"{head}: {'; '.join(map(_row_words, rows))}."
    sentences = [
        f"{analysis.full_stream_name(record, *key)}: {'; '.join(map(_row_words, group))}."
        for key, group in streams.items()
    ]
    return " ".join([f"{head}:", *sentences]) if sentences else ""


def _row_words(row: Totals) -> str:
    measure = row.measures.get("response") or row.measures.get("service")
    noun = "frames" if row.operation == FRAME else "chains" if row.operation in CHAINS else "requests"
    moved = "" if row.operation in CHAINS else f", {cells.mib_per_s(row)} MiB/s"
    return f"{row.operation} {cells.iops(row)} {noun} a second{moved}{_latency_words(measure)}"


def _failures(records: list[Record]) -> list[str]:
    rows = [row for record in records for row in analysis.totals(record) if row.operation not in CHAINS]
    found = [summaries.errors_by(record, "errors_by_kind") for record in records]
    damaged = sum(int(count) for kinds in found for name, count in kinds.items() if name in DAMAGE_WORDS)
    errors = max(sum(row.errors for row in rows) - damaged, 0)
    hangs = sum(len(record.events_of("hang")) for record in records)
    said = [f"{format_count(errors)} requests failed; they are in no throughput figure."] if errors else []
    if damaged:
        said.append(f"{format_count(damaged)} reads brought other data than what was written.")
    if hangs:
        said.append(f"{format_count(hangs)} requests hung for longer than the limit.")
    return said or ["No request failed."]


def _limit(records: list[Record]) -> str:
    bound = [r for r in records if any(end.get("generator_bound") for end in r.events_of("phase_end"))]
    if not bound:
        found = {str(warning.get("id")) for record in records for warning in record.info.warnings}
        if found.intersection(QUALIFYING):
            return "The generator was not the limit."
        return "The storage, not the generator, was the limit."
    ends = [end for record in bound for end in record.events_of("phase_end") if end.get("generator_bound")]
    who = "the generator, not the storage, was the limit"
    if any(bound_of(end) is Bound.CPU for end in ends):
        who = "the processor was the limit, with the kernel's work for the storage in it"
    if len(bound) == len(records):
        return f"{who[0].upper()}{who[1:]}: the storage may be faster than these figures."
    return f"In {len(bound)} of {len(records)} runs {who}: there the storage may be faster than these figures."

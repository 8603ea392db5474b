"""Duty: what was found, in a reader's terms: one paragraph. Refusal: no judgement beyond the figures."""

from __future__ import annotations

from brickyard import analysis
from brickyard.analysis import RankedCell, Totals
from brickyard.store import CHAIN, Record
from brickyard.units import format_count, format_iops, format_mib_per_s, format_ns, format_size

Patterns = dict[tuple[str, str], list[RankedCell]]
TYPICAL_BYTES = 4096  # the page of most file systems and of memory
NEAR_BEST = 0.9


def summary(records: list[Record], patterns: Patterns) -> str:
    said = _characterized(patterns) if analysis.is_graph(patterns) else [_run_words(record) for record in records[:6]]
    if len(records) > 6 and not analysis.is_graph(patterns):
        said.append(f"The other {len(records) - 6} runs are in the table.")
    return " ".join([*(s for s in said if s), *_failures(records), _limit(records)]).strip()


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
    parts = [_row_words(row) for row in analysis.totals(record)]
    title = record.info.plan.get("title", record.info.profile)
    return f"Run {record.info.id} ({title}): {'; '.join(parts)}." if parts else ""


def _row_words(row: Totals) -> str:
    measure = row.measures.get("response") or row.measures.get("service")
    return (
        f"{row.operation} {format_iops(row.iops)} requests a second, {format_mib_per_s(row.bytes_per_s)} MiB/s"
        f"{_latency_words(measure)}"
    )


def _failures(records: list[Record]) -> list[str]:
    rows = [row for record in records for row in analysis.totals(record) if row.operation != CHAIN]
    errors = sum(row.errors for row in rows)
    hangs = sum(len(record.events_of("hang")) for record in records)
    said = [f"{format_count(errors)} requests failed; they are in no throughput figure."] if errors else []
    if hangs:
        said.append(f"{format_count(hangs)} requests hung for longer than the limit.")
    return said or ["No request failed."]


def _limit(records: list[Record]) -> str:
    bound = [r for r in records if any(end.get("generator_bound") for end in r.events_of("phase_end"))]
    if not bound:
        return "The storage, not the generator, was the limit."
    if len(bound) == len(records):
        return "The generator, not the storage, was the limit: the storage may be faster than these figures."
    return (
        f"In {len(bound)} of {len(records)} runs the generator, not the storage, was the limit:"
        " there the storage may be faster than these figures."
    )

"""Duty: the records of `brickyard durable` → what a durable write costs, and what commits follow from it. Pure.

Refusal: no judgement of the storage; that is `findings`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from brickyard import analysis
from brickyard.analysis.figures.samples import Difference, Sample, difference, in_family, sample
from brickyard.analysis.figures.totals import profile_stream
from brickyard.honesty.durable import BUFFERED, DIRECT, FLUSHED, OPENED, PAGE_BYTES, WRITERS, Method, WriteCell
from brickyard.store import Record


@dataclass(frozen=True)
class DurableWrite:
    """Of one cell: durable writes a second of all writers together, with an interval of the repetitions."""

    cell: WriteCell
    rates: Sample
    writes: int

    @property
    def per_s(self) -> float:
        return self.rates.centre

    @property
    def each_ns(self) -> float:
        """From the beginning of a write to the end of what makes it durable: each writer does one after the other."""
        return self.cell.writers / self.per_s * 1e9


@dataclass(frozen=True)
class Commits:
    """What the log allows at most: commits a second of so many clients, with the interval of the rate it rests on."""

    clients: int
    most_per_s: float
    low_per_s: float | None
    high_per_s: float | None


def durable_writes(records: Iterable[Record]) -> list[DurableWrite]:
    """What was measured, by cell; of what failed, or was not run, there is none."""
    rates: dict[WriteCell, list[float]] = {}
    writes: Counter[WriteCell] = Counter()
    for record in records:
        rows = analysis.totals(record)
        for phase in range(len(record.info.plan.phase)):
            cell = _cell(record, phase)
            if cell is None:
                continue
            last = "flush" if cell.method in FLUSHED else "write"
            for row in rows:
                if (row.phase, row.operation) == (phase, last) and row.iops:
                    rates.setdefault(cell, []).append(row.iops)
                    writes[cell] += row.requests
    found = [(cell, sample(values)) for cell, values in rates.items()]
    return [DurableWrite(cell, told, writes[cell]) for cell, told in found if told]


def _cell(record: Record, phase: int) -> WriteCell | None:
    stream = profile_stream(record, phase, 0)
    if stream is None or record.info.profile not in (DIRECT, BUFFERED):
        return None
    by_sync = {sync: method for method, sync in OPENED.items()}
    by_call = {call: method for method, call in FLUSHED.items()}
    method = by_call[stream.flush_every.call] if stream.flush_every else by_sync[stream.sync]
    return WriteCell(method, stream.request[0].size, stream.workers)


def find(writes: list[DurableWrite], cell: WriteCell) -> DurableWrite | None:
    return next((item for item in writes if item.cell == cell), None)


def faster(writes: list[DurableWrite], usual: Method) -> list[tuple[Method, Difference]]:
    """The methods that make a page durable faster than the usual one by more than noise, all judged as one family."""
    base = find(writes, WriteCell(usual, PAGE_BYTES))
    others = [(method, item) for method, item in methods(writes) if method is not usual]
    told = in_family([difference(item.rates, base.rates) if base else None for _, item in others])
    pairs = [(method, item) for (method, _), item in zip(others, told, strict=True) if item and item.seen]
    return sorted([pair for pair in pairs if pair[1].share > 0], key=lambda pair: -pair[1].share)


def commits(write: DurableWrite) -> list[Commits]:
    """One client commits once a durable write; of several all share each write at best. A bound: what a server needs
    for a commit besides is not in it."""

    def times(value: float | None, n: int) -> float | None:
        return None if value is None else value * n

    return [Commits(n, write.per_s * n, times(write.rates.low, n), times(write.rates.high, n)) for n in WRITERS]


def methods(writes: list[DurableWrite]) -> list[tuple[Method, DurableWrite]]:
    """A page by each method, in the order of pg_test_fsync."""
    found = [(method, find(writes, WriteCell(method, PAGE_BYTES))) for method in Method]
    return [(method, item) for method, item in found if item is not None]

"""Duty: what a run did of a trace, by operation. Refusal: it reads no trace."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from brickyard.analysis.figures.stolen import stolen_shares
from brickyard.analysis.figures.totals import asked_stream, errors_of, totals
from brickyard.schema import in_flight_total
from brickyard.schema.plan import Stream
from brickyard.store import Record
from brickyard.units import format_ns, format_percent

PUNCTUAL_NS = 100_000
"""The p99 of lateness that a trace should keep on an idle device: gaps that are shorter are the trace's no more."""
TRACE_VERDICT = "trace-verdict"
"""The note of a run that says whether it reproduces its trace."""
BUSY, STOLEN = 0.8, 0.01
"""Of all CPUs' time: from there on a thread that is due may have to wait for one."""


@dataclass(frozen=True)
class Late:
    """From the instant when a request was due to its submission; of each kind the largest of all operations."""

    p50: int | None
    p99: int | None
    max: int | None

    @property
    def is_punctual(self) -> bool:
        return self.p99 is None or self.p99 <= PUNCTUAL_NS


@dataclass(frozen=True)
class TraceDone:
    ended: dict[str, int]
    """Requests by operation, those that failed among them."""
    failed: int
    late_ns: Late
    late_because: str
    """What was seen beside it where it was not punctual."""


def verdict_words(record: Record) -> str:
    """Whether the run reproduces its trace; empty where nothing was compared."""
    return next((warning.text for warning in record.info.warnings if warning.id == TRACE_VERDICT), "")


def done_of(record: Record) -> TraceDone:
    ended: Counter[str] = Counter()
    rows = totals(record)
    for row in rows:
        ended[row.operation] += row.requests + (row.errors or 0)
    late = [item for row in rows for name, item in row.measures.items() if name == "lateness"]

    def largest(name: str) -> int | None:
        return max((n for item in late if (n := item.percentiles.get(name)) is not None), default=None)

    found = Late(largest("p50"), largest("p99"), max((item.max_ns for item in late), default=None))
    because = "" if found.is_punctual else _late_because(record)
    return TraceDone(dict(ended), errors_of(rows) or 0, found, because)


def _late_because(record: Record) -> str:
    streams = {(one.phase, one.stream): asked_stream(record, one.phase, one.stream) for one in record.intervals}
    allowed = {place: in_flight_total(asked) for place, asked in streams.items() if isinstance(asked, Stream)}
    bounds = [(allowed.get((one.phase, one.stream), 0), one.in_flight_bound) for one in record.intervals]
    full = [most for most, bound in bounds if 0 < most <= bound]
    if full:
        return (
            f"the limit of {max(full):,} requests in flight was reached: the storage is slower than in the trace "
            "(see --trace-depth)"
        )
    sheets = [one.cpu for one in record.info.watch.targets if one and one.cpu is not None]
    busy = max((one.busy_share or 0.0 for one in sheets), default=0.0)
    stolen = max((max(stolen_shares(one)) for one in sheets), default=0.0)
    seen = f"the host's CPUs were busy for {format_percent(busy)}, and {format_percent(stolen)} of one was stolen"
    if stolen >= STOLEN:
        return f"{seen}: the hypervisor ran other work"
    if busy >= BUSY:
        return f"{seen}: threads waited for one another"
    return f"{seen}, which does not explain it" if sheets else "the load of the host's CPUs at that time is not known"


def late_line(late: Late, because: str) -> str:
    """How punctual a replay was, in a sentence or two."""
    line = (
        f"Lateness: median {format_ns(late.p50)}, p99 {format_ns(late.p99)}, largest {format_ns(late.max)} (from the "
        "due instant to submission; response times include it)."
    )
    if late.is_punctual:
        return line
    return (
        f"{line} The p99 is more than {format_ns(PUNCTUAL_NS)}, so shorter gaps between requests are not reproduced: "
        f"{because}."
    )

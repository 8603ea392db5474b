"""Duty: what a run did in each condition that its brick went through: before a failure, degraded, rebuilding, after.

Refusal: an interval in which the condition changed belongs to neither and is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from brickyard.analysis.figures import cells
from brickyard.analysis.figures.latency import Latency, latency_of
from brickyard.analysis.figures.totals import asked_targets, rated_intervals, waited
from brickyard.schema import BrickCondition, Document, in_rate, is_request
from brickyard.store import Record
from brickyard.units import format_count, format_iops, format_mib_per_s, format_ns

BEFORE, NORMAL_AGAIN = "normal", "normal again"
COLUMNS = ("condition", "from", "lasted", "measured", "IOPS", "MiB/s", "mean", "p99", "errors")


Stretch = tuple[int, str, int, int]
"""Target, condition, start and end."""


@dataclass(frozen=True)
class Span:
    """A stretch of a run in one condition, with the whole intervals that lie in it."""

    target: int
    condition: str
    start_ns: int
    end_ns: int
    measured_ns: int
    requests: int
    bytes: int
    errors: int
    response: Latency | None

    @property
    def iops(self) -> float | None:
        """None where nothing of it was measured, as in a warm-up."""
        return self.requests / self.measured_ns * 1e9 if self.measured_ns else None

    @property
    def bytes_per_s(self) -> float | None:
        return self.bytes / self.measured_ns * 1e9 if self.measured_ns else None

    def document(self) -> Document:
        return {
            "target": self.target,
            "condition": self.condition,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "measured_ns": self.measured_ns,
            "iops": self.iops,
            "bytes_per_s": self.bytes_per_s,
            "errors": self.errors,
            "mean_response_ns": self.response.mean_ns if self.response else None,
            "p99_response_ns": self.response.p99 if self.response else None,
        }


def condition_spans(record: Record) -> list[Span]:
    """In the order of time; none where no condition changed."""
    return [_span(record, *stretch) for stretch in _stretches(record)]


def condition_rows(record: Record) -> dict[int, list[list[str]]]:
    """Rows for `COLUMNS`, of each target whose condition changed."""
    found: dict[int, list[list[str]]] = {}
    for span in condition_spans(record):
        found.setdefault(span.target, []).append(_row(span))
    return found


def _row(span: Span) -> list[str]:
    return [
        span.condition.replace("_", " "),
        f"{span.start_ns / 1e9:.1f} s",
        format_ns(span.end_ns - span.start_ns),
        format_ns(span.measured_ns) if span.measured_ns else cells.DASH,
        cells.DASH if span.iops is None else format_iops(span.iops),
        cells.DASH if span.bytes_per_s is None else format_mib_per_s(span.bytes_per_s),
        format_ns(span.response.mean_ns) if span.response else cells.DASH,
        cells.percentile_cell(span.response, "p99"),
        format_count(span.errors),
    ]


def of_words(record: Record, phase: int) -> str:
    """Which condition the figures of a phase are of, or which ones they are a mean over; empty where its targets were
    in the condition of the run throughout."""
    found = stretches(record)
    rated = rated_intervals(record, phase) if found else []
    if not rated:
        return ""
    from_ns, to_ns = rated[0].start_ns, rated[-1].end_ns
    many = [name.replace("_", " ") for name in names_within(found, asked_targets(record, phase), from_ns, to_ns)]
    if len(many) > 1:
        return f"mean over the conditions {', '.join(many[:-1])} and {many[-1]}"
    return f"{many[0]} throughout" if many and many[0] not in (BEFORE, record.info.condition.replace("_", " ")) else ""


def by_condition(record: Record) -> list[tuple[str, Record]]:
    """The record in parts that were measured in one condition each, with its name; an interval in which a condition
    changed is in none of them. Phases on targets whose condition never changed stay whole, without a name."""
    found = stretches(record)
    if not found:
        return [("", record)]
    parts: dict[str, set[tuple[int, int]]] = {}
    rated = set()
    for phase in dict.fromkeys(cost.phase for cost in record.costs):
        own = [stretch for stretch in found if stretch[0] in asked_targets(record, phase)]
        rated |= {(phase, cost.start_ns) for cost in rated_intervals(record, phase)}
        for cost in (cost for cost in record.costs if cost.phase == phase):
            if not any(cost.start_ns < start_ns < cost.end_ns for _, _, start_ns, _ in own):
                parts.setdefault(_at(own, cost.start_ns), set()).add((phase, cost.start_ns))
    return [(name, only(record, wanted)) for name, wanted in parts.items() if wanted & rated]


def _at(own: Iterable[Stretch], at_ns: int) -> str:
    """The condition at an instant; what is still in flight at the end is answered in the last one."""
    latest = {target: name for target, name, start_ns, _ in own if start_ns <= at_ns}
    return ", ".join(dict.fromkeys(latest.values()))


def only(record: Record, wanted: Collection[tuple[int, int]]) -> Record:
    """With the intervals alone that are of these phases and began then."""
    costs = [cost for cost in record.costs if (cost.phase, cost.start_ns) in wanted]
    intervals = [item for item in record.intervals if (item.phase, item.start_ns) in wanted]
    return replace(record, intervals=intervals, costs=costs)


def names_within(found: Iterable[Stretch], targets: Collection[int], from_ns: int, to_ns: int) -> list[str]:
    """The conditions that these targets were in during a time, in their order; none where no condition changed."""
    names = [name for target, name, start, end in found if target in targets and start < to_ns and end > from_ns]
    return list(dict.fromkeys(names))


class Stood:
    """In which conditions a run's targets were, as one text; that of the run where none changed."""

    def __init__(self, record: Record) -> None:
        self._record, self._stretches = record, stretches(record)

    @property
    def throughout(self) -> str:
        """Of all targets, from the start to the end."""
        ended_ns = max((end_ns for _, _, _, end_ns in self._stretches), default=0)
        return self._named({target for target, *_ in self._stretches}, 0, ended_ns)

    def within(self, phase: int, stream: int, from_ns: int, to_ns: int) -> str:
        """Of a stream's target."""
        return self._named(set(asked_targets(self._record, phase)[stream : stream + 1]), from_ns, to_ns)

    def rated(self, phase: int, stream: int) -> str:
        """Of a stream's target while the figures of its phase were counted."""
        rated = rated_intervals(self._record, phase)
        return self.within(phase, stream, rated[0].start_ns, rated[-1].end_ns) if rated else self.throughout

    def _named(self, targets: Collection[int], from_ns: int, to_ns: int) -> str:
        own = [stretch for stretch in self._stretches if stretch[0] in targets]
        found = ", ".join(names_within(own, targets, from_ns, to_ns))
        return found or _at(own, from_ns) or self._record.info.condition  # the drain is behind all stretches


def stretches(record: Record) -> list[Stretch]:
    """None where no condition changed."""
    return list(_stretches(record))


def _stretches(record: Record) -> Iterator[Stretch]:
    changes = record.of(BrickCondition)
    ends = [cost.end_ns for cost in record.costs if not cost.drain]
    for target in sorted({change.target for change in changes}):
        own = sorted((c for c in changes if c.target == target), key=lambda c: c.at_ns)
        starts = [0, *(c.at_ns for c in own)]
        names = [record.info.condition, *(NORMAL_AGAIN if c.condition == BEFORE else c.condition.value for c in own)]
        for name, start_ns, end_ns in zip(names, starts, [*starts[1:], max(ends, default=0)], strict=True):
            yield target, name, start_ns, max(start_ns, end_ns)


def _span(record: Record, target: int, name: str, start_ns: int, end_ns: int) -> Span:
    phases = sorted({cost.phase for cost in record.costs})
    rated = [cost for phase in phases for cost in rated_intervals(record, phase, with_transient=True)]
    within = [cost for cost in rated if cost.start_ns >= start_ns and cost.end_ns <= end_ns]
    keys = {(cost.phase, cost.start_ns) for cost in within}
    streams = {
        (phase, index)
        for phase in range(len(record.info.plan.phase))
        for index, at in enumerate(asked_targets(record, phase))
        if at == target
    }
    items = [
        item
        for item in record.intervals
        if (item.phase, item.start_ns) in keys and (item.phase, item.stream) in streams
    ]
    once = [item for item in items if item.measure == "service" and is_request(item.operation)]
    counted = in_rate({item.operation for item in once})
    done = [item for item in once if item.operation in counted]
    empty = Span(target, name, start_ns, end_ns, 0, 0, 0, 0, None)
    return replace(
        empty,
        measured_ns=sum(cost.end_ns - cost.start_ns for cost in within),
        requests=sum(item.requests for item in done),
        bytes=sum(item.bytes for item in done),
        errors=sum(item.errors for item in once),
        response=latency_of(item for item in waited(record, items) if item.measure == "response"),
    )

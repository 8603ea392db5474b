"""Duty: why the slowest requests of a run were slow: shares of their response time by cause, and the evidence.

A run itself knows when each of its slowest requests was due, submitted and ended, how many were in flight, and how busy
its loops were. What happened below, a watch beside it knows (`WatchSheet.slow`); a model knows what state it was in.

Refusal: where neither says it, the cause is unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from brickyard.analysis.figures.conditions import Span, condition_spans
from brickyard.analysis.figures.hosts import fleet_of
from brickyard.analysis.figures.own_time import in_flight_ns
from brickyard.analysis.figures.totals import asked_stream, full_stream_name, totals
from brickyard.analysis.judging.crowding import Crowding, crowding
from brickyard.bricks import is_modelled
from brickyard.schema import COMMIT, PhaseEnd, SlowEvent, in_flight_total, is_request
from brickyard.schema.conditions import AT_WORK
from brickyard.schema.plan import ClosedPace, Stream, SyncMode
from brickyard.schema.watch_sheet import HeldBack, SlowAtDevice, SlowSheet
from brickyard.store import Interval, IntervalCost, Record
from brickyard.units import format_count, format_ns, format_percent

GENERATOR, PLACES, EITHER = "late generator", "own queue depth", "own queue depth or CPU"
MODEL, STORAGE, ABOVE, RESYNC, UNKNOWN = "the model", "storage or host", "above the device", "resync", "unknown"
HELD = "cgroup limit"
HALF = 0.5
FULL = 0.9
"""Whose places were taken for that share of its lateness, waited for them."""
BUSY = 0.9
"""A loop that used so much of its time is the limit itself."""
SLACK_NS, DRIFT = 300_000, 20e-6
"""Two clocks: what they are apart at first, and by how much they may run apart."""
LONGER = 2.0
"""Merged requests begin with the first of them."""


@dataclass(frozen=True)
class SlowCause:
    """One of the slowest requests, and why it was slow."""

    at_ns: int
    stream: int
    operation: str
    offset_bytes: int
    request_bytes: int
    service_ns: int
    response_ns: int
    cause: str
    evidence: str
    host: str = ""
    """Of a run on many hosts: the one that issued it."""
    stream_name: str = ""
    target: str = ""


@dataclass(frozen=True)
class CauseShare:
    cause: str
    requests: int
    time_share: float
    """Of the response time of all."""


def slow_causes(record: Record) -> list[SlowCause]:
    """The slowest requests that the record has, the slowest first."""
    around = _Around(record)
    found = [
        _caused(event, end.phase, around) for end in record.of(PhaseEnd) for event in end.slowest if event.response_ns
    ]
    return sorted(found, key=lambda one: -one.response_ns)


def cause_shares(told: Sequence[SlowCause]) -> list[CauseShare]:
    """The largest first; of no requests none."""
    time_of: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for one in told:
        time_of[one.cause] += one.response_ns
        count[one.cause] += 1
    whole = sum(time_of.values())
    return [CauseShare(cause, count[cause], ns / whole) for cause, ns in time_of.most_common()]


Place = tuple[str, Callable[[SlowCause], str]]


def places(records: Sequence[Record], told: Sequence[SlowCause]) -> list[Place]:
    """Columns that say which host and stream requests came from and where they went, where runs have several."""
    hosts: list[Place] = [("host", lambda one: one.host)] if any(one.host for one in told) else []
    every: dict[str, set[str]] = {"stream": set(), "target": set()}
    for record in records:
        around = _Around(record)
        counts = [len(phase.stream) for phase in record.info.plan.phase]
        streams = [(at, n) for at, count in enumerate(counts) for n in range(count)]
        every["stream"] |= {around.stream(*key) for key in streams}
        every["target"] |= {around.target(*key) for key in streams}
    of: list[Place] = [("stream", lambda one: one.stream_name), ("target", lambda one: one.target)]
    return [*hosts, *((name, words) for name, words in of if len(every[name]) > 1)]


def unlisted_words(records: Iterable[Record]) -> str:
    """What the list of slowest requests does not have, although it was measured."""
    commits = any(row.operation == COMMIT and row.requests for record in records for row in totals(record))
    return "commits are not in this list; the write and the flush of each are, one by one" if commits else ""


def slow_words(record: Record) -> list[str]:
    """What was seen beside the run, and what limits belief in the causes."""
    found = []
    for sheet in record.info.watch.targets:
        if sheet is None:
            continue
        if sheet.slow is None:
            if "slow" in sheet.unknown and not is_modelled(record.info.targets[0]):
                found.append(f"No watch beside the run: {sheet.why('slow', 'older store')}.")
            continue
        told = sheet.slow
        found.append(
            f"Watched beside the run: {', '.join(told.devices)}, {format_count(told.requests)} requests, "
            f"{format_count(told.slow)} of them slow ({told.whose}); the watch itself used"
            f" {format_percent(told.cpu_ns / max(told.duration_ns, 1))} of one core."
            + (f" It ended early: {told.stopped}." if told.stopped else "")
        )
    return list(dict.fromkeys(found))


@dataclass
class _Around:
    """What else the record has of the time of a request."""

    record: Record

    def __post_init__(self) -> None:
        self.counted: dict[tuple[int, int], list[Interval]] = {}
        self.spans: list[Span] = condition_spans(self.record)
        self.watches: list[SlowSheet | None] = [one.slow if one else None for one in self.record.info.watch.targets]
        found = (crowding(self.record.info.start, one) for one in self.record.info.watch.targets if one)
        self.crowding: Crowding | None = next((one for one in found if one is not None), None)
        fleet = fleet_of(self.record)
        self.hosts = {target: host.host for host in fleet.hosts for target in host.targets} if fleet else {}
        names = self.record.info.targets
        self.paths = [
            name.removeprefix(f"{self.hosts[at]}:") if at in self.hosts else name for at, name in enumerate(names)
        ]
        self.is_modelled = any(map(is_modelled, self.paths))
        self.start_unix_ns = self.record.info.start_unix_ns or 0

    def intervals(self, phase: int, stream: int, from_ns: int, to_ns: int) -> list[Interval]:
        if not self.counted:
            for one in self.record.intervals:
                if one.measure == "service" and is_request(one.operation):
                    self.counted.setdefault((one.phase, one.stream), []).append(one)
        mine = self.counted.get((phase, stream), [])
        return [one for one in mine if one.start_ns < to_ns and one.end_ns > from_ns]

    def costs(self, phase: int, from_ns: int, to_ns: int) -> list[IntervalCost]:
        costs = self.record.costs
        return [one for one in costs if one.phase == phase and one.start_ns < to_ns and one.end_ns > from_ns]

    def host(self, phase: int, stream: int) -> str:
        asked = asked_stream(self.record, phase, stream)
        return self.hosts.get(asked.target, "") if asked else ""

    def stream(self, phase: int, stream: int) -> str:
        """Of a host, without its name."""
        return full_stream_name(self.record, phase, stream).removesuffix(f" on {self.host(phase, stream)}")

    def target(self, phase: int, stream: int) -> str:
        """Of a host, without its name."""
        asked = asked_stream(self.record, phase, stream)
        return self.paths[asked.target] if asked and asked.target < len(self.paths) else ""

    def watch(self, target: int) -> SlowSheet | None:
        return self.watches[target] if target < len(self.watches) else None


def _caused(event: SlowEvent, phase: int, around: _Around) -> SlowCause:
    late_ns = event.response_ns - event.service_ns
    if late_ns >= HALF * event.response_ns:
        cause, evidence = _late(event, phase, around)
    else:
        cause, evidence = _served(event, phase, around)
    return SlowCause(
        event.at_ns, event.stream, event.operation, event.offset_bytes, event.request_bytes, event.service_ns,
        event.response_ns, cause, evidence, around.host(phase, event.stream), around.stream(phase, event.stream),
        around.target(phase, event.stream),
    )  # fmt: skip


def _late(event: SlowEvent, phase: int, around: _Around) -> tuple[str, str]:
    """Between the instant when it was due and its submission."""
    due_ns, sent_ns = event.at_ns - event.response_ns, event.at_ns - event.service_ns
    late = f"submitted {format_ns(sent_ns - due_ns)} after it was due"
    asked = asked_stream(around.record, phase, event.stream)
    cells = around.intervals(phase, event.stream, due_ns, sent_ns)
    if not isinstance(asked, Stream) or not cells:
        return UNKNOWN, late
    places = in_flight_total(asked)
    most_at_once = max(cell.in_flight_bound for cell in cells)
    busy = max((cost.loop_busy_share for cost in around.costs(phase, due_ns, sent_ns)), default=0.0)
    words = (
        f"{late}; at most {most_at_once} of {places} allowed requests were in flight, the loops' own work took "
        f"{format_percent(busy)} of the time"
    )
    if isinstance(asked.pace, ClosedPace) and not asked.trace and not around.is_modelled:
        return GENERATOR, f"{late}; in a closed loop, it was due as soon as fewer requests than allowed were in flight"
    if most_at_once < asked.depth:
        return GENERATOR, words
    if most_at_once < places:
        return UNKNOWN, words  # one worker may have had all of its own taken
    late_ns, until_ns = sent_ns - due_ns, event.at_ns
    # A loop that stood still has a limit that is reached only when it goes on and issues all that is due.
    most = in_flight_ns(around.intervals(phase, event.stream, due_ns, until_ns + late_ns)) / (places * late_ns)
    if most < HALF:
        return GENERATOR, f"{words}, on average at most {format_percent(most)} of them while it was late"
    share = in_flight_ns(around.intervals(phase, event.stream, due_ns, until_ns)) / (places * late_ns)
    if share < FULL or (busy >= BUSY and not around.is_modelled):
        return UNKNOWN, words
    if around.crowding is not None and not around.is_modelled:
        return EITHER, f"{words}; {around.crowding.words}"
    return PLACES, words


def _served(event: SlowEvent, phase: int, around: _Around) -> tuple[str, str]:
    """Between submission and end."""
    asked = asked_stream(around.record, phase, event.stream)
    target = asked.target if asked else 0
    sent_ns = event.at_ns - event.service_ns
    for span in around.spans:
        is_at_work = span.target == target and span.condition in AT_WORK
        if is_at_work and span.start_ns < event.at_ns and span.end_ns > sent_ns:
            return RESYNC, f"the brick was {span.condition} at that time"
    took = f"{format_ns(event.service_ns)} from submission to end"
    if around.is_modelled:
        return MODEL, took
    watch = around.watch(target)
    if watch is None:
        return STORAGE, took
    seen = _seen(event, watch, around)
    if seen is not None:
        return seen.cause, seen.evidence
    if held := _held(event, watch, around):
        unit = "requests/s" if held.kind.endswith("iops") else "bytes/s"
        limit = f"cgroup {held.cgroup} was at its limit of {held.per_s:,} {unit} ({held.kind})"
        return HELD, f"{took}; {limit}, and no request to the device took half as long"
    if watch.stopped:
        return STORAGE, took
    return _unseen(event, watch, around, asked, took)


def _unseen(event: SlowEvent, watch: SlowSheet, around: _Around, asked: object, took: str) -> tuple[str, str]:
    """Where no single request to the device took half of its time."""
    parts = _parts(event, watch, around)
    if parts and (together_ns := sum(one.total_ns for one in parts)) >= HALF * event.service_ns:
        share = format_percent(together_ns / event.service_ns)
        is_alone = isinstance(asked, Stream) and in_flight_total(asked) == 1
        cause = _common(parts) if is_alone else UNKNOWN  # they may be parts of other requests in flight
        return cause, f"{took}; meanwhile, {len(parts)} requests to the device took {share} of it"
    if _is_several(event, asked):
        return UNKNOWN, f"{took}; it may be several requests to the device, and only slow ones are listed"
    # Of requests that are not in the list none took longer than the shortest that is.
    shortest_ns = min((one.total_ns for one in watch.slowest), default=math.inf)
    if limited := _limits(event, watch):
        held = limited[0]
        return UNKNOWN, f"{took}; cgroup {held.cgroup} has a limit ({held.kind}), and was at it at other times"
    if watch.slow <= len(watch.slowest) or shortest_ns < HALF * event.service_ns:
        return ABOVE, f"{took}; no request to the device took half as long"
    return UNKNOWN, took


def _is_several(event: SlowEvent, asked: object) -> bool:
    """Whether it may become several requests to the device, one after the other."""
    if event.operation != "write":
        return event.operation != "read"
    return not isinstance(asked, Stream) or asked.sync != SyncMode.NONE or asked.trace is not None


def _common(parts: Sequence[SlowAtDevice]) -> str:
    """Their cause, if they have one in common."""
    causes = {one.cause for one in parts}
    return causes.pop() if len(causes) == 1 else UNKNOWN


def _parts(event: SlowEvent, watch: SlowSheet, around: _Around) -> list[SlowAtDevice]:
    """Requests to the device within the time of this one, the longest of those that overlap: a durable write is a
    write and the flush after it."""
    end_unix_ns = around.start_unix_ns + event.at_ns
    slack_ns = SLACK_NS + DRIFT * event.at_ns
    from_ns, to_ns = end_unix_ns - event.service_ns - slack_ns, end_unix_ns + slack_ns
    within = [one for one in watch.slowest if one.end_unix_ns - one.total_ns >= from_ns and one.end_unix_ns <= to_ns]
    found: list[SlowAtDevice] = []
    for one in sorted(within, key=lambda one: -one.total_ns):
        began_ns = one.end_unix_ns - one.total_ns
        if all(one.end_unix_ns <= part.end_unix_ns - part.total_ns or began_ns >= part.end_unix_ns for part in found):
            found.append(one)
    return found


def _held(event: SlowEvent, watch: SlowSheet, around: _Around) -> HeldBack | None:
    """The limit that the run's control group had reached for at least half of this request's time."""
    end_unix_ns = around.start_unix_ns + event.at_ns
    begin_unix_ns = end_unix_ns - event.service_ns
    for held in _limits(event, watch):
        within = sum(max(0, min(end, end_unix_ns) - max(begin, begin_unix_ns)) for begin, end in held.spans_unix_ns)
        if within >= HALF * event.service_ns:
            return held
    return None


def _limits(event: SlowEvent, watch: SlowSheet) -> list[HeldBack]:
    """Of such operations, which the control group had reached at some time."""
    about = "r" if event.operation == "read" else "w"
    return [held for held in watch.held if held.kind.startswith(about)]


def _seen(event: SlowEvent, watch: SlowSheet, around: _Around) -> SlowAtDevice | None:
    """The request to the device that took most of this one's time, and ended with it, within what the clocks differ. It
    may have begun before, where requests were merged."""
    end_unix_ns = around.start_unix_ns + event.at_ns
    slack_ns = SLACK_NS + DRIFT * event.at_ns
    found = [
        one
        for one in watch.slowest
        if HALF * event.service_ns <= one.total_ns <= LONGER * event.service_ns + slack_ns
        and one.end_unix_ns - end_unix_ns <= slack_ns
        and one.end_unix_ns - (end_unix_ns - event.service_ns) >= HALF * event.service_ns
    ]
    return min(found, key=lambda one: abs(end_unix_ns - one.end_unix_ns), default=None)

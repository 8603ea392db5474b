"""Duty: what runs asked of their target, in one line: workers and queue depth, time, how durable a write is, direct or
buffered I/O.

A figure means nothing without these, so that every heading, table, picture and comparison has this line.

Refusal: no figure of what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from brickyard.schema.operations import in_flight_total, writes
from brickyard.schema.plan import OpenPace, OtherPhase, OtherStream, Phase, Plan, StepWord, Stream, SyncMode
from brickyard.store import Record
from brickyard.units import format_iops, format_ns

IO_WORDS = {"direct": "direct I/O", "buffered": "buffered I/O (page cache)"}
SYNC_WORDS = {SyncMode.DSYNC: "O_DSYNC writes", SyncMode.SYNC: "O_SYNC writes"}
VIRTUAL = "virtual"


def workload_words(records: Sequence[Record], each: str = "run") -> str:
    """`2 workers × queue depth 32, 1.5 s a cell, O_DSYNC writes, direct I/O`. Empty without workers, as of a replay."""
    loads = [record for record in records if _streams(record)]
    if not loads:
        return ""
    return _joined(_demand(loads), _time(loads, each), io_words(loads))


def time_words(records: Sequence[Record]) -> str:
    """`4 s to 15 s a run, direct I/O, modelled`: what is left where the demand is said otherwise."""
    return _joined(_time(records, "run"), io_words(records))


def io_words(records: Sequence[Record]) -> str:
    """`O_DSYNC writes, direct I/O, modelled`: what is left where demand and time are said otherwise."""
    return _joined(_durability(records), _io(records))


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _streams(record: Record) -> list[Stream | OtherStream]:
    found: list[Stream | OtherStream] = []
    for phase in record.info.plan.phase:
        found += [stream for stream in phase.stream if stream.workers is not None]
    return found


def _demand(records: Sequence[Record]) -> str:
    """What is in flight in a closed loop; in an open one the rate, since its depth is only room for a queue."""
    streams = [stream for record in records for stream in _streams(record)]
    workers = _span(stream.workers or 0 for stream in streams)
    of_workers = f"{workers} worker{'' if workers == '1' else 's'}"
    if all(isinstance(stream, Stream) and stream.program for stream in streams):
        return of_workers
    if all(isinstance(stream, Stream) and stream.trace for stream in streams):
        return "the requests of a trace"
    most = max(len(phase.stream) for record in records for phase in record.info.plan.phase)
    if most > 1:
        return f"{most} streams, {_span(_totals(records))} requests in flight in total"
    knobs = {
        str(phase.ramp.knob)
        for record in records
        for phase in record.info.plan.phase
        if isinstance(phase, Phase) and phase.ramp is not None
    }
    if any(isinstance(stream.pace, OpenPace) for stream in streams):
        return f"{of_workers}, {_rates(streams, knobs)}"
    depth = "queue depth by ramp" if "depth" in knobs else f"queue depth {_span(s.depth or 0 for s in streams)}"
    pauses = [stream.think.ns for stream in streams if isinstance(stream, Stream)]
    pause = f", {_times(pauses)} pause after each request" if any(pauses) else ""
    return f"{'workers by ramp' if 'workers' in knobs else of_workers} × {depth}{pause}"


def _times(spans: Sequence[int]) -> str:
    low, high = format_ns(min(spans)), format_ns(max(spans))
    return low if low == high else f"{low} to {high}"


def _rates(streams: Sequence[Stream | OtherStream], knobs: set[str]) -> str:
    closed = [stream for stream in streams if not isinstance(stream.pace, OpenPace)]
    rates = [stream.pace.rate for stream in streams if isinstance(stream.pace, OpenPace)]
    low, high = min(rates), max(rates)
    span = format_iops(low) if format_iops(low) == format_iops(high) else f"{format_iops(low)} to {format_iops(high)}"
    said = "open loop by ramp" if knobs & {"rate", "load"} else f"open loop at {span}/s"
    paced = [stream for stream in streams if isinstance(stream, Stream) and isinstance(stream.pace, OpenPace)]
    if slots := max(map(in_flight_total, paced), default=0):
        said += f" with up to {slots:,} in flight"
    if closed:
        said = f"closed loop at queue depth {_span(s.depth or 0 for s in closed)} and {said}"
    return said


def _totals(records: Sequence[Record]) -> Iterable[int]:
    for record in records:
        for phase in record.info.plan.phase:
            yield sum(map(in_flight_total, _of(phase)))


def _of(phase: Phase | OtherPhase) -> Sequence[Stream | OtherStream]:
    return phase.stream


def _span(values: Iterable[int]) -> str:
    found = sorted(set(values))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def measured_ns(record: Record) -> int:
    """For how long a run measured, without warm-up and drain."""
    return sum(c.end_ns - c.start_ns for c in record.spans() if not c.warmup and not c.drain)


def _time(records: Sequence[Record], each: str) -> str:
    spans = [span for record in records if (span := measured_ns(record))]
    if not spans:
        return ""
    low, high = format_ns(min(spans)), format_ns(max(spans))
    # Intervals end a little after they are due, so that equal plans differ in the third digit.
    said = low if max(spans) <= 1.02 * min(spans) else f"{low} to {high}"
    return f"{said} a {each}" if len(records) > 1 or each != "run" else f"{said} measured"


def _io(records: Sequence[Record]) -> str:
    starts = [record.info.start for record in records]
    told = zip(records, starts, strict=True)
    names = dict.fromkeys((start.io if start else "") or _asked_io(record) for record, start in told)
    said = " and ".join(IO_WORDS.get(name, name) for name in names if name)
    clocks = {start.clock.source if start else "" for start in starts}
    return f"{said}, modelled" if clocks == {VIRTUAL} and said else said


def _durability(records: Sequence[Record]) -> str:
    """When what was written is durable; empty for loads that write nothing, and where it was not told."""
    streams = [stream for record in records for stream in _streams(record) if isinstance(stream, Stream)]
    return " or ".join(dict.fromkeys(word for stream in streams if (word := _durable(stream))))


def _durable(stream: Stream) -> str:
    """Of one stream; a program and a trace have flushes of their own, which their rows show."""
    if not writes(stream):
        return ""
    if stream.sync is not SyncMode.NONE:
        return SYNC_WORDS[stream.sync]
    if (every := stream.flush_every) is not None:
        return f"{every.call} after {'each write' if every.writes == 1 else f'every {every.writes:,} writes'}"
    if StepWord.FLUSH in stream.chain:
        return "a flush in each chain"
    if stream.operations.flush > 0:
        return f"{stream.operations.flush:g} % flushes"
    return "writes not flushed"


def _asked_io(record: Record) -> str:
    return record.info.plan.io if isinstance(record.info.plan, Plan) else ""

"""Duty: what runs asked of their target, in one line: workers and queue depth, time, how durable a write is, direct or
buffered I/O.

A figure means nothing without these, so that every heading, table, picture and comparison has this line.

Refusal: no figure of what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from brickyard.analysis.figures.scheduled import pgbench_rate
from brickyard.schema.operations import in_flight_total, writes
from brickyard.schema.plan import Arrivals, OpenPace, OtherPhase, OtherStream, Phase, Plan, StepWord, Stream, SyncMode
from brickyard.store import Record
from brickyard.units import format_iops, format_ns, format_size

IO_WORDS = {"direct": "direct I/O", "buffered": "buffered I/O (page cache)"}
SYNC_WORDS = {SyncMode.DSYNC: "O_DSYNC writes", SyncMode.SYNC: "O_SYNC writes"}
VIRTUAL = "virtual"


PHASES_TOLD = 3
"""Phases that have words each; of more, a heading has the spans over all of them."""
KINDS_TOLD = 3
"""Kinds of requests that a heading names each; of more, it has the span of their sizes."""
AnyPhase = Phase | OtherPhase


def workload_words(records: Sequence[Record], each: str = "run", phase: int | None = None) -> str:
    """`2 workers × queue depth 32, 1.5 s a cell, O_DSYNC writes, direct I/O`. Empty without workers, as of a replay.

    Runs of the same few phases have words for each, since nothing was done for the time of all of them, or at the depth
    of one with the writes of another. `phase`: of this one alone.
    """
    loads = [record for record in records if _streams(_asked(record))]
    if not loads:
        return ""
    asked = [_asked(record) for record in loads]
    if phase is not None:
        return _joined(_of_phase(loads, phase, each), _io(loads))
    names = {tuple(one.name for one in phases) for phases in asked}
    if len(names) == 1 and 1 < len(asked[0]) <= PHASES_TOLD:
        told = [
            (one.name or f"phase {number + 1}", _of_phase(loads, number, each)) for number, one in enumerate(asked[0])
        ]
        return _joined("; ".join(f"{name}: {words}" for name, words in told if words), _io(loads))
    counts = set(map(len, asked))
    apart = " a run" if len(counts) > 1 else ""
    phases = f"{_span(counts)} phases{apart}" if max(counts) > 1 else ""
    return _joined(phases, _demand(asked), _time(loads, each), io_words(loads))


def request_words(streams: Sequence[Stream | OtherStream]) -> str:
    """`random 4 KiB`, or the kinds of several streams; of many kinds, their sizes. Empty where nobody knows, as of a
    replay."""
    known = [stream for stream in streams if isinstance(stream, Stream) and stream.request and not stream.program]
    told = dict.fromkeys(f"{_address(stream)} {_sizes([stream])}" for stream in known if not stream.trace)
    return " and ".join(told) if len(told) <= KINDS_TOLD else f"requests of {_sizes(known)}"


def requests_of(record: Record) -> str:
    """The same of all streams of a run."""
    return request_words([stream for phase in record.info.plan.phase for stream in phase.stream])


def _address(stream: Stream) -> str:
    return str(stream.address.__struct_config__.tag).replace("_", " ")


def _sizes(streams: Sequence[Stream]) -> str:
    sizes = [share.size for stream in streams for share in stream.request]
    low, high = format_size(min(sizes)), format_size(max(sizes))
    return low if low == high else f"{low} to {high}"


def plan_words(plan: Plan) -> str:
    """The same of what is to be run: no time was measured yet."""
    phases = [phase for phase in plan.phase if _streams([phase])]
    told = [_joined(_demand([[phase]]), _durability([[phase]])) for phase in phases]
    several = 1 < len(phases) <= PHASES_TOLD
    said = [f"{phase.name}: {words}" if several else words for phase, words in zip(phases, told, strict=True)]
    if len(phases) > PHASES_TOLD:
        said = [_joined(f"{len(phases)} phases", _demand([phases]), _durability([phases]))]
    return _joined("; ".join(said), IO_WORDS.get(plan.io, plan.io))


def _asked(record: Record) -> Sequence[AnyPhase]:
    """With the rate of pgbench as the pace of its stream, whose plan has it elsewhere."""
    phases, rate = record.info.plan.phase, pgbench_rate(record)
    if rate is None:
        return phases
    pace = OpenPace(rate=rate, arrivals=Arrivals.POISSON)
    return [replace(phase, stream=[replace(one, pace=pace) for one in phase.stream]) for phase in phases]


def _of_phase(records: Sequence[Record], number: int, each: str) -> str:
    """Of the runs that have this phase; empty where nobody works in it."""
    having = [record for record in records if len(record.info.plan.phase) > number]
    asked = [_asked(record)[number : number + 1] for record in having]
    if not any(_streams(phases) for phases in asked):
        return ""
    return _joined(_demand(asked), _time(having, each, number), _durability(asked))


def demand_words(records: Sequence[Record]) -> str:
    """`2 workers × queue depth 32`: how much is asked at a time, without which a response time says little."""
    return _demand([_asked(record) for record in records])


def time_words(records: Sequence[Record]) -> str:
    """`4 s to 15 s a run, direct I/O, modelled`: what is left where the demand is said otherwise."""
    return _joined(_time(records, "run"), io_words(records))


def io_words(records: Sequence[Record]) -> str:
    """`O_DSYNC writes, direct I/O, modelled`: what is left where demand and time are said otherwise."""
    return _joined(_durability([_asked(record) for record in records]), _io(records))


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _streams(phases: Sequence[AnyPhase]) -> list[Stream | OtherStream]:
    found: list[Stream | OtherStream] = []
    for phase in phases:
        found += [stream for stream in phase.stream if stream.workers is not None]
    return found


def _demand(asked: Sequence[Sequence[AnyPhase]]) -> str:
    """What is in flight in a closed loop; in an open one the rate, since its depth is only room for a queue.

    `asked` are the phases of each run."""
    streams = [stream for phases in asked for stream in _streams(phases)]
    workers = _span(stream.workers or 0 for stream in streams)
    of_workers = f"{workers} worker{'' if workers == '1' else 's'}"
    if all(isinstance(stream, Stream) and stream.program for stream in streams):
        return of_workers
    if all(isinstance(stream, Stream) and stream.trace for stream in streams):
        return "the requests of a trace"
    most = max(len(phase.stream) for phases in asked for phase in phases)
    if most > 1:
        return f"{most} streams, {_span(_in_flight(asked))} requests in flight in total"
    knobs = {
        str(phase.ramp.knob)
        for phases in asked
        for phase in phases
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


def _in_flight(asked: Sequence[Sequence[AnyPhase]]) -> Iterable[int]:
    for phases in asked:
        for phase in phases:
            yield sum(map(in_flight_total, _of(phase)))


def _of(phase: AnyPhase) -> Sequence[Stream | OtherStream]:
    return phase.stream


def _span(values: Iterable[int]) -> str:
    found = sorted(set(values))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def measured_ns(record: Record, phase: int | None = None) -> int:
    """For how long a run or one of its phases measured, without warm-up and drain."""
    return sum(c.end_ns - c.start_ns for c in record.spans(phase) if not c.warmup and not c.drain)


def _time(records: Sequence[Record], each: str, phase: int | None = None) -> str:
    """Of one phase, or of every phase by itself: what several measured is no time of any of them."""
    if phase is None and any(len(record.info.plan.phase) > 1 for record in records):
        numbers = [(record, number) for record in records for number in range(len(record.info.plan.phase))]
        return _times_words([measured_ns(*one) for one in numbers], " a phase")
    ending = f" a {each}" if len(records) > 1 or each != "run" else " measured"
    return _times_words([measured_ns(record, phase) for record in records], ending)


def _times_words(measured: Sequence[int], ending: str) -> str:
    spans = [span for span in measured if span]
    if not spans:
        return ""
    low, high = format_ns(min(spans)), format_ns(max(spans))
    # Intervals end a little after they are due, so that equal plans differ in the third digit.
    said = low if max(spans) <= 1.02 * min(spans) else f"{low} to {high}"
    return f"{said}{ending}"


def _io(records: Sequence[Record]) -> str:
    starts = [record.info.start for record in records]
    told = zip(records, starts, strict=True)
    names = dict.fromkeys((start.io if start else "") or _asked_io(record) for record, start in told)
    said = " and ".join(IO_WORDS.get(name, name) for name in names if name)
    modelled = [r.info.id for r, start in zip(records, starts, strict=True) if start and start.clock.source == VIRTUAL]
    if not said or not modelled:
        return said
    if len(modelled) == len(records):
        return f"{said}, modelled"
    which = f"run {modelled[0]}" if len(modelled) == 1 else f"{len(modelled)} of {len(records)} runs"
    return f"{said}, {which} modelled"


def _durability(asked: Sequence[Sequence[AnyPhase]]) -> str:
    """When what was written is durable; empty for loads that write nothing, and where it was not told."""
    streams = [stream for phases in asked for stream in _streams(phases) if isinstance(stream, Stream)]
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

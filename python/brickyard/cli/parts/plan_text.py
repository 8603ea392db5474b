"""Duty: a validated plan as lines that a person reads. Refusal: no defaults of its own; the plan carries them all."""

from __future__ import annotations

import re

from brickyard.analysis.figures.ramp import limit_text
from brickyard.schema import Duration, tag_of
from brickyard.schema.codec import values_of
from brickyard.schema.operations import shares
from brickyard.schema.plan import OpenPace, Phase, Plan, Program, Ramp, Step, Stream, SyncMode, Think, TraceTiming
from brickyard.units import format_ns, format_size


def plan_lines(plan: Plan) -> list[str]:
    lines = [str(plan.title or "profile without a title")]
    lines += [f"  {key}: {said}" for key, said in (("source", plan.source), ("about", plan.about)) if said]
    lines.append(
        f"  seed {plan.seed}, engine {plan.engine}, {plan.io} I/O, interval {_time(plan.interval)}"
        + (", completions are reaped one at a time (reap = 1)" if plan.reap == 1 else f", reap = {plan.reap}")
        + (f", at most {plan.submit} submitted in one call (submit = {plan.submit})" if plan.submit else "")
        + (", ends at the first error" if plan.stop_on_error else "")
    )
    for number, phase in enumerate(plan.phase, 1):
        lines.append(f"  phase {phase.name or number}: {_limits(phase)}")
        lines += [f"    {_stream(stream, index)}" for index, stream in enumerate(phase.stream, 1)]
    return lines


def _time(duration: Duration) -> str:
    return format_ns(duration.ns)


def _limits(phase: Phase) -> str:
    # Many programs, and traces, have an end of their own; a duration only cuts them short.
    latest = " at the latest" if all(stream.program or stream.trace for stream in phase.stream) else ""
    parts = [f"ends after {_time(phase.duration)}{latest}"] if phase.duration else []
    parts += [f"{phase.requests:,} requests"] if phase.requests else []
    parts += [format_size(phase.bytes)] if phase.bytes else []
    parts += [_passes(phase.passes)] if phase.passes else []
    text = " or ".join(parts) or ("ends with its ramp" if phase.ramp else "ends with its program")
    if phase.warmup:
        text += f", warm-up {_time(phase.warmup)}"
    if phase.stop:
        text += f", or when {phase.stop.when} exceeds {_time(phase.stop.above)}"
    if phase.steady:
        text += ", or at steady state" if phase.steady.stop else ", steady state is recorded"
    if phase.ramp:
        text += _ramp(phase.ramp)
    if lockstep := phase.lockstep:
        each = format_size(lockstep.bytes) if lockstep.bytes else f"{lockstep.requests:,} requests"
        text += f", in lockstep after every {each}"
    return text


def _ramp(ramp: Ramp) -> str:
    text = f", ramp of {ramp.knob} from {ramp.from_:g} to {ramp.to:g} every {_time(ramp.every)}"
    if limit := ramp.limit:
        is_rate = limit.when in ("iops", "throughput")
        threshold = limit_text(limit.below if is_rate else limit.above, limit.when)
        text += f" until {limit.when} is {'at least' if is_rate else 'above'} {threshold}"
        text += ", then a search between the last two" if ramp.search else ""
    return text


def _passes(passes: float) -> str:
    return f"{passes:,g} passes" if passes >= 1 else f"{passes:.4g} of a pass"


def _step(step: Step) -> str:
    return f"think {_time(step.think)}" if isinstance(step, Think) else str(step)


def _stream(stream: Stream, index: int) -> str:
    if trace := stream.trace:
        count = trace.reads + trace.writes + trace.flushes + trace.discards
        speed = (
            f" at {trace.speed:g} times its speed"
            if trace.speed != 1 and trace.timing is not TraceTiming.FIRE_HOSE
            else ""
        )
        timing = str(trace.timing).replace("_", " ")
        return (
            f"{stream.name or f'stream {index}'}: {count:,} requests of {trace.file}, {timing}{speed}, "
            f"offsets {trace.fit}, at most {stream.depth} in flight, target {stream.target}"
        )
    if stream.program:
        return _program(stream, index, stream.program)
    operations = " + ".join(
        f"{share:g} % {name}" if share < 100 else name for name, share in shares(stream.operations).items() if share
    )
    if stream.chain:
        operations = "chain of " + ", ".join(_step(step) for step in stream.chain)
    sizes = ", ".join(
        format_size(item.size) + (f" ({item.share:g} %)" if item.share < 100 else "") for item in stream.request
    )
    kind = tag_of(type(stream.address)).replace("_", " ")
    details = ", ".join(f"{key} {value}" for key, value in values_of(stream.address).items() if value and key != "kind")
    parts = [
        f"{stream.name or f'stream {index}'}: {operations}, {sizes}, {kind}{f' ({details})' if details else ''}",
        f"{stream.workers} × {stream.depth} in flight",
        f"target {stream.target}",
    ]
    if stream.region not in ("0..100%", "0%..100%", "0B..100%", ".."):
        parts.append(f"region {stream.region}")
    if isinstance(stream.pace, OpenPace):
        parts.append(
            f"open loop, {stream.pace.rate:,g} requests/s, {stream.pace.arrivals} arrivals" + _burst(stream.pace)
        )
    if frames := stream.frames:
        asked = frames.format or f"{format_size(frames.bytes or 0)} at {frames.rate:g}/s"
        buffer = frames.buffer
        parts.append(
            f"frames of {asked}, buffer {buffer:g} frames"
            if isinstance(buffer, int | float)
            else f"frames of {asked}, buffer {_time(Duration.read(buffer))}"
        )
    return ", ".join([*parts, *_beside(stream)])


def _beside(stream: Stream) -> list[str]:
    """What goes with its requests: pauses, durability, verification."""
    every = stream.flush_every
    writes = "each write" if every and every.writes == 1 else f"every {every.writes:,} writes" if every else ""
    said = {
        f"{_time(stream.think)} of think time": stream.think.ns > 0,
        f"each write {stream.sync}": stream.sync is not SyncMode.NONE,
        f"{every.call if every else ''} after {writes}": every is not None,
        "verified": stream.verify,
    }
    return [words for words, is_so in said.items() if is_so]


DURATION = re.compile(r"\d+ns")
SIZE_KEYS = frozenset(
    {"size", "most", "log_size", "increment", "buffer_pool", "gather", "record", "mailbox_size", "maintenance"}
)


def _value(key: str, value: object) -> object:
    """A size or a time of a program with its unit."""
    if key in SIZE_KEYS and isinstance(value, int):
        return format_size(value)
    return format_ns(int(value.removesuffix("ns"))) if isinstance(value, str) and DURATION.fullmatch(value) else value


def _burst(pace: OpenPace) -> str:
    return f" of {pace.burst} together" if (pace.burst or 1) > 1 else ""


def _program(stream: Stream, index: int, program: Program) -> str:
    kind = tag_of(type(program)).replace("_", " ")
    said = {key: _value(key, value) for key, value in values_of(program).items() if key != "kind"}
    details = ", ".join(f"{key} {value}" for key, value in said.items() if value not in (None, False))
    sizes = f" in calls of {format_size(stream.request[0].size)}" if stream.request else ""
    workers = stream.workers
    return (
        f"{stream.name or f'stream {index}'}: {kind}{f' ({details})' if details else ''}{sizes}, "
        f"{workers} worker{'s' if workers > 1 else ''}, target {stream.target}"
    )

"""Duty: a validated plan as lines that a person reads. Refusal: no defaults of its own; the plan carries them all."""

from __future__ import annotations

from brickyard import _core
from brickyard.analysis.ramp import limit_text
from brickyard.store import Json
from brickyard.units import format_ns, format_size


def plan_lines(plan: Json) -> list[str]:
    lines = [str(plan["title"] or "a profile without a title")]
    lines += [f"  {key}: {plan[key]}" for key in ("source", "about") if plan.get(key)]
    lines.append(
        f"  seed {plan['seed']}, engine {plan['engine']}, {plan['io']} I/O, interval {_time(plan['interval'])}"
        + (", completions are reaped one at a time (reap = 1)" if plan["reap"] == 1 else f", reap = {plan['reap']}")
        + (", ends at the first error" if plan.get("stop_on_error") else "")
    )
    for number, phase in enumerate(plan["phase"], 1):
        lines.append(f"  phase {phase['name'] or number}: {_limits(phase)}")
        lines += [f"    {_stream(stream, index)}" for index, stream in enumerate(phase["stream"], 1)]
    return lines


def _time(text: str) -> str:
    return format_ns(_core.parse_duration_ns(text))


def _limits(phase: Json) -> str:
    parts = [f"ends after {_time(phase['duration'])}"] if phase.get("duration") else []
    parts += [f"{phase['requests']:,} requests"] if phase.get("requests") else []
    parts += [format_size(phase["bytes"])] if phase.get("bytes") else []
    parts += [_passes(phase["passes"])] if phase.get("passes") else []
    text = " or ".join(parts) or ("ends with its ramp" if phase.get("ramp") else "ends with its program")
    if phase.get("warmup") and _core.parse_duration_ns(phase["warmup"]):
        text += f", warm-up {_time(phase['warmup'])}"
    if phase.get("stop"):
        text += f", or when {phase['stop']['when']} passes {_time(phase['stop']['above'])}"
    if phase.get("steady"):
        text += ", or at steady state" if phase["steady"].get("stop") else ", steady state is noted"
    if ramp := phase.get("ramp"):
        text += f", ramp of {ramp['knob']} from {ramp['from']:g} to {ramp['to']:g} every {_time(ramp['every'])}"
        if limit := ramp.get("limit"):
            is_rate = limit["when"] in ("iops", "throughput")
            threshold = limit_text(limit["below" if is_rate else "above"], limit["when"])
            text += f" until {limit['when']} is {'at least' if is_rate else 'above'} {threshold}"
            text += ", then a search between the last two" if ramp.get("search") else ""
    if lockstep := phase.get("lockstep"):
        each = format_size(lockstep["bytes"]) if lockstep.get("bytes") else f"{lockstep['requests']:,} requests"
        text += f", in lockstep after every {each}"
    return text


def _passes(passes: float) -> str:
    return f"{passes:,g} passes" if passes >= 1 else f"{passes:.4g} of a pass"


def _step(step: str | Json) -> str:
    return step if isinstance(step, str) else f"think {_time(step['think'])}"


def _stream(stream: Json, index: int) -> str:
    if program := stream.get("program"):
        return _program(stream, index, dict(program))
    operations = " + ".join(
        f"{share:g} % {name}" if share < 100 else name for name, share in stream["operations"].items() if share
    )
    if stream.get("chain", []):
        operations = "chain of " + ", ".join(_step(step) for step in stream.get("chain", []))
    sizes = ", ".join(
        format_size(item["size"]) + (f" ({item['share']:g} %)" if item["share"] < 100 else "")
        for item in stream["request"]
    )
    address = dict(stream["address"])
    kind = str(address.pop("kind")).replace("_", " ")
    details = ", ".join(f"{key} {value}" for key, value in address.items() if value)
    pace = stream["pace"]
    parts = [
        f"{stream['name'] or f'stream {index}'}: {operations}, {sizes}, {kind}{f' ({details})' if details else ''}",
        f"{stream['workers']} × {stream['depth']} in flight",
        f"target {stream['target']}",
    ]
    if stream.get("region") not in (None, "0..100%", "0%..100%", "0B..100%", ".."):
        parts.append(f"region {stream['region']}")
    if pace["loop"] == "open":
        parts.append(f"open loop, {pace['rate']:,g} requests/s, {pace.get('arrivals', 'constant')} arrivals")
    if frames := stream.get("frames"):
        asked = frames.get("format") or f"{format_size(frames['bytes'])} at {frames['rate']:g}/s"
        buffer = frames["buffer"]
        parts.append(
            f"frames of {asked}, buffer {buffer:g} frames"
            if isinstance(buffer, int | float)
            else f"frames of {asked}, buffer {_time(buffer)}"
        )
    if stream.get("sync") not in (None, "none"):
        parts.append(f"each write {stream['sync']}")
    if stream.get("verify"):
        parts.append("verified")
    return ", ".join(parts)


def _program(stream: Json, index: int, program: Json) -> str:
    kind = str(program.pop("kind")).replace("_", " ")
    said = {
        key: format_size(value) if key == "size" and isinstance(value, int) else value for key, value in program.items()
    }
    details = ", ".join(f"{key} {value}" for key, value in said.items() if value not in (None, False))
    sizes = f" in calls of {format_size(stream['request'][0]['size'])}" if stream["request"] else ""
    workers = stream["workers"]
    return (
        f"{stream['name'] or f'stream {index}'}: {kind}{f' ({details})' if details else ''}{sizes}, "
        f"{workers} worker{'s' if workers > 1 else ''}, target {stream['target']}"
    )

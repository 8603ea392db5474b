"""Duty: a profile that issues the requests of a trace again. Refusal: it reads no target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from brickyard.errors import BadInputError
from brickyard.schema import Duration
from brickyard.schema.titles import CHANGED
from brickyard.traces.contents import Contents, TraceFigures, contents, examine
from brickyard.traces.toml import quoted

FIRE_HOSE_DEPTH = 32
BUFFERS_BYTES = 256 << 20  # of all requests in flight
DEPTH_MOST = 1024
DEPTH_LEAST = 256
ROOM = 4  # so many times the depth of the trace, for storage that is slower than that of the trace


@dataclass(frozen=True)
class Replay:
    name: str
    text: str
    place: str
    contents: Contents
    timing: str
    device: int | None
    notes: list[str]


def replay_profile(
    path: str,
    *,
    timing: str = "timed",
    speed: float = 1.0,
    fit: str = "exact",
    device: int | None = None,
    depth: int | None = None,
) -> Replay:
    """The profile as TOML text; the trace is read for what the plan says of it."""
    read = contents(path, device)
    summary = read.summary
    if not summary.requests:
        raise BadInputError(f"{path}: holds no request" + (f" of device {device}" if device is not None else ""))
    if device is None and len(read.devices) > 1:
        names = ", ".join(f"{number}: {item.name}" for number, item in enumerate(read.devices[:8]))
        raise BadInputError(f"{path}: has {len(read.devices)} devices; choose one with --trace-device ({names})")
    if timing == "dependent" and summary.completed < summary.requests:
        known = f"{summary.completed:,} of {summary.requests:,}"
        raise BadInputError(f"{path}: the ends of requests are known of {known}; use --timing timed or fire_hose")
    if timing == "timed" and summary.requests > 1 and summary.duration_ns == 0:
        raise BadInputError(f"{path}: all requests have the same time; use --timing fire_hose")
    notes = []
    if read.torn:
        notes.append(f"{path}: {read.torn}; the {summary.requests:,} requests before that are issued")
    if summary.lost:
        notes.append(f"{path}: events lost while the trace was taken: {summary.lost:,}")
    figures = examine(path, device).figures if summary.completed else None
    usual = _depth(read, figures, timing)
    changes = _changes(timing, speed, fit, device, depth if depth != usual else None)
    text = _text(path, read, timing, speed, fit, device, depth or usual, changes)
    return Replay(Path(path).stem, text, path, read, timing, device, notes)


def _depth(read: Contents, figures: TraceFigures | None, timing: str) -> int:
    """How many requests may be in flight: more than the trace had, so that slower storage delays no request's issue."""
    if timing == "fire_hose":
        return FIRE_HOSE_DEPTH
    largest = max(read.summary.request_bytes_max, 4096)
    most = max(min(BUFFERS_BYTES // largest, DEPTH_MOST), 1)
    seen = figures.depth_max + 1 if figures is not None else DEPTH_MOST
    return int(min(max(seen * ROOM, DEPTH_LEAST), most))


def _changes(timing: str, speed: float, fit: str, device: int | None, depth: int | None) -> list[str]:
    """What tells a replay from one at the trace's own pace and places, by the keys of the profile."""
    found = [f"timing={timing}"] if timing != "timed" else []
    if speed != 1 and timing != "fire_hose":
        found.append(f"speed={speed:g}")
    if fit != "exact":
        found.append(f"fit={fit}")
    found += [f"{name}={number}" for name, number in (("device", device), ("depth", depth)) if number is not None]
    return found


def _text(
    path: str,
    read: Contents,
    timing: str,
    speed: float,
    fit: str,
    device: int | None,
    depth: int,
    changes: list[str],
) -> str:
    summary = read.summary
    lasts = str(Duration(summary.duration_ns))
    about = f"{summary.requests:,} requests in {lasts}"
    title = f"the requests of {Path(path).name}" + (", timed" if timing == "timed" else "")
    title += f"{CHANGED}{', '.join(changes)}" if changes else ""
    lines = [
        f"title = {quoted(title)}",
        f"source = {quoted(read.header.source or path)}",
        f"about = {quoted(about)}",
        "[[phase]]",
        'name = "trace"',
        "[[phase.stream]]",
        'name = "trace"',
        f"depth = {depth}",
        "[phase.stream.trace]",
        f"file = {quoted(str(Path(path).resolve()))}",
        f"timing = {quoted(timing)}",
        f"speed = {float(speed)!r}",
        f"fit = {quoted(fit)}",
        *([f"device = {device}"] if device is not None else []),
        f"reads = {summary.reads}",
        f"writes = {summary.writes}",
        f"flushes = {summary.flushes}",
        f"discards = {summary.discards}",
        f'largest = "{summary.request_bytes_max}B"',
        f'reach = "{summary.end_bytes}B"',
        f"disorder_ns = {summary.disorder_ns}",
    ]
    return "\n".join(lines) + "\n"

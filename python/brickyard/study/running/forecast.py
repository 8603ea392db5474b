"""Duty: what a plan is going to do: how long it lasts and how much it writes, before anything is touched.

Refusal: no guess. What depends on how fast the storage is, is said to.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from brickyard import bricks, facts
from brickyard.analysis.figures.reach import region_bytes
from brickyard.schema import Document
from brickyard.schema.plan import Audit, FillChoice, Moves, OpenPace, Phase, Plan, ReadAhead, StepWord, Stream
from brickyard.study.running.computing import MODELLED_WRITES
from brickyard.units import format_seconds, format_size

TRIMS = "trims: the data of all blocks that the workload trims are lost"


@dataclass(frozen=True)
class Forecast:
    """Bytes are None where only the storage's speed decides them; so is a duration.

    `ends_earlier` says that something else than time may end a phase before its duration.
    """

    duration_s: float | None
    ends_earlier: bool
    writes: bool
    trims: bool
    written_bytes: int | None
    fill_bytes: int | None

    def document(self) -> Document:
        return {
            "duration_s": self.duration_s,
            "ends_earlier": self.ends_earlier,
            "writes": self.writes,
            "trims": self.trims,
            "written_bytes": self.written_bytes,
            "fill_bytes": self.fill_bytes,
        }


def forecast(plan: Plan, sizes_bytes: list[int | None], to_fill: Sequence[int | None] = (None,)) -> Forecast:
    """Reads a validated plan; `sizes_bytes` are those of its targets as far as known, and `to_fill` how much of each is
    filled before."""
    durations = [_phase_seconds(phase) for phase in plan.phase]
    written = [_written(phase, seconds, sizes_bytes) for phase, seconds in zip(plan.phase, durations, strict=True)]
    known = [s for s in durations if s is not None]
    amounts = [w for w in written if w is not None]
    return Forecast(
        duration_s=sum(known) if len(known) == len(durations) else None,
        ends_earlier=any(map(_may_end_earlier, plan.phase)),
        writes=any(_write_share(stream) > 0 for phase in plan.phase for stream in phase.stream),
        trims=any(_trims(stream) for phase in plan.phase for stream in phase.stream),
        written_bytes=sum(amounts) if len(amounts) == len(written) else None,
        fill_bytes=_sum_of(to_fill) if plan.fill is FillChoice.AUTO else 0,
    )


def change_lines(writes: bool, trims: bool, otherwise: str = "none") -> list[str]:
    """What a load that goes on for a time does to its targets."""
    lines = [f"writes: {'what the workload writes in that time' if writes else otherwise}"]
    return [*lines, TRIMS] if trims else lines


def _sum_of(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def forecast_lines(expected: Forecast, targets: list[str], *, made: bool = False) -> list[str]:
    """The forecast in words. `made` says that a target is yet to be made, and so to be filled."""
    made = made or not targets
    if expected.duration_s is None:
        lasts = "until its limits are reached"
    else:
        lasts = ("at most " if expected.ends_earlier else "") + format_seconds(expected.duration_s)
    if bricks.all_modelled(targets):
        return [f"duration: {lasts} of the model's time", MODELLED_WRITES]
    fill_bytes = expected.fill_bytes
    if fill_bytes is not None:
        filling = f"filling {format_size(fill_bytes)} that are not known to hold data" if fill_bytes else ""
    elif expected.writes:
        filling = "filling the parts that are not known to hold data"
    else:  # a target that exists and is not Brickyard's own is read as it is
        filling = "filling the new file" if made else "filling the rest of a file that Brickyard made"
    lines = [f"duration: {lasts}" + (f", and the time for {filling}" if filling else "")]
    trims = [TRIMS] if expected.trims else []
    if not expected.writes:
        return [*lines, "writes: none" + (f", apart from {filling}" if filling else ""), *trims]
    if expected.written_bytes is None:
        such = "" if expected.duration_s is None else f" (at 1 GiB/s, {format_size(expected.duration_s * (1 << 30))})"
        amount = f"as much as the target takes in that time{such}"
    else:
        amount = f"at most {format_size(expected.written_bytes)}"
    lines += [f"writes: {amount}" + (f", after {filling}" if filling else ""), *trims]
    if expected.written_bytes is not None:
        lines += _endurance_lines(expected.written_bytes + (fill_bytes or 0), targets)
    return lines


def _endurance_lines(written_bytes: int, targets: list[str]) -> list[str]:
    return [f"endurance of {target}: {facts.endurance(target, written_bytes).text}" for target in targets]


def _may_end_earlier(phase: Phase) -> bool:
    return any((phase.requests, phase.bytes, phase.passes, phase.stop, phase.steady))


def _phase_seconds(phase: Phase) -> float | None:
    return (phase.duration.ns + phase.warmup.ns) / 1e9 if phase.duration else None


def _write_share(stream: Stream) -> float:
    """Of its requests."""
    if stream.trace:
        return 1.0 if stream.trace.writes else 0.0
    if stream.program:
        # How much it writes is decided by the storage's speed, and by the program.
        return 0.0 if isinstance(stream.program, (ReadAhead, Audit)) else 1.0
    if requests := _requests_of(stream):
        return requests.count(StepWord.WRITE) / len(requests)
    return stream.operations.write / 100


def _trims(stream: Stream) -> bool:
    return stream.trace.discards > 0 if stream.trace else stream.operations.trim > 0


def _requests_of(stream: Stream) -> list[StepWord]:
    return [step for step in stream.chain if isinstance(step, StepWord)]


def _mean_write_bytes(stream: Stream) -> float:
    return sum(item.size * item.share for item in stream.request if item.of in (None, Moves.WRITE)) / 100


def _written(phase: Phase, seconds: float | None, sizes_bytes: list[int | None]) -> int | None:
    """An upper bound of what a phase writes, or None where only the storage's speed decides."""
    lanes = sum(stream.workers for stream in phase.stream)
    amounts = []
    for stream in phase.stream:
        if _write_share(stream) > 0:
            # A ramp may change how the lanes are divided.
            share = 1.0 if phase.ramp else stream.workers / lanes
            known = [amount for amount in _bounds(phase, stream, seconds, sizes_bytes, share) if amount is not None]
            amounts.append(min(known, default=None))
    known = [amount for amount in amounts if amount is not None]
    return round(sum(known)) if len(known) == len(amounts) else None


def _bounds(
    phase: Phase, stream: Stream, seconds: float | None, sizes_bytes: list[int | None], lanes_share: float
) -> list[float | None]:
    """What each limit lets a stream write: of a phase's requests and bytes it gets the share of its lanes."""
    mean_bytes, share = _mean_write_bytes(stream), _write_share(stream)
    rate = stream.pace.rate if isinstance(stream.pace, OpenPace) and stream.trace is None else None
    return [
        stream.trace.writes * stream.trace.largest if stream.trace else None,
        phase.requests * lanes_share * share * mean_bytes if phase.requests and mean_bytes else None,
        phase.bytes * lanes_share if phase.bytes else None,
        _passed_bytes(phase.passes, stream, sizes_bytes) if phase.passes else None,
        None if seconds is None or rate is None else seconds * rate * share * mean_bytes,
    ]


def _passed_bytes(passes: float, stream: Stream, sizes_bytes: list[int | None]) -> float | None:
    """A pass moves the bytes of the region, a chain that often as it has steps that move any. Flushes come on top."""
    size = sizes_bytes[stream.target] if stream.target < len(sizes_bytes) else None
    if stream.trace or stream.program or (not size and "%" in stream.region):
        return None
    if requests := _requests_of(stream):
        each = float(requests.count(StepWord.WRITE))
    else:
        each = stream.operations.write / (100 - stream.operations.flush)
    return passes * each * region_bytes(stream.region, size or sys.maxsize)

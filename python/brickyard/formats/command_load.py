"""Duty: what command lines of SQLIO and diskspd ask for, in their common terms → a profile, one phase for each line.

Refusal: what their switches mean is for `sqlio` and `diskspd` to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from brickyard.errors import BadInputError
from brickyard.formats import toml_text
from brickyard.formats.fio_job import Imported, named_targets
from brickyard.formats.profile_parts import (
    RANDOM,
    SEQUENTIAL,
    Address,
    Limits,
    OpenLoop,
    ProfilePhase,
    ProfileStream,
)

KIB, MIB = 1 << 10, 1 << 20
LARGEST = 1 << 50
MAX_CURSORS = 256  # threads that are streams of their own; 1024 workers are all that a phase has


@dataclass
class Load:
    """What both programs ask for, in their common terms."""

    files: list[tuple[str, int | None, int | None]] = field(default_factory=list)  # name, own threads, own size
    write_percent: float = 0
    request_bytes: int = 0
    align_bytes: int | None = None
    is_random: bool = False
    random_percent: float | None = None
    zones: Address | None = None
    stride_bytes: int | None = None
    apart: bool = True
    each_its_cursor: bool = False
    between_threads_bytes: int = 0
    threads: int = 1
    depth: int = 1
    duration_s: int = 30
    warmup_s: int = 0
    buffered: bool = False
    write_through: bool = False
    from_bytes: int = 0
    to_bytes: int | None = None
    rate_per_thread: float | None = None
    seed: int | None = None
    notes: list[str] = field(default_factory=list)


def whole_number(switch: str, text: str, low: int = 0, high: int = LARGEST) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or not low <= int(text) <= high:
        raise BadInputError(f"{switch}{text}: must be a whole number from {low} to {high}")
    return int(text)


def refusal(program: str, switch: str) -> BadInputError:
    return BadInputError(f"{program}'s {switch} has no counterpart here, and the line without it is another load")


def profile_of(name: str, program: str, loads: list[Load]) -> Imported:
    targets: list[str] = []
    phases: list[ProfilePhase] = []
    notes = list(dict.fromkeys(note for load in loads for note in load.notes))
    top: dict[str, str | int] = {"io": "buffered" if loads[0].buffered else "direct"}
    if any(load.buffered != loads[0].buffered for load in loads):
        raise BadInputError("some lines go through the cache of the operating system and some don't; import them apart")
    if loads[0].buffered:
        top["cache"] = "as_is"
    seeds = {load.seed for load in loads}
    if len(seeds) > 1:
        raise BadInputError("the lines have different seeds, and a profile has one; import them apart")
    if loads[0].seed is not None:
        top["seed"] = loads[0].seed
    for number, load in enumerate(loads, 1):
        warmup = f"{load.warmup_s}s" if load.warmup_s else None
        phase = ProfilePhase(f"line-{number}", Limits(duration=f"{load.duration_s}s", warmup=warmup))
        for file, threads, size_bytes in load.files:
            if file not in targets:
                targets.append(file)
            phase.streams.extend(_streams(load, targets.index(file), threads or load.threads, size_bytes))
        phases.append(phase)
    lines = "a command line" if len(loads) == 1 else "command lines"
    about = [f"Imported from {lines} of {program}.", *notes, named_targets(targets)]
    made = toml_text.profile_text(name, f"{program}: {name}", f"{program} command line", about, phases, **top)
    return Imported(made, targets, notes, are_named=True)


def _address(load: Load, threads: int) -> Address:
    if load.zones is not None:
        return load.zones
    if load.random_percent is not None and load.random_percent < 100:
        return Address("runs", random=load.random_percent)
    if load.is_random:
        return RANDOM
    if load.stride_bytes is not None:
        return Address("strided", stride=toml_text.size(load.stride_bytes))
    return Address("sequential", apart=True) if threads > 1 and load.apart else SEQUENTIAL


def _streams(load: Load, target: int, threads: int, size_bytes: int | None) -> list[ProfileStream]:
    """One stream, or one for each thread where each has a cursor of its own."""
    address = _address(load, threads)
    has_cursor = load.each_its_cursor and (address == SEQUENTIAL or load.stride_bytes is not None)
    if threads == 1 or not has_cursor:
        return [_stream(load, target, threads, size_bytes, f"file-{target + 1}", address, 0)]
    if threads > MAX_CURSORS:
        raise BadInputError(f"{threads} threads with a cursor each; at most {MAX_CURSORS}")
    return [
        _stream(
            load, target, 1, size_bytes, f"file-{target + 1}-thread-{n + 1}", address, n * load.between_threads_bytes
        )
        for n in range(threads)
    ]


def _stream(
    load: Load, target: int, threads: int, size_bytes: int | None, name: str, address: Address, shift_bytes: int
) -> ProfileStream:
    end = size_bytes if size_bytes is not None else load.to_bytes
    start = load.from_bytes + shift_bytes
    if end is not None and end <= start:
        raise BadInputError(f"the part from {start} to {end} bytes is empty")
    return ProfileStream(
        name=name,
        target=target,
        operations=toml_text.operations(100 - load.write_percent),
        request=toml_text.size(load.request_bytes),
        align=None if load.align_bytes is None else toml_text.size(load.align_bytes),
        address=address,
        region=toml_text.region(start, None if end is None else end - start),
        workers=threads,
        depth=load.depth,
        pace=None if load.rate_per_thread is None else OpenLoop(load.rate_per_thread * threads),
        sync="dsync" if load.write_through and load.write_percent else None,
    )

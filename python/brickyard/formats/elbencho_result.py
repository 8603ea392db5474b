"""Duty: results of elbencho (--csvfile, --jsonfile) → what was printed: a phase for each that reads or writes.

Figures are those of the last thread's end (`[last]`, `last_done`). Latencies are least, mean and longest in µs. In a
mixed phase (RWMIX…, MIX-T…) elbencho has the writes in its main figures and the reads beside them (`rwmix read`). The
CSV has bytes in whole MiB. The JSON (since 3.0-27) is a document a phase, every value is text, bytes are exact; before
3.0-37 it says nothing of threads, sizes and direct I/O.

Refusal: --livecsv is no result; phases on names alone, and those that do several things to a file, are left out.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from brickyard.errors import BadInputError
from brickyard.formats.profile_parts import RANDOM, SEQUENTIAL, Address
from brickyard.formats.tool_result import (
    Ends,
    Moved,
    Printed,
    PrintedLoad,
    PrintedTimes,
    ToolResult,
    count_of,
    garbled,
    profile_of,
    span_s,
)
from brickyard.ready import ready
from brickyard.schema import Counted
from brickyard.units import MIB, format_size

TOOL = "elbencho"
READS = {"READ": 100.0, "WRITE": 0.0}
MIXED = re.compile(r"RWMIX(\d{1,2}|100)|MIX-T\d+")
"""`--rwmixpct` with the share of reads, `--rwmixthr` with the threads that read."""
LAST = "The figures are elbencho's of its last thread's end ([last], last_done)."
UNALIGNED = "Random offsets were no multiples of the block size (--norandalign)."
NO_CONFIG = (
    "This version of elbencho leaves threads, block size and direct I/O out of --jsonfile (3.0-37 has them): they are "
    "not known, and the requests are its IOPS over its time."
)
ONE_PLACE = ("file", "blockdev")
"""In directories each thread has files of its own; in a file or device they share what is there."""


class _Times(msgspec.Struct, frozen=True):
    min_us: float | None = None
    avg_us: float | None = None
    max_us: float | None = None
    rwmix_read: _Times | None = None


class _Latency(msgspec.Struct, frozen=True):
    requests: _Times = msgspec.field(name="IO", default_factory=_Times)


class _Done(msgspec.Struct, frozen=True):
    elapsed_time_ms: float = 0.0
    iops: float = 0.0
    bytes: float = 0.0
    latency: _Latency = msgspec.field(default_factory=_Latency)
    rwmix_read: _Done | None = None


class _Config(msgspec.Struct, frozen=True):
    version: str = ""
    path_type: str = ""
    paths: int = 1
    hosts: int = 1
    threads: int = 1
    io_depth: int = 1
    file_size: int = 0
    block_size: int = 0
    direct_io: bool | None = None
    random_offsets: bool = False
    random_aligned: bool = True

    @property
    def is_unaligned(self) -> bool:
        return self.random_offsets and not self.random_aligned


class _Phase(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a document of --jsonfile."""

    phase_type: str
    iso_start_date: str
    label: str = ""
    version: str = ""
    config: _Config | None = None
    last_done: _Done

    @property
    def is_taken(self) -> bool:
        return self.phase_type in READS or MIXED.fullmatch(self.phase_type) is not None

    @property
    def reads(self) -> float | None:
        """Share of reads in per cent; None where threads of their own read."""
        if (mixed := MIXED.fullmatch(self.phase_type)) is None:
            return READS[self.phase_type]
        return None if mixed[1] is None else float(mixed[1])


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a line of --csvfile, by the names of its columns. Empty ones are absent."""

    began: str = msgspec.field(name="ISO date")
    label: str = ""
    operation: str = ""
    version: str = ""
    path_type: str = msgspec.field(name="path type", default="")
    paths: int = 1
    hosts: int = 1
    threads: int = 1
    depth: int = msgspec.field(name="IO depth", default=1)
    file_bytes: int = msgspec.field(name="file size", default=0)
    block_bytes: int = msgspec.field(name="block size", default=0)
    direct: bool | None = msgspec.field(name="direct IO", default=None)
    random: bool = False
    aligned: bool = msgspec.field(name="random aligned", default=True)
    lasted_ms: float = msgspec.field(name="time ms [last]", default=0.0)
    iops: float = msgspec.field(name="IOPS [last]", default=0.0)
    moved_mib: float = msgspec.field(name="MiB [last]", default=0.0)
    least_us: float | None = msgspec.field(name="IO lat us [min]", default=None)
    mean_us: float | None = msgspec.field(name="IO lat us [avg]", default=None)
    longest_us: float | None = msgspec.field(name="IO lat us [max]", default=None)
    read_iops: float = msgspec.field(name="rwmix read IOPS [last]", default=0.0)
    read_mib: float = msgspec.field(name="rwmix read MiB [last]", default=0.0)
    read_least_us: float | None = msgspec.field(name="rwmix read IO lat us [min]", default=None)
    read_mean_us: float | None = msgspec.field(name="rwmix read IO lat us [avg]", default=None)
    read_longest_us: float | None = msgspec.field(name="rwmix read IO lat us [max]", default=None)

    @property
    def phase(self) -> _Phase:
        reads = _Times(self.read_least_us, self.read_mean_us, self.read_longest_us)
        times = _Times(self.least_us, self.mean_us, self.longest_us, reads)
        read = _Done(self.lasted_ms, self.read_iops, self.read_mib * MIB)
        config = _Config(
            version=self.version,
            path_type=self.path_type,
            paths=self.paths,
            hosts=self.hosts,
            threads=self.threads,
            io_depth=self.depth,
            file_size=self.file_bytes,
            block_size=self.block_bytes,
            direct_io=self.direct,
            random_offsets=self.random,
            random_aligned=self.aligned,
        )
        return _Phase(
            phase_type=self.operation,
            iso_start_date=self.began,
            label=self.label,
            config=config,
            last_done=_Done(self.lasted_ms, self.iops, self.moved_mib * MIB, _Latency(times), read),
        )


def read_elbencho(name: str, text: str) -> ToolResult:
    """Raises BadInputError where it is no result of elbencho, or only a part of one."""
    try:
        phases = list(_of_json(text) if text.lstrip()[:1] == "{" else _of_csv(text))
        taken = [phase for phase in phases if phase.is_taken]
        left = dict.fromkeys(phase.phase_type for phase in phases if not phase.is_taken)
        if not taken:
            raise BadInputError(
                f"elbencho's result has no phase that reads or writes, only {', '.join(left) or 'none'}"
            )
        printed = [_printed(phase, number) for number, phase in enumerate(taken, 1)]
        began = datetime.fromisoformat(taken[0].iso_start_date).replace(tzinfo=UTC).timestamp()  # a wall clock
        configs = [phase.config or _Config(version=phase.version) for phase in taken]
        direct = {config.direct_io for config in configs}
        io = {True: "direct", False: "buffered", None: ""}[direct.pop()] if len(direct) == 1 else ""
        notes = [LAST]
        if any(phase.config is None for phase in taken):
            notes.append(NO_CONFIG)
        if any(config.is_unaligned for config in configs):
            notes.append(UNALIGNED)
        if left:
            notes.append(f"Left out are the phases {', '.join(left)}.")
        versions = {config.version for config in configs}
        version = versions.pop() if len(versions) == 1 else ""
        profile = profile_of(TOOL, name, io, printed)
    except (ValueError, OverflowError, csv.Error) as error:
        raise garbled(TOOL, error) from error
    return ToolResult(TOOL, version, round(began) * 10**9, [], io, printed, profile, tuple(notes))


def _of_csv(text: str) -> Iterator[_Phase]:
    """A file that several runs have appended to may hold the line of names again."""
    names: list[str] = []
    for row in csv.reader(text.splitlines()):
        if row and row[0].lower() == "iso date":
            names = row
            if "RuntimeMS" in names:
                raise BadInputError("these are elbencho's live statistics (--livecsv); import the file of --csvfile")
        elif row:
            if len(row) < len(names):
                raise BadInputError(f"a line of elbencho's CSV has {len(row)} of {len(names)} columns; it was cut off")
            yield _row({name: cell for name, cell in zip(names, row, strict=False) if cell}).phase


def _row(cells: Mapping[str, str]) -> _Row:
    return msgspec.convert(cells, _Row, strict=False)


def _of_json(text: str) -> Iterator[_Phase]:
    """elbencho appends a document for each phase."""
    decoder, at = json.JSONDecoder(), 0
    while rest := text[at:].lstrip():
        try:
            found, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError) as error:
            raise BadInputError("elbencho's JSON is cut off or damaged; copy the file again") from error
        at = len(text) - len(rest) + end
        yield msgspec.convert(found, _Phase, strict=False)


def _printed(phase: _Phase, number: int) -> Printed:
    done = phase.last_done
    beside = done.rwmix_read if phase.phase_type not in READS else None
    main = Counted.READ if phase.phase_type == "READ" else Counted.WRITE
    told = [_moved(main, done, done.latency.requests, phase.config)]
    if beside is not None:
        told.append(_moved(Counted.READ, beside, done.latency.requests.rwmix_read, phase.config))
    moved = [one for one in told if one.requests]
    if not moved:
        raise BadInputError(f"phase {number} ({phase.phase_type}) of elbencho's result moved nothing")
    iops = done.iops + (beside.iops if beside else 0.0)
    seconds = span_s(sum(one.requests for one in moved), iops, done.elapsed_time_ms / 1000)
    if not seconds:
        raise BadInputError(f"phase {number} ({phase.phase_type}) of elbencho's result has neither a rate nor a time")
    what = " and ".join(one.operation for one in reversed(moved))
    return Printed(f"{number}: {_name(phase, what)}", seconds, _asked(phase, moved), moved)


def _name(phase: _Phase, what: str) -> str:
    said = what
    if (config := phase.config) is not None:
        order = "random" if config.random_offsets else "sequential"
        said = f"{order} {what} {format_size(config.block_size)}"
    label = phase.label.strip()
    return f"{said}, {label}" if label else said


def _asked(phase: _Phase, moved: list[Moved]) -> PrintedLoad:
    if (config := phase.config) is None:
        return PrintedLoad(reads=phase.reads)
    workers, hosts = max(1, config.threads), max(1, config.hosts)
    is_one = hosts == 1 and config.paths == 1 and config.path_type in ONE_PLACE and config.file_size > 0
    moved_bytes = sum(one.bytes for one in moved)
    apart = Address("sequential", apart=True)
    return PrintedLoad(
        config.block_size,
        phase.reads,
        RANDOM if config.random_offsets else apart if workers > 1 else SEQUENTIAL,
        workers * hosts,
        max(1, config.io_depth),
        Ends(bytes=moved_bytes, region_bytes=config.file_size) if is_one and not config.is_unaligned else None,
    )


def _moved(operation: Counted, done: _Done, times: _Times | None, config: _Config | None) -> Moved:
    moved_bytes = count_of(done.bytes)
    if config is None:
        requests = done.iops * done.elapsed_time_ms / 1000
    else:
        requests = moved_bytes / config.block_size if config.block_size > 0 else 0
    return Moved(operation, count_of(round(max(1, requests))) if requests else 0, moved_bytes, times=_times(times))


def _times(found: _Times | None) -> PrintedTimes | None:
    if found is None or found.avg_us is None or found.max_us is None:
        return None
    least_ns = None if found.min_us is None else count_of(found.min_us * 1000)
    return PrintedTimes(found.avg_us * 1000, count_of(found.max_us * 1000), least_ns)


ready(_Row, _Phase)

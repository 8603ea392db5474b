"""Duty: the documents of `crates/trace` as types. Refusal: no figure is computed here."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from brickyard import _core
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.ready import ready
from brickyard.units import format_percent, format_seconds

MAGIC = b"BYTRACE"
YEAR_NS = 365.25 * 86_400e9
YEARS_DOUBTED = 10
GAP_DOUBTED_NS = 3_600_000_000_000
"""A shorter gap is a pause of the load."""
MOST_READ_AGAIN = 5_000_000
"""Requests; these take a second or two, and memory if they are out of order."""

Doubles = NDArray[np.float64]
Buckets = list[tuple[int, int]]
"""The upper end of a bucket, and how many are in it."""


class TraceDevice(msgspec.Struct, frozen=True):
    name: str
    capacity_bytes: int
    sector_bytes: int


class Header(msgspec.Struct, frozen=True):
    devices: list[TraceDevice]
    clock: str
    start_unix_ns: int
    source: str
    before_queue: bool
    """Arrivals are those before the queue; otherwise they are the instants of issue."""


class Summary(msgspec.Struct, frozen=True):
    requests: int
    reads: int
    writes: int
    flushes: int
    discards: int
    read_bytes: int
    write_bytes: int
    discard_bytes: int
    completed: int
    failed: int
    first_ns: int
    last_ns: int
    last_arrival_ns: int
    request_bytes_max: int
    discard_bytes_max: int
    align_bytes: int
    end_bytes: int
    disorder_ns: int
    lost: int
    bad: int

    @property
    def duration_ns(self) -> int:
        """From the first arrival to the last."""
        return self.last_arrival_ns - self.first_ns


class Contents(msgspec.Struct, frozen=True):
    header: Header
    summary: Summary
    devices: list[TraceDevice]
    counted: list[int]
    """Numbers of the devices whose requests count."""
    torn: str | None = None

    def name_of(self, device: int) -> str:
        """A trace that was cut off has lost the names, which stand at its end."""
        return self.devices[device].name if device < len(self.devices) else f"device {device}"


class OperationFigures(msgspec.Struct, frozen=True):
    requests: int
    bytes: int
    sizes: Buckets
    aligned: list[int]
    whole: list[int]
    sequential: int
    from_bytes: int
    to_bytes: int
    reused: float
    fua: int
    sync: int
    read_ahead: int
    meta: int
    failed: int
    service: Buckets
    response: Buckets


class Burst(msgspec.Struct, frozen=True):
    window_ns: int
    dispersion: float
    most: int


class Locality(msgspec.Struct, frozen=True):
    requests: int
    blocks: int
    reused: float
    distances: list[tuple[int, float]]
    hottest: tuple[float, float, float]
    sampled: float


class TraceFigures(msgspec.Struct, frozen=True):
    read: OperationFigures
    write: OperationFigures
    flush: OperationFigures
    discard: OperationFigures
    gaps: Buckets
    gap_mean_ns: float
    gap_variation: float
    bursts: list[Burst]
    depths: Buckets
    depth_mean: float
    depth_max: int
    seeks: Buckets
    from_bytes: int
    to_bytes: int
    locality: Locality

    @property
    def operations(self) -> dict[str, OperationFigures]:
        return {"read": self.read, "write": self.write, "flush": self.flush, "discard": self.discard}


class _Document(msgspec.Struct, frozen=True):
    contents: Contents
    figures: TraceFigures


@dataclass(frozen=True)
class Samples:
    """Values of single requests, in ascending order."""

    sizes: Doubles
    gaps: Doubles
    depths: Doubles
    reuses: Doubles
    latencies: Doubles


@dataclass(frozen=True)
class Examined:
    contents: Contents
    figures: TraceFigures
    samples: Samples


class BadRecord(msgspec.Struct, frozen=True):
    number: int
    text: str
    why: str


class ImportedTrace(msgspec.Struct, frozen=True):
    format: str
    summary: Summary
    bad: list[BadRecord]
    left_out: int
    notes: list[str]


def is_trace(path: str) -> bool:
    """Whether a file begins as a trace of ours does."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _check(path: str) -> None:
    """A pipe would be waited for, and a trace is read twice."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # whoever opens it says why
    if not stat.S_ISREG(mode):
        raise BadInputError(f"{path}: is no file; name a trace, such as load.byt")


def contents(path: str, device: int | None = None) -> Contents:
    _check(path)
    try:
        return msgspec.json.decode(_core.trace_contents(path, device), type=Contents)
    except ValueError as error:
        raise BadInputError(one_line(error)) from error
    except OSError as error:
        raise BrickyardError(one_line(error)) from error


def examine(path: str, device: int | None = None) -> Examined:
    """Figures and samples; the file is read twice."""
    _check(path)
    if device is not None and device < 0:
        raise BadInputError(f"--trace-device {device}: devices are counted from 0")
    try:
        text, raw = _core.trace_figures(path, device)
    except ValueError as error:
        raise BadInputError(one_line(error)) from error
    except OSError as error:
        raise BrickyardError(one_line(error)) from error
    found = msgspec.json.decode(text, type=_Document)
    known = len(found.contents.devices)
    if device is not None and device >= known and not found.contents.torn:
        has = "one device, number 0" if known == 1 else f"{known} devices, numbers 0 to {known - 1}"
        raise BadInputError(f"--trace-device {device}: {path} has {has}")
    arrays = [np.sort(np.frombuffer(item, dtype=np.float64)) for item in raw]
    return Examined(found.contents, found.figures, Samples(*arrays))


def import_trace(
    inputs: list[str], out: str, form: str | None = None, device: str | None = None, source: str = ""
) -> ImportedTrace:
    """Writes the trace into the file of that path, which is there and empty."""
    try:
        text = _core.trace_import(inputs, out, form, device, source)
    except ValueError as error:
        raise BadInputError(one_line(error)) from error
    except OSError as error:
        raise BrickyardError(one_line(error)) from error
    found = msgspec.json.decode(text, type=ImportedTrace)
    return msgspec.structs.replace(found, notes=[*found.notes, *_doubts(found.summary, out)])


def _doubts(summary: Summary, path: str) -> list[str]:
    """Times that are hardly right. A large trace is not read again for that."""
    lasts_ns = summary.duration_ns
    if lasts_ns < GAP_DOUBTED_NS:
        return []
    if summary.requests > MOST_READ_AGAIN:
        years = lasts_ns / YEAR_NS
        return [f"the requests span {years:.0f} years; check their times"] if years >= YEARS_DOUBTED else []
    # The last bucket of gaps has no end; all gaps together are as long as the trace.
    gaps = examine(path).figures.gaps
    longest_ns = lasts_ns - sum(end_ns * count for end_ns, count in gaps[:-1])
    if not gaps or gaps[-1][1] > 1 or longest_ns < max(GAP_DOUBTED_NS, lasts_ns / 2):
        return []
    share, lasts = format_percent(longest_ns / lasts_ns), format_seconds(longest_ns / 1e9)
    return [f"one gap between two requests lasts {lasts}, {share} of the trace; check the times on both sides of it"]


ready(_Document, ImportedTrace, Contents)

"""Duty: how many passes of a profile's stream are what a fio job does in one loop, and what to say where it depends.

A pass of random requests aligned to more than their size has as many requests as aligned places; fio moves all of
`size`. A pass of strided requests touches every block; fio goes through its file once, and again only where the last
step leads to the very end of the file.

Refusal: how often a job loops, and what else ends it, is for `fio_limits`.
"""

from __future__ import annotations

import math

from brickyard.formats.fio_options import FioOptions
from brickyard.formats.fio_units import fio_bytes, fio_flag, fio_int

ROUNDS = "Where the region ends, the next round begins one block further; fio's begins at the same block."


def loops_of(asked: FioOptions) -> int:
    return fio_int("loops", asked.loops, low=1, high=1 << 31)


def random_passes(asked: FioOptions, one_bytes: int | None, mean_bytes: float, align: int | None) -> float:
    """`one_bytes` is the size of all requests, if they have one."""
    if align is None or align <= mean_bytes:
        return 1
    region_bytes = size_bytes(asked)
    if one_bytes is None or region_bytes is None or region_bytes < one_bytes:
        return align / mean_bytes
    return _part(region_bytes // one_bytes, (region_bytes - one_bytes) // align + 1)


def strided_passes(
    asked: FioOptions, request_bytes: int, stride_bytes: int, direction: float, notes: list[str]
) -> float:
    """`direction` is the share of requests that go in the direction that is first at the end of the file."""
    file_bytes, loops = size_bytes(asked), loops_of(asked)
    is_whole = not _has_offset(asked) and asked.size in (None, "100%")
    if ends_by_itself(asked) or (file_bytes is None and is_whole):
        notes.append(ROUNDS)
        return 1
    notes += [ROUNDS] if loops > 1 else []
    if file_bytes is None:
        return request_bytes / stride_bytes / direction
    blocks = max(1, file_bytes // request_bytes)
    steps = max(0, file_bytes - request_bytes) // stride_bytes + 1
    requests = round(steps / direction)
    moved = min(blocks, (_in_bytes(asked.size) or file_bytes) // request_bytes)
    if moved <= requests:
        return 1
    once = _part(requests, blocks)
    last_end = (steps - 1) * stride_bytes + request_bytes
    if _has_offset(asked) or not last_end < file_bytes <= steps * stride_bytes:
        return once
    is_device = asked.filename.startswith("/dev/")
    notes += [] if is_device or ROUNDS in notes else [ROUNDS]
    rounds = "one round" if loops == 1 else f"{loops} rounds"
    all_of_it = f"on a file as large as its size, fio moves all of it in several rounds ({moved * loops:,} requests)"
    round_each = f"on a larger file or a device, fio ends after {rounds} ({requests * loops:,} requests)"
    here, other, passes = (round_each, all_of_it, 1.0) if is_device else (all_of_it, round_each, once)
    notes.append(f"rw={asked.rw}: {here}, as here; {other}: run with --set passes={passes * loops:.9g} for that.")
    return once if is_device else 1


def ends_by_itself(asked: FioOptions) -> bool:
    """Whether an amount or time that is given ends a job, and not its file."""
    return asked.io_size is not None or (asked.runtime != "0" and fio_flag("time_based", asked.time_based))


def size_bytes(asked: FioOptions) -> int | None:
    """Of the file of a job; None where its target alone tells."""
    return _in_bytes(asked.filesize or asked.size)


def _in_bytes(text: str | None) -> int | None:
    return None if text is None or text.endswith("%") or "-" in text else fio_bytes("size", text)


def _has_offset(asked: FioOptions) -> bool:
    return any(text.rstrip("%").strip("0") for text in (asked.offset, asked.offset_increment))


def _part(requests: int, of_pass: int) -> float:
    """The number of passes that has exactly so many requests; the engine drops what is less than a request."""
    part = requests / of_pass
    return part if int(part * of_pass) >= requests else math.nextafter(part, math.inf)

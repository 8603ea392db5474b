"""Duty: whether blocks of a device hold anything, by reading a few of them.

Refusal: zeros may have been written; what is blank is not called never written.
"""

from __future__ import annotations

import mmap
import os
import time
from contextlib import suppress
from pathlib import Path

SAMPLE_BYTES = 4096
SAMPLES = 64
START_BYTES = 1 << 20  # before that, a device of ours has its header and nothing else
LOOK_AT_BLOCKS_S = 2.0  # a slow device is looked at in fewer places
KEPT_S = 5.0  # a device is described several times for one run
_kept: dict[tuple[str, str], tuple[float, tuple[int, int] | None]] = {}


def blank_blocks(path: str, size_bytes: int) -> tuple[int, int] | None:
    """How many of the blocks hold only zeros, and how many were looked at, spread evenly; None where they cannot be
    read past the page cache."""
    which = path, _attached(path)
    at, found = _kept.get(which, (-KEPT_S, None))
    if time.monotonic() - at >= KEPT_S:
        found = _look(path, size_bytes)
        _kept[which] = time.monotonic(), found
    return found


def _attached(path: str) -> str:
    """A number that the kernel gives each disk anew (Linux 5.15), as loop devices change what they stand for."""
    with suppress(OSError):
        number = os.stat(path).st_rdev
        return Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/diskseq").read_text()
    return ""


def _look(path: str, size_bytes: int) -> tuple[int, int] | None:
    length = size_bytes - START_BYTES
    if length < SAMPLES * SAMPLE_BYTES:
        return None
    middles = [(2 * number + 1) * length // (2 * SAMPLES) for number in _spread(SAMPLES)]
    places = [START_BYTES + middle // SAMPLE_BYTES * SAMPLE_BYTES for middle in middles]
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _looked_at(handle, places)
    except OSError:
        return None
    finally:
        os.close(handle)


def _looked_at(handle: int, places: list[int]) -> tuple[int, int]:
    blank, looked, until = 0, 0, time.monotonic() + LOOK_AT_BLOCKS_S
    with mmap.mmap(-1, SAMPLE_BYTES) as page:
        for place in places:
            if os.preadv(handle, [page], place) < SAMPLE_BYTES:
                continue
            looked += 1
            blank += not any(page[:])
            if time.monotonic() > until:
                break
    return blank, looked


def _spread(count: int) -> list[int]:
    """Each number below a power of two, in an order whose first ones are spread over all."""
    bits = count.bit_length() - 1
    return [int(f"{number:0{bits}b}"[::-1], 2) for number in range(count)]

"""Duty: whether blocks of a device hold anything, by reading a few of them; into the sheet of a target.

Refusal: zeros may have been written; what is blank is not called never written.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from brickyard.schema.sheets import not_known
from brickyard.schema.target_sheet import TargetSheet

SAMPLE_BYTES = 4096
SAMPLES = 64
START_BYTES = 1 << 20  # before that, a device of ours has its header and nothing else
LOOK_AT_BLOCKS_S = 2.0  # a slow device is looked at in fewer places

Places = Sequence[tuple[int, int]]
"""Start and end on a device, in bytes, apart from each other."""


@dataclass(frozen=True)
class Looked:
    """`blank` of `blocks` blocks hold only zeros; they stand for so many bytes of the device."""

    blocks: int
    blank: int
    of_bytes: int


def whole(size_bytes: int) -> Places:
    return [(START_BYTES, size_bytes)] if size_bytes > START_BYTES else []


def look(path: str, places: Places) -> Looked | None:
    """Blocks that are spread evenly over these places of a device; None where they cannot be read past the page
    cache."""
    of_bytes = sum(end - start for start, end in places)
    bits = min(SAMPLES, of_bytes // SAMPLE_BYTES).bit_length() - 1
    if bits < 0:
        return None
    middles = [(2 * number + 1) * of_bytes // (2 << bits) for number in _spread(bits)]
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _looked_at(handle, [_within(places, middle) for middle in middles], of_bytes)
    except OSError:
        return None
    finally:
        os.close(handle)


def _within(places: Places, at_bytes: int) -> int:
    """The block at so many bytes of all places, one after the other."""
    for start, end in places:
        if at_bytes < end - start:
            return (start + at_bytes) // SAMPLE_BYTES * SAMPLE_BYTES
        at_bytes -= end - start
    return places[-1][1] // SAMPLE_BYTES * SAMPLE_BYTES


def _looked_at(handle: int, offsets_bytes: list[int], of_bytes: int) -> Looked | None:
    blank, looked, until = 0, 0, time.monotonic() + LOOK_AT_BLOCKS_S
    with mmap.mmap(-1, SAMPLE_BYTES) as page:
        for offset_bytes in offsets_bytes:
            if os.preadv(handle, [page], offset_bytes) < SAMPLE_BYTES:
                continue
            looked += 1
            blank += not any(page[:])
            if time.monotonic() > until:
                break
    return Looked(looked, blank, of_bytes) if looked else None


def _spread(bits: int) -> list[int]:
    """Each number of so many bits, in an order whose first ones are spread over all."""
    return [int(f"{number:0{bits}b}"[::-1], 2) for number in range(1 << bits)]


def keep(sheet: TargetSheet, found: Looked | None) -> TargetSheet:
    if found is None:
        untold = dict.fromkeys(("looked_at_blocks", "blank_blocks"), not_known("its blocks cannot be read directly"))
        return replace(sheet, unknown={**sheet.unknown, **untold})
    return replace(sheet, looked_at_blocks=found.blocks, looked_at_bytes=found.of_bytes, blank_blocks=found.blank)

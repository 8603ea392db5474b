"""Duty: the errors that a person sees, each one line with cause and remedy, and the exit code that goes with it.

Refusal: no wrapping of programming mistakes; those stay what they are, and the command line says how to see them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from brickyard.printable import printable

DONE = 0
FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
UNREAD = 141  # 128 + SIGPIPE: who read the output has gone, so that it says nothing of the run or a verdict


class BrickyardError(Exception):
    """Something failed while it ran."""

    exit_code = FAILED


class BadInputError(BrickyardError):
    """Bad usage or bad input; nothing was written."""

    exit_code = BAD_INPUT


class NotFoundError(BadInputError):
    """What is named is not in the store."""


class ChangedMeanwhileError(BadInputError):
    """Somebody else has changed it since it was read."""


@contextmanager
def core_refusals() -> Iterator[None]:
    """What the core refuses as bad input, and what the system refused it, each in one line."""
    try:
        yield
    except ValueError as error:
        raise BadInputError(with_sizes(one_line(error))) from error
    except RuntimeError as error:
        raise BrickyardError(one_line(error)) from error


def one_line(text: object) -> str:
    """Joins the lines of a message, so that an error is always one line, and shows controls in it by signs."""
    return printable(" ".join(str(text).split()))


SECTOR_BYTES = 512
"""Of which every request is a whole number (crates/plan)."""
ODD = re.compile(r"request size (\d+) is not a multiple of 512 bytes")
UNALIGNED = re.compile(r"(\d+) bytes is not a multiple of the (\d+) that (.+) demands with O_DIRECT; .*")


def near_sizes(size_bytes: int, block_bytes: int) -> str:
    """The request sizes next to one that is not possible: `2048B or 2560B`."""
    below = size_bytes // block_bytes * block_bytes
    return " or ".join(f"{size}B" for size in (below, below + block_bytes) if size)


def sector_advice(size_bytes: int) -> str:
    """What to do instead of requests that are not whole sectors."""
    return (
        f"requests here are whole sectors of {SECTOR_BYTES} bytes, with direct and with buffered I/O; write "
        f"{near_sizes(size_bytes, SECTOR_BYTES)}, or measure {size_bytes} bytes with fio "
        "(--output-format=json+) and read its result with `brickyard import`"
    )


def with_sizes(refusal: str) -> str:
    """A refusal of the core, with the request sizes that are possible."""
    if odd := ODD.search(refusal):
        return f"{refusal}; {sector_advice(int(odd[1]))}"
    if unaligned := UNALIGNED.search(refusal):
        size, block = int(unaligned[1]), int(unaligned[2])
        said = (
            f"{size} bytes is not a multiple of the {block} bytes that {unaligned[3]} requires for direct I/O; write "
            f"{near_sizes(size, block)}, or use buffered I/O (--set io=buffered; run --direct 0 with --rw)"
        )
        return refusal[: unaligned.start()] + said
    return refusal

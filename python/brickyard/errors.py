"""Duty: the errors that a person sees, each one line with cause and remedy, and the exit code that goes with it.

Refusal: no wrapping of programming mistakes; those stay what they are, and the command line says how to see them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from brickyard.printable import printable

DONE = 0
FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it


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
        raise BadInputError(one_line(error)) from error
    except RuntimeError as error:
        raise BrickyardError(one_line(error)) from error


def one_line(text: object) -> str:
    """Joins the lines of a message, so that an error is always one line, and shows controls in it by signs."""
    return printable(" ".join(str(text).split()))

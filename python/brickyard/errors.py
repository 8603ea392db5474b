"""Duty: the errors that a person sees, each one line with cause and remedy, and the exit code that goes with it.

Refusal: no wrapping of programming mistakes; those stay what they are, and the command line says how to see them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from brickyard.printable import printable

DONE = 0
FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
UNREAD = 141  # 128 + SIGPIPE: who read the output has gone, so that it says nothing of the run or a verdict


class Edit(NamedTuple):
    """What is written in the user's command instead of `given`: consecutive words (`--size 100`, also `--size=100`), or
    a part of one word. Without `given` it is added at the end."""

    given: tuple[str, ...]
    meant: tuple[str, ...]


class WorkloadFirst(NamedTuple):
    """A workload belongs before this target."""

    target: str


class Remedy(NamedTuple):
    """What to do about an error: the sentence, and what it changes in the command, where that is known."""

    words: str
    edit: Edit | WorkloadFirst | None = None


def meant(given: str, name: str) -> Remedy:
    """A name instead of one that was perhaps misspelt."""
    return Remedy(f"did you mean {name}?", Edit((given,), (name,)))


def near(given: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """The known name that is nearest, of those that are alike."""
    import difflib

    return next(iter(difflib.get_close_matches(given, known, n=1, cutoff=alike)), None)


def nearest(given: str, known: Iterable[str], otherwise: str = "") -> Remedy:
    """The known name that is nearest, or other words: by default those that list the names."""
    names = list(known)
    if name := near(given, names):
        return meant(given, name)
    return Remedy(otherwise or (f"there are {', '.join(names)}" if names else ""))


class BrickyardError(Exception):
    """Something failed while it ran."""

    exit_code = FAILED

    def __init__(self, said: object = "", remedy: Remedy | None = None) -> None:
        words = "" if remedy is None else remedy.words
        super().__init__(f"{said}{'. ' if words[0].isupper() else '; '}{words}" if words else said)
        self.edit = None if remedy is None else remedy.edit


class CutShortError(BrickyardError):
    """The user ended it; says where that is which was measured."""

    exit_code = INTERRUPTED


class BadInputError(BrickyardError):
    """Bad usage or bad input; nothing was written."""

    exit_code = BAD_INPUT


class NoRequirementError(BadInputError):
    """A verdict was asked for, and no requirement is known to judge by."""


class NotFoundError(BadInputError):
    """What is named is not in the store."""


class ChangedMeanwhileError(BadInputError):
    """Somebody else has changed it since it was read."""


def edit_of(error: BaseException) -> Edit | WorkloadFirst | None:
    """Of an error, or of the one that it was raised for, which may be the core's."""
    found: Edit | WorkloadFirst | tuple[tuple[str, ...], tuple[str, ...]] | None = getattr(error, "edit", None)
    if found is None:
        return None if error.__cause__ is None else edit_of(error.__cause__)
    return found if isinstance(found, WorkloadFirst) else Edit(*found)


@contextmanager
def core_refusals() -> Iterator[None]:
    """What the core refuses as bad input, and what the system refused it, each in one line."""
    try:
        yield
    except ValueError as error:
        said = one_line(error)
        raise BadInputError(f"{said}{_region_words(said)}") from error
    except RuntimeError as error:
        raise BrickyardError(one_line(error)) from error


def _region_words(said: str) -> str:
    """Why a region that is as large as its device does not fit, and what to write."""
    found = re.search(r"region (\S+)\.\.\S+ ends behind the target's", said)
    return "" if found is None else HEADER_WORDS.format(start=found[1])


HEADER_WORDS = (
    "; the first MiB of a device, and of a file made by Brickyard, is its header. End the region at 100 % "
    '(region = "{start}..100%", in a fio job size=100%), or use a larger target'
)


def one_line(text: object) -> str:
    """Joins the lines of a message, so that an error is always one line, and shows controls in it by signs."""
    return printable(" ".join(str(text).split()))

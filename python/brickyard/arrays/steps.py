"""Duty: what a journal notes of a change to an array, to a drive or to a setting before it is made, as types.

They are stored one JSON line each, with their kind under `do`. Refusal: nothing is done or undone here.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from brickyard.ready import ready


class UndoStep(msgspec.Struct, kw_only=True, tag_field="do"):
    """A change that must be undone."""

    @property
    def words(self) -> str:
        """What was done; empty where nobody needs to know."""
        return ""

    @property
    def array_identity(self) -> str | None:
        """Of the array that is changed."""
        return None


class _ArrayStep(UndoStep, kw_only=True):
    array: str
    """Its name."""
    identity: str
    """What stays the same when names change."""

    @property
    def array_identity(self) -> str:
        return self.identity


class MemberStep(_ArrayStep, kw_only=True, tag="member"):
    """A member is taken out."""

    member: str

    @property
    def words(self) -> str:
        return f"{self.member} was taken out"


class ScrubStep(_ArrayStep, kw_only=True, tag="scrub"):
    """A scrub is begun."""

    @property
    def words(self) -> str:
        return "a scrub was begun"


class OlderScrubStep(ScrubStep, kw_only=True, tag="check"):
    """The same, as it was called before."""


class FileStep(UndoStep, kw_only=True, tag="file"):
    """A file below /sys or /proc is written."""

    path: str
    value: str
    """What it held before."""

    @property
    def words(self) -> str:
        return f"{os.path.basename(self.path)} was set (before: {self.value})"


class WriteCacheStep(UndoStep, kw_only=True, tag="write_cache"):
    """The write cache of a drive is switched."""

    drive: str
    value: str
    """What it was before."""

    @property
    def words(self) -> str:
        return f"the write cache of {self.drive} was switched (before: {self.value})"


class MountStep(UndoStep, kw_only=True, tag="mount"):
    """A file system is unmounted and mounted again: it may be left nowhere."""

    source: str
    place: str
    options: str
    type: str

    @property
    def words(self) -> str:
        return f"{self.place} was mounted without a member"


class UnknownStep(UndoStep, kw_only=True, tag="unknown"):
    """One of a newer version, which alone can undo it."""

    kind: str = ""
    identity: str | None = None

    @property
    def array_identity(self) -> str | None:
        return self.identity


Known = MemberStep | ScrubStep | OlderScrubStep | FileStep | WriteCacheStep | MountStep


def step_of(line: dict[str, object]) -> UndoStep:
    """A line of a journal. One that is no step that is known here keeps the array that it is about."""
    try:
        known: UndoStep = msgspec.convert(line, Known)
    except msgspec.ValidationError:
        told = msgspec.convert(line, _Any)
        return UnknownStep(kind=str(told.do), identity=str(told.identity) if told.identity else None)
    return known


class _Any(msgspec.Struct):
    do: Any = None
    identity: Any = None


ready(Known, _Any)

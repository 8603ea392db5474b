"""Duty: what an alarm, an event or a count is about, and the text that stores, mails and programs have of it.

Refusal: nothing is judged here; what is told of a thing is for `health` and `watching`.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from enum import StrEnum
from typing import Any


class AlarmKind(StrEnum):
    ARRAY = "array"
    """Its health; with a work as part, that work."""
    MEMBER = "member"
    SLOW = "slow"
    """A member beside its peers."""
    ERRORS = "errors"
    """Of a member."""
    DRIVE = "drive"
    FILE_SYSTEM = "file system"
    STORE = "store"
    LOOK = "look"
    """What could not be looked at."""
    TEST = "test"


OF_ARRAYS = (AlarmKind.ARRAY, AlarmKind.MEMBER, AlarmKind.SLOW, AlarmKind.ERRORS)
"""Those whose name is that of an array, and whose part is a member or a work."""
WORK = {
    "rebuilding": "rebuild",
    "scrubbing": "scrub",
    "initializing": "initial resync",
    "reshaping": "reshape",
}
"""What an array does to itself, by its state."""


class AlarmKey:
    """The kind, name and part of a thing; equal where these are. In JSON it is its text."""

    __slots__ = ("kind", "name", "part")

    def __init__(self, kind: AlarmKind, name: str, part: str = "") -> None:
        self.kind, self.name, self.part = kind, name, part

    @staticmethod
    def read(text: str) -> AlarmKey:
        """A key by its text. Raises ValueError."""
        kind = next((kind for kind in AlarmKind if text.startswith(f"{kind} ")), None)
        if kind is None:
            raise ValueError(f"`{text}` names no kind of alarm")
        rest = text.removeprefix(f"{kind} ")
        with suppress(ValueError):  # a quote that stands alone in a name of earlier versions
            words = shlex.split(rest)
            is_part = {AlarmKind.ARRAY: words[-1] in WORK.values(), AlarmKind.LOOK: False}.get(kind, True)
            if len(words) == 1 or (len(words) == 2 and is_part):
                return AlarmKey(kind, *words)
        return AlarmKey(kind, *_unquoted(kind, rest))

    def __str__(self) -> str:
        return " ".join([self.kind, *(shlex.quote(word) for word in (self.name, self.part) if word)])

    def __repr__(self) -> str:
        return f"AlarmKey({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AlarmKey) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def _unquoted(kind: AlarmKind, rest: str) -> tuple[str, str]:
    """Of earlier versions, which put names with spaces as they are."""
    if kind is AlarmKind.ARRAY:
        part = next((work for work in WORK.values() if rest.endswith(f" {work}")), "")
        return (rest.removesuffix(f" {part}"), part) if part else (rest, "")
    name, _, part = rest.rpartition(" ")
    return (rest, "") if kind is AlarmKind.LOOK else (name, part)


def read_key(kind: type, value: object) -> Any:
    """What msgspec needs to read them."""
    if kind is AlarmKey and isinstance(value, str):
        return AlarmKey.read(value)
    raise NotImplementedError(kind)

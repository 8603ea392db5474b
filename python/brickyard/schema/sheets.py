"""What every sheet of facts has: fields that may be missing, beside the reasons why.

A field that is None and has a reason is null where it is stored. One that is None without a reason is left out: it does
not belong to what the sheet is about, or the store is from before the field was read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

import msgspec

T = TypeVar("T")
KERNEL = "the kernel does not tell"


def not_known(reason: str) -> str:
    return reason if reason.startswith("not known") else f"not known: {reason}"


class FactSheet(msgspec.Struct, kw_only=True):
    """`unknown` says of each field that could not be had why."""

    unknown: dict[str, str] = msgspec.field(default_factory=dict)

    def plain_nulls(self) -> tuple[str, ...]:
        """Fields that are stored also where they are None without a reason, since None has a meaning there."""
        return ()

    def explained(self, reason: str = KERNEL, /, **others: str) -> Self:
        """Every field that is None gets a reason: its own, or the one of all others."""
        for name in self.__struct_fields__:
            if getattr(self, name) is None and name not in self.plain_nulls():
                self.unknown.setdefault(name, not_known(others.get(name, reason)))
        return self

    def why(self, field: str, otherwise: str) -> str:
        """Why a field is not known, in words that follow "not known"."""
        return self.unknown.get(field, otherwise).removeprefix("not known: ")


class Reasons:
    """Reasons for what cannot be had, noted while the fields of a sheet are read."""

    def __init__(self) -> None:
        self.unknown: dict[str, str] = {}

    def of(self, field: str, value: T | None, reason: str = KERNEL) -> T | None:
        """The value; None gets the reason."""
        if value is None:
            self.unknown[field] = not_known(reason)
        return value

    def ask(self, field: str, question: Callable[[], T | None], reason: str = KERNEL) -> T | None:
        """The answer to a question; one that fails is a fact that is not known: a fact must never end a run."""
        try:
            return self.of(field, question(), reason)
        except Exception as error:
            return self.of(field, None, f"{reason} ({type(error).__name__}: {error})")


def stored(value: object) -> Any:
    """A sheet, or anything that holds some, as it stands in a store."""
    if isinstance(value, FactSheet):
        kept = {*value.unknown, *value.plain_nulls()}
        told = {name: getattr(value, name) for name in value.__struct_fields__ if name != "unknown"}
        found = {name: stored(item) for name, item in told.items() if item is not None or name in kept}
        return {**found, "unknown": dict(value.unknown)}
    if isinstance(value, msgspec.Struct):
        known = msgspec.to_builtins(value)
        return {name: stored(getattr(value, name)) for name in known}
    if isinstance(value, dict):
        return {key: stored(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [stored(item) for item in value]
    return value

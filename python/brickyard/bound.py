"""Duty: why what generates a load was its limit, as an end of a phase says it. Refusal: it judges nothing."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class BoundReason(StrEnum):
    """The values of `generator_bound_reason`; an end of a phase that was not bound has an empty one."""

    CPU = "cpu"
    """A core was used up, the kernel's work included."""
    OWN = "own"
    """The generator's own work: its loop, or reading a log."""

    @staticmethod
    def of(end: Mapping[str, Any]) -> BoundReason | None:
        """Of an end of a phase; None where it was not bound, or a later version gave a reason not known here."""
        text = end.get("generator_bound_reason")
        return BoundReason(text) if end.get("generator_bound") and text in list(BoundReason) else None

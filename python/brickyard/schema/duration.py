"""A time span of a plan: in JSON a text such as `1500ns`, here a number of ns."""

from __future__ import annotations

from typing import Any

from brickyard import _core


class Duration:
    """A time span that does not change."""

    __slots__ = ("ns",)

    def __init__(self, ns: int) -> None:
        self.ns = ns

    @staticmethod
    def read(text: str) -> Duration:
        """Any spelling that a profile may have. Raises ValueError."""
        return Duration(
            int(text[:-2]) if text.endswith("ns") and text[:-2].isdigit() else _core.parse_duration_ns(text)
        )

    @property
    def seconds(self) -> float:
        return self.ns / 1e9

    def __bool__(self) -> bool:
        return self.ns > 0

    def __str__(self) -> str:
        return f"{self.ns}ns"

    def __repr__(self) -> str:
        return f"Duration({self.ns})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.ns == other.ns

    def __hash__(self) -> int:
        return hash(self.ns)


def duration_text(time_us: int) -> str:
    """As a profile has it, and whole in its unit: `30s`, `1500ms`, `7us`."""
    for unit_us, unit in ((1_000_000, "s"), (1_000, "ms")):
        if time_us % unit_us == 0:
            return f"{time_us // unit_us}{unit}"
    return f"{time_us}us"


def read_duration(kind: type, value: Any) -> Duration:
    """For decoders of what has time spans in it."""
    if kind is not Duration:
        raise NotImplementedError(f"no reading of {kind}")
    return Duration.read(str(value))

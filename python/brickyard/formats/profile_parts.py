"""Duty: parts of a profile as importers make them, in a profile's own words; `toml_text` writes them.

What is None is not written, so that a profile's default holds. Refusal: nothing is validated; the core does that with
every profile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Inline = Mapping[str, str | float]
"""A table in one line."""


@dataclass(frozen=True)
class Shares:
    """Per cent of requests by operation; reads are always written."""

    read: float = 0
    write: float = 0
    trim: float = 0

    @property
    def by_name(self) -> dict[str, float]:
        """Those in use."""
        named = {"read": self.read, "write": self.write, "trim": self.trim}
        return {name: share for name, share in named.items() if share}

    @property
    def used(self) -> list[str]:
        return list(self.by_name)


@dataclass(frozen=True)
class ProfileSize:
    """A size of requests and how many of them have it, of all operations or of one."""

    size: str
    share: float
    of: str | None = None


@dataclass(frozen=True)
class ProfileZone:
    requests: float
    region: str


@dataclass(frozen=True)
class Address:
    """Where requests go; written as its kind alone where nothing else is set."""

    kind: str
    random: float | None = None
    theta: float | None = None
    skew: float | None = None
    deviation: float | None = None
    stride: str | None = None
    apart: bool | None = None
    zones: Sequence[ProfileZone] | None = None

    @property
    def has_cursor(self) -> bool:
        return self.kind in ("sequential", "strided")


RANDOM, SEQUENTIAL = Address("random"), Address("sequential")


@dataclass(frozen=True)
class OpenLoop:
    loop: str = field(default="open", init=False)
    rate: float
    arrivals: str | None = None


@dataclass(frozen=True)
class ProfileFlushes:
    writes: int
    call: str


@dataclass(frozen=True, kw_only=True)
class ProfileStream:
    name: str
    target: int | None = None
    program: Inline | None = None
    operations: Shares | None = None
    request: str | Sequence[ProfileSize] | None = None
    align: str | None = None
    address: Address | None = None
    region: str | None = None
    workers: int | None = None
    depth: int | None = None
    think: str | None = None
    pace: OpenLoop | None = None
    sync: str | None = None
    flush_every: ProfileFlushes | None = None
    data: Inline | None = None
    verify: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What ends a phase, and which part of it is in no figure."""

    duration: str | None = None
    requests: int | None = None
    bytes: str | None = None
    passes: float | str | None = None
    stop: Inline | None = None
    ramp: Inline | None = None
    steady: Inline | None = None
    warmup: str | None = None


@dataclass(frozen=True)
class ProfilePhase:
    name: str | None
    limits: Limits
    streams: list[ProfileStream] = field(default_factory=list)

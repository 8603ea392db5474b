"""Duty: streams that go through the same blocks in order, each with a cursor of its own, and what caches make of them.

Refusal: whether a cache did so is not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from brickyard.schema.plan import Phase, SequentialAddress, Stream


@dataclass(frozen=True)
class Sharing:
    streams: int
    reads: bool
    writes: bool

    @property
    def do(self) -> str:
        return " or ".join(word for word, does in (("read", self.reads), ("write", self.writes)) if does)

    @property
    def caches_may(self) -> str:
        """What follows `caches may`."""
        return _caches(self, "answer", "join")

    @property
    def caches_may_have(self) -> str:
        return _caches(self, "answered", "joined")


def _caches(found: Sharing, answer: str, join: str) -> str:
    if not found.writes:
        return f"{answer} all but the first"
    joined = f"{join} their writes before they reach the medium"
    return f"{answer} the reads of all but the first, and {join} writes" if found.reads else joined


def shared(phase: Phase) -> Sharing | None:
    """Most streams of a phase that share their blocks."""
    groups: dict[tuple[int, str], list[Stream]] = defaultdict(list)
    for stream in phase.stream:
        if (
            isinstance(stream.address, SequentialAddress)
            and (stream.operations.read or stream.operations.write)
            and not (stream.address.apart or stream.chain or stream.program or stream.trace)
        ):
            groups[stream.target, stream.region].append(stream)
    together = max(groups.values(), key=len, default=[])
    return joined([_of(stream) for stream in together]) if len(together) > 1 else None


def joined(found: Iterable[Sharing]) -> Sharing:
    every = list(found)
    return Sharing(sum(one.streams for one in every), any(one.reads for one in every), any(one.writes for one in every))


def _of(stream: Stream) -> Sharing:
    return Sharing(1, bool(stream.operations.read), bool(stream.operations.write))

"""Duty: refuse a plan whose verified streams cannot share one account of what was written, before anything is written.

Refusal: no target is looked at. Whether a region in per cent is one in bytes depends on the target's size, which the
run knows.
"""

from __future__ import annotations

from typing import NamedTuple

from brickyard import _core
from brickyard.reading import parsed_bytes
from brickyard.schema.plan import Phase, Plan, StepWord, Stream

APART = "verify only one of them, or run the phases as profiles of their own"


class _Position(NamedTuple):
    """Bytes or per cent of a target. Nothing is nothing in both."""

    bytes: int | None
    percent: float | None


class _Verified(NamedTuple):
    at: str
    target: int
    hosts: frozenset[str]
    start: _Position
    end: _Position
    region: str
    block_bytes: int | None


def refuse_unlike(plan: Plan) -> None:
    """ValueError where two verified regions overlap and are not one region of one block size, as the engine demands."""
    known: list[_Verified] = []
    for number, phase in enumerate(plan.phase, start=1):
        # As the engine does: what a phase writes without stamps is forgotten before its own stamps are known.
        for stream in phase.stream:
            if not stream.verify and _changes(stream):
                gone = _verified(stream, "")
                known = [one for one in known if _differ(one, gone) or _overlap(one, gone) is False]
        for at, stream in enumerate(phase.stream, start=1):
            if stream.verify and stream.program is None and stream.trace is None:
                added = _verified(stream, _place(phase, number, stream, at))
                for one in known:
                    _demand_alike(one, added)
                known.append(added)


def _demand_alike(before: _Verified, after: _Verified) -> None:
    if _differ(before, after) or not _overlap(before, after):
        return
    if (before.start, before.end) == (after.start, after.end):
        if None not in (before.block_bytes, after.block_bytes) and before.block_bytes != after.block_bytes:
            sizes = [_core.format_bytes(one.block_bytes or 0) for one in (before, after)]
            raise ValueError(
                f"{after.at} verifies blocks of {sizes[1]} where {before.at} verifies blocks of {sizes[0]}; set the "
                f"same align in both, {APART}"
            )
    elif _comparable(before.start, after.start) and _comparable(before.end, after.end):
        raise ValueError(
            f"{after.at} verifies region {after.region}, which overlaps region {before.region}, which {before.at} "
            f"verifies; give both the same region or regions that do not overlap, {APART}"
        )


def _place(phase: Phase, number: int, stream: Stream, at: int) -> str:
    return f"phase {phase.name or number}, stream {stream.name or at}"


def _changes(stream: Stream) -> bool:
    if stream.trace is not None or stream.program is not None:
        return True
    if stream.chain:
        return StepWord.WRITE in stream.chain
    return stream.operations.write > 0 or stream.operations.trim > 0


def _verified(stream: Stream, at: str) -> _Verified:
    start, _, end = ("0B..100%" if stream.trace is not None else stream.region).partition("..")
    block_bytes = _block_bytes(stream)
    first = _position(start)
    if first.bytes and block_bytes:
        first = _Position(-(-first.bytes // block_bytes) * block_bytes, None)
    return _Verified(at, stream.target, frozenset(stream.hosts), first, _position(end), stream.region, block_bytes)


def _block_bytes(stream: Stream) -> int | None:
    """None for frames, whose blocks the engine decides."""
    if stream.align is not None:
        return stream.align
    return None if stream.frames is not None else min((item.size for item in stream.request), default=None)


def _position(text: str) -> _Position:
    if text.endswith("%"):
        percent = float(text.removesuffix("%"))
        return _Position(None if percent else 0, percent)
    size = parsed_bytes(text, "region")
    return _Position(size, None if size else 0.0)


def _differ(one: _Verified, other: _Verified) -> bool:
    """Whether they never meet, wherever in a target they are."""
    apart = bool(one.hosts) and bool(other.hosts) and not one.hosts & other.hosts
    return one.target != other.target or apart


def _comparable(one: _Position, other: _Position) -> bool:
    return None not in (one.bytes, other.bytes) or None not in (one.percent, other.percent)


def _overlap(one: _Verified, other: _Verified) -> bool | None:
    """None where the target's size decides."""
    begins = _before(one.start, other.end), _before(other.start, one.end)
    if False in begins:
        return False
    return None if None in begins else True


def _before(one: _Position, other: _Position) -> bool | None:
    if one.bytes is not None and other.bytes is not None:
        return one.bytes < other.bytes
    if one.percent is not None and other.percent is not None:
        return one.percent < other.percent
    # Nothing begins before all else, and what lies within a target begins before its end.
    return True if one.percent == 0 or other.percent == 100 else None

"""Duty: what became of frames of video: in time or dropped, when, and how much headroom was left.

Refusal: nothing is judged again; the core counted each frame from its due instant to its end.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from brickyard import _core
from brickyard.analysis.figures.totals import full_stream_name, profile_stream
from brickyard.schema import Document, PhaseEnd
from brickyard.schema.plan import Frames
from brickyard.store import Record
from brickyard.units import format_count, format_ns, three_digits

COLUMNS = ("player", "frames", "dropped", "first dropped", "last dropped", "slowest frame", "buffer", "headroom")


@dataclass(frozen=True)
class Player:
    """One worker of a stream of frames. Times of drops count from the start of the run."""

    phase: int
    stream: int
    stream_name: str
    worker: int
    frames: int
    dropped: int
    failed: int
    unjudged: int
    first_dropped_ns: int | None
    last_dropped_ns: int | None
    slowest_ns: int
    buffer_ns: int

    @property
    def head_room(self) -> float | None:
        """The buffer over the slowest frame: above 1, no frame that ended came too late."""
        return self.buffer_ns / self.slowest_ns if self.slowest_ns else None

    def document(self) -> Document:
        names = ("phase", "worker", "frames", "dropped", "failed", "unjudged", "first_dropped_ns", "last_dropped_ns")
        found = {name: getattr(self, name) for name in (*names, "slowest_ns", "buffer_ns")}
        return {"stream": self.stream_name, **found, "head_room": self.head_room}


def players(record: Record) -> list[Player]:
    return [
        Player(
            phase=end.phase,
            stream_name=full_stream_name(record, end.phase, told.stream),
            **msgspec.to_builtins(told),
        )
        for end in record.of(PhaseEnd)
        for told in end.frames
        if told.frames or told.unjudged
    ]


def player_rows(found: list[Player]) -> list[list[str]]:
    """Rows for `COLUMNS`."""

    def when(at_ns: int | None) -> str:
        return "–" if at_ns is None else f"{at_ns / 1e9:.3f} s"

    return [
        [
            f"{player.stream_name} {player.worker + 1}",
            format_count(player.frames),
            format_count(player.dropped),
            when(player.first_dropped_ns),
            when(player.last_dropped_ns),
            format_ns(player.slowest_ns) if player.slowest_ns else "–",
            format_ns(player.buffer_ns),
            f"× {three_digits(player.head_room)}" if player.head_room else "–",
        ]
        for player in found
    ]


def frame_words(record: Record) -> list[str]:
    """One sentence for each stream that has frames."""
    said = []
    for phase, stream in sorted({(p.phase, p.stream) for p in players(record)}):
        plan = profile_stream(record, phase, stream)
        own = [p for p in players(record) if (p.phase, p.stream) == (phase, stream)]
        frames, dropped = sum(p.frames for p in own), sum(p.dropped for p in own)
        asked = _format_words((plan.frames if plan else None) or Frames())
        head = f"{own[0].stream_name}: {len(own)} × {asked}, {format_count(frames)} frames"
        failed = sum(p.failed for p in own)
        if not dropped:
            said.append(f"{head}, none dropped")
            continue
        first = min(p.first_dropped_ns for p in own if p.first_dropped_ns is not None)
        more = f", {format_count(failed)} of them because requests failed" if failed else ""
        said.append(f"{head}, {format_count(dropped)} dropped, the first at {first / 1e9:.3f} s{more}")
    return said


def _format_words(frames: Frames) -> str:
    return frames.format or f"{_core.format_bytes(frames.bytes or 0)} frames at {frames.rate or 0:g}/s"

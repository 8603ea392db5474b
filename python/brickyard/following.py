"""Duty: the runs that go on now, of whatever process that writes to the same store: what each adds, as it does.

Refusal: nothing is measured, stopped or kept; whoever asks again gets what came since.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from brickyard.analysis.figures.moments import Moment, done_share, moments, planned_ns
from brickyard.analysis.figures.totals import phase_name
from brickyard.analysis.judging.run_figures import WholeFigures, whole_figures
from brickyard.errors import BrickyardError
from brickyard.schema import BrickCondition, ConditionSample, Event, Fill, HangEvent, PhaseStart, Steady, words_of
from brickyard.store import Cursor, Record, RunInfo, Store
from brickyard.units import format_count, format_ns, format_percent, format_size

__all__ = ["MOMENTS_MAX", "Followed", "Follower", "Moment", "RunChange", "WholeFigures"]

KEPT_S = 60.0
"""How long a run that has ended stays among those that go on, so that nobody misses its end."""
ENDED_MAX = 3
MOMENTS_MAX = 3600
"""The most intervals that a run of one phase has; of a longer one the newest are kept."""


@dataclass
class Followed:
    """One run as far as it is known."""

    info: RunInfo
    planned: int | None = None
    began_ns: int = 0
    phase: str = ""
    moments: list[Moment] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cursor: Cursor = field(default_factory=Cursor)
    came_s: float = 0.0
    ended_s: float | None = None
    has_begun: bool = False
    is_told: bool = False
    conditions: list[str] = field(default_factory=list)
    """Those that a modelled brick came into since the run began."""
    whole: WholeFigures | None = None
    """Of a run that has ended."""
    condition: str = ""
    """How the array below the targets stood at the last look, where it is looked at."""

    @property
    def is_over(self) -> bool:
        return self.info.outcome != "running"

    @property
    def is_modelled(self) -> bool:
        """Seconds of the run are none of a clock on the wall."""
        return self.info.is_modelled

    @property
    def now_ns(self) -> int:
        return self.moments[-1].end_ns if self.moments else self.began_ns

    @property
    def done_share(self) -> float | None:
        return done_share(self.planned, self.began_ns, self.now_ns)

    @property
    def left_s(self) -> float | None:
        """Until its phases are over, by the clock on the wall."""
        if self.planned is None or self.is_modelled or self.is_over:
            return None
        silent_s = time.monotonic() - self.came_s if self.moments else 0.0
        return max(0.0, (self.planned - (self.now_ns - self.began_ns)) / 1e9 - silent_s)


@dataclass(frozen=True)
class RunChange:
    """What one look found of a run."""

    run: Followed
    moments: list[Moment]
    notes: list[str]
    is_new: bool
    has_ended: bool


class Follower:
    """Looks at a store; one thread at a time."""

    def __init__(self, place: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.place = place
        self.runs: dict[int, Followed] = {}
        self._clock = clock
        self._highest = 0
        self._store: Store | None = None

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def look(self) -> list[RunChange]:
        """What came since the last look. Raises sqlite3.Error or BadInputError where the store cannot be read now;
        the next look then begins where the last good one ended."""
        if self._store is None:
            self._store = Store(self.place)
        store = self._store
        self._begun(store)
        found = list(self._grown(store))
        self._forget()
        for change in found:
            if change.has_ended and change.run.info.id in self.runs:
                change.run.whole = _whole(store, change.run.info.id)
        return found

    def _begun(self, store: Store) -> None:
        since_ns = time.time_ns() - int(KEPT_S * 1e9)
        for info in store.unended(self._highest, since_ns):
            self._highest = max(self._highest, info.id)
            if info.outcome != "running" and info.ended_unix_ns is None:
                continue  # killed before anybody looked
            if info.outcome != "running" and info.is_by_tool:
                continue  # imported: it never went on here, and fio's intervals have no response times
            self.runs[info.id] = Followed(info, _planned(info))

    def _grown(self, store: Store) -> Iterator[RunChange]:
        for followed in self.runs.values():
            if followed.ended_s is not None:
                continue
            run = followed.info.id
            [info] = store.runs([run])  # read before its news, so that what an ended run added last is among them
            news = store.news(run, followed.cursor)
            followed.cursor = news.until
            notes = [words for event in news.events if (words := _note(followed, event))]
            if info.start and not followed.has_begun:
                followed.has_begun = True
                notes = [*map(words_of, info.start.notes), *notes]
            fresh = moments(info, news.intervals, news.costs)
            followed.info = info
            followed.notes += notes
            if info.outcome != "running":
                followed.ended_s = self._clock()
            if fresh:
                followed.came_s = self._clock()
                followed.moments = [*followed.moments, *fresh][-MOMENTS_MAX:]
            is_new, followed.is_told = not followed.is_told, True
            if fresh or notes or is_new or followed.is_over:
                yield RunChange(followed, fresh, notes, is_new=is_new, has_ended=followed.is_over)

    def _forget(self) -> None:
        """Runs that ended a while ago; of many short ones, as the cells of a study are, all but the newest."""
        now = self._clock()
        ended = [run for run, followed in self.runs.items() if followed.ended_s is not None]
        for place, run in enumerate(reversed(ended)):
            if place >= ENDED_MAX or now - (self.runs[run].ended_s or now) > KEPT_S:
                del self.runs[run]


def _planned(info: RunInfo) -> int | None:
    try:
        return planned_ns(info.plan)
    except BrickyardError:
        return None


def _whole(store: Store, run: int) -> WholeFigures | None:
    try:
        return whole_figures(store.record(run))
    except (BrickyardError, sqlite3.Error):
        return None  # damaged, or busy just then; its page says more


def _note(followed: Followed, told: Event) -> str:
    """What an event says to whoever watches; empty where it says nothing of its own."""
    match told:
        case PhaseStart() as event:
            if not followed.moments and not followed.began_ns:
                followed.began_ns = event.start_ns
            followed.phase = phase_name(Record(followed.info), event.phase)
        case HangEvent() as event:
            size, waited = format_size(event.request_bytes), format_ns(event.outstanding_ns)
            where = f"offset {format_count(event.offset_bytes)}"
            return f"hanging: {event.operation} of {size} at {where} has been outstanding for {waited}"
        case Steady() as event:
            return "steady state reached" if event.reached else "steady state left again"
        case Fill() as event:
            return f"filled {format_size(event.total_bytes)} before the first phase"
        case ConditionSample() as event:
            share = "" if event.progress_share is None else f", {format_percent(event.progress_share)} done"
            followed.condition = f"{event.state}{share}"
        case BrickCondition() as event:
            if event.at_ns:
                followed.conditions.append(words := event.condition.replace("_", " "))
                targets = followed.info.targets
                of = f"{targets[event.target]}: " if len(targets) > 1 else ""
                return f"{of}{words} since {event.at_ns / 1e9:.1f} s"
        case _:
            pass
    return ""

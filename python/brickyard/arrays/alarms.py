"""Duty: alarms: what a watch has told and nobody has mended yet. Each is raised, acknowledged by a person, reminded of
while nobody has, silenced while our own work is the cause, and cleared when what it is about is seen to be well.

Kept in one file, which the watch and the page change one at a time. Refusal: nothing is looked at or sent here, and no
error is ever silenced.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import msgspec

from brickyard import outputs
from brickyard.arrays.health import Notice
from brickyard.arrays.host import PROGRAM_TIMEOUT_S
from brickyard.arrays.keys import OF_ARRAYS, AlarmKey, AlarmKind, read_key
from brickyard.errors import BadInputError, BrickyardError
from brickyard.ready import ready

MARK = re.compile(rb'\A{"book":')
LOCK_MARK = re.compile(rb"\Abrickyard alarms\n")
SEVERITIES = ("error", "warning", "note")
CLEARED_KEPT = 200
"""Alarms that are over and still shown, the newest."""
EVENTS_KEPT = 500
PERIODS_MISSED, LOOK_MAX_S = 3, PROGRAM_TIMEOUT_S
"""A watch that has not looked for three of its periods, and the time that a controller's tool may take, has stopped."""


TEST_OLD_S = 900.0
"""A test that was asked for so long ago may be asked for again."""


class AlarmState(StrEnum):
    RAISED = "raised"
    ACKNOWLEDGED = "acknowledged"
    SILENCED = "silenced"
    CLEARED = "cleared"


class Alarm(msgspec.Struct):
    """`since_s` is when it was raised, `changed_s` when it last was in another state, both in seconds since 1970."""

    key: AlarmKey
    severity: str
    text: str
    state: AlarmState
    since_s: float
    changed_s: float
    reminded_s: float
    times: int = 1
    """How often it was raised since it was last cleared: error counts that grow raise it again."""
    counts: bool = False
    """It is about a count, which never goes back: to acknowledge it is to clear it."""
    by: str = ""
    """Who acknowledged it."""
    why: str = ""
    """Why it is silenced."""

    @property
    def is_open(self) -> bool:
        return self.state is not AlarmState.CLEARED

    @property
    def rank(self) -> tuple[bool, int, int, float]:
        """The worst first: open before cleared, errors before warnings, unseen before seen."""
        place = list(AlarmState).index(self.state)
        return (not self.is_open, SEVERITIES.index(self.severity), place, -self.changed_s)


class ArrayEvent(msgspec.Struct, frozen=True):
    """What the watch has told once, also where it was no alarm: a rebuild that began, an all-clear."""

    at_s: float
    key: AlarmKey
    kind: str
    severity: str
    text: str


class ChannelTest(msgspec.Struct):
    """A test message that a person asked for, and what became of it: a line for each way that the watch sends by."""

    asked_s: float
    by: str
    done_s: float = 0.0
    lines: list[str] = []

    @property
    def is_waiting(self) -> bool:
        return not self.done_s


class _Book(msgspec.Struct):
    book: str = "alarms"
    looked_s: float = 0.0
    every_s: float = 30.0
    """The period of the watch; earlier versions did not write it, and looked every 30 s unless told otherwise."""
    alarms: list[Alarm] = []
    manages: bool = False
    """Whether the watch may scrub by schedule."""
    ways: list[str] = []
    """By what the watch sends: `mail`, `apprise`."""
    test: ChannelTest | None = None
    events: list[ArrayEvent] = []

    def is_watched(self, now_s: float) -> bool:
        return 0 <= now_s - self.looked_s < PERIODS_MISSED * self.every_s + LOOK_MAX_S


class AlarmBook:
    """The alarms of this host."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def all(self) -> list[Alarm]:
        return sorted(self._read().alarms, key=lambda alarm: alarm.rank)

    @property
    def looked_s(self) -> float:
        """When a watch looked last, 0 where none has."""
        return self._read().looked_s

    def is_watched(self, now_s: float | None = None) -> bool:
        """Whether a watch runs, by its own period."""
        return self._read().is_watched(time.time() if now_s is None else now_s)

    @property
    def events(self) -> list[ArrayEvent]:
        """What happened, the newest first."""
        return self._read().events[::-1]

    @property
    def ways(self) -> list[str]:
        """By what the watch sends."""
        return self._read().ways

    @property
    def manages(self) -> bool:
        """Whether the watch may scrub by schedule."""
        return self._read().manages

    @property
    def test(self) -> ChannelTest | None:
        return self._read().test

    def ask_test(self, by: str, now_s: float | None = None) -> ChannelTest:
        """The watch sends it at its next look by all its ways, since it alone knows their addresses."""
        with self._changed() as book:
            now = time.time() if now_s is None else now_s
            if not book.is_watched(now):
                raise BadInputError("no watch is running that could send it; start `brickyard array watch`")
            if not book.ways:
                raise BadInputError("the watch sends nothing; start it with --apprise-file, --mail-to or --webhook")
            if book.test is not None and book.test.is_waiting and 0 <= now - book.test.asked_s < TEST_OLD_S:
                raise BadInputError("a test is under way; wait for the next look of the watch")
            book.test = ChannelTest(now, by)
            return book.test

    def begin(self, ways: list[str], *, manages: bool, every_s: float) -> ChannelTest | None:
        """What the watch can do and how often it looks; gives back a test that waits for it."""
        with self._changed() as book:
            book.ways, book.manages, book.every_s = list(ways), manages, every_s
            return book.test if book.test is not None and book.test.is_waiting else None

    def tested(self, lines: list[str], now_s: float) -> None:
        with self._changed() as book:
            if book.test is not None:
                book.test.done_s, book.test.lines = max(now_s, 1e-3), lines

    def take(self, notices: Iterable[Notice], silent: Mapping[str, str], now_s: float) -> list[Notice]:
        """What a look has told; gives back what is to be sent. `silent` says by the name of an array why its warnings
        are our own doing; they are sent when that is over and they still hold."""
        told = list(notices)
        with self._changed() as book:
            book.looked_s = now_s
            fresh = [ArrayEvent(now_s, one.key, one.kind, one.severity, one.text) for one in told]
            book.events = [*book.events, *fresh][-EVENTS_KEPT:]
            known = {alarm.key: alarm for alarm in book.alarms}
            sent = [notice for notice in told if _step(known, notice, silent, now_s)]
            for alarm in known.values():
                if alarm.state is AlarmState.SILENCED and not _silence(alarm.key, alarm.severity, silent):
                    alarm.state, alarm.why, alarm.changed_s = AlarmState.RAISED, "", now_s
                    sent.append(Notice(alarm.key, "begins", alarm.severity, alarm.text))
            book.alarms = list(known.values())
        return sent

    def remind(self, every_s: float, now_s: float) -> list[Notice]:
        """One notice for each alarm that nobody has acknowledged since the last word of it."""
        found = []
        with self._changed() as book:
            for alarm in book.alarms:
                if alarm.state is not AlarmState.RAISED:
                    continue
                if now_s < alarm.reminded_s:  # the clock was set back
                    alarm.reminded_s = now_s
                elif now_s - alarm.reminded_s >= every_s:
                    alarm.reminded_s = now_s
                    found.append(Notice(alarm.key, "reminds", alarm.severity, f"still so: {alarm.text}"))
        return found

    def acknowledge(self, key: str, by: str, now_s: float | None = None) -> Alarm:
        """A person has seen it; nothing more is sent until it changes. Of a count that is its end."""
        with self._changed() as book:
            found = next((alarm for alarm in book.alarms if str(alarm.key) == key and alarm.is_open), None)
            if found is None:
                raise BadInputError("no such alarm is open; it may have been cleared meanwhile")
            found.state = AlarmState.CLEARED if found.counts else AlarmState.ACKNOWLEDGED
            found.by, found.changed_s = by, time.time() if now_s is None else now_s
        return found

    def _read(self) -> _Book:
        try:
            return msgspec.json.decode(self.place.read_bytes(), type=_Book, dec_hook=read_key)
        except FileNotFoundError:
            return _Book()
        except (OSError, msgspec.DecodeError) as error:
            raise BrickyardError(f"{self.place}: the alarms cannot be read ({error}); move the file away") from error

    @contextmanager
    def _changed(self) -> Iterator[_Book]:
        """The book for one change at a time, written whole at the end."""
        try:
            outputs.folder(self.place.parent)
            handle = outputs.open_journal(self.place.with_suffix(".lock"), LOCK_MARK, b"brickyard alarms\n")
        except OSError as error:
            raise BrickyardError(f"{self.place}: the alarms cannot be kept: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            book = self._read()
            yield book
            over = sorted((alarm for alarm in book.alarms if not alarm.is_open), key=lambda alarm: -alarm.changed_s)
            book.alarms = [*(alarm for alarm in book.alarms if alarm.is_open), *over[:CLEARED_KEPT]]
            outputs.write_whole(self.place, msgspec.json.encode(book, enc_hook=str), MARK)
        except OSError as error:
            raise BrickyardError(f"{self.place}: the alarms cannot be kept: {error.strerror}") from error
        finally:
            os.close(handle)


def _step(known: dict[AlarmKey, Alarm], notice: Notice, silent: Mapping[str, str], now_s: float) -> bool:
    """Takes one notice in; whether it is to be sent."""
    alarm = known.get(notice.key)
    is_open = alarm is not None and alarm.is_open
    is_over = notice.kind == "ends" or (notice.kind == "changes" and notice.key.kind is AlarmKind.MEMBER)
    if is_over:
        if alarm is None or not alarm.is_open:
            return notice.severity != "note" or notice.kind == "ends"
        was_sent = alarm.state is not AlarmState.SILENCED
        alarm.state, alarm.changed_s, alarm.why = AlarmState.CLEARED, now_s, ""
        return was_sent
    if notice.severity == "note":
        if alarm is not None and is_open:
            alarm.text = notice.text
        return True
    why = _silence(notice.key, notice.severity, silent)
    state = AlarmState.SILENCED if why else AlarmState.RAISED
    times = alarm.times + 1 if alarm is not None and is_open else 1
    since_s = alarm.since_s if alarm is not None and is_open else now_s
    counts = notice.kind == "counts"
    known[notice.key] = Alarm(
        notice.key, notice.severity, notice.text, state, since_s, now_s, now_s, times, counts, why=why
    )
    return not why


def _silence(key: AlarmKey, severity: str, silent: Mapping[str, str]) -> str:
    """Why an alarm is our own doing; empty where it is not, and always for errors."""
    return silent.get(key.name, "") if severity != "error" and key.kind in OF_ARRAYS else ""


ready(_Book)

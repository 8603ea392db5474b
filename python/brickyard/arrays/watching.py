"""Duty: from one look after another to notices: each event once, with hysteresis, also across restarts of the watch.

Refusal: it looks at nothing and sends nothing; `looking` and `notify` do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from brickyard.arrays.health import LOOKS_TO_END, ArrayMemory, Health, Notice, Sighting, step
from brickyard.arrays.keys import AlarmKey, AlarmKind
from brickyard.arrays.looking import Seen
from brickyard.arrays.peers import SLOW_SHARE, WELL_SHARE, PeersMemory, forget, pause, take
from brickyard.arrays.peers import paces as paces_of
from brickyard.units import format_percent, format_size, three_digits

# Figures of drives and file systems may be off once.
LOOKS_TO_BEGIN = 2
CLEAR_BELOW = 0.02  # a file system counts as full until it is this much below the limit
STORE_ROOM_BYTES = 1 << 30  # our choice; a run ends where its store finds no room
WORN_PERCENT = 100  # NVM Express Base Specification: 100 says that the rated life is used up


@dataclass(frozen=True)
class Finding:
    key: AlarmKey
    severity: str
    text: str
    end_text: str


@dataclass
class Open:
    """A finding that was told and has not ended."""

    end_text: str
    absent: int = 0
    """Looks in turn that did not show it."""


@dataclass
class WatchMemory:
    """What was told, by the findings' keys, and what must be known of earlier looks."""

    open: dict[AlarmKey, Open] = field(default_factory=dict)
    pending: dict[AlarmKey, int] = field(default_factory=dict)
    """Looks in turn that have shown what is not told yet."""
    counts: dict[AlarmKey, int] = field(default_factory=dict)
    writable: list[str] = field(default_factory=list)
    """File systems that were seen to be so."""
    arrays: dict[str, ArrayMemory] = field(default_factory=dict)
    peers: dict[str, PeersMemory] = field(default_factory=dict)


@dataclass
class ArrayWatcher:
    """Whoever keeps `memory` keeps the watch from telling twice."""

    full_share: float = 0.95
    memory: WatchMemory = field(default_factory=WatchMemory)
    clock: Callable[[], float] = time.time
    _judged: set[AlarmKey] = field(default_factory=set, init=False, repr=False)
    """Keys of the members that the newest look could judge."""

    def look(self, seen: Seen, *, with_drives: bool = True) -> list[Notice]:
        """The notices of one look. Without drives, what is open about them stays as it is."""
        self._judged.clear()
        findings = {finding.key: finding for finding in self._findings(seen)}
        told = [*self._arrays(seen), *self._begins(findings)]
        told += [*self._ends(findings, seen, with_drives=with_drives), *self._counts(seen)]
        writable = {system.place for system in seen.file_systems if not system.read_only}
        self.memory.writable = sorted(writable | set(self.memory.writable))
        return told

    def healths(self) -> dict[str, Health]:
        """What was told last of each array, by its name; also of those that are gone."""
        kept = self.memory.arrays.values()
        return {memory.name: memory.told for memory in kept if memory.told is not None}

    def _arrays(self, seen: Seen) -> Iterator[Notice]:
        kept = self.memory.arrays
        sheets = {sheet.key: sheet for sheet in seen.arrays}
        for key in [*sheets, *(key for key in kept if key not in sheets)]:
            memory = kept.setdefault(key, ArrayMemory())
            sheet = sheets.get(key)
            name = memory.name if sheet is None else sheet.name
            problem = seen.problem_of(key, name)
            yield from step(memory, Sighting(name, sheet, problem, seen.holders.get(key), seen.left.get(key, "")))

    def _findings(self, seen: Seen) -> Iterator[Finding]:
        yield from self._unread(seen)
        yield from drive_findings(seen)
        yield from store_findings(seen)
        yield from self._slow_members(seen)
        for system in seen.file_systems:
            key = AlarmKey(AlarmKind.FILE_SYSTEM, system.place, "full")
            limit = self.full_share - (CLEAR_BELOW if key in self.memory.open else 0.0)
            if system.used_share is not None and system.used_share >= limit:
                words = f"the file system at {system.place} is {format_percent(system.used_share)} full"
                yield Finding(key, "warning", words, f"the file system at {system.place} has room again")
            if system.read_only and system.place in self.memory.writable:
                words = f"the file system at {system.place} has become read-only"
                end = f"the file system at {system.place} can be written again"
                yield Finding(AlarmKey(AlarmKind.FILE_SYSTEM, system.place, "read-only"), "error", words, end)

    def _unread(self, seen: Seen) -> Iterator[Finding]:
        """What could not be looked at, and is no array that is known: of those, `health` tells."""
        known = {memory.name for memory in self.memory.arrays.values()}
        kinds = {key.split(" ", maxsplit=1)[0] for key in self.memory.arrays}
        for name, problem in seen.unread.items():
            if name not in known | kinds:
                words = f"{name} could not be looked at: {problem}"
                yield Finding(AlarmKey(AlarmKind.LOOK, name), "warning", words, f"{name} can be looked at again")

    def _slow_members(self, seen: Seen) -> Iterator[Finding]:
        """Members beside their peers; see `peers` for what is compared."""
        now_s = self.clock()
        for sheet in seen.arrays:
            memory = self.memory.peers.setdefault(sheet.key, PeersMemory())
            counted = seen.counted.get(sheet.key, {})
            if sheet.state.name == "normal" and sheet.is_whole and len(counted) == sheet.active:
                take(memory, counted, now_s)
            else:
                pause(memory)
                if sheet.state.missing:
                    forget(memory)
            for pace in paces_of(memory):
                key = AlarmKey(AlarmKind.SLOW, sheet.name, pace.member)
                self._judged.add(key)
                if pace.slow_share >= (WELL_SHARE if key in self.memory.open else SLOW_SHARE):
                    beside = "theirs do" if sheet.active > 2 else "they did"
                    words = (
                        f"{pace.member} is slow beside the other members of {sheet.name}: its requests take"
                        f" {three_digits(pace.times)} times as long as {beside} at the same rate"
                    )
                    end = (
                        f"{pace.member} is as fast as the other members of {sheet.name} again, or is no longer one of"
                        " them"
                    )
                    yield Finding(key, "warning", words, end)

    def _begins(self, findings: dict[AlarmKey, Finding]) -> Iterator[Notice]:
        pending = self.memory.pending
        for key in [key for key in pending if key not in findings]:
            del pending[key]
        for key, finding in findings.items():
            if key in self.memory.open:
                self.memory.open[key].absent = 0
                continue
            pending[key] = pending.get(key, 0) + 1
            if pending[key] >= LOOKS_TO_BEGIN:
                del pending[key]
                self.memory.open[key] = Open(finding.end_text)
                yield Notice(key, "begins", finding.severity, finding.text)

    def _ends(self, findings: dict[AlarmKey, Finding], seen: Seen, *, with_drives: bool) -> Iterator[Notice]:
        for key, kept in list(self.memory.open.items()):
            if key.kind in (
                AlarmKind.ARRAY,
                AlarmKind.MEMBER,
            ):  # of an earlier version
                del self.memory.open[key]
                continue
            if key in findings or (key.kind is AlarmKind.DRIVE and not with_drives) or not self._shows_end(key, seen):
                continue
            kept.absent += 1
            if kept.absent >= LOOKS_TO_END:
                del self.memory.open[key]
                yield Notice(key, "ends", "note", kept.end_text)

    def _shows_end(self, key: AlarmKey, seen: Seen) -> bool:
        """A member that cannot be judged is as slow as before, unless it is none any more."""
        if key.kind is not AlarmKind.SLOW:
            return _shows_end(key, seen)
        for sheet in seen.arrays:
            if sheet.name == key.name:
                return key in self._judged or all((m.name, m.state) != (key.part, "active") for m in sheet.members)
        return False

    def _counts(self, seen: Seen) -> Iterator[Notice]:
        """Errors are told when there are more of them than were told. Old ones of a drive are told once, as a warning:
        drives with reallocations fail 14 times as often within 60 days (Pinheiro et al., FAST '07); those of members
        are only taken note of, as md keeps them over many years."""
        for key, words, count in error_counts(seen):
            before = self.memory.counts.get(key)
            self.memory.counts[key] = count
            if before is None and count and key.kind is AlarmKind.DRIVE:
                yield Notice(key, "counts", "warning", f"{words}: {count:,} when the watch looked for the first time")
            if before is not None and count > before:
                yield Notice(key, "counts", "error", f"{words}: {count - before:,} more, {count:,} in all")


def _shows_end(key: AlarmKey, seen: Seen) -> bool:
    """Whether what a finding is about is seen to be well: a drive that is gone or asleep passes no test."""
    if key.kind is AlarmKind.DRIVE:
        told = next((drive.told for drive in seen.drives if drive.name == key.name), None)
        if told is None:
            return False
        well = {
            "smart": told.passed is True,
            "critical": told.critical_warning == 0,
            "worn": told.percentage_used is not None,
        }
        return well.get(key.part, False)
    if key.kind is AlarmKind.STORE:
        return seen.store is not None
    return key.kind is AlarmKind.LOOK or any(system.place == key.name for system in seen.file_systems)


def drive_key(name: str, part: str) -> AlarmKey:
    return AlarmKey(AlarmKind.DRIVE, name, part)


def drive_findings(seen: Seen) -> Iterator[Finding]:
    for drive in seen.drives:
        told, name = drive.told, drive.name
        if told.passed is False:
            words = f"the drive {name} says that it will fail soon (SMART)"
            yield Finding(drive_key(name, "smart"), "error", words, f"the drive {name} passes its own test again")
        if told.critical_warning:
            words = f"the drive {name} warns of itself: critical warning {told.critical_warning:#04x}"
            yield Finding(drive_key(name, "critical"), "error", words, f"the drive {name} warns no more")
        if (told.percentage_used or 0) >= WORN_PERCENT:
            words = f"the drive {name} has used up {told.percentage_used} % of its rated life"
            yield Finding(drive_key(name, "worn"), "warning", words, f"the drive {name} is not worn")


def store_findings(seen: Seen) -> Iterator[Finding]:
    store = seen.store
    if store is None:
        return
    key = partial(AlarmKey, AlarmKind.STORE, str(store.place))
    if store.problem:
        words = f"the store of runs cannot be used: {store.problem}"
        yield Finding(key("unusable"), "error", words, f"the store {store.place} can be used again")
    if store.free_bytes is not None and store.free_bytes < STORE_ROOM_BYTES:
        words = (
            f"the store {store.place} has room for {format_size(store.free_bytes)} more; a run ends where it is full"
        )
        yield Finding(key("room"), "warning", words, f"the store {store.place} has room again")


def error_counts(seen: Seen) -> Iterator[tuple[AlarmKey, str, int]]:
    for sheet in seen.arrays:
        for member in sheet.members:
            if member.errors is not None and member.name != "–":
                key = AlarmKey(AlarmKind.ERRORS, sheet.name, member.name)
                yield key, f"errors of {member.name} in {sheet.name}", member.errors
    for drive in seen.drives:
        told = drive.told
        if told.media_errors is not None:
            yield (
                drive_key(drive.name, "media_errors"),
                f"media errors of the drive {drive.name}",
                told.media_errors,
            )
        if told.reallocated_sectors is not None:
            words = f"reallocated sectors of the drive {drive.name}"
            yield drive_key(drive.name, "reallocated_sectors"), words, told.reallocated_sectors

"""Duty: the one state machine of an array and of its members: from what is seen of them to what is told.

Refusal: it takes silence for nothing. An array is well only where it shows that it is: running, no loss reported, as
many active members as it wants; what is absent, unreadable or of an unknown state is never well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from brickyard.arrays.array import Sheet
from brickyard.arrays.keys import WORK, AlarmKey, AlarmKind
from brickyard.arrays.lock import Holder
from brickyard.units import format_percent

# What is seen of an array is its own word and is believed at once; what is not seen may come back at the next look, and
# an end must last, so that nothing flaps.
LOOKS_TO_END = 2
LOOKS_UNSEEN = 2


class Health(StrEnum):
    """Of an array, from the best to the worst."""

    WELL = "well"
    MISMATCHED = "mismatched"
    HELD = "held"
    """A process of ours holds it in a condition."""
    REBUILDING = "rebuilding"
    DEGRADED = "degraded"
    LEFT = "left"
    """A killed run has left something to be undone, or its rebuilds and scrubs are frozen."""
    STOPPED = "stopped"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It says something that shows neither loss nor health."""
    UNREADABLE = "unreadable"
    GONE = "gone"

    @property
    def looks(self) -> int:
        """How many looks in turn must show it before it is told."""
        if self is Health.WELL:
            return LOOKS_TO_END
        return LOOKS_UNSEEN if self in (Health.UNKNOWN, Health.UNREADABLE, Health.GONE) else 1


class MemberHealth(StrEnum):
    FAULTY = "faulty"
    REMOVED = "removed"
    """Was faulty, and is not a member any more."""


@dataclass(frozen=True)
class Notice:
    """What is told to somebody, once."""

    key: AlarmKey
    kind: str
    """`begins`, `changes`, `ends`, or `counts` for errors that have become more."""
    severity: str
    text: str


def channel_test(text: str) -> Notice:
    return Notice(AlarmKey(AlarmKind.TEST, "message"), "test", "note", text)


@dataclass(frozen=True)
class Sighting:
    """One array at one look."""

    name: str
    sheet: Sheet | None = None
    problem: str = ""
    """Why it could not be read; empty where it is simply not there."""
    holder: Holder | None = None
    """The process of ours that has it in its hands now."""
    left: str = ""
    """What a killed run has left of it, and the command that undoes it."""


@dataclass
class ArrayMemory:
    """What was told of an array, and what is seen and not told yet. Plain data, since it outlives the watch."""

    told: Health | None = None
    missing: int = 0
    mismatches: int = 0
    alarmed: bool = False
    """Whether an all-clear is owed."""
    pending: Health | None = None
    looks: int = 0
    work: str = ""
    work_share: float | None = None
    work_absent: int = 0
    """Looks in turn at which the work that was told of was not seen."""
    members: dict[str, MemberHealth] = field(default_factory=dict)
    """Those that were told to be faulty."""
    active_looks: dict[str, int] = field(default_factory=dict)
    name: str = ""


def observed(sighting: Sighting, mismatches: int) -> Health | None:
    """The health that a look shows; None where it shows neither loss nor health, and what was told stays.

    `mismatches` are those known from before: only a whole scrub without any shows that they are gone.
    """
    sheet = sighting.sheet
    if sheet is None:
        return Health.UNREADABLE if sighting.problem else Health.GONE
    state = sheet.state
    if state.name in ("failed", "inactive"):
        return Health.FAILED if state.name == "failed" else Health.STOPPED
    holder = sighting.holder
    if holder is not None and 0 < state.missing <= holder.taken:
        return Health.HELD
    if sighting.left or (sheet.frozen and holder is None):
        return Health.LEFT
    if state.missing or state.name == "degraded":
        return Health.REBUILDING if state.name in ("rebuilding", "delayed") else Health.DEGRADED
    if state.name in ("initializing", "reshaping", "delayed"):
        return None
    if not sheet.is_whole:
        return Health.UNKNOWN
    return Health.MISMATCHED if mismatches else Health.WELL


def step(memory: ArrayMemory, sighting: Sighting) -> list[Notice]:
    """One look: changes the memory, and returns what is to be told. At most one notice an array is an all-clear."""
    memory.name = sighting.name
    sheet = sighting.sheet
    if sheet is None:
        return _health(memory, sighting)
    memory.mismatches = _mismatches(sheet, memory.mismatches)
    told = _work(memory, sheet) + _health(memory, sighting)
    return told if sheet.state.name == "inactive" else told + _members(memory, sheet)


def _mismatches(sheet: Sheet, before: int) -> int:
    found = sheet.scrub.mismatches
    if found:
        return found
    return 0 if found == 0 and sheet.scrub.complete else before


def _health(memory: ArrayMemory, sighting: Sighting) -> list[Notice]:
    now = observed(sighting, memory.mismatches)
    missing = memory.missing if sighting.sheet is None else sighting.sheet.state.missing
    if now is None or now == memory.told:
        memory.pending, memory.looks = None, 0
        if now not in (Health.DEGRADED, Health.REBUILDING, Health.FAILED) or missing == memory.missing:
            return []
        severity, memory.missing = "error" if missing > memory.missing else "note", missing
        return [Notice(_key(sighting), "changes", severity, _words(sighting, now, now, memory))]
    memory.looks = memory.looks + 1 if now == memory.pending else 1
    memory.pending = now
    if memory.looks < _looks(memory, now):
        return []
    before, memory.told = memory.told, now
    memory.pending, memory.looks = None, 0
    more, memory.missing = missing > memory.missing, missing
    if now is Health.WELL:
        owed, memory.alarmed = memory.alarmed, False
        return [Notice(_key(sighting), "ends", "note", _all_clear(sighting.name, before))] if owed else []
    silent = now is Health.REBUILDING and before is Health.DEGRADED and not more  # the work that begins says it
    kind = "changes" if memory.alarmed else "begins"
    memory.alarmed = True
    return (
        []
        if silent
        else [Notice(_key(sighting), kind, severity_of(now, before), _words(sighting, now, before, memory))]
    )


def _key(sighting: Sighting) -> AlarmKey:
    return AlarmKey(AlarmKind.ARRAY, sighting.name)


def _looks(memory: ArrayMemory, now: Health) -> int:
    """Mismatches that stay after a rebuild mean that the rebuild is over, which must last like an all-clear."""
    if now is Health.MISMATCHED and memory.told not in (None, Health.WELL):
        return LOOKS_TO_END
    return now.looks


def severity_of(now: Health, before: Health | None = None) -> str:
    """How bad it is that an array has come to this, from what it was before or at the first sight."""
    if now is Health.REBUILDING and before in (None, Health.WELL, Health.MISMATCHED):
        return "error"
    return {
        Health.HELD: "note",
        Health.REBUILDING: "note",
        Health.MISMATCHED: "warning",
        Health.UNKNOWN: "warning",
    }.get(now, "error")


def _all_clear(name: str, before: Health | None) -> str:
    return {
        Health.MISMATCHED: f"{name}: a scrub of the whole array found no mismatches",
        Health.HELD: f"{name} is no longer held, and has all its members",
        Health.LEFT: f"{name} has all its members, and nothing is left to be undone",
        Health.FAILED: f"{name} works again, with all its members",
        Health.STOPPED: f"{name} runs again, with all its members",
        Health.GONE: f"{name} is there again, with all its members",
        Health.UNREADABLE: f"{name} can be read again, and has all its members",
    }.get(before or Health.DEGRADED, f"{name} has all its members again")


def _words(sighting: Sighting, now: Health, before: Health | None, memory: ArrayMemory) -> str:
    name, sheet = sighting.name, sighting.sheet
    if sheet is None:
        if now is Health.UNREADABLE:
            return f"{name} cannot be read: {sighting.problem}"
        return f"{name} is gone: it was stopped or taken away, or its tool reports it no more"
    state, level = sheet.state, sheet.level
    if now is Health.FAILED:
        return f"{name} ({level}) has failed: {state.detail or 'too many members are missing'}"
    if now is Health.STOPPED:
        return f"{name} is not running"
    if now is Health.HELD:
        return f"{name} ({level}) is {state.name}: held so by {sighting.holder.words if sighting.holder else 'a run'}"
    if now is Health.LEFT:
        return f"{name} ({level}) is {state.name}; {sighting.left or sheet.frozen}"
    if now is Health.MISMATCHED:
        back = "" if before in (None, Health.WELL, Health.MISMATCHED) else "has all its members again, but "
        return f"{name} ({level}): {back}{mismatch_words(sheet, memory.mismatches)}"
    if now is Health.UNKNOWN:
        said = f"is {state.name}{f' ({state.detail})' if state.detail else ''}"
        return f"{name} ({level}) {said}, and shows {sheet.active} of {sheet.wanted or '?'} members active"
    lacks = f"{members(max(state.missing, 1))} missing"
    if now is Health.REBUILDING:
        return f"{name} ({level}) is degraded: {lacks}, and a rebuild is under way"
    stopped = "the rebuild has stopped: " if before is Health.REBUILDING else ""
    return f"{name} ({level}) is degraded: {stopped}{lacks}"


def members(count: int) -> str:
    return "a member is" if count == 1 else f"{count} members are"


def mismatch_words(sheet: Sheet, count: int) -> str:
    """md(4): on RAID-1 and RAID-10 a block that was written while it changed in memory differs, and nobody reads it."""
    unit = "errors" if sheet.kind in ("btrfs", "zfs") else "mismatched sectors"
    words = f"{count:,} {unit} at the last scrub"
    if sheet.kind in ("md", "lvm") and sheet.level.startswith(("raid10", "raid1")):
        return f"{words}; swap and memory-mapped files cause some that do no harm on {sheet.level}"
    return words


def _work(memory: ArrayMemory, sheet: Sheet) -> list[Notice]:
    state = sheet.state
    work = WORK.get(state.name, "")
    if state.name == "delayed":
        work = memory.work or ("rebuild" if state.missing else "")
    if work and work == memory.work:
        memory.work_absent, memory.work_share = 0, state.progress_share
        return []
    if not work:
        if not memory.work:
            return []
        memory.work_absent += 1
        if memory.work_absent < LOOKS_TO_END:
            return []
    told = [_work_ended(memory, sheet)] if memory.work else []
    memory.work, memory.work_share, memory.work_absent = work, state.progress_share, 0
    if work:
        article = "an" if work == "initial resync" else "a"
        key = AlarmKey(AlarmKind.ARRAY, sheet.name, work)
        told.append(Notice(key, "begins", "note", f"{sheet.name}: {article} {work} has begun"))
    return told


def _work_ended(memory: ArrayMemory, sheet: Sheet) -> Notice:
    work, scrub = memory.work, sheet.scrub
    key, over = AlarmKey(AlarmKind.ARRAY, sheet.name, work), f"{sheet.name}: the {work} is over"
    if work == "scrub":
        if sheet.state.missing or scrub.complete is False:
            at = "" if memory.work_share is None else f" near {format_percent(memory.work_share)}"
            return Notice(key, "changes", "warning", f"{sheet.name}: the scrub stopped{at}: it is not complete")
        if scrub.complete is None or scrub.mismatches is None:
            return Notice(key, "ends", "note", f"{over}; what it found is not reported")
        found = mismatch_words(sheet, scrub.mismatches) if scrub.mismatches else "no mismatches"
        return Notice(key, "ends", "warning" if scrub.mismatches else "note", f"{over}: {found}")
    if sheet.is_whole:
        return Notice(key, "ends", "note", over)
    return Notice(key, "changes", "error", f"{sheet.name}: the {work} has stopped: it is not complete")


def member_key(sheet: Sheet, name: str) -> AlarmKey:
    """With its array, since controllers number their disks anew: two of them may each have a `p1`."""
    return AlarmKey(AlarmKind.MEMBER, sheet.name, name)


def _members(memory: ArrayMemory, sheet: Sheet) -> list[Notice]:
    told = []
    states = {member.name: member.state for member in sheet.members if member.name != "–"}
    works = sheet.state.name not in ("unknown", "failed")
    for name, state in states.items():
        key = member_key(sheet, name)
        if state == "faulty" and memory.members.get(name) is not MemberHealth.FAULTY:
            memory.members[name] = MemberHealth.FAULTY
            words = f"{name}, a member of {sheet.name}, is faulty"
            told.append(Notice(key, "begins", "error", words))
    for name, known in list(memory.members.items()):
        key = member_key(sheet, name)
        looks = memory.active_looks.pop(name, 0) + 1 if works and states.get(name) == "active" else 0
        if looks >= LOOKS_TO_END:
            del memory.members[name]
            told.append(Notice(key, "ends", "note", f"{name} is an active member of {sheet.name} again"))
        elif looks:
            memory.active_looks[name] = looks
        elif name not in states and known is MemberHealth.FAULTY:
            memory.members[name] = MemberHealth.REMOVED
            words = f"{name}, which was faulty, is not a member of {sheet.name} any more"
            told.append(Notice(key, "changes", "note", words))
        elif name not in states and memory.told is Health.WELL:
            del memory.members[name]
        if not looks:
            memory.active_looks.pop(name, None)
    return told

"""Duty: handlers of arrays, drives and alarms, and of the actions on them. Refusal: see `brickyard.managing`."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import deque
from dataclasses import replace
from threading import Condition, Thread
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from brickyard import managing
from brickyard.errors import BadInputError, one_line
from brickyard.managing import (
    OF_ARRAYS,
    AlarmKey,
    Controller,
    Deed,
    Disk,
    Estate,
    HealthSample,
    HealthSheet,
    PaceSample,
    Sheet,
    Standing,
)
from brickyard.web.context import (
    Body,
    Nothing,
    ProblemError,
    Web,
    asked_of,
    asks,
    manages,
    note_refused,
    operates,
    path_of,
    query_of,
    reads,
    typed,
)
from brickyard.web.render import page, standing
from brickyard.web.results import part_of
from brickyard.web.sessions import Session

HOST = managing.Host()
WATCH_WORK_S, WATCH_BAD_S, WATCH_IDLE_S = 5.0, 30.0, 300.0
"""How often arrays are looked at while nobody has their page open: one that works, one that is not well, and whether
there is any of these."""
PACES_KEPT = 2160
"""Three hours of samples 5 s apart."""
PACE_OLD_S = 60.0
LOOK_AGAIN_S = 2.0
"""A controller's tool takes up to a second to answer; several browsers share one look."""
PATIENCE_S = 3.0
"""Our choice: tools that answer at all do so within a second or two; whoever asks for a page waits no longer."""
HANGS_S = 30.0
"""Our choice: asking each of a few dozen drives takes up to half a minute."""
HANGS = "a look at the arrays does not end, perhaps because a controller's tool hangs; what is shown is older"
AUDIT_SHOWN, AUDIT_MAX = 100, 1000
EVENTS_SHOWN = 100


class Looks:
    """The newest look at this host, shared by all who ask.

    A look has a thread of its own: a controller's tool may hang for two minutes, and whoever asks meanwhile gets what
    was seen last.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._found: Estate | None = None
        self._ended = 0
        """How many looks have ended that began after the last change."""
        self._changes, self._changes_seen = 0, 0
        """How many changes there were, and how many before the newest look began."""
        self._began_s: float | None = None
        """When the look began that is under way."""
        self._drives_s = float("-inf")
        self._disks: list[Disk] = []
        self._controllers: list[Controller] = []
        self._counted: dict[str, tuple[float, dict[str, int]]] = {}
        self._paces: dict[str, deque[PaceSample]] = {}

    def now(self, *, may_ask_drives: bool = True, patience_s: float | None = None) -> Estate:
        """A look that is new enough, or the last one where none can be had soon; nobody waits for one that hangs.
        Drives are asked for somebody who looks alone: a run may be measuring them."""
        until_s = time.monotonic() + (PATIENCE_S if patience_s is None else patience_s)
        with self._changed:
            ended = self._ended
            while self._ended == ended and not self._is_new():
                if self._began_s is None:
                    self._began_s = time.monotonic()
                    work = Thread(target=self._work, args=(may_ask_drives,), name="arrays", daemon=True)
                    work.start()
                rest_s = min(until_s, self._began_s + PATIENCE_S) - time.monotonic()
                if rest_s <= 0:
                    break
                self._changed.wait(rest_s)
        return self.newest() or managing.failed_look("the first look at the arrays has not ended yet")

    def _is_new(self) -> bool:
        found = self._found
        is_of_now = self._changes_seen == self._changes
        return found is not None and is_of_now and 0 <= time.time() - found.unix_s < LOOK_AGAIN_S

    def _work(self, may_ask_drives: bool) -> None:
        """One look; what goes wrong with it is what it found."""
        with_drives = may_ask_drives and time.monotonic() - self._drives_s >= managing.DRIVES_EVERY_S
        changes = self._changes
        try:
            found = managing.estate(drives=with_drives)
            disks = managing.disks(HOST)
            controllers = managing.controllers(HOST, disks) if with_drives else self._controllers
        except Exception as error:  # a thread that ended without a word would leave the last look standing as if new
            words = one_line(error) or type(error).__name__
            found, disks, controllers, with_drives = managing.failed_look(words), self._disks, self._controllers, False
        with self._changed:
            self._disks, self._controllers = disks, controllers
            if with_drives:
                self._drives_s = time.monotonic()
            elif self._found is not None:
                found = replace(found, drives=self._found.drives)
            self._found = found if self._found is None else managing.remembered(found, self._found)
            self._began_s = None
            self._changes_seen = changes
            self._ended += changes == self._changes
            self._sample(found)
            self._changed.notify_all()

    def _sample(self, found: Estate) -> None:
        """What users got since the last look, beside the pace of the array's own work."""
        now_s = time.monotonic()
        for one in found.standings:
            sheet, counted = one.sheet, managing.user_counters(one.sheet)
            before = self._counted.pop(sheet.key, None)
            if counted is None:
                continue
            self._counted[sheet.key] = (now_s, counted)
            load = None if before is None else managing.user_load(before[1], counted, now_s - before[0])
            if load is None or before is None or now_s - before[0] > PACE_OLD_S:
                continue
            state = sheet.state
            sample = PaceSample(
                found.unix_s,
                state.name,
                state.progress_share,
                state.rate_bytes_per_s,
                load.requests_per_s,
                load.bytes_per_s,
                load.service_ns,
            )
            self._paces.setdefault(sheet.key, deque(maxlen=PACES_KEPT)).append(sample)
        known = {one.sheet.key for one in found.standings}
        self._paces = {key: kept for key, kept in self._paces.items() if key in known}

    def paces(self, key: str) -> list[PaceSample]:
        with self._changed:
            return list(self._paces.get(key, ()))

    def disks(self) -> list[Disk]:
        self.now()
        return self._disks

    def controllers(self) -> list[Controller]:
        self.now()
        return self._controllers

    def known(self, word: str) -> Sheet | None:
        """The array that an address means, as it was seen last."""
        found = self._found
        every = [] if found is None else [*found.standings, *found.lost]
        return next((one.sheet for one in every if word_of(one) == word), None)

    @property
    def drives_known(self) -> bool:
        """Whether the drives have been asked for their health yet."""
        return self._drives_s > float("-inf")

    def newest(self) -> Estate | None:
        """What the last look found, however long ago that was, and that the next one hangs."""
        found, began_s = self._found, self._began_s
        if began_s is None or time.monotonic() - began_s < HANGS_S:
            return found
        if found is None:
            return managing.failed_look(HANGS)
        return replace(found, problems=[HANGS, *found.problems])

    def rest_s(self) -> float:
        """How long to wait with the next look, by what the last one found."""
        found = self._found
        standings = found.standings if found is not None else []
        if any(one.sheet.state.name in managing.UNDER_WAY for one in standings):
            return WATCH_WORK_S
        is_bad = found is None or found.problems or any(one.severity != "well" for one in standings)
        return WATCH_BAD_S if is_bad else WATCH_IDLE_S

    def forget(self) -> None:
        """The next who asks gets a new look; what drives told is kept, as they are asked rarely."""
        with self._changed:
            self._changes += 1


looks = Looks()


async def watch_work() -> None:
    """Until it is cancelled: the pace of rebuilds and scrubs is known also of the time before a page was opened, and
    an array that is not well stands on every page."""
    while True:
        await run_in_threadpool(lambda: looks.now(may_ask_drives=False))
        await asyncio.sleep(looks.rest_s())


def word_of(one: Standing) -> str:
    """What stands for an array in an address: its key may hold anything."""
    return hashlib.sha256(one.sheet.key.encode()).hexdigest()[:16]


def document_of(one: Standing) -> dict[str, object]:
    return {
        **one.sheet.document(),
        "id": word_of(one),
        "health": one.health.value,
        "findings": one.findings,
        "holder": one.holder,
        "left_s": one.left_s,
        "actions": managing.possible(one.sheet),
    }


def _named(word: str) -> Standing:
    found = next((one for one in looks.now().standings if word_of(one) == word), None)
    if found is None:
        raise _unfound(word)
    return found


def _unfound(word: str) -> ProblemError:
    newest = looks.newest()
    lost = next((one for one in newest.lost if word_of(one) == word), None) if newest is not None else None
    if lost is None:
        return ProblemError(404, "no such array; it may be gone")
    return ProblemError(503, f"{lost.sheet.name} cannot be looked at now; the page of all arrays says why")


def _array_of(request: Request) -> Standing:
    return _named(path_of(request).array)


@reads
def arrays_page(request: Request, web: Web) -> Response:
    values = {
        "title": "Arrays",
        "estate": looks.now(),
        "word_of": word_of,
        "devices": managing.devices(),
        "disks": _disk_rows(),
        "controllers": looks.controllers(),
        "drives_known": looks.drives_known,
        "audit": web.audit.newest(AUDIT_SHOWN),
    }
    return page(request, "arrays.html", values)


class DiskRow(msgspec.Struct, frozen=True):
    """A disk with what it tells of its health, where it does."""

    disk: Disk
    told: HealthSheet


def _disk_rows() -> list[DiskRow]:
    told = {drive.name: drive.told for drive in looks.now().drives}
    return [DiskRow(disk, told.get(disk.name, HealthSheet())) for disk in looks.disks()]


@reads
def disk_page(request: Request, web: Web) -> Response:
    row = _disk_of(request)
    samples = web.trends.of(row.disk.identity)
    values = {
        "title": row.disk.name,
        "row": row,
        "samples": samples,
        "lines": [line for line in (_trend(samples, *asked) for asked in TRENDS) if line is not None],
        "arrays": [
            (one.sheet.name, word_of(one))
            for one in looks.now().standings
            if any(_is_on(member.name, row.disk.name) for member in one.sheet.members)
        ],
    }
    return page(request, "disk.html", values)


def _is_on(member: str, disk: str) -> bool:
    """Whether a member is a disk or one of its partitions: sda1 of sda, nvme0n1p1 of nvme0n1."""
    between = "p" if disk[-1:].isdigit() else ""
    return re.fullmatch(rf"/dev/{re.escape(disk)}({between}[0-9]+)?", member) is not None


def _disk_of(request: Request) -> DiskRow:
    name = path_of(request).disk
    found = next((row for row in _disk_rows() if row.disk.name == name), None)
    if found is None:
        raise ProblemError(404, "no such disk; it may be gone")
    return found


TRENDS = (
    ("temperature_celsius", "Temperature", "°C"),
    ("reallocated_sectors", "Reallocated sectors", ""),
    ("media_errors", "Media errors", ""),
    ("percentage_used", "Used of its rated life", "%"),
    ("available_spare_percent", "Spare left", "%"),
)
WIDE, HIGH = 600.0, 120.0


class TrendLine(msgspec.Struct, frozen=True):
    """One figure as a line in a box of 600 × 120."""

    title: str
    unit: str
    points: str
    low: int
    high: int
    first: int
    last: int


def _trend(samples: list[HealthSample], field: str, title: str, unit: str) -> TrendLine | None:
    known = [(one.unix_s, value) for one in samples if (value := getattr(one, field)) is not None]
    if not known:
        return None
    values = [value for _, value in known]
    low, high = min(values), max(values)
    begin_s, span_s = known[0][0], max(known[-1][0] - known[0][0], 1.0)
    steps = [(WIDE * (at - begin_s) / span_s, HIGH - HIGH * (value - low) / max(high - low, 1)) for at, value in known]
    if len(steps) == 1:
        steps.append((WIDE, steps[0][1]))
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in steps)
    return TrendLine(title, unit, points, low, high, values[0], values[-1])


@reads
def api_disks(request: Request, web: Web) -> Any:
    return {
        "disks": [{**_disk_document(row.disk), "health": row.told} for row in _disk_rows()],
        "controllers": [dict(vars(one)) for one in looks.controllers()],
    }


def _disk_document(disk: Disk) -> dict[str, object]:
    slot = disk.slot
    place = None if slot is None else {"enclosure": slot.enclosure, "slot": slot.slot, "locate": slot.locate}
    return {**vars(disk), "slot": place}


@reads
def api_trends(request: Request, web: Web) -> Any:
    row = _disk_of(request)
    return {"disk": row.disk.name, "samples": web.trends.of(row.disk.identity)}


@reads
def array_page(request: Request, web: Web) -> Response:
    one = _array_of(request)
    names = {member.name for member in one.sheet.members}
    values = {
        "title": one.sheet.name,
        "one": one,
        "word": word_of(one),
        "actions": managing.possible(one.sheet),
        "devices": [device for device in managing.devices() if device not in names],
        "alarms": [alarm for alarm in web.alarms.all() if _is_about(one.sheet, alarm.key)],
        "events": [event for event in web.alarms.events if _is_about(one.sheet, event.key)][:EVENTS_SHOWN],
        "audit": web.audit.newest(AUDIT_SHOWN, array=one.sheet.key),
        "now_s": time.time(),
        "disks": {f"/dev/{disk.name}": disk.name for disk in looks.disks()},
        "plan": web.scrubs.all().get(one.sheet.key),
        "scrubs_work": web.alarms.manages and web.alarms.is_watched(),
    }
    return page(request, "array.html", values)


def _is_about(sheet: Sheet, key: AlarmKey) -> bool:
    """Whether an alarm or event is about this array or one of its members."""
    return key.kind in OF_ARRAYS and key.name == sheet.name


@reads
def api_arrays(request: Request, web: Web) -> Any:
    found = looks.now()
    return {
        "arrays": [document_of(one) for one in found.standings],
        "drives": [{"name": drive.name, **msgspec.to_builtins(drive.told)} for drive in found.drives],
        "file_systems": [
            {"place": one.place, "kind": one.kind, "read_only": one.read_only, "used_share": one.used_share}
            for one in found.file_systems
        ],
        "problems": found.problems,
        "lost": [document_of(one) for one in found.lost],
        "left": found.left,
        "looked_unix_s": found.unix_s,
        "manage": web.manage,
        "devices": managing.devices(),
    }


@reads
def api_array(request: Request, web: Web) -> Any:
    one = _array_of(request)
    return {**document_of(one), "schedule": web.scrubs.all().get(one.sheet.key)}


@reads
def api_pace(request: Request, web: Web) -> Any:
    """The pace of the array's own work beside what its users get."""
    return {"samples": looks.paces(_array_of(request).sheet.key)}


class DeedBody(msgspec.Struct, frozen=True):
    action: str
    array: str
    """The `id` of an array, or the device of one that is to be made."""
    confirm: str
    device: str = ""
    other: str = ""
    names: list[str] = []
    level: str = ""
    rate: str = ""
    days: str | int = ""
    window: str = ""
    destroys_data: bool = False


@manages
def api_do(request: Request, web: Web, body: Body, session: Session) -> Any:
    try:
        deed = _deed(body)
    except ProblemError as refusal:
        note_refused(web, session, asked_of(web, body), refusal.text)
        raise
    if not web.manage:
        note_refused(web, session, asked_of(web, body), "without --manage")
        raise ProblemError(403, "arrays are only changed where `brickyard web` was started with --manage")
    try:
        words = managing.do(deed, session.who, web.audit, manage=web.manage, plans=web.scrubs, host=HOST)
    finally:
        looks.forget()
    return {"done": words}


def _deed(body: Body) -> Deed:
    asked = typed(body, DeedBody)
    if any(len(text) > 500 for text in (asked.array, asked.confirm, asked.device, asked.other, *asked.names)):
        raise ProblemError(400, "a name is too long")
    known = None if asked.action in ("create", *managing.LEDS) else _named(asked.array).sheet
    return Deed(
        asked.action[:40],
        asked.array if known is None else known.key,
        asked.confirm,
        name="" if known is None else known.name,
        device=asked.device,
        other=asked.other,
        names=tuple(asked.names[:64]),
        level=asked.level[:20],
        rate=asked.rate[:20],
        days=str(asked.days)[:20],
        window=asked.window[:20],
        destroys_data=asked.destroys_data,
    )


@reads
@asks("array", "first", "count")
def api_audit(request: Request, web: Web) -> Any:
    first, count = part_of(request, AUDIT_SHOWN, AUDIT_MAX)
    return {"first": first, "audit": web.audit.newest(count, first, _audited(request)[1])}


def _audited(request: Request) -> tuple[str, str]:
    """The array whose lines are asked for, as its address has it and by its key; empty for all."""
    word = query_of(request).array
    return word, _named(word).sheet.key if word else ""


@reads
@asks("array", "first", "count")
def audit_page(request: Request, web: Web) -> Response:
    first, count = part_of(request, AUDIT_SHOWN, AUDIT_MAX)
    word, array = _audited(request)
    found = web.audit.newest(count + 1, first, array)
    values = {
        "title": "Audit log",
        "audit": found[:count],
        "first": first,
        "count": count,
        "array": word,
        "has_older": len(found) > count,
    }
    return page(request, "audit_page.html", values)


@reads
def alarms_page(request: Request, web: Web) -> Response:
    found = web.alarms.all()
    values = {
        "title": "Alarms",
        "open": [alarm for alarm in found if alarm.is_open],
        "over": [alarm for alarm in found if not alarm.is_open],
        "looked_s": web.alarms.looked_s,
        "ways": web.alarms.ways,
        "test": web.alarms.test,
        "events": web.alarms.events[:EVENTS_SHOWN],
    }
    return page(request, "alarms.html", values)


@reads
def api_alarms(request: Request, web: Web) -> Any:
    return {
        "alarms": web.alarms.all(),
        "looked_unix_s": web.alarms.looked_s,
        "standing": standing(web),
        "ways": web.alarms.ways,
        "test": web.alarms.test,
        "events": web.alarms.events[:EVENTS_SHOWN],
    }


class Acknowledged(msgspec.Struct, frozen=True):
    key: str


@operates
def api_acknowledge(request: Request, web: Web, body: Body, session: Session) -> Any:
    try:
        return web.alarms.acknowledge(typed(body, Acknowledged).key, session.who)
    except BadInputError as error:
        raise ProblemError(409, str(error)) from error


@operates
def api_test(request: Request, web: Web, body: Body, session: Session) -> Any:
    """Asks the watch for a test message by all its ways; what became of it is in `test` of /api/alarms."""
    typed(body, Nothing)
    try:
        return web.alarms.ask_test(session.who)
    except BadInputError as error:
        raise ProblemError(409, str(error)) from error

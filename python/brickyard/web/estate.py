"""Duty: handlers of arrays, drives and alarms, and of the actions on them. Refusal: see `brickyard.managing`."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from threading import Lock
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from brickyard import managing
from brickyard.errors import BadInputError
from brickyard.managing import Deed, Estate, Standing
from brickyard.web.context import Body, ProblemError, Web, operates, reads, typed
from brickyard.web.render import page, standing
from brickyard.web.sessions import Session

LOOK_AGAIN_S = 2.0
"""A controller's tool takes up to a second to answer; several browsers share one look."""
DRIVES_EVERY_S = 600.0
AUDIT_SHOWN = 100


class Looks:
    """The newest look at this host, shared by all who ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: Estate | None = None
        self._drives_s = float("-inf")

    def now(self) -> Estate:
        with self._lock:
            if self._found is None or not 0 <= time.time() - self._found.unix_s < LOOK_AGAIN_S:
                with_drives = time.monotonic() - self._drives_s >= DRIVES_EVERY_S
                found = managing.estate(drives=with_drives)
                if with_drives:
                    self._drives_s = time.monotonic()
                elif self._found is not None:
                    found = replace(found, drives=self._found.drives)
                self._found = found
            return self._found

    def forget(self) -> None:
        with self._lock:
            self._found = None


looks = Looks()


def word_of(one: Standing) -> str:
    """What stands for an array in an address: its key may hold anything."""
    return hashlib.sha256(one.sheet.key.encode()).hexdigest()[:16]


def document_of(one: Standing) -> dict[str, Any]:
    return {
        **one.sheet.document(),
        "id": word_of(one),
        "health": one.health.value,
        "findings": one.findings,
        "holder": one.holder,
        "left_s": one.left_s,
    }


def _named(word: str) -> Standing:
    found = next((one for one in looks.now().standings if word_of(one) == word), None)
    if found is None:
        raise ProblemError(404, "no such array; it may be gone")
    return found


@reads
def arrays_page(request: Request, web: Web) -> Response:
    values = {
        "title": "Arrays",
        "estate": looks.now(),
        "word_of": word_of,
        "devices": managing.devices(),
        "audit": web.audit.newest(AUDIT_SHOWN),
    }
    return page(request, "arrays.html", values)


@reads
def array_page(request: Request, web: Web) -> Response:
    one = _named(request.path_params["array"])
    names = {member.name for member in one.sheet.members}
    values = {
        "title": one.sheet.name,
        "one": one,
        "word": word_of(one),
        "devices": [device for device in managing.devices() if device not in names],
        "alarms": [alarm for alarm in web.alarms.all() if one.sheet.name in alarm.text],
        "audit": [line for line in web.audit.newest(AUDIT_SHOWN) if one.sheet.key == line["asked"].get("array")],
    }
    return page(request, "array.html", values)


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
        "left": found.left,
        "looked_unix_s": found.unix_s,
        "manage": web.manage,
        "devices": managing.devices(),
    }


@reads
def api_array(request: Request, web: Web) -> Any:
    return document_of(_named(request.path_params["array"]))


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
    destroys_data: bool = False


@operates
def api_do(request: Request, web: Web, body: Body, session: Session) -> Any:
    asked = typed(body, DeedBody)
    if any(len(text) > 500 for text in (asked.array, asked.confirm, asked.device, asked.other, *asked.names)):
        raise ProblemError(400, "a name is too long")
    key = asked.array if asked.action == "create" else _named(asked.array).sheet.key
    deed = Deed(
        asked.action[:40],
        key,
        asked.confirm,
        device=asked.device,
        other=asked.other,
        names=tuple(asked.names[:64]),
        level=asked.level[:20],
        rate=asked.rate[:20],
        destroys_data=asked.destroys_data,
    )
    if not web.manage:
        web.audit.note(session.who, "refused", {"action": deed.action, "array": key}, "without --manage")
        raise ProblemError(403, "arrays are only changed where `brickyard web` was started with --manage")
    try:
        words = managing.do(deed, session.who, web.audit, manage=web.manage)
    finally:
        looks.forget()
    return {"done": words}


@reads
def api_audit(request: Request, web: Web) -> Any:
    return {"audit": web.audit.newest(AUDIT_SHOWN)}


@reads
def alarms_page(request: Request, web: Web) -> Response:
    found = web.alarms.all()
    values = {
        "title": "Alarms",
        "open": [alarm for alarm in found if alarm.is_open],
        "over": [alarm for alarm in found if not alarm.is_open],
        "looked_s": web.alarms.looked_s,
    }
    return page(request, "alarms.html", values)


@reads
def api_alarms(request: Request, web: Web) -> Any:
    return {"alarms": web.alarms.all(), "looked_unix_s": web.alarms.looked_s, "standing": standing(web)}


class Acknowledged(msgspec.Struct, frozen=True):
    key: str


@operates
def api_acknowledge(request: Request, web: Web, body: Body, session: Session) -> Any:
    try:
        return web.alarms.acknowledge(typed(body, Acknowledged).key, session.who)
    except BadInputError as error:
        raise ProblemError(409, str(error)) from error

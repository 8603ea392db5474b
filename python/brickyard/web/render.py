"""Duty: templates to pages, with the state of the arrays on each of them. Refusal: no figure is made here, and no text
gets into a page but escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from brickyard.errors import BrickyardError
from brickyard.managing import AlarmKey, AlarmKind, Standing
from brickyard.printable import printable
from brickyard.units import (
    format_count,
    format_iops,
    format_mib_per_s,
    format_name,
    format_ns,
    format_percent,
    format_seconds,
    format_size,
    three_digits,
)
from brickyard.web.context import Web, web_of

PAGES = (("/", "Now"), ("/results", "Results"), ("/bricks", "Bricks"), ("/arrays", "Arrays"), ("/alarms", "Alarms"))

BELOW = {"compare": "/results", "advice": "/bricks", "disks": "/arrays", "audit": "/arrays"}
"""Pages that have no place of their own in the list."""


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("brickyard.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value, lines=True) if type(value) is str else value,
    )
    made.filters.update(
        ns=format_ns,
        size=lambda value: "–" if value is None else format_size(value),
        iops=format_iops,
        mib=format_mib_per_s,
        percent=format_percent,
        count=format_count,
        seconds=format_seconds,
        load=format_name,
        digits=lambda value: "–" if value is None else three_digits(value),
        moment=_moment,
        iso=lambda unix_s: datetime.fromtimestamp(unix_s).astimezone().isoformat(timespec="seconds"),
        share=lambda value: f"{value:+.1%}",
    )
    return made


def load() -> None:
    """Compiles all templates, which the first who asks would wait for."""
    for name in _templates().list_templates(["html"]):
        _templates().get_template(name)


def _moment(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s).astimezone().strftime("%Y-%m-%d %H:%M")


def page(request: Request, name: str, values: Mapping[str, object], status: int = 200) -> Response:
    session = getattr(request.state, "session", None)
    path = request.url.path
    here = next((place for place, _ in reversed(PAGES) if path == place or path.startswith(f"{place}/")), "/")
    common = {
        "session": session,
        "operator": session is not None and session.role == "operator",
        "csrf": session.csrf if session else "",
        "pages": PAGES,
        "here": BELOW.get(path.split("/")[1], here),
        "standing": standing(web_of(request)) if session else None,
        "manage": web_of(request).manage,
    }
    return HTMLResponse(_templates().get_template(name).render(**common, **values), status)


RANKS = {"well": 0, "note": 1, "warning": 2, "error": 3}


class TopAlarm(msgspec.Struct, frozen=True):
    """What stands on top of every page: the worst there is, how many alarms are open, and whether a watch runs."""

    severity: str
    text: str
    count: int
    watched: bool


def standing(web: Web) -> TopAlarm:
    """The worst of what the watch has raised and of what the page itself saw last.

    What could not be looked at is never well. Of an array that the watch knows better, its alarm stands, unless the
    page sees it worse; where no watch runs, an alarm that was repaired since is not as bad as it was.
    """
    try:
        alarms = [alarm for alarm in web.alarms.all() if alarm.is_open]
        looked_s, watched = web.alarms.looked_s, web.alarms.is_watched()
    except BrickyardError as error:
        return TopAlarm("error", str(error), 0, False)
    nobody = "" if watched else "no watch is running" if not looked_s else "the watch has stopped"
    newest = web.newest()
    seen = {_key(one): one for one in newest.standings} if newest is not None else {}
    found = [] if newest is None else [("warning", f"could not be looked at: {one}") for one in newest.problems]
    severities = {}
    for alarm in alarms:
        shown = alarm.severity, alarm.text
        if not watched:
            shown = _unwatched(alarm.severity, alarm.text, seen.get(alarm.key))
        severities[alarm.key] = _rank(shown[0])
        found.append(shown)
    lost = {_key(one): one for one in newest.lost} if newest is not None else {}
    for key, one in {**lost, **seen}.items():
        if _rank(one.severity) > severities.get(key, RANKS["well"]):
            health = one.health.value if key in seen else f"{one.health.value} when it was last looked at"
            words = f"{one.sheet.name} ({one.sheet.level}): {health}"
            found.append((one.severity, f"{words}; {nobody}" if nobody else words))
    if not found:
        severity = "well" if watched else "warning" if looked_s else "note"
        return TopAlarm(severity, nobody or "no alarm", 0, watched)
    severity, text = max(found, key=lambda one: _rank(one[0]))
    return TopAlarm(severity, text, len(found), watched)


def _key(one: Standing) -> AlarmKey:
    return AlarmKey(AlarmKind.ARRAY, one.sheet.name)


def _rank(severity: str) -> int:
    """What is not known is as bad as it gets."""
    return RANKS.get(severity, RANKS["error"])


def _unwatched(severity: str, text: str, seen: Standing | None) -> tuple[str, str]:
    """An alarm of a watch that has stopped; of an array that the page itself sees, how that is now."""
    if seen is not None and seen.severity == "well":
        return "warning", f"{text} (the watch has stopped since; the array looks well now)"
    return severity, f"{text} (the watch has stopped since)"

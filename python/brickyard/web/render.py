"""Duty: templates to pages, with the state of the arrays on each of them. Refusal: no figure is made here, and no text
gets into a page but escaped.
"""

from __future__ import annotations

import time
from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from brickyard.errors import BrickyardError
from brickyard.managing import LOOK_OLD_S
from brickyard.printable import printable
from brickyard.units import (
    format_count,
    format_iops,
    format_mib_per_s,
    format_ns,
    format_percent,
    format_seconds,
    format_size,
    three_digits,
)
from brickyard.web.context import Web, web_of

PAGES = (("/", "Now"), ("/results", "Results"), ("/bricks", "Bricks"), ("/arrays", "Arrays"), ("/alarms", "Alarms"))

BELOW = {"compare": "/results", "advice": "/bricks", "disks": "/arrays"}
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
        digits=lambda value: "–" if value is None else three_digits(value),
        moment=_moment,
        iso=lambda unix_s: datetime.fromtimestamp(unix_s).astimezone().isoformat(timespec="seconds"),
        share=lambda value: f"{value:+.1%}",
    )
    return made


def _moment(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s).astimezone().strftime("%Y-%m-%d %H:%M")


def page(request: Request, name: str, values: dict[str, Any], status: int = 200) -> Response:
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


def standing(web: Web) -> dict[str, Any]:
    """The worst alarm, which every page has on top; also that nobody watches, where arrays are known to be watched."""
    try:
        alarms = [alarm for alarm in web.alarms.all() if alarm.is_open]
        looked_s = web.alarms.looked_s
    except BrickyardError as error:
        return {"severity": "error", "text": str(error), "count": 0, "watched": False}
    watched = 0 <= time.time() - looked_s < LOOK_OLD_S
    if not alarms:
        text = "no alarm" if watched else "no watch is running" if not looked_s else "the watch has stopped"
        severity = "well" if watched else "warning" if looked_s else "note"
        return {"severity": severity, "text": text, "count": 0, "watched": watched}
    worst = alarms[0]
    said = worst.text if watched else f"{worst.text} (the watch has stopped since)"
    return {"severity": worst.severity, "text": said, "count": len(alarms), "watched": watched}

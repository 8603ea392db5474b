"""Duty: handlers of modelled bricks: the list, a sheet, what if, advice. Refusal: see `brickyard.modelling`."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from brickyard import modelling
from brickyard.modelling import AdviceAsked, WhatIf
from brickyard.web.context import Body, ProblemError, Web, operates_costly, path_of, reads, typed
from brickyard.web.guard import PICTURE_POLICY
from brickyard.web.render import page
from brickyard.web.sessions import Session


@reads
def bricks_page(request: Request, web: Web) -> Response:
    return page(request, "bricks.html", {"title": "Bricks", "bricks": modelling.rows()})


@reads
def brick_page(request: Request, web: Web) -> Response:
    sheet = modelling.sheet(path_of(request).name)
    values = {
        "title": sheet.row.name,
        "sheet": sheet,
        "workloads": modelling.workloads(),
        "drives": modelling.drives(),
        "levels": modelling.LEVELS,
        "conditions": modelling.CONDITIONS,
        "values": list(flat(sheet.brick)),
    }
    return page(request, "brick.html", values)


def flat(value: Any, path: str = "") -> list[tuple[str, str]]:
    """A nested document as lines of path and value."""
    if isinstance(value, dict):
        return [line for key, one in value.items() for line in flat(one, f"{path}.{key}" if path else key)]
    return [] if value in (None, "", []) else [(path, str(value))]


@reads
def api_bricks(request: Request, web: Web) -> Any:
    return {"bricks": modelling.rows()}


@reads
def api_brick(request: Request, web: Web) -> Any:
    return modelling.sheet(path_of(request).name)


class WhatIfBody(msgspec.Struct, frozen=True):
    """Empty text leaves as it is."""

    name: str
    workload: str
    level: str = ""
    members: str | int = ""
    cache_mib: str | int = ""
    drive: str = ""
    condition: str = "normal"


@operates_costly("predictions")
def api_what_if(request: Request, web: Web, body: Body, session: Session) -> Any:
    asked = typed(body, WhatIfBody)
    return modelling.what_if(
        WhatIf(
            asked.name,
            asked.workload,
            level=asked.level or None,
            members=_count(asked.members, "members", 1000),
            cache_mib=_count(asked.cache_mib, "cache_mib", 1 << 20),
            drive=asked.drive or None,
            condition=asked.condition,
        )
    )


def _count(value: str | int, what: str, most: int) -> int | None:
    text = str(value).strip()
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) > most:
        raise ProblemError(400, f"{what}: a whole number up to {most}")
    return int(text)


@reads
def advice_page(request: Request, web: Web) -> Response:
    values = {
        "title": "Advice",
        "workloads": modelling.workloads(),
        "requirements": modelling.requirements(),
        "conditions": modelling.CONDITIONS,
    }
    return page(request, "advice.html", values)


class AdviceBody(msgspec.Struct, frozen=True):
    workload: str
    require: list[str]
    capacity: str = ""
    budget: str | float = ""
    fastest: bool = False
    conditions: list[str] = []


@operates_costly("predictions")
def api_advice(request: Request, web: Web, body: Body, session: Session) -> Any:
    asked = typed(body, AdviceBody)
    try:
        budget = float(asked.budget) if str(asked.budget).strip() else None
    except ValueError as error:
        raise ProblemError(400, "budget: a number of USD") from error
    if len(asked.require) > 10 or any(len(word) > 100 for word in asked.require):
        raise ProblemError(400, "at most 10 requirements")
    found = modelling.advise(
        AdviceAsked(
            asked.workload,
            tuple(word.strip() for word in asked.require if word.strip()),
            capacity=asked.capacity.strip()[:40],
            budget_usd=budget,
            fastest=asked.fastest,
            conditions=tuple(asked.conditions) or modelling.DEFAULT_CONDITIONS,
        )
    )
    shown = found.found.ranked or found.found.trials[-4:]
    return {
        **found.answer.document(),
        "met": bool(found.found.ranked),
        "found": [trial.document() for trial in shown],
        "simulated": len(found.found.trials),
        "not_simulated": found.found.left_out,
        "without_price": found.unpriced,
        "years": found.years,
        "assumptions": found.assumptions,
        "unit": "MiB/s" if found.throughput else "requests/s",
        "conditions": found.conditions,
        "picture": f"/pictures/advice/{_kept(found.picture)}.svg" if found.picture else "",
    }


_drawn: OrderedDict[str, str] = OrderedDict()
DRAWN_MAX = 20


def _kept(svg: str) -> str:
    """The name by which the picture can be asked for, for a while."""
    name = hashlib.sha256(svg.encode()).hexdigest()[:24]
    _drawn[name] = svg
    while len(_drawn) > DRAWN_MAX:
        _drawn.popitem(last=False)
    return name


@reads
def advice_picture(request: Request, web: Web) -> Response:
    svg = _drawn.get(path_of(request).name)
    if svg is None:
        raise ProblemError(404, "this picture is no longer kept; ask again")
    return Response(svg, media_type="image/svg+xml", headers={"Content-Security-Policy": PICTURE_POLICY})

"""Duty: the table of addresses, and the application that serves them. Refusal: each handler says itself who may ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import cache
from importlib import resources
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from brickyard import browsing
from brickyard.errors import BrickyardError
from brickyard.following import Follower
from brickyard.web import estate, now, planning, render, results
from brickyard.web.context import (
    COOKIE,
    ProblemError,
    Web,
    address_of,
    answer,
    answer_problem,
    body_of,
    path_of,
    query_of,
    reads,
    session_of,
    typed,
    wants_json,
    web_of,
)
from brickyard.web.guard import Guarded, Origins
from brickyard.web.hub import BROWSERS_MAX, EventStream, Hub
from brickyard.web.render import page, standing
from brickyard.web.tokens import Role

STATIC_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


@cache
def _static() -> dict[str, tuple[bytes, str]]:
    """Every file that is served, by its name; no other is ever opened."""
    home = resources.files("brickyard.web") / "static"
    found = {item.name: item.read_bytes() for item in home.iterdir()}
    return {
        name: (content, STATIC_TYPES[name.rpartition(".")[2]])
        for name, content in found.items()
        if name.rpartition(".")[2] in STATIC_TYPES
    }


async def static(request: Request) -> Response:
    found = _static().get(path_of(request).name)
    if found is None:
        return PlainTextResponse("not here\n", 404)
    return Response(found[0], media_type=found[1], headers={"Cache-Control": "no-cache"})


async def login_page(request: Request) -> Response:
    try:
        if session_of(request) is not None:
            return RedirectResponse("/", 303)
    except ProblemError as problem:
        return answer_problem(request, problem)
    return page(request, "login.html", {"title": "Log in", "error": ""})


class Given(msgspec.Struct, frozen=True):
    """What a form says of whoever sends it."""

    token: str = ""
    csrf: str = ""


async def login(request: Request) -> Response:
    """A token for a session. Any answer to a wrong one is the same."""
    web, address = web_of(request), address_of(request)
    if "origin" not in request.headers and "sec-fetch-site" not in request.headers and "referer" in request.headers:
        return _login_again(request, 403, "this browser does not say which page asks")
    if not web.sessions.may_try(address):
        return _login_again(request, 429, "too many tries; wait a minute")
    try:
        given: Given = typed(await body_of(request), Given)
    except ProblemError as problem:
        return answer_problem(request, problem)
    if not web.sessions.may_try(address):  # many may have come while the body was waited for
        return _login_again(request, 429, "too many tries; wait a minute")
    made = web.sessions.login(given.token[:500].strip(), address)
    if made is None:
        await _note(web, f"a stranger at {address}", "refused", "login", "strangers")
        return _login_again(request, 401, "that token is not known")
    identifier, session = made
    await _note(web, session.who, "login", "login", f"logins {session.role} at {address}")
    response: Response = (
        answer({"role": session.role, "csrf": session.csrf}) if wants_json(request) else RedirectResponse("/", 303)
    )
    response.set_cookie(COOKIE, identifier, httponly=True, samesite="strict", secure=web.secure, path="/")
    return response


async def _note(web: Web, by: str, what: str, action: str, group: str) -> None:
    """In the audit log; on a full disk people can log in all the same."""
    with contextlib.suppress(BrickyardError):
        await run_in_threadpool(web.audit.note_often, group, by, what, {"action": action})


def _login_again(request: Request, status: int, text: str) -> Response:
    if wants_json(request):
        return answer({"error": text}, status)
    return page(request, "login.html", {"title": "Log in", "error": text}, status)


async def logout(request: Request) -> Response:
    web = web_of(request)
    try:
        session = session_of(request)
        if session is None:
            return RedirectResponse("/login", 303)
        given: Given = typed(await body_of(request), Given)
        if (request.headers.get("x-csrf-token") or given.csrf) != session.csrf:
            raise ProblemError(403, "the page is too old; load it again")
    except ProblemError as problem:
        return answer_problem(request, problem)
    web.sessions.logout(request.cookies.get(COOKIE, ""))
    await _note(web, session.who, "logout", "logout", f"logins {session.role} at {session.address}")
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=web.secure)
    return response


async def events(request: Request) -> Any:
    web = web_of(request)
    try:
        session = session_of(request)
    except ProblemError as problem:
        return answer_problem(request, problem)
    if session is None:
        return answer({"error": "log in first"}, 401)
    hub: Hub = request.app.state.hub
    if hub.browsers >= BROWSERS_MAX:
        return answer({"error": "too many browsers are watching"}, 503)
    last = request.headers.get("last-event-id") or query_of(request).last
    return EventStream(hub, last[:40], lambda: session.program or web.sessions.is_open(session))


@reads
def api_session(request: Request, web: Web) -> Any:
    session = request.state.session
    return {"role": session.role, "csrf": session.csrf, "manage": web.manage, "standing": standing(web)}


@reads
def api_index(request: Request, web: Web) -> Any:
    found = [
        {"path": route.path, "methods": sorted(set(route.methods or ()) - {"HEAD"}), "for": role_of(route)}
        for route in ROUTES
        if route.path.startswith("/api")
    ]
    return {"endpoints": found}


def role_of(route: Route) -> str:
    """Who may ask for an address: `anybody`, or the least role."""
    needs = getattr(route.endpoint, "needs", None)
    if needs is not None:
        return str(needs)
    return str(Role.READER) if route.endpoint is events else "anybody"


def _get(path: str, endpoint: Any) -> Route:
    return Route(path, endpoint, methods=["GET"])


def _post(path: str, endpoint: Any) -> Route:
    return Route(path, endpoint, methods=["POST"])


ROUTES: list[Route] = [
    _get("/", now.now_page),
    _get("/results", results.results_page),
    _get("/results/{run}", results.run_page),
    _get("/compare", results.compare_page),
    _get("/pictures/advice/{name}.svg", planning.advice_picture),
    _get("/pictures/{run}/{name}.svg", results.picture),
    _get("/download/{form}", results.download),
    _get("/bricks", planning.bricks_page),
    _get("/bricks/{name}", planning.brick_page),
    _get("/advice", planning.advice_page),
    _get("/arrays", estate.arrays_page),
    _get("/arrays/{array}", estate.array_page),
    _get("/disks/{disk}", estate.disk_page),
    _get("/alarms", estate.alarms_page),
    _get("/audit", estate.audit_page),
    _get("/login", login_page),
    _post("/login", login),
    _post("/logout", logout),
    _get("/static/{name}", static),
    _get("/api", api_index),
    _post("/api/login", login),
    _get("/api/session", api_session),
    _get("/api/now", now.api_now),
    _get("/api/events", events),
    _get("/api/targets", now.api_targets),
    _get("/api/profiles", now.api_profiles),
    _get("/api/profiles/{name}", now.api_profile),
    _post("/api/check", now.api_check),
    _get("/api/jobs", now.api_jobs),
    _post("/api/jobs", now.api_start),
    _post("/api/jobs/{name}/stop", now.api_stop),
    _get("/api/runs", results.api_runs),
    _get("/api/runs/{run}", results.api_run),
    _get("/api/runs/{run}/course", results.api_course),
    _get("/api/runs/{run}/pictures", results.api_pictures),
    _post("/api/runs/{run}/annotation", results.api_annotate),
    _get("/api/baselines", results.api_baselines),
    _post("/api/baselines", results.api_pin),
    _get("/api/thresholds", results.api_thresholds),
    _post("/api/thresholds", results.api_keep_thresholds),
    _get("/api/compare", results.api_compare),
    _get("/api/bricks", planning.api_bricks),
    _get("/api/bricks/{name}", planning.api_brick),
    _post("/api/what-if", planning.api_what_if),
    _post("/api/advice", planning.api_advice),
    _get("/api/arrays", estate.api_arrays),
    _get("/api/arrays/{array}", estate.api_array),
    _get("/api/arrays/{array}/pace", estate.api_pace),
    _get("/api/disks", estate.api_disks),
    _get("/api/disks/{disk}/trends", estate.api_trends),
    _post("/api/arrays/do", estate.api_do),
    _get("/api/alarms", estate.api_alarms),
    _post("/api/alarms/acknowledge", estate.api_acknowledge),
    _post("/api/alarms/test", estate.api_test),
    _get("/api/audit", estate.api_audit),
]


async def _not_here(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    words = {404: "there is nothing at this address", 405: "this address is not asked so"}
    text = words.get(status, "the request cannot be served")
    if wants_json(request):
        return answer({"error": text}, status)
    return PlainTextResponse(text + "\n", status)


async def _unexpected(request: Request, error: Exception) -> Response:
    """No traceback reaches a browser."""
    return answer({"error": f"unexpected {type(error).__name__}; the server's log says more"}, 500)


def _load() -> None:
    """Beside the first requests, so that none of them takes the time of it."""
    browsing.load()
    render.load()


def make_app(web: Web, origins: Origins) -> Starlette:
    """One server's application."""

    web.newest, web.known = estate.looks.newest, estate.looks.known

    def others() -> dict[str, object]:
        return {"jobs": now.job_rows(web), "standing": standing(web)}

    hub = Hub(Follower(web.store), others)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(task) for task in (hub.run(), estate.watch_work(), run_in_threadpool(_load))]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await hub.end()
            await run_in_threadpool(web.audit.close)

    app = Starlette(
        routes=ROUTES,
        middleware=[Middleware(Guarded, origins=origins)],
        exception_handlers={404: _not_here, 405: _not_here, 500: _unexpected, HTTPException: _not_here},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.web, app.state.hub = web, hub
    return app

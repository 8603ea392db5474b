"""Duty: what all handlers share: the store, the sessions, what may be measured, and who may ask for what.

Refusal: it answers no request by itself.
"""

from __future__ import annotations

import functools
import hmac
import json
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from brickyard import Store, browsing, managing, modelling
from brickyard.browsing import Listing, Pictures
from brickyard.errors import BadInputError, BrickyardError, NotFoundError, nearest, one_line
from brickyard.jobs import Jobs, shown_database
from brickyard.managing import Estate, Sheet
from brickyard.printable import json_text
from brickyard.ready import ready
from brickyard.web.guard import UNSAFE
from brickyard.web.sessions import Session, Sessions
from brickyard.web.shares import BusyError, Share
from brickyard.web.tokens import Role

COOKIE = "brickyard_session"
LOOK = "x-brickyard-look"
"""Said by a page that asks by itself, with nobody at it."""
CSRF_HEADER = "x-csrf-token"
SCRATCH = "scratch"
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
SURROGATES = re.compile("[\ud800-\udfff]")


SHARES = {"predictions": (1, 4), "downloads": (2, 4), "comparisons": (2, 8), "pictures": (1, 60)}
"""Of each kind of costly requests how many run at once, and how many more wait: our choice. A model takes a core, which
a run may need; a report of many runs takes much memory; a page asks for all its pictures at once."""


class ProblemError(Exception):
    """An answer that is not what was asked for."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


@dataclass(frozen=True)
class Target:
    """What may be measured, by the word that a browser says for it."""

    word: str
    title: str
    kind: str
    """`scratch`, `model`, `device` or `allowed`."""
    paths: tuple[str, ...]


@dataclass
class Web:
    """One server."""

    store: Path | None
    sessions: Sessions
    state: Path
    """The folder of jobs, alarms and the audit log."""
    manage: bool = False
    allowed: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()
    """Files of traces that may be replayed."""
    logs: tuple[str, ...] = ()
    mappings: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()
    """Web logs that may be replayed, files that map their requests to calls, and connection strings without
    passwords."""
    secure: bool = False
    newest: Callable[[], Estate | None] = lambda: None
    """The newest look at the arrays of this host, however old; whoever asks makes no look."""
    known: Callable[[str], Sheet | None] = lambda _: None
    """An array of that look, by the word that a browser says for it."""
    starting: Lock = field(default_factory=Lock)
    """One start at a time, so that two tabs do not take one target."""

    def __post_init__(self) -> None:
        self.shares = {name: Share(*limits) for name, limits in SHARES.items()}
        self.listing = Listing(self.store)
        self.pictures = Pictures(self.store)
        self.jobs = Jobs(self.state / "jobs")
        self.audit = managing.AuditLog(self.state / "audit.jsonl")
        self.alarms = managing.AlarmBook(self.state / "alarms.json")
        self.scrubs = managing.ScrubBook(self.state / "scrubs.json")
        self.trends = managing.TrendBook(self.state / "health.json")
        self.thresholds = browsing.Thresholds(self.state / "thresholds.json")

    def named_databases(self) -> dict[str, str]:
        """Connection strings by what is shown of them."""
        return {shown_database(dsn): dsn for dsn in self.databases}

    def opened(self) -> Store:
        return Store(self.store)

    def targets(self) -> dict[str, Target]:
        found = [Target(SCRATCH, "a scratch file, removed at the end", "scratch", ())]
        found += [Target(f"sim:{name}", f"modelled: {name}", "model", (f"sim:{name}",)) for name in _models()]
        found += [Target(path, path, "allowed", (path,)) for path in self.allowed]
        others = [path for path in managing.devices() if path not in self.allowed]
        found += [Target(path, f"{path}, reading only", "device", (path,)) for path in others]
        return {target.word: target for target in found}

    def target(self, word: str) -> Target:
        found = self.targets().get(word)
        if found is None:
            raise ProblemError(404, "no such target; choose one of the list, or start the server with --allow-target")
        return found


@functools.cache
def _models() -> list[str]:
    return modelling.names()


def web_of(request: Request) -> Web:
    found: Web = request.app.state.web
    return found


def address_of(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def session_of(request: Request) -> Session | None:
    """By a bearer token for programs, or by the cookie of a browser; which of both, `program` says from then on."""
    web = web_of(request)
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind:
        address = address_of(request)
        if kind.lower() != "bearer":
            return None
        if not web.sessions.may_try(address):
            raise ProblemError(429, "too many tries; wait a minute")
        role = web.sessions.bearer(token, address)
        return None if role is None else Session(role, "", 0.0, 0.0, "program", address, program=True)
    return web.sessions.find(request.cookies.get(COOKIE, ""), is_use=LOOK not in request.headers)


Handler = Callable[..., Awaitable[Response]]
Body = dict[str, Any]


def reads(handler: Callable[[Request, Web], Any]) -> Handler:
    """For whoever is logged in. The handler runs in a thread, so that it may read files and draw."""
    return _guarded(handler, Role.READER)


def reads_costly(share: str) -> Callable[[Callable[[Request, Web], Any]], Handler]:
    """As `reads`, of what costs much; see `SHARES`."""
    return functools.partial(_guarded, least=Role.READER, share=share)


def operates_costly(share: str) -> Callable[[Callable[[Request, Web, Body, Session], Any]], Handler]:
    """As `operates`, of what costs much."""
    return functools.partial(_guarded, least=Role.OPERATOR, share=share)


def operates(handler: Callable[[Request, Web, Body, Session], Any]) -> Handler:
    """For operators: a request that changes something, with a body and the token of its session's pages."""
    return _guarded(handler, Role.OPERATOR)


def manages(handler: Callable[[Request, Web, Body, Session], Any]) -> Handler:
    """As `operates`, of what the audit log has a line for, also where it is refused here."""
    return _guarded(handler, Role.OPERATOR, is_noted=True)


_Asking = TypeVar("_Asking", bound=Callable[..., Any])


def asks(*keys: str) -> Callable[[_Asking], _Asking]:
    """The keys that an address knows behind its path; one without this knows none."""

    def known(handler: _Asking) -> _Asking:
        handler.query_keys = keys  # type: ignore[attr-defined]
        return handler

    return known


def _guarded(handler: Callable[..., Any], least: Role, *, is_noted: bool = False, share: str = "") -> Handler:
    @functools.wraps(handler)
    async def guarded(request: Request) -> Response:
        web = web_of(request)
        try:
            session = session_of(request)
            if session is None:
                return _must_log_in(request)
            request.state.session = session
            _refuse_unknown(request.query_params, getattr(handler, "query_keys", ()))
            if request.method in UNSAFE:
                try:
                    body = await _checked(request, session, least)
                except ProblemError as refusal:
                    if is_noted:
                        await _note_refusal(request, web, session, refusal.text)
                    raise
                made = await _made(web, share, handler, request, web, body, session)
            else:
                _check_role(session, least)
                made = await _made(web, share, handler, request, web)
        except ProblemError as problem:
            return answer_problem(request, problem)
        return made if isinstance(made, Response) else answer(made)

    guarded.needs = least  # type: ignore[attr-defined]
    return guarded


async def _made(web: Web, share: str, handler: Callable[..., Any], *arguments: object) -> Any:
    if not share:
        return await run_in_threadpool(_calm, handler, *arguments)
    try:
        return await web.shares[share].run(_calm, handler, *arguments)
    except BusyError:
        raise ProblemError(503, f"too many {share} are requested at once; try again in a moment") from None


async def _checked(request: Request, session: Session, least: Role) -> Body:
    """The body of a request that changes something, from whoever may."""
    _check_role(session, least)
    _check_csrf(request, session)
    return await body_of(request)


def _check_role(session: Session, least: Role) -> None:
    if least is Role.OPERATOR and session.role is not Role.OPERATOR:
        raise ProblemError(403, "this session may only read; log in with the operator's token")


async def _note_refusal(request: Request, web: Web, session: Session, words: str) -> None:
    try:
        asked = asked_of(web, await body_of(request))
    except ProblemError:
        asked = {}
    await run_in_threadpool(_calm, note_refused, web, session, asked, words)


ASKED = ("action", "array", "device", "other", "level")
ASKED_LETTERS = 100
KEY_LETTERS = 60


def note_refused(web: Web, session: Session, asked: Mapping[str, object], words: str) -> None:
    """Whoever is refused can ask again at once, from any number of sessions."""
    web.audit.note_often(f"refused {session.role} at {session.address}", session.who, "refused", asked, words)


def asked_of(web: Web, body: Body) -> dict[str, str]:
    """What a request about arrays asks for, as far as it can be read; an array that is known with its name."""
    found = {name: text[:ASKED_LETTERS] for name in ASKED if isinstance(text := body.get(name), str)}
    known = web.known(found.get("array", ""))
    return found if known is None else {**found, "array": known.key, "name": known.name}


def _calm(handler: Callable[..., Any], *arguments: Any) -> Any:
    """What is refused or fails becomes an answer of one line."""
    try:
        return handler(*arguments)
    except BadInputError as error:
        raise ProblemError(404 if isinstance(error, NotFoundError) else 400, one_line(error)) from error
    except BrickyardError as error:
        raise ProblemError(500, one_line(error)) from error
    except sqlite3.Error as error:
        raise ProblemError(503, f"the store cannot be used now: {one_line(error)}; try again in a moment") from error
    except OSError as error:
        raise ProblemError(
            503, f"{one_line(error.strerror or 'the system refused it')}; try again in a moment"
        ) from error


def _check_csrf(request: Request, session: Session) -> None:
    """A request with a bearer token comes from no page; that of a browser says what only our pages know."""
    if session.program:
        return
    given = request.headers.get(CSRF_HEADER, "")
    if not session.csrf or not hmac.compare_digest(given.encode(), session.csrf.encode()):
        raise ProblemError(403, "the page is too old; load it again")


async def body_of(request: Request) -> Body:
    """The fields of a JSON document or a form."""
    try:
        raw = await request.body()
    except ClientDisconnect as error:
        raise ProblemError(413, "the request is too large") from error
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    try:
        if kind == JSON:
            found = json.loads(raw) if raw else {}
        elif kind == FORM and raw.lstrip().startswith(b"{"):
            raise ProblemError(415, f"the body is JSON, but its content type is {FORM}; send it as {JSON}")
        elif kind == FORM:
            found = dict(parse_qsl(raw.decode("utf-8"), keep_blank_values=True, max_num_fields=100))
        elif not raw:
            found = {}
        else:
            raise ProblemError(415, f"the body has no content type that is known; send it as {JSON}")
        if SURROGATES.search(json.dumps(found, ensure_ascii=False)):
            raise ProblemError(400, "the body has half a letter (an unpaired surrogate)")
    except (ValueError, RecursionError) as error:
        raise ProblemError(400, "the body is no JSON document") from error
    if not isinstance(found, dict):
        raise ProblemError(400, "the body must be a JSON object")
    return found


class PathWords(msgspec.Struct, frozen=True):
    """What stands in the path of a request, by the names that routes give it."""

    name: str = ""
    run: str = ""
    form: str = ""
    array: str = ""
    disk: str = ""


class QueryWords(msgspec.Struct, frozen=True):
    """What may stand behind the path, as it was written; `asks` says which of these an address knows."""

    q: str = ""
    profile: str = ""
    outcome: str = ""
    label: str = ""
    first: str = "0"
    count: str | None = None
    runs: str = ""
    before: str = ""
    after: str = ""
    array: str = ""
    last: str = ""


ready(PathWords, QueryWords)


def path_of(request: Request) -> PathWords:
    return msgspec.convert(request.path_params, PathWords)


def query_of(request: Request) -> QueryWords:
    return msgspec.convert(dict(request.query_params), QueryWords)


class Nothing(msgspec.Struct, frozen=True):
    """The body of a request that says all in its address."""


def _refuse_unknown(given: Iterable[str], known: Sequence[str]) -> None:
    if unknown := next((key for key in given if key not in known), None):
        key, listed = one_line(unknown)[:KEY_LETTERS], ", ".join(known)
        remedy = nearest(key, known, f"there are {listed}" if listed else "there are none here")
        raise ProblemError(400, one_line(BadInputError(f"{key}: no such key", remedy)))


def typed(body: Body, kind: type[Any]) -> Any:
    """The body as its type; what is missing, wrong or not known is named."""
    ready(kind)
    _refuse_unknown(body, [field.encode_name for field in msgspec.structs.fields(kind)])
    try:
        return msgspec.convert(body, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ProblemError(400, one_line(error)) from error


def answer(document: Any, status: int = 200) -> Response:
    """JSON, with controls and marks of direction escaped. Infinities and what is no number are null."""
    return Response(json_text(msgspec.json.encode(document, enc_hook=_plain).decode()), status, media_type=JSON)


def _plain(value: object) -> object:
    if isinstance(value, frozenset | tuple):
        return list(value)
    return str(value)


def wants_json(request: Request) -> bool:
    return request.url.path == "/api" or request.url.path.startswith("/api/")


def _must_log_in(request: Request) -> Response:
    if wants_json(request) or request.method in UNSAFE:
        response = answer({"error": "log in first, or send a token as Authorization: Bearer TOKEN"}, 401)
        response.headers["WWW-Authenticate"] = "Bearer"
        return response
    return RedirectResponse("/login", 303)


def answer_problem(request: Request, problem: ProblemError) -> Response:
    if wants_json(request) or request.method in UNSAFE:
        return answer({"error": problem.text}, problem.status)
    from brickyard.web.render import page

    return page(request, "problem.html", {"title": "That did not work", "text": problem.text}, problem.status)

"""Duty: what every request passes before anything looks at it: its Host, its size, and the headers of its answer.

Refusal: it knows no page and no session.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_MAX = 65_536
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""Of pictures and reports, which carry their styles in themselves and are never part of a page's document."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Origins:
    """The names by which this server may be called, with its scheme and port."""

    hosts: frozenset[str]
    scheme: str

    @staticmethod
    def of(names: Sequence[str], port: int, scheme: str) -> Origins:
        usual = 443 if scheme == "https" else 80
        hosts = {f"{_bracketed(name)}:{port}" for name in names}
        hosts |= {_bracketed(name) for name in names if port == usual}
        return Origins(frozenset(host.lower() for host in hosts), scheme)

    def has_host(self, host: str) -> bool:
        return host.lower() in self.hosts

    def has_origin(self, origin: str) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme == self.scheme and self.has_host(parts.netloc) and not parts.path


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name else name


class Guarded:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, origins: Origins) -> None:
        self.app = app
        self.origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # no web sockets here

        begun: list[bool] = []

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                begun.append(True)
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    if name not in headers:
                        headers[name] = value
                if self.origins.scheme == "https":
                    headers["Strict-Transport-Security"] = "max-age=31536000"
            await send(message)

        refusal = self._refusal(Headers(scope=scope), str(scope["method"]))
        if refusal is not None:
            await PlainTextResponse(refusal[1] + "\n", refusal[0])(scope, receive, dressed)
            return
        with contextlib.suppress(asyncio.CancelledError):  # the server ends, which is no error to be logged
            await self.app(scope, _bounded(receive), dressed)
            return
        if not begun:
            await PlainTextResponse("the server ends\n", 503)(scope, receive, dressed)

    def _refusal(self, headers: Headers, method: str) -> tuple[int, str] | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.origins.has_host(hosts[0]):
            return 421, "this server is not called so; start it with --host NAME to allow a name"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > BODY_MAX:
            return 413, "the request is too large"
        origin = headers.get("origin")
        if method in UNSAFE and origin is not None and not self.origins.has_origin(origin):
            return 403, "a page of another origin may not ask for this"
        if method in UNSAFE and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "a page of another site may not ask for this"
        return None


def _bounded(receive: Receive) -> Receive:
    """A body without a length, or longer than it says, ends where the limit is."""
    had = 0

    async def limited() -> Message:
        nonlocal had
        message = await receive()
        if message["type"] == "http.request":
            had += len(message.get("body", b""))
            if had > BODY_MAX:
                return {"type": "http.disconnect"}
        return message

    return limited

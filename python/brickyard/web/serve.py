"""Duty: the server's socket, its TLS and its end. Refusal: any address but this host's own needs TLS by files, and no
log has an address that was asked for.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from brickyard.errors import BadInputError, one_line
from brickyard.web.app import make_app
from brickyard.web.context import Web
from brickyard.web.guard import Origins
from brickyard.web.hub import Hub

CONNECTIONS_MAX = 512
GRACE_S = 3
BACKLOG = 256
UNREAD_MS = 20_000
"""A connection whose other end has taken nothing for so long is given up by the kernel, with what was still to be sent:
tcp(7), TCP_USER_TIMEOUT. Connections have it from the socket that listens."""
HEADERS_MAX = 32_768
REQUEST_S = 20.0
"""A request that is not whole so long after its first byte is given up, and so is a connection that never begins one:
else whoever can reach the server takes all of its connections by sending nothing."""


@dataclass(frozen=True)
class Listening:
    """Where to listen. `names` are further names by which the server may be called."""

    host: str = "127.0.0.1"
    port: int = 8737
    names: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_own(self) -> bool:
        """Whether only this host can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def called(self) -> tuple[str, ...]:
        """Names that a browser may use, the one that is shown first."""
        if not self.is_own:
            return (*self.names, self.host)
        usual = ("localhost", "127.0.0.1", "::1")
        return (*self.names, *(usual if self.host in usual[:2] else (self.host, *usual)))

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"

    def check(self) -> None:
        for name in self.names:
            if not re.fullmatch(r"[0-9A-Za-z_.:-]+", name):
                raise BadInputError(f"--host {name}: is no name or address of a host, such as storage.example.org")
        if bool(self.certificate) != bool(self.key):
            raise BadInputError("--tls-certificate and --tls-key: name both")
        if (port := re.fullmatch(r"\[?([\w.]+|[\w:]+(?=]))]?:(\d+)", self.host)) is not None:
            raise BadInputError(
                f"--listen {self.host}: the port is an option of its own: --listen {port[1]} --port {port[2]}"
            )
        if not self.is_own and self.certificate is None:
            raise BadInputError(
                f"--listen {self.host}: others can reach it, so it needs --tls-certificate and --tls-key"
            )
        if self.certificate and self.key:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            try:
                context.load_cert_chain(self.certificate, self.key)
            except (OSError, ssl.SSLError) as error:
                raise BadInputError(f"--tls-certificate: cannot be used: {one_line(error)}") from error


def bound(place: Listening) -> socket.socket:
    """A socket that is bound already, so that a port that is taken is said in one line."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
        made.bind((place.host, place.port))
        made.listen(BACKLOG)  # so that whoever reads the address can connect
    except OSError as error:
        made.close()
        raise BadInputError(f"{place.host}:{place.port}: {error.strerror}; choose another with --port") from error
    return made


def serve(web: Web, place: Listening, say: Callable[[str], None], login: str) -> None:
    """Serves until SIGINT or SIGTERM. Runs that were started go on. `login` stands behind the address: `#TOKEN` for a
    person at a terminal, else where the token is, since what is printed may be kept in a log.
    """
    place.check()
    listening = bound(place)
    port = int(listening.getsockname()[1])
    shown = place.called[0]
    shown = f"[{shown}]" if ":" in shown else shown
    # What stands behind # stays in the browser: it is in no request.
    say(f"brickyard web: {place.scheme}://{shown}:{port}/login{login}")
    try:
        server(web, place, port).run(sockets=[listening])
    finally:
        listening.close()


def server(web: Web, place: Listening, port: int) -> PageServer:
    """A server for a socket that is bound to this port."""
    origins = Origins.of(place.called, port, place.scheme)
    app = make_app(web, origins)
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="error",
        proxy_headers=False,
        server_header=False,
        ws="none",
        http=WholeRequests,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=GRACE_S,
        h11_max_incomplete_event_size=HEADERS_MAX,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
    )
    return PageServer(config, app.state.hub)


class WholeRequests(H11Protocol):
    """HTTP/1.1 where requests have to come within a time."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            self._wait()
        else:
            self._end_wait()

    def on_response_complete(self) -> None:
        self._end_wait()  # what is kept alive has a time of its own
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_wait()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _end_wait(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class PageServer(uvicorn.Server):
    """Ends the streams of events before it waits for its connections."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self.hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.hub.close()
        await super().shutdown(sockets)

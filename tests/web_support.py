"""A server of the page in this process, and requests to it as a browser or a stranger would send them."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from brickyard import Store
from brickyard.web.context import COOKIE, Web
from brickyard.web.hub import Hub
from brickyard.web.serve import Listening, PageServer, bound, server
from brickyard.web.sessions import Sessions
from brickyard.web.tokens import Role, Tokens

OPERATOR, READER = "operator-0123456789abcdef0123456789", "reader-0123456789abcdef0123456789ab"
LOAD = {"kind": "run", "name": "sqlio-random-read-4", "size": "32MiB"}
TOKENS = Tokens({Role.OPERATOR: OPERATOR, Role.READER: READER})


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """A running server."""

    web: Web
    port: int
    hub: Hub | None = None
    server: PageServer | None = None

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            raw = None
            if body is not None:
                raw = body if isinstance(body, bytes) else json.dumps(body).encode()
                sent.setdefault("Content-Type", "application/json")
            connection.request(method, path, raw, sent)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def login(self, token: str = OPERATOR) -> Client:
        found = self.ask("POST", "/api/login", {"token": token}, Origin=self.origin)
        assert found.status == 200, found.text
        cookie = found.headers["set-cookie"].split(";")[0]
        assert cookie.startswith(f"{COOKIE}=")
        return Client(self, cookie, found.json["csrf"])


@dataclass
class Client:
    """A browser that is logged in."""

    served: Served
    cookie: str
    csrf: str

    def get(self, path: str, **headers: str) -> Answer:
        return self.served.ask("GET", path, Cookie=self.cookie, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        sent = {"Origin": self.served.origin, "X_CSRF_Token": self.csrf, "Cookie": self.cookie, **headers}
        return self.served.ask("POST", path, {} if body is None else body, **sent)

    def job_of(self, name: str, until: tuple[str, ...], within_s: float = 60.0) -> Any:
        """The job once it has come to one of these states."""
        end_s = time.monotonic() + within_s
        while time.monotonic() < end_s:
            jobs = self.get("/api/jobs").json["jobs"]
            found = next((job for job in jobs if job["name"] == name), None)
            if found is not None and found["outcome"] in until:
                return found
            time.sleep(0.1)
        raise AssertionError(f"job {name} did not come to {until}: {jobs}")


@contextlib.contextmanager
def serving(
    folder: Path,
    *,
    manage: bool = False,
    allowed: tuple[str, ...] = (),
    traces: tuple[str, ...] = (),
    logs: tuple[str, ...] = (),
    mappings: tuple[str, ...] = (),
    databases: tuple[str, ...] = (),
    certificate: tuple[Path, Path] | None = None,
    send_buffer: int | None = None,
) -> Iterator[Served]:
    """On a free port, with a store of its own; with TLS where a certificate and its key are given. `send_buffer` is how
    much the kernel keeps for a browser that does not read."""
    Store(folder / "runs.db").close()
    state = folder / "state"
    web = Web(folder / "runs.db", Sessions(TOKENS, None), state, manage=manage, allowed=allowed, traces=traces)
    web.logs, web.mappings, web.databases = logs, mappings, databases
    web.secure = certificate is not None
    place = (
        Listening(port=0) if certificate is None else Listening(port=0, certificate=certificate[0], key=certificate[1])
    )
    listening = bound(place)
    if send_buffer is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    port = int(listening.getsockname()[1])
    made = server(web, place, port)
    thread = threading.Thread(target=made.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    until_s = time.monotonic() + 30
    while not made.started and time.monotonic() < until_s:
        time.sleep(0.02)
    assert made.started
    try:
        yield Served(web, port, made.hub, made)
    finally:
        made.should_exit = True
        thread.join(20)
        listening.close()
        for job in web.jobs.running():
            with contextlib.suppress(Exception):
                web.jobs.stop(job.name)
        assert not thread.is_alive()


def hostile_paths() -> list[str]:
    """Names that would lead out of where they belong."""
    found = ["../tokens.py", "..%2ftokens.py", "%2e%2e/tokens.py", "....//tokens.py", "/etc/passwd", "%2fetc%2fpasswd"]
    return [*found, "page.js%00.css", quote("\\..\\tokens.py"), "a" * 3000, quote("☃/../../x.toml")]


class Events:
    """A browser's stream of events."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.connection.request("GET", "/api/events", headers=headers)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200
        self.last = ""
        self.until_s = time.monotonic() + 90

    def next(self) -> tuple[str, Any]:
        kind, number = "", ""
        while True:
            assert time.monotonic() < self.until_s, "what was waited for did not come"
            line = self.answer.readline().decode().rstrip("\n")
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "id":
                number = value
            elif name == "data":
                self.last = number
                return kind, json.loads(value)

    def close(self) -> None:
        self.connection.close()


def watched(events: Events, run: int, until: str) -> list[Any]:
    """The moments of a run from the whole state or from changes, until it has this outcome."""
    moments: list[Any] = []
    while True:
        kind, told = events.next()
        news = told["runs"] if kind == "state" else [told] if kind == "run" else []
        if kind == "state":
            moments.clear()
        for one in news:
            if one["state"]["run"] == run:
                moments += one["moments"]
                if one["state"]["outcome"] == until:
                    return moments


def requests_of(moments: list[Any]) -> int:
    assert len({one["number"] for one in moments}) == len(moments)
    return sum(one["requests"] for one in moments)

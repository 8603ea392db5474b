"""Strangers at the page: whatever they send, nothing is shown, started, opened or changed, and the server lives."""

from __future__ import annotations

import os
import random
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from brickyard.errors import BadInputError
from brickyard.store import Store
from brickyard.web import hub, serve, tokens
from brickyard.web.app import ROUTES, role_of
from brickyard.web.serve import Listening
from brickyard.web.sessions import IDLE_S, LIFE_S, TRIES, Sessions
from brickyard.web.tokens import Role
from support import add_run, cell, interval
from web_support import OPERATOR, READER, TOKENS, Client, Served, hostile_paths, serving

SECOND = 1_000_000_000
MARKER = "hostile-marker"
_opened: list[str] = []


def _noted(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "subprocess.Popen", "os.system") and MARKER in repr(arguments):
        _opened.append(f"{event} {arguments!r:.200}")


sys.addaudithook(_noted)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("web")) as found:
        yield found


@pytest.fixture(scope="module")
def client(served: Served) -> Client:
    return served.login()


@pytest.fixture(scope="module")
def reader(served: Served) -> Client:
    return served.login(READER)


def address(route: Route) -> str:
    path = route.path
    for name in ("run", "name", "form", "array", "disk"):
        path = path.replace(f"{{{name}}}", "1")
    return path


def guarded() -> list[Route]:
    return [route for route in ROUTES if role_of(route) != "anybody"]


def of_method(route: Route, method: str) -> bool:
    return method in (route.methods or ())


def test_what_anybody_may_ask_for_is_known() -> None:
    free = sorted(
        (route.path, *sorted((route.methods or set()) - {"HEAD"})) for route in ROUTES if route not in guarded()
    )
    assert free == [
        ("/api/login", "POST"),
        ("/login", "GET"),
        ("/login", "POST"),
        ("/logout", "POST"),
        ("/static/{name}", "GET"),
    ]


def test_without_a_session_nothing_is_shown_or_done(served: Served) -> None:
    for route in guarded():
        method = "POST" if of_method(route, "POST") else "GET"
        for cookie in ("", "brickyard_session=", "brickyard_session=" + "a" * 43):
            found = served.ask(method, address(route), {} if method == "POST" else None, Cookie=cookie)
            assert (found.status, found.headers.get("location")) in ((401, None), (303, "/login")), route.path
            assert len(found.body) < 200


def test_a_reader_changes_nothing(reader: Client) -> None:
    posts = [route for route in guarded() if of_method(route, "POST")]
    assert len(posts) >= 8
    for route in posts:
        found = reader.post(address(route), {})
        assert (found.status, "may only read" in found.text) == (403, True), route.path


def test_an_operator_without_the_token_of_the_page_changes_nothing(client: Client, served: Served) -> None:
    for route in guarded():
        if of_method(route, "POST"):
            for csrf in ("", "wrong", client.csrf[:-1]):
                found = served.ask("POST", address(route), {}, Cookie=client.cookie, X_CSRF_Token=csrf)
                assert (found.status, "too old" in found.text) == (403, True), route.path


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1.evil.example", "http://[", "x"]
)
def test_another_origin_changes_nothing(origin: str, client: Client) -> None:
    assert client.post("/api/jobs", {"kind": "run"}, Origin=origin).status == 403
    assert client.post("/api/login", {"token": OPERATOR}, Origin=origin).status == 403


def test_another_site_changes_nothing(client: Client) -> None:
    assert client.post("/api/baselines", {"name": "x", "runs": [1]}, Sec_Fetch_Site="cross-site").status == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80", "", "a b"])
def test_another_name_of_the_server_is_refused(host: str, client: Client) -> None:
    found = client.get("/api/runs", Host=host)
    assert found.status in (400, 421)


def test_every_answer_forbids_what_a_page_does_not_need(client: Client, served: Served) -> None:
    for path in ("/", "/results", "/api/runs", "/static/page.js", "/nothing"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        assert "server" not in headers
    assert "no-store" in client.get("/").headers["cache-control"]
    cookie = served.ask("POST", "/api/login", {"token": OPERATOR}).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_pages_have_no_script_of_their_own() -> None:
    """Their policy would stop one, so a page with one would not work."""
    home = Path(tokens.__file__).parent / "templates"
    for place in home.iterdir():
        text = place.read_text()
        assert " style=" not in text, place.name
        assert " onclick" not in text.lower(), place.name
        assert all("src=" in part[:40] for part in text.split("<script")[1:]), place.name


def test_paths_of_others_are_neither_opened_nor_run(client: Client, tmp_path: Path) -> None:
    place = tmp_path / f"{MARKER}.toml"
    place.write_text("x")
    _opened.clear()
    names = [str(place), f"../../../{MARKER}", f"./{MARKER}.toml", f"$(touch {MARKER})", f"; {MARKER}", f"{MARKER}\x00"]
    for name in names:
        order = {"kind": "run", "name": "random-4k-qd32", "target": name}
        assert client.post("/api/jobs", order).status == 404
        assert client.post("/api/jobs", {"kind": "run", "name": name}).status == 404
        assert client.post("/api/jobs", {"kind": "study", "name": name}).status == 404
        assert client.post("/api/what-if", {"name": name, "workload": "random-4k-qd32"}).status == 400
        assert client.post("/api/what-if", {"name": "terraserver-2003", "workload": name}).status == 400
        assert (
            client.post("/api/what-if", {"name": "terraserver-2003", "workload": "obl-load", "drive": name}).status
            == 400
        )
        assert client.post("/api/advice", {"workload": "obl-load", "require": [name]}).status == 400
        assert client.post("/api/advice", {"workload": name, "require": ["iops>=1"]}).status == 400
        assert client.post("/api/jobs/x/stop", {"name": name}).status == 400
    of_zfs = {"name": "terraserver-2003", "workload": "random-4k-qd32", "level": "raidz1"}  # as the page offers it
    assert "software=linux-zfs" in client.post("/api/what-if", of_zfs).text
    for name in hostile_paths():
        for home in (
            "/static/",
            "/pictures/1/",
            "/bricks/",
            "/api/bricks/",
            "/api/profiles/",
            "/api/runs/",
            "/arrays/",
            "/download/",
        ):
            assert client.get(f"{home}{name}").status in (400, 404, 422), (home, name[:40])
    assert client.get(f"/download/csv?runs=../{MARKER}").status == 400
    assert _opened == []
    assert not list(Path.cwd().glob(MARKER))


def test_what_people_and_programs_write_is_shown_and_not_obeyed(client: Client, served: Served) -> None:
    script = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e"
    events = [interval(0, SECOND, cell([1000] * 20))]
    with Store(served.web.store) as store:
        run = add_run(
            store, events, targets=[f"/data/{script}"], warnings=[{"id": "x", "severity": "note", "text": script}]
        )
    kept = client.post(f"/api/runs/{run}/annotation", {"note": script, "labels": [script], "seen": 0})
    assert kept.status == 200
    found = ("/results", f"/results/{run}", "/results?q=%3Cscript%3E&label=%22%3E", "/compare?before=%3Cscript%3E")
    for path in found:
        text = client.get(path).text
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
    csv = client.get(f"/download/csv?runs={run}")
    assert csv.headers["content-disposition"].startswith("attachment")
    assert "\u202e" not in client.get(f"/api/runs/{run}").text


def test_a_wrong_token_is_slowed_down(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        answers = [served.ask("POST", "/api/login", {"token": "wrong"}).status for _ in range(TRIES + 2)]
        assert answers == [401] * TRIES + [429] * 2
        assert served.ask("POST", "/api/login", {"token": OPERATOR}).status == 429
        assert served.ask("GET", "/api/runs", Authorization=f"Bearer {OPERATOR}").status == 429
        assert served.ask("GET", "/api/events", Authorization=f"Bearer {OPERATOR}").status == 429


def test_many_wrong_tokens_at_once_are_slowed_down_too(tmp_path: Path) -> None:
    """All heads are there before the first body."""
    body = b'{"token": "wrong"}'
    with serving(tmp_path) as served, ExitStack() as ending:
        head = f"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nAccept: application/json\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        streams = [
            ending.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=20)) for _ in range(30)
        ]
        for stream in streams:
            stream.sendall(head.encode())
        time.sleep(0.5)
        for stream in streams:
            stream.sendall(body)
        codes = Counter(stream.recv(65536).split()[1] for stream in streams)
    assert codes == {b"401": TRIES, b"429": 30 - TRIES}


def test_a_program_sends_its_token_with_each_request(served: Served) -> None:
    assert served.ask("GET", "/api/runs", Authorization=f"Bearer {READER}").status == 200
    asked = {"kind": "run", "name": "nothing"}
    assert served.ask("POST", "/api/jobs", asked, Authorization=f"Bearer {READER}").status == 403
    assert served.ask("POST", "/api/jobs", asked, Authorization=f"Bearer {OPERATOR}").status == 404
    # A token in an address would be in logs.
    assert served.ask("GET", f"/api/runs?token={OPERATOR}").status == 401


def test_an_empty_authorization_is_no_token(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session is that of a cookie or of a token, by how it was found, whatever headers there are."""
    monkeypatch.setattr(hub, "HEARTBEAT_S", 0.5)
    client = served.login()
    asked = {"kind": "run", "name": "nothing"}
    found = client.post("/api/jobs", asked, Authorization="", X_CSRF_Token="")
    assert (found.status, "too old" in found.text) == (403, True)
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as stream:
        head = f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nCookie: {client.cookie}\r\n"
        stream.sendall(f"{head}Authorization:\r\n\r\n".encode())
        assert b"200 OK" in stream.recv(65536)
        client.post("/logout", {"csrf": client.csrf})
        end_s = time.monotonic() + 60
        while stream.recv(65536):
            assert time.monotonic() < end_s, "the events go on after the logout"


def test_whoever_logs_out_is_out(served: Served) -> None:
    client = served.login()
    assert client.get("/api/session").status == 200
    form = f"csrf={client.csrf}".encode()
    kind = {"Content_Type": "application/x-www-form-urlencoded"}
    assert client.post("/logout", b"csrf=wrong", X_CSRF_Token="wrong", **kind).status == 403
    assert client.post("/logout", form, X_CSRF_Token="", **kind).status == 303
    assert client.get("/api/session").status == 401


def test_sessions_end_and_outlive_the_server(tmp_path: Path) -> None:
    now = [1000.0]
    place = tmp_path / "sessions.json"
    sessions = Sessions(TOKENS, place, lambda: now[0])
    made = sessions.login(OPERATOR, "a")
    assert made is not None
    assert place.stat().st_mode & 0o777 == 0o600
    assert made[0] not in place.read_text()
    assert OPERATOR not in place.read_text()
    again = Sessions(TOKENS, place, lambda: now[0])
    assert again.find(made[0]) is not None
    now[0] += IDLE_S - 1
    assert again.find(made[0]) is not None
    now[0] += IDLE_S - 1
    assert again.find(made[0], is_use=False) is not None
    now[0] += 2
    assert again.find(made[0]) is None, "what a page asks by itself is no use"
    used = again.login(READER, "a")
    assert used is not None
    for _ in range(int(LIFE_S // IDLE_S) * 2 + 1):
        now[0] += IDLE_S / 2
        last = again.find(used[0])
    assert last is None
    other = Sessions(tokens.Tokens({Role.OPERATOR: "another-" + OPERATOR}), place, lambda: now[0])
    assert other.find(made[0]) is None


def test_a_clock_that_was_set_back_lets_no_session_live_for_ever(tmp_path: Path) -> None:
    now = [1_000_000.0]
    sessions = Sessions(TOKENS, None, lambda: now[0])
    made = sessions.login(OPERATOR, "a")
    assert made is not None
    now[0] -= 30 * 86_400
    assert sessions.find(made[0]) is None


def test_tokens_that_others_can_read_or_guess_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "folder" / "tokens"
    made = tokens.read_or_make(place)
    assert place.stat().st_mode & 0o777 == 0o600
    assert tokens.read_or_make(place) == made
    assert made.role(made.of[Role.READER]) is Role.READER
    assert made.role("") is None
    os.chmod(place, 0o644)
    with pytest.raises(BadInputError, match="chmod 600"):
        tokens.read(place)
    os.chmod(place, 0o600)
    for text, words in (
        ("operator short", "guessed"),
        ("operator " + "a" * 64, "guessed"),
        ("admin " + OPERATOR, "line 1"),
        ("", "no token"),
        (f"operator {OPERATOR}\nreader {OPERATOR}", "share"),
        (f"operator {OPERATOR}\noperator {READER}", "line 2: a second token of the operator"),
    ):
        place.write_text(text)
        with pytest.raises(BadInputError, match=words):
            tokens.read(place)


def test_other_hosts_reach_it_only_by_tls() -> None:
    Listening("127.0.0.5").check()
    Listening("::1").check()
    for host in ("127.0.0.1:8799", "[::1]:8799", "localhost:8799"):
        with pytest.raises(BadInputError, match="the port is an option of its own"):
            Listening(host).check()
    for host in ("0.0.0.0", "192.0.2.1", "::", "example.org"):
        with pytest.raises(BadInputError, match="--tls-certificate"):
            Listening(host).check()


def test_the_address_that_is_shown_is_one_that_answers() -> None:
    shown = {"127.0.0.1": "localhost", "localhost": "localhost", "127.0.0.2": "127.0.0.2", "::1": "::1"}
    assert {host: Listening(host).called[0] for host in shown} == shown
    assert "127.0.0.2" in Listening("127.0.0.2", names=("page.example",)).called
    for name in ('a b"/x', "", "a/b", "ä"):
        with pytest.raises(BadInputError, match="is no name"):
            Listening(names=(name,)).check()


def test_what_is_too_large_or_no_document_is_refused(client: Client, served: Served) -> None:
    deep = b'{"a":' * 20_000 + b"1" + b"}" * 20_000
    assert client.post("/api/check", b"x" * 70_000).status == 413
    assert client.post("/api/check", deep[:60_000]).status == 400
    for body in (b"[]", b"{", b"\xff\xfe", b'"x"', b"NaN", b'{"kind": 5}', b'{"changes": "x"}', b'{"a": "\\ud800"}'):
        assert client.post("/api/check", body).status == 400, body
    for kind in ("text/xml", "application/x-www-form-urlencoded"):  # the second is curl's, where none is named
        refused = client.post("/api/check", b'{"kind": "run"}', Content_Type=kind)
        assert (refused.status, "send it as application/json" in refused.text) == (415, True)
    assert client.get("/api/runs?first=99999999999999999999").status == 400
    assert client.get("/api/runs?count=0").status == 400
    assert client.get("/api/runs/99999999999999999999").status == 400
    assert client.get(f"/api/runs/{(1 << 63) - 1}").status == 404
    assert served.ask("PUT", "/api/runs", {}).status == 405


@pytest.mark.parametrize(
    ("begin", "then"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", b"X: y\r\n"),
        (b"POST /login HTTP/1.1\r\nHost: HOST\r\nContent-Length: 60000\r\n\r\n", b"a"),
    ],
    ids=["nothing", "headers", "body"],
)
def test_a_request_that_never_becomes_whole_keeps_no_connection(
    begin: bytes, then: bytes, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "REQUEST_S", 1.0)
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as slow:
        slow.sendall(begin.replace(b"HOST", f"127.0.0.1:{served.port}".encode()))
        assert is_closed(slow, then)


def is_closed(stream: socket.socket, then: bytes) -> bool:
    """Whether the other end gives up soon, whatever comes byte by byte."""
    end_s = time.monotonic() + 20
    stream.settimeout(0.1)
    while time.monotonic() < end_s:
        try:
            stream.sendall(then)
            if not stream.recv(65536):
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


def test_a_whole_request_may_be_answered_for_longer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "REQUEST_S", 0.5)
    monkeypatch.setattr(hub, "HEARTBEAT_S", 0.3)
    head = f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {READER}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as stream:
        stream.sendall(head.encode())
        end_s, last = time.monotonic() + 2, b""
        while time.monotonic() < end_s:
            last = stream.recv(65536)
            assert last
    assert b"still here" in last


def test_ten_thousand_malformed_requests_leave_it_alive(served: Served, client: Client) -> None:
    dice = random.Random(5)
    lines = [
        b"GET / HTTP/1.1",
        b"POST /api/jobs HTTP/1.1",
        b"GET /api/events HTTP/1.1",
        b"\x16\x03\x01\x02",
        b"PRI * HTTP/2.0",
    ]
    heads = [
        b"Host: x",
        b"Content-Length: -1",
        b"Content-Length: 5",
        b"Transfer-Encoding: chunked",
        b"Cookie: \xff",
        b": x",
        b"A" * 300,
    ]

    def one(seed: int) -> None:
        own = random.Random(seed)
        parts = [own.choice(lines), *(own.choice(heads) for _ in range(own.randrange(4)))]
        text = b"\r\n".join(parts) + own.choice([b"\r\n\r\n", b"\n\n", b"", b"\r\n\r\n" + own.randbytes(40)])
        cut = bytearray(text)
        for _ in range(own.randrange(4)):
            cut[own.randrange(len(cut))] = own.randrange(256)
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
            connection.settimeout(10)
            connection.sendall(bytes(cut))
            connection.shutdown(socket.SHUT_WR)
            try:
                answer = connection.recv(64)
            except ConnectionResetError:
                return
            assert answer == b"" or (answer.startswith(b"HTTP/1.1 ") and answer[9:10] in b"34"), (bytes(cut), answer)

    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(one, dice.sample(range(1 << 40), 10_000), chunksize=100):
            pass
    assert client.get("/api/session").status == 200
    assert client.get("/api/jobs").json == {"jobs": []}

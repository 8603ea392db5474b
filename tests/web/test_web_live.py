"""Runs that are started from the page, watched live, and what becomes of them when something breaks."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard import Store, managing
from brickyard.analysis import totals
from brickyard.errors import BadInputError, BrickyardError
from brickyard.following import Follower
from brickyard.managing import AuditLog, Deed
from brickyard.schema import End, RunOutcome
from brickyard.web import hub as hubs
from brickyard.web import serve as servings
from brickyard.web.hub import EventStream, Hub, run_state
from support import add_run, cell, interval, told
from web_support import LOAD, Client, Events, Served, requests_of, serving, watched

SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("web")) as found:
        yield found


@pytest.fixture(scope="module")
def client(served: Served) -> Client:
    return served.login()


def test_a_run_is_started_watched_and_stopped(client: Client, served: Served) -> None:
    events = Events(served.port, {"Cookie": client.cookie})
    job = client.post("/api/jobs", {**LOAD, "changes": ["duration=60s"]}).json
    kind, told = events.next()
    while not (kind == "run" and told["moments"]):
        kind, told = events.next()
    run = told["state"]["run"]
    assert told["state"]["left_s"] <= 60
    first = Events(served.port, {"Cookie": client.cookie})
    assert client.post(f"/api/jobs/{job['name']}/stop", {}).status == 200
    moments = watched(first, run, "interrupted")
    ended = client.job_of(job["name"], ("interrupted",))
    assert (ended["message"], ended["runs"]) == ("stopped; what was measured is kept", [run])
    record = client.get(f"/api/runs/{run}").json
    course = client.get(f"/api/runs/{run}/course").json["moments"]
    assert requests_of(moments) == requests_of(course) > 0
    assert record["outcome"] == "interrupted"
    assert client.post(f"/api/jobs/{job['name']}/stop", {}).status == 409
    first.close()
    events.close()


def test_two_tabs_do_not_take_one_target_but_two_targets(tmp_path: Path) -> None:
    target, other = tmp_path / "target", tmp_path / "other"
    with serving(tmp_path, allowed=(str(target), str(other))) as served:
        for place in (target, other):
            place.write_bytes(b"x" * (4 << 20))
        client = served.login()
        order = {"kind": "run", "name": "sqlio-random-read-4", "target": str(target), "changes": ["duration=20s"]}
        found: list[Any] = []
        tabs = [threading.Thread(target=lambda: found.append(client.post("/api/jobs", order))) for _ in range(4)]
        for tab in tabs:
            tab.start()
        for tab in tabs:
            tab.join()
        assert sorted(answer.status for answer in found) == [200, 409, 409, 409]
        beside = client.post("/api/jobs", {**order, "target": str(other)})
        assert beside.status == 200
        names = [answer.json["name"] for answer in (*found, beside) if answer.status == 200]
        for name in names:
            client.job_of(name, ("running",))
        for name in names:
            assert client.post(f"/api/jobs/{name}/stop", {}).status == 200  # both go on until now
        for name in names:
            client.job_of(name, ("interrupted", "done"))


def test_a_second_run_on_a_scratch_file_is_refused_while_one_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        client = served.login()
        order = {**LOAD, "target": "scratch", "changes": ["duration=60s"]}
        first = client.post("/api/jobs", order)
        assert first.status == 200
        second = client.post("/api/jobs", order)
        assert (second.status, "on the same file system" in second.json["error"]) == (409, True)
        assert client.post("/api/jobs", {"kind": "characterize", "target": "scratch"}).status == 409
        modelled = client.post("/api/jobs", {**order, "target": "sim:terraserver-2003", "changes": ["duration=1s"]})
        assert modelled.status == 200
        assert client.post(f"/api/jobs/{first.json['name']}/stop", {}).status == 200
        client.job_of(first.json["name"], ("interrupted",))
        third = client.post("/api/jobs", {**order, "changes": ["duration=1s"]})
        assert third.status == 200
        for job in (modelled, third):
            client.job_of(job.json["name"], ("done",))


def test_a_size_that_does_not_fit_is_refused_by_the_check_in_the_words_of_the_start(client: Client) -> None:
    too_large = {**LOAD, "target": "scratch", "size": "999999TiB"}
    checked = client.post("/api/check", too_large).json
    assert (checked["ok"], "do not fit" in checked["error"]) == (False, True)
    started = client.post("/api/jobs", too_large)
    assert (started.status, started.json["error"]) == (400, checked["error"])


def test_what_would_be_ignored_is_refused_and_an_unknown_job_is_not_there(client: Client) -> None:
    for kind in ("run", "characterize"):
        order = {**LOAD, "kind": kind, "target": "sim:terraserver-2003", "only": ["drive=ssd"]}
        assert "only: of a study alone" in client.post("/api/check", order).json["error"]
        assert client.post("/api/jobs", order).status == 400
    assert client.post("/api/jobs/0123456789abcdef/stop", {}).status == 404


def test_a_key_that_nobody_reads_is_refused_with_the_one_that_was_meant(client: Client) -> None:
    model = {**LOAD, "target": "sim:terraserver-2003"}
    for path, body, words in (
        ("/api/jobs", {**model, "conditions": "degraded"}, "conditions: no such key; did you mean condition?"),
        ("/api/jobs", {**model, "repetition": 3}, "repetition: no such key; did you mean repetitions?"),
        ("/api/check", {**model, "confirmm": ""}, "confirmm: no such key; did you mean confirm?"),
        ("/api/what-if", {"conditions": "degraded"}, "conditions: no such key; did you mean condition?"),
        ("/api/advice", {"budgett": 1}, "budgett: no such key; did you mean budget?"),
        ("/api/baselines", {"x\ny": 1}, "x y: no such key; there are name, runs"),
        ("/api/jobs/0123456789abcdef/stop", {"now": True}, "now: no such key; there are none here"),
    ):
        found = client.post(path, body)
        assert (found.status, found.json) == (400, {"error": words}), path


def test_what_the_core_refuses_is_refused_in_its_words(client: Client) -> None:
    for changes, words in ((["depth=0"], "depth"), (["duration=-1s"], "duration"), (["nonsense=1"], "nonsense")):
        found = client.post("/api/check", {**LOAD, "changes": changes}).json
        assert (found["ok"], words in found["error"]) == (False, True)
        assert client.post("/api/jobs", {**LOAD, "changes": changes}).status == 400
    assert "nonsense" in client.post("/api/check", {**LOAD, "size": "nonsense"}).json["error"]
    assert client.post("/api/check", LOAD).json == {"ok": True, "error": ""}


def test_an_allowed_target_is_written_over_only_where_its_name_is_typed(tmp_path: Path) -> None:
    target = tmp_path / "mine"
    target.write_bytes(b"precious" * (1 << 19))
    with serving(tmp_path, allowed=(str(target),)) as served:
        client = served.login()
        order = {"kind": "run", "name": "sqlio-random-write-4", "target": str(target), "changes": ["duration=1s"]}
        assert client.post("/api/jobs", order).status == 400
        assert client.post("/api/jobs", {**order, "confirm": "/dev/sda"}).status == 400
        # Of files only our own are ever written, whatever is typed.
        assert client.post("/api/jobs", {**order, "confirm": str(target)}).status == 400
    assert target.read_bytes() == b"precious" * (1 << 19)


def test_a_locked_or_lost_store_is_said_and_the_server_lives(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        client = served.login()
        with Store(served.web.store) as store:
            run = add_run(store, [interval(0, SECOND, cell([1000] * 20))])
        lock = sqlite3.connect(tmp_path / "runs.db", isolation_level=None, check_same_thread=False)
        lock.execute("BEGIN IMMEDIATE")
        release = threading.Timer(1.0, lambda: lock.execute("ROLLBACK"))
        release.start()
        assert client.get("/api/runs").json["found"] == 1
        kept = client.post(f"/api/runs/{run}/annotation", {"note": "waited", "labels": [], "seen": 0})
        assert kept.status == 200
        lock.close()
        (tmp_path / "runs.db").rename(tmp_path / "away.db")
        (tmp_path / "runs.db").write_bytes(b"this is no store at all" * 1000)
        assert client.get("/api/runs").status in (400, 500, 503)
        assert client.get("/results").status in (400, 500, 503)
        (tmp_path / "runs.db").unlink()
        (tmp_path / "away.db").rename(tmp_path / "runs.db")
        assert client.get("/api/runs").json["found"] == 1


def test_of_two_notes_at_once_the_second_is_refused(client: Client, served: Served) -> None:
    with Store(served.web.store) as store:
        run = add_run(store, [interval(0, SECOND, cell([1000] * 20))])
    path = f"/api/runs/{run}/annotation"
    first = client.post(path, {"note": "one", "labels": ["a", "a", " b "], "seen": 0})
    assert (first.status, first.json["labels"]) == (200, ["a", "b"])
    assert client.post(path, {"note": "two", "labels": [], "seen": 0}).status == 409
    assert client.post(path, {"note": "two", "labels": [], "seen": first.json["number"]}).status == 200
    assert client.get("/api/runs?q=two").json["rows"][0]["run"] == run
    assert client.get("/api/runs?label=a").json["found"] == 0


def test_a_browser_that_does_not_read_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "SEND_S", 0.2)
    Store(tmp_path / "runs.db").close()

    async def scenario() -> None:
        hub = Hub(Follower(tmp_path / "runs.db"))
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)
            if len(sent) > 1:
                await asyncio.sleep(60)

        async def receive() -> Any:
            await asyncio.sleep(60)

        await asyncio.wait_for(EventStream(hub, "", lambda: True)({}, receive, send), 5)
        assert hub.browsers == 0
        await hub.end()

    asyncio.run(scenario())


READERS = 24


def test_of_many_browsers_one_that_does_not_read_is_cut_off_and_the_others_miss_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With real sockets: neither the hub nor the kernel keeps for ever what is sent to the one that stopped reading."""
    from brickyard.store.process import own_process

    monkeypatch.setattr(hubs, "SEND_S", 1.0)
    monkeypatch.setattr(servings, "UNREAD_MS", 2000)
    with serving(tmp_path, send_buffer=8192) as served:
        hub, server = served.hub, served.server
        assert hub is not None
        assert server is not None
        client = served.login()
        facts = {"host": {}, "targets": [], "process": msgspec.to_builtins(own_process())}
        with Store(served.web.store) as store:
            run = add_run(store, [interval(0, SECOND, cell([1000] * 3))], outcome=None, facts=facts)
            readers = [Events(served.port, {"Cookie": client.cookie}) for _ in range(READERS)]
            deaf = socket.socket()
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", served.port))
            deaf.sendall(f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n".encode())
            deaf.sendall(f"Cookie: {client.cookie}\r\n\r\n".encode())
            found: list[list[Any]] = []
            threads = [
                threading.Thread(target=lambda one=one: found.append(watched(one, run, "done"))) for one in readers
            ]
            for thread in threads:
                thread.start()
            becomes(lambda: hub.browsers == READERS + 1)
            for first in range(1, 1801, 300):
                seconds = range(first, first + 300)
                store.add_events(run, [told(interval(s * SECOND, (s + 1) * SECOND, cell([1000] * 3))) for s in seconds])
                time.sleep(0.6)
            becomes(lambda: hub.browsers == READERS)
            becomes(lambda: len(server.server_state.connections) == READERS)
            store.end_run(run, End(end_ns=1801 * SECOND, outcome=RunOutcome.DONE), None, [])
        for thread in threads:
            thread.join(60)
        assert [requests_of(moments) for moments in found] == [1801 * 3] * READERS
        for one in readers:
            one.close()
        deaf.close()


def becomes(is_so: Callable[[], bool], within_s: float = 30.0) -> None:
    end_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < end_s, "what was waited for did not come"
        time.sleep(0.05)


def test_of_many_short_runs_the_last_stay_on_the_page(tmp_path: Path) -> None:
    Store(tmp_path / "runs.db").close()

    async def scenario() -> None:
        hub = Hub(Follower(tmp_path / "runs.db"))
        with Store(tmp_path / "runs.db") as store:
            runs = [add_run(store, [interval(0, SECOND, cell([1000]))]) for _ in range(8)]
        looking = asyncio.create_task(hub.run())
        await asyncio.sleep(0.3)
        assert [news.state.run for news in hub.runs()] == runs[-3:]
        looking.cancel()
        await hub.end()

    asyncio.run(scenario())


def test_a_browser_that_was_away_gets_what_it_missed_or_the_whole_state(tmp_path: Path) -> None:
    Store(tmp_path / "runs.db").close()

    async def scenario() -> None:
        words = [0]
        hub = Hub(Follower(tmp_path / "runs.db"), lambda: {"jobs": words[0]})
        looking = asyncio.create_task(hub.run())
        await asyncio.sleep(0.2)
        stream = hub.events("")
        first = await anext(stream)
        assert b"event: state" in first
        at = first.split(b"id: ")[1].split(b"\n")[0].decode()
        words[0] = 1
        assert b"event: jobs\ndata: 1" in await asyncio.wait_for(anext(stream), 10)
        assert b"event: jobs\ndata: 1" in await anext(hub.events(at))
        for strange in ("other-1", f"{hub.instance}-999", f"{hub.instance}-x", "\x00", "-"):
            assert b"event: state" in await anext(hub.events(strange))
        looking.cancel()
        await hub.end()

    asyncio.run(scenario())


def test_a_run_of_another_process_is_seen_with_its_warnings(tmp_path: Path) -> None:
    from brickyard.store.process import own_process

    follower = Follower(tmp_path / "runs.db")
    with Store(tmp_path / "runs.db") as store:
        mark = msgspec.to_builtins(own_process())
        facts = {"host": {}, "targets": [], "process": mark}
        run = add_run(store, [interval(0, SECOND, cell([1000] * 20))], outcome=None, facts=facts)
        killed = add_run(store, [], outcome=None, facts={**facts, "process": {**mark, "start_ticks": 1}})
        add_run(store, [interval(0, SECOND, cell([1000] * 20))], engine="fio")
        changes = follower.look()
        assert [change.run.info.id for change in changes if change.is_new] == [run], "neither killed nor imported"
        assert sum(one.requests for change in changes for one in change.moments) == 20
        hang = {
            "event": "hang", "at_ns": 5, "phase": 0, "stream": 0, "operation": "read", "offset_bytes": 0,
            "request_bytes": 4096, "outstanding_ns": 16 * SECOND,
        }  # fmt: skip
        store.add_events(run, [told(hang), told(interval(SECOND, 2 * SECOND, cell([2000] * 5)))])
        (change,) = follower.look()
        assert [one.requests for one in change.moments] == [5]
        assert "has been outstanding for 16" in change.notes[0]
        failed = {"event": "brick_condition", "at_ns": SECOND, "condition": "degraded", "target": 0}
        store.add_events(run, [told(failed)])
        store.end_run(run, End(end_ns=2 * SECOND, outcome=RunOutcome.DONE), None, [])
        (ended,) = follower.look()
        assert (ended.has_ended, ended.run.info.outcome) == (True, "done")
        state = run_state(ended.run)
        assert state.condition == "normal, then degraded"
        assert state.notes[-1] == "degraded since 1.0 s"
        # Its figures are those of `show`, not of its last second.
        (row,) = totals(store.record(run))
        assert state.whole is not None
        assert state.whole.of == "whole run, mean over the conditions normal and degraded"
        assert (state.whole.per_s, state.whole.response_max_ns) == (row.iops, 2000) == (12.5, 2000)
        assert follower.look() == []
        assert killed not in follower.runs
        quick = add_run(store, [interval(0, SECOND, cell([1000] * 7))], facts=facts)
        changes = follower.look()
        # One that began and ended between two looks is shown as well.
        assert [change.run.info.id for change in changes] == [quick]
        assert sum(one.requests for change in changes for one in change.moments) == 7
        assert follower.look() == []
    follower.close()


def test_arrays_are_changed_only_with_consent_and_a_typed_name_and_all_of_it_is_noted(
    tmp_path: Path, client: Client
) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    deed = Deed("scrub", "md 0123", confirmed="/dev/md0")
    with pytest.raises(BadInputError, match="--manage"):
        managing.do(deed, "operator x", audit, manage=False)
    with pytest.raises(BadInputError, match="no such array"):
        managing.do(deed, "operator x", audit, manage=True)
    create = Deed("create", "/dev/md77", confirmed="/dev/md7", names=("/dev/null",), level="raid1")
    with pytest.raises(BadInputError, match="no such device"):
        managing.do(create, "operator x", audit, manage=True)
    with pytest.raises(BadInputError, match="no such action"):
        managing.do(Deed("format", "/dev/sda", confirmed="/dev/sda"), "operator x", audit, manage=True)
    lines = audit.newest()
    assert [line.what for line in lines] == ["refused", "asked"] * 4
    assert {line.by for line in lines} == {"operator x"}
    before = (tmp_path / "audit.jsonl").read_bytes()
    audit.note("operator y", "asked", {"action": "scrub"})
    assert (tmp_path / "audit.jsonl").read_bytes().startswith(before)
    (tmp_path / "blocked").write_text("a file")
    with pytest.raises(BrickyardError, match="is no directory"):
        managing.do(deed, "x", AuditLog(tmp_path / "blocked" / "audit.jsonl"), manage=True)
    asked = {"action": "create", "array": "/dev/md9", "confirm": "/dev/md9", "names": ["/dev/sdz"], "level": "raid1"}
    assert client.post("/api/arrays/do", asked).status == 403
    assert client.get("/api/audit").json["audit"][0]["words"] == "without --manage"

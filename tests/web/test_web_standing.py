"""What stands on top of every page: the worst of what the watch has raised and of what the page itself saw, and never
that all is well where nobody could look. And a controller's tool that fails or hangs: neither stops the page."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from array_support import DEGRADED, NAME, WHOLE, Controller, storcli_host, storcli_reply
from brickyard.arrays.alarms import LOOK_MAX_S, AlarmBook
from brickyard.arrays.guarding import Guard
from brickyard.arrays.host import Host
from brickyard.arrays.watching import ArrayWatcher
from brickyard.errors import BrickyardError
from brickyard.facts.roots import Roots, Tools
from brickyard.web import estate
from web_support import Client, serving

NO_ANSWER = "storcli64 /call/vall show: no JSON came back"


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(estate, "PATIENCE_S", 60.0, raising=False)
    estate.looks.forget()
    yield Controller(tmp_path)
    estate.looks.forget()


def told(client: Client) -> tuple[str, str]:
    """What stands on top after a new look."""
    estate.looks.forget()
    assert client.get("/api/arrays").status == 200
    found = client.get("/api/session").json["standing"]
    return found["severity"], found["text"]


def watch(book: AlarmBook, every_s: float, ago_s: float) -> None:
    """As a watch of this period leaves the book that saw nothing at its last look."""
    book.begin([], manages=False, every_s=every_s)
    book.take([], {}, time.time() - ago_s)


def test_a_degraded_array_stands_on_every_page_also_while_the_watch_has_not_said_so(
    tmp_path: Path, controller: Controller
) -> None:
    controller.shows(DEGRADED)
    with serving(tmp_path) as served:
        client = served.login()
        served.web.alarms.take([], {}, time.time())
        assert told(client) == ("error", f"{NAME} (raid5): degraded")


def test_a_watch_has_stopped_by_its_own_period(tmp_path: Path, controller: Controller) -> None:
    controller.shows(WHOLE)
    with serving(tmp_path) as served:
        client = served.login()
        watch(served.web.alarms, 2.0, LOOK_MAX_S / 2)
        assert told(client) == ("well", "no alarm")
        watch(served.web.alarms, 2.0, LOOK_MAX_S + 10)
        assert told(client) == ("warning", "the watch has stopped")
        assert "no watch is running" in client.post("/api/alarms/test", {}).json["error"]
        watch(served.web.alarms, 1800.0, 3600.0)  # it looks twice an hour, and is not late yet
        assert told(client) == ("well", "no alarm")


@pytest.mark.parametrize("script", ["exit 3", "echo garbage"])
def test_what_could_not_be_looked_at_is_never_well(tmp_path: Path, controller: Controller, script: str) -> None:
    controller.does(script)
    with serving(tmp_path) as served:
        client = served.login()
        for _ in range(2):
            severity, text = told(client)
            assert (severity, text.startswith(f"could not be looked at: {NO_ANSWER}")) == ("warning", True)
            page = client.get("/arrays").text
            assert ("No array is known" in page, "Which arrays there are is not known" in page) == (False, True)
            served.web.alarms.take([], {}, time.time())  # the second time a watch is running
        controller.shows(WHOLE)
        assert told(client) == ("well", "no alarm")


def test_an_array_whose_tool_fails_stands_as_it_was_seen_last(tmp_path: Path, controller: Controller) -> None:
    controller.shows(DEGRADED)
    with serving(tmp_path) as served:
        client = served.login()
        assert told(client) == ("error", f"{NAME} (raid5): degraded; no watch is running")
        (known,) = (one["id"] for one in client.get("/api/arrays").json["arrays"] if one["name"] == NAME)
        controller.does("exit 3")
        for _ in range(2):
            assert told(client) == (
                "error",
                f"{NAME} (raid5): degraded when it was last looked at; no watch is running",
            )
        assert "when it last was, it was degraded" in client.get("/arrays").text
        assert [one["name"] for one in client.get("/api/arrays").json["lost"]] == [NAME]
        assert client.get(f"/api/arrays/{known}").status == 503
        controller.shows(WHOLE)
        assert told(client) == ("note", "no watch is running")
        storcli_host(tmp_path, *WHOLE, **{"storcli64 /call/vall show J": storcli_reply({})})  # it was deleted
        assert told(client) == ("note", "no watch is running")


def test_the_watch_raises_an_alarm_for_a_tool_that_fails_and_clears_it_when_it_answers(
    tmp_path: Path, controller: Controller
) -> None:
    class Own(Tools):
        def find(self, program: str) -> str | None:
            return str(tmp_path / "bin" / program) if program == "storcli64" else None

    controller.does("exit 3")
    book = AlarmBook(tmp_path / "alarms.json")
    host = Host(Roots(sys=str(tmp_path / "sys"), proc=str(tmp_path / "proc"), tools=Own()))
    guard = Guard(ArrayWatcher(), [], lambda _: None, host=host, book=book)
    for _ in range(3):
        guard.look()
    (alarm,) = book.all()
    assert (str(alarm.key), alarm.severity, alarm.state.value) == ("look storcli", "warning", "raised")
    assert alarm.text.startswith(f"storcli could not be looked at: {NO_ANSWER}")
    controller.shows(WHOLE)
    for _ in range(3):
        guard.look()
    assert [one.state.value for one in book.all()] == ["cleared"]


def becomes(is_so: Callable[[], bool], within_s: float = 30.0) -> None:
    until_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < until_s
        time.sleep(0.02)


def test_while_a_tool_hangs_the_page_shows_what_was_seen_last(
    tmp_path: Path, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.shows(DEGRADED)
    with serving(tmp_path) as served:
        client = served.login()
        told(client)
        fifo = tmp_path / "until"
        os.mkfifo(fifo)
        controller.does(f"cat {fifo} >/dev/null; exit 3")
        monkeypatch.setattr(estate, "PATIENCE_S", 0.05, raising=False)
        monkeypatch.setattr(estate, "HANGS_S", 0.0, raising=False)
        estate.looks.forget()
        try:
            for _ in range(3):
                assert [one["name"] for one in client.get("/api/arrays").json["arrays"]] == [NAME]
                page = client.get("/arrays").text
                assert (NAME in page, "does not end" in page) == (True, True)
            assert client.get("/api/session").json["standing"]["severity"] == "error"
        finally:
            fifo.write_text("")  # whoever reads it goes on
        monkeypatch.setattr(estate, "PATIENCE_S", 60.0, raising=False)
        controller.shows(WHOLE)
        assert told(client) == ("note", "no watch is running")


def test_a_tool_that_hangs_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    class Own(Tools):
        def find(self, program: str) -> str | None:
            return str(tmp_path / "bin" / program)

    Controller(tmp_path).does(f"sleep 600 & echo $! > {tmp_path}/child\nwait")
    with pytest.raises(BrickyardError, match="no answer within"):
        Host(Roots(tools=Own())).run("storcli64", "show", timeout_s=0.5)
    child = int((tmp_path / "child").read_text())
    becomes(lambda: not is_running(child))


def is_running(pid: int) -> bool:
    """One that nobody has waited for yet runs no more."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False

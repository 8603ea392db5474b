"""Who did what: logins with their addresses, refused deeds with the array's name, and a log that nobody can bury others
in."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from array_support import NAME, WHOLE, Controller
from brickyard.managing import AuditLog
from brickyard.web import estate
from web_support import READER, serving

FLOOD = 40


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(estate, "PATIENCE_S", 60.0, raising=False)
    found = Controller(tmp_path)
    found.shows(WHOLE)
    estate.looks.forget()
    yield found
    estate.looks.forget()


def deed(action: str, array: str, **more: Any) -> dict[str, Any]:
    return {"action": action, "array": array, "confirm": "x", **more}


def test_a_reader_buries_no_deed_and_fills_no_disk(
    tmp_path: Path, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [time.time_ns()]
    with serving(tmp_path, manage=True) as served:
        monkeypatch.setattr(served.web.audit, "_clock", lambda: now[0])
        operator, reader = served.login(), served.login(READER)
        (array,) = (one for one in operator.get("/api/arrays").json["arrays"] if one["name"] == NAME)
        known = estate.looks.known(array["id"])
        assert known is not None
        served.web.audit.note("operator test", "done", {"action": "scrub", "array": known.key}, "a scrub has begun")
        before = served.web.audit.place.stat().st_size
        long = dict.fromkeys(("action", "device", "other", "level"), "x" * 500)
        for number in range(FLOOD):
            if number % 10 == 0:
                reader = served.login(READER)  # a new session gives no new right
            assert reader.post("/api/arrays/do", deed("", array["id"]) | long).status == 403
        assert served.web.audit.place.stat().st_size - before < 10_000
        now[0] += 61 * 10**9
        found = operator.get("/api/audit").json["audit"]
        refused = [line for line in found if line["what"] == "refused"]
        assert len(refused) == 6
        assert f"{FLOOD - 5} more within a minute" in refused[0]["words"]
        assert "a scrub has begun" in [line["words"] for line in found]
        assert "a scrub has begun" in operator.get(f"/arrays/{array['id']}").text


def test_lines_of_one_array_are_found_behind_any_number_of_others(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    audit.note("operator x", "done", {"action": "scrub", "array": "md mine"})
    with audit.place.open("ab") as file:
        for number in range(3000):
            words = b"w" * (number % 90)
            file.write(
                b'{"at_unix_ns":%d,"by":"y","what":"asked","asked":{"array":"md other"},"words":"%s"}\n'
                % (number, words)
            )
    assert [line.by for line in audit.newest(100, array="md mine")] == ["operator x"]
    assert [line.at_unix_ns for line in audit.newest(3, first=1000)] == [1999, 1998, 1997]
    assert len(audit.newest(10_000)) == 3001


def test_the_log_is_read_page_by_page(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        client = served.login()
        for number in range(120):
            served.web.audit.note("operator x", "done", {"action": "locate", "array": f"disk{number}"})
        first = client.get("/api/audit?count=50").json["audit"]
        second = client.get("/api/audit?count=50&first=50").json["audit"]
        assert [one["asked"]["array"] for one in (*first, *second)] == [f"disk{n}" for n in range(119, 19, -1)]
        page = client.get("/audit?count=50&first=50").text
        assert ("disk69" in page, "disk70" in page, "first=100" in page, "first=0" in page) == (True, False, True, True)
        for wrong in ("count=0", "count=100000", "first=-1", "first=x"):
            assert client.get(f"/api/audit?{wrong}").status == 400
        assert client.get("/api/audit?array=none").status == 404


def test_logins_and_refused_deeds_say_who_from_where_and_of_what(tmp_path: Path, controller: Controller) -> None:
    with serving(tmp_path, manage=True) as served:
        assert served.ask("POST", "/api/login", {"token": "wrong"}).status == 401
        operator, reader = served.login(), served.login(READER)
        (array,) = (one for one in operator.get("/api/arrays").json["arrays"] if one["name"] == NAME)
        assert reader.post("/api/arrays/do", deed("scrub", array["id"])).status == 403
        assert operator.post("/api/arrays/do", deed("scrub", array["id"])).status == 400
        assert operator.post("/logout", {"csrf": operator.csrf}).status == 303
        lines = reader.get("/api/audit").json["audit"][::-1]
        assert f"scrub {NAME}" in reader.get("/audit").text
    assert [(line["by"].split()[0], line["what"]) for line in lines] == [
        ("a", "refused"), ("operator", "login"), ("reader", "login"), ("reader", "refused"), ("operator", "asked"),
        ("operator", "refused"), ("operator", "logout"),
    ]  # fmt: skip
    assert {line["by"].partition(" at ")[2] for line in lines} == {"127.0.0.1"}
    assert {line["by"] for line in lines if line["by"].startswith("operator")} == {lines[1]["by"]}
    of_array = [line["asked"] for line in lines if line["asked"]["action"] == "scrub"]
    assert {one["name"] for one in of_array} == {NAME}
    assert len({one["array"] for one in of_array}) == 1


def test_on_a_full_disk_people_log_in_all_the_same(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.web.audit.place.mkdir(parents=True)
        client = served.login()
        assert client.get("/audit").status == 200

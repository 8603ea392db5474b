"""Replays of web logs that are started from the page: what may be replayed against what, and no password anywhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import brickyard
from brickyard.cli import main
from brickyard.databases.connect import HOW, refuse_password, spoken
from brickyard.databases.ephemeral import ephemeral_postgres
from brickyard.errors import BadInputError
from brickyard.jobs import Jobs, Order
from pages_support import AXE, logged_in, whole
from replay_support import fill, items, w3c
from web_support import READER, Client, Served, serving


@pytest.fixture
def log(tmp_path: Path) -> Path:
    place = tmp_path / "monday.log"
    place.write_text(w3c(items(300, 3.0)))
    return place


@pytest.fixture
def served(tmp_path: Path, log: Path, mapping: Path, shop: str) -> Iterator[Served]:
    with serving(tmp_path, logs=(str(log),), mappings=(str(mapping),), databases=(shop,)) as found:
        yield found


def order(served: Served, **more: Any) -> dict[str, Any]:
    web = served.web
    of = {"logs": list(web.logs), "name": web.mappings[0], "databases": list(web.named_databases())}
    return {"kind": "web-log", **of, **more}


def ended(client: Client, asked: dict[str, Any], until: str = "done") -> Any:
    started = client.post("/api/jobs", asked)
    assert started.status == 200, started.text
    return client.job_of(started.json["name"], ("done", "failed", "refused", "lost", "interrupted", until))


def test_a_log_is_replayed_as_by_the_command_and_its_run_has_a_page(served: Served) -> None:
    client = served.login()
    asked = order(served, pace="both", log_speed="4x", drivers=2)
    assert client.post("/api/check", asked).json == {"ok": True, "error": ""}
    job = ended(client, asked)
    assert (job["outcome"], job["what"], len(job["runs"])) == ("done", "monday.log", 2), job
    assert job["message"] == "study s1"
    hose, timed = job["runs"]
    for run in (hose, timed):
        record = client.get(f"/api/runs/{run}").json
        assert record["outcome"] == "done"
        assert sum(one["requests"] for one in client.get(f"/api/runs/{run}/course").json["moments"]) == 300
        page = client.get(f"/results/{run}").text
        for words in ("Do the databases sustain this log", "calls/s", "No call failed.", "item"):
            assert words in page, words
        assert client.get(f"/api/runs/{run}/pictures").json["pictures"]
    assert client.get("/api/runs?q=replay").json["found"] == 2
    assert client.get(f"/download/html?runs={timed}").status == 200


def test_one_replay_at_a_time_on_a_database_and_stop_keeps_what_was_measured(served: Served, log: Path) -> None:
    log.write_text(w3c(items(3000, 60.0)))
    client = served.login()
    job = client.post("/api/jobs", order(served)).json
    assert client.post("/api/jobs", order(served, pace="fire-hose")).status == 409
    client.job_of(job["name"], ("running",))
    for _ in range(300):
        runs = client.get("/api/now").json["runs"]
        if runs and client.get(f"/api/runs/{runs[0]['run']}/course").json["moments"]:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("nothing was measured within 30 s")
    assert client.get(f"/results/{runs[0]['run']}").status == 200
    assert client.post(f"/api/jobs/{job['name']}/stop", {}).status == 200
    client.job_of(job["name"], ("interrupted",))
    (row,) = client.get("/api/runs").json["rows"]
    assert row["outcome"] == "interrupted"


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"logs": ["/etc/passwd"]}, 404, "--allow-log"),
        ({"logs": ["-"]}, 404, "--allow-log"),
        ({"name": "/etc/passwd"}, 404, "--allow-mapping"),
        ({"databases": ["postgresql://postgres@db.example/other"]}, 404, "--allow-database"),
        ({"databases": []}, 400, "choose a database"),
        ({"logs": []}, 400, "choose a log"),
        ({"pace": "warp"}, 400, "--pace warp"),
        ({"pace": "fixed:many"}, 400, "fixed:RATE"),
        ({"pace": "fixed:nan"}, 400, "fixed:RATE"),
        ({"pace": "poisson:inf"}, 400, "poisson:RATE"),
        ({"log_speed": "fast"}, 400, "fast"),
        ({"duration": "0s"}, 400, "measures nothing"),
        ({"drivers": 0}, 400, "drivers"),
        ({"sessions": 10**6}, 400, "sessions"),
        ({"repetitions": 0}, 400, "repetitions"),
    ],
)
def test_what_was_not_allowed_or_makes_no_sense_is_refused(
    served: Served, changes: dict[str, Any], status: int, words: str
) -> None:
    client = served.login()
    asked = order(served, **changes)
    told = client.post("/api/check", asked).json
    assert (told["ok"], words in told["error"]) == (False, True), told
    assert client.post("/api/jobs", asked).status == status
    assert client.get("/api/jobs").json["jobs"] == []


def test_the_same_database_twice_is_refused(served: Served, mapping: Path, log: Path, shop: str) -> None:
    with pytest.raises(BadInputError, match="same database twice"):
        brickyard.web_log([str(log)], mapping, [shop, shop])
    client = served.login()
    asked = order(served, databases=[*served.web.named_databases()] * 2)
    assert "same database twice" in client.post("/api/check", asked).json["error"]
    assert client.post("/api/jobs", asked).status == 400


def test_a_damaged_mapping_and_a_log_that_is_gone_are_said(served: Served, log: Path, mapping: Path) -> None:
    client = served.login()
    text = mapping.read_text()
    mapping.write_text("[[call]]\npage = 5\n")
    assert "mapping" in client.post("/api/check", order(served)).json["error"]
    mapping.write_text(text)
    log.unlink()
    assert "monday.log" in client.post("/api/check", order(served)).json["error"]


def test_passwords_come_from_the_servers_surroundings_and_are_nowhere(
    tmp_path: Path, log: Path, mapping: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ephemeral_postgres(settings={"fsync": "off"}, tcp=True) as server:
        fill(server.dsn)
        secret = server.password
        assert secret is not None
        bare = server.dsn.replace(f":{secret}@", "@")
        assert main(["web", "--port", "0", "--allow-database", server.dsn, "--store", str(tmp_path / "r.db")]) == 2
        said = capsys.readouterr()
        assert ("leave the password out" in said.err, secret in said.err + said.out) == (True, False)
        with pytest.raises(BadInputError, match="leave the password out") as refused:
            Jobs(tmp_path / "jobs").start(Order(kind="web-log", name=str(mapping), targets=[server.dsn]))
        assert secret not in str(refused.value)
        monkeypatch.setenv("PGPASSWORD", secret)
        with serving(tmp_path, logs=(str(log),), mappings=(str(mapping),), databases=(bare,)) as served:
            client = served.login()
            job = ended(client, order(served, pace="fire-hose"))
            assert job["outcome"] == "done", job
            shown = [client.get(path).body for path in ("/", "/api/jobs", "/api/targets", f"/results/{job['runs'][0]}")]
        assert all(secret.encode() not in body for body in shown)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://bob:x@db/shop",
        "postgresql://bob:x@y@db/shop",
        "postgresql://bob:x?y@db/shop",
        "host=db user=bob sslpassword = 'x y'",
        "postgresql://bob@db/shop?password=x",
        "postgresql://bob@db/shop?sslmode=require&pass%77ord=x",
        "host=db user=bob password = x",
        "host=db sslpassword=x",
    ],
)
def test_every_way_to_write_a_password_is_seen(dsn: str) -> None:
    with pytest.raises(BadInputError, match="leave the password out"):
        refuse_password(dsn, "--allow-database")


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://bob:12/Se@db/shop",
        "postgresql://bob:Se/12@db/shop",
        "postgresql://bob@db/shop?oauth_client_secret=Se",
        "postgresql://bob@db/shop?passwort=Se",
        "host=db Se",
        "postgresql://bob@db/shop?user=a%00Se",
    ],
)
def test_what_may_hold_a_password_is_refused_unrepeated(dsn: str) -> None:
    with pytest.raises(BadInputError) as refused:
        refuse_password(dsn, "--allow-database")
    assert "Se" not in str(refused.value).replace(HOW, "")


@pytest.mark.parametrize("dsn", ["postgresql://bob@db:5433/shop", "host=/tmp user=bob passfile=/x", "postgresql:///a"])
def test_a_connection_string_without_a_password_is_taken(dsn: str) -> None:
    refuse_password(dsn, "--allow-database")


def test_a_database_is_shown_by_its_spoken_name_alone(tmp_path: Path, log: Path, mapping: Path, shop: str) -> None:
    raw = f"{shop}{'&' if '?' in shop else '?'}application_name=RawText"
    with serving(tmp_path, logs=(str(log),), mappings=(str(mapping),), databases=(raw,)) as served:
        client = served.login()
        assert client.get("/api/targets").json["databases"] == [spoken(shop)]
        job = ended(client, order(served, pace="fire-hose"))
        assert (job["outcome"], job["targets"]) == ("done", [spoken(shop)]), job
        run, reader = job["runs"][0], served.login(READER)
        places = ["/", "/api/jobs", "/api/now", "/api/targets", "/api/profiles", f"/results/{run}", f"/api/runs/{run}"]
        places += [f"/download/{form}?runs={run}" for form in ("html", "json", "csv")]
        shown = {place: reader.get(place) for place in places}
        (kept,) = (served.web.state / "jobs").glob("*/order.json")
    assert {place: found.status for place, found in shown.items() if found.status != 200} == {}
    assert [place for place, found in shown.items() if b"RawText" in found.body] == []
    # The job needs all of it: only whoever owns the state folder can read it.
    assert ("RawText" in kept.read_text(), kept.stat().st_mode & 0o777) == (True, 0o600)


def test_the_form_replays_a_log_and_what_visitors_wrote_into_it_is_text(
    browser: Browser, served: Served, log: Path
) -> None:
    hit = "<img/src=x/onerror=document.title='hit'>"
    log.write_text(w3c([*items(50, 1.0), *((36_000 + n / 50, f"/{hit}?id={hit}") for n in range(20))]))
    context, tab = logged_in(browser, served, viewport={"width": 360, "height": 800})
    assert tab.locator("#pace").is_hidden()
    tab.check("input[value=web-log]")
    assert tab.locator("#target").is_hidden()
    for pace, shown, hidden in (("fixed", "#rate", "#log-speed"), ("both", "#log-speed", "#rate")):
        tab.select_option("#pace", pace)
        assert (tab.locator(shown).is_visible(), tab.locator(hidden).is_visible()) == (True, False)
    assert whole(tab) == []
    tab.evaluate(AXE)
    result = tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [one["id"] for one in result["violations"] if one["impact"] in ("serious", "critical")] == []
    tab.uncheck("input[name=log]")
    tab.click("#start-button")
    tab.wait_for_selector("#start-error:not([hidden])")
    assert "choose a log" in tab.locator("#start-error").inner_text()
    tab.check("input[name=log]")
    tab.select_option("#pace", "fixed")
    tab.fill("#rate", "200")
    tab.fill("#lasts", "2s")
    tab.click("#start-button")
    tab.wait_for_selector("article.run .outcome.done", timeout=60_000)
    tab.wait_for_selector("#jobs .outcome.done")
    assert "replay monday.log" in tab.locator("#jobs").inner_text()
    tab.click("#jobs a[href^='/results/']")
    tab.wait_for_selector("#pictures img, #pictures [role=status]")
    assert "onerror=document.title" in tab.locator("main").inner_text()
    assert tab.locator("main img[src=x]").count() == 0
    assert "hit" not in tab.title()
    context.close()

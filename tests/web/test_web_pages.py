"""The pages in a browser: whole at the widths of a phone, a desk and a wall, light and dark, by the keyboard alone, for
screen readers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page, Route

import brickyard
from array_support import storcli_host, storcli_reply
from brickyard import managing
from brickyard.arrays.health import Notice
from brickyard.arrays.keys import AlarmKey
from brickyard.databases.pgbench_plan import read_changes
from brickyard.schema import plan_document
from brickyard.store.process import own_process
from brickyard.study.running.summaries import keep
from pages_support import AXE, logged_in, whole
from support import MS, SECOND, add_run, cell, interval, phase_end
from web_support import LOAD, OPERATOR, Events, Served, requests_of, serving, watched

WIDTHS = (360, 1280, 3840)
PAGES = (
    "/",
    "/results",
    "/results/1",
    "/compare?before=1&after=3,4",
    "/bricks",
    "/bricks/terraserver-2003",
    "/advice",
    "/arrays",
    "/alarms",
    "/audit",
    "/compare",
    "/results/99",
)
TABS_MAX = 150


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A tool that answers as StorCLI does, so that every host has an array to look at, which rebuilds."""
    folder = tmp_path_factory.mktemp("controller")
    ok = {"Controller": 0, "Status": "Success", "Description": "None"}
    listed = {"Controllers": [{"Command Status": ok, "Response Data": {"Virtual Drives": [{"DG/VD": "0/1"}]}}]}
    rebuild = storcli_reply([{"Drive-ID": "/c0/e252/s2", "Progress%": 37, "Status": "In progress"}])
    answers = {"storcli64 /call/vall show J": json.dumps(listed), "storcli64 /c0/e252/s2 show rebuild J": rebuild}
    storcli_host(folder, "Dgrd", ["Onln", "Onln", "Rbld"], **answers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
        yield


@pytest.fixture(autouse=True)
def no_tab_left(browser: Browser) -> Iterator[None]:
    """The tabs of a test that failed would be counted by the next one."""
    yield
    for context in browser.contexts:
        context.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, controller: None) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("web"), manage=True) as found:
        with brickyard.Store(found.web.store) as store:
            load = brickyard.profile("sqlio-random-read-4", "duration=5s")
            brickyard.run(store, load, ["sim:terraserver-2003"], repetitions=2)
            brickyard.run(store, load, ["sim:terraserver-2003"], condition="degraded", repetitions=2)
        notices = [
            Notice(
                AlarmKey.read("array /dev/md7"), "begins", "error", "/dev/md7 (raid5) is degraded: a member is missing"
            ),
            Notice(AlarmKey.read("file system /srv full"), "begins", "warning", "the file system at /srv is 96 % full"),
        ]
        found.web.alarms.take(notices, {}, time.time())
        found.web.audit.note("operator test", "done", {"action": "scrub", "array": "/dev/md7"}, "a scrub has begun")
        yield found


def barriers(tab: Page) -> list[str]:
    """What axe finds serious or critical on a page, and places that bear one name."""
    tab.evaluate(AXE)
    result = tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['target']} {node['failureSummary'][:200]}"
        for one in result["violations"]
        if one["impact"] in ("serious", "critical") or one["id"] == "landmark-unique"
        for node in one["nodes"][:3]
    ]


def faults_now(tab: Page) -> list[str]:
    """What is wrong with a page as it is, at each width."""
    faults = []
    for width in (*WIDTHS, 1280):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.wait_for_timeout(100)
        faults += [f"at {width} px: {fault}" for fault in whole(tab)]
    return faults + barriers(tab)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_whole_and_can_be_read_by_everybody(scheme: Any, browser: Browser, served: Served) -> None:
    context, tab = logged_in(browser, served, color_scheme=scheme, viewport={"width": WIDTHS[0], "height": 800})
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: said.append(str(error)))
    faults = []
    disks = [f"/disks/{disk.name}" for disk in managing.disks(managing.Host())[:1]]
    arrays = [f"/arrays/{array['id']}" for array in served.login().get("/api/arrays").json["arrays"]]
    assert arrays
    for path in (*PAGES, *disks, *arrays):
        tab.goto(served.origin + path, wait_until="domcontentloaded")
        tab.wait_for_timeout(150)
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": 900})
            faults += [f"{path} at {width} px: {fault}" for fault in whole(tab)]
        tab.set_viewport_size({"width": WIDTHS[0], "height": 800})
        faults += [f"{path}: {fault}" for fault in barriers(tab)]
        assert tab.locator("main h1").count() == 1, path
        wait_for(tab, "document.getElementById('standing').innerText.includes('/dev/md7')")
    context.close()
    assert faults == []
    assert [text for text in said if "404" not in text] == []


def test_a_run_of_transactions_has_no_throughput(browser: Browser, tmp_path: Path) -> None:
    """What a transaction moves is not known, which is not 0."""
    asked = plan_document(read_changes("/data", ["clients=4", "duration=3s"]).plan())
    calls = cell([MS] * 500, operation="call") | {"bytes": 0}
    told = [interval(n * SECOND, (n + 1) * SECOND, calls) for n in range(3)]
    reads = [interval(n * SECOND, (n + 1) * SECOND, cell([MS] * 500)) for n in range(3)]
    with serving(tmp_path) as found:
        with brickyard.Store(found.web.store) as store:
            for events, planned in ((told, asked), (reads, None)):
                run = add_run(store, [*events, phase_end(end_ns=3 * SECOND)], plan_=planned)
                keep(store, store.record(run))
            here = {"host": {}, "targets": [], "process": msgspec.to_builtins(own_process())}
            add_run(store, told, plan_=asked, outcome=None, facts=here)
        context, tab = logged_in(browser, found)
        tab.goto(f"{found.origin}/results")
        column = tab.locator("table.runs thead th").all_inner_texts().index("MiB/s")
        shown = {
            row.locator("td").nth(2).inner_text(): row.locator("td").nth(column).inner_text()
            for row in tab.locator("table.runs tbody tr").all()
        }
        assert shown["1"] == "–"
        assert float(shown["2"]) > 0
        for run, cells, has_chart in ((1, ["–"] * 3, False), (2, [shown["2"]] * 3, True)):
            tab.goto(f"{found.origin}/results/{run}")
            assert [row.split("\t")[2] for row in rows_of(tab)] == cells
            assert tab.locator(".chart.bytes").is_visible() == has_chart
        tab.goto(f"{found.origin}/")
        for run, figure in ((1, "–"), (2, shown["2"]), (3, "–")):  # the last goes on
            article = tab.locator(f"article.run[data-run='{run}']")
            article.locator(".chart.rate canvas").wait_for()
            assert article.locator(".bar").nth(1).inner_text().split() == ["MiB/s", figure]
            assert article.locator(".chart.bytes").is_visible() == (figure != "–")
        context.close()


def wait_for(tab: Page, expression: str) -> None:
    """Asked from outside: the policy of the pages lets nobody evaluate a text within them."""
    for _ in range(300):
        if tab.evaluate(expression):
            return
        tab.wait_for_timeout(100)
    raise AssertionError(f"did not become so: {expression}")


def focus(tab: Page, selector: str) -> None:
    """By the Tab key alone."""
    for _ in range(TABS_MAX):
        if tab.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
        tab.keyboard.press("Tab")
    raise AssertionError(f"the Tab key does not come to {selector}")


def restart(tab: Page) -> None:
    tab.evaluate("document.activeElement.blur()")


def test_a_run_is_started_watched_stopped_and_compared_by_the_keyboard(browser: Browser, served: Served) -> None:
    context, tab = logged_in(browser, served, viewport={"width": 1280, "height": 900})
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    tab.wait_for_selector("#settings p", state="attached")
    focus(tab, "#profile")
    for _ in range(TABS_MAX):
        if tab.evaluate("document.activeElement.value") == "sqlio-random-read-4":
            break
        tab.keyboard.press("ArrowDown")
    wait_for(tab, "document.getElementById('set-depth').value === '4'")
    focus(tab, "#size")
    tab.keyboard.press("Control+A")
    tab.keyboard.type("32MiB")
    focus(tab, "#changes")
    tab.keyboard.type("duration=60s\ndepth=0")
    focus(tab, "#start-button")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#start-error:not([hidden])")
    assert "depth" in tab.locator("#start-error").inner_text()
    restart(tab)
    focus(tab, "#changes")
    tab.keyboard.press("Control+A")
    tab.keyboard.type("duration=60s")
    focus(tab, "#start-button")
    tab.keyboard.press("Enter")
    assert tab.locator("#start-error").is_hidden(), tab.locator("#start-error").inner_text()
    tab.wait_for_selector("article.run .outcome.running", timeout=30_000)
    tab.wait_for_selector("article.run:first-child .chart.rate canvas", timeout=30_000)
    wait_for(tab, "document.querySelector('.bar .value').textContent !== '–'")
    run = tab.locator("article.run").first.get_attribute("data-run")
    assert tab.locator("article.run").first.locator("meter").count() == 7
    tab.locator("article.run details").first.evaluate("one => { one.open = true; }")
    tab.wait_for_selector("article.run table.intervals tbody tr")
    assert faults_now(tab) == []
    stop(tab)
    shown = served.login().get(f"/api/runs/{run}").json
    assert shown["outcome"] == "interrupted"
    wait_for(tab, "document.querySelector('.bars-of').textContent === 'Figures of the whole run'")
    assert f"{shown['totals'][0]['iops']:,.0f}" in tab.locator("article.run .bars").first.inner_text()
    restart(tab)
    focus(tab, "nav a[href='/results']")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/results")
    for name, number in (("after", "3"), ("before", "1")):  # the newest runs stand first
        focus(tab, f"input[name={name}][value='{number}']")
        tab.keyboard.press("Space")
    focus(tab, "#choose button:not(#csv)")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/compare?before=1&after=3")
    assert "measured once" in tab.locator("main").inner_text()
    context.close()


def test_a_late_answer_leaves_the_settings_of_the_chosen_profile(browser: Browser, served: Served) -> None:
    context, tab = logged_in(browser, served)
    late: list[Route] = []

    def hold(route: Route) -> None:
        late.append(route)

    tab.route("**/api/profiles/sqlio-random-read-4", hold)
    tab.wait_for_selector("#settings p", state="attached")
    tab.select_option("#profile", "sqlio-random-read-4")
    tab.select_option("#profile", "sqlio-random-read-1")
    wait_for(tab, "document.getElementById('set-depth').value === '1'")
    assert len(late) == 1
    with tab.expect_response("**/api/profiles/sqlio-random-read-4") as answered:
        late[0].continue_()
    answered.value.finished()
    tab.wait_for_timeout(50)
    assert tab.input_value("#set-depth") == "1"
    context.close()


def stop(tab: Page) -> None:
    """By the keyboard; the focus stays in the row of the job."""
    restart(tab)
    focus(tab, "button.stop")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("article.run .outcome.interrupted", timeout=30_000)
    wait_for(tab, "document.querySelector('button.stop') === null")
    assert tab.evaluate("document.activeElement.closest('#jobs tbody tr') !== null")


def test_an_array_is_seen_and_nothing_is_done_to_it_without_its_name(browser: Browser, served: Served) -> None:
    context, tab = logged_in(browser, served, viewport={"width": 1280, "height": 900})
    tab.click("nav a[href='/arrays']")
    tab.click("main a:text-is('storcli:/c0/v1')")
    assert "rebuilding" in tab.locator("#work").inner_text()
    assert tab.locator("#work-share").get_attribute("value") == "0.37"
    assert tab.locator("table tbody tr").first.is_visible()
    assert [tab.locator(f"form[data-action={one}]").count() for one in ("scrub", "spare")] == [1, 0]
    form = tab.locator("form[data-action=fail]")
    form.locator("select").select_option("252:1")
    form.locator("button").click()
    assert tab.evaluate("document.activeElement.id") == "fail-confirm"  # the field is required
    form.locator("#fail-confirm").fill("another array")
    form.locator("button").click()
    tab.wait_for_selector("#say.shown.error, .say.shown.error")
    assert "refused" in [line["what"] for line in served.login().get("/api/audit").json["audit"]]
    context.close()


def test_the_address_that_is_printed_logs_in_also_where_the_login_is_open(browser: Browser, served: Served) -> None:
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(f"{served.origin}/login")
    assert tab.evaluate("document.activeElement.id") == "token"
    tab.goto(f"{served.origin}/login#{OPERATOR}")
    tab.wait_for_url(f"{served.origin}/")
    context.close()


def test_a_script_in_a_note_is_text(browser: Browser, served: Served) -> None:
    client = served.login()
    seen = client.get("/api/runs/1").json["annotation"]["number"]
    note = "<script>document.title='hit'</script><img src=x onerror=\"document.title='hit'\">"
    assert client.post("/api/runs/1/annotation", {"note": note, "labels": [note[:50]], "seen": seen}).status == 200
    context, tab = logged_in(browser, served)
    for path in ("/results", "/results/1"):
        tab.goto(served.origin + path)
        tab.wait_for_timeout(200)
        assert "hit" not in tab.title()
    assert tab.input_value("#note") == note
    context.close()


def test_a_hidden_tab_gives_its_connection_back_and_is_live_when_it_is_seen(browser: Browser, served: Served) -> None:
    """A browser has six connections to a server: a seventh tab would wait for one for ever."""
    context, tab = logged_in(browser, served)
    tab.clock.install()
    tab.goto(f"{served.origin}/")
    wait_for(tab, "document.getElementById('link').textContent === 'Live.'")
    hide = "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true }); %s }"
    told = "document.dispatchEvent(new Event('visibilitychange'));"
    assert served.hub is not None
    tab.evaluate(hide % told, True)
    tab.clock.fast_forward(11_000)
    wait_for(tab, "document.getElementById('link').textContent.startsWith('Paused')")
    until_s = time.monotonic() + 20
    while served.hub.browsers and time.monotonic() < until_s:
        time.sleep(0.1)
    assert served.hub.browsers == 0
    tab.evaluate(hide % told, False)
    wait_for(tab, "document.getElementById('link').textContent === 'Live.'")
    context.close()


def test_the_theme_is_kept_and_pages_print(browser: Browser, served: Served) -> None:
    context, tab = logged_in(browser, served, color_scheme="light")
    tab.click("#theme")
    tab.goto(f"{served.origin}/results")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.emulate_media(media="print")
    assert tab.locator("nav[aria-label=Pages]").is_hidden()
    assert tab.locator("table").first.is_visible()
    # On paper each figure stands below its heading, and the theme of the screen is left behind.
    heads = tab.locator("table.runs thead th:visible").count()
    assert heads == tab.locator("table.runs tbody tr").first.locator("td:visible").count()
    ground = "getComputedStyle(document.documentElement).getPropertyValue('--even').trim()"
    assert tab.evaluate(ground) == "#fafbfc"
    context.close()


def test_without_script_states_and_results_can_be_read(browser: Browser, served: Served) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"{served.origin}/login")
    tab.fill("#token", OPERATOR)
    tab.click("#login button")
    for path, words in (("/results/1", "Summary"), ("/arrays", "Disks"), ("/alarms", "/dev/md7")):
        tab.goto(served.origin + path)
        assert words in tab.locator("main").inner_text()
    context.close()


def test_a_run_outlives_the_server_and_the_page_catches_up(tmp_path: Path, browser: Browser) -> None:
    """Killed without a warning in mid-run; another server knows the session and the run, without gap or double."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    place = tmp_path / "state" / "brickyard" / "web-tokens"
    place.parent.mkdir(parents=True)
    place.write_text(f"# tokens of brickyard web\noperator {OPERATOR}\n")
    place.chmod(0o600)

    def start(port: int) -> tuple[subprocess.Popen[str], int]:
        words = [sys.executable, "-m", "brickyard", "web", "--port", str(port), "--store", str(tmp_path / "runs.db")]
        server = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        line = server.stderr.readline()
        # This is no terminal: what is printed here may be kept in a journal.
        assert (f"/login; tokens are in {place}" in line, OPERATOR in line) == (True, False)
        return server, int(line.split(":")[3].split("/")[0])

    server, port = start(0)
    try:
        client = Served(None, port).login()  # type: ignore[arg-type]
        job = client.post("/api/jobs", {**LOAD, "changes": ["duration=6s"]}).json
        events = Events(port, {"Cookie": client.cookie})
        kind, told = events.next()
        while not (kind == "run" and told["moments"]):
            kind, told = events.next()
        run = told["state"]["run"]
        context, tab = logged_in(browser, Served(None, port))  # type: ignore[arg-type]
        tab.wait_for_selector("article.run .chart.rate canvas")
        server.kill()
        server.wait()
        events.close()
        server, _ = start(port)
        later = Events(port, {"Cookie": client.cookie, "Last-Event-ID": events.last})
        moments = watched(later, run, "done")
        later.close()
        assert client.job_of(job["name"], ("done",))["runs"] == [run]
        course = client.get(f"/api/runs/{run}/course").json["moments"]
        assert requests_of(moments) == requests_of(course) > 0
        tab.wait_for_selector("article.run .outcome.done", timeout=30_000)
        seen = rows_of(tab)
        tab.goto(f"http://127.0.0.1:{port}/results/{run}")
        assert seen == rows_of(tab) != []
        context.close()
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) in (0, -signal.SIGTERM)
    finally:
        server.kill()
        server.wait()


def rows_of(tab: Page) -> list[str]:
    """The intervals of a run as a page has them for those who see no charts."""
    tab.wait_for_selector(".chart.rate canvas")
    tab.click("summary:text-is('The same as a table')")
    tab.wait_for_selector("table.intervals tbody tr")
    return tab.locator("table.intervals tbody tr").all_inner_texts()

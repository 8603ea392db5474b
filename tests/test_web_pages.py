"""The pages in a browser: whole at the widths of a phone, a desk and a wall, light and dark, by the keyboard alone, for
screen readers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

import brickyard
from brickyard import managing
from brickyard.arrays.health import Notice
from web_support import OPERATOR, Served, serving

WIDTHS = (360, 1280, 3840)
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
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
    "/results/99",
)
TABS_MAX = 150


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("web")) as found:
        with brickyard.Store(found.web.store) as store:
            load = brickyard.profile("sqlio-random-read-4", "duration=5s")
            brickyard.run(store, load, ["sim:terraserver-2003"], repetitions=2)
            brickyard.run(store, load, ["sim:terraserver-2003"], condition="degraded", repetitions=2)
        notices = [
            Notice("array /dev/md7", "begins", "error", "/dev/md7 (raid5) is degraded: a member is missing"),
            Notice("file system /srv full", "begins", "warning", "the file system at /srv is 96 % full"),
        ]
        found.web.alarms.take(notices, {}, time.time())
        found.web.audit.note("operator test", "done", {"action": "scrub", "array": "/dev/md7"}, "a scrub has begun")
        yield found


def logged_in(browser: Browser, served: Served, **options: Any) -> tuple[BrowserContext, Page]:
    context = browser.new_context(**options)
    tab = context.new_page()
    tab.goto(f"{served.origin}/login#{OPERATOR}")
    tab.wait_for_url(f"{served.origin}/")
    return context, tab


def whole(tab: Page) -> list[str]:
    """What is wrong with the layout of a page at its width."""
    found: list[str] = tab.evaluate(
        """() => {
          const wide = document.documentElement.clientWidth, said = [];
          if (document.documentElement.scrollWidth > wide) said.push(`${document.documentElement.scrollWidth} wide`);
          for (const one of document.querySelectorAll('main *')) {
            const box = one.getBoundingClientRect();
            if (!box.width || one.closest('.scroll, .hidden, pre, .uplot, [hidden]')) continue;
            if (box.right > wide + 1 || box.left < -1) said.push(`${one.tagName} ${one.className} outside`);
          }
          return said.slice(0, 5);
        }"""
    )
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_whole_and_can_be_read_by_everybody(scheme: Any, browser: Browser, served: Served) -> None:
    context, tab = logged_in(browser, served, color_scheme=scheme, viewport={"width": WIDTHS[0], "height": 800})
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: said.append(str(error)))
    faults = []
    disks = [f"/disks/{disk.name}" for disk in managing.disks(managing.Host())[:1]]
    for path in (*PAGES, *disks):
        tab.goto(served.origin + path, wait_until="domcontentloaded")
        tab.wait_for_timeout(150)
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": 900})
            faults += [f"{path} at {width} px: {fault}" for fault in whole(tab)]
        tab.set_viewport_size({"width": WIDTHS[0], "height": 800})
        tab.evaluate(AXE)
        result = tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
        faults += [
            f"{path}: {one['id']}: {node['target']} {node['failureSummary'][:200]}"
            for one in result["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"][:3]
        ]
        assert tab.locator("main h1").count() == 1, path
        wait_for(tab, "document.getElementById('standing').innerText.includes('/dev/md7')")
    context.close()
    assert faults == []
    assert [text for text in said if "404" not in text] == []


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
    restart(tab)
    focus(tab, "button.stop")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("article.run .outcome.interrupted", timeout=30_000)
    client = served.login()
    assert client.get(f"/api/runs/{run}").json["outcome"] == "interrupted"
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

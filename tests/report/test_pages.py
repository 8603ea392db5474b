"""Every kind of report in a browser, at the widths of a phone, a small window and a desk: nothing is empty, clipped,
covered, outside its box or without a font."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from brickyard.advise import charts, level_chart, suitability
from brickyard.cli import main
from brickyard.report.advice_charts import write_charts
from brickyard.report.interference import interference_picture
from brickyard.report.page import write_report
from brickyard.report.picture import Picture
from brickyard.report.reference import write_reference
from brickyard.store import Json, Store
from brickyard.study.shipped.interference import InterferenceMap, MapPoint
from brickyard.study.shipped.reference import Outcome, published_cells, rankings, tables
from lab_support import recorded
from replay_support import replay_record
from support import MS, add_characterization
from watch_support import CAN_WATCH, fio, shell, watching

WIDTHS = (420, 800, 1400)
MODEL = "sim:terraserver-2003"
LOOK = (Path(__file__).parents[1] / "pages.js").read_text()
ALONE = (
    "<!DOCTYPE html><html><body style='margin:0'><section><figure style='margin:0'>{}</figure></section></body></html>"
)
FONT = "font-family='sans-serif'"
TABLE = (
    "<div class='scroll' aria-label='a table' style='width:200px;overflow-x:auto'><table><tbody><tr>{}</tr></tbody>"
    "</table></div>"
)
MAIN = {
    "load-curve": "Response time against offered rate",
    "ramp": "Ramp of",
    "ramp-rate": "Ramp of",
    "pts": "IOPS by block size and read/write mix",
    "pts-demand": "Demand variation",
}
"""The picture that a page of this kind must begin with."""


def run(*words: str) -> None:
    assert main(list(words)) == 0


def characterization(place: Path) -> Path:
    with Store(place / "runs.db") as store:
        add_characterization(store, sizes=[512 << step for step in range(12)])
        records = [store.record(run.id) for run in store.runs()]
        return write_report(records, store.studies()[0], place / "out")


def one_run(place: Path) -> Path:
    run("run", "overland-exchange", MODEL, "--set", "duration=3s", "--store", str(place / "s.db"))
    page = reported(place)
    # Two of its streams have one rate: the line above has gaps that show the line below.
    assert 'stroke-dasharray="8,8"' in (page.parent / "pictures" / "throughput-over-time.svg").read_text()
    return page


def three_runs(place: Path) -> Path:
    for depth, condition in ((1, "normal"), (4, "normal"), (16, "degraded")):
        changes = ("--set", "duration=3s", "--set", f"depth={depth}", "--condition", condition)
        run("run", "sqlio-random-read-4", MODEL, *changes, "--store", str(place / "s.db"))
    page = reported(place, "1-3")
    course = (page.parent / "pictures" / "throughput-over-time.svg").read_text()
    assert all(f">run {name}<" in course for name in ("1 (normal)", "2 (normal)", "3 (degraded)"))
    return page


def ramp(place: Path) -> Path:
    run("run", "obl-load", MODEL, "--store", str(place / "s.db"))
    return reported(place)


def ramp_of_rates(place: Path) -> Path:
    turn = 'ramp={ knob = "rate", from = 20, to = 200, step = 20, every = "2s" }'
    pace = 'pace={ loop = "open", rate = 20, arrivals = "poisson" }'
    changes = [word for change in (turn, pace) for word in ("--set", change)]
    run("run", "sqlio-random-read-4", MODEL, *changes, "--store", str(place / "s.db"))
    return reported(place)


def load_curve(place: Path) -> Path:
    """What `load-curve` writes and what `report` makes of its study are one page."""
    kept = ("--store", str(place / "s.db"))
    asked = ("--each", "2s", "--max-rate", "1600", "--limit", "p90:40ms")
    run("load-curve", "sqlio-random-read-4", MODEL, *asked, *kept, "-o", str(place / "own"))
    later = reported(place, "s1")
    assert {p.name for p in (later.parent / "pictures").iterdir()} == {
        p.name for p in (place / "own" / "pictures").iterdir()
    }
    page = later.read_text()
    assert "117/s" in page  # a line is named by its rate
    # On a phone, a row of its eleven columns is a block, which its rate names.
    assert re.search(r'class="scroll stacks by\d"[^>]* aria-label="Response time against offered rate"', page)
    assert '<td data-name="offered/s" class="key last named">' in page
    return later


def imported(place: Path) -> Path:
    """A result of another tool has tables and no course."""
    result = Path(__file__).parents[1] / "samples" / "results" / "iometer-1.1.csv"
    run("import", str(result), "--store", str(place / "s.db"))
    return reported(place)


def study(place: Path) -> Path:
    only = ("--only", "load=random-read-4", "--set", "duration=2s")
    run("study", "sata-2003", *only, "--store", str(place / "s.db"), "-o", str(place / "out"))
    return place / "out" / "report.html"


def study_with_a_trade(place: Path) -> Path:
    few = ("--repetitions", "2", "--set", "duration=4s", "--set", "warmup=0s")
    run("study", "rebuild-rate", *few, "--store", str(place / "s.db"), "-o", str(place / "out"))
    return place / "out" / "report.html"


def pts(place: Path) -> Path:
    return of_pts(place, "10ms", "iops", "throughput", "latency")


def pts_of_demand(place: Path) -> Path:
    return of_pts(place, "1ms", "dirth", "write-saturation", "cross-stimulus")


def of_pts(place: Path, round_time: str, *tests: str) -> Path:
    """What `pts` writes and what `report` makes of its study are one page."""
    short = ("--round", round_time, "--range", "0.1%", *(word for test in tests for word in ("--test", test)))
    run("pts", "client", "sim:iodrive-160-slc", *short, "--store", str(place / "s.db"), "-o", str(place / "own"))
    later = reported(place, "s1")
    assert later.read_text() == (place / "own" / "report.html").read_text()
    return later


def replay(place: Path) -> Path:
    with Store(place / "s.db") as store:
        rates: list[Json] = [{"kind": "poisson", "rate_per_s": rate} for rate in (20.0, 50.0, 90.0)]
        records = [replay_record(store, pace, int(pace["rate_per_s"] * 4), 4.0) for pace in rates]
        return write_report(records, None, place / "out")


def reference(place: Path) -> Path:
    """As `study reference` writes it, of made-up simulations: the real ones take a minute."""
    every = published_cells()
    cells = [cell for cell in every if cell.table in {every[0].table, every[-1].table}]
    factors = (0.7, 0.95, 1.02, 1.2)
    outcomes = [Outcome(cell, (cell.published * factors[n % 4],), None) for n, cell in enumerate(cells)]
    return write_reference(tables(outcomes), rankings(outcomes), place / "out")


def rules_of_thumb(place: Path) -> Path:
    """As `advise charts` writes it, of made-up simulations."""
    made: level_chart.Figures = {
        kind: {
            level: level_chart.LevelFigures(100.0 + 40 * n, 50.0 + 30 * n, 0.01 * n, 0.5 + 0.1 * n)
            for n, level in enumerate(("raid0", "raid1", "raid10", "raid5", "raid6"))
        }
        for kind in level_chart.DRIVES
    }
    given = suitability.assumed({}, {})
    offers = [suitability.Offer("raid10", 8, 8.0 * 3**n, 900.0, 1e5, ("raid10",)) for n in range(3)]
    sought = {
        (kind.item, application.criterion): suitability.Sought(offers[n % 3], 800.0)
        for n, kind in enumerate(given.classes)
        for application in given.applications
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(level_chart, "compute", lambda: made)
        patch.setattr(suitability, "compute", lambda given: suitability.judge(given, sought))
        return write_charts(charts.compute(given, lambda _: None), place / "out")


def comparison(place: Path) -> Path:
    """Pictures without a page, alone in one."""
    kept = ("--store", str(place / "s.db"))
    drives = ("sim:msr-2003-maxtor", "sim:msr-2003-wd")
    for drive in drives:
        for seed in (1, 2, 3):
            changes = [word for change in (f"seed={seed}", "duration=4s") for word in ("--set", change)]
            run("run", "sqlio-random-read-4", drive, *changes, *kept)
    run("compare", "1-3", "4-6", *kept, "-o", str(place / "pictures"))
    run("history", drives[0], *kept, "-o", str(place / "pictures"))
    drawn = sorted((place / "pictures").glob("*.svg"))
    assert len(drawn) >= 2
    return alone(place, drawn)


def advice(place: Path) -> Path:
    asked = ("--require", "iops>=100", "--condition", "normal", "--capacity", "500GB", "--set", "duration=2s")
    run("advise", "buy", "sqlio-random-read-4", *asked, "--most", "6", "-o", str(place / "out"))
    return place / "out" / "report.html"


def interference(place: Path) -> Path:
    """A map of one drive: of every rate of writes the reads that held the limit, and more that did not."""
    points = [
        MapPoint(reads, writes, (reads + 3 * writes) * 0.4 * MS if reads + 2 * writes < 130 else None, 9.0 * MS,
                 reads + 2 * writes < 130)
        for writes in (0.0, 13.5, 27.0, 40.5, 48.6)
        for reads in (2.0, 10.0, 30.0, 62.5, 90.0, 120.0)
        for _ in range(3)
    ]  # fmt: skip
    (place / "pictures").mkdir()
    found = InterferenceMap("p99", 50.0 * MS, 120.0, 54.0, points)
    load = "reads of 4 KiB and writes of 4 KiB, open loops, random, direct I/O, modelled, 60.0 s a run of 90 runs"
    interference_picture(found, "sim:msr-2003-wd", load).write(place / "pictures")
    return alone(place, sorted((place / "pictures").glob("*.svg")))


def watch(place: Path) -> Path:
    if not CAN_WATCH:
        pytest.skip("needs root and a kernel that describes itself (BTF)")
    image = place / "image"
    with image.open("wb") as file:
        file.truncate(256 << 20)
    device = shell("losetup", "--find", "--show", str(image))
    try:
        with watching(device, "--every", "200ms", "--report", str(place / "out")) as running:
            for rw, size in (("randwrite", "64k"), ("randread", "4k"), ("read", "1m")):
                fio(device, f"--rw={rw}", f"--bs={size}", "--runtime=1", "--time_based", "--ioengine=psync")
            running.ended()
    finally:
        shell("losetup", "--detach", device)
    return place / "out" / "report.html"


def crash_states(place: Path) -> Path:
    if os.geteuid() or not Path("/dev/fuse").exists():
        pytest.skip("needs root and FUSE")
    words = ["--log", str(recorded(place / "log", "sqlite")), "--cache", "lying:50", "--aim", "acknowledgements"]
    assert main(["lab", "crash", "explore", *words, "--states", "6", "--report", str(place / "out")]) == 1
    return place / "out" / "report.html"


def alone(place: Path, drawn: list[Path]) -> Path:
    page = place / "alone.html"
    inline = [Picture(path.stem, path.stem, path.read_text()).inline() for path in drawn]
    page.write_text(ALONE.format("</figure></section><section><figure style='margin:0'>".join(inline)))
    return page


def reported(place: Path, what: str = "latest") -> Path:
    run("report", what, "--store", str(place / "s.db"), "-o", str(place / "out"))
    return place / "out" / "report.html"


KINDS: dict[str, Callable[[Path], Path]] = {
    "characterization": characterization,
    "run": one_run,
    "runs": three_runs,
    "ramp": ramp,
    "ramp-rate": ramp_of_rates,
    "imported": imported,
    "load-curve": load_curve,
    "study": study,
    "trade": study_with_a_trade,
    "pts": pts,
    "pts-demand": pts_of_demand,
    "replay": replay,
    "reference": reference,
    "charts": rules_of_thumb,
    "comparison": comparison,
    "advice": advice,
    "interference": interference,
    "watch": watch,
    "crash-states": crash_states,
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_kind_of_report_is_whole_in_a_browser(kind: str, tmp_path: Path, browser: Browser) -> None:
    page = KINDS[kind](tmp_path)
    tab = browser.new_page()
    tab.goto(page.as_uri())
    faults = []
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        tab.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        faults += [f"{width} px: {fault}" for fault in tab.evaluate(LOOK)]
    if kind in MAIN:
        first = tab.locator("section:has(figure) h2").first.inner_text()
        assert first.startswith(MAIN[kind])
    tab.close()
    assert faults == []


@pytest.mark.parametrize(
    ("picture", "fault"),
    [
        ("<g class='role-mark'></g><text y='20'>a</text>", "empty"),
        ("<g class='role-mark'><path d='M0 50h90'/></g><text x='-20' y='20'>left</text>", "clipped: left"),
        (
            "<g class='role-mark'><path d='M0 50h90'/></g><text y='20'>abc</text><text y='20' x='4'>def</text>",
            "overlap",
        ),
        ("<g class='role-mark'><path d='M0 50h90'/></g><text y='20' font-family='No Such Font'>a</text>", "no font"),
        ("<g class='role-mark'><path d='M0 50h90'/></g><text y='20' font-size='3'>abc</text>", "too small"),
        (
            "<g class='role-mark'><path d='M0 50h90'/></g><g class='role-axis-label'><text y='20'>0.0</text>"
            "<text y='20' x='25'>0.2</text></g>",
            "labels touch",
        ),
    ],
)
def test_the_look_at_a_page_finds_each_fault(picture: str, fault: str, browser: Browser) -> None:
    tab = browser.new_page(viewport={"width": 800, "height": 600})
    tab.set_content(ALONE.format(f"<svg width='200' height='100' viewBox='0 0 200 100' {FONT}>{picture}</svg>"))
    found = tab.evaluate(LOOK)
    tab.close()
    assert any(fault in text for text in found), found


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ("<td>1 KiB<td>400<td>0.2<td style='min-width:300px'>x", "its first column is out of sight"),
        (
            "<td style='position:sticky;left:0' class='text'>a<td class='text' style='min-width:200px'>b<td>1<td>2",
            "no two",
        ),
        ("<td style='width:1px;max-width:9px;overflow-wrap:anywhere'>published as higher<td>b", "a letter a line"),
    ],
)
def test_the_look_at_a_table_finds_each_fault(cells: str, fault: str, browser: Browser) -> None:
    tab = browser.new_page(viewport={"width": 420, "height": 600})
    tab.set_content(TABLE.format(cells))
    found = tab.evaluate(LOOK)
    tab.close()
    assert any(fault in text for text in found), found

"""The report: complete, self-contained, readable on a phone; every picture also as PNG and SVG."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Request

from brickyard.analysis import phase_rates
from brickyard.analysis.figures import cells
from brickyard.analysis.figures.load_curve import WITHIN, CurvePoint, rate_mark
from brickyard.analysis.figures.named import FIGURES, measured
from brickyard.analysis.figures.series import HeatCell, Point, rate_shown
from brickyard.analysis.figures.totals import totals
from brickyard.analysis.figures.workload import io_words, workload_words
from brickyard.analysis.judging import cached
from brickyard.analysis.judging.answers import answer
from brickyard.analysis.judging.summary import circumstances
from brickyard.analysis.studies.characterization import characterization
from brickyard.errors import BadInputError
from brickyard.report import charts
from brickyard.report import page as page_of_runs
from brickyard.report.load_curve import load_curve
from brickyard.report.page import default_directory, write_report
from brickyard.report.pictures import draw
from brickyard.report.tables import characterization_tables, totals_tables
from brickyard.report.written import templates
from brickyard.store import Store
from brickyard.units import MIB, format_count
from support import MS, SECOND, add_characterization, add_run, cell, interval, phase_end, plan, stream

SECTIONS = [
    "summary",
    "warnings",
    "characterization-graph",
    "latency-against-request-size",
    "throughput-over-time",
    "latency-over-time",
    "table",
    "circumstances",
]

LINE_BETWEEN = re.compile(r'aria-roledescription="line mark"[^>]* d="M[^"]*L')


class Heard:
    """What a page says on its console, and what it asks for."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []

    def console(self, message: ConsoleMessage) -> None:
        self.said.append(message.text)

    def failed(self, error: Error) -> None:
        self.said.append(str(error))

    def request(self, request: Request) -> None:
        self.asked.append(request.url)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report")
    with Store(place / "runs.db") as store:
        add_characterization(store)
        records = [store.record(run.id) for run in store.runs()]
        study = store.studies()[0]
    return write_report(records, study, place / "out")


def test_a_cell_whose_requests_all_ended_too_late_has_no_rate(tmp_path: Path) -> None:
    """A short cell whose first requests came back in the drain: neither 0 IOPS nor a line that falls to 0."""
    with Store(tmp_path / "runs.db") as store:
        study = store.add_study("characterize", {"mode": "quick"})
        for size in (4096, 65536, 1 << 20):
            is_late = size == 1 << 20
            done = cell([20 * MS] * 64, request_bytes=size)
            none = {**done, "requests": 0, "bytes": 0, "measures": {}}
            events = [interval(0, SECOND, none), interval(SECOND, SECOND + 30 * MS, done, drain=True)]
            load = plan(stream(request=[{"size": size, "share": 100.0}]))
            told = events if is_late else [interval(0, SECOND, done)]
            add_run(store, [*told, phase_end()], plan_=load, study=study)
        records = [store.record(run.id) for run in store.runs()]
        assert [row.is_rated for record in records for row in totals(record)] == [True, True, False]
        assert [rate.is_rated for record in records for rate in phase_rates(record)] == [True, True, False]
        (table,) = characterization_tables(characterization(records), records)
        assert [row[1:5] for row in table.rows][-1] == ["–"] * 4
        assert "all requests ended after the measured time" in table.note
        assert [found.value for found in measured(records[2], FIGURES["iops"])] == [None]
        page = write_report(records, store.studies()[0], tmp_path / "out")
    assert "all requests ended after the measured time" in page.read_text()


def test_sections_stand_in_order_with_the_answer_first(page: Path) -> None:
    assert re.findall(r'<section id="([^"]+)"', page.read_text()) == SECTIONS


def test_nothing_in_the_page_points_elsewhere(page: Path) -> None:
    text = page.read_text()
    assert "://" not in text
    assert not re.search(r"<(script|link|iframe|img|object|embed)\b|@import|url\((?!#)", text)
    assert "default-src 'none'" in text


def test_a_line_does_not_end_within_an_option() -> None:
    """A browser breaks lines behind hyphens."""
    said = templates().from_string("{{ text | whole_options }}").render(text="Use --full, a-b <or> --only x--y.")
    option = '<span class="option">--{}</span>'
    assert said == f"Use {option.format('full')}, a-b &lt;or&gt; {option.format('only')} x--y."


def test_ids_are_unique_and_references_resolve(page: Path) -> None:
    text = page.read_text()
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(ids)


def test_a_browser_shows_it_without_complaint_request_or_sideways_scrolling(page: Path, browser: Browser) -> None:
    for width in (360, 1280):
        tab = browser.new_page(viewport={"width": width, "height": 800})
        heard = Heard()
        tab.on("console", heard.console)
        tab.on("pageerror", heard.failed)
        tab.on("request", heard.request)
        tab.goto(page.as_uri())
        assert heard.said == []
        assert heard.asked == [page.as_uri()]
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        shown = tab.locator("figure:visible svg")
        # Eight facets and two pictures over time; of these, phones get drawings of their own.
        assert shown.count() == 10
        for number in range(shown.count()):
            box = shown.nth(number).bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        tab.close()


def test_labels_in_pictures_do_not_overlap(page: Path, browser: Browser) -> None:
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    tab.goto(page.as_uri())
    overlaps = tab.evaluate(
        """() => [...document.querySelectorAll('svg')].filter(s => s.getBoundingClientRect().width).flatMap(svg => {
          const boxes = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim() && t.style.opacity !== '0'
            && t.getAttribute('opacity') !== '0').map(t => [t.textContent, t.getBoundingClientRect()]);
          return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([, q]) =>
            p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 2 && q.top < p.bottom - 2)
            .map(([b]) => svg.getAttribute('aria-label') + ': ' + a + ' / ' + b)); })"""
    )
    tab.close()
    assert overlaps == []


def test_every_picture_lies_beside_the_page_as_png_and_svg(page: Path) -> None:
    pictures = page.parent / "pictures"
    svg = {path.stem for path in pictures.glob("*.svg")}
    patterns = [f"{a}-{o}" for a in ("sequential", "random") for o in ("read", "write")]
    expected = {f"{kind}-{pattern}" for kind in ("characterization", "latency") for pattern in patterns}
    assert svg == expected | {"characterization", "latency", "throughput-over-time", "latency-over-time"}
    assert {path.stem for path in pictures.glob("*.png")} == svg
    assert all(path.read_bytes().startswith(b"\x89PNG\r\n") for path in pictures.glob("*.png"))
    graph = (pictures / "characterization-random-read.svg").read_text()
    assert all(label in graph for label in (">IOPS<", ">MiB/s<", ">request size<", ">4 KiB<", ">1 MiB<"))


def test_the_figures_in_the_table_are_those_that_were_measured(page: Path) -> None:
    text = page.read_text()
    row = re.search(r"<h3>Random read</h3>.*?<tbody>\s*<tr>(.*?)</tr>", text, re.DOTALL)
    assert row is not None
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", row[1])
    # 400 requests of 4 KiB a second; the service times are 54.096 µs to 453.096 µs in steps of 1 µs, 1,200 in all.
    assert cells[:5] == ["4 KiB", "400", "100 %", "1.56", "&lt;1 %"]
    assert cells[5] in ("253 µs", "254 µs")
    assert cells[9:11] == ["–", "–"]


def test_warnings_and_notes_are_shown(page: Path) -> None:
    text = page.read_text()
    assert "Cache unknown." in text
    assert "512 B left out" in text
    assert text.index("Cache unknown.") < text.index("<svg")


def test_a_name_with_markup_is_shown_as_text(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        warning = {"id": "x", "severity": "warning", "text": "<script>alert(1)</script>", "remedy": "<b>no</b>"}
        run = add_run(store, [interval(0, SECOND, cell([MS] * 20)), phase_end()], warnings=[warning])
        text = write_report([store.record(run)], None, tmp_path / "out").read_text()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_single_runs_failed_and_interrupted_ones_get_a_report_too(tmp_path: Path) -> None:
    error = {"event": "error", "at_ns": 5, "phase": 0, "stream": 0, "operation": "read", "offset_bytes": 8192,
             "request_bytes": 4096, "kind": "errno", "errno": 5, "text": "EIO: the drive gave up"}  # fmt: skip
    with Store(tmp_path / "runs.db") as store:
        run = add_run(store, [interval(0, SECOND, cell([MS] * 20, errors=1)), error, phase_end()], outcome=None)
        text = write_report([store.record(run)], None, tmp_path / "out").read_text()
    assert "the drive gave up" in text
    assert "1 request failed" in text
    assert 'id="characterization-graph"' not in text
    assert "interrupted" in text


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Store(tmp_path / "runs.db") as store:
        run = add_run(store, [interval(0, SECOND, cell([MS] * 20))])
        record = store.record(run)
    with pytest.raises(BadInputError, match="is no directory; name a folder"):
        write_report([record], None, tmp_path / "file")
    assert default_directory([record], None).name.startswith("brickyard-report-20")


def two_phases(store: Store, outcome: str = "done", factor: int = 1) -> int:
    """Two phases with two streams each; the names are long, as users' are."""
    names = ("database-with-a-long-name", "transaction-log-writer")
    phases = [
        {"name": name, "duration": "3s", "stream": [stream(name=names[0]), stream(name=names[1])]}
        for name in ("monday-morning", "month-end-closing")
    ]
    events = [
        interval(
            second * SECOND,
            (second + 1) * SECOND,
            cell([MS + k * 1000 for k in range(1200 * factor)], stream=0),
            cell([2 * MS + k * 1000 for k in range(300)], stream=1, operation="write"),
            phase=second // 3,
        )
        for second in range(6)
    ]
    ends = [phase_end(), phase_end(phase=1)]
    return add_run(store, [*events, *ends], plan_={**plan(), "phase": phases}, outcome=outcome)


@pytest.fixture
def phased(tmp_path: Path) -> Path:
    with Store(tmp_path / "runs.db") as store:
        return write_report([store.record(two_phases(store))], None, tmp_path / "out")


def test_phases_and_streams_are_named_wherever_their_figures_stand(phased: Path) -> None:
    text = phased.read_text()
    summary = re.search(r'<section id="summary".*?</section>', text, re.DOTALL)
    assert summary is not None
    for phase in ("monday-morning", "month-end-closing"):
        for name in ("database-with-a-long-name", "transaction-log-writer"):
            assert f"{phase} / {name}: " in summary[0]
            assert f"{phase} / {name} " in (phased.parent / "pictures" / "throughput-over-time.svg").read_text()
    assert text.count(">month-end-closing</td>") == 3 + 5  # two streams and both together
    # Different streams of one run are no better or worse than each other.
    assert '<th scope="col">% of best</th>' not in text


def test_tables_of_a_run_fit_their_card(phased: Path, browser: Browser) -> None:
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    tab.goto(phased.as_uri())
    wider = "() => [...document.querySelectorAll('.scroll')].map(e => e.scrollWidth - e.clientWidth)"
    assert set(tab.evaluate(wider)) == {0}
    # A4 less its margins of 14 mm is 688 pixels wide.
    tab.set_viewport_size({"width": 688, "height": 900})
    tab.emulate_media(media="print")
    assert set(tab.evaluate(wider)) == {0}
    tab.close()


def test_what_did_not_end_is_no_headline(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        runs = [two_phases(store), two_phases(store, factor=2), two_phases(store, outcome="interrupted", factor=4)]
        records = [store.record(run) for run in runs]
    said = answer(records, {})
    assert "Run 3" not in " ".join(said.sentences)
    assert "Left out because they did not finish: run 3 (interrupted)." in said.belief
    throughput = totals_tables(records)[0]
    share = throughput.columns.index("% of best")
    of_run = {row[0]: row[share] for row in throughput.rows if row[4] == "read"}
    assert of_run == {"1": "50 %", "2": "100 %", "3": "–"}


def test_what_used_the_devices_beside_several_runs_stands_in_the_answer(tmp_path: Path) -> None:
    foreign = {"id": "foreign_io", "severity": "warning", "text": "Others used it.", "remedy": ""}
    measured = interval(0, SECOND, cell([MS] * 20))
    with Store(tmp_path / "runs.db") as store:
        runs = [add_run(store, [measured, phase_end()], warnings=[foreign] if n % 2 else []) for n in range(4)]
        records = [store.record(run) for run in runs]
    assert "Something else used the devices during 2 of 4 runs" in answer(records, {}).belief
    assert "Something else" not in answer(records[1:2], {}).belief, "its warning stands below"


def test_the_storage_is_called_the_limit_only_where_nothing_speaks_against_it(tmp_path: Path) -> None:
    steal = {"id": "steal", "severity": "warning", "text": "Stolen.", "remedy": ""}
    measured = interval(0, SECOND, cell([MS] * 20))
    with Store(tmp_path / "runs.db") as store:
        quiet = store.record(add_run(store, [measured, phase_end()]))
        stolen = store.record(add_run(store, [measured, phase_end()], warnings=[steal]))
        waited = {"id": "cpu_waited", "severity": "warning", "text": "It waited.", "remedy": ""}
        waiting = phase_end(loop_busy_share=0.6, loop_cpu_share=0.004, cpu_wait_share=0.59)
        preempted = store.record(add_run(store, [measured, waiting], warnings=[waited]))
        bound = phase_end(generator_bound=True, generator_bound_reason="cpu")
        busy = store.record(add_run(store, [measured, bound]))
        # Requests that end inside the call which submits them leave a thread nothing to wait for but its CPU.
        spent = interval(0, SECOND, cell([MS] * 20), cpu={"user_ns": 80 * MS, "system_ns": 840 * MS})
        inline = store.record(add_run(store, [spent, phase_end(loops=1, cpu_wait_share=0.03)]))
        # A program may pace itself: with 20 ms of service in a second, the storage had nothing to do most of the time.
        paced = plan(stream(program={"kind": "transactions", "size": "4KiB"}))
        idle = store.record(add_run(store, [measured, phase_end()], plan_=paced))
        full = interval(0, SECOND, cell([MS] * 900))
        never_idle = store.record(add_run(store, [full, phase_end()], plan_=paced))
    assert "The generator was not the limit." in answer([idle], {}).belief
    assert "The storage, not the generator, was the limit." in answer([never_idle], {}).belief
    assert (
        "The storage, not the generator, was the limit with at most 4 requests in flight." in answer([quiet], {}).belief
    )
    assert "so whether storage or generator was the limit is not known" in answer([stolen], {}).belief
    assert "so whether storage or generator was the limit is not known" in answer([preempted], {}).belief
    of_preempted = str(circumstances([preempted]))
    assert "waited for a CPU 59% of the time" in of_preempted
    assert "60" not in of_preempted.split("waited for a CPU", maxsplit=1)[0].rsplit("Generator", 1)[-1]
    assert "the limit" not in of_preempted
    assert "The processor was the limit, including the kernel" in answer([busy], {}).belief
    assert "The processor was the limit, including the kernel" in answer([inline], {}).belief
    assert "the generator was the limit" in str(circumstances([inline]))
    mixed = answer([busy, stolen, quiet], {}).belief
    assert "In 1 of 3 runs the processor was the limit" in mixed
    assert "did not have all the CPU time that it wanted in 1 of 3 runs, so there the limit is not known." in mixed
    of_both = str(circumstances([quiet, stolen]))
    assert "whether it was the limit is not known, in 1 of 2 runs without all the CPU time" in of_both
    assert "never the limit" not in of_both
    assert "never the limit" in str(circumstances([quiet, quiet]))


def test_rates_of_unknown_caches_are_not_called_steady(tmp_path: Path) -> None:
    wrote = interval(0, SECOND, cell([MS] * 20, operation="write"))
    with Store(tmp_path / "runs.db") as store:
        records = [store.record(add_run(store, [wrote, phase_end()])) for _ in range(3)]
    said = cached.words({records[0].info.id: "its rate fell by 28 %"}, records, "")
    assert said == (
        "1 of 3 runs that wrote may show the rate of a cache (its rate fell by 28 %). 2 more may show it as well: the "
        "size of their write cache is not known."
    )
    several = {records[0].info.id: "its rate fell by 28 %", records[1].info.id: "its rate fell by 35 %"}
    assert "2 of 3 runs that wrote may show the rate of a cache (in the worst, its rate fell by 28 %)" in cached.words(
        several, records, ""
    )
    said = cached.words({}, records, "")
    assert "3 of 3 runs that wrote may show the rate of a cache: the size" in said


def test_writes_into_an_unknown_cache_are_doubted_before_anyone_relies_on_them(tmp_path: Path) -> None:
    noted = [{"id": cached.CACHE_UNKNOWN, "severity": "note", "text": "The cache below /dev/a is unknown."}]
    writes = interval(0, SECOND, cell([MS] * 20, operation="write"))
    flushed = stream(flush_every={"writes": 1, "call": "fdatasync"}, operations={"read": 0, "write": 100})
    with Store(tmp_path / "runs.db") as store:

        def said(wrote: dict[str, Any], **asked: Any) -> str:
            run = add_run(store, [wrote, phase_end()], warnings=noted, **asked)
            return answer([store.record(run)], {}).belief

        doubt = "The rate of writes may be that of a cache (its size is not known): a longer run may show a lower one."
        assert doubt in said(writes)
        assert "that of a cache" not in said(writes, plan_=plan(flushed)), "each write has reached the medium"
        assert "that of a cache" not in said(writes, io="buffered"), "the host's memory took them, and that is said"
        assert "that of a cache" not in said(interval(0, SECOND, cell([MS] * 20)))
        again = interval(0, SECOND, cell([MS] * 20, request_bytes=64 << 20))
        assert "The rate of reads may be that of a cache (1.2 GiB were read of " in said(again)


def test_nothing_is_called_the_limit_where_fio_worked_or_the_load_paused(tmp_path: Path) -> None:
    measured = interval(0, SECOND, cell([MS] * 20))
    with Store(tmp_path / "runs.db") as store:
        foreign = store.record(add_run(store, [measured, phase_end()], engine="fio"))
        pausing = plan(stream(think="10000000ns"))
        paused = store.record(add_run(store, [measured, phase_end()], plan_=pausing))
    assert (
        "Whether storage or generator was the limit is not known: fio does not report it."
        in answer([foreign], {}).belief
    )
    assert "own work" not in str(circumstances([foreign]))
    assert "pauses between requests" in answer([paused], {}).belief
    assert "10.0 ms pause after each request" in workload_words([paused])
    assert "flush" not in workload_words([paused]), "it only reads"


def test_what_a_write_has_to_survive_stands_beside_depth_and_time(tmp_path: Path) -> None:
    measured = interval(0, SECOND, cell([MS] * 20, operation="write"))
    loads: list[tuple[dict[str, object], str]] = [
        ({}, "writes not flushed"),
        ({"sync": "dsync"}, "O_DSYNC writes"),
        ({"flush_every": {"writes": 1, "call": "fsync"}}, "fsync after each write"),
        ({"flush_every": {"writes": 8}}, "fdatasync after every 8 writes"),
        ({"operations": {"write": 80, "flush": 20}}, "20 % flushes"),
    ]
    with Store(tmp_path / "runs.db") as store:
        records = [
            store.record(add_run(store, [measured, phase_end()],
                                 plan_=plan(stream(**{"operations": {"write": 100}, **asked}))))
            for asked, _ in loads
        ]  # fmt: skip
    for record, (_, said) in zip(records, loads, strict=True):
        assert f", {said}, direct I/O" in workload_words([record])
        assert said in io_words([record])
    assert "writes not flushed or O_DSYNC writes" in workload_words(records[:2])


def test_a_heading_says_of_each_phase_what_that_phase_did(tmp_path: Path) -> None:
    """A fill before what is measured: neither their times add up, nor is the depth of one that of the other."""
    write = {"read": 0.0, "write": 100.0, "flush": 0.0, "trim": 0.0}
    fill = stream(operations=write, depth=8, sync="none")
    durable = stream(operations=write, workers=4, depth=1, sync="dsync")
    phases = [{"name": "fill", "stream": [fill]}, {"name": "measure", "stream": [durable]}]
    events = [
        *(interval(n * SECOND, (n + 1) * SECOND, cell([MS] * 20, operation="write")) for n in range(2)),
        *(interval(n * SECOND, (n + 1) * SECOND, cell([MS] * 20, operation="write"), phase=1) for n in range(2, 5)),
    ]
    with Store(tmp_path / "runs.db") as store:
        ends = [phase_end(), phase_end(phase=1)]
        run = add_run(store, [*events, *ends], plan_={**plan(), "phase": phases})
        many = add_run(store, [*events, *ends], plan_={**plan(), "phase": [*phases, *phases]})
        record, of_four = store.record(run), store.record(many)
    said = workload_words([record])
    assert said.startswith("fill: 1 worker × queue depth 8, 2.00 s measured, writes not flushed; ")
    assert "; measure: 4 workers × queue depth 1, 3.00 s measured, O_DSYNC writes, direct I/O" in said
    assert workload_words([record], phase=1) == "4 workers × queue depth 1, 3.00 s measured, O_DSYNC writes, direct I/O"
    assert "2.00 s to 3.00 s a phase" in workload_words([of_four])
    assert "4 phases" in workload_words([of_four])
    assert workload_words([record, of_four]).startswith("2 to 4 phases a run, ")


def test_small_requests_are_drawn_as_requests_and_large_ones_as_bytes() -> None:
    def points(*sizes: int) -> list[Point]:
        return [Point(1, f"s{n}", "read", 0.0, 1.0, 100.0, 100.0 * size) for n, size in enumerate(sizes)]

    assert rate_shown(points(4096, 8192))[0] == "IOPS"
    assert rate_shown(points(4096, 0))[0] == "IOPS", "flushes move nothing"
    assert rate_shown(points(1 << 20))[0] == "MiB/s"
    unit, why = rate_shown(points(4096, 1 << 20))
    assert unit == "MiB/s"
    assert "several sizes" in why


def test_a_characterization_that_was_cut_short_says_how_much_of_it_there_is(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        runs = [
            add_run(store, [interval(0, SECOND, cell([MS] * 2000, request_bytes=size)), phase_end()],
                    plan_=plan(stream(request=[{"size": size, "share": 100.0}], address={"kind": "sequential"})))
            for size in (4096, 65536)
        ]  # fmt: skip
        records = [store.record(run) for run in runs]
    cells = characterization(records)
    cut = answer(records, cells, 48)
    assert "46 of 48 cells have no rate, so higher rates may be missing: not measured (46)." in cut.belief
    assert "the highest of the 2 of 12 sizes that have a rate; write: no figure (not measured)" in cut.sentences[0]
    assert "up to" not in cut.sentences[0]
    whole = answer(records, cells, 2)
    assert "no rate" not in whole.belief
    assert "read up to" in whole.sentences[0]
    drawn = {asked: page_of_runs.draw_figures(records, asked)[:2] for asked in (2, 48)}
    for number, lines in enumerate((2, 3)):  # IOPS and MiB/s; three percentiles
        joined, apart = (LINE_BETWEEN.findall(drawn[asked][number].pictures[0].svg) for asked in (2, 48))
        assert (len(joined), len(apart)) == (lines, 0), "no line crosses sizes that were not measured"
    assert "A line has a gap where a cell has no rate, or fewer" in drawn[48][1].caption


def test_the_latency_of_a_characterization_is_the_response_time_as_in_the_answer_of_each_of_its_runs(
    tmp_path: Path,
) -> None:
    """By Little's law, one worker of 4 requests in flight at 2,000 per second waits 2 ms for each."""
    with Store(tmp_path / "runs.db") as store:
        for size in (4096, 65536):
            both = cell([2 * MS] * 2000, request_bytes=size)
            both["measures"]["service"] = cell([MS] * 2000)["measures"]["service"]
            asked = stream(request=[{"size": size, "share": 100.0}], address={"kind": "random"}, depth=4)
            add_run(store, [interval(0, SECOND, both), phase_end()], plan_=plan(asked))
        records = [store.record(run.id) for run in store.runs()]
    found = characterization(records)
    for said in (answer(records, found), answer(records[:1], {})):
        assert "half of them answered within 2.00 ms" in said.sentences[0]
    (table,) = characterization_tables(found, records)
    mean = table.columns.index("mean")
    assert [row[mean] for row in table.rows] == ["2.00 ms"] * 2
    assert ("response time", table.columns.index("variation") - mean) in table.groups
    assert "latency: response time" in table.note, "it stands beside the table also where that scrolls"


def test_the_highest_rate_of_what_is_left_is_no_answer_for_cells_that_failed(tmp_path: Path) -> None:
    """The largest size, which would be the fastest, failed; another run did not end well."""
    with Store(tmp_path / "runs.db") as store:
        for size in (4096, 65536, 524288, 1 << 20):
            done = cell([MS] * 2000, request_bytes=size)
            failed = {**done, "requests": 0, "bytes": 0, "errors": 7, "measures": {}}
            asked = stream(request=[{"size": size, "share": 100.0}], address={"kind": "sequential"})
            events = [interval(0, SECOND, failed if size == 1 << 20 else done), phase_end()]
            add_run(store, events, plan_=plan(asked), outcome="failed" if size == 524288 else "done")
        records = [store.record(run.id) for run in store.runs()]
    said = answer(records, characterization(records))
    assert "2 of 4 cells have no rate, so higher rates may be missing: " in said.belief
    assert "run failed (1)" in said.belief
    assert "all requests failed (1)" in said.belief
    assert "with requests of 64 KiB, the highest of the 2 of 4 sizes that have a rate" in said.sentences[0]
    assert "up to" not in said.sentences[0]
    assert f"Run {records[2].info.id} failed</" in page_of_runs.render(records, None, [])
    (graph, *_) = page_of_runs.draw_figures(records)
    assert "Lines have gaps where a cell has no rate: run failed (1), all requests failed (1)." in graph.caption


def test_lines_over_time_have_gaps_where_nothing_was_counted_and_workers_are_whole() -> None:
    """A ramp that settles for two seconds between its steps."""
    points = [Point(1, "one", "read", at_s, at_s + 1.0, 100.0, 100.0 * MIB) for at_s in (5.0, 6.0, 9.0)]
    chart = charts.throughput(points, {1: ""}, "IOPS", charts.Clock(), log=False, width=300)
    assert len(LINE_BETWEEN.findall(draw("one", "", chart).svg)) == 2
    steps = [
        CurvePoint(
            run=1,
            offered_per_s=value,
            achieved_per_s=value,
            requests=100,
            unsent=0,
            errors=0,
            mean_ns=value * MS,
            max_ns=9 * MS,
            percentiles={},
        )
        for value in (1.0, 2.0)
    ]
    workers, rates = (load_curve(steps, [], None, is_whole=is_whole).svg for is_whole in (True, False))
    assert (">0.2<" in workers, ">0.2<" in rates) == (False, True)
    assert ">1<" in workers


def test_a_stream_has_one_look_over_all_phases_and_the_legend_no_more_room_than_the_plot(tmp_path: Path) -> None:
    streams = [
        stream(name="reads"),
        stream(name="commits", operations={"read": 0, "write": 100, "flush": 0, "trim": 0}),
    ]
    several = plan()
    several["phase"] = [
        {"name": name, "duration": "1000000000ns", "stream": streams} for name in ("before", "checkpoint", "after")
    ]
    events = []
    for phase in range(3):
        cells_ = [cell([MS] * 20), cell([MS] * 20, stream=1, operation="write")]
        events += [
            interval(phase * SECOND, (phase + 1) * SECOND, *cells_, phase=phase),
            phase_end(phase=phase, end_ns=(phase + 1) * SECOND),
        ]
    with Store(tmp_path / "runs.db") as store:
        record = store.record(add_run(store, events, plan_=several))
    picture = page_of_runs.draw_figures([record])[0].pictures[0].svg
    names = re.findall(r">([^<>]*(?:reads read|commits write))<", picture)
    assert names == ["reads read", "commits write"]
    looks = re.findall(r'stroke="(#\w+)"[^>]*stroke-width="1.8"[^>]*?(?:stroke-dasharray="([^"]*)")?[^>]*>', picture)
    assert len(looks) == 6
    assert len(set(looks)) == 2
    for name in ("before", "checkpoint", "after"):
        assert f">{name}<" in picture
    # Names that are many or long take lines below the plot.
    points = [Point(1, f"a stream with a long name {n}", "read", 0.0, 1.0, 100.0, 100.0) for n in range(8)]
    drawn = draw("one", "", charts.throughput(points, {1: ""}, "IOPS", charts.Clock(), log=False, width=660), width=660)
    width = re.search(r'<svg[^>]*width="([\d.]+)"', drawn.svg)
    assert width is not None
    assert float(width[1]) < 760


@pytest.mark.parametrize("narrow", [False, True])
def test_a_wide_interval_does_not_squeeze_a_load_curve(narrow: bool) -> None:
    """All points lay at 6,000 to 68,000/s, in a seventh of an axis that ended at 500,000/s."""
    points = [
        CurvePoint(
            run=1,
            offered_per_s=rate,
            achieved_per_s=rate,
            requests=100,
            unsent=0,
            errors=0,
            mean_ns=MS * (1 + rate / 1e5),
            max_ns=9 * MS,
        )
        for rate in (6_000.0, 30_000.0, 68_000.0)
    ]
    wide = rate_mark(WITHIN, 31_010.0, 1_977.0, 486_493.0)
    drawn = load_curve(points, [wide], None, narrow=narrow).svg
    assert ">95 % interval to 486,493 →<" in drawn
    assert ">60 k<" in drawn
    assert not re.search(r">\d{3} k<", drawn)
    within = load_curve(points, [rate_mark(WITHIN, 31_010.0, 20_000.0, 40_000.0)], None, narrow=narrow).svg
    assert "95 % interval" not in within


def test_labels_of_shares_are_apart_and_none_is_rounded_to_nothing() -> None:
    """Seven decades in a narrow picture."""
    cells = [HeatCell(0.0, 1.0, MS, 2 * MS, 5, share) for share in (1e-6, 1.0)]
    drawn = draw("heat", "", charts.heat_map(cells, [], charts.Clock(), "requests", width=330)).svg
    assert set(re.findall(r">([0-9.]+%)<", drawn)) == {"0.0001%", "0.01%", "1%", "100%"}


def test_a_given_pace_has_no_limit_and_lateness_is_said(tmp_path: Path) -> None:
    paced = plan(stream(pace={"loop": "open", "rate": 20.0, "arrivals": "constant"}))
    with Store(tmp_path / "runs.db") as store:
        found = []
        for late, times in (
            ([0] * 20, [2 * MS] * 20),
            ([MS] * 20, [2 * MS] * 20),
            ([0] * 20, [2 * MS] + [90 * MS] * 19),
        ):
            told = cell(times)
            told["measures"]["lateness"] = {**cell(late)["measures"]["service"]}
            found.append(store.record(add_run(store, [interval(0, SECOND, told), phase_end()], plan_=paced)))
    punctual, late_one, crowded = (answer([record], {}) for record in found)
    assert "The profile set the rate; how close it is to the storage's limit is not known." in crowded.belief
    assert "neither the storage nor the generator was at its limit" in punctual.belief
    assert "lateness" not in punctual.belief
    assert "The generator was not the limit. Lateness is 50 % of the mean response time" in late_one.belief
    assert "of when they were due" in late_one.sentences[0]
    both = answer(found, {}).belief
    assert f"Lateness is up to 50 % of the mean response time (in run {found[1].info.id})" in both


def test_a_rate_of_few_requests_is_said_to_be_one_and_has_no_times(tmp_path: Path) -> None:
    paced = plan(stream(pace={"loop": "open", "rate": 5.0, "arrivals": "constant"}))
    with Store(tmp_path / "runs.db") as store:
        found = []
        for count in (5, 40):
            told = cell([2 * MS] * count)
            told["measures"]["lateness"] = {**cell([0] * count)["measures"]["service"]}
            found.append(store.record(add_run(store, [interval(0, SECOND, told), phase_end()], plan_=paced)))
    few, enough = (answer([record], {}) for record in found)
    assert few.sentences[0].endswith("MiB/s.")
    assert few.belief.startswith("A rate is based on only 5 requests: measure for longer.")
    assert enough.sentences[0].endswith("of when they were due.")
    assert "rests on" not in enough.belief


def test_a_place_that_ends_in_html_is_the_page_itself(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        record = store.record(add_run(store, [interval(0, SECOND, cell([MS] * 20)), phase_end()]))
    page = write_report([record], None, tmp_path / "out.html")
    assert page == tmp_path / "out.html"
    assert "<code>out-pictures</code>" in page.read_text()
    assert list((tmp_path / "out-pictures").glob("*.png"))


def test_the_table_of_a_run_has_the_depth(tmp_path: Path) -> None:
    with Store() as store:
        run = add_run(store, [interval(0, SECOND, cell([MS] * 200)), phase_end()])
        record = store.record(run)
    throughput = next(table for table in totals_tables([record]) if table.title == "Throughput")
    at = throughput.columns.index(cells.IN_FLIGHT)
    assert throughput.rows[0][at] == format_count(totals(record)[0].in_flight_bound)


def test_reads_that_memory_may_have_answered_are_marked_in_the_headline(tmp_path: Path) -> None:
    """A consumer reads the first fifth of a log of 1 GiB through the page cache, or without it."""
    said = []
    for io, memory in (("buffered", 8 << 30), ("buffered", 1 << 27), ("direct", 8 << 30)):
        consumer = stream(name="consumer", region="0B..20%")
        asked = plan(stream(name="log", operations={"read": 0, "write": 100}), consumer)
        done = [cell([MS] * 1000, operation="write"), cell([MS] * 1000, stream=1, request_bytes=1 << 20)]
        with Store(tmp_path / "runs.db") as store:
            run = add_run(
                store,
                [interval(0, SECOND, *done), phase_end()],
                plan_=asked,
                io=io,
                facts={"host": {"memory": {"total_bytes": memory}}},
            )
            found = answer([store.record(run)], {})
        said.append((found.sentences[0], found.belief))
    headline, belief = said[0]
    assert "consumer: read 1,000 requests/s, 1,000 MiB/s (may have come from the page cache)" in headline
    assert headline.count("page cache") == 1, "not of the writes"
    assert "Reads of consumer may have come from the page cache: 204.8 MiB are read, and the host has 8 GiB" in belief
    assert all("have come from the page cache" not in headline + belief for headline, belief in said[1:])


def test_buffered_writes_that_are_flushed_are_not_called_those_of_memory(tmp_path: Path) -> None:
    def belief(**changes: object) -> str:
        asked = plan(stream(**{"operations": {"read": 0, "write": 100}, **changes}))
        done = [interval(0, SECOND, cell([MS] * 1000, operation="write")), phase_end()]
        with Store(tmp_path / "runs.db") as store:
            return answer([store.record(add_run(store, done, plan_=asked, io="buffered"))], {}).belief

    said = "went into the page cache without flushes"
    assert said in belief()
    for flushed in (
        {"flush_every": {"writes": 8}},
        {"sync": "dsync"},
        {"operations": {"read": 0, "write": 90, "flush": 10}},
        {"chain": ["write", "flush"]},
        {"program": {"kind": "transactions", "size": "4KiB", "fsync": True}},
    ):
        assert said not in belief(**flushed), flushed
    assert said in belief(program={"kind": "transactions", "size": "4KiB"})


def test_writes_of_several_streams_into_the_page_cache_are_said_once(tmp_path: Path) -> None:
    writes = {"operations": {"read": 0, "write": 100}}
    asked = plan(stream(name="one", **writes), stream(name="two", **writes))
    cells_ = [cell([MS] * 1000, operation="write"), cell([MS] * 1000, operation="write", stream=1)]
    with Store(tmp_path / "runs.db") as store:
        record = store.record(add_run(store, [interval(0, SECOND, *cells_), phase_end()], plan_=asked, io="buffered"))
    belief = answer([record], {}).belief
    assert belief.count("went into the page cache without flushes") == 1
    assert "Writes of one and two went into the page cache" in belief


@pytest.mark.parametrize(("engine", "is_handed"), [("io_uring", True), ("psync", False)])
def test_writes_that_io_uring_hands_over_are_not_called_those_of_memory_alone(
    tmp_path: Path, engine: str, is_handed: bool
) -> None:
    asked = plan(stream(operations={"read": 0, "write": 100}))
    done = [interval(0, SECOND, cell([MS] * 1000, operation="write")), phase_end()]
    with Store(tmp_path / "runs.db") as store:
        belief = answer([store.record(add_run(store, done, plan_=asked, io="buffered", engine=engine))], {}).belief
    assert ("and of io_uring, which hands each write to a thread of the kernel" in belief) is is_handed
    assert ("as fast as io_uring handed them over." in belief) is is_handed


def test_what_moves_no_data_has_no_throughput_in_the_headline(tmp_path: Path) -> None:
    done = [cell([MS] * 1000), cell([MS] * 182, operation="flush", request_bytes=0)]
    with Store(tmp_path / "runs.db") as store:
        found = answer([store.record(add_run(store, [interval(0, SECOND, *done), phase_end()]))], {})
    assert "flush 182/s, half of them" in found.sentences[0]
    assert "0 MiB/s" not in found.sentences[0]


def test_streams_that_are_far_apart_have_a_logarithmic_axis_and_share_a_map(tmp_path: Path) -> None:
    pages = {}
    for name, count in (("apart", 10), ("near", 900)):
        done = [cell([MS] * 1000, request_bytes=1 << 20), cell([MS] * count, stream=1, request_bytes=1 << 20)]
        with Store(tmp_path / f"{name}.db") as store:
            asked = plan(stream(name="one"), stream(name="other"))
            run = add_run(store, [interval(0, SECOND, *done), phase_end()], plan_=asked)
            pages[name] = write_report([store.record(run)], None, tmp_path / name).read_text("utf-8")
    assert "The axis is logarithmic, since the streams are far apart." in pages["apart"]
    assert "The axis is logarithmic" not in pages["near"]
    assert all("All streams and operations of a run are in one map." in page for page in pages.values())


def test_a_map_of_commits_says_that_writes_and_flushes_are_not_in_it(tmp_path: Path) -> None:
    """Its darkest row is the sum of both, and was called that of the requests."""
    rows = [cell([MS] * 90, operation="write"), cell([MS] * 90, operation="flush")]
    rows.append(cell([2 * MS] * 90, operation="commit", bytes=0))
    writes = {"read": 0.0, "write": 100.0, "flush": 0.0, "trim": 0.0}
    flushed = plan(stream(operations=writes, flush_every={"writes": 1, "call": "fdatasync"}))
    with Store(tmp_path / "runs.db") as store:
        made = [interval(n * SECOND, (n + 1) * SECOND, *rows) for n in range(2)]
        record = store.record(add_run(store, [*made, phase_end()], plan_=flushed))
    page = write_report([record], None, tmp_path / "page").read_text("utf-8")
    assert "the larger the share of the commits of that moment that took that long. A commit is a write" in page
    assert "All streams and operations of a run are in one map" not in page

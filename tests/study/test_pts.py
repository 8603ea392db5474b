"""SNIA's tests on a modelled drive and on a real file: the rounds, the steady state and the standard's tables."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from brickyard._core import Histogram
from brickyard.analysis import totals
from brickyard.analysis.studies.pts import Measured, Point, mean_of, recovery, saturation_of, steadiness
from brickyard.analysis.studies.pts_points import OperatingPoint, points_answer, troubles
from brickyard.cli import main
from brickyard.cli.measuring.pts import _setting_words
from brickyard.report.page import _lead
from brickyard.report.pts import histogram_bins
from brickyard.store import Store
from brickyard.study.snia.loads import Setting
from brickyard.study.snia.stored import _Said, pts_answer
from brickyard.study.snia.tables import round_tables, saturation_table
from brickyard.study.snia.test import Found, Rounds, stored_points
from brickyard.study.snia.tests import CLIENT, ENTERPRISE, TESTS, WINDOW, round_test
from brickyard.units import format_iops
from support import MS, histogram

SIM = "sim:iodrive-160-slc"


def measured(capsys: pytest.CaptureFixture[str], store: Path, *words: str) -> dict[str, Any]:
    code = main(["pts", *words, "--store", str(store), "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == (0 if document["has_result"] else 1)
    return document


def test_the_loads_are_those_of_the_specification() -> None:
    iops = round_test("iops", ENTERPRISE.queue)
    assert len(iops.cells) == 56
    assert iops.cells[0].mix == "100/0"
    assert (iops.steady.mix, iops.steady.size_bytes) == ("0/100", 4096)
    assert len(round_test("throughput", CLIENT.queue).cells) == 4
    latency = round_test("latency", CLIENT.queue)
    assert {(cell.workers, cell.depth) for cell in latency.cells} == {(1, 1)}
    assert len(latency.cells) == 9
    assert len(round_test("dirth", ENTERPRISE.queue).cells) == 49


@pytest.mark.parametrize(
    ("values", "is_steady"),
    [
        ([100, 101, 99, 100, 100], True),
        ([100, 119, 100, 100, 100], True),  # a range of 19 %, and hardly a slope
        ([100, 100, 122, 100, 100], False),  # too wide
        ([94, 97, 100, 103, 106], False),  # narrow enough, and it climbs by 12 %
        ([0, 0, 0, 0, 0], False),
    ],
)
def test_steady_means_both_criteria(values: list[float], is_steady: bool) -> None:
    assert steadiness(values).is_steady is is_steady


def test_the_slope_is_that_of_the_fitted_line() -> None:
    assert steadiness([10, 20, 30, 40, 50]).slope == pytest.approx(40)
    assert steadiness([10, 20, 30, 40, 50]).excursion == 40


def test_the_basic_tests_on_a_modelled_drive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--round", "10ms", "--range", "0.1%"]
    basic = [word for name in ("iops", "throughput", "latency") for word in ("--test", name)]
    found = measured(capsys, tmp_path / "runs.db", "client", SIM, *short, *basic)
    assert not found["by_the_book"]
    iops = found["tests"]["iops"]
    assert len(iops["cells"]) == 56
    assert (iops["is_steady"], len(iops["steady_state"]["values"])) == (True, 5)
    window = [cells[54]["iops"] for cells in iops["by_round"][-5:]]
    assert iops["cells"][54]["iops"] == pytest.approx(sum(window) / 5)
    assert all(cell["iops"] > 0 for test in found["tests"].values() for cell in test["cells"])
    again = measured(capsys, tmp_path / "again.db", "client", SIM, *short, "--test", "latency")
    assert again["tests"]["latency"] == found["tests"]["latency"]  # virtual time: the same to the bit


@pytest.mark.parametrize(("round_", "is_said"), [("10ms", True), ("300ms", False)])
def test_writes_that_fit_the_write_cache_are_said_to_be_its(
    round_: str, is_said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--test", "throughput", "--round", round_, "--range", "0.1%", "--store", str(tmp_path / "runs.db")]
    assert main(["pts", "enterprise", "sim:nvme-tlc-3840", *words]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert ("of write cache, so that rates of writes may be those of the cache; a longer --round" in out) is is_said
    time = rf"{round_.removesuffix('ms')}(\.\d)? ms"
    assert re.search(rf"phases were measured for only {time}( to [\d.]+ ms)?: too short to say what the target", out)


def test_a_round_too_short_for_its_requests_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--test", "iops", "--round", "1ms", "--range", "0.1%", "--store", str(tmp_path / "runs.db")]
    assert main(["pts", "enterprise", SIM, *words]) == 1
    assert "lengthen --round" in capsys.readouterr().err


def test_only_the_tests_that_were_run_are_described() -> None:
    setting = Setting(CLIENT, 100.0, 1.0, 25)
    assert "; IOPS with 2 threads × 16 in flight" in _setting_words(setting, has_iops=True)
    assert "IOPS" not in _setting_words(setting, has_iops=False)


def test_the_other_tests_on_a_modelled_drive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for name in ("write-saturation", "dirth", "cross-stimulus") for word in ("--test", name)]
    found = measured(capsys, tmp_path / "runs.db", "client", SIM, "--round", "1ms", "--range", "0.05%", *words)
    saturation = found["write-saturation"]
    written = [point["written_bytes"] for point in saturation]
    assert written == sorted(written)
    assert all(point["partial_s"] is None for point in saturation[:-1])
    assert 0 < saturation[-1]["partial_s"] < 0.001
    assert len(found["tests"]["dirth"]["cells"]) == 49
    assert [point["point"] for point in found["histograms"]] == ["MinIOPS", "MidIOPS", "MaxIOPS"]
    assert list(found["cross-stimulus"]) == ["A", "B", "C"]
    ends = [group[-1]["end_s"] for group in found["cross-stimulus"].values()]
    assert ends == sorted(ends)


def course(rates: list[float], partial_s: float | None = None) -> list[Point]:
    """Write saturation in rounds of a second; the end of the test cuts the last one short."""
    last = len(rates) - 1
    return [
        Point(
            at + 1.0, (at + 1) << 20, Measured(rate, rate * 4096, 1e5, 10**6, None), partial_s if at == last else None
        )
        for at, rate in enumerate(rates)
    ]


def test_write_saturation_ends_with_its_last_complete_rounds() -> None:
    """What was left of the amount was written at 2,254/s in a part of a round, and read as 4 % of the first round."""
    points = course([60_000, 50_000, 40_000, 33_000, 30_000, 31_000, 32_000, 2_254], partial_s=0.05)
    found = saturation_of(points, WINDOW)
    assert found is not None
    assert (found.first, found.last, found.window) == (60_000, 32_000, 5)
    study = Found(1, saturation=points)
    (said,) = _Said(study).sentences([])
    assert said.endswith("ends at 32,000 writes/s (median of the last 5 complete rounds), 53 % of its first round.")
    (_, _, rows, _) = saturation_table(points)
    assert [row[0] for row in rows[-2:]] == ["7.0 s", "8.0 s (partial round of 50.0 ms)"]
    assert saturation_of(course([60_000, 50_000], partial_s=0.05), WINDOW) is None
    (said,) = _Said(Found(1, saturation=course([60_000, 50_000], partial_s=0.05))).sentences([])
    assert said == "Write saturation ended before two rounds were complete; a shorter --round shows its course."


def test_recovery_compares_with_complete_rounds() -> None:
    assert recovery(course([100, 100, 10], partial_s=0.05), course([20, 95]), 1) == 2


def test_a_test_without_steady_state_has_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The drive's cache fills during these rounds, so that no five of them are alike: exit code and answer say so, and
    phases are named by cell and round."""
    words = ["enterprise", "sim:nvme-tlc-3840", "--test", "iops", "--round", "5ms", "--rounds", "5", "--range", "0.1%"]
    place = ["--store", str(tmp_path / "runs.db")]
    assert main(["pts", *words, *place]) == 1
    told = capsys.readouterr()
    assert re.match(
        r"duration: about [\d.]+ (s|min)( \d+ s)? of this computer if every test is steady after 5 rounds, ", told.err
    )
    out = " ".join(told.out.split())
    assert "No result for IOPS: the state was not steady after 5 rounds." in out
    assert out.index("No result for IOPS") < out.index("Before you rely on it")
    with Store(tmp_path / "runs.db") as kept:
        names = [phase.name for phase in kept.record(1).info.plan.phase]
    assert names[0] == "precondition"
    assert "4 KiB 65/35 of round 5" in names
    assert len(set(names)) == len(names) == 1 + 5 * 56


def test_a_real_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each round is a run, and the table says whether the state was steady."""
    words = [
        "client",
        str(tmp_path / "target"),
        "--size",
        "8MiB",
        "--test",
        "latency",
        "--round",
        "10ms",
        "--rounds",
        "5",
    ]
    code = main(["pts", *words, "--store", str(tmp_path / "runs.db")])
    out, err = capsys.readouterr()
    assert code == (1 if "NOT steady" in out else 0)
    assert ("No result for Latency: the state was not steady after 5 rounds." in out) == bool(code)
    assert "Response time, random, 1 thread × 1 in flight" in out
    assert "Steady state of Latency: 0/100, 4 KiB" in out
    assert "duration: 0.4 s (5 rounds until a test is steady), and the time for preconditioning" in " ".join(
        err.split()
    )
    assert (
        "writes: 12 MiB for preconditioning (the range 2 times), and what the target takes in 0.2 s of writes"
        in " ".join(err.split())
    )
    assert "not a PTS result" in err
    assert "This is not a PTS result" in " ".join(out.split())
    assert "purging" in err
    assert "study s1, runs 1-6" in out
    # What a dry run announces of the file that is there now is what the preconditioning wrote.
    assert main(["pts", *words[:2], *words[4:], "--dry-run", "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)["forecast"]
    with Store(tmp_path / "runs.db") as kept:
        (row,) = totals(kept.record(1))
    assert expected["precondition_bytes"] == row.bytes == 12 << 20
    assert expected["seconds"] == pytest.approx([0.45, 0.45])


def test_the_answer_comes_first_and_the_page_has_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "runs.db")
    tests = [word for name in ("iops", "throughput", "latency", "write-saturation") for word in ("--test", name)]
    command = ["pts", "client", SIM, "--round", "10ms", "--range", "0.1%", *tests, "--store", place]
    code = main(command)
    out = " ".join(capsys.readouterr().out.split())
    assert "once its state is steady?" in out
    assert "Specification, once its state" not in out
    first, belief = out.index("Random requests of 4 KiB"), out.index("Before you rely on it")
    assert 0 < first < belief < out.index("IOPS by block size")
    found = measured(capsys, tmp_path / "again.db", *command[1:-2])
    cells = found["tests"]["iops"]["cells"]
    reads, writes = (
        next(c["iops"] for c in cells if (c["reads_percent"], c["request_bytes"]) == (share, 4096))
        for share in (100, 0)
    )
    # A shortened test is named as such wherever its answer stands: in the terminal, in --json and on the page.
    assert found["answer"][0].startswith("This is not a PTS result")
    assert "shortened" in found["question"]
    assert out.index(found["answer"][0]) < first
    said = f"with 2 threads × 16 in flight: {format_iops(reads)} reads/s or {format_iops(writes)} writes/s"
    assert said in " ".join(found["answer"][1:])
    unsteady = [name for name, item in found["tests"].items() if not item["is_steady"]]
    assert list(found["without_result"]) == unsteady
    assert found["answer"][1].startswith("No result for") == bool(unsteady)
    assert code == bool(unsteady)
    # The page says the same, out of what the store keeps.
    assert main(["report", "s1", "--store", place, "--output", str(tmp_path / "page")]) == 0
    page = " ".join(html.unescape((tmp_path / "page" / "report.html").read_text("utf-8")).split())
    assert found["question"] in page
    assert found["answer"][0] in page
    assert page.index(found["answer"][1]) < page.index("IOPS by block size and read/write mix, random")
    # The verification of the steady state, as the terminal has it, and one picture of it for each test of rounds.
    for name, title in (("iops", "IOPS"), ("throughput", "Throughput"), ("latency", "Latency")):
        window = found["tests"][name]["steady_state"]
        assert f"Steady state of {title}: 0/100" in page
        assert (f"Steady state of {title}: 0/100" in page) == (f"Steady state of {title}: 0/100" in out)
        assert f"{title}: rounds until steady" in page
        assert (tmp_path / "page" / "pictures" / f"pts-steady-{name}.svg").exists()
        assert len(window["values"]) == 5
    allowed = found["tests"]["iops"]["steady_state"]["range_allowed"]
    assert f">{format_iops(allowed)}</td>" in page
    # Warnings and notes are counted once, where they are listed, and the count is that of the list.
    counts = re.findall(r"(\d+) (?:warning|note)s?\b", page)
    assert sum(map(int, counts)) == page.count('<li class="note"') + page.count('<li class="warning"')
    # A run of the study alone has an answer of one sentence, and the way to that of the study.
    capsys.readouterr()
    assert main(["report", "latest", "--store", place, "--output", str(tmp_path / "one")]) == 0
    assert f"`brickyard report s1 --store {place}` is about all runs of its study" in capsys.readouterr().out
    assert main(["report", "3", "--store", place, "--output", str(tmp_path / "run")]) == 0
    summary = re.search(r'id="summary".*?</section>', (tmp_path / "run" / "report.html").read_text("utf-8"), re.DOTALL)
    assert summary is not None
    assert "46 streams in 46 phases" in summary[0]
    assert len(summary[0]) < 1500
    assert "Throughput by block size" in page
    assert "Write saturation: random writes" in page


def test_a_dry_run_touches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pts", "enterprise", str(tmp_path / "x"), "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["by_the_book"]
    assert list(found["tests"]) == list(TESTS)
    assert found["tests"]["iops"]["seconds_a_round"] == 56 * 60
    rounds = [test["seconds_a_round"] * 5 for test in found["tests"].values() if "rounds" in test]
    others = [test["seconds"] for test in found["tests"].values() if "rounds" not in test]
    points_s = 3 * 10 * 60
    assert found["forecast"]["seconds"][0] == sum(rounds) + sum(others) + points_s
    assert not (tmp_path / "x").exists()


def test_a_dry_run_sums_up_and_says_what_is_no_result_of_pts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pts", "client", str(tmp_path / "x"), "--test", "iops", "--test", "latency", "--dry-run"]
    assert main([*words, "--round", "20s", "--size", "16MiB"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    rounds = "(5 to 25 rounds until a test is steady)"
    assert f"duration: 1 h 48 min to 9 h 1 min {rounds}, and the time for preconditioning" in out
    # Of the mixes of IOPS, 8 sizes write 3.5 of 7 parts, of those of latency 3 sizes 1.35 of 3: 32.05 loads of 20 s.
    taken = "what the target takes in 53 min 25 s to 4 h 27 min of writes (at 1 GB/s, 2.9 TiB to 14.6 TiB)"
    assert f"writes: 48 MiB for preconditioning (the range 4 times), and {taken}" in out
    assert "not a PTS result" in out
    assert main(words) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "writes: the range 4 times for preconditioning, and what the target takes" in out
    assert "not a PTS result" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--test", "iop"], "there are iops"),
        (["iop", "--dry-run"], "--test names a test (iops, throughput, latency, write-saturation, dirth, cross-stim"),
        (["iops", "--dry-run"], "--test names a test: `brickyard pts client --test iops --dry-run`"),
        (["--range", "0%"], "a part of the target"),
        (["--round", "1us"], "at least 1ms"),
        (["--rounds", "4"], "over 5 rounds"),
        (["--set", "depth=4"], "by the specification"),
        ([SIM, "--set", "depth=4"], "by the specification"),
    ],
)
def test_what_is_amiss_is_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pts", "client", *words]) == 2
    assert said in capsys.readouterr().err


DIRTH = ("--range", "0.1%", "--test", "dirth")


def test_an_operating_point_that_its_cell_did_not_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rounds of 4 ms are no longer than a write cache of 64 MiB lasts: the answer is a warning and names no point."""
    store = tmp_path / "runs.db"
    found = measured(capsys, store, "enterprise", "sim:nvme-tlc-3840", "--round", "4ms", *DIRTH)
    points = {point["point"]: point for point in found["histograms"]}
    most = points["MaxIOPS"]
    assert most["difference"] == pytest.approx(most["iops"] / most["cell"]["iops"] - 1)
    assert most["difference"] < -0.2
    assert not most["is_as_promised"]
    assert found["operating_points_hold"] is False
    _, warned, figures = found["answer"]
    assert "MaxIOPS does not match its cell" in warned
    assert "measure with longer rounds" in warned
    assert "IOPS " in figures
    assert not any(name in figures for name in points)
    cells = found["tests"]["dirth"]["cells"]
    assert most["cell"]["iops"] == max(cell["iops"] for cell in cells if cell["mean_ns"] <= 5e6)

    with Store(store) as kept:
        (study,) = kept.studies()
        records = [kept.record(run) for run in study.runs]
    again = stored_points(records)
    assert again is not None
    assert [(p.promised.iops, p.figures.iops) for p in again[0]] == [
        (point["cell"]["iops"], point["iops"]) for point in found["histograms"]
    ]
    lead = _lead(records, study)
    assert lead is not None
    assert "MaxIOPS does not match its cell" in lead.answer.sentences[1]
    assert "cell IOPS" in lead.tables[0].columns


def operating(name: str, promised: float, found: float) -> OperatingPoint:
    cell, figures = (Measured(iops, iops * 8192, 1e5, 2 * 10**5, None) for iops in (promised, found))
    return OperatingPoint(name, 8, 32, cell, figures, 2)


def test_operating_points_hold_within_the_range_and_in_order() -> None:
    low, high = operating("MinIOPS", 100, 119), operating("MaxIOPS", 1000, 810)
    middle = operating("MidIOPS", 500, 500)
    assert not troubles([low, middle, high], is_steady=True)
    said = points_answer([low, middle, high], [], is_steady=True).sentences
    assert "MaxIOPS 810 (8 threads × QD 32)" in said[0]
    (far, *_) = troubles([low, middle, operating("MaxIOPS", 1000, 790)], is_steady=True)
    assert "790" in far
    assert "1,000" in far
    assert "-21.0 %" in far
    assert "order" in troubles([low, operating("MidIOPS", 810, 811), high], is_steady=True)[0]
    assert "not reached" in troubles([low, middle, high], is_steady=False)[0]


def test_no_mean_is_above_the_longest_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where all requests take as long, the middle of their bucket is beyond them."""
    words = ("client", "sim:nvme-tlc-3840", "--round", "10ms", "--range", "0.1%", "--test", "latency")
    for cells in measured(capsys, tmp_path / "runs.db", *words)["tests"]["latency"]["by_round"]:
        assert all(cell["mean_ns"] <= cell["max_ns"] for cell in cells)


def test_a_percentile_of_the_window_is_of_all_its_requests() -> None:
    """A mean of percentiles would be a time that no request had."""

    def one(response_ns: int, count: int) -> Measured:
        nines = response_ns if count >= 1_000_000 else None
        times = Histogram(histogram([response_ns] * count))
        return Measured(1.0, 4096.0, float(response_ns), response_ns, nines, count, times)

    rounds = [one(MS, 400_000), one(MS, 400_000), one(9 * MS, 400_000)]
    assert all(item.nines_ns is None for item in rounds), "of no round by itself"
    assert mean_of(rounds).nines_ns == pytest.approx(9 * MS, rel=0.01)
    assert mean_of(rounds[:2]).nines_ns is None
    assert mean_of([*rounds, Measured(1.0, 4096.0, 1e6, MS, MS)]).nines_ns is None, "a round without its times"


def test_figures_of_a_state_that_was_not_steady_are_no_answer() -> None:
    def found(*means_ms: float) -> Found:
        rounds = Rounds(round_test("latency", CLIENT.queue))
        for mean_ms in means_ms:
            one = Measured(iops=1000 / mean_ms, bytes_per_s=0.0, mean_ns=mean_ms * 1e6, max_ns=9_000_000, nines_ns=None)
            rounds.rounds.append([one for _ in rounds.test.cells])
        rounds.judge()
        return Found(1, rounds={"latency": rounds})

    (said,) = pts_answer(found(1, 1, 1, 1, 1), []).sentences
    assert said == "Alone, a read of 4 KiB takes 1.00 ms on average and a write 1.00 ms."
    (said,) = pts_answer(found(0.1, 0.1, 5, 1, 1), []).sentences
    assert said == "No result for Latency: the state was not steady after 5 rounds."
    ((title, *_),) = round_tables("latency", found(1, 1, 1, 1, 1).rounds["latency"])
    assert "each figure a mean over rounds, so IOPS is not 1 / average" in title


def test_a_bin_of_the_histogram_holds_the_times_of_its_requests() -> None:
    low, high = 110_000, 3 * MS
    whole = Measured(1.0, 4096.0, 1.0, high, None, 4, Histogram(histogram([low, low, low, high])))
    first, last = histogram_bins(whole)
    assert (first.x <= low < first.end, first.high) == (True, 0.75)
    assert (last.x <= high < last.end, last.high) == (True, 0.25)

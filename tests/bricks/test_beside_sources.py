"""What studies and headlines say of figures that their sources contradict, or that are those of a cache."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from brickyard import profiles
from brickyard.advise.simulate import Brick, filled, simulate
from brickyard.analysis.figures.pivot import Axis, Observation, TableSpec, Where, pivot
from brickyard.analysis.judging import cached
from brickyard.analysis.judging.answers import _characterized
from brickyard.analysis.judging.conclusions import rivals_of
from brickyard.analysis.studies.answer import _against_base
from brickyard.analysis.studies.characterization import Cell, RankedCell
from brickyard.analysis.studies.published import Cells, Conclusion, Published, agreement, beside, judged
from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.schema.plan import Plan
from brickyard.store import Json, Record
from brickyard.study.designs.design import read_design
from brickyard.study.designs.texts import StudyText, names, read
from brickyard.study.shipped import characterize


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Json:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


SPEC = TableSpec("rate", "Rate", "iops", ("array",), (), {}, ("value",), {}, None, {}, "mean", None)
ARRAYS = [Axis("array", "array", {"a": "A", "b": "B"}, {})]


def made(a: float, b: float) -> list[Observation]:
    return [Observation({"array": name}, 1, run, value) for run, (name, value) in enumerate([("a", a), ("b", b)], 1)]


def test_each_cell_stands_beside_the_printed_one_with_ratio_and_rank() -> None:
    printed = [Published("rate", {"array": ("a",)}, 100, "XFS"), Published("rate", {"array": ("b",)}, 50)]
    ((title, columns, rows),) = beside([pivot(SPEC, ARRAYS, made(80, 100))], printed)
    assert title == "Rate, compared with the source"
    assert columns[3:] == ("here / published", "rank, published", "rank, here")
    assert rows == [["A (XFS)", "100", "80.0", "0.80", "1", "2"], ["B", "50.0", "100", "2.00", "2", "1"]]


def test_figures_that_read_alike_have_one_rank() -> None:
    printed = [Published("rate", {"array": (name,)}, 100) for name in ("a", "b")]
    ((_, _, rows),) = beside([pivot(SPEC, ARRAYS, made(80.01, 79.99))], printed)
    assert [row[2] for row in rows] == ["80.0", "80.0"]
    assert [row[4:] for row in rows] == [["1", "1"], ["1", "1"]]


def test_a_conclusion_that_does_not_come_out_is_said() -> None:
    ahead = Conclusion("A is ahead of B", "rate", {"array": ("a",)}, {"array": ("b",)}, {})
    alike = Conclusion("A is as fast as B", "rate", {"array": ("a",)}, {"array": ("b",)}, {}, 0.9, 1.1)
    absent = Conclusion("C is fast", "rate", {"array": ("c",)}, {"array": ("b",)}, {})
    found = judged([pivot(SPEC, ARRAYS, made(80, 100))], [ahead, alike, absent])
    assert [(item.ratio, item.agrees) for item in found] == [(0.8, False), (0.8, False), (None, None)]
    said = agreement(found, is_modelled=True)
    assert said.startswith(
        "0 of 2 conclusions of the source agree with the models; these do not: A is ahead of B (here 0."
    )
    assert said.endswith("; 1 not judged, as cells are missing.")


def test_a_study_says_that_all_conclusions_come_out_and_nothing_where_there_are_none() -> None:
    ahead = Conclusion("A is ahead of B", "rate", {"array": ("a",)}, {"array": ("b",)}, {})
    found = judged([pivot(SPEC, ARRAYS, made(110, 100))], [ahead])
    assert agreement(found, is_modelled=True) == "1 of 1 conclusions of the source agree with the models."
    assert not agreement([], is_modelled=True)
    assert agreement(judged([], [ahead]), is_modelled=True) == (
        "None of the source's 1 conclusions was judged: cells are missing."
    )


def test_a_lead_within_noise_is_not_confirmed() -> None:
    ahead = Conclusion("A is ahead of B", "rate", {"array": ("a",)}, {"array": ("b",)}, {})
    noisy = [
        Observation({"array": name}, repetition, 2 * repetition + number, value)
        for number, (name, values) in enumerate([("a", (80, 120, 160)), ("b", (70, 100, 130))])
        for repetition, value in enumerate(values)
    ]
    (found,) = judged([pivot(SPEC, ARRAYS, noisy)], [ahead])
    assert (found.agrees, found.confirmed) == (None, "not decided")
    assert "0 of 1 conclusions" in agreement([found], is_modelled=True)
    assert "not decided by these repetitions: A is ahead of B (here 1.19 ×, 0." in agreement([found], is_modelled=True)


def test_a_lead_is_compared_with_that_of_other_cells() -> None:
    """RAID-6 costs large writes more than large reads: a ratio of ratios."""
    spec = TableSpec("rate", "Rate", "iops", ("array", "load"), (), {}, ("value",), {}, None, {}, "mean", None)
    axes = [*ARRAYS, Axis("load", "load", {"read": "read", "write": "write"}, {})]
    rates = {("a", "read"): 100, ("b", "read"): 90, ("a", "write"): 100, ("b", "write"): 50}
    cells = [
        Observation({"array": a, "load": load}, 1, run, rate) for run, ((a, load), rate) in enumerate(rates.items())
    ]
    at: dict[str, tuple[str, ...]] = {"load": ("write",)}
    than: dict[str, tuple[str, ...]] = {"load": ("read",)}
    more = Conclusion("writes more", "rate", {"array": ("a",)}, {"array": ("b",)}, at, 1.5, than=than)
    (found,) = judged([pivot(spec, axes, cells)], [more])
    assert found.ratio == pytest.approx(2 / (10 / 9))
    assert found.agrees


def test_a_study_begins_with_what_its_source_concludes_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    """openBench found that the ATA RAID-10 matches the SCSI array; without a file system it does not here."""
    found = answer(capsys, "study", "openbench-2003", "--repetitions", "1")
    assert found["answer"][0].startswith(
        "1 of 3 conclusions of the source agree with the models; these do not: the ATA RAID"
    )
    tables = {table["title"]: table for table in found["published"]}
    rows = tables["Requests per second within a mean response time of 100 ms, compared with the source"]["rows"]
    assert [row[1] for row in rows] == ["1,500", "300", "1,200", "1,600"]
    assert all(len(row) == 6 and row[2] and row[3] for row in rows)
    # A price follows from the rate beside it: 3,500 USD over the requests/s.
    scsi = float(rows[0][2].replace(",", ""))
    prices = tables["Price per request/s within 100 ms, compared with the source"]["rows"]
    assert float(prices[0][2]) == pytest.approx(3500 / scsi, rel=0.01)


def test_kirkwoods_drives_come_out_by_what_a_page_cache_asks_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Through the modelled page cache; a file that is new is written as fast as the drives write."""
    found = answer(capsys, "study", "kirkwood-2003", "--repetitions", "1")
    rows = {row[0]: row for table in found["published"] if "iowork" in table["title"] for row in table["rows"]}
    assert float(rows["one disk, cache off, random-read"][2]) > 1.5, "a part of the file is in memory"
    for cell in (
        "one disk, cache off, sequential-write",
        "one disk, cache off, sequential-read",
        "one disk, cache on, sequential-read",
    ):
        assert float(rows[cell][3]) == pytest.approx(1, abs=0.1)
    concluded = {
        row[0]: row[2] for t in found["published"] if t["title"] == "What the source concludes" for row in t["rows"]
    }
    assert [text for text, out in concluded.items() if out == "no"] == [
        text
        for text in concluded
        if text.startswith(("the write cache makes sequential writes", "with the cache off, a stripe over two disks w"))
    ]
    assert found["answer"][0].startswith("5 of 8 conclusions of the source agree with the models; these do not: the wr")


def test_one_measure_is_one_load(capsys: pytest.CaptureFixture[str]) -> None:
    """Random reads of 512 B of the 500 GB drives are printed in two tables, as 1,030 and 1,031 a second."""
    only = ["--repetitions", "1", "--only", "request=512"]
    drives = answer(capsys, "study", "overland-drives", *only, "--only", "access=random", "--only", "drive=500")
    arrays = answer(capsys, "study", "overland-sas-sata", *only, "--only", "load=random", "--only", "drive=sata")
    (one,), (other,) = drives["tables"][0]["cells"], arrays["tables"][0]["cells"]
    assert one["value"] == pytest.approx(other["value"], rel=1e-6)
    assert [table["title"] for table in drives["published"]] == ["Requests per second, compared with the source"]
    # At another depth than the source's, they are not its figures.
    deep = ["--only", "access=random", "--only", "drive=500", "--set", "depth=4", "--set", "duration=5s"]
    changed = answer(capsys, "study", "overland-drives", *only, *deep)
    assert changed["published"] == []
    assert changed["answer"][0].startswith(
        "Not compared with the source, since --set depth=4 makes it another workload"
    )
    assert one["value"] == pytest.approx(1030, rel=0.05)


@pytest.mark.parametrize("name", names())
def test_shipped_studies_that_have_a_source_run_their_models_with_several_seeds(name: str) -> None:
    design = read_design(read(name))
    if design.published:
        assert design.repetitions >= 3
    if design.source and name != "rebuild-rate":  # whose source is a manual, which measured nothing
        assert design.conclusions


def test_the_order_of_sqliosims_totals_is_among_the_conclusions(capsys: pytest.CaptureFixture[str]) -> None:
    mirrors = ("--only", "arrangement=sas-raid1-2", "--only", "arrangement=sata-raid1-2", "--set", "test.duration=20s")
    found = answer(capsys, "study", "demartek-servers", *mirrors, "--only", "load=small")
    assert "1 of 1 orders of SQLIOSim's totals (a total grows with the requests in flight" in found["answer"][0]
    assert "2 not judged" in found["answer"][0]


def test_the_raid_6_penalty_falls_with_the_size_in_the_source_alone(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [part for size in ("64KiB", "128KiB", "1MiB") for part in ("--only", f"request={size}")]
    found = answer(capsys, "study", "overland-raid-levels", "--repetitions", "1", *sizes)
    said = found["answer"][0]
    assert "RAID-6 costs large sequential writes more than large sequential reads (here 0.9" in said
    assert "RAID-6 costs reads of 64 KiB more than reads of 1 MiB: 12 and 6 % (here 0.9" in said


def test_wrong_figures_of_a_source_are_one_line() -> None:
    text = '[factor.a]\nlevels = ["1"]\nset = { depth = "{value}" }\n[[table]]\nname = "t"\n[[published]]\n'
    for more, cause in (
        ('table = "x"\nvalue = 1\n', "name a table"),
        ('table = "t"\n', "is missing"),
        ('table = "t"\nvalue = 1\nat = { a = "2" }\n', "is not a level of a"),
    ):
        with pytest.raises(BadInputError, match=cause):
            read_design(StudyText("mine", text + more, "mine.toml"))


def random_writes(*, full: bool) -> Record:
    """4 KiB writes to the array whose controller caches 256 MiB, as the store has such a run."""
    changes = ["operations={ write = 100 }", "request=4KiB", "duration=30s", "interval=5s"]
    plan = profiles.validate(profiles.read("characterize"), changes)
    assert isinstance(plan, Plan)
    brick = Brick("overland-2007-sata")
    return simulate(filled(plan, brick.resolve().brick) if full else plan, brick)


def test_a_rate_into_a_cache_that_is_not_full_is_in_doubt() -> None:
    into, behind = random_writes(full=False), random_writes(full=True)
    assert sum(i.requests for i in into.intervals if i.measure == "service") > 5 * sum(
        i.requests for i in behind.intervals if i.measure == "service" and not i.warmup
    )
    assert "of cache" in (cached.doubt(into) or "")
    assert cached.doubt(behind) is None


def test_a_characterization_of_a_model_shows_what_lies_behind_its_caches(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """9,584 random writes a second were those of the cache, and no fewer than in order."""
    monkeypatch.setattr(characterize, "SIZES_BYTES", (4096, 65536))
    found = answer(capsys, "characterize", "sim:overland-2007-sata", "--quick", "-o", str(tmp_path / "page"))
    rates = {(c["address"], c["operation"], c["request_bytes"]): c["iops"] for c in found["cells"]}
    assert rates["random", "write", 4096] == pytest.approx(423, rel=0.1)
    assert rates["sequential", "write", 4096] > 10 * rates["random", "write", 4096]
    assert "write 42" in found["answer"][1]


def test_a_headline_that_would_be_a_caches_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On real storage nothing is filled before: there the headline says that there is none."""
    monkeypatch.setattr(characterize, "SIZES_BYTES", (4096, 65536))
    monkeypatch.setattr(characterize.Characterization, "_loaded", lambda _self, plan: plan)
    found = answer(capsys, "characterize", "sim:overland-2007-sata", "--quick", "-o", str(tmp_path / "page"))
    assert "write: no figure, because 2 of 2 cells were not in steady state" in found["answer"][1]
    assert found["answer"][1].startswith("Random requests at 2 workers × queue depth 32: "), (
        "no latency without its load"
    )
    assert "With --full, each cell is measured until it is steady" in found["belief"]
    page = (tmp_path / "page" / "report.html").read_text()
    assert "write: no figure" in page


@pytest.mark.parametrize(
    ("mib_per_s", "doubted", "said"),
    [
        (
            (30, 50, 50, 50),
            0,
            "write up to 50.0 MiB/s with requests of 1 KiB, and at least 90 % of it with all larger ones",
        ),
        ((30, 47, 50, 50), 0, "write up to 50.0 MiB/s with requests of 2 KiB, and at least 90 % of it from 1 KiB on"),
        (
            (30, 50, 49, 46),
            0,
            "write up to 50.0 MiB/s with requests of 1 KiB, and at least 90 % of it with all larger ones",
        ),
        (
            (30, 50, 49.5, 44.9),
            0,
            "write up to 50.0 MiB/s with requests of 1 KiB, and 44.9 to 49.5 MiB/s from 2 KiB on",
        ),
        ((30, 99, 46, 50), 0, "write up to 99.0 MiB/s with requests of 1 KiB, and 46.0 to 50.0 MiB/s from 2 KiB on"),
        ((30, 99, 50, 50), 0, "write up to 99.0 MiB/s with requests of 1 KiB, and 50.0 MiB/s from 2 KiB on"),
        ((30, 50, 99, 50), 0, "write up to 99.0 MiB/s with requests of 2 KiB"),
        (
            (90, 99, 50, 50),
            2,
            "write 50.0 MiB/s from 2 KiB on (2 of 4 cells were not in steady state and are left out)",
        ),
        ((50, 50, 50, 50), 4, "write: no figure, because 4 of 4 cells were not in steady state"),
    ],
)
def test_a_characterization_names_the_rate_of_the_storage(
    mib_per_s: tuple[float, ...], doubted: int, said: str
) -> None:
    """`doubted`: so many of the smallest sizes may show a cache."""
    best = max(mib_per_s)
    rows: list[Any] = [SimpleNamespace(bytes_per_s=rate * 2.0**20, is_rated=True) for rate in mib_per_s]
    cells = [
        RankedCell(Cell(number, "sequential", "write", 512 << number, row), None, mib_per_s[number] / best)
        for number, row in enumerate(rows)
    ]
    doubts = dict.fromkeys(range(doubted), "cached")
    assert _characterized({("sequential", "write"): cells}, "", doubts, {}) == [f"Sequential requests: {said}."]


def repeated(a: tuple[float, ...], b: tuple[float, ...]) -> list[Observation]:
    return [
        Observation({"array": name}, repetition, 2 * repetition + number, value)
        for number, (name, values) in enumerate([("a", a), ("b", b)])
        for repetition, value in enumerate(values)
    ]


def test_a_level_that_is_a_number_stands_beside_its_factor() -> None:
    numbered = Axis("array", "depth", {"a": "4", "b": "1"}, {})
    found = pivot(SPEC, [numbered], repeated((101, 102, 103), (100, 101, 102)))
    said = _against_base(numbered, "IOPS", rivals_of([found], "array"), "b", {"array": numbered})
    assert said.startswith("IOPS compared with depth 1: depth 4: +")


@pytest.mark.parametrize(
    ("a", "low", "high", "agrees"),
    [
        ((130, 131, 132), 1.2, 1.4, True),
        ((130, 131, 132), 1.5, 9, False),
        ((130, 131, 132), 1.31, 9, None),  # the bound lies in the interval
        ((100, 130, 170), 1.0, 9, None),  # 1.3 times, but three repetitions do not decide it
        ((100, 101, 102), 0.9, 1.1, True),
        ((80, 101, 130), 0.9, 1.1, None),  # alike by the figure, and yet not shown to be
    ],
)
def test_a_conclusion_is_judged_by_the_interval_of_its_ratio(
    a: tuple[float, ...], low: float, high: float, agrees: bool | None
) -> None:
    item = Conclusion("A and B", "rate", {"array": ("a",)}, {"array": ("b",)}, {}, low, high)
    (found,) = judged([pivot(SPEC, ARRAYS, repeated(a, (99, 100, 101)))], [item])
    assert found.agrees is agrees
    assert " to " in found.here


def test_a_known_reason_stands_beside_a_conclusion_that_models_do_not_reach() -> None:
    item = Conclusion("A is ahead", "rate", {"array": ("a",)}, {"array": ("b",)}, {}, why="no file system")
    found = judged([pivot(SPEC, ARRAYS, made(80, 100))], [item])
    assert "A is ahead (here 0.80 ×, measured once: no file system)" in agreement(found, is_modelled=True)
    assert "no file system" not in agreement(found, is_modelled=False), "it is a reason of models"
    assert "no file system" not in agreement(judged([pivot(SPEC, ARRAYS, made(120, 100))], [item]), is_modelled=True)


def test_a_ratio_over_several_cells_is_that_of_each_not_that_of_the_largest() -> None:
    spec = TableSpec("rate", "Rate", "iops", ("array", "load"), (), {}, ("value",), {}, None, {}, "mean", None)
    axes = [*ARRAYS, Axis("load", "load", {"small": "small", "large": "large"}, {})]
    rates = {("a", "small"): 60_000, ("b", "small"): 60_000, ("a", "large"): 400, ("b", "large"): 100}
    cells = [
        Observation({"array": a, "load": load}, 1, run, rate) for run, ((a, load), rate) in enumerate(rates.items())
    ]
    (found,) = judged(
        [pivot(spec, axes, cells)], [Conclusion("A", "rate", {"array": ("a",)}, {"array": ("b",)}, {}, 1.5)]
    )
    assert found.ratio == pytest.approx(2)  # of 1 and 4; the sums are 0.5 % apart
    assert found.here == "2.00 ×, measured once"


def test_the_cheap_controller_is_ahead_at_random_requests_as_its_source_found(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And only with its files where `study reference` has them, which the study shows beside."""
    only = ("--only", "load=random-read", "--only", "disks=4", "--repetitions", "1")
    found = answer(capsys, "study", "sata-2003-controllers", *only)
    rates = {cell["levels"]["controller"]: cell["value"] for cell in found["tables"][0]["cells"]}
    assert rates["highpoint"] == pytest.approx(386.7, rel=0.15)
    assert rates["highpoint-whole"] == pytest.approx(rates["3ware"], rel=0.02)
    assert rates["3ware"] == pytest.approx(292.2, rel=0.05)
    assert found["answer"][0].startswith(
        "1 of 1 conclusions of the source agree with the models, 1 of them only if the HighPoint's files lie on the "
        "first 40 % of the drives, which the source does not say"
    )
    # Like for like: both with their files on whole drives, where the card makes no difference.
    assert "IOPS compared with 3ware 8506-8: HighPoint, whole drives 0 %" in found["answer"][1]


def test_each_disk_has_its_own_requests(capsys: pytest.CaptureFixture[str]) -> None:
    """604/s in `study reference` and 600 as published; requests that any disk may get leave some without."""
    only = ("--only", "load=random-read", "--only", "disks=8", "--repetitions", "1")
    (cell,) = answer(capsys, "study", "sata-2003-disks", *only)["tables"][0]["cells"]
    assert cell["value"] == pytest.approx(600, rel=0.03)


def test_a_size_of_calls_finds_nothing_in_memory_of_the_size_before(capsys: pytest.CaptureFixture[str]) -> None:
    """In one run, every second size of oblDISK read twice as much: what the one before had left in the page cache."""
    only = ("--only", "array=raid5", "--only", "processes=2", "--only", "direction=read", "--repetitions", "1")
    found = answer(capsys, "study", "openbench-disk", *only, "--only", "request=2KiB", "--only", "request=8KiB")
    two, eight = (cell["value"] for cell in found["tables"][0]["cells"])
    assert two == pytest.approx(eight, rel=0.3)


def test_a_level_that_meets_no_other_is_named_if_it_is_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    """An SSD is in no RAID, so that no sentence about devices or about RAID alone compares it."""
    only = [part for level in ("ssd", "sas", "sata") for part in ("--only", f"device={level}")]
    only += ["--only", "load=database-read", "--only", "raid=none", "--only", "raid=raid1-2", "--repetitions", "1"]
    found = answer(capsys, "study", "demartek-2009", *only)
    assert found["answer"][1].startswith("Best IOPS: SSD, one device (")
    only = ["--only", "device=sas", "--only", "load=log", "--only", "raid=raid1-2", "--only", "raid=raid10-8"]
    found = answer(capsys, "study", "demartek-2009", *only, "--repetitions", "1")
    assert "Best" not in found["answer"][1], "one device compares nothing, and its RAID levels are compared"


def test_one_sentence_does_not_average_reads_and_writes(capsys: pytest.CaptureFixture[str]) -> None:
    only = ("--only", "request=4KiB", "--only", "access=random", "--only", "access=sequential-read")
    found = answer(capsys, "study", "overland-drives", "--repetitions", "1", *only)
    assert "random read: IOPS compared with 500 GB: 750 GB -1" in found["answer"][1]
    assert "sequential read: IOPS compared with 500 GB: 750 GB 0 %" in found["answer"][1]
    # Of a study that was interrupted, no conclusion is drawn from a part of the cells that it is about.
    half = answer(capsys, "study", "overland-drives", "--repetitions", "1", *only, "--only", "request=8KiB", "--no-run")
    assert half["answer"][:2] == [
        "Incomplete: 4 of 8 cells were not measured (4 of 8 runs are missing).",
        "None of the source's 2 conclusions was judged: cells are missing.",
    ]
    more = answer(capsys, "study", "overland-drives", "--repetitions", "2", *only, "--no-run")["answer"]
    assert more[0] == "Incomplete: 4 of 8 runs are missing; each cell was measured at least once."
    assert more[1].startswith("2 of 2 conclusions of the source agree with the models")


def test_a_missing_cell_is_needed_only_beside_its_counterpart() -> None:
    a: Where = {"array": ("a",)}
    b: Where = {"array": ("b",)}
    ahead = Conclusion("A is ahead of B", "rate", a, b, {})
    pivots = [pivot(SPEC, ARRAYS, made(110, 100))]
    planned = [{"array": name, "load": load} for name in "ab" for load in ("read", "write")]

    def is_judged(missing: dict[str, str], planned: list[dict[str, str]]) -> bool:
        (found,) = judged(pivots, [ahead], Cells(planned, [missing]))
        return found.is_measured

    assert not is_judged({"array": "a", "load": "write"}, planned)
    assert not is_judged({"array": "b", "load": "read"}, planned)
    assert is_judged({"array": "c", "load": "read"}, [*planned, {"array": "c", "load": "read"}])
    assert is_judged({"array": "a", "load": "copy"}, [*planned, {"array": "a", "load": "copy"}])


def test_a_write_back_cache_slows_no_stream_of_writes(capsys: pytest.CaptureFixture[str]) -> None:
    """Whole rows of a mirror were destaged one at a time, each a revolution after the last."""
    rates = []
    for more in ([], ["--set", "controller.write_back=false"]):
        load = ["--rw", "write", "--bs", "64k", "--iodepth", "4", "--runtime", "60s"]
        assert main(["run", *load, "sim:demartek-2009-sas", *more, "--json"]) == 0
        rates.append(json.loads(capsys.readouterr().out)["totals"][0]["iops"])
    cached, direct = rates
    assert cached > 0.9 * direct


def test_an_answer_for_many_loads_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """Its ends are those of the tables, one for each load."""
    only = ("--only", "drive=WD", "--only", "mirror=hardware", "--repetitions", "1")
    found = answer(capsys, "study", "sata-2003", *only)
    (said,) = (sentence for sentence in found["answer"] if "Volume Rebuild" in sentence)
    lost = []
    for table in found["tables"]:
        rates = {cell["levels"]["condition"]: cell["value"] for cell in table["cells"]}
        lost.append(rates["rebuilding"] / rates["normal"] - 1)
    shares = re.search(r"Volume Rebuild (-\d+) % \([^)]*\) to (-\d+) % \(", said)
    assert shares is not None, said
    assert [float(shares[1]), float(shares[2])] == pytest.approx([100 * max(lost), 100 * min(lost)], abs=0.5)
    assert said.startswith("IOPS and throughput compared with Normal: Controller Rebuild ")
    assert re.search(r"\(medians of each of 6 loads; single cells -\d+ % to [-+\d. ]+%\)\.$", said), said
    assert len(said) < 300
    # Whoever asks for the study again reads its answer first.
    assert main(["show", "s1"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith(found["question"])
    assert said in shown

"""Studies: a file with factors becomes runs and tables; what is finished is never measured again."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from brickyard import api
from brickyard.cli import main
from brickyard.schema import RunOptions
from brickyard.schema.plan import Plan
from brickyard.store import Json, Store, default_place
from brickyard.study.designs.design import read_design
from brickyard.study.designs.texts import names, read
from brickyard.study.running.computing import Computed, by_place
from brickyard.study.shipped import reference

SCRATCH = """
title = "Two request sizes on a file"
repetitions = 2
[base]
profile = "characterize"
set = ["duration=600ms", "warmup=0s", "interval=100ms"]
[factor.request]
set = { request = "{value}" }
levels = ["4KiB", "64KiB"]
[factor.depth]
levels = [1, 4]
set = { depth = "{value}", workers = 1 }
[[table]]
rows = "request"
columns = "depth"
show = ["value", "percent_of_best", "difference"]
baseline = { depth = "1" }
"""


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Json:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main([*arguments]) == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    return said


def study_file(folder: Path, text: str) -> str:
    place = folder / "mine.toml"
    place.write_text(text)
    return str(place)


def finished_cells() -> Counter[str]:
    with Store() as store:
        return Counter(str(run.labels["cell"]) for run in store.runs() if run.outcome == "done")


def test_what_a_kill_has_left_is_not_measured_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, target = study_file(tmp_path, SCRATCH), str(tmp_path / "target")
    command = [file, "--target", target, "--size", "32MiB"]
    process = subprocess.Popen([sys.executable, "-m", "brickyard", "study", *command])
    try:
        until = time.monotonic() + 60
        while (
            process.poll() is None
            and time.monotonic() < until
            and (not default_place().exists() or sum(finished_cells().values()) < 3)
        ):
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    before = finished_cells()
    assert 3 <= sum(before.values()) < 8

    document = answer(capsys, "study", *command)
    assert document["planned"] == 8
    assert document["reused"] == sum(before.values())
    assert len(document["made"]) == 8 - document["reused"]
    assert set(finished_cells().values()) == {1}
    assert len(finished_cells()) == 8
    (table,) = document["tables"]
    assert [(cell["levels"], cell["n"]) for cell in table["cells"]] == [
        ({"request": request, "depth": depth}, 2) for request in ("4KiB", "64KiB") for depth in ("1", "4")
    ]
    assert max(cell["share_of_best"] for cell in table["cells"]) == 1
    for cell in table["cells"]:
        assert (cell["difference"] is None) == (cell["levels"]["depth"] == "1")

    assert answer(capsys, "study", *command)["made"] == []


def test_an_interrupted_study_says_how_to_go_on(tmp_path: Path) -> None:
    file, target = study_file(tmp_path, SCRATCH), str(tmp_path / "target")
    process = subprocess.Popen(
        [sys.executable, "-m", "brickyard", "study", file, "--target", target, "--size", "32MiB"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ.copy(),
    )
    try:
        until = time.monotonic() + 60
        while (
            process.poll() is None
            and time.monotonic() < until
            and (not default_place().exists() or not finished_cells())
        ):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "the same command continues it" in out


def test_the_sata_study_is_what_the_reference_simulates(capsys: pytest.CaptureFixture[str]) -> None:
    """The study's own profiles and runs on the models give what the core's reference gives for the published cells."""
    document = answer(capsys, "study", "sata-2003", "--repetitions", "1")
    outcomes = reference.run_reference(lambda *_: None, source="MSR 2003, table")
    loads = {
        ("random read", "4"): "1", ("random write", "4"): "2", ("sequential read", "4"): "3",
        ("sequential write", "4"): "4", ("random read", "1"): "5", ("random write", "1"): "6",
    }  # fmt: skip
    found = {
        (table["table"], *(cell["levels"][name] for name in ("drive", "mirror", "condition"))): cell
        for table in document["tables"]
        for cell in table["cells"]
    }
    compared = 0
    for outcome in outcomes:
        pattern, operation, _, depth, drive, _, mirror = outcome.cell.label.split()
        name = {"3ware": "hardware"}.get(mirror, mirror)
        cell = found[loads[f"{pattern} {operation}", depth], drive, name, outcome.cell.condition]
        # The reference warms up and runs for longer; both are the same models.
        assert cell["value"] == pytest.approx(outcome.simulated, rel=0.08), outcome.name
        compared += 1
    assert compared == 82
    best = [cell["share_of_best"] for cell in found.values() if cell["levels"]["condition"] == "normal"]
    assert max(best) == 1
    # The unmirrored are not held against mirrors, whose two arms would make them look slow.
    assert found["1", "WD", "none", "normal"]["share_of_best"] == 1


def test_a_modelled_study_is_the_same_every_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["study", "sata-2003", "--only", "drive=WD", "--only", "load=random-read-4"]
    one, other = (answer(capsys, *command, "--store", str(tmp_path / name)) for name in ("a.db", "b.db"))
    assert [t["cells"] for t in one["tables"]] == [t["cells"] for t in other["tables"]]
    assert any(cell["value"] for table in one["tables"] for cell in table["cells"])
    # What the question is about, and --only leaves no choice of.
    assert "Not compared, as all runs have the same: drive (WD)." in one["answer"]


@pytest.mark.parametrize("name", names())
def test_every_shipped_study_can_be_planned(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    design = read_design(read(name))
    assert design.source, "a study that ships says where it comes from"
    document = answer(capsys, "study", name, "--dry-run")
    assert document["runs"]
    assert len({run["cell"] for run in document["runs"]}) == len(document["runs"])
    assert not default_place().exists()


MISTAKES = [
    ("titel = 1", "titel: unknown key; did you mean title?"),
    ("repetitions = 0", "repetitions: 0 is not a whole number of 1 or more"),
    ("order = 'radnom'", "order: radnom is unknown; did you mean random?"),
    ("settle = 'soon'", "settle: "),
    ("[base]\nprofil = 'characterize'", "base.profil: unknown key; did you mean profile?"),
    ("[base]\ntarget = '{driev}'", "{driev} names no factor; did you mean drive?"),
    ("[base]\ncondition = 'degrade'", "base.condition: degrade is not a condition"),
    ("[factor.value]\nlevels = [1]", "value is a reserved name"),
    ("[factor.other]\nlevels = []", "factor.other.levels: names none"),
    ("[factor.other]\nlevels = [1, 1]", "factor.other.levels: 1 is named twice"),
    ("[factor.other]\nlevel = [1]", "factor.other.levels: is missing"),
    ("[factor.other.levels]\na = { labell = 'A' }", "factor.other.levels.a.labell: unknown key; did you mean label?"),
    ("[[exclude]]\ndriv = 'WD'", "driv is not a factor; did you mean drive?"),
    ("[[exclude]]\ndrive = 'WDD'", "drive: WDD is not a level of drive; did you mean WD?"),
    ("[[table]]\nfigure = 'iop'", "table 1.figure: iop is unknown; did you mean iops?"),
    ("[[table]]\nshow = 'difference'", "a difference or penalty needs baseline"),
    ("[[table]]\nfigure = 'iops_within'", 'needs limit = "100ms"'),
    ("[stop]\nprecision = '120 %'", "stop.precision: '120 %' is not between 0 and 100 %"),
    ("x = [", "not valid TOML"),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_a_mistake_is_told_with_its_key(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = f"{text}\n[factor.drive]\nlevels = ['WD', 'Maxtor']\n"
    if text.startswith("[base]") is False:
        whole += "[base]\nprofile = 'characterize'\ntarget = 'sim:wd2500jd'\n" if "[base]" not in text else ""
    found = complaint(capsys, "study", study_file(tmp_path, whole), "--dry-run")
    assert "mine.toml" in found
    assert said in found


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        ("condition", 'factor condition sets nothing; write condition = "{condition}" in [base]'),
        ("threads", 'factor threads sets nothing; write set = { KEY = "{value}" } in [factor.threads]'),
    ],
)
def test_a_factor_that_changes_nothing_is_refused(
    factor: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = '[base]\nprofile = "characterize"\ntarget = "sim:msr-2003-wd-software-mirror"\n'
    levels = f'[factor.{factor}]\nlevels = ["normal", "degraded"]\n'
    assert complaint(capsys, "study", study_file(tmp_path, base + levels), "--dry-run").endswith(said)
    # One level has nothing to be compared with; a value that is put to use is a factor.
    assert main(["study", study_file(tmp_path, base + levels), "--only", f"{factor}=normal", "--dry-run"]) == 0
    used = f'{base}condition = "{{{factor}}}"\n{levels}'
    assert main(["study", study_file(tmp_path, used), "--dry-run"]) == 0


def test_words_of_the_command_line_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["sata-2004"], "did you mean sata-2003?"),
        (["sata-2003", "--only", "drive=WDX"], "no such level of drive; did you mean WD?"),
        (["sata-2003", "--only", "WD"], "write FACTOR=LEVEL"),
        (["sata-2003", "--only", "condition=neighbour-rebuildin"], "did you mean neighbour-rebuilding?"),
        (["sata-2003", "--target", "WDX=/dev/null"], "WDX is not a level; did you mean WD?"),
        (["sata-2003", "--price", "WD=much"], "write LEVEL=USD"),
        (["sata-2003", "--repetitions", "0"], "at least 1"),
        (["sata-2003", "--set", "dept=4"], "did you mean `depth`"),
    ):
        assert said in complaint(capsys, "study", *arguments, "--dry-run")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["kirkwood-pgbench", "--only", "scale=10", "--set", "scale=1"], "factor scale sets scale"),
        (["kirkwood-pgbench", "--only", "scale=10", "--set", "scale=1"], "--only scale=10"),
        (["openbench-disk", "--set", "workers=3"], "factor processes sets workers"),
        (["demartek-servers", "--set", "duration=2s"], "factor load sets duration"),
        (["overland-drives", "--set", "measure.operations.read=50"], "factor access sets measure.operations.read"),
        # By their profiles, their models, or the words of these; also of a level that runs alone.
        (["sata-2003", "--set", "depth=8"], "factor load sets depth"),
        (["sata-2003", "--only", "load=random-read-1", "--set", "depth=8"], "factor load sets depth"),
        (["sata-2003-disks", "--only", "disks=1", "--set", "members=4"], "factor disks sets members"),
        (["overland-drives", "--set", "drive=barracuda-es-500"], "factor drive sets drive"),
    ],
)
def test_a_key_that_a_factor_sets_is_not_overridden_under_the_names_of_its_levels(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in complaint(capsys, "study", *given, "--dry-run")


def test_keys_that_no_factor_sets_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    only = ["--only", "scale=10", "--only", "wal_sync_method=fsync", "--dry-run"]
    for change in ("pg.synchronous_commit=off", "transactions=10", "pg.shared_buffers=1GB"):
        assert main(["study", "kirkwood-pgbench", *only, "--set", change]) == 0, capsys.readouterr().err
    # The study's runs end after transactions; a duration takes the place of these.
    assert "30 runs that end at their limits" in capsys.readouterr().out
    runs = answer(capsys, "study", "kirkwood-pgbench", *only, "--set", "duration=60")["runs"]
    assert {60 < run["duration_s"] < 70 for run in runs} == {True}
    both = complaint(capsys, "study", "kirkwood-pgbench", *only, "--set", "duration=60", "--set", "transactions=7")
    assert "pgbench ends at one of them; leave the other out" in both


def test_a_condition_is_one_level_however_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    only = ["--only", "load=random-read-1", "--only", "drive=WD", "--only", "mirror=none", "--dry-run"]
    cells = [
        [run["levels"] for run in answer(capsys, "study", "sata-2003", *only, "--only", f"condition={word}")["runs"]]
        for word in ("neighbour-rebuilding", "neighbour_rebuilding", "Controller Rebuild")
    ]
    assert cells[0] == cells[1] == cells[2]
    assert len(cells[0]) == 3


def test_only_combinations_with_a_target_are_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "volume"
    command = ["study", "sata-2003", "--target", f"WD,software={target}", "--only", "condition=normal", "--dry-run"]
    command += ["--size", "64MiB"]
    runs = answer(capsys, *command)["runs"]
    assert {run["levels"]["drive"] for run in runs} == {"WD"}
    assert {tuple(run["targets"]) for run in runs} == {(str(target),)}
    assert len(runs) == 6 * 3, "loads and repetitions"


HELD = """
title = "A file in two conditions"
[base]
profile = "characterize"
target = "TARGET"
set = ["duration=200ms", "warmup=0s", "interval=100ms"]
[factor.condition]
condition = "{value}"
levels = ["normal", "degraded"]
[[table]]
rows = "condition"
"""


def test_a_condition_that_cannot_be_had_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "data"
    file = study_file(tmp_path, f"order = 'written'\n{HELD.replace('TARGET', str(place))}")
    said = complaint(capsys, "study", file, "--size", "2MiB", "--store", str(tmp_path / "s.db"))
    assert "degraded" in said
    assert "is not on an array" in said
    assert not place.exists()
    with Store(tmp_path / "s.db") as store:
        assert store.runs() == []


def test_a_long_phase_is_never_tried_for_the_short_ones_that_follow_it() -> None:
    plans = [plan for plan in api.plans_of_study("demartek-servers") if isinstance(plan, Plan)]
    placed = by_place([Computed(plan, [], RunOptions()) for plan in plans])
    assert [len(loads) for loads, _ in placed] == [len(plans)] * 3
    assert all(phase.duration for _, phase in placed[0][0])
    assert not any(phase.duration for loads, _ in placed[1:] for _, phase in loads)


ARRAYS = """
[base]
profile = "characterize"
target = "sim:wd2500jd"
set = ["duration=200ms", "warmup=0s", "interval=100ms", "depth=8"]
[factor.members]
levels = [1, 4]
set = { members = "{value}", level = "raid0" }
[[table]]
rows = "members"
"""


def test_a_level_changes_a_modelled_target_as_set_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = study_file(tmp_path, ARRAYS)
    one, four = (cell["value"] for cell in answer(capsys, "study", file)["tables"][0]["cells"])
    assert four > 2 * one
    assert "factor members sets members" in complaint(capsys, "study", file, "--set", "members=2")


FEW = """
title = "Two depths of a model"
question = "Which depth has the lower p99?"
answer = ["depth"]
repetitions = 3
[base]
profile = "sqlio-random-read-4"
target = "sim:terraserver-2003"
[factor.depth]
set = { depth = "{value}" }
levels = [1, 4]
[[table]]
figure = "response_p99"
rows = "depth"
"""


@pytest.mark.parametrize(("lasts", "has_all"), [("5s", True), ("2s", False)])
def test_cells_of_which_no_run_has_the_percentile_are_told(
    lasts: str, has_all: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At a depth of 1, no run has 1,000 requests; all three together have them in 5 s, and do not in 2 s."""
    command, folder = [study_file(tmp_path, FEW), "--set", f"duration={lasts}"], tmp_path / "report"
    assert main(["study", *command, "-o", str(folder)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    together = main(["run", "sqlio-random-read-4", "sim:terraserver-2003", "--set", "depth=1", "--repeat", "3",
                     "--set", f"duration={lasts}", "--json"])  # fmt: skip
    repeated = json.loads(capsys.readouterr().out)
    runs, requests = repeated["runs"], sum(run["totals"][0]["requests"] for run in repeated["runs"])
    assert together == 0
    assert max(run["totals"][0]["requests"] for run in runs) < 1_000
    assert (requests >= 1_000) == has_all
    (row,) = (line for line in (folder / "cells.csv").read_text().splitlines() if line.startswith("table-1,1,"))
    (cell,) = (c for c in answer(capsys, "study", *command)["tables"][0]["cells"] if c["levels"]["depth"] == "1")
    assert "queue depth 1 to 4" in out
    if has_all:
        (p99,) = (item for item in repeated["repetitions"] if item["figure"] == "response_p99")
        assert (cell["value"], cell["n"], cell["low"]) == (p99["centre"], 3, None)
        assert f",{p99['centre']},,,3," in row
        assert "1 compared with 4: -" in out
        assert "1 of 2 cells has no interval" in out
    else:
        assert cell["value"] is None
        assert row.strip(",") == "table-1,1,response_p99,ns"
        assert "These runs do not answer it" in out
        assert "1 of 2 cells has no figure" in out
        assert "fewer than ten requests beyond the figure, even together" in out


def test_what_a_level_sets_is_said_of_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A p99 of 8 deep was called "4 deep", and grouping an export as told averaged two depths."""
    file = study_file(tmp_path, FEW.replace("repetitions = 3", "repetitions = 1"))
    assert main(["study", file, "--set", "duration=2s"]) == 0
    assert main(["run", "sqlio-random-read-4", "sim:terraserver-2003", "--set", "depth=1", "--set", "duration=2s"]) == 0
    capsys.readouterr()
    told = {}
    for run in ("1", "2", "3"):
        document = answer(capsys, "show", run)
        (depth,) = (stream["depth"] for stream in document["plan"]["phase"][0]["stream"])
        assert f", 4 deep, but depth={depth}" in document["plan"]["title"] or depth == 4
        told[run] = (depth, document["workload_changes"], document["study_cell"])
    assert sorted(told.values()) == [
        (1, "depth=1, duration=2s", ""),
        (1, "depth=1, duration=2s", "1"),
        (4, "duration=2s", "4"),
    ]
    place = tmp_path / "totals.csv"
    assert main(["export", "1-3", "--rows", "totals", "-o", str(place)]) == 0
    with place.open() as file_:
        rows = list(csv.DictReader(file_))
    assert {row["run"]: (int(row["depth"]), row["workload_changes"], row["study_cell"]) for row in rows} == told


def test_the_name_of_a_factor_makes_no_new_measurement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three runs and the same three under another factor's name were "12 held" with an interval."""
    for number, text in enumerate((FEW, FEW.replace("depth]", "deep]").replace('"depth"', '"deep"'))):
        (tmp_path / f"{number}.toml").write_text(text)
        assert main(["study", str(tmp_path / f"{number}.toml"), "--set", "duration=2s"]) == 0
    capsys.readouterr()
    assert main(["compare", "s1", "s2", "--check"]) == 0
    assert "not judged: both sides are one computation" in " ".join(capsys.readouterr().out.split())
    found = answer(capsys, "history", "sim:terraserver-2003")
    assert {len(load["points"]) for load in found["histories"]} == {3}


def test_a_study_bears_the_marks_of_its_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pace = """set = ['pace={ loop = "open", rate = {value} }']"""
    text = FEW.replace("depth", "rate").replace('set = { rate = "{value}" }', pace).replace("[1, 4]", "[1, 4000]")
    file = study_file(tmp_path, text.replace("response_p99", "iops"))
    assert main(["study", file, "--set", "duration=2s"]) == 0
    capsys.readouterr()
    assert main(["runs"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "done, 3 overloaded" in shown
    assert "overloaded: " in shown, "what the mark means"


def test_levels_that_are_bare_values_have_their_factor_beside_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header was `request  1  8`, and `depth` stood nowhere in the table."""
    (tmp_path / "study.toml").write_text(
        SCRATCH.replace("repetitions = 2", "").replace("[base]", '[base]\ntarget="sim:msr-2003-wd"')
    )
    monkeypatch.setenv("COLUMNS", "80")
    store = ["--store", str(tmp_path / "runs.db"), "-o", str(tmp_path / "r")]
    assert main(["study", str(tmp_path / "study.toml"), *store]) == 0
    out = capsys.readouterr().out
    found = re.search(r"^( +\S.*depth.*)\n(request .*)$", out, re.MULTILINE)
    assert found is not None
    head, names = found.groups()
    assert re.split(r"  +", head.strip()) == ["IOPS by depth", "% of best by depth", "difference to depth 1"]
    assert names.split() == ["request", "1", "4", "1", "4", "4"]
    assert "depth 4 compared with depth 1, by IOPS" in " ".join(out.split())
    page = (tmp_path / "r" / "report.html").read_text("utf-8")
    assert ">IOPS by depth</th>" in page
    assert ">depth</text>" in (tmp_path / "r" / "pictures" / "table-table-1.svg").read_text("utf-8"), "the legend"

"""Modelled bricks from the command line: the same record as of a real run, bit for bit the same each time."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import tomllib
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape
from msgspec import structs

from brickyard import bricks
from brickyard.bricks.spread import spread_of
from brickyard.cli import main
from brickyard.store import Store
from brickyard.study.shipped.reference import Outcome, published_cells, rankings
from support import events_of


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, object]:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


def rate(capsys: pytest.CaptureFixture[str], *arguments: str) -> float:
    answer(capsys, "run", *arguments)
    with Store() as store:
        record = store.record(store.runs()[-1].id)
    requests = sum(item.requests for item in record.intervals if item.measure == "service")
    return requests / 60


def test_a_profile_runs_on_a_modelled_brick_and_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    normal = rate(capsys, "sqlio-random-read-4", "sim:msr-2003-wd-hardware-mirror")
    assert normal == pytest.approx(138, rel=0.1)  # MSR TR-2003-70, table 1
    rebuilding = rate(capsys, "sqlio-random-read-4", "sim:msr-2003-wd-hardware-mirror", "--condition", "rebuilding")
    assert rebuilding < normal / 2
    with Store() as store:
        infos = store.runs()
        assert [info.condition for info in infos] == ["normal", "rebuilding"]
        assert infos[0].engine["engine"] == "sim"
        # What a figure rests on is kept with it.
        assert sorted(infos[0].options["bricks"]) == [
            "arrays/msr-2003-wd-hardware-mirror",
            "controllers/3ware-8506-8",
            "drives/wd2500jd",
        ]


def test_an_answer_of_a_model_says_how_far_off_such_models_are(capsys: pytest.CaptureFixture[str]) -> None:
    def belief(*arguments: str) -> str:
        capsys.readouterr()
        assert main(["run", "random-4k-qd32", *arguments, "--set", "duration=1s"]) == 0
        return " ".join(capsys.readouterr().out.split())

    disks = spread_of("rotating")
    assert disks is not None
    said = belief("sim:wd2500jd")
    assert (
        f"Nine of ten published figures of disks lie within {disks.words} of models; of 20 figures from smaller "
        "sources, only 13 lie within the factor that all other sources give (docs/truth.md)." in said
    )
    assert "Durable writes" not in said
    volumes = spread_of("cloud")
    assert volumes is not None
    said = belief("sim:gp3")
    assert f"Nine of ten published figures of volumes lie within {volumes.words} of models; " in said
    assert "; nine of ten figures above a limit exceed it by at most " in said
    durable = belief(
        "sim:wd-blue-3d-1000", *("--set", "operations={ write = 100 }"), *("--set", "sync=dsync"), *("--set", "depth=1")
    )
    assert "Durable writes of flash: " in durable


def test_a_brick_is_changed_by_key_in_either_place(capsys: pytest.CaptureFixture[str]) -> None:
    by_option = rate(capsys, "sqlio-random-read-4", "sim:terraserver-2003", "--set", "members=4", "--set", "depth=16")
    by_name = rate(capsys, "sqlio-random-read-4", "sim:terraserver-2003,members=4", "--set", "depth=16")
    assert by_option == by_name


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["sim:nothing"], "no such brick"),
        (["sim:wd2500jd", "--condition", "degraded"], "without redundancy"),
        (["sim:wd2500jd", "--condition", "sleepy"], "sleepy"),
        (["sim:wd2500jd", "--set", "members=many"], "members=many: a whole number"),
        (["sim:terraserver-2003", "--set", "fail_at=-1s"], "fail_at=-1s: a time after the run's begin"),
        (["sim:terraserver-2003,fail_at=-1s"], "fail_at=-1s: a time after the run's begin"),
        (["sim:terraserver-2003", "--set", "fail_member=a"], "fail_member=a: the number of a member"),
        (["sim:terraserver-2003", "--set", "spares=-1"], "spares=-1: a whole number from 0"),
        (["sim:wd2500jd", "--set", "drive.rpm=fast"], "drive.rpm=fast: a whole number from 0 is needed"),
        (["sim:wd2500jd", "--set", "drive.rpn=1"], "drive.rpn=1: no such key; did you mean `rpm`?"),
        (["sim:wd2500jd", "--set", "controller.NOSUCH=1"], "controller.NOSUCH: this brick has no controller"),
        (
            ["sim:terraserver-2003", "--set", "controller.NOSUCH=1"],
            "`brickyard bricks show terraserver-2003` has its keys",
        ),
        (["sim:wd2500jd", "--set", "depth=-1"], "--set depth=-1: a whole number from 0 is needed"),
        (
            ["sim:terraserver-2003", "--set", "memebrs=4"],
            "--set memebrs=4: not a key of a profile or of a brick; did you mean members?",
        ),
        (["sim:terraserver-2003", "--set", "contrller.ports=4"], "did you mean controller.ports?"),
        (["sim:terraserver-2003", "--set", "dept=4"], "did you mean `depth`?"),
        (["sim:gp3", "--condition", "write-cache-off"], "no write cache that could be switched"),
        (["sim:nvme-tlc-3840", "--condition", "write-cache-off"], "protected against power loss"),
        (
            ["sim:overland-2007-sata", "--condition", "write-cache-off"],
            "keeps the write caches of its drives off already",
        ),
        (["sim:overland-2007-sas", "--condition", "write-cache-on"], "keeps the write caches of its drives off"),
        (["/dev/null", "--condition", "degraded"], "neither a file nor a block device"),
    ],
)
def test_mistakes_are_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], cause: str) -> None:
    assert main(["run", "sqlio-random-read-4", *arguments]) == 2
    said = capsys.readouterr().err.strip()
    assert cause in said
    assert len(said.splitlines()) == 1


def test_a_fault_in_a_file_of_ones_own_is_told_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = 'title = "own"\ndrive = "wd2500jd"\nlevel = "jbod"\nmembers = 1\n'
    for wrong, said in (
        (text.replace("= 1", '= "many"'), 'line 4: members: "many" was given; a whole number from 0 is needed'),
        (text.replace("level", "levle"), "line 3: levle: no such key; did you mean `level`?"),
    ):
        Path("bad.toml").write_text(wrong)
        assert main(["run", "sqlio-random-read-4", "sim:./bad.toml"]) == 2
        assert capsys.readouterr().err.strip().endswith(f"./bad.toml: {said}")
    Path("load.toml").write_text('[[phase]]\nduration = 1\n[[phase.stream]]\nrequest = "8KiB"\ndepth = -3\n')
    assert main(["run", "./load.toml", "sim:wd2500jd", "--set", "duration=2s"]) == 2
    said = "load.toml: line 5: depth: -3 was given; a whole number from 0 is needed"
    assert capsys.readouterr().err.strip() == f"brickyard: {said}"


def test_write_caches_of_modelled_drives_are_a_condition(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {}
    for condition in ("write-cache-on", "write_cache_off"):
        command = ("run", "sqlio-random-write-4", "sim:msr-2003-maxtor", "--set", "duration=9s")
        document = answer(capsys, *command, "--condition", condition)
        assert document["condition"] == condition.replace("-", "_")
        rows = document["totals"]
        assert isinstance(rows, list)
        rates[condition] = rows[0]["iops"]
    assert rates["write_cache_off"] < 0.7 * rates["write-cache-on"], "writes that wait for the medium are slower"


def test_a_failure_that_comes_after_the_end_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    run = (
        "run",
        "sqlio-random-read-4",
        "sim:msr-2003-wd-hardware-mirror",
        "--set",
        "duration=5s",
        "--set",
        "warmup=0s",
    )
    told = answer(capsys, *run, "--set", 'fail_at=["2s", "90s"]')["warnings"]
    assert isinstance(told, list)
    (late,) = [item["text"] for item in told if item["id"] == "never_failed"]
    assert "The measured time ended at 5 s, so no figure includes the failure of members at 90 s." in late
    # A failure at the very end comes while the last requests are waited for.
    told = answer(capsys, *run, "--set", "fail_at=5s")["warnings"]
    assert isinstance(told, list)
    (late,) = [item["text"] for item in told if item["id"] == "never_failed"]
    assert "no figure includes the failure of members at 5 s" in late
    told = answer(capsys, *run, "--set", "fail_at=2s")["warnings"]
    assert isinstance(told, list)
    assert not [item for item in told if item["id"] == "never_failed"]


def test_a_power_cut_and_idle_options_are_told_as_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", "sqlio-random-write-4", "sim:terraserver-2003", "--set", "duration=5s"]
    assert (
        main([*run, "--set", "power_cut_at=2s", "--size", "1GiB", "--engine", "psync", "--rebuild-rate", "9MiB"]) == 0
    )
    told = capsys.readouterr()
    said = " ".join((told.out + told.err).split())
    assert "They failed because they were in flight at the power cut" in said
    assert "more members failed" not in said
    for option in ("--size", 'engine = "psync"', "--rebuild-rate"):
        assert f"{option} has no effect" in said
    late = answer(capsys, *run, "--set", "power_cut_at=90s")["warnings"]
    assert isinstance(late, list)
    assert any("the power cut that was to come at 90 s did not" in item["text"] for item in late)


def test_a_power_cut_names_the_writes_that_it_took(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cut = ["sim:msr-2003-wd-software-mirror", "--set", "duration=5s", "--set", "power_cut_at=2s"]
    assert main(["run", "sqlio-random-write-4", *cut]) == 0
    told = capsys.readouterr().out
    said = " ".join(told.split())
    found = re.search(
        r"the power failed at 2 s\. (\d+) acknowledged writes were lost, the oldest ([\d.]+ m?s) after", said
    )
    assert found is not None
    # As many as each drive's cache takes, and perhaps one that the arm was at; every copy lies in both drives.
    assert 14 <= int(found[1]) <= 36
    assert "None of them had been flushed or requested as durable. 4 requests in flight failed." in said
    assert f"Acknowledged writes lost at 2 s (the first 8 of {found[1]})" in said
    assert main(["report", "-o", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "Power cuts" in page
    assert "Acknowledged writes lost at 2 s" in page
    with Store() as store:
        (event,) = events_of(store.record(store.runs()[-1].id), "power_cut")
    ages = [write["age_ns"] for write in event["oldest_lost"]]
    assert (event["lost_writes"], event["lost_promised"]) == (int(found[1]), 0)
    assert ages == sorted(ages, reverse=True)
    assert 0 < ages[0] < 2_000_000_000
    assert all(write["bytes"] == 8192 and write["offset_bytes"] % 8192 == 0 for write in event["oldest_lost"])
    # Without the drives' caches nothing is promised that is not kept.
    assert main(["run", "sqlio-random-write-4", *cut, "--set", "write_cache=false"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "the power failed at 2 s. No acknowledged write was lost. 4 requests in flight failed." in said


def test_the_caches_of_a_modelled_brick_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    """The words of the run's header, and the warning where a power cut would take acknowledged writes."""
    for target, words, is_volatile in (
        ("sim:terraserver-2003", "drives: 8 MiB each, write cache on", True),
        ("sim:nvme-tlc-3840", "write cache on, protected against power loss", False),
        ("sim:overland-2007-sas", "controller: 256 MiB write-back, with a battery", False),
    ):
        assert main(["run", "sqlio-random-write-4", target, "--set", "duration=5s"]) == 0
        told = capsys.readouterr()
        said = " ".join((told.out + told.err).split())
        assert words in said
        assert ("may acknowledge a write before it is safe" in said) == is_volatile


def test_real_and_modelled_targets_do_not_mix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "sqlio-random-read-4", "sim:wd2500jd", "/dev/null"]) == 2
    assert "different clocks" in capsys.readouterr().err


def test_bricks_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    listed = answer(capsys, "bricks")["bricks"]
    assert isinstance(listed, list)
    by_name = {item["name"]: item for item in listed}
    assert by_name["terraserver-2003"]["members"] == 16
    assert {"gp3", "io2", "nearline-20tb", "nvme-tlc-3840", "iodrive-160-slc"} <= set(by_name)
    capsys.readouterr()
    assert main(["bricks", "show", "terraserver-2003"]) == 0
    shown = capsys.readouterr().out
    assert "# drives/wd2500jd" in shown
    assert 'rpm = "data sheet: WD' in shown


BASES = ("data sheet", "review", "own report", "measured", "derived", "fitted", "from memory")


def test_every_value_of_a_brick_has_its_basis() -> None:
    for place, text in bricks.texts().items():
        table = tomllib.loads(text)
        if place.startswith("arrays/"):
            assert table["source"]
            continue
        values = set(table) - {"title", "source", "about", "kind", "basis"}
        assert values == set(table["basis"])
        assert all(basis.startswith(BASES) for basis in table["basis"].values())
        assert not any("://" in basis for basis in table["basis"].values())


def test_a_value_of_a_part_is_changed_by_set(capsys: pytest.CaptureFixture[str]) -> None:
    shipped = rate(capsys, "sqlio-random-read-1", "sim:wd2500jd")
    slow = rate(capsys, "sqlio-random-read-1", "sim:wd2500jd", "--set", "drive.rpm=5400")
    # Half a revolution takes 5.56 ms instead of 4.17 ms.
    assert 1e3 / slow - 1e3 / shipped == pytest.approx(1.39, abs=0.15)


def test_a_modelled_brick_is_characterized(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["characterize", "sim:barracuda-es-750", "--quick", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["outcome"] == "done"
    assert "duration: about" in told.err.splitlines()[0]
    assert "of this computer" in told.err.splitlines()[0]
    # The newest run is a cell, which says which one it is, and where the answer of all is.
    assert main(["show", "latest"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("run 48 alone; `brickyard report s1` is about all runs of its study")
    assert "Run 48, Characterization: random write, 8 KiB on sim:barracuda-es-750: write " in " ".join(shown.split())
    assert main(["characterize", "sim:barracuda-es-750", "--quick", "--set", "request=8KiB"]) == 2
    assert "each cell sets request itself" in capsys.readouterr().err


def test_the_published_tables_are_repeated_with_pictures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page_of_errors = tmp_path / "truth.md"
    document = answer(capsys, "study", "reference", "-o", str(tmp_path), "--truth", str(page_of_errors))
    tables = document["tables"]
    ranked = document["rankings"]
    assert isinstance(tables, list)
    assert isinstance(ranked, dict)
    medians = {item["table"]: item["median_error_percent"] for item in tables}
    assert medians["MSR 2003, appendix"] <= 8
    assert all(median <= 10 for name, median in medians.items() if name.startswith("MSR") and "rebuild" not in name)
    # Drives without power-loss protection differ by a factor of 20 in durable writes, more than their sheets say.
    otherwise = [pair for pair in ranked["disagreements"] if "durable writes" not in pair["higher"]]
    assert len(otherwise) <= 0.02 * ranked["pairs"]
    assert len(ranked["disagreements"]) <= 0.06 * ranked["pairs"]
    errors = page_of_errors.read_text("utf-8")
    assert all(f"| {item['table']} |" in errors for item in tables)
    shipped = Path(__file__).parents[2] / "docs" / "truth.md"
    assert errors == shipped.read_text("utf-8"), "brickyard study reference --truth docs/truth.md writes it anew"
    by_table = {item["table"]: {cell["label"]: cell["simulated"] for cell in item["cells"]} for item in tables}
    cheap, dear = by_table["MSR 2003, HighPoint"], by_table["MSR 2003, appendix"]
    # What the study buys by: ahead at random I/O, behind at streams from the third disk on, writes fall with disks.
    for disks in (1, 2, 3, 4):
        assert all(cheap[f"random {o} {disks} disks"] > dear[f"random {o} {disks} disks"] for o in ("read", "write"))
    for disks in (3, 4):
        for operation in ("read", "write"):
            label = f"sequential {operation} {disks} disks"
            assert cheap[label] * 64 < dear[label] * 256, label
    writes = [cheap[f"sequential write {disks} disks"] for disks in (2, 3, 4)]
    assert writes == sorted(writes, reverse=True)
    drives = by_table["Overland 2007, 500 and 750 GB"]
    for request in (512, 4096, 8192, 16_384, 65_536, 131_072):
        faster = drives[f"random read {request} B 500 GB"] / drives[f"random read {request} B 750 GB"]
        assert 1.1 <= faster <= 1.25, request
    cells = [cell for item in tables for cell in item["cells"]]
    assert all(cell["simulated"] > 0 for cell in cells)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert document["report"] == str(tmp_path / "report.html")
    for item in tables:
        assert f"<h2>{escape(item['table'])}</h2>" in page
    assert page.count("<tr><td ") == len(cells) + len(ranked["disagreements"])
    assert page.count("<svg ") == 2 + len(tables)
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    pictures = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert {"scatter.png", "scatter.svg", "errors.png", "errors.svg"} <= pictures
    assert len(pictures) == 2 * (2 + len(tables))
    assert main(["study", "nothing"]) == 2


def test_rankings_count_only_clear_differences() -> None:
    def outcome(published: float, simulated: float) -> Outcome:
        cell = structs.replace(published_cells()[0], published=published, group="g", unit="u")
        return Outcome(cell, (simulated,), None)

    found = rankings([outcome(100, 90), outcome(109, 80), outcome(200, 85)])
    assert found.pairs == 2
    assert [(high.simulated, low.simulated) for high, low in found.disagreements] == [(85, 90)]


def assert_marked(pictures: Path, changed: list[Any]) -> None:
    """Pictures over time have the clock of the tables, and mark each change where the table has it."""
    for picture in ("throughput-over-time", "latency-over-time"):
        drawn = (pictures / f"{picture}.svg").read_text("utf-8")
        assert "time since the run began in seconds" in drawn
        marks = re.findall(r'aria-label="time_s: ([0-9.]+); name: ([^"]+)"', drawn)
        assert [name for _, name in marks] == [span["condition"] for span in changed]
        assert [float(at_s) for at_s, _ in marks] == pytest.approx([span["start_ns"] / 1e9 for span in changed])


def test_a_member_fails_during_a_run_and_the_table_shows_before_rebuilding_and_after(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    own = tmp_path / "brickyard" / "bricks"
    own.mkdir(parents=True)
    text = bricks.texts()["drives/wd2500jd"].replace("250_059_350_016", "33_554_432")
    (own / "small.toml").write_text(text, "utf-8")
    profile = tmp_path / "load.toml"
    profile.write_text(
        'title = "Reads"\n[[phase]]\nduration = "120s"\n[[phase.stream]]\nrequest = "8KiB"\naddress = "random"\n'
        "depth = 4\n",
        "utf-8",
    )
    target = ("run", str(profile), "sim:msr-2003-wd-hardware-mirror", "--set", "drive=small")
    document = answer(capsys, *target, "--set", "fail_at=20s", "--set", "spares=1")
    spans = document["conditions"]
    assert isinstance(spans, list)
    assert [span["condition"] for span in spans] == ["normal", "rebuilding", "normal again"]
    assert (spans[0]["start_ns"], spans[1]["start_ns"]) == (0, 20_000_000_000)
    assert all(span["errors"] == 0 for span in spans)
    before, during, after = (span["iops"] for span in spans)
    assert during < 0.7 * before
    assert after == pytest.approx(before, rel=0.05)
    assert spans[1]["mean_response_ns"] > 1.4 * spans[0]["mean_response_ns"]
    background: Any = document["background"]
    (done,) = background
    assert done["done_bytes"] == done["whole_bytes"]
    assert done["spent_ns"] == spans[1]["end_ns"] - spans[1]["start_ns"]
    assert done["whole_s"] == pytest.approx(done["spent_ns"] / 1e9)
    assert main(["show"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "mean over the conditions normal, rebuilding and normal again: read" in shown
    assert main(["runs"]) == 0
    assert "run 1: mean over the conditions normal, rebuilding" in capsys.readouterr().out
    assert "the rebuild did 100 % of a member in" in shown
    assert main(["report", "-o", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page" / "report.html").read_text("utf-8")
    assert "Rebuilds and the like" in page
    assert page.index("rebuilding and normal again: read") < page.index("Conditions (response times)")
    assert "a whole member takes" in page
    assert_marked(tmp_path / "page" / "pictures", spans[1:])
    # Both arms gone: whatever is asked for from then on fails, and is counted as that.
    lost = answer(capsys, *target, "--set", 'fail_at=["20s","30s"]')
    failed = lost["conditions"]
    assert isinstance(failed, list)
    assert [span["condition"] for span in failed] == ["normal", "degraded", "failed"]
    assert failed[1]["errors"] == 0
    assert failed[2]["iops"] < 0.1  # what the drives had taken before they failed
    assert failed[2]["errors"] > 100
    rows = lost["totals"]
    assert isinstance(rows, list)
    assert lost["errors_by_errno"] == {"EIO": sum(row["errors"] for row in rows)}
    told = lost["warnings"]
    assert isinstance(told, list)
    (remedy,) = [item["remedy"] for item in told if item["id"] == "errors"]
    assert "fail_at" in remedy
    assert "kernel" not in remedy, "a model has none"


def test_conditions_of_several_targets_name_theirs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    several = [f"sim:msr-2003-wd-hardware-mirror,fail_at={at}s" for at in (1, 2)]
    words = ["run", "random-4k-qd1", *several, "--each", "--set", "duration=3s", "--set", "warmup=0s"]
    assert main([*words, "--store", str(tmp_path / "db")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, at in zip(several, ("1.0 s", "2.0 s"), strict=True):
        assert re.search(f"Conditions of {name} \\(response times\\) .*? degraded {at} ", shown)


@pytest.mark.parametrize("command", [["bricks"], ["advise", "parts"]])
def test_lists_fit_a_terminal_of_80_columns(command: list[str]) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    program = [sys.executable, "-m", "brickyard", *command]
    shown = bytearray()
    with subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=theirs, env=environment) as process:
        os.close(theirs)
        try:
            while select.select([ours], [], [], 60)[0] and (more := os.read(ours, 65536)):
                shown += more
        except OSError:  # how a terminal ends
            pass
        finally:
            os.close(ours)
            process.kill()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()
    assert len(lines) > 20
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line]

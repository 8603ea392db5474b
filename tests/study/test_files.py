"""Programs over files, as their user meets them: one command, the tool's own table, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brickyard import analysis, profiles
from brickyard.analysis.figures.tool_cells import tool_table
from brickyard.cli import main
from brickyard.schema import plan_document
from brickyard.store import Store
from support import OWN_MOUNTS, add_run, cell, interval, phase_end, plan, stream

KIB, MIB, MS = 1 << 10, 1 << 20, 1_000_000
SECOND = 1_000_000_000


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "place"
    made.mkdir()
    return made


@pytest.fixture
def told(tmp_path: Path, capsys: Any) -> Callable[..., Any]:
    """Runs a verb and gives its document."""

    def run(*words: str, expect: int = 0) -> Any:
        assert main([*words, "--json", "--store", str(tmp_path / "store.db")]) == expect
        return json.loads(capsys.readouterr().out)

    return run


def figures(document: Any) -> dict[tuple[str, str], Any]:
    """By group and name; of two that are called alike in a group, the second is that of deletions."""
    found: dict[tuple[str, str], Any] = {}
    for figure in document["table"]["figures"]:
        key = figure["group"], figure["name"]
        found[(*key[:1], f"{key[1]} (deleted)") if key in found else key] = figure
    return found


def requests(document: Any, phase: str, operation: str) -> int:
    rows = [t for t in document["totals"] if (t["phase"], t["operation"]) == (phase, operation)]
    return sum(int(row["requests"]) for row in rows)


FULL = """
set -e
mount -t tmpfs -o size=2m tmpfs "$1"
exec "$2" -m brickyard run postmark "$1" --set files=2000 --store "$3" $4
"""


@pytest.mark.parametrize("form", ["--json", ""])
def test_a_full_file_system_is_one_line_and_counts_that_add_up(place: Path, tmp_path: Path, form: str) -> None:
    """In a mount namespace of its own, so that nothing stays mounted whatever happens."""
    words = [*OWN_MOUNTS, "bash", "-c", FULL, "full", str(place), sys.executable, str(tmp_path / "s.db"), form]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    if not form:
        assert ended.stdout.count("The file system was full: ") == 1
        assert "left incomplete" in ended.stdout
        return
    document = json.loads(ended.stdout)
    (full,) = [item for item in document["warnings"] if item["id"] in ("no_room", "errors")]
    assert full["text"].startswith("The file system was full: ")
    count = {(f["group"], f["name"]): f["count"] for f in reversed(document["table"]["figures"])}
    assert count["files", "left incomplete"] > 0
    assert count["files", "created"] + count["files", "left incomplete"] == count["files", "deleted"]
    assert count["files", "deleted"] == requests(document, "transactions", "unlink") + requests(
        document, "delete", "unlink"
    )
    halves = ("files", "read"), ("files", "appended"), ("files", "not read in full"), ("files", "not appended in full")
    assert sum(count.get(half, 0) for half in halves) == count["time", "transactions"] == 500
    rate = next(f["per_s"] for f in document["table"]["figures"] if f["name"] == "transactions")
    assert rate is None, "which of the transactions failed is not known"
    assert next(f["per_s"] for f in document["table"]["figures"] if f["name"] == "created") is None


NO_INODES = """
set -e
mount -t tmpfs -o size=64m,nr_inodes=200 tmpfs "$1"
exec "$2" -m brickyard run mdtest "$1" --set files=2000 --set directories=2 --store "$3" $4
"""


@pytest.mark.parametrize("form", ["--json", ""])
def test_operations_that_failed_in_part_have_no_rate(place: Path, tmp_path: Path, form: str) -> None:
    words = [*OWN_MOUNTS, "bash", "-c", NO_INODES, "full", str(place), sys.executable, str(tmp_path / "s.db"), form]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    if not form:
        assert "operations of which some failed have no rate" in " ".join(ended.stdout.split())
        assert "The 0 B" not in ended.stdout
        assert "Only metadata (names) were written" in ended.stdout
        return
    figures = {(f["group"], f["name"]): f for f in json.loads(ended.stdout)["table"]["figures"]}
    assert 0 < figures["files", "creation"]["count"] < 2000
    assert figures["files", "creation"]["per_s"] is None
    assert figures["directories", "creation"]["per_s"] > 0


def test_only_requests_have_iops(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "postmark", str(place), "--store", str(tmp_path / "s.db"), "--set", "files=10"]) == 0
    told = capsys.readouterr().out
    tables = dict(table.strip().split("\n", 1) for table in told.split("\n\n") if "operation" in table)
    tables = {title.split(":")[0].strip(): rows for title, rows in tables.items()}
    by_title = {title: {line.split()[3] for line in rows.split("\n")[1:]} for title, rows in tables.items()}
    assert by_title["Throughput"] == {"read", "write", "append", "all"}
    assert by_title["Whole files"] == {"create_file", "read_file", "append_file"}
    assert by_title["Metadata"] >= {"create", "open", "close", "unlink"}
    assert [title for title, rows in tables.items() if "IOPS" in rows] == ["Throughput"]


def test_postmark_reports_as_postmark_does(place: Path, told: Callable[..., Any]) -> None:
    document = told("run", "postmark", str(place))
    assert document["outcome"] == "done"
    assert not list(place.iterdir())
    found = figures(document)
    created, deleted = found["files", "created"]["count"], found["files", "deleted"]["count"]
    assert created == deleted == 500 + found["files", "mixed with transactions"]["count"]
    assert found["files", "creation alone"]["count"] == 500
    mixed = found["files", "mixed with transactions"]["count"]
    removed = found["files", "mixed with transactions (deleted)"]["count"]
    assert mixed + removed == found["time", "transactions"]["count"] == 500
    assert found["files", "deletion alone"]["count"] == 500 + mixed - removed
    assert found["files", "read"]["count"] == requests(document, "transactions", "read_file")
    moved = sum(t["bytes"] for t in document["totals"] if t["operation"] in ("write", "append"))
    assert found["data", "written"]["count"] == moved
    alone = found["files", "creation alone"]
    (row,) = (t for t in document["totals"] if (t["phase"], t["operation"]) == ("create", "create"))
    assert alone["per_s"] == pytest.approx(500 / (row["rated_ns"] / 1e9))


def test_the_same_seed_makes_the_same_files(place: Path, told: Callable[..., Any]) -> None:
    sums = [
        [(t["phase"], t["operation"], t["requests"], t["bytes"]) for t in told("run", "postmark", str(place))["totals"]]
        for _ in range(2)
    ]
    assert sums[0] == sums[1]
    other = told("run", "postmark", str(place), "--set", "seed=43")["totals"]
    assert [(t["phase"], t["operation"], t["requests"], t["bytes"]) for t in other] != sums[0]


@pytest.mark.parametrize("name", ["postmark-mail", "postmark-news", "postmark-commerce"])
def test_presets_run_with_several_workers(name: str, place: Path, told: Callable[..., Any]) -> None:
    document = told("run", name, str(place), "--set", "files=60", "--set", "transactions=80")
    workers = {"postmark-mail": 4, "postmark-news": 2, "postmark-commerce": 8}[name]
    assert requests(document, "create", "create_file") == 60 * workers
    assert requests(document, "create", "flush") == (60 * workers if name == "postmark-mail" else 0)
    appended = requests(document, "transactions", "append_file")
    assert (appended == 0) == (name == "postmark-news")
    assert document["errors_by_errno"] == {}
    assert not list(place.iterdir())


def test_bonnie_has_six_figures_in_its_order(place: Path, told: Callable[..., Any], capsys: Any) -> None:
    document = told("run", "bonnie", str(place), "--size", "4MiB")
    order = [(f["group"], f["name"], f["unit"]) for f in document["table"]["figures"]]
    assert order == [
        ("output", "per char", "K/s"),
        ("output", "block", "K/s"),
        ("output", "rewrite", "K/s"),
        ("input", "per char", "K/s"),
        ("input", "block", "K/s"),
        ("random", "seeks", "/s"),
    ]
    counts = [f["count"] for f in document["table"]["figures"]]
    assert counts == [512] * 5 + [3 * 1334]
    assert all(f["per_s"] > 0 for f in document["table"]["figures"])
    (rewrite,) = (t for t in document["totals"] if (t["phase"], t["operation"]) == ("rewrite", "write"))
    # A rewritten block counts once, though it is read and written.
    assert document["table"]["figures"][2]["per_s"] == pytest.approx(4096 / (rewrite["rated_ns"] / 1e9))
    assert {t["depth_max"] for t in document["totals"] if t["phase"] == "seeks"} <= {1, 2, 3}


def test_bonnies_file_is_twice_the_memory_unless_said_otherwise(capsys: Any) -> None:
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    wanted = 2 * int(memory.split()[1]) * KIB
    code = main(["run", "bonnie", "--dry-run", "--json"])
    said = capsys.readouterr()
    if code == 0:
        assert json.loads(said.out)["plan"]["phase"][0]["stream"][0]["program"]["size"] == wanted
    else:
        assert "does not fit" in said.err
        assert "--size" in said.err


def test_metadata_is_counted_apart(place: Path, told: Callable[..., Any], capsys: Any) -> None:
    document = told("run", "mdtest", str(place), "--set", "files=200", "--set", "directories=100")
    assert [(f["group"], f["name"], f["count"]) for f in document["table"]["figures"]] == [
        ("directories", "creation", 200),
        ("directories", "stat", 200),
        ("directories", "removal", 200),
        ("files", "creation", 400),
        ("files", "stat", 400),
        ("files", "removal", 400),
    ]
    assert {t["operation"] for t in document["totals"]} == {
        "mkdir", "stat", "rmdir", "create", "close", "create_file", "unlink"
    }  # fmt: skip
    assert not list(place.iterdir())


def test_a_rate_never_mixes_data_with_names(tmp_path: Path) -> None:
    files = stream(program={"kind": "create_files", "files": 10}, operations={"read": 100.0})
    with Store(tmp_path / "s.db") as store:
        cells = [
            cell([100_000] * 40, operation="write"),
            cell([50_000] * 10, operation="create", request_bytes=0),
            cell([400_000] * 10, operation="create_file", request_bytes=0),
        ]
        run = add_run(store, [interval(0, SECOND, *cells), phase_end()], plan_=plan(files))
        (rate,) = analysis.phase_rates(store.record(run))
    assert (rate.iops, rate.metadata_per_s) == (40.0, 10.0)
    assert rate.bytes_per_s == 40 * 4096


def test_iowork_is_shown_in_the_studys_order(tmp_path: Path, told: Callable[..., Any]) -> None:
    document = told("run", "iowork", str(tmp_path / "brick"), "--size", "8MiB")
    names = [figure["name"] for figure in document["table"]["figures"]]
    assert names == ["sequential write", "sequential read", "random write", "random read"]
    assert [figure["count"] for figure in document["table"]["figures"]] == [1024, 1024, 102, 102]


def test_without_a_target_a_directory_is_made_and_removed(
    tmp_path: Path, told: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert told("run", "postmark")["outcome"] == "done"
    assert not list((tmp_path / "cache" / "brickyard").iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "postmark", "sim:terraserver-2003"], "works on files"),
        (["run", "postmark", "--engine", "psync"], "works on files"),
        (["run", "postmark", "--size", "1GiB"], "no large file"),
        (["run", "postmark", "--set", "filez=3"], "did you mean `files`"),
        (["run", "postmark", "--set", "files=0"], "files is 0"),
        (["run", "bonnie", "--size", "0"], "size is 0; write_file needs a file of 1 byte or more"),
        (["run", "postmark", "--set", "transactions.workers=2"], "use the same number"),
        (["run", "postmark", "--set", "bias_read=11"], "must be -1 to 10"),
        (["run", "postmark", "--set", "depth=4"], "use more workers"),
        (["run", "bonnie", "--size", "8 elephants"], "--size"),
        (["run", "postmark", "/no/such/place"], "no such directory"),
        (["load-curve", "postmark"], "program over files"),
        (["crosscheck", "postmark", "/tmp/x"], "program over files"),
    ],
)
def test_what_does_not_go_is_said_in_one_line(words: list[str], said: str, capsys: Any) -> None:
    assert main(words) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line


def test_every_shipped_program_is_valid_and_says_its_source() -> None:
    for name in ("postmark", "postmark-mail", "postmark-news", "postmark-commerce", "bonnie", "mdtest"):
        found = plan_document(profiles.validate(profiles.read(name), []))
        assert found["source"]
        assert found["about"]
        assert found["io"] == "buffered"


def begin(place: Path, tmp_path: Path, *words: str) -> subprocess.Popen[bytes]:
    """A run in a process of its own that has begun to make files."""
    command = [sys.executable, "-m", "brickyard", "run", "postmark", str(place), "--store", str(tmp_path / "s.db")]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([*command, "--set", "files=3000000", *words], stdout=quiet, stderr=quiet)
    until = time.monotonic() + 30
    while not list(place.glob("brickyard-files-*/d1/1*")):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    return process


def test_ctrl_c_takes_the_files_away_and_keeps_the_figures(place: Path, tmp_path: Path) -> None:
    process = begin(place, tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert not list(place.iterdir())
    with Store(tmp_path / "s.db") as store:
        record = store.record(1)
    assert record.info.outcome == "interrupted"
    assert sum(i.requests for i in record.intervals if i.operation == "create") > 0


def test_what_a_killed_run_left_is_known_and_named_by_the_next(place: Path, tmp_path: Path, capsys: Any) -> None:
    (place / "mine").write_text("mine")
    process = begin(place, tmp_path)
    process.kill()
    process.wait(30)
    (left,) = place.glob("brickyard-files-*")
    assert main(["run", "postmark", str(place), "--store", str(tmp_path / "s.db"), "--set", "files=10"]) == 0
    assert f"removed {left} (" in capsys.readouterr().err
    assert [path.name for path in place.iterdir()] == ["mine"]


def test_a_table_is_shown_only_where_something_was_measured(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        asked = {**plan(stream(program={"kind": "delete_files"})), "table": "mdtest"}
        record = store.record(add_run(store, [], plan_=asked, outcome="interrupted"))
    assert tool_table(record) is None


def test_the_report_has_the_tools_table(place: Path, tmp_path: Path, capsys: Any) -> None:
    store = str(tmp_path / "s.db")
    assert main(["run", "bonnie", str(place), "--size", "2MiB", "--store", store]) == 0
    shown = capsys.readouterr().out
    assert "In Bonnie's order" in shown
    assert "per char K/s" in shown
    assert main(["report", "latest", "--store", store, "-o", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert "In Bonnie&#39;s order" in page
    assert "Metadata" in page
    assert os.listdir(tmp_path / "report" / "pictures")


def test_too_few_descriptors_are_no_fault_of_the_storage(place: Path, tmp_path: Path) -> None:
    words = [
        "bash",
        "-c",
        'ulimit -n 24; exec "$0" "$@"',
        sys.executable,
        "-m",
        "brickyard",
        "run",
        "postmark",
        str(place),
    ]
    words += ["--set", "workers=16", "--store", str(tmp_path / "s.db")]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    if "EMFILE" in ended.stdout:
        assert ended.returncode == 1
        assert "that is a limit of this process, not of the storage: raise it" in ended.stdout + ended.stderr
    else:
        assert ended.returncode != 0
        assert "ulimit -n" in ended.stderr

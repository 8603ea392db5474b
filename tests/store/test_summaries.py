"""What is kept of runs for lists of many: the same as their records say, computed again when it is not."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from brickyard.analysis.figures.cells import OF_LENGTH, OF_LENGTH_WORDS
from brickyard.analysis.figures.difference_words import WITHIN_NOISE
from brickyard.analysis.figures.latency import FEW_EVENTS, FEW_EVENTS_WORDS
from brickyard.analysis.judging.run_figures import FORMULA, RunFigures, run_figures
from brickyard.analysis.studies.characterization import FILLS
from brickyard.cli import main
from brickyard.report.tables import totals_tables
from brickyard.store import Json, Store
from brickyard.store.damage import DamagedRunError
from brickyard.store.heads import read_heads
from brickyard.store.store import LAST_ID
from brickyard.study.running import summaries
from support import MS, SECOND, add_run, cell, interval, phase_end

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "store-2.sql"
TARGET = "/data/a file"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store of version 2: a verified run, two models, PostMark, a loader; without summaries."""
    place = tmp_path / "old.db"
    with closing(sqlite3.connect(place)) as db:
        db.executescript(SAMPLE.read_text())
    return place


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "runs.db"
    with Store(made) as store:
        for number in range(3):
            told = [interval(n * SECOND, (n + 1) * SECOND, cell([MS * (number + 1)] * 50)) for n in range(3)]
            add_run(store, [*told, phase_end()])
    return made


def figures(place: Path, runs: list[int]) -> tuple[dict[int, RunFigures], int, list[int]]:
    """What the summaries give, how many had to be computed, and which runs are damaged."""
    computed: list[int] = []
    damaged: list[DamagedRunError] = []
    with Store(place) as store:
        found = summaries.figures_of_runs(store, runs, damaged.append, computed.append)
    return found, sum(computed), [int(str(error).split()[1].rstrip(":")) for error in damaged]


def iops(capsys: pytest.CaptureFixture[str], place: Path) -> list[float]:
    capsys.readouterr()
    assert main(["history", TARGET, "--store", str(place), "--json"]) == 0
    document: Json = json.loads(capsys.readouterr().out)
    return [point["value"] for item in document["histories"] for point in item["points"]]


def change(place: Path, *statements: str) -> None:
    with closing(sqlite3.connect(place)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute("PRAGMA ignore_check_constraints = 1")
        for statement in statements:
            assert db.execute(statement).rowcount > 0
        db.commit()


def test_summaries_of_every_kind_of_run_are_what_the_records_say(old: Path, tmp_path: Path) -> None:
    result = tmp_path / "fio.json"
    job = ["--name=shop", f"--filename={tmp_path / 'data'}", "--ioengine=psync", "--rw=randread", "--size=1m"]
    subprocess.run(["fio", "--output-format=json+", f"--output={result}", *job], check=True, cwd=tmp_path)
    assert main(["import", str(result), "--store", str(old)]) == 0
    with Store(old) as store:
        runs = [head.id for head in store.heads()]
        of_records = {run: run_figures(store.record(run)) for run in runs}
        assert store.runs([runs[-1]])[0].plan.title == "fio: shop", "as its job"
    assert figures(old, runs) == (of_records, len(runs) - 1, []), "that of the import was kept with it"
    assert figures(old, runs) == (of_records, 0, []), "they were kept"
    assert sum(len(part.values) for made in of_records.values() for part in made.parts) > 30


def test_results_of_one_job_are_one_history_whatever_their_files_are_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each night's `fio-2026-11-28.json` had a history of its own, of one run."""
    place, data = tmp_path / "runs.db", tmp_path / "data"
    job = ["--name=night", f"--filename={data}", "--ioengine=psync", "--rw=randread", "--size=1m"]
    for night in range(2):
        result = tmp_path / f"night-{night}.json"
        subprocess.run(["fio", "--output-format=json", f"--output={result}", *job], check=True, cwd=tmp_path)
        assert main(["import", str(result), "--store", str(place)]) == 0
    other = tmp_path / "other.json"
    subprocess.run(["fio", "--output-format=json", f"--output={other}", *job, "--bs=8k"], check=True, cwd=tmp_path)
    assert main(["import", str(other), "--store", str(place)]) == 0
    capsys.readouterr()
    assert main(["history", str(data), "--store", str(place), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["histories"]
    assert [[point["run"] for point in one["points"]] for one in found] == [[1, 2], [3]]
    assert len({str(one["load"]) for one in found}) == 2


def test_marks_have_one_meaning_each() -> None:
    assert len({FEW_EVENTS, OF_LENGTH, FILLS, WITHIN_NOISE}) == 4


def test_a_run_keeps_its_summary_at_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "runs.db"
    too_much = ["--set", "duration=3s", "--set", 'pace={ loop = "open", rate = 500 }']
    assert main(["run", "mixed-70-30", "sim:msr-2003-maxtor", *too_much, "--store", str(place)]) == 0
    with Store(place) as store:
        of_record = run_figures(store.record(1))
    assert figures(place, [1]) == ({1: of_record}, 0, [])
    assert main(["runs", "--store", str(place)]) == 0
    out = capsys.readouterr().out
    assert "done, overloaded" in out
    assert "overloaded: part of what was due was never sent" in out
    assert main(["show", "1", "--store", str(place)]) == 0
    shown = capsys.readouterr().out
    assert "response ‡" in shown
    assert "service ‡" not in shown
    with Store(place) as store:
        (latency,) = [table for table in totals_tables([store.record(1)]) if table.title == "Latency"]
    assert not any(cell.endswith("*") for row in latency.rows if "response ‡" in row for cell in row)
    for told in (" ".join(shown.split()), latency.note):
        assert OF_LENGTH_WORDS in told
    assert not re.search(r"(response|lateness) ‡.*\*", shown)


def test_figures_of_a_fixed_record_belong_to_this_formula(old: Path) -> None:
    """Where these change, raise FORMULA with them: kept summaries are of the old formula."""
    found, _, _ = figures(old, [2])
    values = {(part.operation, name): value for part in found[2].parts for name, value in part.values.items()}
    assert (FORMULA, {key: round(value, 3) for key, value in values.items()}) == (17, OF_RUN_2)
    (phase,) = found[2].phases
    assert (phase.unit, phase.rate_per_s, phase.response_p99_ns) == ("IOPS", 961.0, OF_RUN_2["write", "response_p99"])


def test_a_list_of_runs_marks_percentiles_of_few_events(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(place) as store:
        told = [interval(n * SECOND, (n + 1) * SECOND, cell([MS] * 500)) for n in range(5)]
        told[2] = interval(2 * SECOND, 3 * SECOND, cell([MS] * 440 + [90 * MS] * 60))
        add_run(store, [*told, phase_end()])
    figures(place, [1, 2, 3, 4])
    assert main(["runs", "--store", str(place)]) == 0
    out = capsys.readouterr().out
    assert re.findall(r"([\d.]+ ms\*?) ", out)[-1] == "90.0 ms*"
    assert out.count(FEW_EVENTS) == 2, "in one row, and in the words of the mark"
    assert FEW_EVENTS_WORDS in out


def test_another_formula_computes_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, computed, _ = figures(place, [1, 2, 3])
    assert computed == 3
    monkeypatch.setattr(summaries, "FORMULA", FORMULA + 1)
    assert figures(place, [1, 2, 3]) == (first, 3, [])
    assert figures(place, [1, 2, 3]) == (first, 0, [])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE run_summary SET body = replace(body, '\"iops\":50.0', '\"iops\":90.0') WHERE run = 2",
        "UPDATE run_summary SET body = '{' WHERE run = 2",
        "UPDATE run_summary SET body = (SELECT body FROM run_summary WHERE run = 1), check_sum = "
        "(SELECT check_sum FROM run_summary WHERE run = 1) WHERE run = 2",
        "DELETE FROM run_summary WHERE run = 2",
    ],
)
def test_a_damaged_summary_is_computed_again(statement: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, _, _ = figures(place, [1, 2, 3])
    assert iops(capsys, place) == [50.0] * 3
    change(place, statement)
    assert figures(place, [1, 2, 3]) == (before, 1, [])
    assert figures(place, [1, 2, 3]) == (before, 0, [])


def test_a_summary_is_not_salvaged_and_a_damaged_record_without_one_is_named(place: Path, tmp_path: Path) -> None:
    figures(place, [1, 2, 3])
    change(place, "UPDATE interval SET histogram = 'HISTnone' WHERE run = 2 AND start_ns = 0")
    new = tmp_path / "new.db"
    assert main(["store", "salvage", "--store", str(place), "-o", str(new)]) == 1
    found, computed, _ = figures(new, [1, 2, 3])
    assert (sorted(found), computed) == ([1, 2, 3], 3)
    change(place, "DELETE FROM run_summary")
    found, _, damaged = figures(place, [1, 2, 3])
    assert (sorted(found), damaged) == ([1, 3], [2])


def test_an_old_store_with_a_damaged_page_opens_as_it_is(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To bring it up to date would read the damaged page."""
    with closing(sqlite3.connect(old)) as db:
        [(page,)] = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'event'").fetchall()
        [(size,)] = db.execute("PRAGMA page_size").fetchall()
    with old.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)
    assert main(["runs", "--store", str(old)]) == 0
    assert main(["store", "check", "--store", str(old), "--json"]) == 1
    with closing(sqlite3.connect(old)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
    capsys.readouterr()


def test_heads_say_of_runs_what_their_records_say(old: Path) -> None:
    places = json.dumps([{"real_path": "/data/a file"}, {"kind": "sim"}])
    change(old, f"UPDATE run SET facts = json_set(facts, '$.targets', json('{places}')) WHERE id = 2")
    with closing(sqlite3.connect(old)) as db:
        as_it_is = read_heads(db, 1, LAST_ID)
    with Store(old) as store:
        heads = store.heads()
        for head, info in zip(heads, store.runs(), strict=True):
            assert {name: getattr(info, name) for name in head.__slots__} == {
                name: getattr(head, name) for name in head.__slots__
            }
        assert heads == as_it_is, "also where a store of version 2 cannot be written"
        assert heads[1].real_paths == ["/data/a file", None]
        assert (store.heads(2, 3), store.newest()) == (heads[1:3], heads[-1])


def test_lists_read_indexes_and_not_the_tables(place: Path) -> None:
    with closing(sqlite3.connect(place)) as db:
        for statement in (
            "SELECT id, created_unix_ns, profile, targets FROM run WHERE id BETWEEN 1 AND 9 ORDER BY id",
            "SELECT run, outcome FROM run_end WHERE run BETWEEN 1 AND 9",
            "SELECT run, real_paths FROM run_place WHERE run BETWEEN 1 AND 9",
            "SELECT run, start_unix_ns FROM run_start WHERE run BETWEEN 1 AND 9",
            "SELECT run, body FROM event WHERE kind = 'condition' AND run BETWEEN 1 AND 9 ORDER BY run, id",
        ):
            plan = " ".join(str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {statement}"))
            assert "INDEX run_" in plan or "INDEX event_condition" in plan or "SEARCH run_place" in plan, plan


OF_RUN_2 = {
    ("write", "iops"): 961.0,
    ("write", "tps"): 961.0,
    ("write", "mib_per_s"): 7.508,
    ("write", "response_mean"): 4156117.324,
    ("write", "response_p50"): 253951.0,
    ("write", "response_p90"): 19660799.0,
    ("write", "response_p99"): 35651583.0,
    ("write", "response_max"): 45355697.0,
    ("write", "service_mean"): 4156117.324,
    ("write", "service_p50"): 253951.0,
    ("write", "service_p90"): 19660799.0,
    ("write", "service_p99"): 35651583.0,
    ("write", "service_max"): 45355697.0,
}

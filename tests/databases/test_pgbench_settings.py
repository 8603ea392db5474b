"""Runs of pgbench with different settings are told apart wherever runs stand in a row."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from brickyard import browsing, cli
from brickyard.analysis.figures.observe import observe
from brickyard.analysis.figures.pivot import Axis, TableSpec
from brickyard.analysis.judging.marks import marks_of
from brickyard.databases.pgbench_plan import read_changes
from brickyard.schema import plan_document
from brickyard.store import Json, RunInfo, Store
from support import MS, SECOND, add_run, cell, interval, phase_end, start_event

DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
CORES = 4


def add(
    store: Store,
    *changes: str,
    settings: dict[str, str] | None = None,
    study: int | None = None,
    labels: Json | None = None,
) -> int:
    """A run as the store of this and of earlier versions has it, of a host with `CORES`."""
    (target,) = start_event()["targets"]
    told = {**target, "settings": list({**DURABLE, **(settings or {})}.items())}
    return add_run(
        store,
        [interval(0, SECOND, cell([MS] * 20, operation="call") | {"bytes": 0}), phase_end(end_ns=SECOND)],
        plan_=plan_document(read_changes("/data/pg", changes).plan()),
        profile="pgbench",
        engine="pgbench",
        facts={"host": {"cpu": {"usable_cores": CORES}}},
        start={"targets": [told]},
        study=study,
        labels=labels,
    )


def info_of(place: Path, *changes: str, settings: dict[str, str] | None = None) -> RunInfo:
    with Store(place / "store.db") as store:
        return store.record(add(store, *changes, settings=settings)).info


@pytest.mark.parametrize(
    ("changes", "called"),
    [
        ([], ""),
        (["scale=10", "transactions=1000", "protocol=prepared", "seed=7", "room=1GiB"], ""),
        (["clients=4", "scale=4"], "scale=4, clients=4"),
        (["clients=8", "duration=2m"], "clients=8, duration=120s"),
        (["rate=300", "transactions=50"], "transactions=50, rate=300"),
        (["rate=0.1"], "rate=0.1"),
        (
            ["script=select-only", "protocol=simple", "checksums=off"],
            "script=select-only, protocol=simple, checksums=off",
        ),
        (["pg.wal_buffers=1MB", "pg.fsync=off"], "pg.fsync=off, pg.wal_buffers=1MB"),
        (["preset=kirkwood-2003"], "preset=kirkwood-2003"),
        (["preset=kirkwood-2003", "pg.autovacuum=on"], "preset=kirkwood-2003, pg.autovacuum=on"),
        (["server=/opt/pg/bin"], "server=/opt/pg/bin"),
    ],
)
def test_a_run_is_called_by_what_is_not_the_default(changes: list[str], called: str, tmp_path: Path) -> None:
    plan = read_changes("/data/pg", changes).plan()
    assert plan.pgbench is not None
    threads = min(CORES, plan.pgbench.clients)
    assert info_of(tmp_path, *changes, f"threads={threads}").called == called


def test_threads_are_named_where_they_are_not_one_a_core(tmp_path: Path) -> None:
    assert info_of(tmp_path, "clients=8", "threads=4").called == "clients=8"
    assert info_of(tmp_path, "clients=8", "threads=2").called == "clients=8, threads=2"


def test_scripts_of_one_name_are_told_apart_by_their_content(tmp_path: Path) -> None:
    script = tmp_path / "own.sql"
    called = []
    for text in ("SELECT 1;\n", "SELECT 2;\n", "SELECT 1;\n"):
        script.write_text(text)
        called.append(info_of(tmp_path, f"script={script}").called)
    assert called[0] == called[2] != called[1]
    assert re.fullmatch(r"script=own\.sql \(SHA-256 [0-9a-f]{12}\)", called[0])


@pytest.mark.parametrize(
    ("settings", "marks"),
    [
        ({}, []),
        ({"fsync": "off"}, ["not durable"]),
        ({"synchronous_commit": "off"}, ["not durable"]),
        ({"full_page_writes": "off"}, []),  # torn pages, but each commit was on the medium
        ({"synchronous_commit": "local"}, []),
    ],
)
def test_a_run_whose_commits_were_not_durable_is_marked(
    settings: dict[str, str], marks: list[str], tmp_path: Path
) -> None:
    assert marks_of(info_of(tmp_path, settings=settings)) == marks


def test_lists_and_exports_name_the_settings_and_the_mark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(tmp_path / "store.db") as store:
        add(store, "scale=4")
        add(store, "scale=4", "pg.fsync=off", settings={"fsync": "off"})
        add(store, "scale=4", "rate=300")
    place = ["--store", str(tmp_path / "store.db")]
    assert cli.main(["runs", *place]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    assert "pgbench, scale=4, pg.fsync=off" in listed
    assert "pgbench, scale=4, rate=300" in listed
    assert listed.count("not durable") == 2, "the mark, and what it means"
    assert "not durable: the server did not wait" in listed
    for form in ("totals", "intervals", "runs"):
        assert cli.main(["export", "1-3", *place, "--rows", form, "-o", str(tmp_path / f"{form}.csv")]) == 0
        rows = list(csv.DictReader(io.StringIO((tmp_path / f"{form}.csv").read_text())))
        said = {row["run"]: (row["workload_changes"], row["marks"]) for row in rows}
        assert said == {
            "1": ("scale=4", ""),
            "2": ("scale=4, pg.fsync=off", "not durable"),
            "3": ("scale=4, rate=300", ""),
        }
    assert cli.main(["export", "1-3", *place, "-o", str(tmp_path / "runs.prom")]) == 0
    metrics = (tmp_path / "runs.prom").read_text()
    assert 'workload_changes="scale=4, pg.fsync=off"' in metrics
    assert 'brickyard_run_mark{run="2",mark="not durable"} 1' in metrics
    page = browsing.Listing(tmp_path / "store.db").page(browsing.RunQuery())
    assert [row.called for row in page.rows] == ["scale=4, rate=300", "scale=4, pg.fsync=off", "scale=4"]


def test_history_names_the_settings_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(tmp_path / "store.db") as store:
        for changes in (["scale=4"], ["scale=4", "rate=300"]):
            for _ in range(2):
                add(store, *changes)
    assert cli.main(["history", "/data/a file", "--store", str(tmp_path / "store.db")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "pgbench, scale=4, rate=300, transactions, tpcb-like, call 2 " in said, "in its row"
    assert said.count("rate=300") == 2, "and in front of its workload"
    assert "scale 4" not in said
    assert "offered rate" not in said


def test_the_levels_of_a_study_say_by_themselves_what_was_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(tmp_path / "store.db") as store:
        study = store.add_study("kirkwood-pgbench", {})
        labels = {"levels": {"scale": "4", "settings": "default"}, "repetition": 1}
        add(store, "scale=4", study=study, labels=labels)
        info = store.runs()[0]
    assert info.called == "scale=4", "an export has no column of its own for levels"
    assert cli.main(["runs", "--each", "--store", str(tmp_path / "store.db")]) == 0
    assert "scale=4" not in capsys.readouterr().out


def test_a_damaged_plan_is_called_nothing(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db") as store:
        plan: Json = {**plan_document(read_changes("/data/pg", ["scale=4"]).plan()), "pgbench": {"scale": "four"}}
        run = add_run(store, [phase_end(end_ns=SECOND)], plan_=plan, profile="pgbench", engine="pgbench")
        assert [info.called for info in store.runs([run])] == [""]


def test_tables_of_a_study_call_transactions_no_iops(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db") as store:
        for clients in ("1", "2"):
            add(store, f"clients={clients}", labels={"levels": {"clients": clients}, "repetition": 1})
        records = [store.record(run) for run in (1, 2)]
    spec = TableSpec("t", "t", "iops", ("clients",), (), {}, ("value",), {}, None, {}, "mean", None)
    (found,) = observe(
        records, [spec], [Axis("clients", "clients", {"1": "1", "2": "2"}, {}, changes_load=True)]
    ).pivots
    assert (found.figure.title, found.figure.unit) == ("calls/s", "calls/s")

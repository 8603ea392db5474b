"""Exports are read back by foreign readers, with the figures that the tables show."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hdrh.log import HistogramLogReader
from prometheus_client import openmetrics
from prometheus_client.openmetrics import parser as _openmetrics  # noqa: F401
from prometheus_client.parser import text_string_to_metric_families

from brickyard.analysis.figures.totals import totals
from brickyard.cli import main
from brickyard.report.export import rows
from brickyard.report.metrics import metrics_text
from brickyard.store import Record, Store
from support import MS, SECOND, add_run, cell, interval, phase_end, plan, stream

PROFILE = """
title = "a mix"
[[phase]]
name = "one"
duration = "60ms"
[[phase.stream]]
name = 'quoted "name", with \\\\'
request = "4KiB"
address = "random"
operations = { read = 70, write = 30 }
depth = 4
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Record]:
    """Two runs of a real file in a store of their own."""
    here = tmp_path_factory.mktemp("exports")
    (here / "mix.toml").write_text(PROFILE)
    place, target = here / "runs.db", here / "target"
    arguments = ["run", str(here / "mix.toml"), str(target), "--size", "8MiB", "--set", "interval=20ms"]
    assert main([*arguments, "--store", str(place), "--repeat", "2", "--json"]) == 0
    with Store(place) as kept:
        return place, kept.record(2)


def test_rows_name_the_conditions_that_a_target_was_in(tmp_path: Path) -> None:
    """The first of two targets fails in the second of three seconds."""
    changed = {"event": "brick_condition", "at_ns": SECOND + 500 * MS, "condition": "rebuilding", "target": 0}
    asked = plan(stream(), stream(name="other", target=1))
    told = [
        interval(n * SECOND, (n + 1) * SECOND, cell([MS] * 20), cell([MS] * 20, stream=1), index=n) for n in range(3)
    ]
    with Store(tmp_path / "runs.db") as store:
        record = store.record(add_run(store, [changed, *told, phase_end(end_ns=3 * SECOND)], plan_=asked))
        plain = store.record(add_run(store, [*told, phase_end(end_ns=3 * SECOND)], plan_=asked, condition="degraded"))
    first, other = (name.name for name in record.info.plan.phase[0].stream)
    found = {(row["stream"], row["start_ns"]): row["condition"] for row in rows([record])}
    assert [found[first, n * SECOND] for n in range(3)] == ["normal", "normal, rebuilding", "rebuilding"]
    assert {found[other, n * SECOND] for n in range(3)} == {"normal"}
    of_totals = {row["stream"]: row["condition"] for row in rows([record], "totals")}
    assert of_totals == {first: "normal, rebuilding", other: "normal"}
    assert [row["condition"] for row in rows([record, plain], "runs")] == ["normal, rebuilding", "degraded"]
    assert 'condition="normal, rebuilding"' in metrics_text([record], openmetrics=True)
    assert {row["condition"] for row in rows([plain])} == {"degraded"}


def exported(store: Path, out: Path, *words: str) -> str:
    assert main(["export", "1-2", "--store", str(store), "-o", str(out), *words]) == 0
    return out.read_text() if out.suffix == ".txt" else ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.csv", ()),
        ("a.csv", ("--rows", "totals")),
        ("a.csv", ("--rows", "runs")),
        ("a.json", ()),
        ("a.hlog", ()),
        ("a.prom", ()),
        ("a.om", ()),
    ],
)
def test_an_export_takes_the_place_of_an_export_alone(
    name: str,
    words: tuple[str, ...],
    measured: tuple[Path, Record],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store, _ = measured
    place = tmp_path / name
    exported(store, place, *words)
    whole = place.read_bytes()
    place.write_bytes(whole[: len(whole) // 2])
    exported(store, place, *words)
    assert place.read_bytes() == whole
    for own in (b"", b"run,profile\n1,mine\n", b"mine\n" + whole, b"{}"):
        place.write_bytes(own)
        capsys.readouterr()
        assert main(["export", "1-2", "--store", str(store), "-o", str(place), *words]) == 2
        assert "would be lost" in capsys.readouterr().err
        assert place.read_bytes() == own


def test_tables_of_an_export_are_replaced_and_others_kept(measured: tuple[Path, Record], tmp_path: Path) -> None:
    store, _ = measured
    command = ["export", "1-2", "--store", str(store), "--tables", str(tmp_path / "t"), "--format", "csv"]
    assert main(command) == main(command) == 0
    (tmp_path / "t" / "totals.csv").write_text("mine\n")
    assert main(command) == 2
    assert (tmp_path / "t" / "totals.csv").read_text() == "mine\n"


def test_an_hdr_log_is_read_by_hdr_histogram(measured: tuple[Path, Record], tmp_path: Path) -> None:
    from hdrh.histogram import HdrHistogram

    store, record = measured
    exported(store, tmp_path / "runs.hlog")
    whole = HdrHistogram(1, 3_600_000_000_000, 2)
    reader = HistogramLogReader(str(tmp_path / "runs.hlog"), HdrHistogram(1, 3_600_000_000_000, 2))
    counted: dict[str, int] = {}
    while True:
        item = reader.get_next_interval_histogram()
        if item is None:
            break
        counted[item.get_tag()] = counted.get(item.get_tag(), 0) + item.get_total_count()
        if item.get_tag().startswith("run-2/") and item.get_tag().endswith("/read/service"):
            whole.add(item)
    reads = next(row for row in totals(record) if row.operation == "read")
    service = reads.measures["service"]
    assert whole.get_total_count() == service.count
    assert whole.get_value_at_percentile(50) == pytest.approx(service.percentiles["p50"], rel=0.01)
    assert {tag.split("/")[0] for tag in counted} == {"run-1", "run-2"}
    assert not any(" " in tag or "," in tag for tag in counted)


def samples(families: Any) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


@pytest.mark.parametrize("form", ["prometheus", "openmetrics"])
def test_metrics_are_read_by_prometheus(form: str, measured: tuple[Path, Record], tmp_path: Path) -> None:
    store, record = measured
    text = exported(store, tmp_path / "runs.txt", "--format", form)
    strict = openmetrics.parser.text_string_to_metric_families
    found = samples((text_string_to_metric_families if form == "prometheus" else strict)(text))
    for row in totals(record):
        at = {"run": "2", "phase": row.phase_name, "stream": row.stream_name, "operation": row.operation}
        assert found["brickyard_requests_total", frozenset(at.items())] == row.requests
        assert found["brickyard_requests_per_second", frozenset(at.items())] == pytest.approx(row.iops)
        assert found["brickyard_depth", frozenset(at.items())] == 4
        half = {**at, "measure": "response", "quantile": "0.5"}
        value = row.measures["response"].percentiles["p50"]
        assert value is not None
        assert found["brickyard_latency_seconds", frozenset(half.items())] == pytest.approx(value / 1e9)
    info = next(dict(labels) for name, labels in found if name == "brickyard_run_info" and ("run", "2") in labels)
    assert (info["profile"], info["outcome"], info["io"]) == ("mix", "done", record.info.engine["io"])
    assert info["hostname"] == os.uname().nodename


def test_totals_and_runs_stand_beside_the_intervals(measured: tuple[Path, Record], tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    store, record = measured
    (tmp_path / "made").mkdir()  # a folder that is there is as good as a new one
    assert main(["export", "1-2", "--store", str(store), "--tables", str(tmp_path / "made")]) == 0
    tables = {
        name: list(csv.DictReader(io.StringIO((tmp_path / "made" / f"{name}.csv").read_text())))
        for name in ("intervals", "totals", "runs")
    }
    assert [row["run"] for row in tables["runs"]] == ["1", "2"]
    assert tables["runs"][1]["hostname"] == os.uname().nodename
    assert json.loads(tables["runs"][1]["plan"]) == record.info.plan_document
    assert len(tables["intervals"]) == 2 * len(record.intervals) or len(tables["intervals"]) > len(record.intervals)
    for row in totals(record):
        (found,) = (
            item
            for item in tables["totals"]
            if (item["run"], item["operation"], item["measure"]) == ("2", row.operation, "service")
        )
        assert int(found["requests"]) == row.requests
        assert float(found["iops"]) == row.iops
        assert int(found["p50_ns"]) == row.measures["service"].percentiles["p50"]
        assert (found["workers"], found["depth"]) == ("1", "4")
    exported(store, tmp_path / "totals.parquet", "--rows", "totals")
    table = pq.read_table(tmp_path / "totals.parquet").to_pylist()
    assert [row["requests"] for row in table] == [int(row["requests"]) for row in tables["totals"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rows", "totals", "--format", "hdr"], "has no tables"),
        (["--tables", "made", "--rows", "runs"], "writes all three tables"),
        (["-o", "x.txt"], "no such format"),
        (["-o", "x.fio"], "`brickyard profiles show PROFILE --format fio`"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    words: list[str], said: str, measured: tuple[Path, Record], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "2", "--store", str(measured[0]), *words]) == 2
    assert said in capsys.readouterr().err


def test_a_modelled_run_began_when_it_was_made_and_says_what_was_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mix.toml").write_text(PROFILE)
    place = tmp_path / "runs.db"
    words = ["--set", "members=4", "--set", "depth=2", "--store", str(place), "--json"]
    assert main(["run", str(tmp_path / "mix.toml"), "sim:terraserver-2003", *words]) == 0
    capsys.readouterr()
    with Store(place) as kept:
        made_ns = kept.runs([1])[0].created_unix_ns

    def text(*words: str) -> str:
        assert main(["export", "1", "--store", str(place), "-o", str(tmp_path / "out"), "--format", *words]) == 0
        said = (tmp_path / "out").read_text()
        (tmp_path / "out").unlink()
        return said

    for which in ("intervals", "totals", "runs"):
        first, *_ = csv.DictReader(io.StringIO(text("csv", "--rows", which)))
        assert first["start_unix_ns"] == str(made_ns)
        assert (first["workload_changes"], first["model_changes"]) == ("depth=2", "members=4")
        assert first["study_cell"] == ""
    whole = json.loads(text("json"))["runs"][0]
    assert whole["start_unix_ns"] == made_ns
    assert (whole["workload_changes"], whole["model_changes"]) == ("depth=2", "members=4")
    assert "target sim:terraserver-2003; condition normal; workload_changes depth=2; model_changes members=4]" in text(
        "hdr"
    )
    assert 'workload_changes="depth=2",model_changes="members=4"' in text("openmetrics")
    assert f"#[StartTime: {made_ns / 1e9:.3f} " in text("hdr")
    assert f'brickyard_run_start_timestamp_seconds{{run="1"}} {made_ns / 1e9!r}\n' in text("prometheus")

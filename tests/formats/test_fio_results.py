"""Results of fio as runs: its figures stay as fio printed them, and what they do not say is said."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from brickyard.analysis.figures.totals import totals
from brickyard.cli import main
from brickyard.formats.fio_job import import_fio
from brickyard.report.export import rows
from brickyard.schema import PhaseEnd
from brickyard.store import Store
from brickyard.units import format_ns
from interchange_support import HERE, QUEUE, fio_json


def test_a_result_whose_queue_did_not_reach_the_file_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = fio_json(tmp_path, "json", f"{QUEUE}ioengine=libaio")
    assert main(["import", str(out), "--store", str(tmp_path / "runs.db"), "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    assert run["plan"]["phase"][0]["stream"][0].get("depth", 1) == 1
    (said,) = [warning["text"] for warning in run["warnings"] if warning["id"] == "fio-one-in-flight"]
    assert said.startswith("iodepth=16 of job shop has no effect with fio's ioengine=libaio and buffered I/O")


# ---- fio's results


JOB = "ioengine=psync\nrw=randread\nbs=4k\nsize=8m\nio_size=256m\nnorandommap\ninvalidate=0"


@pytest.mark.parametrize("direction", ["randread", "randwrite"])
def test_the_target_that_a_writing_profile_needs_is_a_new_file(
    direction: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The note proposed fio's own file, into which no run writes."""
    job, profile = tmp_path / "a.fio", tmp_path / "a.toml"
    job.write_text(f"[a]\nfilename={tmp_path / 'data'}\nrw={direction}\nsize=8m\n")
    assert main(["import", str(job), "-o", str(profile)]) == 0
    said = capsys.readouterr().err
    assert f"`brickyard run {profile} {tmp_path / 'data'}`" in said
    assert ("file that another program made: name a new one." in said) == (direction == "randwrite")


@pytest.mark.parametrize("form", ["json", "json+"])
def test_figures_of_fio_stay_as_fio_printed_them(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = fio_json(tmp_path, form, JOB)
    read = json.loads(out.read_text()[out.read_text().index("{") :])["jobs"][0]["read"]
    whole, printed = read["lat_ns"], read["clat_ns"]
    assert main(["import", str(out), "--store", str(tmp_path / "runs.db"), "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    (row,) = run["totals"]
    assert set(row["measures"]) == {"service"}  # fio knows no due instant
    service = row["measures"]["service"]
    assert (service["mean_ns"], service["max_ns"]) == (whole["mean"], whole["max"]), "with the call that submits"
    for name, at in (("p50", "50.000000"), ("p99", "99.000000"), ("p99.9", "99.900000")):
        assert service[f"{name}_ns" if f"{name}_ns" in service else name] == printed["percentile"][at]
    warned = [warning["id"] for warning in run["warnings"]]
    assert ("fio-percentiles" in warned) == (form == "json")
    assert "fio-clat-calls" in warned, "percentiles are of clat, and say so"
    assert service["min_ns"] == whole["min"]
    assert main(["show", "1", "--store", str(tmp_path / "runs.db")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "fio's clat of half of them at most " in told
    assert "answered within" not in told
    assert run["plan"]["phase"][0]["stream"][0]["request"][0]["size"] == 4096
    with Store(tmp_path / "runs.db") as store:
        record = store.record(1)
    (part,), (whole,) = rows([record]), rows([record], "totals")
    assert (part["p50_ns"], part["p99_ns"]) == (printed["percentile"]["50.000000"], printed["percentile"]["99.000000"])
    assert bool(part["histogram"]) == bool(whole["histogram"]) == (form == "json+"), "plain JSON has no distribution"


def test_rates_of_both_directions_are_said_to_be_one_here() -> None:
    def said(options: str) -> bool:
        notes = import_fio("x", f"[j]\nfilename=x\nbs=4k\nruntime=1\ntime_based\n{options}\n", HERE).notes
        return any(
            "here 800 requests/s are one rate, and each request is a read or a write by chance" in n for n in notes
        )

    assert said("rw=randrw\nrate_iops=600,200")
    assert said("rw=randrw\nrwmixread=75\nrate_iops=600,200"), "also where the mix is that of the job"
    assert not said("rw=randrw\nrate_iops=600,200\nrate_process=poisson"), "there fio's are by chance as well"
    assert not said("rw=randread\nrate_iops=800")


def test_jobs_whose_percentiles_leave_out_the_submission_are_named_where_others_have_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = "rw=randread\nsize=1m\nnumber_ios=50"
    out = fio_json(tmp_path, "json+", f"{small}\nlat_percentiles=1\n[b]\n{small}\nfilename=b\n[c]\n{small}\nfilename=c")
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(out), *store, "--json"]) == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    (text,) = [warning["text"] for warning in warnings if warning["id"] == "fio-clat-calls"]
    assert text.startswith("Percentiles of b and c are of fio's completion latency")
    with Store(tmp_path / "runs.db") as kept:
        shown = {row.stream_name: row.measures["service"].percentiles_of for row in totals(kept.record(1))}
    assert shown == {"shop": "", "b": "fio's clat", "c": "fio's clat"}


@pytest.mark.parametrize("form", ["normal,json", "json+,normal", "terse,json"])
def test_the_json_beside_fios_text_is_the_result(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = fio_json(tmp_path, form, "rw=randread\nsize=1m\nnumber_ios=50\n[{brace]\nrw=randread\nsize=1m\nnumber_ios=9")
    assert main(["import", str(out), "--json"]) == 0
    assert [row["requests"] for row in json.loads(capsys.readouterr().out)["totals"]] == [50, 9]
    capsys.readouterr()
    out.write_text(out.read_text() + out.read_text().replace("shop", "other"))
    assert main(["import", str(out)]) == 2
    assert "2 results of different runs of fio" in capsys.readouterr().err


def test_results_of_fios_clients_are_refused_by_that_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    socket, job, out = tmp_path / "s", tmp_path / "j.fio", tmp_path / "client.json"
    job.write_text(f"[j]\nfilename={tmp_path / 'data'}\nsize=1m\nrw=randread\nnumber_ios=9\n")
    server = subprocess.Popen(["fio", f"--server=sock:{socket}"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        client = ["fio", f"--client=sock:{socket}", "--output-format=json", f"--output={out}", str(job)]
        for _ in range(200):  # until the server listens
            if subprocess.run(client, cwd=tmp_path, check=False, capture_output=True).returncode == 0:
                break
            time.sleep(0.05)
    finally:
        server.terminate()
        server.wait()
    assert main(["import", str(out)]) == 2
    assert "client/server mode (fio --client), which are not read; run the job on each host" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["json", "json+"])
def test_flushes_of_fio_have_their_own_row(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What fio's test of etcd's log is judged by."""
    out = fio_json(tmp_path, form, "ioengine=sync\nrw=write\nbs=8k\nsize=2m\nfdatasync=1")
    printed = json.loads(out.read_text()[out.read_text().index("{") :])["jobs"][0]["sync"]["lat_ns"]
    assert main(["import", str(out), "--store", str(tmp_path / "runs.db"), "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    flushes, writes = sorted(run["totals"], key=lambda row: str(row["operation"]))
    assert (writes["operation"], writes["requests"]) == ("write", 256)
    assert (flushes["operation"], flushes["requests"], flushes["bytes"]) == ("flush", printed["N"], 0)
    service = flushes["measures"]["service"]
    assert (service["mean_ns"], service["max_ns"]) == (printed["mean"], printed["max"])
    assert service["p90_ns" if "p90_ns" in service else "p90"] == printed["percentile"]["90.000000"]
    assert ("fio-percentiles" in [warning["id"] for warning in run["warnings"]]) == (form == "json")


@pytest.mark.parametrize(("engine", "is_timed"), [("psync", True), ("libaio", False), ("io_uring", False)])
def test_flush_times_of_engines_with_a_queue_are_left_out(
    engine: str, is_timed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With libaio, 402 µs of a flush and 124 µs of a write stood in cycles of 481 µs."""
    load = f"ioengine={engine}\nrw=randwrite\nbs=4k\nsize=1m\nfdatasync=1"
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(fio_json(tmp_path, "json", load)), *store, "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    (flushes,) = (row for row in run["totals"] if row["operation"] == "flush")
    assert flushes["iops"] > 0
    assert ("service" in flushes["measures"]) == is_timed
    assert ("fio-flush-times" in [warning["id"] for warning in run["warnings"]]) != is_timed
    assert main(["show", "1", *store]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f", {engine})" in shown, "beside the version of fio"
    head = shown.partition("Before you rely")[0].partition("flush ")[2].partition(";")[0]
    assert "clat" not in head


def test_compare_names_the_engine_that_fio_had(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path / "runs.db")]
    for engine in ("psync", "libaio"):
        out = fio_json(tmp_path, "json", f"ioengine={engine}\nrw=randread\nbs=4k\nsize=1m")
        assert main(["import", str(out), *store]) == 0
    capsys.readouterr()
    assert main(["compare", "1", "2", *store]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "requests reach the storage in another way" in said
    assert "psync" in said
    assert "libaio" in said


def test_fdatasyncs_that_fio_counts_as_short_reads_are_no_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = "[log]\ngroup_reporting\nfilename=log\nrw=write\nbs=4k\nsize=1m\nfdatasync=1"
    out = fio_json(tmp_path, "json", f"group_reporting\nrw=randread\nbs=4k\nsize=2m\n{log}")
    (job,) = json.loads(out.read_text()[out.read_text().index("{") :])["jobs"]
    flushed = job["sync"]["lat_ns"]["N"]
    assert job["read"]["short_ios"] in (0, flushed), "0 where fio counts fdatasync by itself"
    assert flushed >= 255
    assert main(["import", str(out), "--store", str(tmp_path / "runs.db"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["totals"]
    assert {row["operation"]: (row["requests"], row["errors"]) for row in rows} == {
        "read": (512, 0),
        "write": (256, 0),
        "flush": (flushed, 0),
    }


@pytest.mark.parametrize("more", ["", "\nlat_percentiles=1"])
def test_the_same_job_by_fio_and_by_us_compares(more: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By percentiles only where fio's include the call that submits a request, as ours do."""
    out = fio_json(tmp_path, "json+", JOB + more)
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(out), *store]) == 0
    assert main(["import", str(tmp_path / "shop.fio"), "-o", str(tmp_path / "shop.toml")]) == 0
    assert main(["run", str(tmp_path / "shop.toml"), str(tmp_path / "ours"), "--size", "8MiB", *store]) == 0
    capsys.readouterr()
    assert main(["compare", "1", "2", *store, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    percentiles = {"latency_p99"} if more else set()
    assert {change["figure"] for change in found["changes"]} == {"iops", "latency_mean"} | percentiles


def test_what_fios_result_does_not_record_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Eight lines stood before the first figure and said of everything that it was not known."""
    out = fio_json(tmp_path, "json+", JOB)
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(out), *store]) == 0
    assert main(["import", str(tmp_path / "shop.fio"), "-o", str(tmp_path / "shop.toml")]) == 0
    assert main(["run", str(tmp_path / "shop.toml"), str(tmp_path / "ours"), "--size", "8MiB", *store]) == 0
    capsys.readouterr()
    assert main(["compare", "1", "2", *store]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = (one for one in lines if "not known" in one and "noise" not in one)
    head, _, what = line.partition(": ")
    assert head == "not known of run 1 (results of fio do not record them)"
    assert {"test area", "file system", "host", "kernel", "version of Brickyard"} <= set(what.split(", "))
    assert any(one.startswith("differed: Engine") for one in lines)
    assert main(["compare", "1", "2", "--circumstances", *store]) == 0
    assert "differed: Kernel: not known (run 1); " in capsys.readouterr().out
    assert main(["compare", "1", "2", "--json", *store]) == 0
    values = {one["label"]: one["values"] for one in json.loads(capsys.readouterr().out)["differing"]}
    assert values["Kernel"][0] == ["not known", [1]]


TWO_JOBS = """[global]
filename=data
size=8m
direct=1
ioengine=libaio
runtime=600ms
time_based
[rd]
rw=randread
iodepth=8
numjobs=2
[wr]
rw=randwrite
rate_iops=200
iodepth=2
"""


def fio_rows(directory: Path, name: str, text: str, form: str) -> tuple[Path, list[dict[str, Any]]]:
    job, out = directory / f"{name}.fio", directory / f"{name}.json"
    job.write_text(text)
    words = ["fio", f"--output-format={form}", f"--output={out}", str(job)]
    subprocess.run(words, cwd=directory, check=True, capture_output=True)
    return out, json.loads(out.read_text()[out.read_text().index("{") :])["jobs"]


def test_clones_and_a_job_beside_them_by_fio_and_by_us_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """fio prints the clones in a row each; they are one stream, as in the profile."""
    out, printed = fio_rows(tmp_path, "two", TWO_JOBS, "json")
    assert [row["jobname"] for row in printed] == ["rd", "rd", "wr"]
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(out), *store, "--json"]) == 0
    reads, writes = json.loads(capsys.readouterr().out)["totals"]
    rows = [row["read"] for row in printed[:2]]
    count = sum(row["total_ios"] for row in rows)
    service = reads["measures"]["service"]
    assert (reads["stream"], reads["requests"], reads["depth_max"], writes["stream"]) == ("rd", count, 16, "wr")
    mean_ns = sum(row["lat_ns"]["mean"] * row["total_ios"] for row in rows) / count
    assert service["mean_ns"] == pytest.approx(mean_ns, rel=1e-9)
    assert service["max_ns"] == max(row["lat_ns"]["max"] for row in rows)
    assert service["p99_ns"] is None, "percentiles of two rows tell none of both together"
    assert main(["import", str(tmp_path / "two.fio"), "-o", str(tmp_path / "two.toml")]) == 0
    assert main(["run", str(tmp_path / "two.toml"), str(tmp_path / "ours"), "--size", "8MiB", *store]) == 0
    capsys.readouterr()
    assert main(["compare", "1", "2", *store, "--json"]) == 0
    found = {(change["load"][0], change["figure"]) for change in json.loads(capsys.readouterr().out)["changes"]}
    assert {("rd", "iops"), ("rd", "latency_mean"), ("wr", "iops")} <= found


def test_of_jobs_that_fio_printed_as_one_row_the_load_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With group_reporting, fio prints the name of the first and the options of the last of them."""
    sizes = "[a]\nstonewall\nrw=randread\niodepth=16\n[b]\nrw=randread\nbs=64k\niodepth=16\n"
    alone = "[c]\nstonewall\nrw=randread\nnumjobs=2\niodepth=4\nsize=1m\n"
    text = TWO_JOBS.replace("[rd]", "group_reporting\n[rd]") + sizes + alone
    out, printed = fio_rows(tmp_path, "groups", text, "json+")
    assert [row["jobname"] for row in printed] == ["rd", "a", "c"]
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(out), *store, "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    told = [(row["stream"], row["operation"], row["depth_max"]) for row in run["totals"]]
    assert told == [
        ("rd and others", "read", None),
        ("rd and others", "write", None),
        ("a and others", "read", None),
        ("c", "read", 8),
    ]
    assert not any(stream.get("options") for phase in run["plan"]["phase"][:2] for stream in phase["stream"])
    assert "fio-group-reporting" in [warning["id"] for warning in run["warnings"]]
    assert run["plan"]["title"] == "fio: rd and others, a and others, c"
    assert [phase["name"] for phase in run["plan"]["phase"]] == ["rd and others", "a and others", "c"]
    assert main(["show", "1", *store]) == 0
    shown = capsys.readouterr().out
    assert "rd: read" not in " ".join(shown.split()), "the figures are not those of one job"
    assert "group_reporting" in shown
    assert "open loop" not in shown
    assert "queue depth" not in shown


def test_jobs_of_fio_that_waited_are_phases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = fio_json(tmp_path, "json", "size=1m\nrw=write\n[then]\nstonewall\nfilename=data\nsize=1m\nrw=read")
    assert main(["import", str(out), "--store", str(tmp_path / "runs.db"), "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    assert [(row["phase"], row["operation"]) for row in run["totals"]] == [("shop", "write"), ("then", "read")]


def test_a_rate_that_fio_did_not_reach_is_said_and_meets_no_requirement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hundred million requests/s, one at a time, are beyond every storage."""
    store = ["--store", str(tmp_path / "runs.db")]
    job = "ioengine=psync\nrw=randread\nbs=4k\nsize=32m\nrate_iops=100m"
    for options in (job.replace("100m", "100000000"), job.replace("100m", "200").replace("32m", "512k")):
        assert main(["import", str(fio_json(tmp_path, "json+", options)), *store]) == 0
    capsys.readouterr()
    assert main(["show", "1", "--check", "iops>=50000000", *store]) != 0
    missed = capsys.readouterr().out
    assert "fio was asked for 100,000,000 requests/s of shop and completed" in missed
    assert "not known" in missed
    assert "all that was due was sent" not in missed
    assert main(["show", "2", "--check", "iops>=200", *store]) == 0
    kept = capsys.readouterr().out
    assert "the profile offers 200/s, and all that was due was sent" in kept or ": met" in kept
    assert "fio was asked for" not in kept
    with Store(tmp_path / "runs.db") as kept_runs:
        (end,) = kept_runs.record(1).of(PhaseEnd)
    assert end.unsent > 10_000


def test_what_fio_read_back_compares_with_what_we_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """fio prints both in one row; they are phases in turn, as in the profile of the job."""
    job = f"[wv]\nfilename={tmp_path / 'data'}\nioengine=psync\nrw=randwrite\nbs=4k\nsize=8m\nverify=crc32c\n"
    out, printed = fio_rows(tmp_path, "wv", job, "json+")
    assert [row["read"]["total_ios"] and row["write"]["total_ios"] for row in printed] == [2048]
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(out), *store, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["totals"]
    assert [(row["phase"], row["operation"]) for row in found] == [("wv", "write"), ("wv-verify", "read")]
    assert [row["rated_ns"] // 1_000_000 for row in found] == [printed[0][one]["runtime"] for one in ("write", "read")]
    assert main(["import", str(tmp_path / "wv.fio"), "-o", str(tmp_path / "wv.toml")]) == 0
    assert main(["run", str(tmp_path / "wv.toml"), str(tmp_path / "ours"), "--size", "8MiB", *store]) == 0
    capsys.readouterr()
    assert main(["compare", "1", "2", *store, "--json"]) == 0
    found = {(*change["load"][:2], change["figure"]) for change in json.loads(capsys.readouterr().out)["changes"]}
    assert {("wv", "write", "iops"), ("wv-verify", "read", "iops")} <= found


def test_a_relative_name_in_a_result_of_fio_is_that_of_the_file_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One and the same file was called other storage."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    job = "[j]\nfilename=d/f\nrw=randread\nbs=4k\nsize=4m\ndirect=1\nioengine=libaio\nio_size=1m\n"
    Path("shop.fio").write_text(job)
    command = ["fio", "--output-format=json+", "--output=result.json", "shop.fio"]
    subprocess.run(command, check=True, capture_output=True)
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", "result.json", *store]) == 0
    assert main(["import", "shop.fio", "-o", "shop.toml"]) == 0
    assert main(["run", "shop.toml", "d/f", *store]) == 0
    capsys.readouterr()
    assert main(["compare", "1", "2", *store, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "Target" not in {one["label"] for one in found["differing"]}
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    store = ["--store", str(tmp_path / "other.db")]
    assert main(["import", str(tmp_path / "result.json"), *store]) == 0
    assert main(["run", str(tmp_path / "shop.toml"), str(tmp_path / "d/f"), *store]) == 0
    capsys.readouterr()
    assert main(["compare", "1", "2", *store]) == 0
    assert "it may be other storage: where a relative name is from is not known" in capsys.readouterr().out


def test_the_call_that_percentiles_leave_out_is_averaged_over_all_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of a job with few requests was called the average."""
    common = "direct=1\nioengine=libaio\nsize=8m\n"
    slow = f"[slow]\nfilename={tmp_path / 'other'}\nrw=randwrite\nbs=128k\nnumber_ios=4\n{common}"
    jobs = f"rw=randread\nbs=4k\niodepth=8\n{common}{slow}"
    out = fio_json(tmp_path, "json+", jobs)
    assert main(["import", str(out), "--store", str(tmp_path / "runs.db"), "--json"]) == 0
    (said,) = (
        one["text"] for one in json.loads(capsys.readouterr().out)["warnings"] if "completion latency" in one["text"]
    )
    rows = [
        row[way] for row in json.loads(out.read_text())["jobs"] for way in ("read", "write") if row[way]["total_ios"]
    ]
    calls = [(row["lat_ns"]["mean"] - row["clat_ns"]["mean"], row["total_ios"]) for row in rows]
    mean_ns = sum(ns * count for ns, count in calls) / sum(count for _, count in calls)
    least, most = (format_ns(end(ns for ns, _ in calls)) for end in (min, max))
    assert f"(on average {format_ns(mean_ns)}, and {least} to {most} by job and direction)" in said


BUFFERED = "ioengine=libaio\nrw=randread\nbs=64k\nsize=256m\nnumber_ios=3000"
"""A buffered read ends in the call that submits it, so that `clat` has next to nothing of its time."""


@pytest.mark.parametrize("form", ["json", "json+"])
def test_percentiles_of_clat_may_lie_below_the_minimum_of_lat(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = fio_json(tmp_path, form, BUFFERED)
    read = json.loads(out.read_text())["jobs"][0]["read"]
    printed, least_ns = read["clat_ns"]["percentile"], read["lat_ns"]["min"]
    points = ("50.000000", "90.000000", "95.000000", "99.000000")
    names = ("p50", "p90", "p95", "p99")
    assert printed["50.000000"] < least_ns, "or the test shows nothing"
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(out), *store, "--json"]) == 0
    service = json.loads(capsys.readouterr().out)["totals"][0]["measures"]["service"]
    assert [service[f"{name}_ns"] for name in names] == [printed[point] for point in points]
    assert (service["min_ns"], service["max_ns"]) == (least_ns, read["lat_ns"]["max"]), "which include the call"
    main(["show", "1", *store])
    told = " ".join(capsys.readouterr().out.split())
    assert f"fio's clat of half of them at most {format_ns(printed['50.000000'])}" in told
    with Store(tmp_path / "runs.db") as kept:
        (whole,) = rows([kept.record(1)], "totals")
    assert (whole["p50_ns"], whole["p99_ns"]) == (printed["50.000000"], printed["99.000000"])
    main(["show", "1", *store, "--json", "--ruler", f"p50<={least_ns - 1}ns"])
    (found,) = json.loads(capsys.readouterr().out)["verdicts"][0]["findings"]
    assert found["verdict"] == "fail", "the time with the call is longer than its minimum"
    assert (found["bound"]["figure"], found["by_tool"]) == ("min", "fio's lat")


def test_results_with_percentiles_of_clat_are_compared_by_these(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, printed = ["--store", str(tmp_path / "runs.db")], []
    for number in range(2):
        out = fio_json(tmp_path, "json+", f"{BUFFERED}\nrandseed={number + 5}")
        printed.append(json.loads(out.read_text())["jobs"][0]["read"]["clat_ns"]["percentile"])
        assert main(["import", str(out), *store]) == 0
    capsys.readouterr()
    assert main(["compare", "1", "2", *store, "--json"]) == 0
    (shift,) = json.loads(capsys.readouterr().out)["distributions"]
    for side, of in zip(("before", "after"), printed, strict=True):
        assert (shift[side]["p50_ns"], shift[side]["p99_ns"]) == (of["50.000000"], of["99.000000"])
    assert shift["time"] == "fio's clat"
    assert main(["compare", "1", "2", *store]) == 0
    told = capsys.readouterr().out
    assert "p99 of fio's clat" in told
    assert "mean service time" in told, "which has the call"
    assert re.search(r"(?m)^fio's clat +p50 ", told)


def test_percentiles_of_clat_are_compared_with_no_other_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their row of whole distributions set them beside response times, and `--figure` beside service times."""
    store = ["--store", str(tmp_path / "runs.db")]
    job = "ioengine=libaio\nrw=randread\nbs=64k\nsize=16m\nnorandommap\ntime_based\nruntime=1"
    assert main(["import", str(fio_json(tmp_path, "json+", job)), *store]) == 0
    assert main(["import", str(tmp_path / "shop.fio"), "-o", str(tmp_path / "p.toml")]) == 0
    assert main(["run", str(tmp_path / "p.toml"), str(tmp_path / "data"), *store]) == 0
    assert main(["import", str(fio_json(tmp_path, "json+", f"{job}\nlat_percentiles=1")), *store]) == 0
    capsys.readouterr()

    def compared(*sides: str) -> tuple[set[str], int]:
        assert main(["compare", *sides, *store, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        return {one["figure"] for one in found["changes"]}, len(found["distributions"])

    assert compared("1", "2") == ({"iops", "latency_mean"}, 0)
    assert compared("1", "3") == ({"iops", "service_mean"}, 0)
    assert compared("3", "2") == ({"iops", "latency_mean", "latency_p99"}, 1), "lat is such a time"
    assert main(["compare", "1", "2", *store, "--figure", "service_p99"]) == 2
    assert "fio's clat compares with clat only" in capsys.readouterr().err


ONE_BY_ONE = "rw=read\nbs=64k\nsize=1m\n"
TWO_NAMES = {
    "before the job file": (f"[j]\n{ONE_BY_ONE}filename=A\n", ["--filename=B", "shop.fio"]),
    "behind the job file": (f"[j]\n{ONE_BY_ONE}filename=A\n", ["shop.fio", "--filename=B"]),
    "for all jobs and for one": (f"[global]\nfilename=B\n[j]\n{ONE_BY_ONE}filename=A\n", ["shop.fio"]),
    "a list": (f"[j]\n{ONE_BY_ONE}filename=B:A\n", ["shop.fio"]),
}


@pytest.mark.parametrize("case", TWO_NAMES)
def test_what_fio_did_on_two_files_is_of_neither_alone(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All requests stood at one of the files; of a list, neither was a target."""
    monkeypatch.chdir(tmp_path)
    job, words = TWO_NAMES[case]
    Path("shop.fio").write_text(job)
    command = ["fio", "--output-format=json+", "--output=result.json", *words, "--write_iolog=log"]
    subprocess.run(command, check=True, capture_output=True)
    asked = [line.split()[-4] for line in Path("log").read_text().splitlines() if " read " in line]
    assert (asked.count("A"), asked.count("B")) == (8, 8), "fio itself"
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", "result.json", *store, "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    assert run["targets"] == [str(tmp_path / "B"), str(tmp_path / "A")]
    assert main(["show", "1", *store]) == 0
    assert "Targets (" not in capsys.readouterr().out
    for name in ("A", str(tmp_path / "B")):
        assert main(["history", name, *store]) == 2
        said = capsys.readouterr().err
        assert f"{name} has no history: what run 1 did on several targets together is not known of each" in said
        assert "`brickyard show 1`" in said


def test_the_history_of_a_file_says_which_runs_were_on_others_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = ["--store", str(tmp_path / "runs.db")]
    for names in ("A:B", "A"):
        Path("shop.fio").write_text(f"[j]\n{ONE_BY_ONE}filename={names}\n")
        command = ["fio", "--output-format=json+", "--output=result.json", "shop.fio"]
        subprocess.run(command, check=True, capture_output=True)
        assert main(["import", "result.json", *store]) == 0
    capsys.readouterr()
    assert main(["history", "A", *store, "--json"]) == 0
    told = capsys.readouterr()
    assert [point["run"] for item in json.loads(told.out)["histories"] for point in item["points"]] == [2]
    assert "left out: what run 1 did on several targets together" in told.err


def test_a_job_of_fio_without_a_name_of_its_own_is_on_the_file_of_all_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.fio").write_text(f"[global]\n{ONE_BY_ONE}stonewall\n[both]\nfilename=A\n[one]\nnumber_ios=9\n")
    command = ["fio", "--output-format=json+", "--output=result.json", "shop.fio", "--filename=B"]
    subprocess.run(command, check=True, capture_output=True)
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", "result.json", *store]) == 0
    capsys.readouterr()
    assert main(["history", "B", *store, "--json"]) == 0
    told = capsys.readouterr()
    assert [item["load"][0] for item in json.loads(told.out)["histories"]] == ["one"]
    assert "left out: what run 1 did on several targets together" in told.err

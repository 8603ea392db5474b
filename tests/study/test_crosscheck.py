"""The same load by our engine and by a real fio: both do what the plan asks, and only where they may."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from brickyard import profiles
from brickyard.analysis.judging.answers import answer as whole_answer
from brickyard.analysis.judging.crosscheck import Comparison, compare, comparison_document, place_words, verdict
from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.formats.fio_export import export_fio
from brickyard.schema.plan import EngineChoice, Plan
from brickyard.store import Json, Store, default_place
from brickyard.study.running.by_fio import refuse_flushes
from support import MS, SECOND, add_run, cell, interval, phase_end, plan, stream

MIB = 1 << 20
PATIENCE_S = 60
SHORT = ("--set", "duration=300ms", "--set", "warmup=0s")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_fio_that_flushes_after_reads_does_no_mix_with_flushes() -> None:
    flushed = "[[phase.stream]]\nrequest = '4KiB'\nflush_every = { writes = 4 }"

    def plan(operations: str, more: str = "") -> Plan:
        text = f"title = 't'\n[[phase]]\nduration = '1s'\n{flushed}\noperations = {operations}\n{more}\n"
        return profiles.validate(profiles.ProfileText("t", text, ""), [])

    both = plan("{ read = 70, write = 30 }")
    with pytest.raises(BadInputError, match=r"fio-3\.33 flushes again after each read .*; use fio 3\.38 or later"):
        refuse_flushes(both, "fio-3.33")
    refuse_flushes(both, "fio-3.38")
    refuse_flushes(both, "fio-3.42-12-gabc")
    refuse_flushes(plan("{ write = 100 }"), "fio-3.33")
    assert "; before version 3.38, fio flushes again after each read that follows a flushed write" in export_fio(both)
    deep = plan("{ write = 100 }", "depth = 8")
    with pytest.raises(BadInputError, match=r"fio-3\.33 flushes again until the first flush has ended, so its load"):
        refuse_flushes(deep, "fio-3.33")
    refuse_flushes(deep, "fio-3.38")
    refuse_flushes(structs.replace(deep, engine=EngineChoice.PSYNC), "fio-3.33")
    assert "; before version 3.38, fio flushes again until the first flush has ended" in export_fio(deep)


def test_flushes_after_reads_are_laid_to_no_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ "Use libaio" was said of a result of libaio: fio before 3.38 flushes after reads with any engine."""
    words = [
        "--rw=randrw",
        "--rwmixread=80",
        "--fsync=1",
        "--number_ios=200",
        "--ioengine=libaio",
        "--size=8m",
        "--bs=4k",
    ]
    job = ["fio", "--name=j", f"--filename={tmp_path / 'f'}", *words]
    subprocess.run([*job, "--output-format=json", f"--output={tmp_path / 'j.json'}"], check=True, capture_output=True)
    (told,) = json.loads((tmp_path / "j.json").read_text("utf-8"))["jobs"]
    found = answer(capsys, "import", str(tmp_path / "j.json"))
    said = [warning["remedy"] for warning in found["warnings"] if warning["id"] == "fio-flushes"]
    again = "after each read that follows a flushed write, with any ioengine"
    remedy = f"use fio 3.38 or later; before, fio flushed again {again}"
    assert said == ([remedy] if told["sync"]["total_ios"] > 1.5 * told["write"]["total_ios"] else [])


def test_the_same_options_of_fio_are_compared_with_our_run_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ "No workload was measured on both sides": the job asked for 8 MiB of the file, and the run for all its 8 MiB."""
    place, name, store = tmp_path / "j.json", tmp_path / "f", ["--store", str(tmp_path / "runs.db")]
    words = ["--rw", "randread", "--bs", "4k", "--iodepth", "2", "--runtime", "1", "--size", "8m", "--name", "x"]
    joined = [f"{key}={value}" for key, value in zip(words[::2], words[1::2], strict=True)]
    job = ["fio", *joined, f"--filename={name}", "--time_based", "--ioengine=libaio", "--direct=1"]
    for _ in range(2):
        subprocess.run([*job, "--output-format=json", f"--output={place}"], check=True, capture_output=True)
        assert main(["import", str(place), *store]) == 0
    for _ in range(2):
        assert main(["run", *words, "--direct", "1", "--filename", str(name), *store]) == 0
    capsys.readouterr()
    assert main(["runs", *store]) == 0
    first = capsys.readouterr().out.splitlines()[1].split()
    assert float(first[5].replace(",", "")) > 0, "the rate of a result stands in the table of runs"
    assert main(["compare", "1-2", "3-4", *store]) == 0
    assert "fio: x / x: randread, 4k, depth 2, read  IOPS" in capsys.readouterr().out
    half = [*words[:8], "--size", "4m", "--name", "x"]
    assert main(["run", *half, "--direct", "1", "--filename", str(tmp_path / "g"), *store]) == 0
    assert main(["compare", "1-2", "5", *store]) == 2, "half of the part is another load"


def test_jobs_on_several_files_are_told_apart_by_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All requests of both jobs stood in the row of the first file, and its history had those of the other."""
    one, other, place = tmp_path / "one", tmp_path / "other", tmp_path / "j.json"
    jobs = [
        f"--name=good --filename={one} --rw=read --direct=1",
        f"--name=full --filename={other} --rw=write --direct=0",
    ]
    each = "--size=4m --bs=64k"
    store = ["--store", str(tmp_path / "runs.db")]

    def imported(*more: str) -> Any:
        words = ["fio", *more, *(word for job in jobs for word in f"{job} {each}".split())]
        subprocess.run([*words, "--output-format=json", f"--output={place}"], check=True, capture_output=True)
        return answer(capsys, "import", str(place), *store)

    found = imported()
    told = {job["job options"]["filename"]: job for job in json.loads(place.read_text("utf-8"))["jobs"]}
    counts = {row["target"]: row["requests"] for row in found["targets_together"]}
    assert counts[str(one)] == told[str(one)]["read"]["total_ios"]
    assert counts[str(other)] == told[str(other)]["write"]["total_ios"]
    assert found["engine"]["io"] == "unknown", "of two jobs one was direct"
    (mixed,) = [warning["text"] for warning in found["warnings"] if warning["id"] == "fio-mixed-io"]
    assert mixed.startswith("good had direct I/O, and full went through the page cache")
    for path, operation in ((one, "read"), (other, "write")):
        history = answer(capsys, "history", str(path), *store)
        assert [load["load"][-1] for load in history["histories"]] == [operation]
    grouped = imported("--group_reporting")
    assert [grouped["targets"], grouped["targets_together"]] == [["fio"], []]
    assert any("their files, workers, depths" in warning["text"] for warning in grouped["warnings"])


def test_a_job_that_failed_is_not_said_to_have_had_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, store = tmp_path / "j.json", ["--store", str(tmp_path / "runs.db")]
    jobs = [f"--name=ok --filename={tmp_path / 'f'}", f"--name=bad --filename={tmp_path / 'f' / 'none'}"]
    words = ["fio", "--output-format=json", f"--output={place}", "--size=4m", "--rw=read", *" ".join(jobs).split()]
    (tmp_path / "f").write_bytes(bytes(4 * MIB))
    subprocess.run(words, check=False, capture_output=True)
    assert main(["import", str(place), *store]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "job bad ended with error 20" in shown
    assert "reported no error" not in shown
    assert "fio counted no failed request, although a run failed." in shown


def test_buffered_reads_of_fio_are_said_to_be_of_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """338,399 IOPS met a limit while the disk read nothing, and the answer did not name the page cache."""
    store = ["--store", str(tmp_path / "runs.db")]
    job = ["fio", "--name=br", "--rw=randread", "--bs=4k", f"--filename={tmp_path / 'f'}", "--size=8m"]
    for number, direct in enumerate((0, 0, 1), 1):
        more = [f"--direct={direct}", "--output-format=json", f"--output={tmp_path / f'{number}.json'}"]
        subprocess.run([*job, *more], check=True, capture_output=True)
        assert main(["import", str(tmp_path / f"{number}.json"), *store]) == 0

    def shown(runs: str) -> str:
        capsys.readouterr()
        assert main(["show", runs, *store]) == 0
        return " ".join(capsys.readouterr().out.split())

    said = "Reads of br may have come from the page cache: 8 MiB are read, and fio does not report the host's memory."
    assert said in shown("1")
    assert "MiB/s (may have come from the page cache), fio's clat of half of them" in shown("1")
    assert "may have come from the page cache" not in shown("3")
    with Store(tmp_path / "runs.db", must_exist=True) as kept:
        records = [kept.record(run) for run in (1, 2, 3)]
    assert "Buffered reads in 2 of 3 runs may have come from the page cache." in whole_answer(records, {}).belief


@pytest.mark.parametrize(("engine", "depth"), [("io_uring", 8), ("libaio", 8), ("io_uring", 1)])
def test_a_result_of_fio_with_other_flushes_than_its_job_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str, depth: int
) -> None:
    """fio 3.33 flushed 24,845 times in 55,444 writes below the words "fsync after every 10 writes"."""
    words = ["--rw=randwrite", "--bs=4k", "--fsync=10", "--number_ios=400", f"--ioengine={engine}", "--size=8m"]
    job = ["fio", "--name=j", f"--filename={tmp_path / 'f'}", *words, f"--iodepth={depth}"]
    subprocess.run([*job, "--output-format=json", f"--output={tmp_path / 'j.json'}"], check=True, capture_output=True)
    (told,) = json.loads((tmp_path / "j.json").read_text("utf-8"))["jobs"]
    apart = abs(told["sync"]["total_ios"] - told["write"]["total_ios"] / 10)
    found = answer(capsys, "import", str(tmp_path / "j.json"))
    said = [warning["text"] for warning in found["warnings"] if warning["id"] == "fio-flushes"]
    assert bool(said) == (apart > 4), said
    if said:
        writes, flushes = (f"{told[kind]['total_ios']:,}" for kind in ("write", "sync"))
        assert said[0].startswith(f"fio flushed {flushes} times in {writes} writes, not once after every 10 of them")
    assert main(["import", "--command", " ".join(job)]) == 0
    assert ("fio flushed again until the first flush" in " ".join(capsys.readouterr().err.split())) == (
        engine == "io_uring" and depth > 1
    )


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        ("operations = { write = 100 }\ndepth = 8\nflush_every = { writes = 4 }", "again until the first flush"),
        ("address = { kind = 'sequential', apart = true }\nworkers = 7", r"region of 2,048 requests in 7 parts"),
    ],
    ids=["flushes", "parts"],
)
def test_what_fio_cannot_do_is_refused_before_our_engine_has_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stream: str, said: str
) -> None:
    profile, file = tmp_path / "p.toml", tmp_path / "f"
    profile.write_text(f"title = 't'\n[[phase]]\nduration = '50ms'\n[[phase.stream]]\nrequest = '4KiB'\n{stream}\n")
    file.write_bytes(b"x" * (8 * MIB))
    before = hashlib.sha256(file.read_bytes()).digest()
    assert main(["crosscheck", str(profile), str(file), "--repeat", "2"]) == 2
    assert re.search(said, " ".join(capsys.readouterr().err.split()))
    assert hashlib.sha256(file.read_bytes()).digest() == before
    with Store() as store:
        assert store.runs() == []


def test_run_by_fio_is_recorded_in_the_same_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    brick = tmp_path / "brick"
    document = answer(
        capsys,
        "run",
        "sqlio-random-read-4",
        str(brick),
        "--size",
        "32MiB",
        "--engine",
        "fio",
        *SHORT,
        "--check",
        "iops>=1",
    )
    (row,) = document["totals"]
    assert (document["outcome"], document["engine"]["engine"], row["operation"]) == ("done", "fio", "read")
    assert row["requests"] > 0
    assert row["bytes"] == row["requests"] * 8192
    assert row["measures"]["service"]["count"] == row["requests"]
    assert document["plan"]["phase"][0]["stream"][0]["depth"] == 4
    assert document["verdicts"][0]["passed"]
    assert document["host"]
    assert {"by-fio"} <= {warning["id"] for warning in document["warnings"]}
    assert main(["show"]) == 0
    assert main(["report", "--output", str(tmp_path / "report")]) == 0


@pytest.mark.parametrize(("size", "requests"), [("12KiB", 853), ("20KiB", 512)])
def test_a_pass_of_blocks_that_do_not_divide_a_mib_has_all_that_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: str, requests: int
) -> None:
    """Multiples counted from the start of the file and not from its data, of which one more was never touched."""
    profile = tmp_path / "p.toml"
    profile.write_text(
        f"title = 'p'\n[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '{size}'\naddress = 'permutation'\n"
    )
    for engine in ([], ["--engine", "fio"]):
        found = answer(capsys, "run", str(profile), str(tmp_path / "brick"), "--size", "10MiB", *engine)
        assert [row["requests"] for row in found["totals"]] == [requests], engine


def test_a_fio_that_ends_long_before_its_time_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fio = shutil.which("fio")
    folder = tmp_path / "bin"
    folder.mkdir()
    shorten = '[ -f "$last" ] && sed -i s/^runtime=.*/runtime=50ms/ "$last"'
    (folder / "fio").write_text(f'#!/bin/sh\nfor last; do :; done\n{shorten}\nexec {fio} "$@"\n')
    (folder / "fio").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    words = ["run", "sqlio-random-read-4", str(tmp_path / "brick"), "--size", "16MiB", "--engine", "fio"]
    found = answer(capsys, *words, "--set", "duration=30s", "--set", "warmup=0s")
    (said,) = [warning["text"] for warning in found["warnings"] if warning["id"] == "fio-ended-early"]
    assert re.match(r"fio ended job \S+ after \d+\.?\d* ms, and 30\.0 s were asked for", said), said


def test_a_stream_whose_places_differ_in_fio_is_said_to_before_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["crosscheck", "overland-hd-video", str(tmp_path / "brick"), "--size", "32MiB", "--repeat", "1", *SHORT]
    found = answer(capsys, *words)
    assert found["answer"][0] == (
        "The places of requests of measure, hd-video differ: reads and writes share one cursor in Brickyard; fio has a"
        " cursor for each."
    )
    assert main(["show", "s1"]) == 0
    shown = capsys.readouterr().out
    assert "The same workload" not in shown
    by_fio = answer(capsys, "show", "2")
    assert "fio-cursors" in {warning["id"] for warning in by_fio["warnings"]}


def test_a_limit_on_the_response_time_is_judged_by_fios_lat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """fio counts service times alone; without a rate, its `lat` is the response time."""
    words = ["run", "sqlio-random-read-4", str(tmp_path / "brick"), "--size", "16MiB", "--engine", "fio", *SHORT]
    assert main([*words, "--check", "p95<=5s"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(r"Requirement p95<=5s: met, p95 [\d.]+ .s \(fio's lat\)", told)
    assert " File system " in told, "its facts are known, whoever opened the file"


def test_a_run_by_fio_is_watched_and_warned_of_as_ours_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its records had neither the write cache, nor others on the device, nor the test area."""
    brick = tmp_path / "brick"
    words = ["run", "sqlio-random-write-4", str(brick), "--size", "16MiB", *SHORT]
    ours = answer(capsys, *words)
    by_fio = answer(capsys, *words, "--engine", "fio")
    of_the_place = {"volatile_write_cache", "cache_unknown", "smaller_than_cache", "virtual_disk", "loop", "unwritten"}
    told, expected = ({warning["id"] for warning in document["warnings"]} for document in (by_fio, ours))
    assert told & of_the_place == expected & of_the_place
    assert "short" not in told, "fio has no intervals that a longer run would give"
    (watch,) = by_fio["watch"]["targets"]
    asked = by_fio["totals"][0]["bytes"]
    assert watch["foreign"]["write"]["ours_bytes"] == asked
    if watch["foreign"]["known"]:
        assert watch["foreign"]["write"]["device_bytes"] >= asked, "the kernel's own count"
    assert main(["show"]) == 0
    assert "Test area    16 MiB of a file" in capsys.readouterr().out


def test_runs_by_fio_are_told_from_ours_and_not_pooled_with_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "sqlio-random-read-4", str(tmp_path / "brick"), "--size", "16MiB", *SHORT]
    answer(capsys, *words)
    answer(capsys, *words, "--engine", "fio")
    assert main(["runs"]) == 0
    first, second = (line for line in capsys.readouterr().out.splitlines() if "sqlio" in line)
    assert ("by fio" in first, "by fio" in second) == (False, True)
    found = answer(capsys, "history", str(tmp_path / "brick"))
    assert [[point["run"] for point in one["points"]] for one in found["histories"]] == [[1], [2]]
    assert "by fio" in str(found["histories"][1]["load"])


def test_fio_leaves_our_header_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    brick = tmp_path / "brick"
    made = answer(capsys, "run", "dd-write", str(brick), "--size", "16MiB")
    assert made["outcome"] == "done"
    before = brick.read_bytes()
    document = answer(capsys, "run", "dd-write", str(brick), "--engine", "fio")
    assert document["totals"][0]["bytes"] == 16 * MIB
    after = brick.read_bytes()
    assert len(after) == len(before)
    assert after[:MIB] == before[:MIB]
    assert after[MIB:] != before[MIB:]
    # and ours still knows the file for its own
    assert answer(capsys, "run", "sqlio-random-write-4", str(brick), *SHORT)["outcome"] == "done"


def test_a_target_may_be_named_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    document = answer(capsys, "run", "dd-write", "a brick", "--size", "16MiB", "--engine", "fio")
    assert (document["outcome"], document["totals"][0]["bytes"]) == ("done", 16 * MIB)
    assert [path.name for path in tmp_path.iterdir()] == ["a brick"]


def test_fio_never_writes_what_we_would_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = tmp_path / "thesis"
    foreign.write_bytes(b"ten years of work " * 100_000)
    digest = hashlib.sha256(foreign.read_bytes()).hexdigest()
    for verb in (["run", "--engine", "fio"], ["crosscheck"]):
        assert main([verb[0], "dd-write", str(foreign), *verb[1:]]) == 2
        assert len(capsys.readouterr().err.splitlines()) >= 1
    assert hashlib.sha256(foreign.read_bytes()).hexdigest() == digest
    with Store(default_place()) as store:
        assert store.runs() == []


def test_crosscheck_alternates_and_compares_every_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The Exchange mix has regions that begin at odd places, several streams, and reads beside writes.
    document = answer(capsys, "crosscheck", "overland-exchange", "--size", "64MiB", "--repeat", "2", *SHORT)
    assert document["outcome"] == "done"
    assert document["runs"] == {"brickyard": [1, 3], "fio": [2, 4]}
    assert [(c["stream"], c["operation"]) for c in document["comparisons"]] == [
        ("database-read", "read"),
        ("database-write", "write"),
        ("log-write", "write"),
        ("backup-write", "write"),
        ("database-scan", "read"),
    ]
    for item in document["comparisons"]:
        assert item["fio"]["runs"] == item["brickyard"]["runs"] == 2
        assert item["fio"]["iops"] > 0
        assert item["difference"]["iops"] == pytest.approx(item["fio"]["iops"] / item["brickyard"]["iops"] - 1)
    assert [r["labels"]["engine"] for r in answer(capsys, "runs")["runs"]] == ["brickyard", "fio"] * 2
    assert answer(capsys, "show", "s1")["of_study"]["answer"] == document["answer"]
    assert main(["crosscheck", "sqlio-random-read-1", "--size", "32MiB", "--repeat", "1", *SHORT]) == 0
    out = capsys.readouterr().out
    assert "difference" in out
    assert "1 run each cannot decide" in out
    assert "; random 8 KiB; 1 worker × queue depth 1, 300 ms a run" in out


def test_a_comparison_takes_geometric_means_and_merges_histograms(tmp_path: Path) -> None:
    def runs(store: Store, counts: list[int], time_ns: int) -> list[int]:
        return [
            add_run(store, [interval(0, SECOND, cell([time_ns] * count)), phase_end(reason="requests")])
            for count in counts
        ]

    with Store(tmp_path / "runs.db") as store:
        ours = [store.record(run) for run in runs(store, [100, 200, 900], 2 * MS)]
        theirs = [store.record(run) for run in runs(store, [100, 220, 230], 3 * MS)]
    (found,) = compare(ours, theirs)
    assert found.ours.iops == pytest.approx((100 * 200 * 900) ** (1 / 3))
    apart = found.judged["iops"].found
    assert apart is not None
    assert apart.share == pytest.approx(found.theirs.iops / found.ours.iops - 1)
    assert f"read: IOPS of fio-3.33 {apart.share * 100:.1f} % (" in place_words(found, "fio-3.33")
    assert found.time_difference("mean") == pytest.approx(0.5, rel=0.02)
    assert found.ours.latency is not None
    assert found.ours.latency.count == 1200
    assert found.time_difference("p50") == pytest.approx(0.5, rel=0.02)


def compared(tmp_path: Path, ours: list[int], theirs: list[int]) -> Comparison:
    """Runs of one second with so many requests."""
    with Store(tmp_path / "runs.db") as store:
        sides = [
            [
                store.record(add_run(store, [interval(0, SECOND, cell([MS] * count)), phase_end(reason="requests")]))
                for count in counts
            ]
            for counts in (ours, theirs)
        ]
    (found,) = compare(*sides)
    return found


def test_times_are_judged_as_rates_are(tmp_path: Path) -> None:
    """The rates are those of the profile; p99 of one is half of that of the other."""
    with Store(tmp_path / "runs.db") as store:
        ours, theirs = (
            [
                store.record(add_run(store, [interval(0, SECOND, cell(times)), phase_end(reason="requests")]))
                for times in ([MS] * 1950 + [slow * MS + run * MS // 100] * 50 for run in range(5))
            ]
            for slow in (8, 4)
        )
    (found,) = compare(ours, theirs)
    said = place_words(found, "fio-3.33")
    assert "IOPS of fio-3.33 +0.0 % (-0.3 to +0.3): no difference seen over 5 runs each" in said
    assert re.search(r"p99 of the latency -4\d\.\d % \(-\S+ to -\S+\): seen over 5 runs each\.", said)
    document = comparison_document(found)["difference"]
    assert (document["latency_p99_seen"], document["iops_seen"]) == (True, False)  # type: ignore[index]


def test_latencies_are_the_whole_time_of_a_slot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By Little's law, the rate times the latency is the depth, of fio's `lat` as of ours. Our service time, which was
    compared, lacks the wait before the submission: of a depth of 32 it left out a tenth."""
    words = ["crosscheck", "random-4k-qd32", str(tmp_path / "brick"), "--size", "32MiB", "--repeat", "2"]
    found = answer(capsys, *words, "--set", "duration=1s", "--set", "warmup=0s")
    (item,) = found["comparisons"]
    for program in ("brickyard", "fio"):
        assert item[program]["iops"] * item[program]["latency_mean_ns"] / 1e9 == pytest.approx(32, rel=0.05)
    assert main(["compare", "1", "2"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "mean latency" in out
    assert "of Brickyard, the response time" in out


@pytest.mark.parametrize(
    ("pace", "mean_ms"), [({"loop": "closed"}, 2), ({"loop": "open", "rate": 9, "arrivals": "poisson"}, 1)]
)
def test_at_a_rate_the_lateness_is_left_out(pace: Json, mean_ms: int, tmp_path: Path) -> None:
    """fio counts from when it takes a request up, which at a rate is later than when the request was due."""
    times, whole = cell([MS] * 2000), cell([2 * MS] * 2000)
    both = {**times, "measures": {"service": times["measures"]["service"], "response": whole["measures"]["response"]}}
    of_fio = {**times, "measures": {"service": cell([mean_ms * MS] * 2000)["measures"]["service"]}}
    with Store(tmp_path / "runs.db") as store:
        ours, theirs = (
            store.record(add_run(store, [interval(0, SECOND, one), phase_end()], plan_=plan(stream(pace=pace))))
            for one in (both, of_fio)
        )
    (found,) = compare([ours], [theirs])
    assert found.time_difference("mean") == 0
    assert found.ours.mean_ns == pytest.approx(mean_ms * MS)


def test_each_repetition_has_a_seed_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Arrivals of one seed are one draw, however often they are repeated: their counts were equal to a request."""
    profile = tmp_path / "poisson.toml"
    profile.write_text(
        'title = "arrivals"\n[[phase]]\nduration = "300ms"\n[[phase.stream]]\noperations = { read = 100 }\n'
        'request = "4KiB"\ndepth = 16\npace = { loop = "open", rate = 1000, arrivals = "poisson" }\n'
    )
    document = answer(capsys, "crosscheck", str(profile), "--size", "16MiB", "--repeat", "3")
    seeds = [run["seed"] for run in answer(capsys, "show", "s1")["runs"]]
    assert seeds == [1, 1, 2, 2, 3, 3]
    assert "The profile sets the rate, so the times tell more." in document["answer"][0]


def test_too_few_runs_are_never_called_agreement(tmp_path: Path) -> None:
    wide = compared(tmp_path, [25_000, 45_000], [1_000, 1_800])
    rates = wide.judged["iops"]
    assert rates.is_decided is False
    said = verdict(rates)
    assert "they differ 25-fold; 2 runs each cannot decide (only " in said
    assert "--repeat " in said
    assert "not seen" not in said
    assert comparison_document(wide)["difference"]["iops_decided"] is False  # type: ignore[index]


def test_runs_that_would_see_a_difference_say_which(tmp_path: Path) -> None:
    close = compared(tmp_path, [1000, 1010, 990, 1005, 995], [1001, 1008, 992, 1004, 997])
    rates = close.judged["iops"]
    assert rates.is_decided is True
    assert "no difference seen over 5 runs each (" in verdict(rates)
    assert "% or more would be seen)" in verdict(rates)


def test_a_difference_that_is_seen_and_one_of_single_runs(tmp_path: Path) -> None:
    apart = compared(tmp_path, [1000, 1010, 990], [500, 505, 495])
    assert verdict(apart.judged["iops"]) == "seen over 3 runs each"
    assert verdict(apart.judged["latency_p99"]) == (
        "cannot be decided: some runs have too few requests for it; measure for longer"
    )
    (tmp_path / "few").mkdir()
    few = compared(tmp_path / "few", [1000, 1010, 990], [50, 51, 49])
    assert verdict(few.judged["latency_p99"]) == "not compared: one of them has no requests, or too few for it"
    (tmp_path / "single").mkdir()
    alone = verdict(compared(tmp_path / "single", [4000], [1000]).judged["iops"])
    assert alone.startswith("they differ 4-fold; 1 run each cannot decide")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["crosscheck", "burn-in"], "verify"),
        (["crosscheck", "overland-oltp"], "chain"),
        (["run", "overland-oltp", "--engine", "fio", "--dry-run"], "chain"),
        (["run", "obl-load", "--engine", "fio"], "ramp"),
        (["crosscheck", "sqlio-random-read-4", "--repeat", "0"], "--repeat 0"),
        (["crosscheck", "sqlio-random-read-4", "sim:anything"], "modelled brick"),
        (["run", "sqlio-random-read-4", "sim:anything", "--engine", "fio"], "modelled brick"),
        (["crosscheck", "no-such-load"], "no such profile"),
    ],
)
def test_what_fio_cannot_do_is_refused_before_anything_is_made(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--size", "32MiB", "--scratch", str(tmp_path)]) == 2
    err = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("note: ")]
    assert said in err[-1]
    assert list(tmp_path.iterdir()) == []


def test_without_fio_there_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["run", "sqlio-random-read-4", "--engine", "fio", "--size", "32MiB"]) == 2
    assert "fio is not installed" in capsys.readouterr().err


def test_a_fio_that_measures_nothing_is_a_failure_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = tmp_path / "fio"
    fake.write_text('#!/bin/sh\n[ "$1" = --version ] && exec echo fio-0\necho "out of luck" >&2; exit 3\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True).stdout == "fio-0\n"
    assert main(["run", "sqlio-random-read-4", "--engine", "fio", "--size", "32MiB", *SHORT]) == 1
    assert "fio measured nothing: out of luck" in capsys.readouterr().err


def test_ctrl_c_ends_fio_and_keeps_what_it_measured(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "brickyard", "run", "sqlio-random-read-4", str(tmp_path / "brick")),
            *("--size", "32MiB", "--engine", "fio", "--set", "duration=5min", "--store", str(store)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + PATIENCE_S
        # More than loading fio itself reads from disk.
        while not ((fio := fio_of(process.pid)) and read_bytes(fio) > 100 * MIB):
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
    finally:
        process.kill()
        process.wait()
    assert not Path(f"/proc/{fio}").exists()
    with Store(store) as kept:
        record = kept.record(1)
    assert record.info.outcome == "interrupted"
    assert sum(item.requests for item in record.intervals) > 0


def read_bytes(pid: str) -> int:
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("read_bytes")))


def fio_of(pid: int) -> str | None:
    """A child of the process that has become fio."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(FileNotFoundError):  # it has ended meanwhile
            if Path(f"/proc/{child}/comm").read_text().strip() == "fio":
                return child
    return None


def test_a_millisecond_of_fios_clock_is_no_difference(tmp_path: Path) -> None:
    """Both sent 6,000 requests; fio's three runs lasted 3,001 ms each, and +0.0 % was called seen."""
    sides = []
    with Store(tmp_path / "runs.db") as store:
        for lasts_ms in (3000, 3001):
            made = [interval(0, lasts_ms * MS, cell([MS] * 6000)), phase_end(reason="requests")]
            sides.append([store.record(add_run(store, made)) for _ in range(3)])
    (found,) = compare(*sides)
    rates = found.judged["iops"].found
    assert rates is not None
    assert rates.share == pytest.approx(-1 / 3001)
    assert rates.seen is False

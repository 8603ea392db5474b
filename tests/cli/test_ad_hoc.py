"""A load in fio's words on the command line is a profile, which is shown, can be kept, and asks for what was said."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from scipy import stats

from brickyard.analysis.figures.named import FIGURES
from brickyard.analysis.judging.summary import circumstances
from brickyard.cli import main
from brickyard.cli.parts.ad_hoc import NO_EFFECT, AdHoc
from brickyard.errors import FAILED
from brickyard.report.page import render
from brickyard.store import Store
from support import MS, SECOND, add_run, cell, interval, phase_end, plan

WORDS = [
    "--rw",
    "randrw",
    "--bs",
    "4k",
    "--iodepth",
    "32",
    "--numjobs",
    "4",
    "--rwmixread",
    "70",
    "--rate",
    "5000",
    "--runtime",
    "30",
]


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["run", *words, "--dry-run", "--json"]) == 0
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)["plan"]
    return plan


def test_the_words_of_fio_make_a_load(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, *WORDS)
    (phase,) = plan["phase"]
    (stream,) = phase["stream"]
    assert (plan["io"], plan["engine"], phase["duration"], phase["passes"]) == ("direct", "auto", "30000000000ns", None)
    assert (stream["workers"], stream["depth"], stream["request"][0]["size"]) == (4, 32, 4096)
    assert (stream["operations"]["read"], stream["operations"]["write"]) == (70, 30)
    assert stream["pace"] == {"loop": "open", "rate": 5000.0, "arrivals": "constant"}


TITLES = {
    "--rw randread --bs 16k --iodepth 4": "randread, 16k, depth 4",
    "--rw randrw --numjobs 3 --rwmixread 70 --rate-iops 700,300": (
        "randrw, 4k, depth 1, 3 workers, 70 % reads, 3,000 requests/s"
    ),
    "--rw write --numjobs 2 --rate 500 --direct 0": "write, 4k, depth 1, 2 workers, buffered, 500 requests/s",
    "--rw randread --percentage-random 30": "randread, 4k, depth 1, 30 % random",
    "--rw randread --random-distribution zipf": "randread, 4k, depth 1, zipf:1.1",
    "--rw randread --random-distribution pareto:0.2": "randread, 4k, depth 1, pareto:0.2",
    "--rw randread --random-distribution normal:10": "randread, 4k, depth 1, normal:10",
    "--rw randread --random-distribution zoned:60/10:40/90": (
        "randread, 4k, depth 1, zoned:60/0B..10%:40/10%..100%"
    ),
    "--rw randread --norandommap": "randread, 4k, depth 1, norandommap",
    "--rw read:12k --thinktime 1ms": "read, 4k, depth 1, pause 1ms, stride 16k",
    "--rw randwrite --sync dsync --fdatasync 8": "randwrite, 4k, depth 1, sync=dsync, fdatasync=8",
    "--rw randwrite --fsync 1": "randwrite, 4k, depth 1, fsync=1",
    "--rw randrw --bs 4k,1m": "randrw, 4k,1m, depth 1, 50 % reads",
    "--rw randread --bssplit 4k/60:64k/40": "randread, 4k/60:64k/40, depth 1",
    "--rw randread --ioengine psync --iodepth 9": "randread, 4k, depth 1",
}  # fmt: skip


def test_all_that_options_ask_for_is_in_the_title(capsys: pytest.CaptureFixture[str]) -> None:
    for words, title in TITLES.items():
        assert planned(capsys, *words.split())["title"] == title
    not_asked = {"name", "filename", "runtime", "ramp_time", "save", *NO_EFFECT}
    told = {word.replace("-", "_").strip("_") for words in TITLES for word in words.split() if word.startswith("--")}
    assert {field.name for field in fields(AdHoc)} - not_asked - told == {"end_fsync"}


def test_a_rate_with_a_unit_is_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "--rw", "read", "--bs", "64k", "--rate", "20MiB")
    assert plan["phase"][0]["stream"][0]["pace"]["rate"] == 320
    assert plan["title"].endswith(", 320 requests/s")


def test_a_depth_holds_for_buffered_requests_unless_fios_libaio_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--rw", "randread", "--iodepth", "16", "--direct", "0")
    for engine, depth in (((), 16), (("--ioengine", "libaio"), 1)):
        assert planned(capsys, *words, *engine)["phase"][0]["stream"][0]["depth"] == depth


def test_a_rate_counts_requests_of_all_sizes_and_fios_rate_those_of_the_smallest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = ("--rw", "randread", "--bssplit", "4k/90:64k/10")
    for option, rate in (("--rate", 1000), ("--rate-iops", 400)):
        plan = planned(capsys, *sizes, option, "1000")
        assert plan["phase"][0]["stream"][0]["pace"]["rate"] == rate


def test_a_region_as_large_as_its_whole_device_is_refused_with_the_header_and_what_to_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "--rw", "randread", "--runtime", "100ms", "--set", "region=1MiB..9MiB", str(tmp_path / "f")]
    assert main([*words, "--size", "8MiB"]) == 2
    told = capsys.readouterr().err
    assert "ends behind the target's 8MiB; the first MiB of a device, and of a file made by Brickyard, is its" in told
    assert 'End the region at 100 % (region = "1MiB..100%", in a fio job size=100%), or use a larger target' in told


def test_rates_and_fractions_of_seconds_are_taken_as_fio_means_them(capsys: pytest.CaptureFixture[str]) -> None:
    """fio 3.33 was seen to do 1,024 requests in a second with `rate_iops=1k`."""
    for words, rate, note in (
        ("--rw randread --rate_iops 5000", 5000, ""),
        ("--rw randrw --rate-iops=5k --numjobs 2", 20480, "in fio: 20,480 requests/s together"),
    ):
        assert main(["run", *words.split(), "--dry-run", "--json"]) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["plan"]["phase"][0]["stream"][0]["pace"]["rate"] == rate
        assert note in err
    assert "rate_iops=5k is 5,120 requests/s, as fio reads it (k is 1024)" in err
    (phase,) = planned(capsys, "--rw", "randread", "--runtime", "0.3", "--ramp-time", "0.25s")["phase"]
    assert (phase["duration"], phase["warmup"]) == ("300000000ns", "250000000ns")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rw", "read", "--bs", "4KB"), "--bs 4KB: KB is 1024 bytes to fio and 1000 to others; write 4k"),
        (("--rw", "read", "--bs", "4MB"), "--bs 4MB: MB is a power of 1024 to fio and of 1000 to Brickyard; write 4m"),
        (("--rw", "read", "--bs", "64k,4kb"), "write 64k,4k"),
        (("--rw", "read", "--bs", "64KiB"), "KiB is a power of 1000 to fio and of 1024 to Brickyard; write 64k"),
        (("--rw", "read", "--bssplit", "4kib/60:64k/40"), "write 4k/60:64k/40"),
        (
            ("--rw", "read", "--bs", "4k-16k"),
            "Write --bssplit 4k/25:8k/25:12k/25:16k/25: `brickyard run --rw read --bss",
        ),
        (
            ("--rw", "read", "--bs=512-1m"),
            "--bs 512-1m: is one size, or one each for reads and writes. Write --bssplit 4k/",
        ),
        (("--rw", "read", "--rate", "20MB/s"), "write MiB"),
        (("--rw", "randread", "--rwmixread", "70"), "--rw randread does not mix"),
    ],
)
def test_what_fio_and_we_mean_differently_is_refused(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words, "--dry-run"]) == 2
    assert said in capsys.readouterr().err


def test_the_profile_is_shown_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "p.toml"
    words = ["--rw", "randread", "--runtime", "100ms", "--save", str(kept)]
    store = ["--store", str(tmp_path / "runs.db"), "--json"]
    assert main(["run", *words, str(tmp_path / "target"), "--size", "4MiB", *store]) == 0
    out, err = capsys.readouterr()
    shown = "\n".join(line[2:] for line in err.splitlines() if line.startswith("  "))
    assert kept.read_text().strip() in shown
    assert json.loads(out)["targets"] == [str(tmp_path / "target")]
    assert main(["run", str(kept), str(tmp_path / "target"), *store]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["profile_hash"] == json.loads(out)["profile_hash"]
    assert main(["runs", *store[:2]]) == 0
    assert capsys.readouterr().out.count("p, randread, 4k, depth 1 ") == 2
    # What is wrong with targets is said alone, not behind the profile.
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    both = [str(tmp_path / "target"), str(link), "--each"]
    together = f"{tmp_path / 'target'}:{tmp_path}"
    refusals = (
        (both, "are the same file"),
        ([str(tmp_path / "nosuch")], "no such file or device"),
        ([together], "with --each for the same load on each"),
    )
    for targets, said in refusals:
        assert main(["run", "--rw", "randwrite", *targets, "--dry-run"]) == 2
        err = capsys.readouterr().err
        assert said in err
        assert "title" not in err
    assert main(["run", "--rw", "randwrite", "--runtime", "100ms", *both, *store]) == 2
    shown = "".join(capsys.readouterr())
    assert f"{both[0]} and {link} are the same file" in shown
    assert "title" not in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--iodepth", "4"], "needs --rw"),
        (["sqlio-random-read-4", "--rw", "read"], "two workloads"),
        (["p.toml", "f", "--rw", "read"], "p.toml and --rw are two workloads, which cannot be given together; leave"),
        (["sim:p.toml", "--rw", "read"], "p.toml: the brick file cannot be read"),
        (["l.byt", "f", "--rw", "read"], "l.byt and --rw are two workloads"),
        ([], "name a profile"),
        (
            ["randread"],
            "randread: is a word of fio's --rw, not a profile; name the shipped profile random-4k-qd32, or write --rw "
            "randread: `brickyard run --rw randread --dry-run`",
        ),
        (
            ["--rw", "randrw", "--rate", "500,200"],
            "each direction (reads,writes): `brickyard run --rw randrw --rate-iops 500,200 --dry-run`",
        ),
        (["--rw", "sideways"], "rw=sideways"),
        (["--rw", "readrand"], "--rw=readrand has no counterpart here; there are read, write, trim, randread, "),
        (["--rw", "read", "--bs=0"], "--bs=0: must be above 0, such as 4k"),
        (["--rw", "read", "--runtime", "0"], "--runtime 0: must be above 0"),
        (["--rw", "read", "--rate", "fast"], "--rate fast"),
        (
            ["--rw", "read", "--rate", "5k"],
            "--rate 5k: is bytes/s in fio; write 5000 for requests/s or 5KiB for bytes/s: "
            "`brickyard run --rw read --rate 5000 --dry-run`",
        ),
        (["--rw", "read", "--rate=1.5M/s"], "or 1.5MiB for bytes/s: `brickyard run --rw read --rate 1.5MiB --dry-run`"),
        (["--rw", "read", "--rate", "5", "--rate-iops", "5"], "are two rates"),
        (["--rw", "read", "--percentage-random=30"], "`brickyard run --rw randread --percentage-random=30 --dry-run`"),
        (["--rw", "rw", "--random-distribution", "zipf"], "fio ignores the option there; write --rw randrw"),
        (
            ["--rw", "randread", "--percentage-random", "30", "--random-distribution", "zipf"],
            "percentage_random with random_distribution=zipf: no address here has both",
        ),
        (["--rw", "randwrite", "x", "--overwrite", "--runtime", "2"], "--overwrite: its value is missing; the target"),
        (
            ["-rw", "read", "x"],
            "Options of more than one letter have two dashes: `brickyard run --rw read x --dry-run`",
        ),
        (["--rw", "read", "-bs=4k", "x"], "two dashes: `brickyard run --rw read --bs=4k x --dry-run`"),
        (["--rw", "read", "--offset=10m", "--size", "20m", "x"], "--set region=10MiB..30MiB in the place of both"),
        (["--rw", "read", "--offset=10%", "--size=20m", "x"], "--set region=START..END in the place of both"),
        (
            ["--rw", "read", "--size=10%", "x"],
            "for a part of the target, write --set region=0..10%: `brickyard run --rw read --set region=0..10% x",
        ),
        (["--rw", "read", "--bs", "-4k", "x"], "--bs -4k: it cannot be below zero"),
        (["--rw", "randrw", "--rwmixread", "0.7", "x"], "`brickyard run --rw randrw --rwmixread 70 x --dry-run`"),
        (["--rw", "read", "--buffered", "0"], "or --direct 1"),
        (["--rw", "read", "--rate", "0"], "--rate=0: must be a number from 0.001"),
        (
            ["--rw", "reed", "--bs", "4q", "--iodepth=0", "--runtime", "1.5x"],
            "randtrim, rw, readwrite, randrw; did you mean read?; --bs=4q: not a size as fio writes it, such as 4k; "
            "--iodepth=0: must be a number from 1 to 4096; --runtime=1.5x: not a time",
        ),
        (
            ["--rw", "read", "--bs=4q", "--readonly", "--nonesuch"],
            "lists the options. Wrong value: --bs=4q: not a size as fio writes it, such as 4k",
        ),
        (["--rw", "read", "--rwmixread=7", "--nonesuch"], "Wrong value: --rwmixread 7: --rw read does not mix"),
        (["sqlio-random-read-4", "--set", "iodepth=8"], "fio's `iodepth` is `depth` here"),
        (["sqlio-random-read-4", "--set", "numjobs=8"], "fio's `numjobs` is `workers` here"),
    ],
)
def test_what_is_amiss_is_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *words, "--dry-run"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--status-interval=1", "a line every 5 s"),
        ("--buffered=1", "--direct 0"),
        ("--loops=3", "--set passes=3"),
        ("--offset=1g", "region"),
        ("--disk_util=0", "changes nothing of the load"),
        ("--hipri", "how completions are found is chosen here"),
        ("--bsrange=4k-8k", "Write --bssplit"),
        ("--time_based=0", "a run here lasts for --runtime"),
        ("--ioengine=mmap", "--ioengine=mmap has no counterpart here; there are io_uring"),
        ("--filename=x", "both name a target"),
    ],
)
def test_an_option_of_fio_that_is_not_needed_is_named(
    option: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--rw", "randread", "sim:iodrive-160-slc", option]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "did you mean" not in err.lower()


def test_a_line_of_fio_is_taken_and_what_is_not_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    line = "--readwrite=randread --name=x --ioengine=sync --time_based --group_reporting --thread=1 --iodepth=4"
    assert main(["run", *line.split(), "--filename=sim:iodrive-160-slc", "--norandommap", "--dry-run", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["targets"], found["plan"]["title"]) == (
        ["sim:iodrive-160-slc"],
        "x: randread, 4k, depth 1, norandommap",
    )
    assert found["plan"]["phase"][0]["stream"][0]["address"] == {"kind": "random"}
    for said in ("iodepth=4 has no effect", "--time_based has no effect", "--group_reporting has", "--thread has"):
        assert f"note: {said}" in err
    unknown = ("--readonly", "--loops=3", "--verify_only=1", "--nonesuch")
    assert main(["run", *line.split(), *unknown]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    remedies = "writes nothing", "--set passes=3", "verify = true", "run --help lists the options"
    for option, remedy in zip(unknown, remedies, strict=True):
        assert remedy in err.partition(f"{option.partition('=')[0]}: ")[2]
    assert main(["run", "--rw", "read", "--filename", "/a:/b"]) == 2
    assert "add --each" in capsys.readouterr().err


HABITS = {
    "run sqlio-random-read-4 sim:msr-2003-wd": (
        ("--duration=30", "--set duration=30"), ("--threads=4", "--set workers=4"), ("-t4", "--set workers=4"),
        ("--bs=4k", "--set request=4k"), ("--direct=1", "--set io=direct"), ("--qd 32", "--set depth=32"),
        ("--rate=100", "--set 'pace="), ("--runs 10", "--repeat 10`"), ("--export-json o.json", "--json"),
        ("--export-csv o.csv", "--format csv -o run.csv"), ("--max-latency=5ms", "--ruler 'p99<=20ms'"),
        ("bs=1M count=100", "a word of dd"), ("--verbose", "brickyard show"), ("--yes", "--overwrite DEVICE"),
        ("--bsrange 4k-8k", 'share=50},{size="8KiB"'), ("-w30", "choose another"),
        ("-Sh", "a whole command line of diskspd"),
    ),
    "run --rw randread sim:msr-2003-wd": (
        ("--duration=30", "sim:msr-2003-wd --runtime 30`"), ("-t 4", "Write --numjobs 4"), ("-b 4k", "Write --bs 4k"),
        ("--bsrange 4k-8k", "sim:msr-2003-wd --bssplit 4k/50:8k/50`"), ("--bsrange 4k-1m", "--bssplit 4k/60:64k/40."),
        ("--offset=1m", "sim:msr-2003-wd --set region=1MiB..100%`"), ("--offset 20%", "region=20%..100%"),
        ("--number_ios=100", "Write --set requests=100, of all workers together"), ("--loops 2", "--set passes=2`"),
        ("--io_size=1g", "--set bytes=1GiB, of all workers together"), ("--loops", "passes, bytes or requests"),
        ("--warmup=3s", "Write --ramp-time 3s"), ("--nrfiles=4", "--each"), ("--stonewall", "read from jobs alone"),
        ("-o o.html", "brickyard report RUN -o NAME"), ("-o8", "Write --iodepth 8"),
    ),
    "characterize /tmp/none": (
        ("--rw=randread", "brickyard run --rw randread"), ("--bs=4k", "--set request=4k"), ("--runs 3", "s1 s2"),
        ("--iodepth=32", "--set depth=32"), ("--output-format=json", "--json"), ("--ioengine=libaio", "engine=psync"),
    ),
    "compare 1 2": (
        ("--threshold 5%", "--check --tolerance 5%"), ("--old a", "BEFORE AFTER"), ("--bs=4k", "measures nothing"),
        ("--export-json o.json", "Write --json"), ("--metric iops", "--figure iops"), ("--html o", "-o FOLDER"),
    ),
    "import job.fio": (
        ("--bs=4k", "-o p.toml and change it"), ("--name=x", "has the name of its file"), ("--csv", "Write --json"),
        ("--filename=x", "Name the file itself"), ("--runtime=3", "--set KEY="), ("--quiet", "on stderr"),
    ),
    "export latest": (
        ("--csvfile x.csv", "--format csv -o FILE"), ("--export-json x", "--format json -o FILE"),
        ("--iodepth=4", "measures nothing"), ("--force", "is replaced"), ("--percentile_list=99", "all percentiles"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", HABITS)
def test_habits_of_other_tools_get_the_remedy_of_the_verb(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option, said in HABITS[words]:
        assert main([*words.split(), *option.split()]) == 2, option
        err = capsys.readouterr().err
        assert said in err, (option, err)
        assert "did you mean" not in err.lower()
        assert err.count("\n") == 1, err


def test_a_guess_is_made_only_where_letters_are_alike(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--rw", "read", "--runtme=3"]) == 2
    assert "did you mean --runtime?" in capsys.readouterr().err
    # Commands of remedies have the user's store.
    assert main(["run", "--rw", "read", "--csv", "--verbose", "--store=a b.db"]) == 2
    said = capsys.readouterr().err
    assert "`brickyard export latest --format csv -o run.csv --store 'a b.db'`" in said
    assert "`brickyard show RUN --store 'a b.db'`" in said
    assert main(["results", "--store", "x.db"]) == 2
    assert "`brickyard runs --store x.db` lists runs" in capsys.readouterr().err
    assert main(["runs", "--vus", "3"]) == 2
    assert "did you mean" not in capsys.readouterr().err.lower()


def test_a_run_begins_with_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["run", "--rw", "randread", "--runtime", "1s", "sim:iodrive-160-slc", *store]) == 0
    assert main(["show", "latest", *store]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert 0 < out.index("requests/s") < out.index("Before you rely on it") < out.index("Target")


def test_what_was_submitted_in_a_call_is_in_the_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path / "runs.db")]
    words = ["run", "--rw", "randread", "--iodepth", "8", "--runtime", "100ms", str(tmp_path / "f"), *store]
    assert main([*words, "--size", "8MiB", "--set", "submit=3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["engine"]
    if found["engine"] != "io_uring":
        pytest.skip("this host has no io_uring")
    assert (found["submit"], found["submit_reason"]) == (3, "asked for")
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"]["submit_reason"] not in ("", "asked for")
    assert main(["show", "1", *store]) == 0
    assert "at most 3 requests are submitted in one call (asked for)" in " ".join(capsys.readouterr().out.split())
    with Store(tmp_path / "runs.db") as kept:
        lines = dict(circumstances([kept.record(1), kept.record(2)]))
    assert "in 1 of 2 runs at most 3 requests" in lines["Engine"]


def test_a_key_of_fio_in_a_profile_gets_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.toml").write_text("[[phase]]\nduration='1s'\n[[phase.stream]]\nrequest='4K'\niodepth=8\n")
    assert main(["run", str(tmp_path / "p.toml"), "--dry-run"]) == 2
    assert "line 5: iodepth: no such key; fio's `iodepth` is `depth` here" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["load-curve", "sqlio-random-read-4", "sim:iodrive-160-slc", "--limit", "p99:20"],
        ["advise", "predict", "sim:iodrive-160-slc", "sqlio-random-read-4", "--limit", "p99:20"],
        ["run", "obl-load", "--set", "ramp.limit.above=20", "--dry-run"],
        ["run", "obl-load", "--set", "ramp.limit={when='throughput',below=200}", "--dry-run"],
        ["run", "sqlio-random-read-4", "--set", "stop={when='p99',above=20}", "--dry-run"],
        ["run", "sqlio-random-read-4", "sim:terraserver-2003", "--condition", "rebuilding", "--rebuild-rate", "20"],
    ],
)
def test_a_limit_without_a_unit_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "of what? write" in capsys.readouterr().err


def test_doctor_and_run_agree_on_direct_io(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a file system in memory, which takes O_DIRECT and ignores it."""
    target = Path("/dev/shm/brickyard-test-direct")
    try:
        words = ["run", "--rw", "read", "--runtime", "50ms", str(target), "--size", "4MiB"]
        assert main([*words, "--store", str(tmp_path / "runs.db"), "--json"]) == 0
        by_run = json.loads(capsys.readouterr().out)["engine"]["io"]
        assert main(["doctor", str(target), "--json"]) == 0
        (check,) = (c for c in json.loads(capsys.readouterr().out)["checks"] if c["item"] == "O_DIRECT")
        assert (by_run, check["state"]) == ("buffered", "missing")
    finally:
        target.unlink(missing_ok=True)


def test_a_history_has_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path / "runs.db")]
    words = ["run", "--rw", "randread", "--runtime", "100ms", "sim:iodrive-160-slc", *store]
    assert main([*words, "--repeat", "2"]) == 0
    capsys.readouterr()
    assert main(["history", "sim:iodrive-160-slc", *store]) == 0
    assert " IOPS" in capsys.readouterr().out
    for figure, unit in (("iops", "IOPS"), ("mib_per_s", "MiB/s"), ("response_p99", "ns")):
        assert main(["history", "sim:iodrive-160-slc", "--figure", figure, *store, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["unit"] == unit


def test_repetitions_begin_with_their_mean_and_its_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The interval is held against scipy's of Student, the rates against those of each run."""
    words = ["run", "--rw", "randread", "--iodepth", "4", "--runtime", "10", "sim:cheetah-15k4-300"]
    words += ["--store", str(tmp_path / "runs.db")]
    assert main([*words, "--repeat", "4", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    rates = [run["totals"][0]["iops"] for run in told["runs"]]
    (iops,) = (item for item in told["repetitions"] if item["figure"] == "iops")
    assert iops["values"] == rates
    logarithms = [math.log(rate) for rate in rates]
    low, high = stats.t.interval(0.95, len(rates) - 1, fmean(logarithms), stats.sem(logarithms))
    assert (iops["low"], iops["high"]) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-9)
    limit = math.sqrt(rates[0] * rates[1])  # the same seeds give the same two rates again
    words += ["--set", "engine=psync"]
    assert main([*words, "--repeat", "2", "--ruler", f"iops>={limit}", "--ruler", "iops>=1", "--check"]) == FAILED
    out, err = capsys.readouterr()
    assert err.count('note: engine = "psync" has no effect on a modelled brick') == 1, "both runs have the note"
    assert 0 < out.index("95 % interval") < out.index("Run 5"), "before the single runs"
    assert "ad-hoc, randread, 4k, depth 4, read" in out
    worst = 5 if rates[0] < rates[1] else 6
    assert f"met in 1 of 2 runs; run {worst}: fail, {min(rates[:2]):,.0f} IOPS" in out
    assert "Requirement iops>=1: met in both runs, least headroom × " in out
    assert main(["show", "s1", "--store", str(tmp_path / "runs.db")]) == 0
    shown = capsys.readouterr().out
    assert 0 <= shown.index("Repetitions together") < shown.index("Run 1"), "what they come to, and then each"
    with Store(tmp_path / "runs.db", must_exist=True) as kept:
        page = render([kept.record(run) for run in (1, 2, 3, 4)], None, [])
    mean = FIGURES["iops"].text(iops["centre"])
    (row,) = re.finditer(rf">4</td>\s*<td[^>]*>{re.escape(mean)}</td>", page)
    assert row.start() < page.index("<h2>All figures")
    assert main(words) == 0
    assert "95 % interval" not in capsys.readouterr().out
    assert main(["runs", "--store", str(tmp_path / "runs.db")]) == 0
    listed = capsys.readouterr().out
    assert "randread, 4k, depth 4" in listed
    assert "condition" not in listed


def test_a_history_marks_runs_whose_reads_never_reached_the_medium(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hole = tmp_path / "hole"
    with hole.open("wb") as file:
        file.truncate(64 << 20)
    assert main(["run", "--rw", "randread", "--bs", "4k", "--runtime", "300ms", str(hole)]) == 0
    capsys.readouterr()
    assert main(["history", str(hole)]) == 0
    assert "run 1: never written: reads of parts that were never written do not reach" in capsys.readouterr().out


def test_repetitions_say_first_that_their_rate_is_not_that_of_the_storage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hole = tmp_path / "hole"
    with hole.open("wb") as file:
        file.truncate(64 << 20)
    assert main(["run", "--rw", "randread", "--bs", "4k", "--runtime", "100ms", "--repeat", "2", str(hole)]) == 0
    told = "This is not the rate of the storage in runs 1-2: 100 % of what may be read was never written."
    said = [capsys.readouterr().out]
    assert main(["show", "s1"]) == 0
    said.append(capsys.readouterr().out)
    assert all(0 <= text.index(told) < text.index("Repetitions together") for text in said)
    assert main(["report", "s1", "-o", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page" / "report.html").read_text("utf-8")
    assert page.count(told) == 1
    assert page.index(told) < page.index("2 runs together") < page.index("Run 1, ")


@pytest.mark.parametrize(
    ("region", "share", "word"),
    [("64MiB..128MiB", "100 %", "not known"), ("0B..64MiB", "", "met"), ("32MiB..96MiB", "50 %", "not known")],
)
def test_what_was_never_written_counts_within_what_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], region: str, share: str, word: str
) -> None:
    """Reads of a hole met a required rate, as half of the file was written, and reads of that half did not."""
    half = tmp_path / "half"
    with half.open("wb") as file:
        file.write(os.urandom(64 << 20))
        file.truncate(128 << 20)
        os.fsync(file.fileno())
    words = ["run", "--rw", "randread", "--bs", "4k", "--runtime", "300ms", "--set", f"region={region}", str(half)]
    limit = "iops>=1" if word == "met" else "p99<=10s"
    main([*words, "--check", limit])
    said = capsys.readouterr().out
    assert f"Requirement {limit}: {word}" in said
    told = f"This is not the rate of the storage: {share} of what may be read was never written."
    assert (told in said) if share else ("never written." not in said)


def test_what_was_written_into_preallocated_space_counts_as_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As fio lays out a file. Its pages are dirty, and the file system still says that nothing was written."""
    laid_out = tmp_path / "file"
    with laid_out.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 64 << 20)
        file.write(os.urandom(64 << 20))
    assert (
        main(["run", "--rw", "randread", "--bs", "4k", "--runtime", "300ms", str(laid_out), "--check", "iops>=1"]) == 0
    )
    assert "never written" not in capsys.readouterr().out


def test_switches_of_fio_take_a_value_behind_a_blank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The value was taken for a target, and a file of that name was made."""
    monkeypatch.chdir(tmp_path)
    switches = ["--randrepeat", "0", "--end_fsync", "1", "--gtod_reduce=0"]
    assert main(["run", "--rw", "randread", *switches, "--runtime", "300ms", "x", "--size", "16m"]) == 0
    assert [file.name for file in tmp_path.iterdir()] == ["x"]
    capsys.readouterr()


def test_a_stream_ends_when_its_own_loop_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was said to end with the interval: 1,500 requests in "2.00 s", at 1,287/s."""
    lines = ["title = 'p'", "interval = '200ms'", "[[phase]]", "requests = 1200"]
    for target, (name, think) in enumerate((("fast", "500us"), ("slow", "2ms"))):
        lines += [
            "[[phase.stream]]",
            f"name = '{name}'",
            f"target = {target}",
            "request = '4KiB'",
            f"think = '{think}'",
        ]
    profile = tmp_path / "p.toml"
    profile.write_text("\n".join(lines))
    words = ["run", str(profile), str(tmp_path / "a"), str(tmp_path / "b"), "--size", "16MiB", "--json"]
    assert main(words) == 0
    fast, slow = json.loads(capsys.readouterr().out)["totals"]
    done = fast["requests"]
    assert fast["iops"] * fast["ended_ns"] / 1e9 == pytest.approx(done, rel=1e-6)
    lasted_ns = done * (fast["measures"]["response"]["mean_ns"] + 500_000)
    assert fast["ended_ns"] == pytest.approx(lasted_ns, rel=0.15)
    assert slow["iops"] < fast["iops"]


def test_a_history_tells_ad_hoc_loads_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path / "runs.db")]
    for depth, runtime in (("1", "1"), ("8", "2500ms")):
        words = ["run", "--rw", "randread", "--iodepth", depth, "--runtime", runtime, "sim:cheetah-15k4-300"]
        assert main([*words, *store]) == 0
    capsys.readouterr()
    assert main(["history", "sim:cheetah-15k4-300", *store, "--json"]) == 0
    named = [item["load"] for item in json.loads(capsys.readouterr().out)["histories"]]
    assert len({tuple(name) for name in named}) == len(named) == 2
    assert main(["compare", "1", "2", *store]) == 0
    assert "ad-hoc: duration: 1.00s → 2.50s, queue depth: 1 → 8" in " ".join(capsys.readouterr().out.split())


def test_a_comparison_names_mixes_of_sizes_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path / "runs.db")]
    for words in ("--bs=16k --rw=randread", "--bssplit=4k/60:16k/40 --rw=randread", "--bs=4k,8k --rw=randrw"):
        assert main(["run", *words.split(), "--runtime=1", "sim:cheetah-15k4-300", *store]) == 0
    for both, said in (
        (["1", "2"], "request size: 16 KiB → 4 KiB (60 %) + 16 KiB (40 %)"),
        (["2", "3"], "request size: 4 KiB (60 %) + 16 KiB (40 %) → 4 KiB (reads) + 8 KiB (writes)"),
    ):
        capsys.readouterr()
        assert main(["compare", *both, *store]) == 0
        assert said in " ".join(capsys.readouterr().out.split())


def test_a_history_and_a_list_tell_other_arrays_and_conditions_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(tmp_path / "runs.db")]
    words = ["run", "--rw", "randread", "--runtime", "1", "sim:terraserver-2003", *store]
    for more in ([], ["--set", "members=4"], ["--condition", "degraded", "--repeat", "2"]):
        assert main([*words, *more]) == 0
    capsys.readouterr()
    assert main(["history", "sim:terraserver-2003", *store, "--json"]) == 0
    told = [(item["load"], len(item["points"])) for item in json.loads(capsys.readouterr().out)["histories"]]
    name = ["ad-hoc", "randread, 4k, depth 1"]
    assert told == [([*name, "read"], 1), ([*name, "members=4", "read"], 1), ([*name, "degraded", "read"], 2)]
    # A failure in the run tells its parts apart, and hides nothing of what was set.
    for members in ("4", "12"):
        failing = ["--set", f"members={members}", "--set", "fail_at=1s", "--set", "spares=1"]
        assert main([*words[:4], "3", *words[5:-2], "--store", str(tmp_path / "failing.db"), *failing]) == 0
    capsys.readouterr()
    assert main(["history", "sim:terraserver-2003", "--store", str(tmp_path / "failing.db"), "--json"]) == 0
    labels = [tuple(item["load"]) for item in json.loads(capsys.readouterr().out)["histories"]]
    assert len(set(labels)) == len(labels) >= 4
    assert all(any(part.startswith("members=") for part in label) for label in labels)
    assert main(["runs", *store]) == 0
    listed = capsys.readouterr().out
    assert re.search(r"s1 .*: randread, 4k, depth 1, 2 runs \(3-4\), degraded ", listed)
    assert re.search(r" 2 .*members=4 ", listed)
    assert main(["show", "1", *store]) == 0
    assert "was measured for 1 interval;" in " ".join(capsys.readouterr().out.split())


def headline(capsys: pytest.CaptureFixture[str], tmp_path: Path, *words: str) -> tuple[str, str]:
    """The first sentence of a run on a model, and what the progress said at last."""
    assert main(["run", "--bs", "4k", *words, "sim:msr-2003-wd", "--store", str(tmp_path / "runs.db")]) == 0
    told = capsys.readouterr()
    return " ".join(told.out.split()), told.err


def test_an_overloaded_open_loop_has_no_percentile_of_what_was_never_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = headline(capsys, tmp_path, "--rw", "randread", "--iodepth", "8", "--rate", "500", "--runtime", "10")
    first = out[out.index("requests/s") : out.index("Before you rely on it")]
    assert "Only 1" in first
    assert "of the requests that were due could be sent" in first
    assert "half of them" not in first


def test_requests_that_ended_too_late_for_a_rate_are_said_to_have_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = headline(capsys, tmp_path, "--rw", "randread", "--runtime", "1ms")
    assert "read: 1 request ended after the measured time, so no rate is given" in out
    assert "0 requests/s" not in out


def test_flushes_are_in_no_rate_of_the_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = headline(capsys, tmp_path, "--rw", "randwrite", "--fsync", "1", "--runtime", "10")
    writes = re.search(r"write (\S+) requests/s", out)
    assert writes is not None
    assert f"{writes[1]} IOPS" in err


@pytest.mark.parametrize("target", ["file", "sim:iodrive-160-slc"])
def test_a_rate_of_less_than_a_second_is_said_to_be_one(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = [target] if ":" in target else [str(tmp_path / target), "--size", "4MiB"]
    words = ["run", "--rw", "randread", "--runtime", "100ms", *where, "--store", str(tmp_path / "runs.db")]
    assert main(words) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(r"Measured for only 1\d\d ms: too short to say what the target sustains", told)
    assert re.search(r"Throughput: 1 worker × queue depth 1, 1\d\d ms measured", told)


def test_an_imported_size_is_that_of_the_file_which_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "j.fio").write_text("[j]\nrw=randread\nsize=24m\nruntime=100ms\ntime_based\n")
    profile, target = str(tmp_path / "p.toml"), tmp_path / "made"
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(tmp_path / "j.fio"), "-o", profile]) == 0
    assert main(["run", profile, str(target), *store]) == 0
    assert 24 << 20 <= target.stat().st_size <= 25 << 20
    assert main(["run", profile, str(tmp_path / "larger"), "--size", "32MiB", *store]) == 0
    assert 32 << 20 <= (tmp_path / "larger").stat().st_size <= 33 << 20


def test_loads_that_differ_in_their_duration_alone_have_rows_of_different_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Store() as store:
        for duration in ("3000000000ns", "5000000000ns"):
            add_run(store, [interval(0, SECOND, cell([MS] * 2000)), phase_end()], plan_=plan(duration=duration))
    assert main(["history", "/data/a file", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["histories"]
    names = [" ".join(item["load"]) for item in found]
    assert len(set(names)) == 2, names
    assert any("5.00s" in name for name in names), names


def test_memory_that_took_the_writes_is_named_on_models_too(capsys: pytest.CaptureFixture[str]) -> None:
    buffered = ["run", "--rw", "write", "--runtime", "2", "sim:nvme-tlc-3840", "--direct", "0", "--check", "p99<=1s"]
    assert main(buffered) == FAILED
    said = " ".join(capsys.readouterr().out.split())
    assert "not known, p99 2.72 µs, its writes went into the page cache without flushes" in said
    assert "The storage was not the limit: memory took the writes." in said
    clones = ["run", "--rw", "read", "--bs", "64k", "--numjobs", "4", "--runtime", "2", "sim:msr-2003-maxtor"]
    assert main(clones) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Before you rely on it: 4 streams went through the same blocks in order" in said


@pytest.mark.parametrize(
    ("operation", "do", "caches"),
    [
        ("read", "read", "answer all but the first"),
        ("write", "write", "join their writes before they reach the medium"),
        ("rw", "read or write", "answer the reads of all but the first, and join writes"),
    ],
)
def test_what_caches_make_of_shared_blocks_depends_on_what_is_done(
    operation: str, do: str, caches: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of writes alone, it was said that caches may have answered all but the first."""
    clones = ["run", "--rw", operation, "--bs", "64k", "--numjobs", "2", "--runtime", "2", "sim:msr-2003-maxtor"]
    assert main([*clones, "--check", "p99<=1h"]) == FAILED
    said = " ".join(capsys.readouterr().out.split())
    assert f"2 streams {do} the same blocks in order, each with a cursor of its own: caches of the drive," in said
    assert f"or the host may {caches}." in said
    assert f"so that caches may have {caches.replace('answer', 'answered').replace('join', 'joined')}." in said


def test_a_unit_is_proposed_for_the_requirement_that_lacks_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--rw", "randread", "--runtime", "5", "sim:msr-2003-wd", "--check", "p99<=5"]) == 2
    assert "--runtime 5 sim:msr-2003-wd --check 'p99<=5ms'" in capsys.readouterr().err


def test_trims_of_what_was_trimmed_before_are_no_rate_of_the_storage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trims = ["run", "--rw", "randtrim", "--bs", "64k", str(tmp_path / "f"), "--store", str(tmp_path / "runs.db")]
    assert main([*trims, "--size", "2MiB", "--runtime", "0.3", "--check", "mean<=10s"]) == FAILED
    told = capsys.readouterr().out
    assert re.search(r"At least \d\d % of the trims were of blocks that the run had trimmed before", told)
    assert "not known" in told
    assert main([*trims, "--runtime", "5", "--set", "passes=1", "--check", "errors<=0%"]) == 0
    assert "trimmed before" not in capsys.readouterr().out


def test_unsafe_writes_are_told_where_a_run_writes_without_flushes(capsys: pytest.CaptureFixture[str]) -> None:
    told = {"randread": "", "randwrite": "warning: To measure durable writes", "randwrite --sync dsync": ""}
    told |= {"randwrite --fdatasync 1": "", "randwrite --fdatasync 8": "note: The profile's flushes make the writes"}
    for words, said in told.items():
        assert main(["run", "--rw", *words.split(), "sim:terraserver-2003", "--runtime", "1", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["warnings"]
        caches = [f"{item['severity']}: {item['remedy']}" for item in found if item["id"] == "volatile_write_cache"]
        assert [one.startswith(said) for one in caches] == [True] * bool(said), (words, caches)


def test_a_dry_run_shows_flushes_and_pauses(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--rw", "randwrite", "--bs", "4k", "--fsync", "8", "--thinktime", "1ms"]
    assert main(["run", *words, "--dry-run"]) == 0
    assert "1.00 ms of think time, fsync after every 8 writes" in capsys.readouterr().out


@pytest.mark.parametrize("key", ["requests=50", "bytes=200KiB"])
def test_a_run_that_its_amount_ended_says_so(key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The advice was to measure longer, for whoever had asked for ten seconds."""
    words = ["run", "--rw", "randread", "--bs", "4k", "--runtime", "10", "sim:cheetah-15k4-300", "--set", key]
    assert main([*words, "--store", str(tmp_path / "runs.db"), "--json"]) == 0
    (said,) = (one for one in json.loads(capsys.readouterr().out)["warnings"] if one["id"] == "short")
    name = key.partition("=")[0]
    assert f"as its limit of {name} ended it before its duration" in said["text"]
    assert said["remedy"].startswith(f"Raise `{name}`")


@pytest.mark.parametrize("pattern", ["randread", "randwrite", "read", "randrw"])
def test_a_pattern_as_an_option_of_its_own_is_understood(pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By its letters, --randread was taken for --randrepeat."""
    assert main(["run", f"--{pattern}", "sim:cheetah-15k4-300"]) == 2
    assert f"`brickyard run --rw {pattern} sim:cheetah-15k4-300`" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_trace_of_a_run_whose_figures_nobody_reads_is_kept(more: list[str], tmp_path: Path) -> None:
    saved = tmp_path / "run.byt"
    words = ["run", "--rw", "randread", "--runtime", "1", "sim:cheetah-15k4-300", "--save-trace", str(saved), *more]
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "brickyard", *words, "--store", str(tmp_path / "runs.db")]
    ended = subprocess.run(command, check=False, stdout=writing, stderr=subprocess.DEVNULL)
    os.close(writing)
    assert ended.returncode == 141
    assert main(["trace", "show", str(saved)]) == 0


TWO_TARGETS = """
title = "data and log"
[[phase]]
duration = "2s"
[[phase.stream]]
name = "data"
request = "8KiB"
address = "random"
operations = { read = 100 }
[[phase.stream]]
name = "log"
target = 1
request = "8KiB"
address = "sequential"
operations = { write = 100 }
"""


def test_the_history_of_a_target_has_what_was_done_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reads of the other target were its own, and a change of that disk was one of this."""
    profile, store = tmp_path / "two.toml", ["--store", str(tmp_path / "runs.db")]
    profile.write_text(TWO_TARGETS)
    for seed, data in enumerate(("sim:terraserver-2003", "sim:msr-2003-maxtor"), 1):
        assert main(["run", str(profile), data, "sim:msr-2003-wd", "--set", f"seed={seed}", *store]) == 0
    capsys.readouterr()

    def streams(target: str) -> list[tuple[str, int]]:
        assert main(["history", target, *store, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["histories"]
        return [(one["load"][-2], len(one["points"])) for one in found]

    assert streams("sim:msr-2003-wd") == [("log", 2)]
    assert streams("sim:terraserver-2003") == [("data", 1)]
    assert streams("sim:msr-2003-maxtor") == [("data", 1)]


def test_a_rate_that_was_kept_had_no_limit_but_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside gaps of a fifth of a millisecond, a thread waits on its CPU for each instant: it is busy, and no limit."""
    words = ["--rw", "randread", "--rate", "5000", "--runtime", "500ms", "--size", "1MiB", "--direct", "0"]
    assert main(["run", *words, str(tmp_path / "file"), "--json", "--store", str(tmp_path / "runs.db")]) == 0
    document = json.loads(capsys.readouterr().out)
    (end,) = document["generator"]
    assert end["unsent"] > 25 or not end["generator_bound"]

"""Loads of other tools mean the same here, what can't be said is refused by name, and no text breaks an importer."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard import _core, profiles
from brickyard.analysis import phase_rates
from brickyard.analysis.figures.cells import ended_words
from brickyard.analysis.figures.totals import Totals, rate_of, totals
from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.formats.diskspd import import_diskspd
from brickyard.formats.fio_export import export_fio
from brickyard.formats.fio_file import read_command_line, read_jobs
from brickyard.formats.fio_job import Imported, import_fio
from brickyard.formats.fio_json import PrintedByFio, read_result
from brickyard.formats.fio_result import store_result
from brickyard.formats.fio_units import fio_bytes, fio_rate, in_thousands
from brickyard.formats.icf import import_icf
from brickyard.formats.recognize import recognize
from brickyard.formats.sqlio import import_sqlio, read_parameter_file
from brickyard.formats.vscsistats import import_vscsistats
from brickyard.schema import PhaseEnd, plan_document
from brickyard.store import Record, Store

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
HERE = Path(".")


def plan_of(imported: Imported) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(_core.validate(imported.text, []))
    return plan


def fio(text: str) -> dict[str, Any]:
    return plan_of(import_fio("sample", text, HERE))


def one_stream(plan: dict[str, Any]) -> dict[str, Any]:
    (phase,) = plan["phase"]
    (stream,) = phase["stream"]
    return dict(stream)


FIO = """
# A shop: its database beside its log, then a backup.
[global]
ioengine=libaio
direct=1
runtime=5m
time_based
size=2g

[database]
filename=/dev/sdx
rw=randrw
rwmixread=70
bssplit=4k/60:16k/30:64k
blockalign=4k
iodepth=16
numjobs=2
norandommap
ramp_time=10

[log]
filename=/dev/sdx
rw=write
bs=8k
fdatasync=1
offset=2g
size=256m
ramp_time=10

[backup]
stonewall
rw=read
bs=1m
filename=/dev/sdy
rate_iops=50
rate_process=poisson
"""


def test_a_fio_job_file_means_the_same_here() -> None:
    imported = import_fio("shop", FIO, HERE)
    plan = plan_of(imported)
    assert imported.targets == ["/dev/sdx", "/dev/sdy"]
    titles = [plan_of(import_fio(name, FIO, HERE))["title"] for name in ("shop", "fio")]
    assert titles == ["fio: shop", "fio: database, log, backup"]
    assert (plan["io"], plan["engine"]) == ("direct", "auto")
    first, second = plan["phase"]
    assert (first["duration"], first["warmup"], first["passes"]) == ("300000000000ns", "10000000000ns", None)
    database, log = first["stream"]
    assert database["operations"] == {"read": 70.0, "write": 30.0, "flush": 0.0, "trim": 0.0}
    sizes = {item["size"]: item["share"] for item in database["request"]}
    assert sizes == {4 * KIB: 60, 16 * KIB: 30, 64 * KIB: 10}
    assert (database["align"], database["address"]["kind"]) == (4 * KIB, "random")
    assert (database["workers"], database["depth"], database["region"]) == (2, 16, "0B..2GiB")
    assert log["flush_every"] == {"writes": 1, "call": "fdatasync"}
    assert log["region"] == "2GiB..2304MiB"
    (backup,) = second["stream"]
    assert backup["target"] == 1
    assert backup["pace"] == {"loop": "open", "rate": 50.0, "arrivals": "poisson"}


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        ("rw=randread", "address", {"kind": "permutation"}),  # fio's map visits each block once
        ("rw=randread\nnorandommap", "address", {"kind": "random"}),
        ("rw=randread\nrandom_distribution=zipf:0.9", "address", {"kind": "zipf", "theta": 0.9}),
        ("rw=randread\nrandom_distribution=pareto:0.2", "address", {"kind": "pareto", "skew": 80.0}),
        ("rw=randread\npercentage_random=25", "address", {"kind": "runs", "random": 25.0}),
        ("rw=randrw\nrwmixwrite=20", "operations", {"read": 80.0, "write": 20.0, "flush": 0.0, "trim": 0.0}),
        ("rw=randwrite\nbs=4k,8k", "request", [{"size": 8 * KIB, "share": 100.0}]),
        ("rw=write\nsync=dsync", "sync", "dsync"),
        ("rw=read\nthinktime=200", "think", "200000ns"),
        ("rw=read\nbs=64k\nrate=1m", "pace", {"loop": "open", "rate": 16.0, "arrivals": "constant"}),
        ("rw=read\nsize=50%", "region", "0B..50%"),
        ("rw=read\noffset=25%\nsize=50%", "region", "25%..75%"),
        ("rw=write\nbuffer_compress_percentage=30", "data", {"compressible": 30.0, "duplicate": 0.0}),
        ("rw=read\niodepth=8", "depth", 1),  # fio's default engine has one request at a time
        ("rw=read\nioengine=io_uring\niodepth=8", "depth", 8),
        (
            "rw=randread\nbsrange=4k-16k\nnorandommap",
            "request",
            [{"size": 4096 * k, "share": 25.0} for k in (1, 2, 3, 4)],
        ),
    ],
)
def test_fio_options(options: str, key: str, value: object) -> None:
    assert one_stream(fio(f"[job]\n{options}"))[key] == value


def test_colons_in_file_names_are_escaped_both_ways() -> None:
    plan = profiles.validate(profiles.read("sqlio-random-read-4"), [])
    job = export_fio(plan, ["/dev/disk/by-path/pci-0000:00:05.0"])
    assert "filename=/dev/disk/by-path/pci-0000\\:00\\:05.0\n" in job
    assert import_fio("x", job, HERE).targets == ["/dev/disk/by-path/pci-0000:00:05.0"]


def test_fio_limits() -> None:
    assert fio("[j]\nsize=1g")["phase"][0]["passes"] == 1
    assert fio("[j]\nfilename=x\nsize=1g\nnumjobs=4\nrw=randread\nnorandommap")["phase"][0]["passes"] == 4
    assert fio("[j]\nio_size=1g\nnumjobs=2")["phase"][0]["bytes"] == 2 * GIB
    target = fio(
        "[j]\nioengine=io_uring\niodepth=32\nlatency_target=5ms\nlatency_percentile=99\nlatency_window=2s\nruntime=60"
    )
    assert target["phase"][0]["stop"] == {"when": "p99", "above": "5000000ns"}
    assert (target["phase"][0]["ramp"]["to"], target["phase"][0]["ramp"]["every"]) == (32, "2000000000ns")
    steady = fio("[j]\nruntime=600\ntime_based\nsteadystate=iops_slope:5%\nsteadystate_duration=100")["phase"][0][
        "steady"
    ]
    assert (steady["round"], steady["rounds"], steady["measure"]) == ("1000000000ns", 100, "iops")
    assert steady["slope"] == 100  # 5 % from one look to the next, over 100 looks


def test_fio_clones_with_offset_increment_have_regions_of_their_own() -> None:
    streams = fio("[j]\nnumjobs=3\nsize=1g\noffset=1g\noffset_increment=2g")["phase"][0]["stream"]
    assert [s["region"] for s in streams] == ["1GiB..2GiB", "3GiB..4GiB", "5GiB..6GiB"]
    assert [s["workers"] for s in streams] == [1, 1, 1]


def test_fio_reads_back_what_a_verifying_job_wrote() -> None:
    plan = fio("[j]\nrw=randwrite\nsize=1g\nverify=crc32c")
    assert [p["stream"][0]["verify"] for p in plan["phase"]] == [True, True]
    assert plan["phase"][1]["stream"][0]["operations"]["read"] == 100
    assert len(fio("[j]\nrw=randwrite\nsize=1g\nverify=crc32c\ndo_verify=0")["phase"]) == 1


def test_fio_sections_include_and_environment(tmp_path: Path) -> None:
    (tmp_path / "common.inc").write_text("[global]\nbs=${BLOCK}\n")
    text = "include common.inc\n[a]\nrw=read ; to begin with\n[global]\niodepth=4\n[b]\n"
    jobs = read_jobs(text, tmp_path, {"BLOCK": "16k"})
    assert [(job.name, job.options) for job in jobs] == [
        ("a", {"bs": "16k", "rw": "read"}),
        ("b", {"bs": "16k", "iodepth": "4"}),
    ]
    with pytest.raises(BadInputError, match=r"\$\{BLOCK\} is not set"):
        read_jobs(text, tmp_path, {})
    (tmp_path / "common.inc").write_text("include common.inc\n")
    with pytest.raises(BadInputError, match="does it include itself"):
        read_jobs(text, tmp_path, {})


UNITS = [("", 1024), ("i", 1024), ("b", 1024), ("ib", 1000)]


@pytest.mark.parametrize(("end", "base"), UNITS)
def test_units_are_read_as_fio_reads_them(end: str, base: int, tmp_path: Path) -> None:
    """fio 3.33; its manual says that ki is 1000."""
    values = [f"1{letter}{end}" for letter in "kmgt"]
    assert [fio_bytes("size", text) for text in values] == [base**power for power in (1, 2, 3, 4)]
    assert [fio_bytes("size", in_thousands(text)) for text in values] == [
        (1000 if base == 1024 else 1024) ** power for power in (1, 2, 3, 4)
    ]
    assert [fio_bytes("bs", text) for text in ("0x10", "4K", f"4K{end.upper()}")] == [16, 4096, 4 * base]
    assert fio_rate("rate_iops", f"1k{end}") == base
    for kb_base in (1024, 1000):
        jobs = "".join(f"[{letter}]\nsize=1{letter}{end}\n" for letter in "km")
        text = f"[global]\nioengine=null\nkb_base={kb_base}\nrw=read\nbs=8\n{jobs}"
        (tmp_path / "a.fio").write_text(text)
        asked = ["fio", "a.fio", "--output-format=json"]
        told = subprocess.run(asked, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
        of_fio = [job["read"]["io_bytes"] for job in json.loads(told[told.index("{") :])["jobs"]]
        assert [fio_bytes("size", job.options["size"]) for job in read_jobs(text, tmp_path, {})] == of_fio


def test_the_base_of_units_holds_for_what_fio_reads_behind_it() -> None:
    """In a job file, fio reads it first; on a command line, each option in turn."""
    file = "[global]\nsize=2m\nkb_base=1000\n[a]\nbs=4ki,4kib\n[b]\nkb_base=1024\nbssplit=4k/60:64kib/40"
    a, b = read_jobs(file, Path(), {})
    assert (a.options["size"], a.options["bs"], b.options["bssplit"]) == ("2mib", "4kib,4k", "4k/60:64kib/40")
    (job,) = read_command_line(["--name=a", "--bs=4k", "--kb_base=1000", "--size=1m", "--runtime=1m"])
    assert [job.options[name] for name in ("bs", "size", "runtime")] == ["4k", "1mib", "1m"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[j]\nzonemode=zbd", "zonemode=zbd has no counterpart"),
        ("[j]\nioengine=rbd", "ioengine=rbd"),
        ("[j]\nrw=randread\nrandom_distribution=sequence:1,2", "random_distribution=sequence"),
        ("[j]\nrw=rw\nrate=1m,", "a rate for reads alone"),
        ("[j]\nrw=read:-8k", "goes backwards"),
        ("[j]\nstartdelay=5-9", "drawn by chance"),
        ("[a]\n[b]\nstartdelay=5", "begins or ends otherwise"),
        ("[j]\nbssplit=4k/50:8k/20", "sum to 100"),
        ("[j]\nrw=sideways", "rw=sideways"),
        ("[j]\nbs=lots", "bs=lots"),
        ("[j]\nfilename=/a:/b", "cannot be divided among 2 files"),
        ("[a]\nruntime=5\n[b]\nruntime=6", "begins or ends otherwise"),
        ("[a]\ndirect=1\n[b]\ndirect=0", "direct differs between jobs"),
        (
            "[a]\nioengine=libaio\n[b]\nioengine=psync",
            "ioengine differs between jobs, and a profile has one engine for all of them; set one ioengine in all "
            "jobs, or import each part from a file of its own",
        ),
        ("bs=4k", "before any section"),
        ("[global]\nbs=4k", "no job"),
    ],
)
def test_fio_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        import_fio("x", text, HERE)


def test_sqlio_command_lines(tmp_path: Path) -> None:
    (tmp_path / "param.txt").write_text("# the mirror\nE:\\test.dat 2 0x0 100\nF:\\test.dat 4\n")
    write, read = "-kW -t4 -s120 -frandom -b8 -o4 -LS -BN e:\\a.dat", "-kR -fsequential -b64 -o8 -BN -Fparam.txt"
    text = f"@echo off\nsqlio {write}\nrem then\nsqlio.exe {read}\n"
    imported = import_sqlio("batch", text, tmp_path)
    plan = plan_of(imported)
    assert imported.targets == ["e:\\a.dat", "E:\\test.dat", "F:\\test.dat"]
    assert [p["duration"] for p in plan["phase"]] == ["120000000000ns", "30000000000ns"]
    (stream,) = plan["phase"][0]["stream"]
    assert (stream["operations"]["write"], stream["address"]["kind"], stream["sync"]) == (100, "random", "dsync")
    assert (stream["request"][0]["size"], stream["workers"], stream["depth"]) == (8 * KIB, 4, 4)
    first, second = plan["phase"][1]["stream"]
    assert (first["workers"], first["region"], first["target"]) == (2, "0B..100MiB", 1)
    assert (second["workers"], second["region"], second["target"]) == (4, "0B..100%", 2)
    assert first["address"] == {"kind": "sequential", "apart": True}


def test_sqlio_opens_the_same_name_on_each_drive(tmp_path: Path) -> None:
    assert import_sqlio("x", "sqlio -kR -dEF -b8 -BN test.dat", tmp_path).targets == ["E:test.dat", "F:test.dat"]
    assert import_sqlio("x", "sqlio -kR -b8 -BN -dE", tmp_path).targets == ["E:testfile.dat"]


@pytest.mark.parametrize("switch", ["-fstripe", "-i100", "-v1.1.1", "-d", "-d0", "-kX", "-t0", "-b", "-Fnone.txt"])
def test_sqlio_is_refused_by_its_switch(switch: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=switch[:2]):
        import_sqlio("x", f"sqlio {switch} a.dat", tmp_path)


@pytest.mark.parametrize("text", ["", "file", "file two", "file 2 mask", "file 2 0x0 10 more", "file 0"])
def test_bad_parameter_files(text: str) -> None:
    with pytest.raises(BadInputError):
        read_parameter_file(text)


def test_diskspd_command_lines() -> None:
    imported = import_diskspd("d", "diskspd.exe -b8K -d60 -W5 -o32 -t4 -r -w30 -Sh -L -D -z7 -c10G d:\\x.dat")
    plan = plan_of(imported)
    stream = one_stream(plan)
    assert (plan["seed"], plan["io"]) == (7, "direct")
    assert (plan["phase"][0]["duration"], plan["phase"][0]["warmup"]) == ("60000000000ns", "5000000000ns")
    assert (stream["operations"]["write"], stream["address"]["kind"]) == (30, "random")
    assert (stream["request"][0]["size"], stream["workers"], stream["depth"]) == (8 * KIB, 4, 32)
    assert stream["sync"] == "dsync"
    plain = one_stream(plan_of(import_diskspd("d", "diskspd -si -t2 -B1G -f4G -g100i x")))
    assert (plain["request"][0]["size"], plain["depth"], plain["address"]["kind"]) == (64 * KIB, 2, "sequential")
    assert (plain["address"]["apart"], plain["region"], plain["pace"]["rate"]) == (False, "1GiB..4GiB", 200)
    mixed = one_stream(plan_of(import_diskspd("d", "diskspd -rs80 -b4K x")))
    assert mixed["address"] == {"kind": "runs", "random": 80.0}


@pytest.mark.parametrize("switch", ["-X", "-rdabs10/90", "-q", "-p", "-Ox", "-i10", "-Sm", "-Sr", "-w101", "-sx"])
def test_diskspd_is_refused_by_its_switch(switch: str) -> None:
    with pytest.raises(BadInputError, match=switch[:2]):
        import_diskspd("x", f"diskspd {switch} a.dat")


ICF = """Version 1.1.0
'TEST SETUP ====================================================================
'Test Description
\tA sample of our own
'Run Time
'\thours      minutes    seconds
\t0          2          30
'Ramp Up Time (s)
\t15
'Queue Depth Cycling
'\tstart      end        step       step type
\t1          16         4          EXPONENTIAL
'Test Type
\tCYCLE_OUTSTANDING_IOS
'END test setup
'ACCESS SPECIFICATIONS =========================================================
'Access specification name,default assignment
\tShop, mixed,NONE
'size,% of size,% reads,% random,delay,burst,align,reply
\t4096,70,67,100,0,1,0,0
\t65536,30,67,100,0,1,0,0
'Access specification name,default assignment
\tUnused,NONE
'size,% of size,% reads,% random,delay,burst,align,reply
\t512,100,100,0,0,1,0,0
'END access specifications
'MANAGER LIST ==================================================================
'Worker
\tWorker 1
'Worker type
\tDISK
'Default target settings for worker
'Number of outstanding IOs,test connection rate,transactions per connection
\t8,DISABLED,1
'Disk maximum size,starting sector
\t2097152,2048
'Assigned access specs
\tShop, mixed
'End assigned access specs
'Worker
\tWorker 2
'Worker type
\tDISK
"""


def test_an_iometer_set_up() -> None:
    plan = plan_of(import_icf("shop", ICF))
    assert [p["stream"][0]["depth"] for p in plan["phase"]] == [1, 4, 16]
    phase = plan["phase"][0]
    assert (phase["duration"], phase["warmup"]) == ("150000000000ns", "15000000000ns")
    (stream,) = phase["stream"]
    assert stream["operations"]["read"] == 67
    assert {item["size"]: item["share"] for item in stream["request"]} == {4096: 70, 65536: 30}
    assert (stream["address"]["kind"], stream["align"], stream["workers"]) == ("random", 512, 1)
    assert stream["region"] == "1MiB..1025MiB"
    linear = ICF.replace("16         4          EXPONENTIAL", "3         1          LINEAR")
    assert [p["stream"][0]["depth"] for p in plan_of(import_icf("x", linear))["phase"]] == [1, 2, 3]
    normal = plan_of(import_icf("x", ICF.replace("CYCLE_OUTSTANDING_IOS", "NORMAL")))
    assert [p["stream"][0]["depth"] for p in normal["phase"]] == [8]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("65536,30,67,100", "65536,30,50,0", "differ in % random"),
        ("65536,30,", "65536,20,", "don't sum to 100"),
        ("CYCLE_OUTSTANDING_IOS", "CYCLE_WORKERS", "test type CYCLE_WORKERS"),
        ("DISK\n'Default", "NETWORK,TCP\n'Default", "worker type NETWORK"),
        ("100,0,1,0,0\n\t65536", "100,0,1,0,64\n\t65536", "reply"),
        ("16         4", "16         1", "never end"),
        ("4096,70", "many,70", "`many` is not a number"),
    ],
)
def test_iometer_is_refused_by_name(old: str, new: str, said: str) -> None:
    assert old in ICF
    with pytest.raises(BadInputError, match=said):
        import_icf("x", ICF.replace(old, new))


# Pieces of the real formats, so that the fuzzer gets past the first line.
PIECES = st.sampled_from(
    [
        *FIO.splitlines(),
        *ICF.splitlines(),
        "sqlio -kR -t2 x",
        "diskspd -b4K -t2 x",
        "[j]",
        "bs=4k,",
        "bssplit=4k/:",
        "x 1",
    ]
)
SOUP = st.lists(PIECES | st.text(max_size=25), max_size=25).map("\n".join) | st.text(max_size=200)
IMPORTERS: list[Callable[[str], object]] = [
    lambda text: import_fio("x", text, HERE),
    lambda text: import_icf("x", text),
    lambda text: import_sqlio("x", text, HERE),
    lambda text: import_diskspd("x", text),
    lambda text: import_sqlio("x", "sqlio", HERE, text),
    recognize,
    read_result,
]


@pytest.mark.parametrize("importer", IMPORTERS)
@given(text=SOUP)
def test_no_text_breaks_an_importer(importer: Callable[[str], object], text: str) -> None:
    with suppress(BadInputError):
        imported = importer(text)
        if isinstance(imported, Imported):
            _core.validate(imported.text, [])


OPTION = st.sampled_from(
    [
        "rw",
        "rwmixread",
        "bs",
        "bsrange",
        "bssplit",
        "blockalign",
        "size",
        "io_size",
        "offset",
        "offset_increment",
        "filename",
        "direct",
        "sync",
        "fsync",
        "iodepth",
        "numjobs",
        "runtime",
        "time_based",
        "rate",
        "rate_iops",
        "thinktime",
        "random_distribution",
        "percentage_random",
        "verify",
        "latency_target",
        "latency_window",
        "latency_percentile",
        "steadystate",
        "steadystate_duration",
        "randseed",
        "loops",
    ]
)
VALUE = st.sampled_from(
    ["", "0", "1", "4k", "4k,8k", "4k-64k", "4k/50:8k", "50%", "read", "randrw", "zipf:1.1", "iops:5%", "-1", "9" * 30]
)


@given(st.lists(st.tuples(OPTION, VALUE | st.text(max_size=8)), max_size=8))
def test_no_option_breaks_the_fio_importer(options: list[tuple[str, str]]) -> None:
    with suppress(BadInputError):
        text = "[job]\n" + "\n".join(f"{key}={value}" for key, value in options)
        _core.validate(import_fio("x", text, HERE).text, [])


EXPORTED = dict.fromkeys(profiles.names(), True) | dict.fromkeys(
    (
        "bonnie",
        "burn-in",
        "honesty-dirty",
        "iowork",
        "jetstress",
        "jetstress-tuning",
        "kafka-log",
        "mdtest",
        "obl-load",
        "overland-large-file",
        "overland-oltp",
        "overland-oltp-two-hosts",
        "overland-workstation",
        "postmark",
        "postmark-commerce",
        "postmark-mail",
        "postmark-news",
        "sqliosim",
        "sqliosim-big",
        "video-ingest",
        "video-playback",
        "video-streams",
    ),
    False,
)


@pytest.mark.parametrize("name", profiles.names())
def test_exported_profiles_are_job_files_to_fio_and_come_back(name: str, tmp_path: Path) -> None:
    plan = profiles.validate(profiles.read(name), [])
    if not EXPORTED[name]:
        with pytest.raises(BadInputError, match="can't be said in a fio job file"):
            export_fio(plan)
        return
    job = tmp_path / "job.fio"
    job.write_text(export_fio(plan, ["/tmp/x"]))
    parsed = subprocess.run(["fio", "--parse-only", str(job)], capture_output=True, text=True, check=False)
    assert (parsed.returncode, parsed.stderr) == (0, "")
    back = plan_of(import_fio(name, job.read_text(), tmp_path))
    phases = plan_document(plan)["phase"]
    assert len(back["phase"]) == len(phases)
    for mine, theirs in zip(phases, back["phase"], strict=True):
        assert (theirs["duration"], theirs["warmup"], theirs["passes"]) == (
            mine["duration"],
            mine["warmup"],
            mine["passes"],
        )
        for ours, came in zip(mine["stream"], theirs["stream"], strict=True):
            for key in ("operations", "address", "workers", "depth", "pace", "think", "sync", "flush_every"):
                # A single worker has all of the region, apart or not.
                alone = {"apart": False} if ours["workers"] == 1 and ours["address"]["kind"] == "sequential" else {}
                assert came[key] == (ours[key] | alone if key == "address" else ours[key]), key
            assert [item["size"] for item in came["request"]] == [item["size"] for item in ours["request"]]
            assert all(abs(a["share"] - b["share"]) < 1 for a, b in zip(came["request"], ours["request"], strict=True))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("verify=true", "verify"),
        ("address={kind='hot_spots'}", "hot_spots"),
        ("address={kind='mixed',random=20}", "mixed"),
        ("stop={when='p99',above='1ms'}", "stop"),
        ("operations={read=50,write=40,flush=10}", "flush"),
        ("think=1500ns", "think"),
        ("think=2ms", "think with depth"),
    ],
)
def test_what_fio_cannot_express_is_refused_by_name(change: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profiles", "show", "sqlio-random-read-4", "--format", "fio", "--set", change]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "can't be said in a fio job file" in err


@pytest.mark.parametrize(
    ("sets", "engine"),
    [
        (["io=buffered"], "psync"),
        ([], "io_uring"),
        (["io=buffered", "depth=4"], "io_uring"),
        (["io=buffered", "engine=io_uring"], "io_uring"),
    ],
)
def test_fio_gets_the_engine_that_a_run_has(sets: list[str], engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    show = ["profiles", "show", "sqlio-random-write-1", "--format", "fio", "--set", "depth=1"]
    assert main([*show, *(word for one in sets for word in ("--set", one))]) == 0
    assert f"ioengine={engine}" in capsys.readouterr().out.splitlines()


def test_batches_are_those_of_fio_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    show = ["profiles", "show", "sqlio-random-read-4", "--format", "fio", "--set", "reap=8"]
    assert main(show) == 0
    job = capsys.readouterr().out
    assert "iodepth_batch_complete_min=8" in job
    assert "iodepth_batch_complete_max=8" in job
    assert main([*show, "--set", "engine=psync"]) == 2
    assert "reap = 8 has no effect on psync" in capsys.readouterr().err
    assert main([*show[:-1], "submit=2"]) == 0
    assert "iodepth_batch_submit=2" in capsys.readouterr().out


def sample(**changes: Any) -> dict[str, Any]:
    bins = {"100000": 900, "200000": 90, "1000000": 10}
    latency = {"min": 99_000, "max": 1_010_000, "mean": 118_000.0, "stddev": 5.0, "N": 1000, "bins": bins}
    nothing = {"io_bytes": 0, "total_ios": 0, "runtime": 0, "clat_ns": {"N": 0, "min": 0, "max": 0, "mean": 0.0}}
    read = {"io_bytes": 4096_000, "total_ios": 1000, "runtime": 500, "clat_ns": latency, **changes}
    job = {
        "jobname": "a",
        "error": 0,
        "usr_cpu": 10.0,
        "sys_cpu": 20.0,
        "read": read,
        "write": nothing,
        "trim": nothing,
    }
    return {"fio version": "fio-3.33", "timestamp_ms": 1_790_000_000_000, "jobs": [job]}


def printed(document: dict[str, Any]) -> PrintedByFio:
    return read_result(json.dumps(document))


def test_fio_results_become_a_record(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        record = store.record(store_result(store, read_result("fio says hello\n" + json.dumps(sample())), profile="f"))
    (row,) = totals(record)
    assert (row.stream_name, row.operation, row.requests, row.bytes) == ("a", "read", 1000, 4_096_000)
    assert row.iops == pytest.approx(2000)
    service = row.measures["service"]
    assert service.count == 1000
    assert service.percentiles["p50"] == pytest.approx(100_000, rel=0.01)
    assert service.percentiles["p99"] == pytest.approx(200_000, rel=0.01)
    assert service.percentiles["p99.9"] is None
    assert (record.info.outcome, [w.id for w in record.info.warnings]) == ("done", ["fio-flags"])
    assert record.info.engine["engine"] == "fio"


def test_jobs_of_fio_keep_the_rates_that_fio_printed(tmp_path: Path) -> None:
    """Two jobs at the same time, of which one ran for 3,616 ms and one for 823 ms."""
    document = sample()
    (job,) = document["jobs"]
    document["jobs"] = [
        {**job, "jobname": name, "read": {**job["read"], "total_ios": 32768, "io_bytes": 32768 * 4096, "runtime": ms}}
        for name, ms in (("slow", 3616), ("fast", 823))
    ]
    with Store(tmp_path / "runs.db") as store:
        record = store.record(store_result(store, printed(document), profile="f"))
    slow, fast = totals(record)
    assert (slow.stream_name, slow.ended_ns) == ("slow", None)
    assert slow.iops == pytest.approx(9061.9, abs=0.1)
    assert fast.iops == pytest.approx(39815.3, abs=0.1)
    assert fast.bytes_per_s == pytest.approx(fast.iops * 4096)
    assert fast.ended_ns == 823_000_000
    (rate,) = phase_rates(record)
    assert rate.iops == pytest.approx(2 * 32768 / 3.616)
    assert record.of(PhaseEnd)[0].end_ns == 3_616_000_000


def moves(requests: int, ms: int, at_ns: int = 100_000) -> dict[str, Any]:
    times = {"mean": float(at_ns), "min": at_ns, "max": at_ns, "N": requests}
    return {"total_ios": requests, "io_bytes": requests * 4096, "runtime": ms, "lat_ns": times}


def fio_row(name: str, options: str, ms: int, **moved: dict[str, Any]) -> dict[str, Any]:
    """`ms` is the time of all that it did; `moved` are its reads and writes."""
    asked = dict(pair.split("=") for pair in options.split())
    (job,) = sample()["jobs"]
    none = dict.fromkeys(("total_ios", "io_bytes", "runtime"), 0)
    row = {**job, "jobname": name, "job options": asked, "groupid": 0, "job_runtime": ms}
    return {**row, "read": none, "write": none, **moved}


def told_of(directory: Path, *jobs: dict[str, Any]) -> tuple[Record, dict[tuple[str, str, str], Totals]]:
    with Store(directory / "runs.db") as store:
        record = store.record(store_result(store, printed({**sample(), "jobs": list(jobs)}), profile="f"))
    return record, {(row.phase_name, row.stream_name, row.operation): row for row in totals(record)}


VERIFIED = "filename=x size=16m bs=4k rw=randwrite ioengine=libaio iodepth=8 verify=crc32c"


@pytest.mark.parametrize("more", ["", " loops=3", " rate=sideways"])
def test_what_a_fio_job_reads_back_is_a_phase_of_its_own(more: str, tmp_path: Path) -> None:
    """Where the plan is known from the options, and where it is not."""
    times = {"read": moves(4096, 130), "write": moves(4096, 260)}
    record, found = told_of(tmp_path, fio_row("a", VERIFIED + more, 389, **times))
    assert list(found) == [("a", "a", "write"), ("a-verify", "a", "read")]
    assert [row.ended_ns for row in found.values()] == [None, None]
    assert [rate.iops for rate in phase_rates(record)] == pytest.approx([4096 / 0.26, 4096 / 0.13])
    assert record.of(PhaseEnd)[-1].end_ns == 390_000_000
    phase = import_fio("x", "[a]\n" + VERIFIED.replace(" ", "\n"), HERE).text
    assert 'name = "a-verify"' in phase, "as the job file has it"


def test_the_clones_of_a_fio_job_read_back_in_one_phase(tmp_path: Path) -> None:
    times = {"read": moves(4096, 130), "write": moves(4096, 260)}
    clone = fio_row("a", VERIFIED + " numjobs=2", 389, **times)
    record, found = told_of(tmp_path, clone, clone)
    assert {key: row.requests for key, row in found.items()} == {
        ("a", "a", "write"): 8192,
        ("a-verify", "a", "read"): 8192,
    }
    assert [rate.iops for rate in phase_rates(record)] == pytest.approx([8192 / 0.26, 8192 / 0.13])


def test_what_a_fio_job_reads_back_beside_others_is_a_later_part_of_their_phase(tmp_path: Path) -> None:
    times = {"read": moves(4096, 150), "write": moves(4096, 250)}
    other = fio_row("b", "filename=y size=16m rw=randread", 300, read=moves(4096, 300))
    record, found = told_of(tmp_path, fio_row("a", VERIFIED, 400, **times), other)
    assert list(found) == [("a", "a", "read"), ("a", "a", "write"), ("a", "b", "read")]
    (rate,) = phase_rates(record)
    assert rate.iops == pytest.approx(3 * 4096 / 0.4)
    words = ended_words(found["a", "a", "read"])
    assert words == "a (read) was active for 150 ms of its phase of 400 ms; its rate is over that time."


def test_reads_amid_the_writes_of_a_fio_job_are_over_all_of_its_time(tmp_path: Path) -> None:
    """fio has the time of the last reads alone, and of writes that it did not issue none."""
    times = {"read": moves(4096, 2), "write": moves(4096, 218)}
    record, found = told_of(tmp_path, fio_row("a", VERIFIED + " verify_backlog=64", 219, **times))
    assert [row.iops for row in found.values()] == pytest.approx([4096 / 0.22] * 2)
    assert "fio-verify-backlog" in [warning.id for warning in record.info.warnings]


def test_writes_that_fio_did_not_issue_are_left_out(tmp_path: Path) -> None:
    times = {"read": moves(4096, 200), "write": moves(4096, 0)}
    record, found = told_of(tmp_path, fio_row("a", VERIFIED, 200, **times))
    assert [key[2] for key in found] == ["read"]
    assert [row.iops for row in found.values()] == pytest.approx([4096 / 0.2])
    assert "fio-verify-only" in [warning.id for warning in record.info.warnings]


def test_operations_that_fio_timed_apart_are_together_over_the_time_of_the_phase(tmp_path: Path) -> None:
    times = {"read": moves(1000, 1000), "write": moves(1000, 500)}
    record, found = told_of(tmp_path, fio_row("a", "filename=x size=16m rw=randrw", 1000, **times))
    together = rate_of(found.values())
    (rate,) = phase_rates(record)
    assert together is not None
    assert together.iops == rate.iops == 2000
    assert [row.iops for row in found.values()] == [1000, 2000]


def test_many_jobs_that_fio_timed_apart_have_the_rates_of_their_phase_in_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = {"read": moves(1000, 1000), "write": moves(1000, 500)}
    jobs = [fio_row(f"j{n}", f"filename=x{n} size=16m rw=randrw", 1000, **times) for n in range(20)]
    told_of(tmp_path, *jobs)
    assert main(["show", "1", "--store", str(tmp_path / "runs.db")]) == 0
    assert "20 streams, 2,000 to 2,000 requests/s each" in capsys.readouterr().out


def test_the_phase_of_fio_jobs_that_begin_later_lasts_until_the_last_ends(tmp_path: Path) -> None:
    timed = "filename=x size=16m rw=randread runtime=2"
    jobs = [
        fio_row(name, f"{timed} startdelay={delay}", 2000, read=moves(2000, 2000))
        for name, delay in (("a", "3"), ("b", "4"))
    ]
    record, found = told_of(tmp_path, *jobs)
    (rate,) = phase_rates(record)
    assert rate.iops == pytest.approx(4000 / 3), "what both wait for is no part of it"
    assert [row.iops for row in found.values()] == [1000, 1000]
    words = [ended_words(row) for row in found.values()]
    assert words[1] == "b (read) was active for 2.00 s of its phase of 3.00 s; its rate is over that time."


def test_jobs_of_fio_have_their_depth_and_clones_their_number(tmp_path: Path) -> None:
    """The depth is fio's iodepth, or what fio saw in flight where that was less, times the clones of one row."""
    document = sample()
    (job,) = document["jobs"]
    levels = {"1": 0.1, "2": 0.1, "4": 0.1, "8": 0.1, "16": 99.6, "32": 0.0, ">=64": 0.0}
    sync = {**dict.fromkeys(levels, 0.0), "1": 100.0}
    document["jobs"] = [
        {**job, "jobname": name, "job options": {"iodepth": "16"}, "iodepth_level": seen}
        for name, seen in (("deep", levels), ("sync", sync), ("clone", levels), ("clone", levels))
    ]
    del document["jobs"][0]["job options"]
    grouped = {**document["jobs"][-1], "jobname": "grouped", "job options": {"iodepth": "16", "numjobs": "4"}}
    document["jobs"].append(grouped)
    document["global options"] = {"iodepth": "8"}
    with Store(tmp_path / "runs.db") as store:
        record = store.record(store_result(store, printed(document), profile="f"))
    rows = [(row.stream_name, row.in_flight_bound) for row in totals(record)]
    assert rows == [("deep", 8), ("sync", 1), ("clone (1)", 16), ("clone (2)", 16), ("grouped", 64)]


def test_plain_json_is_rebuilt_from_percentiles_and_says_so(tmp_path: Path) -> None:
    document = sample()
    clat = document["jobs"][0]["read"]["clat_ns"]
    del clat["bins"]
    clat["percentile"] = {"50.000000": 100_000, "99.000000": 200_000, "99.900000": 900_000}
    with Store(tmp_path / "runs.db") as store:
        record = store.record(store_result(store, printed(document), profile="f"))
    (row,) = totals(record)
    assert row.measures["service"].count == 1000
    assert [w.id for w in record.info.warnings] == ["fio-percentiles", "fio-flags"]
    p50 = row.measures["service"].percentiles["p50"]
    assert p50 is not None
    assert 99_000 <= p50 <= 101_000
    assert record.info.warnings[0].text.startswith("fio printed percentiles and no distribution")
    # With disable_clat=1, it prints neither, and another form of output has no more.
    document["jobs"][0]["read"] |= {"lat_ns": {**clat, "percentile": {}}, "clat_ns": {**clat, "N": 0, "percentile": {}}}
    with Store(tmp_path / "runs.db") as store:
        record = store.record(store_result(store, printed(document), profile="f"))
    assert record.info.warnings[0].text == "fio printed no percentiles of some requests."


def test_a_failed_fio_is_a_failed_run(tmp_path: Path) -> None:
    document = sample()
    document["jobs"][0]["error"] = 5
    with Store(tmp_path / "runs.db") as store:
        record = store.record(store_result(store, printed(document), profile="f"))
    assert (record.info.outcome, record.info.message) == ("failed", "fio: job a ended with error 5")


def times(count: int) -> dict[str, Any]:
    return {"min": 90_000, "max": 110_000, "mean": 100_000.0, "stddev": 5.0, "N": count, "bins": {"100000": count}}


@pytest.mark.parametrize(
    ("issued", "succeeded", "bytes_", "expected"),
    [
        (4, 0, 0, (0, 4)),  # each of them failed
        (9, 5, 20_480, (5, 4)),  # four were in flight on a full disk
        (6, 5, 20_480, (5, 1)),
        (6, 0, 20_480, (5, 1)),  # fio took no times (gtod_reduce): one at least
    ],
)
def test_requests_of_a_failed_job_that_did_not_succeed_are_its_errors(
    issued: int, succeeded: int, bytes_: int, expected: tuple[int, int], tmp_path: Path
) -> None:
    document = sample(total_ios=issued, io_bytes=bytes_, clat_ns=times(succeeded), lat_ns=times(succeeded))
    document["jobs"][0]["error"] = 28
    with Store(tmp_path / "runs.db") as store:
        record = store.record(store_result(store, printed(document), profile="f"))
    (row,) = totals(record)
    assert (row.requests, row.errors) == expected
    assert record.of(PhaseEnd)[0].errors_by_errno == {"ENOSPC": expected[1]}


def status(requests: int) -> str:
    """As fio prints it with --status-interval."""
    return json.dumps(sample(total_ios=requests, io_bytes=4096 * requests, clat_ns=times(requests)), indent=2) + "\n"


def imported(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> tuple[dict[str, Any], str]:
    place = tmp_path / "result.json"
    place.write_text(text)
    capsys.readouterr()
    assert main(["import", str(place), "--store", str(tmp_path / "runs.db"), "--json"]) == 0
    told = capsys.readouterr()
    return json.loads(told.out), told.err


def test_of_documents_in_between_the_last_whole_one_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told, _ = imported(tmp_path, capsys, status(100) + status(250) + "fio: a line of text\n" + status(400))
    assert told["totals"][0]["requests"] == 400
    (note,) = [item for item in told["warnings"] if item["id"] == "fio-status"]
    assert "2 status documents before the final one" in note["text"]
    told, _ = imported(tmp_path, capsys, status(100) + status(300) + status(500)[:-200])
    assert told["totals"][0]["requests"] == 300
    assert "fio-cut" in {item["id"] for item in told["warnings"]}


def test_results_of_several_runs_in_one_file_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "both.json"
    place.write_text(status(500) + status(100))
    assert main(["import", str(place), "--store", str(tmp_path / "runs.db")]) == 2
    assert "results of different runs of fio" in capsys.readouterr().err


def test_a_result_that_is_in_the_store_is_not_stored_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [imported(tmp_path, capsys, text) for text in (status(400), status(100) + status(400), status(401))]
    assert [told["run"] for told, _ in runs] == [1, 1, 2]
    assert "this result is already run 1; nothing was stored" in runs[1][1]


def test_results_that_were_imported_again_count_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As stores have them from before that was noticed."""
    with Store(tmp_path / "runs.db") as store:
        for count, times_ in ((400, 3), (300, 2)):
            for number in range(times_):
                document = json.loads(status(count))
                store_result(store, printed(document), profile="f", profile_hash=str(number))
    arguments = ["--store", str(tmp_path / "runs.db")]
    assert main(["compare", "1-3", "4-5", *arguments]) == 0
    told = capsys.readouterr().out
    assert "runs 2-3 repeat run 1 (same result of fio, imported again): counted once" in told
    assert "noise between runs unknown" in told
    assert main(["compare", "1", "2-3", *arguments]) == 2
    assert "both sides are the same result (run 1; runs 2-3)" in capsys.readouterr().err


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"total_ios": -1}, "`jobs[0].read.total_ios` is missing or garbled"),
        ({"io_bytes": "4096"}, "`jobs[0].read.io_bytes` is missing or garbled"),
        ({"clat_ns": {"N": 5}}, "`jobs[0].read.clat_ns.mean` is missing or garbled"),
        ({"clat_ns": {**times(5), "bins": {"soon": 5}}}, "`jobs[0].read.clat_ns.bins` is missing or garbled"),
        ({"clat_ns": None}, "requests and no times of them"),
    ],
)
def test_a_result_that_is_not_as_fio_writes_it_is_refused_with_the_field(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with Store(tmp_path / "runs.db") as store, pytest.raises(BadInputError, match=re.escape(said)):
        store_result(store, printed(sample(**changes)), profile="f")


@given(value=JSON)
def test_no_time_of_a_flush_breaks_the_importer(value: object, tmp_path_factory: pytest.TempPathFactory) -> None:
    document = sample()
    document["jobs"][0]["sync"] = {"total_ios": 0, "lat_ns": value}
    with Store(tmp_path_factory.mktemp("fuzz") / "runs.db") as store, suppress(BadInputError):
        store_result(store, printed(document), profile="f")


@given(key=st.sampled_from(["io_bytes", "total_ios", "runtime", "clat_ns", "drop_ios"]), value=JSON)
def test_no_result_breaks_the_importer(key: str, value: object, tmp_path_factory: pytest.TempPathFactory) -> None:
    with Store(tmp_path_factory.mktemp("fuzz") / "runs.db") as store:
        with suppress(BadInputError):
            store_result(store, printed(sample(**{key: value})), profile="f")
        for run in store.runs():
            totals(store.record(run.id))


def test_a_job_of_fio_s_that_is_called_config_is_fio_s() -> None:
    assert recognize("[config]\nrw=read\nfilename=x\n[file1]\nbs=4k\n") == "fio"


def test_import_knows_a_format_by_its_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = {
        "fio": FIO,
        "icf": ICF,
        "sqlio": "sqlio -kR -t2 -s5 x.dat",
        "diskspd": "C:\\tools\\diskspd.exe -b4K x.dat",
        "sqlio-param": "x.dat 2 0x0 100\n",
        "sqliosim": "[CONFIG]\nErrorFile=sim.xml\n[File1]\nFileName=x.mdx\nInitialSize=20\nMaxSize=40\n"
        "[File2]\nFileName=x.ldx\nInitialSize=20\nMaxSize=20\nLogFile=true\n",
        "fio-json": json.dumps(sample()),
    }
    for found, text in samples.items():
        assert recognize(text) == found
        place = tmp_path / f"{found}.txt"
        place.write_text(text)
        assert main(["import", str(place), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["format" if found != "fio-json" else "run"] in (found, 1)
    assert main(["import", str(tmp_path / "fio.txt"), "-o", str(tmp_path / "made.toml")]) == 0
    assert main(["run", str(tmp_path / "made.toml"), "--dry-run"]) == 2
    assert "2 targets; name them" in capsys.readouterr().err
    assert main(["import", "--command", "diskspd -b4K -w100 x.dat"]) == 0
    capsys.readouterr()
    assert main(["import", "--command", "elbencho -r -b 4k /data/f"]) == 2
    assert "only its results: import the file of --csvfile" in capsys.readouterr().err
    (tmp_path / "prose").write_text("Call me Ishmael.")
    for bad in ("prose", "missing"):
        capsys.readouterr()
        assert main(["import", str(tmp_path / bad)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def vscsi(what: str, rows: dict[str, int], mean: int = 0, largest: int = 0) -> str:
    """A histogram as `vscsiStats -p all -c` prints it."""
    lines = [f"Histogram: {what},virtual machine worldgroup ID : 4711,virtual disk handle ID : 8192 (scsi0:0)"]
    lines += ["min,1", f"max,{largest}", f"mean,{mean}", f"count,{sum(rows.values())}"]
    return "\n".join([*lines, "Frequency,Histogram Bucket Limit", *(f"{n},{limit}" for limit, n in rows.items())])


def test_histograms_of_vscsistats_are_a_profile() -> None:
    text = "\n\n".join(
        [
            vscsi("IO lengths of commands", {"4096": 750, "65536": 250}),
            vscsi("IO lengths of Read commands", {"4095": 0, "4096": 750}, 4096, 4096),
            vscsi("IO lengths of Write commands", {"8191": 0, "8192": 125, "49152": 0, "65535": 125}, 40000, 65024),
            vscsi("distance (in LBNs) between successive Read commands", {"0": 0, "1": 375, "500000": 375}),
            vscsi("distance (in LBNs) between successive Write commands", {"1": 250}),
            vscsi("number of outstanding IOs when a new IO is issued", {"1": 900, "4": 100, "64": 0}),
            vscsi("latency of IO interarrival time in Microseconds (us)", {"5000": 1000}, 5000),
        ]
    )
    assert recognize(text) == "vscsistats"
    made = import_vscsistats("guest", text)
    reads, writes = plan_of(made)["phase"][0]["stream"]
    assert [item["size"] for item in reads["request"]] == [4096]
    assert {item["size"]: item["share"] for item in writes["request"]} == {8192: 50.0, 61440: 50.0}
    assert (reads["pace"]["rate"], writes["pace"]["rate"]) == (150.0, 50.0)
    assert (reads["address"]["kind"], reads["address"]["random"]) == ("runs", 50.0)
    assert writes["address"]["kind"] == "sequential"
    assert any("50 % of writes are in buckets of several sizes" in note for note in made.notes)
    with pytest.raises(BadInputError, match="IO interarrival"):
        import_vscsistats("guest", text.split("Histogram: latency")[0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nCommand Line: diskspd -b4K -d5 f\n\nInput parameters:\n\n\ttimespan:   1\n", "result"),
        ("'Test Type,Test Description\n0,\n'Version\n1.1.0\n'Results\n'Target Type,Target Name\n", "result"),
        ("ISO DATE,LABEL,PHASE,HOSTS\n2024-01-01T00:00:00,,WRITE,1\n", "result"),
        ("OPERATION   RESULT TYPE         FIRST DONE   LAST DONE\n", "results of elbencho"),
        ("a: (g=0): rw=randread, bs=(R) 4096B-4096B\nfio-3.33\n", "fio with --output-format=json+"),
    ],
)
def test_results_of_other_tools_are_called_what_they_are(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "found.txt"
    place.write_text(text)
    for format_ in ([], ["--format", "diskspd"]):
        assert main(["import", str(place), *format_]) == 2
        assert said in capsys.readouterr().err


def test_a_command_line_with_a_job_file_gives_the_job_its_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """fio reads options of the command line first, so what the file sets holds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.fio").write_text("[a]\nrw=randread\nbs=8k\nfilename=x\nsize=1g\n")
    for command in ("fio a.fio --time_based --runtime=20 --bs=4k", "fio --time_based --runtime=20 --bs=4k a.fio"):
        assert main(["import", "--command", command, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert 'duration = "20s"' in found["text"]
        assert 'request = "8KiB"' in found["text"]
        assert any(note.endswith("not those of the command line: bs") for note in found["notes"])
        (line,) = (note for note in found["notes"] if "no target" in note)
        assert "In its source, the target is x;" in line, "the profile does not hold it"
        assert "In its source, the target is x;" in found["text"]
    (tmp_path / "dev.fio").write_text("[dev]\nfilename=/dev/nvme7n1\nrw=randread\nsize=1g\ndirect=1\nioengine=libaio\n")
    assert main(["import", "dev.fio", "-o", "dev.toml"]) == 0
    assert main(["import", "dev.toml"]) == 2
    assert "dev.toml: is a profile of Brickyard already; run it: `brickyard run dev.toml`" in capsys.readouterr().err
    assert main(["import", "dev.fio", "-o", "again.toml"]) == 0
    assert "`brickyard run again.toml /dev/nvme7n1`" in capsys.readouterr().err
    assert "`brickyard run PROFILE /dev/nvme7n1`" in (tmp_path / "dev.toml").read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("two.bat", "diskspd -d1 -b4K -r -o4 -t1 c:\\a.dat d:\\b.dat\n"),
        ("two.fio", "[global]\nsize=1M\nrw=read\n[a]\nfilename=a b.dat\n[b]\nfilename=c.dat\n"),
    ],
)
def test_the_note_of_an_import_names_as_many_targets_as_the_profile_needs(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    assert main(["import", name, "-o", "two.toml"]) == 0
    (command,) = re.findall(r"`brickyard (run .*)`", capsys.readouterr().err)
    assert command == "run two.toml TARGET1 TARGET2"
    assert main([*command.split(), "--size", "1MiB", "--dry-run"]) == 0
    capsys.readouterr()
    assert main(["run", "two.toml", "TARGET1", "--size", "1MiB", "--dry-run"]) == 2
    assert "uses 2 targets, but 1 was named" in capsys.readouterr().err


def test_a_profile_of_figures_of_several_targets_together_needs_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iometer's row of all managers is one load, whatever the number of disks."""
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[1] / "samples" / "results" / "iometer-1.1.csv").read_text()
    lines = [
        [line, line.replace("DRIVE:1", "DRIVE:2")] if line.startswith("DISK") else [line] for line in text.split("\n")
    ]
    Path("r.csv").write_text("\n".join(line for both in lines for line in both))
    assert main(["import", "r.csv", "-o", "r.toml", "--store", "runs.db"]) == 0
    said = capsys.readouterr().err
    assert "did together, so the profile needs 1 target; name it in each run: `brickyard run r.toml TARGET`" in said
    assert main(["run", "r.toml", "TARGET", "--size", "1MiB", "--dry-run"]) == 0

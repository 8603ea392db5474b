"""The corpus of interchange: loads as their own tools write them, each with the load that it must become.

What fio runs is checked against fio itself: the same job by fio, request by request where its log tells, else by rates.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from brickyard import _core
from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.formats.diskspd import import_diskspd
from brickyard.formats.fio_export import export_fio
from brickyard.formats.fio_job import import_fio, import_fio_command
from brickyard.formats.icf import import_icf
from brickyard.formats.recognize import import_profile, recognize
from brickyard.formats.sqlio import import_sqlio
from brickyard.schema import read_plan
from interchange_support import (
    CHECKED,
    FILE_BYTES,
    HERE,
    KIB,
    MIB,
    QUEUE,
    counts_of_fio,
    fio,
    notes_of,
    plan_of,
    requests_of_fio,
    sizes,
    streams,
)

S = 1_000_000_000


# ---- fio: options that change the load


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        ("rw=randread\nrandom_distribution=normal:10", "address", {"kind": "normal", "deviation": 10.0}),
        (
            "rw=randread\nrandom_distribution=zoned:50/5:30/15:20/",
            "address",
            {
                "kind": "zones",
                "zones": [
                    {"requests": 50.0, "region": "0B..5%"},
                    {"requests": 30.0, "region": "5%..20%"},
                    {"requests": 20.0, "region": "20%..100%"},
                ],
            },
        ),
        (
            "rw=randread\nrandom_distribution=zoned_abs:60/1G:40/3G",
            "address",
            {
                "kind": "zones",
                "zones": [
                    {"requests": 60.0, "region": "0B..1GiB"},
                    {"requests": 40.0, "region": "1GiB..4GiB"},
                ],
            },
        ),
        ("rw=write:60k\nbs=4k", "address", {"kind": "strided", "stride": 64 * KIB}),
        ("rw=randrw\nrate_iops=300,100", "operations", {"read": 75.0, "write": 25.0, "flush": 0.0, "trim": 0.0}),
        ("rw=randrw\nrate_iops=300,100", "pace", {"loop": "open", "rate": 400.0, "arrivals": "constant"}),
        ("rw=randrw\nrwmixread=70\nrate_iops=100", "pace", {"loop": "open", "rate": 200.0, "arrivals": "constant"}),
        ("rw=read\nrate_iops=5k", "pace", {"loop": "open", "rate": 5120.0, "arrivals": "constant"}),
        ("rw=rw\nbs=4k,64k\nrate=1m", "pace", {"loop": "open", "rate": 272.0, "arrivals": "constant"}),
        # fio's constant rate counts bytes, and rate_iops so many of the smallest size.
        (
            "rw=randread\nbsrange=4k-64k\nrate_iops=500",
            "pace",
            {"loop": "open", "rate": 58.823529412, "arrivals": "constant"},
        ),
        (
            "rw=randread\nbssplit=4k/0:16k/100\nrate_iops=400",
            "pace",
            {"loop": "open", "rate": 100.0, "arrivals": "constant"},
        ),
        (
            "rw=randread\nbssplit=4k/90:64k/10\nrate=4m\nrate_process=poisson",
            "pace",
            {"loop": "open", "rate": 1024.0, "arrivals": "poisson"},
        ),
        (
            "rw=randread\nbssplit=4k/90:64k/10\nrate_iops=500\nrate_process=poisson",
            "pace",
            {"loop": "open", "rate": 500.0, "arrivals": "poisson"},
        ),
        ("rw=read\noffset=1g", "region", "1GiB..100%"),
    ],
)
def test_fio_options_keep_their_meaning(options: str, key: str, value: object) -> None:
    (stream,) = streams(fio(f"[job]\nfilename=x\n{options}"))
    assert stream[key] == value


def test_sizes_of_reads_and_writes_stay_apart() -> None:
    (stream,) = streams(fio("[j]\nrw=randrw\nbs=4k,64k"))
    assert sizes(stream) == {("read", 4 * KIB): 100, ("write", 64 * KIB): 100}
    (stream,) = streams(fio("[j]\nrw=randrw\nbssplit=4k/60:8k/40,64k/100"))
    assert sizes(stream) == {("read", 4 * KIB): 60, ("read", 8 * KIB): 40, ("write", 64 * KIB): 100}


def test_buffered_is_the_opposite_of_direct() -> None:
    assert fio("[j]\nbuffered=0")["io"] == "direct"
    assert fio("[j]\ndirect=1\nbuffered=1")["io"] == "buffered"
    assert fio("[j]\nbuffered=0\ndirect=0")["io"] == "buffered"
    assert fio("[j]\ndirect=1\nbuffered=1\ndirect=1")["io"] == "direct"
    assert fio("[global]\ndirect=0\nbuffered=1\n[j]\ndirect=1")["io"] == "direct"
    assert fio("[j]\ninvalidate=0")["cache"] == "as_is"


MIXES = {
    "later reads": ("rwmixwrite=20", "rwmixread=60", 60),
    "later writes": ("rwmixread=60", "rwmixwrite=20", 80),
    "reads after most writes": ("rwmixwrite=80", "rwmixread=70", 70),
}


@pytest.mark.parametrize("name", MIXES)
def test_of_shares_of_reads_and_of_writes_the_later_holds_as_in_fio(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, reads = MIXES[name]
    rest = f"filename={tmp_path / 'data'}\nrw=randrw\nsize=8m\nioengine=psync\n"
    (tmp_path / "a.fio").write_text(f"[global]\n{first}\n[job]\n{second}\n{rest}")
    words = ["--name=job", f"--{first}", f"--{second}", "--rw=randrw", "--filename=x"]
    own = [*words[:2], "--rw=randrw", "--filename=x"]
    common = tmp_path / "common.fio"
    common.write_text(f"[job]\n{second}\n{rest}")
    made = [
        import_fio("x", f"[job]\n{first}\n{second}\n{rest}", HERE),
        import_fio("x", (tmp_path / "a.fio").read_text(), HERE),
        import_fio_command("x", words),
        import_fio_command("x", [str(common), f"--{first}"]),
    ]
    assert [stream["operations"]["read"] for one in made for stream in streams(plan_of(one))] == [reads] * 4
    assert streams(plan_of(import_fio_command("x", own)))[0]["operations"]["read"] != reads
    assert any(f"not those of the command line: {first.partition('=')[0]}" in note for note in made[-1].notes)

    out = tmp_path / "result.json"
    command = ["fio", str(tmp_path / "a.fio"), "--output-format=json+", f"--output={out}"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (job,) = json.loads(out.read_text()[out.read_text().index("{") :])["jobs"]
    done = job["read"]["total_ios"] / (job["read"]["total_ios"] + job["write"]["total_ios"])
    assert abs(done * 100 - reads) < 5, "fio itself"
    assert main(["import", str(out), "--store", str(tmp_path / "runs.db"), "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    assert run["plan"]["phase"][0]["stream"][0]["operations"]["read"] == reads


def test_an_option_that_changes_the_load_is_not_to_be_taken_out() -> None:
    with pytest.raises(BadInputError) as refused:
        fio("[j]\nzonemode=strided")
    assert "another load" in str(refused.value)
    assert "take it out" not in str(refused.value)


def test_what_is_passed_over_is_said() -> None:
    notes = import_fio("x", "[j]\nfadvise_hint=0\nprio=7\nend_fsync=1\nwrite_bw_log=x\nlog_avg_msec=1", HERE).notes
    assert [note.split(":")[0] for note in notes] == ["prio", "end_fsync"]


def test_the_etcd_command_leads_to_the_profile_that_ships() -> None:
    with pytest.raises(BadInputError, match=r"bs=2300: .* write 2048B or 2560B, .*; the profile etcd-fdatasync"):
        fio("[mytest]\nrw=write\nioengine=sync\nfdatasync=1\nsize=22m\nbs=2300")


def test_submission_and_errors_are_not_passed_over() -> None:
    names = [note.split(":")[0] for note in notes_of("[j]\nio_submit_mode=offload\ncontinue_on_error=all\ndirect=1")]
    assert names == ["io_submit_mode", "continue_on_error"]
    assert notes_of("[j]\nio_submit_mode=inline\ndirect=1") == []


def test_interlocked_cursors_of_random_diskspd_are_said() -> None:
    notes = import_diskspd("d", "diskspd -b8K -rdpct60/5:40/95 -si -t2 x.dat").notes
    assert any(note.startswith("-si has no effect") for note in notes)


def test_what_fio_does_with_the_cache_of_buffered_jobs_is_said() -> None:
    """fio drops the cache of the file for every job and every pass over the file, and hints at random reads."""
    timed = "rw=randread\nruntime=4\ntime_based\nsize=256m\n"
    (dropped, hinted) = notes_of(f"[a]\n{timed}")
    assert dropped.startswith("Buffered job a: fio drops the page cache")
    assert hinted.startswith("Buffered job a: fio tells the kernel")
    assert all("direct=1" in note for note in (dropped, hinted))
    assert notes_of(f"[a]\n{timed}direct=1") == []
    assert notes_of(f"[a]\n{timed}invalidate=0\nfadvise_hint=0") == []
    # Once over the file in the first phase is what a profile does too; so is a write without a read.
    assert notes_of("[a]\nrw=write\nsize=1m") == []
    assert notes_of("[a]\nrw=write\nsize=1m\n[b]\nrw=write\nsize=1m\nstonewall") == [], (
        "who reads nothing finds nothing there"
    )
    second = notes_of("[a]\nrw=write\nsize=1m\n[b]\nrw=read\nsize=1m\nstonewall")[0]
    assert second.startswith("Buffered job b: ")
    many = "".join(f"[j{n}]\nrw=read\nsize=1m\nstonewall\n" for n in range(9))
    assert notes_of(many)[0].startswith("Buffered jobs j1, j2, j3, j4, j5 and 3 more: ")
    # What later jobs do with the cache does not decide what happens before the first phase.
    later = fio("[a]\nrw=read\nsize=1m\n[b]\nrw=read\nsize=1m\nstonewall\ninvalidate=0")
    assert later["cache"] == "cold"


def test_timeout_is_runtime_and_limits_have_their_names() -> None:
    plan = fio("[j]\ntimeout=60\ntime_based\nnumber_ios=5")
    assert plan["phase"][0]["duration"] == f"{60 * S}ns"
    assert fio("[j]\nnumber_ios=500\nnumjobs=2\nfilename=x\nrw=randread")["phase"][0]["requests"] == 1000


def test_a_number_of_requests_is_said_to_include_the_warm_up() -> None:
    """fio 3.33 did 2,000 after a ramp_time in which it did 1,000."""
    assert [note for note in notes_of("[j]\nrw=read\nsize=1m\nramp_time=1\nnumber_ios=5") if "fio counts those" in note]
    assert not [note for note in notes_of("[j]\nrw=read\nsize=1m\nnumber_ios=5") if "number_ios" in note]


def test_amounts_of_jobs_that_run_together_are_summed() -> None:
    both = "[global]\nfilename=x\nsize=16m\nrw=read\n{0}\n[fast]\n[slow]\nthinktime=5ms\n"
    assert fio(both.format("io_size=4m"))["phase"][0]["bytes"] == 8 << 20
    assert fio(both.format("number_ios=300"))["phase"][0]["requests"] == 600
    assert [note for note in notes_of(both.format("io_size=4m")) if "one amount of their phase" in note]
    assert fio(both.format(""))["phase"][0]["passes"] == 1, "each stream goes through its own"
    assert not [note for note in notes_of(both.format("")) if "amount" in note]
    files = fio("[j]\nfilename=x:y\nsize=16m\nio_size=4m\nrw=read\niodepth=2\nioengine=io_uring")
    assert files["phase"][0]["bytes"] == 4 << 20, "a part of it for each file"


def test_a_job_that_has_gone_through_its_file_ends_before_its_number_of_requests() -> None:
    (phase,) = fio("[j]\nfilename=x\nsize=1m\nrw=read\nnumber_ios=1000")["phase"]
    assert (phase["requests"], phase["passes"]) == (1000, 1)


def test_a_mix_with_flushes_tells_which_fio_does_the_same() -> None:
    (said,) = [note for note in notes_of("[j]\nrw=randrw\nsize=1m\nfsync=4\ndirect=1") if "fsync" in note]
    assert said.startswith("fsync=4: here one flush follows each such number of writes, as in fio from 3.38 on")
    assert not [note for note in notes_of("[j]\nrw=randwrite\nsize=1m\nfsync=4\ndirect=1") if "fsync" in note]
    assert "fsync=4 has no effect: the job writes nothing." in notes_of("[j]\nrw=randread\nsize=1m\nfsync=4\ndirect=1")
    assert fio("[j]\nrw=randread\nsize=1m\nfsync=4\ndirect=1")["phase"][0]["stream"][0]["flush_every"] is None


def test_only_a_profile_of_one_target_is_said_to_run_without_it() -> None:
    one = "[{0}]\nfilename={0}\nrw=read\nsize=1m\ndirect=1\n"
    assert "without it, a run measures a scratch file" in import_fio("x", one.format("a"), HERE).text
    both = import_fio("x", one.format("a") + one.format("b"), HERE).text
    assert "brickyard run" in both
    assert "scratch" not in both


def test_a_misspelt_option_leads_to_the_right_one() -> None:
    with pytest.raises(BadInputError, match=r"iodpeth=16 has no counterpart here; did you mean iodepth\?"):
        fio("[j]\nrw=read\nsize=1m\niodpeth=16")


def test_several_sizes_at_random_tell_what_the_map_of_fio_does() -> None:
    mixed = "[j]\nrw=randread\nbssplit=4k/60:64k/40\nsize=8m\ndirect=1\n"
    assert any("shortens requests that meet it" in note for note in notes_of(mixed))
    assert not any("map" in note for note in notes_of(f"{mixed}norandommap=1"))
    # fio 3.33 does 867 + 883, 764 + 708 and 959 + 951 requests of their whole sizes where 64 MiB are 1,927.
    each = "[j]\nrw=randrw\nbs=4k,64k\nsize=64m\ndirect=1\n"
    (said,) = [note for note in notes_of(each) if "map" in note]
    assert "it does fewer requests, unless time ends it" in said
    assert "shortens" not in said


def test_a_search_for_a_depth_of_one_is_none() -> None:
    (said,) = [
        note for note in notes_of("[j]\nrw=randread\nsize=1m\nlatency_target=2ms\ndirect=1") if "latency" in note
    ]
    assert "there is nothing to search" in said


@pytest.mark.parametrize(
    ("engine", "depth"),
    [
        ("ioengine=libaio", 1),
        ("ioengine=libaio\ndirect=1", 16),
        ("ioengine=io_uring", 16),
        # glibc has one thread for the requests of a file: fio 3.33 was seen to have 0.8 reads in flight on the disk.
        ("ioengine=posixaio\ndirect=1", 1),
        ("ioengine=psync\ndirect=1", 1),
        ("ioengine=io_uring\nthinktime=2ms", 1),  # fio 3.33 waits for all requests before it pauses
    ],
)
def test_a_queue_that_does_not_reach_the_file_is_none(engine: str, depth: int) -> None:
    (stream,) = streams(fio(f"[j]\nfilename=x\n{QUEUE}{engine}"))
    assert stream["depth"] == depth
    said = [note for note in notes_of(f"[j]\nfilename=x\n{QUEUE}{engine}") if "iodepth=16 has no effect" in note]
    assert len(said) == int(depth == 1)


def test_jobs_at_different_times_are_phases_in_turn() -> None:
    text = "[global]\ntime_based\nfilename=x\n[a]\nruntime=10\n[b]\nstartdelay=4\nruntime=10\n"
    plan = fio(text)
    told = [(p["duration"], [s["name"] for s in p["stream"]]) for p in plan["phase"]]
    assert told == [(f"{4 * S}ns", ["a"]), (f"{6 * S}ns", ["a", "b"]), (f"{4 * S}ns", ["b"])]
    ended = fio(text.replace("[global]", "[global]\nexitall"))
    assert [p["duration"] for p in ended["phase"]] == [f"{4 * S}ns", f"{6 * S}ns"]


def test_clones_without_a_file_name_have_a_file_each() -> None:
    imported = import_fio("x", "[j]\nrw=randread\nnumjobs=3\nsize=1m\ndirectory=/data", HERE)
    assert imported.targets == ["/data/j.0.0", "/data/j.1.0", "/data/j.2.0"]
    assert [s["target"] for s in streams(plan_of(imported))] == [0, 1, 2]


def test_sequential_clones_have_a_cursor_each_over_the_same_blocks() -> None:
    found = streams(fio("[j]\nrw=read\nnumjobs=3\nfilename=x\nsize=1g"))
    assert [(s["workers"], s["region"], s["address"]["kind"]) for s in found] == [(1, "0B..1GiB", "sequential")] * 3


def test_random_clones_share_a_pass_and_a_note_says_so() -> None:
    imported = import_fio("x", "[j]\nrw=randread\nnumjobs=3\nfilename=x\nsize=1g", HERE)
    plan = plan_of(imported)
    assert (plan["phase"][0]["passes"], streams(plan)[0]["workers"]) == (3, 3)
    assert any("The 3 clones of job j go through the blocks together" in note for note in imported.notes)
    alone = import_fio("x", "[j]\nrw=randread\nnumjobs=3\nfilename=x\nsize=1g\nnorandommap", HERE)
    assert not any("clones" in note for note in alone.notes)


def test_wait_for_orders_phases() -> None:
    text = "[global]\nfilename=x\nruntime=5\n[a]\nrw=write\n[b]\nwait_for=a\nrw=read\n"
    assert [p["name"] for p in fio(text)["phase"]] == ["a", "b"]


@pytest.mark.parametrize(
    "command",
    [
        "fio --name=j --rw=randread --bs=8k --filename=/dev/x",
        "fio -filename=/dev/x -rw=randread -bs=8k -name=j -group_reporting -thread",
        "$ sudo /usr/bin/fio --name j --rw randread --bs 8k --filename /dev/x | tee -a out.log",
        "fio --name=global --bs=8k --filename=/dev/x --name=j --rw=randread > out.txt 2>&1",
        "fio --filename=/dev/x \\\n  --bs=8k --name=j \\\n  --rw=randread >>out.txt & ",
    ],
)
def test_a_fio_command_line_is_read_as_people_write_it(command: str) -> None:
    assert recognize(command) == "fio-command"
    imported = import_profile("fio-command", "c", command, HERE)
    assert imported.targets == ["/dev/x"]
    (stream,) = streams(plan_of(imported))
    assert (stream["name"], stream["request"][0]["size"], stream["operations"]["read"]) == ("j", 8 * KIB, 100)


def test_of_several_fio_command_lines_each_is_imported_apart() -> None:
    with pytest.raises(BadInputError, match="import each of them apart"):
        import_profile("fio-command", "c", "fio --name=a --rw=read && fio --name=b --rw=write", HERE)


def test_a_fio_command_line_is_a_job() -> None:
    words = [
        "--direct=1",
        "--name=a",
        "--rw=randread",
        "--bs=8k",
        "--output-format=json",
        "--name=b",
        "--stonewall",
        "--rw=read",
    ]
    plan = plan_of(import_fio_command("x", words))
    assert [(p["name"], p["stream"][0]["request"][0]["size"]) for p in plan["phase"]] == [
        ("a", 8 * KIB),
        ("b", 4 * KIB),
    ]
    assert recognize("fio --name=a --rw=read") == "fio-command"


def requests_of_ours(options: str, count: int) -> list[tuple[str, int, int]]:
    size = "" if "size=" in options else f"size={FILE_BYTES}\n"
    imported = import_fio("x", f"[job]\n{options}\n{size}filename=x\nioengine=libaio\n", HERE)
    drawn = json.loads(_core.draw(_core.validate(imported.text, []), FILE_BYTES, count))
    return [(item["operation"], item["offset_bytes"], item["request_bytes"]) for item in drawn]


def by_tenths(found: list[tuple[str, int, int]]) -> list[float]:
    """The share of requests in each sixteenth of the file."""
    counts = Counter(offset * 16 // FILE_BYTES for _, offset, _ in found)
    return [counts[k] / len(found) for k in range(16)]


def popularity(found: list[tuple[str, int, int]]) -> list[float]:
    """The share of requests that fall to the hottest 1, 5, 20 and 50 % of all blocks."""
    counts = sorted(Counter(offset // 4096 for _, offset, _ in found).values(), reverse=True)
    blocks = FILE_BYTES // 4096
    return [sum(counts[: blocks * percent // 100]) / len(found) for percent in (1, 5, 20, 50)]


@pytest.mark.parametrize("name", CHECKED)
def test_the_same_requests_as_fio(name: str, tmp_path: Path) -> None:
    options = CHECKED[name]
    theirs = requests_of_fio(options, tmp_path)
    ours = requests_of_ours(options, len(theirs))
    assert len(theirs) >= 256
    # Chance moves a share of n requests by less than three of its deviations.
    loose = 3 / (len(theirs) ** 0.5) * 0.7 + 0.005
    for of in (lambda r: r[0], lambda r: (r[0], r[2])):
        one, other = (Counter(map(of, side)) for side in (theirs, ours))
        for key in one | other:
            assert abs(one[key] - other[key]) / len(theirs) <= loose, key
    if name in ("zipf", "normal"):
        # fio hashes ranks to blocks, and several may meet in one block; ours are scattered without meeting.
        near = zip(popularity(theirs), popularity(ours), strict=True)
        assert all(abs(a - b) <= 0.08 for a, b in near), (popularity(theirs), popularity(ours))
    else:
        near = zip(by_tenths(theirs), by_tenths(ours), strict=True)
        assert all(abs(a - b) <= loose for a, b in near), (by_tenths(theirs), by_tenths(ours))
    if name in ("strided", "sequential", "region"):
        first = FILE_BYTES // (64 * KIB) if name == "strided" else len(theirs)
        assert name == "region" or [r[1] for r in theirs[:first]] == [r[1] for r in ours[:first]]
    if name == "map":
        assert len({r[1] for r in theirs}) == len({r[1] for r in ours}) == len(theirs)


@pytest.mark.parametrize(
    "options",
    ["rw=randread\nfilesize=1m\nsize=256k", "rw=read\nfilesize=1m\nsize=256k", "rw=read\nfilesize=256k\nsize=1m"],
)
def test_a_job_on_a_part_of_its_file_moves_as_much_as_in_fio(options: str, tmp_path: Path) -> None:
    theirs = requests_of_fio(f"bs=4k\n{options}", tmp_path)
    (phase,) = fio(f"[j]\nfilename=x\nbs=4k\n{options}")["phase"]
    (stream,) = phase["stream"]
    asked = phase.get("bytes") or _core.parse_bytes(stream["region"].split("..")[1])
    assert asked == sum(size for _, _, size in theirs)


AMOUNTS = {
    "aligned": "rw=randread\nblockalign=64k",
    "oddly-aligned": "rw=randread\nbs=16k\nblockalign=24k\nloops=2",
    "aligned-clones": "rw=randread\nblockalign=16k\nnumjobs=2",
    "in-order": "rw=write\nbs=8k\nblockalign=32k",
    "steps": "rw=read:12k",
    "steps-to-the-end": "rw=read:12k\nsize=100k\nfilename=y",
    "steps-behind-an-offset": "rw=write:28k\noffset=512k\nsize=512k\nloops=2",
    "requests": "rw=read\nnumber_ios=10\nloops=2",
    "more-than-the-file": "rw=write\nloops=2\nio_size=3m",
    "less-than-the-file": "rw=read\nloops=2\nio_size=512k",
    "read-back": "rw=randwrite\nverify=crc32c\nloops=2",
    "first-part-read-back": "rw=write\nverify=crc32c\nio_size=256k",
    "places-read-back": "rw=randwrite\nverify=crc32c\nblockalign=64k\nfilename=z",
    "no-time-to-read-back": "rw=write\nverify=crc32c\nruntime=300ms\ntime_based\nrate_iops=50",
}
LARGER = {"steps": "rw=read:12k", "steps-twice": "rw=write:60k\nloops=2", "steps-cut": "rw=read:28k\nnumber_ios=1000"}


def counts_of_ours(
    jobs: str, directory: Path, capsys: pytest.CaptureFixture[str], names: list[str]
) -> Counter[tuple[str, str]]:
    imported = import_fio("x", jobs, directory)
    profile, files = directory / "p.toml", [str(directory / f"ours-{n}") for n in range(len(imported.targets))]
    profile.write_text(imported.text)
    assert main(["run", str(profile), *files, "--json", "--store", str(directory / "runs.db")]) == 0
    found: Counter[tuple[str, str]] = Counter()
    for total in json.loads(capsys.readouterr().out)["totals"]:
        # A job that reads back what it wrote is a phase for the writes and another for the reads of each loop.
        job = max((name for name in names if total["phase"].startswith(name)), key=len)
        found[job, total["operation"]] += total["requests"]
    return +found


SMALL = "[global]\nsize=1m\nbs=4k\ninvalidate=0\nfadvise_hint=0\n"


def in_turn(jobs: dict[str, str], filename: str) -> str:
    return at_once({name: f"stonewall\n{job}" for name, job in jobs.items()}, filename)


def at_once(jobs: dict[str, str], filename: str = "") -> str:
    """fio takes 0.3 s for each job that waits for another; so each has a file of its own."""
    named = {name: job if "filename" in job else f"filename={filename or name}\n{job}" for name, job in jobs.items()}
    return SMALL + "".join(f"[{name}]\n{job}\n" for name, job in named.items())


def test_jobs_move_as_much_as_in_fio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = counts_of_fio(at_once(AMOUNTS), tmp_path)
    ours = counts_of_ours(in_turn(AMOUNTS, "x"), tmp_path, capsys, list(AMOUNTS))
    timed = ("no-time-to-read-back", "write")
    assert abs(theirs.pop(timed) - ours.pop(timed)) <= 2
    assert ours == theirs
    assert ours["aligned", "read"] == 256, "as many as make up the size"
    assert (tmp_path / "ours-0").stat().st_size == (1 + 16) * MIB, "its header, and the least that a file is made with"


def test_steps_on_a_device_end_after_one_round_as_in_fio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(2 * MIB)
    theirs = counts_of_fio(at_once(LARGER, "x"), tmp_path)
    assert counts_of_ours(in_turn(LARGER, "/dev/x"), tmp_path, capsys, list(LARGER)) == theirs
    (said,) = [note for note in notes_of("[j]\nfilename=x\nsize=1m\nrw=read:12k\nloops=2\ndirect=1") if "rw=" in note]
    assert "several rounds (512 requests), as here" in said
    assert "after 2 rounds (128 requests): run with --set passes=0.5 " in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("rw=randrw", "cannot read those alone"),
        ("rw=write\nruntime=5\ntime_based", "its time is over"),
        ("rw=write\nruntime=5", "in what is left of its runtime"),
        ("rw=write\nloops=30", "after each of its loops"),
        ("rw=randwrite\nnorandommap", "counts as unchecked"),
    ],
)
def test_what_fio_reads_back_otherwise_is_said(options: str, said: str) -> None:
    job = f"[j]\nsize=1m\ndirect=1\nverify=crc32c\n{options}"
    assert [note for note in notes_of(job) if said in note]
    assert not [note for note in notes_of(f"{job}\ndo_verify=0") if said in note]


def test_options_that_are_refused_say_what_to_do_instead() -> None:
    refused = (
        ("read_iolog=my.log", "brickyard trace import my.log -o load.byt` .* `brickyard run load.byt TARGET"),
        ("nrfiles=4", "a job for each file"),
        ("nrfiles=3\nioengine=io_uring\niodepth=32", "iodepth=32 cannot be divided among 3 files"),
        ("nrfiles=2\nioengine=libaio\niodepth=32", "one request in flight cannot"),
        ("nrfiles=2\nioengine=io_uring\niodepth=32\nfile_service_type=sequential", "a job for each file"),
        ("flow=8", "rate_iops"),
        ("rw=randread\nblockalign=64k\nrandom_distribution=zipf", "leave blockalign out"),
        ("rw=write:12k\nsize=1m\nverify=crc32c", "do_verify=0"),
        ("rw=write\nsize=1m\nio_size=4m\nverify=crc32c", "write loops=N instead"),
        ("offset=25%\noffset_increment=16m\nnumjobs=4\nfilename=x", "offset=25% with offset_increment=16m: give both"),
        (
            "runtime=2\ntime_based\n[k]\nruntime=2\ntime_based\nramp_time=1",
            r"beside \(ramp_time\).* the same ramp_time",
        ),
        ("size=1m\nnumber_ios=7\n[k]\nsize=1m", r"than the jobs it runs beside \(number_ios\), and how long"),
    )
    for option, said in refused:
        with pytest.raises(BadInputError, match=said):
            import_fio("x", f"[j]\nrw=read\n{option}", HERE)
    with pytest.raises(BadInputError, match="pre_read with buffered"):
        import_fio("x", "[j]\nfilename=x\nrw=read\npre_read=1", HERE)
    found = import_fio("x", "[j]\nfilename=x\nrw=write\ndirect=1\npre_read=1\nzero_buffers=1\nhipri=1", HERE)
    assert {note.split(":")[0] for note in found.notes} >= {"pre_read", "zero_buffers", "hipri"}


def test_the_files_of_a_job_are_streams_that_divide_its_depth_size_and_rate() -> None:
    job = "rw=randread\nbs=4k\nioengine=libaio\niodepth=8\ndirect=1\nsize=64m\nrate_iops=1000"
    for files, names in (("nrfiles=4", [f"j.0.{n}" for n in range(4)]), ("filename=a:b\nnrfiles=9", ["a", "b"])):
        made = import_fio("x", f"[j]\n{job}\n{files}", HERE)
        assert made.targets == names
        (phase,) = fio(f"[j]\n{job}\n{files}")["phase"]
        count = len(names)
        assert [stream["target"] for stream in phase["stream"]] == list(range(count))
        assert {stream["depth"] for stream in phase["stream"]} == {8 // count}
        assert {stream["pace"]["rate"] for stream in phase["stream"]} == {1000 / count}
        ends = {stream["region"].split("..")[1] for stream in phase["stream"]}
        assert {_core.parse_bytes(end) for end in ends} == {(64 << 20) // count}
        assert any("takes turns" in note for note in made.notes)
    assert import_fio("x", f"[j]\n{job}\nfilename=a\nnrfiles=9", HERE).targets == ["a"], "names hold, as in fio"


def test_reads_and_writes_in_order_have_a_cursor_each_in_fio_and_that_is_said(tmp_path: Path) -> None:
    theirs = requests_of_fio("rw=rw\nbs=64k", tmp_path)
    for kind in ("read", "write"):
        assert [r[1] for r in theirs if r[0] == kind][:8] == [64 * KIB * k for k in range(8)]
    assert any("a cursor for each" in note for note in import_fio("x", "[j]\nrw=rw\nbs=64k", HERE).notes)


def test_reads_and_writes_of_partly_random_jobs_have_a_cursor_each_in_fio(tmp_path: Path) -> None:
    job = "rw=randrw\nbs=8k\npercentage_random=20\nnorandommap"
    theirs, last, follows = requests_of_fio(job, tmp_path), dict[str, int](), 0
    for kind, offset, size in theirs:
        follows += last.get(kind) == offset
        last[kind] = offset + size
    assert follows > 0.7 * len(theirs), "after a request of its own direction"
    assert "Reads and writes move one cursor here; fio has a cursor for each." in notes_of(f"[j]\n{job}")
    exported = export_fio(read_plan(json.dumps(fio(f"[j]\nfilename=x\n{job}"))))
    assert "; reads and writes share one cursor in Brickyard; fio has a cursor for each\nrw=randrw" in exported
    alone = export_fio(read_plan(json.dumps(fio("[j]\nfilename=x\nrw=randread\npercentage_random=20"))))
    assert "cursor" not in alone


INSTALLED, UNPACKED = Path("/usr/share/doc/fio/examples"), Path(__file__).parents[2] / "target" / "fio-examples"
EXAMPLES = Path(os.environ.get("FIO_EXAMPLES", INSTALLED if INSTALLED.is_dir() else UNPACKED))
# They need more than storage that reads and writes: zones, extents, key stores, several hosts, GPUs, other engines.
NEEDS_MORE = ("zonemode=zbd", "zonemode=strided", "ioengine=", "cmdprio", "exec_prerun", "sprandom", "atomic", "${")


def needs_plain_storage(text: str) -> bool:
    words = [line.split(";")[0].split("#")[0].replace(" ", "") for line in text.splitlines()]
    plain = ("ioengine=libaio", "ioengine=sync", "ioengine=psync", "ioengine=io_uring", "ioengine=posixaio")
    return not any(need in word for word in words for need in NEEDS_MORE if word not in plain)


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="fio's examples are not here; tests/install-programs gets them")
def test_most_of_fios_own_examples_are_understood() -> None:
    understood, refused = [], []
    for path in sorted(EXAMPLES.glob("*.fio")):
        text = path.read_text()
        if not needs_plain_storage(text):
            continue
        try:
            plan_of(import_fio(path.stem, text, path.parent))
            understood.append(path.name)
        except BadInputError as error:
            refused.append(f"{path.name}: {error}")
    assert len(understood) >= 0.6 * (len(understood) + len(refused)), "\n".join(refused)


# ---- diskspd


def diskspd(line: str) -> dict[str, Any]:
    return plan_of(import_diskspd("d", line))


@pytest.mark.parametrize(
    ("switches", "io", "sync"),
    [
        ("", "buffered", "none"),  # diskspd caches unless -S says otherwise
        ("-Sb", "buffered", "none"),
        ("-Sbw", "buffered", "dsync"),
        ("-Sw", "buffered", "dsync"),
        ("-S", "direct", "none"),
        ("-Su", "direct", "none"),
        ("-Suw", "direct", "dsync"),
        ("-Sh", "direct", "dsync"),
        ("-h", "direct", "dsync"),
    ],
)
def test_diskspd_caches_as_it_says(switches: str, io: str, sync: str) -> None:
    plan = diskspd(f"diskspd -w100 -r {switches} x.dat")
    assert (plan["io"], streams(plan)[0]["sync"]) == (io, sync)


@pytest.mark.parametrize(
    ("switches", "key", "value"),
    [
        ("-c4G", "region", "0B..4GiB"),
        ("-c4G -f1G", "region", "0B..1GiB"),
        ("-B1G:2G", "region", "1GiB..3GiB"),
        ("-s64K -b4K", "address", {"kind": "strided", "stride": 64 * KIB}),
        ("-rs70 -b4K", "address", {"kind": "runs", "random": 70.0}),
        ("-b4K -g200i -t2 -r", "pace", {"loop": "open", "rate": 400.0, "arrivals": "constant"}),
        (
            "-rdpct90/10:0/10:5/20",
            "address",
            {
                "kind": "zones",
                "zones": [
                    {"requests": 90.0, "region": "0B..10%"},
                    {"requests": 0.0, "region": "10%..20%"},
                    {"requests": 5.0, "region": "20%..40%"},
                    {"requests": 5.0, "region": "40%..100%"},
                ],
            },
        ),
    ],
)
def test_diskspd_switches_keep_their_meaning(switches: str, key: str, value: object) -> None:
    assert streams(diskspd(f"diskspd {switches} x.dat"))[0][key] == value


def test_a_note_says_that_diskspd_mixes_between_runs_and_not_within_them() -> None:
    told = "each run of diskspd is all reads or all writes"
    assert any(told in note for note in import_diskspd("d", "diskspd -rs10 -w50 -b4K x").notes)
    for line in ("-rs10 -w0", "-rs10 -w100", "-rs100 -w50", "-r -w50", "-w50"):
        assert not any(told in note for note in import_diskspd("d", f"diskspd {line} -b4K x").notes), line


def test_sequential_threads_of_diskspd_go_over_the_same_blocks() -> None:
    assert [(s["workers"], s["region"]) for s in streams(diskspd("diskspd -t2 -c1G x"))] == [(1, "0B..1GiB")] * 2
    assert [s["region"] for s in streams(diskspd("diskspd -t2 -T256K x"))] == ["0B..100%", "256KiB..100%"]
    assert [(s["workers"], s["address"]["apart"]) for s in streams(diskspd("diskspd -si -t2 x"))] == [(2, False)]


def test_what_diskspd_would_also_do_is_said() -> None:
    notes = " ".join(import_diskspd("d", "diskspd -c1G -w50 -C5 -fr x.dat").notes)
    for said in ("--size 1024MiB", "repeating pattern", "cool-down", "no hint"):
        assert said in notes


BATCH = """@echo off
setlocal
set TARGET=E:\\test.dat
set EXE="C:\\Program Files\\diskspd\\diskspd.exe"
REM warm the array
call %EXE% -b8K -d30 -o8 -t2 -r -w0 -Sh -L %TARGET% > "C:\\results\\read.txt" 2>&1
for %%o in (1 4) do %EXE% -b64K -d30 -o%%o -t1 -s -w100 -Sh %TARGET%>>writes.txt
%EXE% -d5 -Sh ^
   -b4K %TARGET% | findstr total & echo done
"""


def test_a_batch_file_of_diskspd() -> None:
    imported = import_diskspd("b", BATCH)
    assert imported.targets == ["E:\\test.dat"]
    told = [(s["request"][0]["size"], s["depth"], s["workers"]) for s in streams(plan_of(imported))]
    assert told == [(8 * KIB, 8, 2), (64 * KIB, 1, 1), (64 * KIB, 4, 1), (4 * KIB, 2, 1)]
    assert recognize(BATCH) == "diskspd"


BLOCKS = """for %%b in (4 8) do (
  echo block of %%b K (one of two)
  for %%w in (0 30) do (
    diskspd -b%%bK -w%%w -d5 x.dat >> out.txt
    diskspd -b%%bK -w%%w -d6 x.dat & timeout /T 5
  )
  for /L %%o in (1,1,2) do (diskspd -b%%bK -o%%o -d7 x.dat)
)
goto done
diskspd -d99 never.dat
:done
diskspd -d8 x.dat
exit /b 0
diskspd -d98 never.dat
"""


def test_blocks_and_jumps_of_a_batch_file_are_followed() -> None:
    assert "Pauses of the batch file are left out: timeout /T 5." in import_diskspd("b", BLOCKS).notes
    plan = plan_of(import_diskspd("b", BLOCKS))
    told = [
        (s["request"][0]["size"] // KIB, s["operations"]["write"], s["depth"], int(p["duration"][:-11]))
        for p in plan["phase"]
        for s in p["stream"]
    ]
    of = [[(b, 0, 2, 5), (b, 0, 2, 6), (b, 30, 2, 5), (b, 30, 2, 6), (b, 0, 1, 7), (b, 0, 2, 7)] for b in (4, 8)]
    assert told == [*of[0], *of[1], (64, 0, 2, 8)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (":again\ndiskspd -d5 x\ngoto again", "only labels further down"),
        ("for %%b in (4 8) do (\ndiskspd -d5 x", "no closing parenthesis"),
        ("if exist x diskspd -d5 x", "only FOR over words"),
        ("diskspd -d5 %WHERE%", "%WHERE% is not set"),
        ("robocopy a b", "robocopy"),
    ],
)
def test_a_batch_file_that_decides_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        import_diskspd("b", text)


# ---- SQLIO


def test_a_batch_file_of_sqlio() -> None:
    text = """@echo off
    set DUR=60
    for %%t in (1 2) do call sqlio -kW -s%DUR% -frandom -o8 -b8 -t%%t -LS -BH F:\\x.dat > out.txt
    sqlio.exe -kR -s%dur% -fsequential -b64 F:\\x.dat
    timeout /T 10
    """
    assert "Pauses of the batch file are left out: timeout /T 10." in import_sqlio("s", text, HERE).notes
    plan = plan_of(import_sqlio("s", text, HERE))
    assert [(p["duration"], p["stream"][0]["workers"]) for p in plan["phase"]] == [
        (f"{60 * S}ns", 1),
        (f"{60 * S}ns", 2),
        (f"{60 * S}ns", 1),
    ]
    assert streams(plan)[0]["sync"] == "none"  # -BH leaves the drive's cache on
    assert recognize(text) == "sqlio"


def test_sqlio_buffers_nothing_unless_told() -> None:
    (stream,) = streams(plan_of(import_sqlio("s", "sqlio -kW -frandom x.dat", HERE)))
    assert stream["sync"] == "dsync"


# ---- Iometer

ICF = """Version 1.1.0
'TEST SETUP ====================================================================
'Run Time
'\thours      minutes    seconds
\t0          1          0
'Ramp Up Time (s)
\t5
'Queue Depth Cycling
'\tstart      end        step       step type
\t1          32         2          EXPONENTIAL
'Test Type
\tNORMAL
'END test setup
'ACCESS SPECIFICATIONS =========================================================
'Access specification name,default assignment
\tDatabase,NONE
'size,% of size,% reads,% random,delay,burst,align,reply
\t8192,90,67,100,0,1,0,0
\t65536,10,0,100,0,1,0,0
'Access specification name,default assignment
\tBackup,NONE
'size,% of size,% reads,% random,delay,burst,align,reply
\t262144,100,100,0,0,1,0,0
'Access specification name,default assignment
\tDesktop,NONE
'size,% of size,% reads,% random,delay,burst,align,reply
\t4096,100,60,80,0,1,0,0
'END access specifications
'MANAGER LIST ==================================================================
'Manager ID, manager name
\t1,HOST
'Manager network address
\t
'Worker
\tWorker 1
'Worker type
\tDISK
'Default target settings for worker
'Number of outstanding IOs,test connection rate,transactions per connection,use fixed seed,fixed seed value
\t16,DISABLED,1,ENABLED,271828
'Disk maximum size,starting sector,Data pattern
\t2097152,0,2
'End default target settings for worker
'Assigned access specs
\tDatabase
\tDesktop
'End assigned access specs
'Target assignments
'Target
\tE: "Data"
'Target type
\tDISK
'End target
'Target
\tF: "Log"
'Target type
\tDISK
'End target
'End target assignments
'End worker
'Worker
\tWorker 2
'Worker type
\tDISK
'Default target settings for worker
'Number of outstanding IOs,test connection rate,transactions per connection,use fixed seed,fixed seed value
\t1,DISABLED,1,DISABLED,0
'Disk maximum size,starting sector,Data pattern
\t0,0,0
'End default target settings for worker
'Assigned access specs
\tBackup
'End assigned access specs
'Target assignments
'Target
\tE: "Data"
'Target type
\tDISK
'End target
'End target assignments
'End worker
'End manager
'END manager list
"""


def test_workers_of_iometer_run_together() -> None:
    assert import_icf("shop", ICF.replace('E: "Data"', '1: "PhysDisk"')).targets == ['1: "PhysDisk"', "F:"]
    imported = import_icf("shop", ICF)
    assert imported.targets == ["E:", "F:"]
    plan = plan_of(imported)
    assert plan["seed"] == 271828
    told = [[(s["name"], s["target"], s["depth"]) for s in p["stream"]] for p in plan["phase"]]
    assert told == [
        [("Database", 0, 16), ("Database-2", 1, 16), ("Backup", 0, 1)],
        [("Desktop", 0, 16), ("Desktop-2", 1, 16)],
    ]
    assert [p["duration"] for p in plan["phase"]] == [f"{60 * S}ns"] * 2
    database, _, backup = plan["phase"][0]["stream"]
    assert database["region"] == "0B..1GiB"
    assert backup["address"] == {"kind": "sequential", "apart": False}
    assert plan["phase"][1]["stream"][0]["address"] == {"kind": "runs", "random": 80.0}


def test_the_same_target_of_two_managers_is_two_targets() -> None:
    second = "'Manager ID, manager name\n\t2,OTHER\n'Manager network address\n\t\n'Worker\n\tWorker 2\n"
    imported = import_icf("shop", ICF.replace("'Worker\n\tWorker 2\n", second))
    assert imported.targets == ["HOST:E:", "HOST:F:", "OTHER:E:"]
    assert [s["target"] for s in plan_of(imported)["phase"][0]["stream"]] == [0, 1, 2]
    assert any("HOST, OTHER are hosts of their own" in note for note in imported.notes)


def test_lines_of_a_specification_have_their_own_share_of_reads() -> None:
    database = plan_of(import_icf("shop", ICF))["phase"][0]["stream"][0]
    assert database["operations"]["read"] == pytest.approx(60.3)  # 67 % of 90 %
    found = sizes(database)
    assert found["read", 8 * KIB] == pytest.approx(100)
    assert found["write", 8 * KIB] == pytest.approx(90 * 0.33 / 39.7 * 100)
    assert found["write", 64 * KIB] == pytest.approx(10 / 39.7 * 100)


def test_what_iometer_would_also_do_is_said_or_refused() -> None:
    opening = ICF.replace("1,DISABLED,1,DISABLED,0", "1,ENABLED,50,DISABLED,0")
    with pytest.raises(BadInputError, match="opens its target anew every 50 transactions"):
        import_icf("x", opening)
    seeded = ICF.replace("1,DISABLED,1,DISABLED,0", "1,DISABLED,1,ENABLED,3")
    assert any("seeds that differ" in note for note in import_icf("x", seeded).notes)
    patterned = ICF.replace("2097152,0,2", "2097152,0,0")
    assert any("repeating bytes" in note for note in import_icf("x", patterned).notes)
    cycled = plan_of(import_icf("x", ICF.replace("NORMAL", "CYCLE_OUTSTANDING_IOS")))
    assert [p["stream"][-1]["depth"] for p in cycled["phase"][:6]] == [1, 2, 4, 8, 16, 32]


NAMED_TWICE = {
    "in a job": ("[j]\n{load}filename=B\nfilename=A\n", ["shop.fio"]),
    "for all jobs": ("[global]\nfilename=B\nfilename=A\n[j]\n{load}", ["shop.fio"]),
    "for all jobs and for one": ("[global]\nfilename=B\n[j]\n{load}filename=A\n", ["shop.fio"]),
    "on the command line and in the file": ("[j]\n{load}filename=A\n", ["shop.fio", "--filename=B", "--size=9m"]),
    "on the command line": (
        "",
        [
            *["--name=j", "--rw=read", "--bs=64k", "--size=1m", "--ioengine=libaio", "--direct=1", "--iodepth=2"],
            *["--filename=B", "--filename=A"],
        ],
    ),
}


@pytest.mark.parametrize("case", NAMED_TWICE)
def test_a_job_works_on_all_files_that_it_is_given_as_in_fio(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last name alone was taken."""
    monkeypatch.chdir(tmp_path)
    job, words = NAMED_TWICE[case]
    load = "rw=read\nbs=64k\nsize=1m\nioengine=libaio\ndirect=1\niodepth=2\n"
    if job:
        (tmp_path / "shop.fio").write_text(job.format(load=load))
    subprocess.run(["fio", *words, "--write_iolog=log"], check=True, capture_output=True)
    asked = Counter(line.split()[-4] for line in (tmp_path / "log").read_text().splitlines() if " read " in line)
    assert asked == {"A": 8, "B": 8}, "fio itself"
    made = import_fio_command("x", words)
    assert made.targets == ["B", "A"]
    assert [(stream["target"], stream["region"]) for stream in streams(plan_of(made))] == [
        (0, "0B..512KiB"),
        (1, "0B..512KiB"),
    ]
    kept = [note for note in made.notes if "not those of the command line" in note]
    assert [note.rpartition(": ")[2] for note in kept] == ["size"] * ("--size=9m" in words)

    if job:
        (tmp_path / "shop.fio").write_text(job.format(load="rw=read\nbs=64k\nsize=1m\n"))
        assert main(["import", "--command", " ".join(["fio", *words])]) == 2
        said = capsys.readouterr().err
        assert "job j: filename=B:A (fio takes all names together): one request in flight cannot be divided" in said

"""Exports: profiles as jobs of fio, each held against what fio does with them, or refused."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from brickyard import _core, profiles
from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.formats.fio_export import check_fio, export_fio
from brickyard.formats.fio_job import import_fio
from brickyard.schema import plan_text, read_plan
from brickyard.schema.plan import Plan
from interchange_support import (
    CHECKED,
    FILE_BYTES,
    HERE,
    MIB,
    counts_of_fio,
    fio,
    notes_of,
    plan_of,
    requests_of_fio,
    streams,
)


def planned(stream: str, ends: str = "bytes = '4MiB'") -> Plan:
    """Of one stream in 16 MiB."""
    text = f"title = 't'\n[[phase]]\n{ends}\n[[phase.stream]]\nregion = '0..16MiB'\n{stream}\n"
    return profiles.validate(profiles.ProfileText("t", text, ""), [])


def of_fio(plan: Plan, directory: Path) -> list[tuple[str, int, int]]:
    """What fio asks for with the exported job."""
    job, log = directory / "job.fio", directory / "io.log"
    log.unlink(missing_ok=True)  # fio adds to it
    text = export_fio(plan, ["x"]).replace("ioengine=io_uring", f"ioengine=null\nwrite_iolog={log}")
    with (directory / "x").open("wb") as file:
        file.truncate(FILE_BYTES)
    job.write_text(text)
    subprocess.run(["fio", str(job)], cwd=directory, check=True, capture_output=True)
    words = (line.split() for line in log.read_text().splitlines())
    return [(w[-3], int(w[-2]), int(w[-1])) for w in words if w[-3] in ("read", "write")]


MIXED = "[{ size = '4KiB', share = 50 }, { size = '32KiB', share = 50 }]"
EACH = "[{ size = '4KiB', share = 100, of = 'read' }, { size = '64KiB', share = 100, of = 'write' }]"
HOT = [
    "{ kind = 'zipf', theta = 0.9 }",
    "{ kind = 'pareto', skew = 80 }",
    "{ kind = 'normal', deviation = 10 }",
]


@pytest.mark.parametrize("address", HOT)
def test_exports_of_hot_blocks_do_not_end_early_or_are_refused(address: str, tmp_path: Path) -> None:
    """fio 3.33 ended after one request, and without an error, where blockalign is above bs."""
    for request in ("'4KiB'", "'24KiB'", MIXED):
        plan = planned(f"operations = {{ read = 100 }}\naddress = {address}\nrequest = {request}", "passes = 1")
        assert sum(size for _, _, size in of_fio(plan, tmp_path)) >= 15.9 * MIB, request
    for request, said in (("'4KiB'\nalign = '32KiB'", "align 32,768"), (MIXED + "\nalign = 512", "align 512")):
        with pytest.raises(BadInputError, match=f"{said}, which is not the smallest request size, can't be said"):
            export_fio(planned(f"operations = {{ read = 100 }}\naddress = {address}\nrequest = {request}"))
    with pytest.raises(BadInputError, match="another smallest size for reads than for writes"):
        export_fio(planned(f"operations = {{ read = 50, write = 50 }}\naddress = {address}\nrequest = {EACH}"))


def test_imports_of_hot_blocks_that_fio_ends_early_are_refused() -> None:
    for options, said in (
        ("rw=randrw\nbs=4k,64k\nrandom_distribution=zipf", "other sizes of reads than of writes"),
        ("rw=randread\nbs=24k\nrandom_distribution=normal:10", "no multiple of 24576"),
    ):
        with pytest.raises(BadInputError, match=said):
            fio(f"[j]\nsize=16m\n{options}")


def test_sizes_that_fio_rounds_are_said_and_not_exported() -> None:
    said = "bssplit=4k/50:10k/50: sizes are rounded down to multiples of the smallest, as in fio."
    assert said in notes_of("[j]\nrw=randread\nbssplit=4k/50:10k/50")
    assert not any("rounded" in note for note in notes_of("[j]\nrw=randread\nbssplit=4k/50:12k/50"))
    mixed = MIXED.replace("32KiB", "10KiB")
    with pytest.raises(BadInputError, match="no multiples of the smallest"):
        export_fio(planned(f"operations = {{ read = 100 }}\naddress = 'random'\nrequest = {mixed}"))


def test_runs_that_fio_ends_early_are_said_and_not_exported(tmp_path: Path) -> None:
    ended = f"rw=randread\nbs=64k\nblockalign=512\npercentage_random=30\nnorandommap\nsize={16 * MIB}"
    assert sum(size for _, _, size in requests_of_fio(f"{ended}\nrandseed=1", tmp_path)) < 15 * MIB
    assert any("fio ends a loop at the first sequential request" in note for note in notes_of(f"[j]\n{ended}"))
    runs = "operations = { read = 100 }\naddress = { kind = 'runs', random = 30 }\nrequest = '64KiB'"
    with pytest.raises(BadInputError, match="larger than their alignment, in a phase without duration"):
        export_fio(planned(f"{runs}\nalign = 512", "passes = 1"))
    assert "percentage_random=30" in export_fio(planned(f"{runs}\nalign = 512", "duration = '1s'"))
    assert sum(size for _, _, size in of_fio(planned(runs, "passes = 1"), tmp_path)) == 16 * MIB
    assert not any("fio ends a loop" in note for note in notes_of(f"[j]\n{ended.replace('=512', '=64k')}"))


@pytest.mark.parametrize(
    ("stream", "ends", "count"),
    [
        ("operations = { read = 100 }\naddress = 'sequential'", "requests = 9000", 9000),
        ("operations = { write = 100 }\naddress = 'permutation'\ndepth = 8", "requests = 9000", 9000),
        ("operations = { read = 70, write = 30 }\naddress = 'random'\nworkers = 4\ndepth = 4", "requests = 8000", 8000),
        (f"operations = {{ read = 100 }}\naddress = 'random'\nrequest = {MIXED}", "requests = 3000", 3000),
        ("operations = { read = 100 }\naddress = { kind = 'zipf', theta = 0.9 }", "requests = 9000", 9000),
        ("operations = { read = 100 }\naddress = { kind = 'runs', random = 30 }", "requests = 9000", 9000),
        (
            "operations = { write = 100 }\naddress = { kind = 'sequential', apart = true }\nworkers = 4",
            "requests = 9000",
            9000,
        ),
        ("operations = { read = 100 }\naddress = 'sequential'", "requests = 20\nduration = '30s'", 20),
        ("operations = { read = 100 }\naddress = 'sequential'", "requests = 9000\npasses = 2", 8192),
        ("operations = { read = 100 }\naddress = 'sequential'", "requests = 20\npasses = 2", 20),
        ("operations = { read = 100 }\naddress = 'sequential'", "requests = 9000\nbytes = '20MiB'", 5120),
    ],
)
def test_a_number_of_requests_is_exported_and_no_pass_ends_it(
    stream: str, ends: str, count: int, tmp_path: Path
) -> None:
    plan = planned(stream if "request =" in stream else f"{stream}\nrequest = '4KiB'", ends)
    with (tmp_path / "x").open("wb") as file:
        file.truncate(FILE_BYTES)
    job = export_fio(plan, ["x"]).replace("ioengine=io_uring", "ioengine=null")
    assert sum(counts_of_fio(job, tmp_path).values()) == count


def test_a_number_of_requests_is_the_same_by_our_engine_and_by_fio(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """More than a pass, of several workers."""
    stream = "operations = { read = 70, write = 30 }\naddress = 'random'\nrequest = '4KiB'\nworkers = 4\ndepth = 4"
    profile, file = tmp_path / "p.toml", tmp_path / "f"
    profile.write_text(f"title = 't'\n[[phase]]\nrequests = 8000\n[[phase.stream]]\nregion = '0..16MiB'\n{stream}\n")
    for engine in ("io_uring", "fio"):
        assert main(["run", str(profile), str(file), "--size", "16MiB", "--engine", engine, "--json"]) == 0
        assert sum(row["requests"] for row in json.loads(capsys.readouterr().out)["totals"]) == 8000


def test_a_number_of_requests_that_fio_would_share_or_count_otherwise_is_refused() -> None:
    read = "operations = { read = 100 }\nrequest = '4KiB'\naddress = 'random'"
    for more, ends, said in (
        ("workers = 3", "requests = 1000", "1,000 requests of 3 workers, which is no whole number for each,"),
        ("", "requests = 7\npasses = 2", "7 requests of 1 worker in 2 passes, which is no whole number for each,"),
        ("", "requests = 9\nwarmup = '1s'\nduration = '2s'", "requests with a warmup"),
    ):
        with pytest.raises(BadInputError, match=f"{said} can't be said"):
            export_fio(planned(f"{read}\n{more}", ends))
    with pytest.raises(BadInputError, match="requests with flush_every"):
        export_fio(
            planned("operations = { write = 100 }\nrequest = '4KiB'\nflush_every = { writes = 2 }", "requests = 9")
        )


@pytest.mark.parametrize("ends", ["passes = 2", "bytes = '8MiB'"])
def test_workers_in_a_part_each_are_exported_with_an_increment(ends: str, tmp_path: Path) -> None:
    apart = "address = { kind = 'sequential', apart = true }\noperations = { write = 100 }\nrequest = '64KiB'"
    plan = planned(f"{apart}\nworkers = 4", ends)
    drawn = json.loads(_core.draw(plan_text(plan), FILE_BYTES, 512))
    theirs = of_fio(plan, tmp_path)
    if ends.startswith("passes"):
        assert Counter(offset for _, offset, _ in theirs) == Counter(item["offset_bytes"] for item in drawn)
    else:
        assert {offset // (4 * MIB) for _, offset, _ in theirs} == {0, 1, 2, 3}
    assert len(theirs) == (512 if ends.startswith("passes") else 128)
    with pytest.raises(BadInputError, match="a sequential region of 256 requests in 3 parts"):
        export_fio(planned(f"{apart}\nworkers = 3"))
    with pytest.raises(BadInputError, match="here they share it"):
        export_fio(planned(f"{apart.replace('true', 'false')}\nworkers = 4"))
    text = f"title='t'\n[[phase]]\npasses=1\n[[phase.stream]]\n{apart}\nworkers=4\n"
    whole = profiles.validate(profiles.ProfileText("t", text, ""), [])
    assert "size=25%\noffset_increment=25%" in export_fio(whole)


def test_a_region_that_only_a_target_turns_into_bytes_is_no_obstacle_to_a_run_by_fio() -> None:
    for region in ("12.5%..100%", "1MiB..100%"):
        stream = f"[[phase.stream]]\noperations={{read=100}}\nrequest='4KiB'\nregion='{region}'"
        text = f"title='t'\n[[phase]]\npasses=1\n{stream}\n"
        plan = profiles.validate(profiles.ProfileText("t", text, ""), [])
        check_fio(plan)
        with pytest.raises(BadInputError, match=f"region {region}"):
            export_fio(plan)


def rates_of_fio(job: str, directory: Path) -> dict[str, float]:
    """Requests/s by operation, where nothing but the job's rate holds fio up."""
    file = directory / "job.fio"
    file.write_text(f"{job}\nioengine=null\nfilename=x\nsize=16m\nruntime=1\ntime_based\n")
    done = subprocess.run(["fio", "--output-format=json", str(file)], cwd=directory, check=True, capture_output=True)
    row = json.loads(done.stdout)["jobs"][0]
    return {kind: row[kind]["iops"] for kind in ("read", "write")}


@pytest.mark.parametrize(
    "options",
    [
        "rwmixread=80\nrate_iops=400,100\nbs=4k",
        "bsrange=4k-64k\nrate_iops=800,1600",
        "bssplit=4k/70:16k/30\nrate_iops=300,200",
        "bssplit=4k/90:64k/10,4k/100\nrate=2m,1m\nrate_process=poisson",
    ],
)
def test_rates_hold_for_each_direction_as_in_fio(options: str, tmp_path: Path) -> None:
    job = f"[j]\nrw=randrw\nnorandommap\niodepth=16\n{options}"
    theirs = rates_of_fio(job, tmp_path)
    (ours,) = streams(plan_of(import_fio("x", f"{job}\nfilename=x\nioengine=libaio", HERE)))
    for kind in ("read", "write"):
        asked = ours["pace"]["rate"] * ours["operations"][kind] / 100
        assert asked / 2 <= theirs[kind] <= asked * 1.5, kind
    notes = [note for note in notes_of(job) if "with several request sizes" in note]
    assert len(notes) == int("bs=" not in options)


def test_a_constant_rate_of_several_sizes_is_exported_in_bytes(tmp_path: Path) -> None:
    job = "[j]\nfilename=x\nrw=randrw\nrwmixread=75\nbssplit=4k/90:64k/10\nruntime=5\ntime_based\nioengine=libaio"
    plan = fio(f"{job}\nnorandommap\niodepth=16\nrate=7680000,2560000")
    assert streams(plan)[0]["pace"]["rate"] == 1000
    exported = export_fio(read_plan(json.dumps(plan)))
    assert "rate=7680000,2560000" in exported
    theirs = rates_of_fio(exported.replace("size=100%\n", ""), tmp_path)
    assert 375 <= theirs["read"] <= 1125, "750 are asked for"
    back = fio(export_fio(read_plan(json.dumps(plan)), ["x"]))
    assert (streams(back)[0]["pace"], streams(back)[0]["operations"]) == (
        streams(plan)[0]["pace"],
        streams(plan)[0]["operations"],
    )
    streams(plan)[0]["pace"]["rate"] = 0.001
    with pytest.raises(BadInputError, match="bytes/s of a worker and direction"):
        export_fio(read_plan(json.dumps(plan)))


def test_a_buffered_profile_is_exported_with_its_own_use_of_the_cache() -> None:
    """Read-ahead without a hint, and one drop of the cache: fio's defaults would be another workload."""
    text = "[a]\nfilename=x\nrw=read\nsize=1m\n[b]\nfilename=x\nrw=randread\nsize=1m\nstonewall"
    exported = export_fio(read_plan(json.dumps(fio(text))), ["x"])
    first, second = exported.split("stonewall")
    assert "fadvise_hint=0" in first
    assert "invalidate=1" in first
    assert "invalidate=0" in second
    assert notes_of(exported) == []
    direct = export_fio(read_plan(json.dumps(fio(f"[global]\ndirect=1\n{text}"))), ["x"])
    assert "fadvise_hint" not in direct
    assert "invalidate=0" not in direct


def exporting(options: str) -> dict[str, Any]:
    """What comes back of a job that was imported, exported, and imported again."""
    plan = fio(f"[j]\nfilename=x\nruntime=5\ntime_based\nioengine=libaio\n{options}")
    return fio(export_fio(read_plan(json.dumps(plan)), ["x"]))


@pytest.mark.parametrize("name", [n for n in CHECKED if n not in ("strided", "sequential") and "bsrange" not in n])
def test_what_was_imported_is_exported_alike(name: str) -> None:
    options = CHECKED[name]
    plan = fio(f"[j]\nfilename=x\nruntime=5\ntime_based\nioengine=libaio\n{options}")
    back = exporting(options)
    for one, other in zip(streams(plan), streams(back), strict=True):
        assert {k: one[k] for k in ("operations", "request", "address", "region")} == {
            k: other[k] for k in ("operations", "request", "address", "region")
        }


def test_zones_in_a_part_for_each_worker_are_not_said_in_fios_words() -> None:
    zones = 'address={ kind = "zones", apart = true, zones = [{ requests = 100, region = "0..40%" }] }'
    plan = profiles.validate(profiles.read("sqlio-random-read-4"), [zones])
    with pytest.raises(BadInputError, match=r"for each worker \(apart\) can't be said in a fio job file"):
        export_fio(plan)

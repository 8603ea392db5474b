"""SQLIOSim and Jetstress as their user runs them, and SQLIOSim's configuration files."""

from __future__ import annotations

import json
import mmap
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from brickyard import profiles
from brickyard.analysis.studies import demartek
from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.formats.recognize import import_profile, recognize
from brickyard.schema import PhaseEnd
from brickyard.schema.plan import BulkUpdate, DatabaseFile, Plan, RandomUser
from brickyard.store import Store

SMALL = [
    *("--set", "size=4MiB", "--set", "most=6MiB", "--set", "log_size=1MiB", "--set", "buffer_pool=2MiB"),
    *("--set", "test.duration=1s"),
]
DEFAULTS = """[CONFIG]
CPUCount=4
MaxMemoryMB=256
StopOnError=false
[RandomUser]
[File1]
FileName=D:\\t.mdx
InitialSize=500
MaxSize=1000
Increment=50
Shrinkable=TRUE
[File2]
FileName=t.ldx
InitialSize=50
MaxSize=50
LogFile=TRUE
"""


def plan(text: str) -> Plan:
    return profiles.validate(profiles.ProfileText("t", text, "t"), [])


def test_sqliosim_in_a_directory_checks_every_page_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "data"
    home.mkdir()
    assert main(["run", "sqliosim", str(home), *SMALL, "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    assert list(home.iterdir()) == []
    figures = {(f["group"], f["name"]): f["count"] for f in run["table"]["figures"]}
    assert figures["database", "target I/O duration, ms"] == 100
    assert figures["database", "scatter reads"] > 0
    assert figures["log", "writes"] > 0
    assert run["verified"]["damaged_blocks"] == 0
    assert run["verified"]["checked_blocks"] >= 512
    assert main(["show", "latest"]) == 0
    out = capsys.readouterr().out
    assert "SQLIOSim's summary" in out
    assert "No request took 15 s or more." in out


def test_jetstress_passes_by_its_limits_on_an_ssd_and_fails_on_a_disk(capsys: pytest.CaptureFixture[str]) -> None:
    small = ("--set", "mailboxes=500", "--set", "mailbox_size=2MB", "--set", "buffer_pool=64MiB")
    short = ("--set", "test.duration=30s", "--set", "log_size=64MiB")
    assert main(["run", "jetstress", "sim:iodrive-160-slc", *small, *short]) == 0
    assert "passed with 16 threads: 5" in " ".join(capsys.readouterr().out.split())
    slow = (
        "sim:demartek-2009-sata",
        "sim:demartek-2009-sata",
        "--set",
        "mailbox_iops=0",
        "--set",
        "test.users.workers=64",
    )
    assert main(["run", "jetstress", *slow, "--set", "test.users.workers=64", *small, *short]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "failed: mean database read" in out
    assert "limit 20 ms" in out


def test_bulk_updates_post_as_many_writes_as_their_depth(capsys: pytest.CaptureFixture[str]) -> None:
    """Eight users with one write each have at most eight in flight, and with sixteen each more than that."""
    in_flight = []
    for depth in (1, 16):
        words = ["--set", "verify=false", "--set", "test.duration=5s", "--set", f"test.bulk-update.depth={depth}"]
        assert main(["run", "sqliosim", "sim:demartek-2009-sas,level=raid1,members=2", *words]) == 0
        capsys.readouterr()
        with Store() as store:
            end = store.record(max(run.id for run in store.runs())).of(PhaseEnd)[0]
        data = next(file for file in end.server_files if not file.log)
        in_flight.append(data.total_io_ns / end.end_ns)
    assert in_flight[0] < 20 < in_flight[1], in_flight


def begin(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "brickyard", "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def some_intervals() -> bool:
    """Whether the default store has some of the run that is in progress."""
    with Store() as store:
        runs = store.runs()
        return bool(runs) and len(store.record(runs[-1].id).costs) >= 5


def change_a_byte(path: Path, at: int) -> None:
    """Past the page cache, which would get in the way of the program's direct requests."""
    file = os.open(path, os.O_RDWR | os.O_DIRECT)
    with mmap.mmap(-1, 4096) as sector:
        os.preadv(file, [memoryview(sector)[:512]], at // 512 * 512)
        sector[at % 512] = 0xA5
        os.pwritev(file, [memoryview(sector)[:512]], at // 512 * 512)
    os.close(file)


@pytest.mark.parametrize(("profile", "name"), [("sqliosim", "SQLIOSim"), ("jetstress", "Jetstress")])
def test_damaged_pages_fail_the_run_and_are_shown_with_a_dump(profile: str, name: str, tmp_path: Path) -> None:
    """Bytes of the file change under the running program, as they would on a failing disk."""
    target = tmp_path / "db"
    # Few writes, since a write mends what it covers.
    few = (
        ("users.mailboxes=100",) if profile == "jetstress" else ("bulk-update.delay_after=1", "bulk-update.delay=1min")
    )
    changes = [word for change in few for word in ("--set", f"test.{change}")]
    process = begin(profile, str(target), "--size", "16MiB", *SMALL, *changes)
    try:
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            if target.exists() and target.stat().st_size > 8 << 20:
                for page in range(1, 512, 200):
                    change_a_byte(target, (1 << 20) + page * 8192 + 5000)
            time.sleep(0.02)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1, err
    assert f"{name} failed: " in err
    assert "returned damaged pages" in err
    assert "bit damage at offset" in out
    assert "1 of 8192 bytes differ, the first is byte 5000" in " ".join(out.split())
    assert "written " in out
    assert "Traceback" not in err


def test_ctrl_c_keeps_what_was_measured_and_removes_the_file(tmp_path: Path) -> None:
    process = begin("sqliosim", str(tmp_path), *SMALL[:-2], "--set", "test.duration=60s", "--set", "interval=50ms")
    try:
        deadline = time.monotonic() + 60
        while not some_intervals() and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, err
    assert "SQLIOSim's summary" in out
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_target_too_small_for_the_growth_is_refused_before_it_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "db"
    assert main(["run", "sqliosim", str(target), "--size", "16MiB", "--set", "size=8MiB", "--set", "most=64MiB"]) == 2
    *_, said = capsys.readouterr().err.strip().splitlines()
    assert said.endswith("may grow to 114MiB; name a larger target, or set a smaller most or log_size")
    assert not target.exists()


def test_tuning_finds_threads_that_pass_and_fail_when_doubled(capsys: pytest.CaptureFixture[str]) -> None:
    small = ("--set", "mailboxes=500", "--set", "mailbox_size=20MB", "--set", "buffer_pool=64MiB")
    brick = ("sim:demartek-2009-sas", "sim:demartek-2009-sas")
    quick = ("--set", "tuning.ramp.every=30s", "--set", "tuning.ramp.settle=5s")
    assert main(["run", "jetstress-tuning", *brick, *small, *quick, "--json"]) == 0
    (search,) = json.loads(capsys.readouterr().out)["ramp_found"]
    threads = round(search["found"]["value"])
    assert threads >= 2
    run = ("--set", "mailbox_iops=0", "--set", "test.duration=60s", "--set", "log_size=64MiB")
    assert main(["run", "jetstress", *brick, *small, *run, "--set", f"test.users.workers={threads}"]) == 0
    assert f"passed with {threads} threads: " in " ".join(capsys.readouterr().out.split())
    assert main(["run", "jetstress", *brick, *small, *run, "--set", f"test.users.workers={threads * 2}"]) == 1
    assert "failed: mean database read" in " ".join(capsys.readouterr().out.split())


def test_the_published_tables_are_those_of_the_reference() -> None:
    root = Path(__file__).parents[2]
    for name in ("sqliosim", "jetstress"):
        file = f"demartek_2009_{name}.csv"
        assert (root / "python/brickyard/studies" / file).read_bytes() == (root / "reference" / file).read_bytes()


def test_every_arrangement_has_its_published_row() -> None:
    printed = {row.configuration for row in demartek.published_jetstress() if row.server == 1}
    assert set(demartek.JETSTRESS_ROWS.values()) <= printed
    assert {demartek.DEVICES[row.device] for row in demartek.published_tests()} == {"ssd", "sas", "sata"}


def test_the_study_shows_demartek_s_tables_beside_ours(capsys: pytest.CaptureFixture[str]) -> None:
    mirrors = ("--only", "arrangement=sas-raid1-2", "--only", "arrangement=sata-raid1-2")
    assert main(["study", "demartek-servers", *mirrors, "--only", "load=small"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "sas-raid1-2 " in out
    assert "SQLIOSim, 500-1,000 MB, compared with Demartek's figures of 2009" in out
    assert " 141 3,753,640 2 " in out  # published: throttled, total, and its rank among the two
    assert " 1,720 3,722,299 1 " in out
    # Published, SATA is ahead of SAS in this pair; the model has SAS ahead, and the table says so.
    assert "SAS ahead of SATA, same arrangement 0 of 1 1 of 1" in out
    assert "all pairs, ordered as published – 0 of 1" in out
    # The answer counts the orders of the totals, with the reason; the table below it has each.
    assert "1 of 1 orders of SQLIOSim's totals (a total grows with the requests in flight" in out
    assert (
        "SQLIOSim, 500-1,000 MB: IOPS by arrangement, SAS, RAID-1, 2 disks compared with SATA, RAID-1, 2 disks" in out
    )


def test_a_configuration_of_defaults_is_the_profile_that_ships() -> None:
    assert recognize(DEFAULTS) == "sqliosim"
    imported, shipped = (
        plan(import_profile("sqliosim", "t", DEFAULTS, Path()).text),
        plan(profiles.read("sqliosim").text),
    )
    assert imported.phase == shipped.phase
    assert (imported.table, imported.io, imported.stop_on_error) == (shipped.table, shipped.io, shipped.stop_on_error)


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ("[AuditUser]\nAuditDeley=10\n", "[AuditUser] AuditDeley: no key of SQLIOSim's"),
        ("[Users]\nA=1\n", "[Users]: no section of SQLIOSim's"),
        ("[BulkUpdateUser]\nBUDelay=soon\n", "BUDelay=soon: a whole number"),
        ("[File3]\nFileName=x\nInitialSize=1\nMaxSize=1\n", "2 data files and 1 logs"),
        ("[ReadAheadUser]\nBuffersRAMin=65\n", "the smaller first"),
        ("[AuditUser]\nAuditDelay=10\nauditdelay=20\n", "auditdelay: is given twice"),
        ("[AuditUser]\nUserCount=2\n[AUDITUSER]\nUserCount=3\n", "[AuditUser]: is given twice"),
    ],
)
def test_what_a_configuration_cannot_mean_is_one_clear_line(added: str, said: str) -> None:
    with pytest.raises(BadInputError) as refused:
        import_profile("sqliosim", "t", DEFAULTS + added, Path())
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("CPUCount=4", "CPUCount=4 ; ours", "a comment on a line of its own"),
        ("MaxSize=1000", "MaxSize=100", "MaxSize=100: is below InitialSize"),
        ("MaxSize=50", "MaxSize=20", "MaxSize=20: is below InitialSize"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(key: str, value: str, said: str) -> None:
    text = DEFAULTS.replace(f"\n{key}\n", f"\n{value}\n")
    assert text != DEFAULTS
    with pytest.raises(BadInputError) as refused:
        import_profile("sqliosim", "t", text, Path())
    assert said in str(refused.value)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_configuration_as_notepad_saves_it_is_read(encoding: str, tmp_path: Path) -> None:
    place = tmp_path / "server.cfg.ini"
    place.write_bytes(DEFAULTS.replace("\n", "\r\n").encode(encoding))
    assert main(["import", str(place), "-o", str(tmp_path / "server.toml")]) == 0


@pytest.mark.parametrize("profile", ["sqliosim", "jetstress"])
def test_a_dry_run_says_what_would_be_done(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", profile, "sim:demartek-2009-sas", "--dry-run"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert ("target_io 100 ms" in out) is (profile == "sqliosim")
    assert "buffer_pool " in out
    assert "000ns" not in out


def test_jetstress_judges_no_mean_of_a_few_log_writes(capsys: pytest.CaptureFixture[str]) -> None:
    few = ("--set", "mailboxes=20", "--set", "mailbox_size=5MB", "--set", "mailbox_iops=0.1")
    assert main(["run", "jetstress", "sim:iodrive-160-slc", *few, "--set", "test.duration=12s"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"mean log write: not measured, [1-9]\d? requests are too few \(100 are needed\)", said), said


def test_jetstress_does_not_pass_where_no_page_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    """The cache holds the whole database, so that the limits say nothing of its writes."""
    small = ("--set", "mailboxes=20", "--set", "mailbox_size=5MB", "--set", "mailbox_iops=1")
    assert main(["run", "jetstress", "sim:iodrive-160-slc", *small, "--set", "test.duration=12s"]) == 1
    assert "no database page was written" in " ".join(capsys.readouterr().out.split())


def test_percentages_are_hundredths_and_users_without_work_are_left_out() -> None:
    text = DEFAULTS + "[AuditUser]\nUserCount=0\n[BulkUpdateUser]\nUserCount=3\n"
    text = text.replace("[RandomUser]", "[RandomUser]\nRollbackChance=250")
    found = import_profile("sqliosim", "t", text, Path()).text
    assert "rollback = 2.5" in found
    assert 'name = "bulk-update"' in found
    assert "workers = 3" in found
    assert found.count('kind = "audit"') == 2, "only those at the end are left"


def published(own: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> str:
    """Sections and keys as those of the configurations that Microsoft publishes, each with its own values."""
    sections: dict[str, dict[str, str]] = {
        "CONFIG": {
            "ErrorFile": "sim.xml",
            "StopOnError": "TRUE",
            "TestCycles": "1",
            "TestCycleDuration": "300",
            "CacheHitRatio": "1000",
            "NoBuffering": "TRUE",
            "WriteThrough": "TRUE",
            "MaxOutstandingIO": "0",
            "TargetIODuration": "100",
            "AllowIOBursts": "TRUE",
            "UseScatterGather": "TRUE",
            "ForceReadAhead": "TRUE",
            "DeleteFilesAtStartup": "TRUE",
            "DeleteFilesAtShutdown": "FALSE",
            "StampFiles": "FALSE",
        },
        "RandomUser": {
            "JumpToNewRegionPercentage": "500",
            "MinIOChainLength": "50",
            "MaxIOChainLength": "100",
            "RandomUserReadWriteRatio": "9000",
            "MinLogPerBuffer": "64",
            "MaxLogPerBuffer": "8192",
            "RollbackChance": "100",
            "SleepAfter": "5",
            "YieldPercentage": "0",
            "CPUSimulation": "FALSE",
            "CPUCyclesMin": "0",
            "CPUCyclesMax": "0",
        },
        "AuditUser": {"BuffersValidated": "64", "DelayAfterCycles": "2", "AuditDelay": "200"},
        "ReadAheadUser": {"BuffersRAMin": "32", "BuffersRAMax": "64", "DelayAfterCycles": "2", "RADelay": "200"},
        "BulkUpdateUser": {"BuffersBUMin": "64", "BuffersBUMax": "128", "DelayAfterCycles": "2", "BUDelay": "10"},
        "ShrinkUser": {"MinShrinkInterval": "120", "MaxShrinkInterval": "600", "MinExtends": "1", "MaxExtends": "20"},
    }
    for name, keys in own.items():
        sections[name] = {**sections.get(name, {}), **keys}
    return "".join(
        f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in keys.items()) for name, keys in sections.items()
    )


def a_file(name: str, size: int, *, is_log: bool = False, is_sparse: bool = False) -> dict[str, str]:
    flags = {"Shrinkable": "FALSE", "LogFile": str(is_log).upper(), "Sparse": str(is_sparse).upper()}
    return {"FileName": name, "InitialSize": str(size), "MaxSize": str(size), "Increment": "10", **flags}


NOBODY = {"UserCount": "0"}
SMALL_FILES = {"File1": a_file("f:\\a.mdx", 100), "File2": a_file("f:\\a.ldx", 50, is_log=True)}
HW_CACHE = {"CONFIG": {"CacheHitRatio": "10000"}, "AuditUser": NOBODY, "ReadAheadUser": NOBODY, **SMALL_FILES}
NO_THROTTLE = {"CONFIG": {"TargetIODuration": "1000000"}, "AuditUser": {"AuditDelay": "10"}}
SEQUENTIAL_WRITES = {
    "CONFIG": {"CacheHitRatio": "10000", "ForceReadAhead": "FALSE"},
    "RandomUser": NOBODY,
    "AuditUser": NOBODY,
    "ReadAheadUser": NOBODY,
    "BulkUpdateUser": {"BuffersBUMin": "600", "BuffersBUMax": "1000", "BUDelay": "1"},
}
SPARSE = {
    "CONFIG": {"TestCycles": "3", "UseScatterGather": "FALSE"},
    "File1": a_file("a.mdx", 1000),
    "File2": a_file("a.ldx", 50, is_log=True),
    "File3": a_file("a.mdx:replica", 1000, is_sparse=True),
}


def test_a_configuration_of_single_pages_or_sparse_files_is_refused() -> None:
    """Both would send other requests."""
    for without, said in ((("File3",), "UseScatterGather=FALSE"), (("CONFIG",), "File3. Sparse")):
        left = {name: keys for name, keys in SPARSE.items() if name not in without}
        with pytest.raises(BadInputError, match=said):
            import_profile("sqliosim", "t", published(left), Path())


@pytest.mark.parametrize(
    ("own", "file", "bulk", "names"),
    [
        ({}, (500, 1000, 50, 256, 10.0, 0.1), (64, 128, 10), "random-users bulk-update read-ahead audit"),
        (HW_CACHE, (100, 100, 0, 256, 100.0, 0.1), (64, 128, 10), "random-users bulk-update"),
        (NO_THROTTLE, (500, 1000, 50, 256, 10.0, 1000.0), (64, 128, 10), "random-users bulk-update read-ahead audit"),
        (SEQUENTIAL_WRITES, (500, 1000, 50, 256, 100.0, 0.1), (600, 1000, 1), "bulk-update"),
    ],
)
def test_a_configuration_with_the_keys_that_are_published_is_imported(
    own: Mapping[str, Mapping[str, str]], file: tuple[float, ...], bulk: tuple[int, ...], names: str
) -> None:
    test = plan(import_profile("sqliosim", "t", published(own), Path()).text).phase[0]
    by_name = {stream.name: stream.program for stream in test.stream}
    assert list(by_name) == ["file", *names.split(), "checkpoint", "lazy-writer", "log"]
    found, update = by_name["file"], by_name["bulk-update"]
    assert isinstance(found, DatabaseFile)
    assert isinstance(update, BulkUpdate)
    sizes = [size / (1 << 20) for size in (found.size, found.most, found.increment, found.buffer_pool)]
    assert (*sizes, found.cache_hits, found.target_io.ns / 1e9) == file
    assert (update.pages_min, update.pages_max, update.delay.ns / 1e6) == bulk
    if "random-users" in by_name:
        users = by_name["random-users"]
        assert isinstance(users, RandomUser)
        assert (users.jump, users.chain_min, users.chain_max, users.update, users.rollback) == (5, 50, 100, 90, 1)


@pytest.mark.parametrize(
    ("section", "keys", "said"),
    [
        ("RandomUser", {"CPUSimulation": "TRUE", "CPUCyclesMax": "90"}, "also compute (0 to 90 CPUCycles); those of"),
        ("RandomUser", {"YieldPercentage": "250"}, "YieldPercentage is 2.5 %"),
        ("CONFIG", {"IOAffinity": "3"}, "IOAffinity is 3: a profile names no processors"),
        ("CONFIG", {"Affinity": "3"}, "Affinity is 3: a profile names no processors"),
        ("CONFIG", {"TestCycles": "3"}, "TestCycles is 3: the profile is one cycle; run it with `--repeat 3`."),
    ],
)
def test_what_a_configuration_asks_for_and_a_profile_lacks_is_a_note(
    section: str, keys: dict[str, str], said: str
) -> None:
    plain, other = (
        import_profile("sqliosim", "t", published({**SMALL_FILES, **own}), Path()) for own in ({}, {section: keys})
    )
    (note,) = set(other.notes) - set(plain.notes)
    assert said in note
    assert plan(other.text).phase == plan(plain.text).phase
    assert note in other.text


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"RandomUser": {"CPUSimulation": "maybe"}}, "[RandomUser] CPUSimulation=maybe: true or false is needed"),
        ({"RandomUser": {"YieldPercentage": "10001"}}, "[RandomUser] YieldPercentage=10001: a whole number from 0"),
        ({"CONFIG": {"TestCycles": "0"}}, "[CONFIG] TestCycles=0: there is no endless test"),
        ({"File1": a_file("a.mdx", 100, is_sparse=True)}, "[File1] Sparse: sparse files are not available"),
        ({"File3": a_file("b.mdx:replica", 100, is_sparse=True)}, "[File3] Sparse: sparse files are not available"),
    ],
)
def test_what_changes_the_load_of_a_configuration_is_refused(own: dict[str, dict[str, str]], said: str) -> None:
    with pytest.raises(BadInputError) as refused:
        import_profile("sqliosim", "t", published({**SMALL_FILES, **own}), Path())
    assert said in str(refused.value)

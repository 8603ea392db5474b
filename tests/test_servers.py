"""SQLIOSim and Jetstress as their user runs them, and SQLIOSim's configuration files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brickyard import profiles
from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.formats.recognize import import_profile, recognize
from brickyard.schema.plan import Plan

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
    ],
)
def test_what_a_configuration_cannot_mean_is_one_clear_line(added: str, said: str) -> None:
    with pytest.raises(BadInputError) as refused:
        import_profile("sqliosim", "t", DEFAULTS + added, Path())
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_percentages_are_hundredths_and_users_without_work_are_left_out() -> None:
    text = DEFAULTS + "[AuditUser]\nUserCount=0\n[BulkUpdateUser]\nUserCount=3\n"
    text = text.replace("[RandomUser]", "[RandomUser]\nRollbackChance=250")
    found = import_profile("sqliosim", "t", text, Path()).text
    assert "rollback = 2.5" in found
    assert 'name = "bulk-update"' in found
    assert "workers = 3" in found
    assert found.count('kind = "audit"') == 2, "only those at the end are left"

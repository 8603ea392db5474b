"""Findings against figures made by hand, and real runs on what cannot be judged: a file and a loop device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from brickyard.cli import main
from brickyard.cli.parts.options import Placing
from brickyard.facts import Roots
from brickyard.facts.write_cache import write_cache_facts
from brickyard.honesty import (
    PLAUSIBLE,
    SILENT,
    SUSPICIOUS,
    DirtyFigures,
    Figures,
    Finding,
    GroupFigures,
    OverwriteFigures,
    findings,
    verdict,
)
from brickyard.report.study_answers import study_answer
from brickyard.schema import TargetSheet
from brickyard.schema.target_sheet import WriteCaches
from brickyard.store import Json, Store
from honesty_support import drive

US, MS, MIB = 1_000, 1_000_000, 1 << 20
SHORT = ("--set", "duration=200ms", "--set", "interval=40ms")


def measured(*, plain_ns: float, flush_ns: float, dirty: Sequence[tuple[float, float]]) -> Figures:
    """`dirty` are times of writes and flush of 0, 1, 4, 16 and 64 MiB."""
    durable = 1e9 / (plain_ns + flush_ns)
    return Figures(
        overwrite=OverwriteFigures(4096, plain_ns, plain_ns, flush_ns, durable, durable),
        groups=[GroupFigures(1, durable, flush_ns), GroupFigures(64, durable * 40, flush_ns)],
        dirty=[
            DirtyFigures(size * MIB, writes, flush, 5)
            for size, (writes, flush) in zip((0, 1, 4, 16, 64), dirty, strict=True)
        ],
    )


# 7200 rpm: 8.33 ms a revolution; 200 MB/s on the platter, 500 MB/s into the cache.
ROTATING_HONEST = measured(
    plain_ns=100 * US,
    flush_ns=8.3 * MS,
    dirty=[(0, 60 * US), (2 * MS, 14 * MS), (8 * MS, 28 * MS), (34 * MS, 88 * MS), (134 * MS, 330 * MS)],
)
ROTATING_IGNORING = measured(
    plain_ns=60 * US,
    flush_ns=30 * US,
    dirty=[(0, 30 * US), (1 * MS, 30 * US), (4 * MS, 30 * US), (16 * MS, 31 * US), (64 * MS, 31 * US)],
)
SOLID_PROTECTED = measured(
    plain_ns=15 * US,
    flush_ns=2 * US,
    dirty=[(0, 2 * US), (0.4 * MS, 2 * US), (2 * MS, 2 * US), (7 * MS, 2 * US), (30 * MS, 2 * US)],
)


def by_id(found: list[Finding]) -> dict[str, Finding]:
    return {item.id: item for item in found}


def test_an_honest_rotating_disk_is_plausible() -> None:
    found = findings(ROTATING_HONEST, drive())
    assert verdict(found) == PLAUSIBLE
    assert {by_id(found)[name].state for name in ("overwrite_rate", "flush_latency", "flush_growth")} == {PLAUSIBLE}
    assert "119 times per second" in by_id(found)["overwrite_rate"].text
    assert "120 times per second at 7,200 rpm" in by_id(found)["overwrite_rate"].text


def test_a_disk_that_ends_more_overwrites_than_it_has_revolutions_is_suspicious() -> None:
    found = by_id(findings(ROTATING_IGNORING, drive()))
    assert verdict(list(found.values())) == SUSPICIOUS
    # 11,111 a second against 120.
    assert "92.6 times too fast for the platter" in found["overwrite_rate"].text
    assert found["flush_latency"].state == SUSPICIOUS
    assert found["flush_growth"].state == SUSPICIOUS
    assert "has not grown" in found["flush_growth"].text
    text = " ".join(item.text for item in found.values())
    assert "survives a power cut" in text
    assert "lying" not in text


@pytest.mark.parametrize(("durable_per_s", "state"), [(240.0, PLAUSIBLE), (290.0, SUSPICIOUS)])
def test_where_the_rotation_is_unknown_the_fastest_disk_is_the_limit(durable_per_s: float, state: str) -> None:
    assert ROTATING_HONEST.overwrite is not None
    figures = replace(
        ROTATING_HONEST, overwrite=replace(ROTATING_HONEST.overwrite, durable_per_s=durable_per_s, dsync_per_s=None)
    )
    found = by_id(findings(figures, drive(rotation_per_min=None)))["overwrite_rate"]
    assert found.state == state
    assert "15,000 rpm" in found.text
    assert by_id(findings(figures, drive()))["overwrite_rate"].state == SUSPICIOUS


def test_durable_writes_by_fua_alone_can_be_suspicious() -> None:
    assert ROTATING_HONEST.overwrite is not None
    figures = replace(ROTATING_HONEST, overwrite=replace(ROTATING_HONEST.overwrite, dsync_per_s=9000.0))
    assert by_id(findings(figures, drive()))["overwrite_rate"].state == SUSPICIOUS


def test_a_cache_that_is_said_to_survive_power_cuts_is_fast_and_honest() -> None:
    through = drive(medium="solid", rotation_per_min=None, write_cache="write through", drive_cache_type=None)
    assert verdict(findings(SOLID_PROTECTED, through)) == PLAUSIBLE
    back = drive(medium="solid", rotation_per_min=None)
    assert verdict(findings(SOLID_PROTECTED, back)) == SUSPICIOUS  # it calls its cache volatile, and is too fast for it
    known = findings(SOLID_PROTECTED, back, protected=True)
    assert verdict(known) == PLAUSIBLE
    assert "fast and honest" in by_id(known)["overwrite_rate"].text
    assert "not carried out" not in " ".join(item.text for item in known)


def test_flash_that_takes_its_time_is_plausible() -> None:
    figures = measured(plain_ns=30 * US, flush_ns=900 * US, dirty=[(0, 50 * US)] + [(MS, MS)] * 4)
    found = findings(figures, drive(medium="solid", rotation_per_min=None))
    assert verdict(found) == PLAUSIBLE
    assert by_id(found)["flush_growth"].state == SILENT


def test_a_virtual_disk_says_nothing_about_its_host() -> None:
    for figures in (ROTATING_IGNORING, ROTATING_HONEST, Figures()):
        found = findings(figures, drive(medium="virtual", name="vda"))
        assert verdict(found) == SILENT
        assert "no evidence about the disks of its host" in by_id(found)["not_judged"].text
    faster = Figures(overwrite=OverwriteFigures(4096, MS, MS, MS, durable_per_s=52.0, dsync_per_s=82.0))
    said = by_id(findings(faster, drive(medium="virtual")))["not_judged"].text
    assert "was overwritten durably up to 82.0 times per second (52.0 with flushes, 82.0 with O_DSYNC)" in said


def test_what_cannot_be_seen_is_not_judged() -> None:
    nothing = WriteCaches(drives=[], no_barrier=False, reason="not known: no mount point holds this path")
    found = findings(ROTATING_IGNORING, nothing)
    assert verdict(found) == SILENT
    assert "no mount point holds this path" in by_id(found)["not_judged"].text


@pytest.mark.parametrize("verb", ["characterize", "honesty", "durable"])
def test_an_empty_name_is_no_scratch_file(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, ""]) == 2
    assert "the target's name is empty" in capsys.readouterr().err


def test_a_flush_that_the_kernel_never_sends_is_suspicious() -> None:
    overruled = by_id(findings(ROTATING_HONEST, drive(write_cache="write through")))
    assert overruled["kernel_overruled"].state == SUSPICIOUS
    known = by_id(findings(ROTATING_HONEST, drive(write_cache="write through"), protected=True))
    assert known["kernel_overruled"].state == PLAUSIBLE
    assert (
        by_id(findings(ROTATING_HONEST, msgspec.structs.replace(drive(), no_barrier=True)))["no_barrier"].state
        == SUSPICIOUS
    )


def test_several_disks_take_several_times_as_much() -> None:
    fast = measured(plain_ns=MS, flush_ns=9 * MS, dirty=[(0, MS)] + [(60 * MS, MS)] * 4)  # 1,050 MiB/s in the end
    one, two = drive(), drive()
    two.drives.extend(drive(name="sdb").drives)
    assert by_id(findings(fast, one))["flush_growth"].state == SUSPICIOUS
    assert by_id(findings(fast, two))["flush_growth"].state == PLAUSIBLE


@pytest.mark.parametrize(
    ("node", "medium"),
    [
        ({"type": "disk", "queue": {"rotational": True}}, "rotating"),
        ({"type": "disk", "queue": {"rotational": False}}, "solid"),
        ({"type": "disk", "virtual": True, "queue": {"rotational": True}}, "virtual"),
        ({"type": "zram", "queue": {"rotational": False}}, "memory"),
        ({"type": "disk", "queue": {}}, "unknown"),
    ],
)
def test_the_medium_is_told_from_the_facts(node: Json, medium: str, tmp_path: Path) -> None:
    drives = [{"name": "sda", "major_minor": "8:0", "below": [], **node}]
    target = msgspec.convert({"stack": drives, "mount": {"options": "rw,noatime"}}, TargetSheet)
    facts = write_cache_facts(target, Roots(sys=str(tmp_path)))
    assert [item.medium for item in facts.drives] == [medium]
    assert not facts.no_barrier


def test_the_drives_own_word_on_its_cache_is_read(tmp_path: Path) -> None:
    place = tmp_path / "class/block/sda/device/scsi_disk/0:0:0:0"
    place.mkdir(parents=True)
    (place / "cache_type").write_text("write back\n")
    target = {
        "stack": [{"name": "sda", "major_minor": "8:0", "type": "disk", "queue": {"write_cache": "write through"}}],
        "mount": {"options": "rw", "super_options": "rw,nobarrier"},
    }
    facts = write_cache_facts(msgspec.convert(target, TargetSheet), Roots(sys=str(tmp_path)))
    assert facts.drives[0].drive_cache_type == "write back"
    assert facts.no_barrier


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_DATA_HOME": str(home / "data"), "XDG_CACHE_HOME": str(home / "cache")}
    command = [sys.executable, "-m", "brickyard", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def check_document(document: Json) -> None:
    assert document["outcome"] == "done"
    assert len(document["runs"]) == 3
    figures = document["figures"]
    assert figures["errors"] == 0
    overwrite = figures["overwrite"]
    assert overwrite["request_bytes"] == 4096
    # The flush comes on top of the write, in both its own time and the rate. A fifth of a second has some 60 of them,
    # and the one that is under way at its end is in the mean alone.
    assert overwrite["durable_per_s"] <= 1e9 / overwrite["flush_ns"] * 1.25
    assert [group["writes"] for group in figures["groups"]] == [1, 4, 16, 64]
    assert all(group["writes_per_s"] > 0 and group["flush_ns"] > 0 for group in figures["groups"])
    sizes = [item["dirty_bytes"] for item in figures["dirty"]]
    assert sizes[0] == 0
    assert set(sizes) <= {0, MIB, 4 * MIB, 16 * MIB, 64 * MIB}
    assert all(item["flushes"] >= 1 for item in figures["dirty"])
    ids = {item["id"] for item in document["findings"]}
    assert "group_commit" in ids
    assert ids & {"not_judged", "overwrite_rate"}


def test_a_scratch_file_is_measured_and_removed(tmp_path: Path) -> None:
    done = run(tmp_path, "honesty", "--size", "32MiB", "--scratch", str(tmp_path), *SHORT, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    check_document(document)
    assert {"short"} <= {item["id"] for item in document["warnings"]}
    assert not list(tmp_path.glob("*.brick"))


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[str]:
    if os.geteuid() != 0:
        pytest.fail("loop devices need root")
    backing = tmp_path / "backing"
    with backing.open("wb") as made:
        made.truncate(48 * MIB)
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    command = ["losetup", "--find", "--show", str(backing)]
    device = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True, env=environment)


def test_a_loop_device_is_measured_only_with_consent(tmp_path: Path, loop_device: str) -> None:
    refused = run(tmp_path, "honesty", loop_device, *SHORT, "--json")
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr
    assert (tmp_path / "backing").read_bytes() == bytes(48 * MIB)
    done = run(tmp_path, "honesty", loop_device, "--overwrite", loop_device, *SHORT, "--json")
    assert done.returncode == 0, done.stderr
    check_document(json.loads(done.stdout))


def test_check_fails_when_something_is_suspicious(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from brickyard.cli.durability import honesty as verb
    from brickyard.honesty import answers, measure

    # Whatever disk this machine has: held against one that turns too slowly for anything, its rate is suspicious.
    monkeypatch.setattr(measure, "write_cache_facts", lambda _target: drive(rotation_per_min=1))
    placing = Placing(size="32MiB", scratch=tmp_path)
    overrides = tuple(word for word in SHORT if word != "--set")
    assert verb.honesty(store=tmp_path / "runs.db", check=True, placing=placing, overrides=overrides) == 1
    told = capsys.readouterr().out
    question, verdict, *_ = told.splitlines()
    assert (question, verdict[:20]) == (answers.HONESTY_QUESTION, "Verdict: suspicious."), "the answer comes first"
    place = tmp_path / "runs.db"
    assert verb.honesty(store=place, check=True, protected=True, placing=placing, overrides=overrides) == 0
    capsys.readouterr()
    for name, word in (("s1", verdict), ("s2", "Verdict: plausible.")):
        assert main(["show", name, "--store", str(place)]) == 0
        again = capsys.readouterr().out.splitlines()
        assert again[0] == question
        assert again[1].startswith(word), "what the user said of the cache is kept"
    with Store(place) as store:
        (study,) = store.studies(2)
        records = [store.record(run) for run in study.runs]
    older = study_answer(replace(study, about={"target": "t"}), records)
    assert older is not None
    assert "did not keep whether --protected was given" in older.belief


def test_a_modelled_brick_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "honesty", "sim:msr-2003-maxtor")
    assert done.returncode == 2
    assert "modelled brick" in done.stderr


def test_grouping_that_gains_nothing_is_said_to_gain_nothing() -> None:
    assert ROTATING_HONEST.groups
    slower = [replace(one, writes_per_s=100.0 / one.writes) for one in ROTATING_HONEST.groups]
    found = by_id(findings(replace(ROTATING_HONEST, groups=slower), drive()))["group_commit"]
    assert found.text.endswith("grouping gains nothing.")

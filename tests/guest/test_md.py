"""Real md arrays in the guest: conditions of runs and studies, and what is refused or flagged.

Its members are disks of 200 requests and 8 MB a second, so that a rebuild can be seen; see `run`.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from md_disks import DISKS, Run, clean_disks, create, run, shell

from brickyard import conditions
from brickyard.analysis.figures.condition import condition_samples
from brickyard.cli import main
from brickyard.store import Store

__all__ = ["clean_disks", "run"]
pytestmark = pytest.mark.usefixtures("clean_disks")

SHARED = """
title = "Loads in one condition"
repetitions = 1
[base]
profile = "sqlio-random-read-4"
target = "/dev/md0"
rebuild_rate = "2MiB"
set = ["duration=2s", "warmup=0s"]
[factor.depth]
levels = [1, 2, 4]
set = { depth = "{value}" }
[factor.condition]
condition = "{value}"
levels = ["degraded", "rebuilding"]
[[table]]
rows = "depth"
columns = "condition"
"""


def rebuilds(name: str) -> int:
    """How many the kernel has begun, by its own log."""
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True, timeout=60).stdout
    return log.count(f"md: recovery of RAID array {name}\n")


def test_a_condition_is_set_up_once_for_all_runs_that_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = create(1, 2, "--size=65536")
    before = rebuilds("md0")
    file = tmp_path / "shared.toml"
    file.write_text(SHARED)
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["study", str(file), *store]) == 2
    assert "--manage" in capsys.readouterr().err
    with Store(tmp_path / "runs.db") as kept:
        assert kept.runs() == [], "refused before anything was measured"
    assert main(["study", str(file), "--manage", "--json", *store]) == 0
    document = json.loads(capsys.readouterr().out)
    assert any("set up once" in note for note in document["notes"])
    with Store(tmp_path / "runs.db") as kept:
        records = [kept.record(info.id) for info in kept.runs()]
    set_ups: dict[str, set[int]] = {}
    shares: list[float] = []
    for record in records:
        assert not record.info.invalid
        set_ups.setdefault(record.info.condition, set()).add(record.info.labels["set_up"])
        assert [e for e in record.events if e["event"] == "condition_sample"], "samples are kept as they come"
        if record.info.condition == "rebuilding":
            shares += [sample.progress_share or 0.0 for sample in condition_samples(record)]
    assert {condition: len(found) for condition, found in set_ups.items()} == {"degraded": 1, "rebuilding": 1}
    assert shares == sorted(shares), "one rebuild went through all three runs"
    assert rebuilds("md0") == 1 + before, "what was degraded was rebuilt next, and not in between"
    assert array.state().name == "normal"


def test_a_rebuild_that_ends_before_the_run_is_flagged(run: Run) -> None:
    create(1, 2, "--size=12288")
    code, document = run("/dev/md0", 6, "--condition", "rebuilding", "--manage", "--set", "depth=1", "--set", "think=1")
    assert code == 0
    assert document["condition_check"]["valid"] is False
    assert "the rebuild ended" in document["condition_check"]["reason"]
    assert any("does not show the condition rebuilding" in item["text"] for item in document["warnings"])


def test_nothing_is_changed_without_manage(run: Run) -> None:
    array = create(5, 3)
    for condition in ("degraded", "rebuilding", "scrubbing", "initializing", "write-cache-off"):
        code, document = run("/dev/md0", 1, "--condition", condition)
        assert code == 2
        assert "--manage" in document["error"]
    assert array.state().name == "normal"
    assert not conditions.leftovers()


def test_no_array_loses_more_than_it_can(run: Run) -> None:
    create(0, 2, "--chunk=64")
    code, document = run("/dev/md0", 1, "--condition", "degraded", "--manage")
    assert code == 2
    assert "can lose no member" in document["error"]
    array = create(5, 3, name="/dev/md1", disks=DISKS[2:])
    shell("mdadm", "--manage", "/dev/md1", "--fail", array.failable())
    code, document = run("/dev/md1", 1, "--condition", "degraded", "--manage")
    assert code == 2
    assert "is degraded" in document["error"]
    # What is so already may be measured without any right to change it.
    code, document = run("/dev/md1", 1, "--condition", "degraded")
    assert code == 0
    assert document["condition_check"]["valid"]
    code, document = run("/dev/md1", 1)
    assert document["condition_check"]["valid"] is False, "who did not ask for a condition meant normal"


def test_scrubbing_and_initializing_end_with_the_run(run: Run) -> None:
    array = create(6, 4)
    for condition in ("scrubbing", "initializing"):
        code, document = run("/dev/md0", 3, "--condition", condition, "--manage", "--rebuild-rate", "2MiB")
        assert code == 0, document
        assert document["condition_check"]["valid"], document["condition_check"]
        shares = [sample["progress_share"] for sample in document["condition_check"]["samples"]]
        assert shares == sorted(shares)
        assert array.state().name == "normal"
    assert Path(array.at("sync_speed_max")).read_text().endswith("(system)\n"), "the limit is the system's again"
    assert Path(array.at("sync_max")).read_text() == "max\n"


def test_a_neighbour_on_the_same_disks_rebuilds(run: Run) -> None:
    for disk in DISKS[:2]:
        for number, start in ((1, 2048), (2, 40960)):
            shell("addpart", disk, str(number), str(start), "36864")
    try:
        create(1, 2, "--size=16384", name="/dev/md0", disks=["/dev/vda1", "/dev/vdb1"])
        create(1, 2, "--size=16384", name="/dev/md1", disks=["/dev/vda2", "/dev/vdb2"])
        options = [
            "--condition",
            "neighbour-rebuilding",
            "--neighbour",
            "/dev/md1",
            "--manage",
            "--rebuild-rate",
            "1MiB",
        ]
        code, document = run("/dev/md0", 3, *options)
        assert code == 0, document
        assert document["condition_check"]["valid"], document["condition_check"]
        # Two rebuilds on the same disks: md lets one wait, and a run meanwhile does not count as rebuilding.
        with conditions.hold("/dev/md1", "rebuilding", manage=True, rate_bytes_per_s=1 << 18) as first:
            first.begin()
            code, document = run("/dev/md0", 2, "--condition", "rebuilding", "--manage")
            assert document["condition_check"]["valid"] is False
            assert "delayed" in document["condition_check"]["reason"]
    finally:
        subprocess.run(["mdadm", "--stop", "--scan"], capture_output=True, check=False, timeout=60)
        for disk in DISKS[:2]:
            for number in (1, 2):
                shell("mdadm", "--zero-superblock", f"{disk}{number}")
                shell("delpart", disk, str(number))


def test_write_caches_are_switched_and_put_back(run: Run) -> None:
    create(1, 2)
    setting = Path("/sys/block/vda/cache_type")
    assert setting.read_text().strip() == "write back"
    code, document = run("/dev/md0", 2, "--condition", "write-cache-off", "--manage")
    assert code == 0, document
    assert {sample["state"] for sample in document["condition_check"]["samples"]} == {"write_cache_off"}
    assert document["condition_check"]["valid"]
    assert setting.read_text().strip() == "write back"


GUEST_DISK = """
title = "a disk of the guest: 200 requests and 8 MB a second"
kind = "cloud"
capacity_bytes = "40MiB"
iops = 200
burst_ios = 20
io_unit_bytes = "1GiB"
mb_per_s = 8.0
burst_bytes = "800000B"
read_latency = "300us"
write_latency = "300us"
latency_tail = "100us"
seed = 1
[basis]
capacity_bytes = "derived: what the arrays use of it"
iops = "derived: QEMU's throttle"
burst_ios = "derived: QEMU lets a tenth of a second through at once"
io_unit_bytes = "derived: it counts requests"
mb_per_s = "derived: QEMU's throttle"
burst_bytes = "derived: the same"
read_latency = "derived: an emulated disk"
write_latency = "derived: an emulated disk"
latency_tail = "derived: an emulated disk"
seed = "derived"
"""


@pytest.mark.parametrize("depth", [1, 4])
def test_a_rebuild_and_its_users_share_disks_as_the_model_says(run: Run, tmp_path: Path, depth: int) -> None:
    """md's pace and what users get of the same disks: the rebuild takes five seconds, the run three. How far apart
    users are is in docs/models.md; where md notices each of them, one alone gets seven times as much."""
    create(5, 3)
    load = ("--set", f"depth={depth}", "--set", "warmup=1s")
    code, real = run("/dev/md0", 2, "--condition", "rebuilding", "--manage", *load)
    assert code == 0, real
    assert real["condition_check"]["valid"], real["condition_check"]
    samples = [s for s in real["condition_check"]["samples"] if s["progress_share"] is not None]
    first, last = samples[0], samples[-1]
    seconds = (last["unix_ns"] - first["unix_ns"]) / 1e9
    pace = (last["progress_share"] - first["progress_share"]) * 40 * 1.048576 / seconds

    place = tmp_path / "guest-disk.toml"
    place.write_text(GUEST_DISK, "utf-8")
    target = f"sim:{place},software=linux-md,level=raid5,members=3,stripe=512KiB"
    code, modelled = run(target, 2, "--condition", "rebuilding", *load)
    assert code == 0, modelled
    background = modelled["background"][0]["bytes_per_s"] / 1e6
    rates = [document["totals"][0]["iops"] for document in (real, modelled)]
    print(f"{depth} deep: md {pace:.2f} MB/s, model {background:.2f}; users {rates[0]:.0f}/s, model {rates[1]:.0f}/s")
    assert 1 / 1.5 < background / pace < 1.5, (background, pace)
    assert 1 / 6 < rates[1] / rates[0] < 6, rates

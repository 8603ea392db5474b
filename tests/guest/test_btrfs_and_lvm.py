"""btrfs over several disks and RAID volumes of LVM, real ones on slow disks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brickyard.arrays import named
from brickyard.cli import main

DISKS = ["/dev/vda", "/dev/vdb", "/dev/vdc"]


def shell(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path("/mnt/brick")
    path.mkdir()
    yield path
    subprocess.run(["umount", path], capture_output=True, check=False, timeout=60)
    for disk in DISKS:
        shell("wipefs", "--quiet", "--all", disk)
    path.rmdir()


@pytest.fixture
def volume(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Without udev, LVM makes the device nodes itself; its archive lies where it can be written."""
    monkeypatch.setenv("DM_DISABLE_UDEV", "1")
    monkeypatch.setenv("LVM_SYSTEM_DIR", str(tmp_path))
    shell("vgcreate", "--quiet", "shop", *DISKS)
    shell("lvcreate", "--quiet", "--yes", "--type", "raid1", "--nosync", "--size", "160m", "--name", "data", "shop")
    yield "/dev/shop/data"
    shell("vgremove", "--quiet", "--force", "--force", "--yes", "shop")
    shell("pvremove", "--quiet", *DISKS)


def run(capsys: pytest.CaptureFixture[str], store: Path, target: str, *options: str) -> dict[str, Any]:
    capsys.readouterr()
    # Shorter than a rebuild, also where the guest's processor is slow.
    load = ["run", "sqlio-random-read-4", target, "--set", "duration=2", "--set", "workers=4"]
    code = main([*load, "--store", str(store), "--json", *options])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == 0, document
    return document


def test_btrfs_is_measured_normal_degraded_and_rebuilding(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["array", "create", str(place), "raid1", *DISKS[:2], "--manage"]) == 0
    rates = {}
    target = str(place / "load")
    for condition in ("normal", "degraded", "rebuilding"):
        options = ["--size", "32MiB"] if condition == "normal" else ["--manage"]
        document = run(capsys, tmp_path / "runs.db", target, "--condition", condition, *options)
        assert document["condition_check"]["valid"], document["condition_check"]["reason"]
        rates[condition] = document["totals"][0]["iops"]
        array = named(str(place))
        assert array.state().name == "normal"
        assert [member.state for member in array.sheet().members] == ["active", "active"]
        assert array.sheet().level == "raid1", "what was written without the member has two copies again"
    print(", ".join(f"{name} {rate:.0f} IOPS" for name, rate in rates.items()))
    assert all(rates.values()), "it served in every condition"
    checked = run(
        capsys, tmp_path / "runs.db", target, "--condition", "scrubbing", "--manage", "--rebuild-rate", "2MiB"
    )
    assert checked["condition_check"]["valid"], checked["condition_check"]
    assert main(["array", "destroy", str(place), "--manage"]) == 2, "a file system is not destroyed just like that"
    assert main(["array", "destroy", str(place), "--manage", "--i-know-this-destroys-data"]) == 0


def test_lvm_is_checked_and_rebuilt(volume: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    normal = run(capsys, tmp_path / "runs.db", volume)
    assert normal["condition_check"]["valid"], normal["condition_check"]
    assert normal["condition_check"]["array"]["name"] == "lvm:shop/data"
    rebuilding = run(capsys, tmp_path / "runs.db", volume, "--condition", "rebuilding", "--manage")
    assert rebuilding["condition_check"]["valid"], rebuilding["condition_check"]["reason"]
    shares = [sample["progress_share"] for sample in rebuilding["condition_check"]["samples"]]
    assert shares == sorted(shares)
    assert shares[-1] < 1
    assert named("lvm:shop/data").state().name == "normal"
    assert len(named("lvm:shop/data").sheet().members) == 2
    code = main(["run", "sqlio-random-read-4", volume, "--condition", "degraded", "--manage"])
    assert code == 2
    assert "cannot make lvm take a member out" in capsys.readouterr().err

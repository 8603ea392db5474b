"""What a power cut leaves for whoever looks at the disk afterwards: nothing that the kernel only had in memory."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from brickyard.cli import main
from brickyard.lab import disks
from lab_support import read, refused, up, write

__all__ = ["up"]


def written(folder: Path, name: str, *, synced: bool) -> None:
    with (folder / name).open("w") as file:
        file.write(name * 1000)
        file.flush()
        if synced:
            os.fsync(file.fileno())


def power_of(name: str) -> disks.Status:
    status = disks.ask(name, "status").status
    assert status is not None
    return status


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_files_that_no_fsync_covered_are_gone_after_a_power_cut(
    kind: str, tmp_path: Path, up: Callable[..., disks.About]
) -> None:
    assert main(["lab", "up", "disk", "--size", "320MiB", "--fs", kind]) == 0
    about = disks.named("disk")
    at = Path(about.at)
    written(at, "synced", synced=True)
    for number in range(50):
        written(at, f"never-{number}", synced=False)
    assert main(["lab", "power-cut", "disk"]) == 0
    assert [place.name for place in at.iterdir() if place.is_file()] == ["synced"]
    assert (at / "synced").read_text() == "synced" * 1000
    assert not power_of("disk").off
    written(at, "later", synced=True)


def test_the_power_stays_off_while_a_program_has_files_on_the_disk(
    up: Callable[..., disks.About], capsys: pytest.CaptureFixture[str]
) -> None:
    about = up("--fs", "ext4")
    at = Path(about.at)
    written(at, "synced", synced=True)
    with (at / "never").open("w") as file:
        file.write("never")
        file.flush()
        said = refused(capsys, "power-cut", "disk")
        assert f"{at}: is in use" in said
        assert "stays off until brickyard lab power-on disk" in said
        with pytest.raises(OSError, match="Input/output error"):
            written(at, "during", synced=True)
        assert main(["lab", "status", "disk"]) == 0
        assert "off since a power cut" in capsys.readouterr().out
        assert "is in use" in refused(capsys, "power-on", "disk")
    assert main(["lab", "power-on", "disk"]) == 0
    assert (at / "synced").is_file()
    assert not (at / "never").exists()
    assert "its power is on" in refused(capsys, "power-on", "disk")


def test_a_disk_whose_file_system_a_power_cut_damaged_is_not_said_to_be_mounted(
    tmp_path: Path, up: Callable[..., disks.About], capsys: pytest.CaptureFixture[str]
) -> None:
    at = tmp_path / "at"
    at.mkdir()
    about = up("--fs", "ext4", "--at", str(at))
    assert main(["lab", "status", "disk"]) == 0
    assert f"ext4 on {at}" in capsys.readouterr().out
    write(about.device, b"\0", 0, flushed=True)  # where the superblock is
    assert "its ext4 cannot be mounted" in refused(capsys, "power-cut", "disk")
    assert main(["lab", "status", "disk"]) == 0
    assert main(["lab", "list"]) == 0
    said = capsys.readouterr().out
    assert str(at) not in said
    assert re.search(r"mounted +nothing", said)
    assert main(["lab", "status", "disk", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["at"] == ""
    # It is mounted there again after the next power cut, if its file system is mended.
    assert "is the folder of the disk disk" in refused(capsys, "up", "other", "--fs", "ext4", "--at", str(at))


def test_the_power_of_a_disk_without_a_file_system_comes_back_when_nothing_is_in_memory(
    up: Callable[..., disks.About], capsys: pytest.CaptureFixture[str]
) -> None:
    device = up().device
    with Path(device).open("r+b", buffering=0) as file:
        file.write(b"A" * 4096)  # in memory alone
        assert main(["lab", "power-cut", "disk"]) == 0
        assert f"unmount {device}, end what uses it" in capsys.readouterr().out
        with pytest.raises(OSError, match="Input/output error"):
            read(device, 0)
        said = refused(capsys, "power-on", "disk")
        assert f"{device}: is open in process {os.getpid()}" in said
    assert main(["lab", "power-on", "disk"]) == 0
    assert read(device, 0) == bytes(4096)
    assert Path(device).read_bytes()[:4096] == bytes(4096)


def test_after_a_power_cut_at_a_flush_the_power_is_switched_on_by_its_own_word(
    up: Callable[..., disks.About], capsys: pytest.CaptureFixture[str]
) -> None:
    about = up("--fs", "ext4")
    at = Path(about.at)
    written(at, "synced", synced=True)
    assert main(["lab", "power-cut", "disk", "--when", f"flush:{power_of('disk').flushes + 1}"]) == 0
    assert "brickyard lab power-on disk" in capsys.readouterr().out
    assert power_of("disk").armed == [f"power-cut, at flush:{power_of('disk').flushes + 1}"]
    with suppress(OSError):
        written(at, "at the flush", synced=True)
    with pytest.raises(OSError, match=r"Input/output error|Read-only"):
        written(at, "later", synced=True)
    assert power_of("disk").off
    assert main(["lab", "power-on", "disk"]) == 0
    assert (at / "synced").is_file()

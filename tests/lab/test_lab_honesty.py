"""What `honesty` and `durable` find, on disks that are known to be honest, without a cache, lying or lossy."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brickyard.cli import main
from brickyard.honesty import PLAUSIBLE, SUSPICIOUS, measure
from brickyard.honesty.proof import LOST, prove
from brickyard.lab import disks
from honesty_support import PATIENCE_S, begin, drive, recording

MODEL, ROTATION_PER_MIN = "sim:msr-2003-wd", 7200
FLUSHES = 210  # one of those that a cache with lossy:1/7 loses


@pytest.fixture
def device(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    """A disk with the options of the test's parameters."""
    assert main(["lab", "up", "disk", *request.param]) == 0, capsys.readouterr().err
    yield disks.named("disk").device
    disks.down("disk")


def disk(cache: str, *more: str) -> tuple[str, ...]:
    return ("--size", "128MiB", "--cache", cache, *more)


@pytest.mark.parametrize(
    ("device", "kernel", "word"),
    [
        (disk("honest", "--model", MODEL), "write back", PLAUSIBLE),
        (disk("off", "--model", MODEL), "write through", PLAUSIBLE),
        (disk("lying", "--model", MODEL), "write back", SUSPICIOUS),
        # Speed cannot show one flush in fifty; only a power cut does.
        (disk("lossy:1/50", "--model", MODEL), "write back", PLAUSIBLE),
    ],
    indirect=["device"],
    ids=["honest", "off", "lying", "lossy"],
)
def test_speeds_show_which_disks_ignore_all_flushes(
    device: str,
    kernel: str,
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The kernel knows nothing of the emulated drive, so that the test says what it would know of the real one."""
    known = drive(rotation_per_min=ROTATION_PER_MIN, write_cache=kernel, drive_cache_type=kernel)
    monkeypatch.setattr(measure, "write_cache_facts", lambda _target: known)
    capsys.readouterr()
    words = ["honesty", device, "--overwrite", device, "--store", str(tmp_path / "runs.db"), "--json"]
    assert main([*words, "--set", "duration=400ms", "--set", "interval=50ms"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == word, found
    rate = next(one for one in found["findings"] if one["id"] == "overwrite_rate")
    assert rate["state"] == word


@pytest.mark.parametrize(
    ("device", "loses"),
    [
        (disk("honest"), False),
        (disk("off"), False),
        (disk("lying", "--cache-size", "64KiB"), True),
        (disk("lossy:1/7"), True),
    ],
    indirect=["device"],
    ids=["honest", "off", "lying", "lossy"],
)
def test_a_power_cut_proves_which_disks_lose_acknowledged_writes(
    device: str, loses: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The power fails at a flush; from then on nothing can be written, so that nothing hides what is missing."""
    assert main(["lab", "power-cut", "disk", "--when", f"flush:{FLUSHES}"]) == 0
    noted = tmp_path / "recorder.log"
    with recording(noted) as service:
        shape = ("--writers", "1", "--duration", "30s", "--sync", "fdatasync")  # one flush for each write
        process = begin("honesty", "write", device, "--overwrite", device, "--recorder", service.address, *shape)
        process.communicate(timeout=PATIENCE_S)
    assert main(["lab", "power-on", "disk"]) == 0
    capsys.readouterr()
    assert main(["honesty", "verify", device, "--recorder-file", str(noted), "--json"]) == int(loses)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["acknowledged"] > FLUSHES // 4
    assert (found["missing_count"] > 0) == loses, found
    # The cut was the disk's alone; a host that it took down as well would have started since.
    cut_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - 60
    os.utime(noted, (cut_s, cut_s))
    assert (prove(device, noted).word == LOST) == loses

"""What lies in memory has no cache of unknown size below it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from brickyard.cli import main
from watch_support import WITH_SBIN, zram

__all__ = ["zram"]


@pytest.fixture
def in_tmpfs(tmp_path: Path) -> Iterator[str]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(tmp_path)], check=True, env=WITH_SBIN)
    try:
        (tmp_path / "file").write_bytes(bytes(range(1, 65)) * (1 << 18))
        yield str(tmp_path / "file")
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True, env=WITH_SBIN)


def said(capsys: pytest.CaptureFixture[str], operation: str, place: str) -> str:
    consent = ["--overwrite", place, "--i-know-this-destroys-data"] if operation == "randwrite" else []
    assert main(["run", "--rw", operation, "--bs", "64k", "--runtime", "300ms", place, *consent]) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("operation", ["randwrite", "randread"])
def test_no_cache_of_a_memory_device_is_looked_for(
    zram: str, operation: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = said(capsys, operation, zram)
    assert "memory device" in told
    assert "data sheet" not in told
    assert "that of a cache" not in told
    assert "Cache none (in memory)" in told


def test_no_cache_below_a_file_in_memory_is_looked_for(in_tmpfs: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = said(capsys, "randread", in_tmpfs)
    assert "data sheet" not in told
    assert "that of a cache" not in told
    assert "may have come from the page cache" in told

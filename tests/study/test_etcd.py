"""etcd's log is appended to space that holds no data yet, whose flushes also write the file system's journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard.cli import main
from brickyard.facts.mounts import unwritten_bytes


def test_etcds_appends_go_to_space_that_was_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    words = ["run", "etcd-fdatasync", str(log), "--size", "64MiB", "--set", "bytes=64KiB", "--check", "--ruler", "etcd"]
    assert main(words) in (0, 1)
    said = capsys.readouterr().out
    assert "fdatasync" in said
    assert "read without accessing the medium" not in said, "nothing is read"
    left = unwritten_bytes(str(log))
    assert left is not None
    assert left > 60 << 20


def test_each_run_finds_the_log_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second run wrote over the data of the first, with flushes that took half as long, and both were said to begin
    with what was never written."""
    log = tmp_path / "log"
    words = ["run", "etcd-fdatasync", str(log), "--size", "16MiB"]
    left = []
    for amount in ("256KiB", "64KiB"):
        assert main([*words, "--set", f"bytes={amount}"]) == 0
        left.append(unwritten_bytes(str(log)) or 0)
        assert "16 MiB (100 %) of it never written" in capsys.readouterr().out
    assert left[1] - left[0] == (256 - 64) << 10


def test_what_a_run_left_as_it_was_is_counted_where_it_lies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    assert main(["run", "etcd-fdatasync", str(log), "--size", "16MiB", "--set", "bytes=64KiB"]) == 0
    with log.open("r+b") as file:
        file.seek(9 << 20)  # behind the header, from 8 MiB on
        file.write(b"x" * (4 << 20))
    for region, share in (("0..100%", "74.6 %"), ("0..8MiB", "99.2 %"), ("8MiB..12MiB", "")):
        capsys.readouterr()
        read = ["run", "--rw", "randread", "--bs", "4k", "--runtime", "100ms", str(log), "--set", "fill=never"]
        assert main([*read, "--set", f"region={region}"]) == 0
        said = capsys.readouterr().out
        told = f"({share.replace(' ', '')}) were never written"
        assert told in said if share else "never written, and are read" not in said

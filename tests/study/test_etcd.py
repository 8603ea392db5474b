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

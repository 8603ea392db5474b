"""What tests of `honesty` and `durable` share: a drive's facts, programs that are begun, and a recorder."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brickyard.schema.target_sheet import DriveCache, WriteCaches

PATIENCE_S = 60


def drive(**changes: Any) -> WriteCaches:
    found: dict[str, Any] = {
        "name": "sda",
        "model": "A drive",
        "medium": "rotating",
        "rotation_per_min": 7200,
        "write_cache": "write back",
        "fua": False,
        "drive_cache_type": "write back",
        "logical_block_bytes": 512,
        **changes,
    }
    return WriteCaches(drives=[DriveCache(**found)], no_barrier=False, reason="")


def begin(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "brickyard", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@dataclass
class Service:
    process: subprocess.Popen[str]
    address: str
    said: str


@contextmanager
def recording(file: Path) -> Iterator[Service]:
    process = begin("recorder", "--listen", "127.0.0.1:0", "--file", str(file))
    assert process.stderr is not None
    said = process.stderr.readline()
    found = re.search(r"listening on (\S+:\d+)", said)
    assert found, said
    try:
        yield Service(process, found[1], said)
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=PATIENCE_S)

"""Duty: the figures of an installed `pg_test_fsync`, which measures what `wal_sync_method` costs.

It writes 16 MiB into the file that it is given and removes that file at the end, so it gets one of its own, in a
directory that was made for it.

Refusal: no figure is changed or judged; a line that is not understood is left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from brickyard import outputs
from brickyard.databases.programs import debian_newest_first, from_wheel
from brickyard.errors import BrickyardError, one_line

NAME = "pg_test_fsync"
SECONDS = 1  # a test; there are 16
TIMEOUT_S = 120.0
_HEAD = "using one 8kB write"
_LINE = re.compile(r"^\s+(\w+)\s+([\d.]+) ops/sec")


@dataclass(frozen=True)
class FsyncTest:
    """Durable writes of 8 kB a second, by method; `reason` says why there are none."""

    program: str
    per_s: dict[str, float]
    reason: str = ""


def program() -> str | None:
    """What PATH has, then Debian's newest, then what came with the server of the wheel."""
    wheel = from_wheel()
    folders = [*debian_newest_first(), *([wheel.directory] if wheel else [])]
    found = (path / NAME for path in folders if os.access(path / NAME, os.X_OK))
    return shutil.which(NAME) or next(map(str, found), None)


def run(folder: Path) -> FsyncTest | None:
    """None where it is not installed."""
    found = program()
    if found is None:
        return None
    try:
        with outputs.temporary_folder(".brickyard-pg_test_fsync-", folder) as place:
            words = [found, "-s", str(SECONDS), "-f", str(place / "file")]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except (OSError, BrickyardError, subprocess.TimeoutExpired) as error:
        return FsyncTest(found, {}, one_line(error))
    if done.returncode:
        return FsyncTest(found, {}, one_line(done.stderr or f"exit code {done.returncode}"))
    return FsyncTest(found, read(done.stdout))


def read(text: str) -> dict[str, float]:
    """The section of one write of 8 kB: method → operations a second."""
    _, _, rest = text.partition(_HEAD)
    section = rest.partition("\nCompare")[0]
    return {match[1]: float(match[2]) for line in section.splitlines() if (match := _LINE.match(line))}

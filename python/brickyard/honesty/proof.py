"""Duty: what a power cut showed of a target: the recorder's file against what is there, and against the host's start.

Refusal: a file whose last write was noted after the host started proves nothing of a cut, whether writes are missing or
not.
"""

from __future__ import annotations

import time
from pathlib import Path

from brickyard.errors import BrickyardError
from brickyard.honesty.verify import verify
from brickyard.store import Proof

PROVED, LOST = "proved by power cut", "lost data in a power cut"


def prove(target: str, recorder_file: Path) -> Proof:
    """Reads both; nothing is written."""
    found = verify(target, recorder_file)
    writes = f"{found.acknowledged:,} acknowledged writes in the recorder's file"
    if found.foreign_count:
        text = (
            f"Of {writes}, {found.missing_count:,} are missing, and the places of {found.foreign_count:,} of them "
            f"hold data that no run known to the recorder wrote. The storage lost them only if no other program has "
            f"written to the target since."
        )
        return Proof("", text, found.acknowledged, found.missing_count)
    if found.missing_count:
        text = f"Of {writes}, {found.missing_count:,} are missing"
        if has_started_since(recorder_file):
            return Proof(LOST, f"{text}.", found.acknowledged, found.missing_count)
        text = f"{text}, but {NOT_STARTED} Something else lost them, such as a program that wrote to the target since."
        return Proof("", text, found.acknowledged, found.missing_count)
    if found.gaps:
        text = f"All of {writes} are there, but the file has lost some of its entries."
        return Proof("", text, found.acknowledged, 0)
    if not has_started_since(recorder_file):
        return Proof("", f"All of {writes} are there, but {NOT_STARTED}", found.acknowledged, 0)
    text = (
        f"All of {writes} are there after a restart of this host. Only the person who cut the power can confirm that"
        " it was cut."
    )
    return Proof(PROVED, text, found.acknowledged, 0)


NOT_STARTED = (
    "this host has not been restarted since the recorder's file was last written, so there was no power cut. (If you "
    "copied the file, copy it with its time stamp: cp -p.)"
)


def has_started_since(recorder_file: Path) -> bool:
    return recorder_file.stat().st_mtime < _host_began_s()


def _host_began_s() -> float:
    """Seconds since 1970."""
    try:
        for line in Path("/proc/stat").read_text().splitlines():
            if line.startswith("btime "):
                return float(line.split()[1])
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, ValueError) as error:
        raise BrickyardError(f"/proc/stat: does not tell when this host started: {error}") from error

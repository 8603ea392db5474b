"""Duty: what a power cut showed of a target: the recorder's file against what is there, and against the host's start.

Refusal: a file whose last write was noted after the host started proves nothing of a cut, whether writes are missing or
not.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from brickyard.errors import BrickyardError
from brickyard.honesty.verify import verify

PROVED, LOST = "proved by power cut", "lost data in a power cut"


@dataclass(frozen=True)
class Proof:
    """`word` is `PROVED`, `LOST`, or empty where nothing is shown."""

    word: str
    text: str
    acknowledged: int
    missing: int


def prove(target: str, recorder_file: Path) -> Proof:
    """Reads both; nothing is written."""
    found = verify(target, recorder_file)
    writes = f"{found.acknowledged:,} writes that the recorder knows were acknowledged as durable"
    if found.foreign_count:
        text = (
            f"Of {writes}, {found.missing_count:,} are missing, and in the places of {found.foreign_count:,} lies"
            " something that no run known to the recorder wrote. Only if nothing wrote to the target since did the"
            " storage lose them."
        )
        return Proof("", text, found.acknowledged, found.missing_count)
    if found.missing_count:
        text = f"Of {writes}, {found.missing_count:,} are missing"
        if has_started_since(recorder_file):
            return Proof(LOST, f"{text}.", found.acknowledged, found.missing_count)
        text = f"{text}, but {NOT_STARTED} Something else lost them, such as a program that wrote to the target since."
        return Proof("", text, found.acknowledged, found.missing_count)
    if found.gaps:
        text = f"All of {writes} are there, but the recorder's file has lost some of what it was told."
        return Proof("", text, found.acknowledged, 0)
    if not has_started_since(recorder_file):
        return Proof("", f"All of {writes} are there, but {NOT_STARTED}", found.acknowledged, 0)
    text = f"All of {writes} are there after this host started again. That its power was cut is the word of who cut it."
    return Proof(PROVED, text, found.acknowledged, 0)


NOT_STARTED = (
    "this host has not started since the recorder's file was last written, so no power cut lies between. (Where the"
    " file was copied, copy it with its time: cp -p.)"
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

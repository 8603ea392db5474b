"""Duty: which process a run belongs to, so that a run that goes on can be told from one that was killed.

Refusal: no signal is sent. A process of another host, boot or container is never said to be alive.
"""

from __future__ import annotations

import os
from pathlib import Path

from brickyard.schema import ProcessMark

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_START_FIELD = 19  # starttime is field 22 of proc(5)'s stat; counted from 0 after pid and name


def own_process() -> ProcessMark:
    return process_of(os.getpid())


def process_of(pid: int) -> ProcessMark:
    """Of one that has ended, a mark that nothing alive has."""
    return ProcessMark(pid=pid, start_ticks=_start_ticks(pid), boot_id=_boot_id())


def is_alive(told: ProcessMark | None) -> bool:
    """Whether the very process lives: process numbers are used again, so its start and the boot must agree."""
    if told is None or told.start_ticks is None or told.boot_id is None:
        return False
    return told.boot_id == _boot_id() and told.start_ticks == _start_ticks(told.pid)


def _boot_id() -> str | None:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return None


def _start_ticks(pid: int) -> int | None:
    try:
        text = Path("/proc", str(pid), "stat").read_text()
    except OSError:
        return None
    # The name stands in parentheses and may hold any character.
    fields = text.rpartition(")")[2].split()
    return int(fields[_START_FIELD]) if len(fields) > _START_FIELD and fields[0] != "Z" else None

"""Duty: control groups of our own, made and removed in the kernel's hierarchy of them.

Refusal: nothing is made outside of such a hierarchy, and no group is removed that does not carry our name; the kernel
removes none that holds a process.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from brickyard import _core
from brickyard.outputs.places import refuse

PREFIX = "brickyard-memory-"


def make_group(above: Path) -> Path:
    """A new group below another; its name says which process made it. Raises OSError where the kernel refuses."""
    directory = os.open(above, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if "cgroup" not in (_core.kernels(directory) or ""):
            raise refuse(above, "is in no hierarchy of control groups")
        name = f"{PREFIX}{os.getpid()}-{time.monotonic_ns()}"
        os.mkdir(name, dir_fd=directory)
    finally:
        os.close(directory)
    return above / name


def remove_group(place: Path) -> bool:
    """Takes a group of ours away; False where a process is still in it."""
    if not place.name.startswith(PREFIX):
        raise refuse(place, "is no group that was made here")
    try:
        os.rmdir(place)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def remove_abandoned_groups(above: Path) -> None:
    """Groups that processes left which were killed."""
    for place in above.glob(PREFIX + "*"):
        owner = place.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdecimal() and not Path("/proc", owner).exists():
            remove_group(place)

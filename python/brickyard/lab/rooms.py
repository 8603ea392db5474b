"""Duty: folders of the lab that do not outlive it: a killed one's are removed by the next.

Whoever owns a folder holds the lock of its marker, so that a folder without an owner is known for ours.

Refusal: nothing is removed without that marker, or while its lock is held.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from brickyard import outputs

ROOM, LOGS = "brickyard-lab-", "brickyard-lab-logs-"
NAMES = re.compile(r"brickyard-lab-(logs-)?[0-9a-f]{12}")
MARKER, MARK, NOTHING = "owner", b"brickyard lab\n", re.compile(rb"\A\Z")
TRIES, PAUSE_S = 50, 0.02


@contextmanager
def own_folder(prefix: str = ROOM) -> Iterator[Path]:
    """A folder where the system keeps temporary files, for as long as a context lasts."""
    home = Path(tempfile.gettempdir())
    remove_leftovers(home)
    place = outputs.fresh_folder(prefix, home)
    with ExitStack() as ending:
        held = outputs.held_folder(place)
        ending.callback(os.close, held)
        ending.callback(_remove, place, held)
        marker = outputs.open_journal(place / MARKER, NOTHING, b"")
        ending.callback(os.close, marker)
        fcntl.flock(marker, fcntl.LOCK_EX)
        os.write(marker, MARK)  # after the lock: an empty marker is nobody's yet, and left alone
        yield place


def _remove(place: Path, held: int) -> None:
    """A process that was killed may still be ending, and leave a file behind."""
    for _ in range(TRIES):
        outputs.remove_folder(place, held, MARKER)
        if not place.exists():
            return
        time.sleep(PAUSE_S)


def remove_leftovers(home: Path) -> list[Path]:
    """Takes away folders whose owners were killed."""
    removed = []
    for place in sorted(home.glob(ROOM + "*")):
        if not NAMES.fullmatch(place.name):
            continue
        with suppress(OSError), ExitStack() as ending:
            held = outputs.held_folder(place)
            ending.callback(os.close, held)
            if os.fstat(held).st_uid != os.geteuid():
                continue
            marker = os.open(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=held)
            ending.callback(os.close, marker)
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.read(marker, len(MARK)) == MARK and outputs.remove_folder(place, held, MARKER):
                removed.append(place)
    return removed

"""Duty: how large a target is. Refusal: what is neither a file nor a block device is not even opened."""

from __future__ import annotations

import os
import stat


def size_of(path: str) -> int | None:
    """None for everything else: to open a FIFO would wait for its other end, and to open a tape would wind it."""
    try:
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode):
            return found.st_size
        if not stat.S_ISBLK(found.st_mode):
            return None
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.lseek(handle, 0, os.SEEK_END)
    finally:
        os.close(handle)

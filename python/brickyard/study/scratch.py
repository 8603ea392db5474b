"""Duty: make a place for a scratch file, size it, and take it away again.

Refusal: only files that this module named are removed; their content is written by the core alone.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from brickyard.errors import BadInputError
from brickyard.units import format_size

MAX_DEFAULT_BYTES = 2 << 30  # filled within seconds on most disks; larger only when the user says so
QUICK_BYTES = 512 << 20
CACHE_FACTOR = 4  # a test area below four times the cache measures the cache (Overland's guide, 2007)
FREE_SHARE = 4  # at most this fraction of the free space is taken
MIN_BYTES = 16 << 20  # below this, 1 MiB requests of 64 lanes would all fall on the same few blocks
ALIGN_BYTES = 1 << 20
HEADER_MAGIC = b"BRICKYARD SCRATCH"  # how crates/block begins what is ours


@dataclass(frozen=True)
class Scratch:
    path: Path
    size_bytes: int
    notes: tuple[str, ...]


def cache_home() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "brickyard"


def plan_size(
    directory: Path, asked_bytes: int | None, cache_bytes: int | None, *, quick: bool = False
) -> tuple[int, list[str]]:
    """How large a scratch file in `directory` is to be, and what there is to say about it."""
    free = shutil.disk_usage(directory).free
    if asked_bytes is not None:
        if asked_bytes > free:
            raise BadInputError(
                f"{directory}: {format_size(asked_bytes)} do not fit into {format_size(free)} of free space;"
                " choose a smaller --size or another --scratch directory"
            )
        size = asked_bytes
    else:
        wanted = QUICK_BYTES if quick else MAX_DEFAULT_BYTES
        size = min(max(wanted, CACHE_FACTOR * (cache_bytes or 0)), MAX_DEFAULT_BYTES, free // FREE_SHARE)
        size -= size % ALIGN_BYTES
    if size < MIN_BYTES:
        raise BadInputError(
            f"{directory}: room for {format_size(size)} only, at least {format_size(MIN_BYTES)} are needed;"
            " free some space, or name another directory with --scratch"
        )
    if cache_bytes is None:
        return size, ["cache unknown: whether the scratch file is four times as large cannot be told"]
    if size < CACHE_FACTOR * cache_bytes:
        return size, [
            f"the scratch file ({format_size(size)}) is smaller than four times the cache"
            f" ({format_size(cache_bytes)}); --size {format_size(CACHE_FACTOR * cache_bytes)} would do"
        ]
    return size, []


@contextmanager
def scratch_file(
    directory: Path | None,
    asked_bytes: int | None,
    *,
    keep: bool = False,
    quick: bool = False,
    cache_bytes: int | None = None,
) -> Iterator[Scratch]:
    """The path of a scratch file that does not exist yet; the core makes and fills it. Removed at the end."""
    home = directory or cache_home()
    try:
        if directory is None:
            home.mkdir(parents=True, exist_ok=True)
        left = _remove_leftovers(home) if home.is_dir() else []
        size, notes = plan_size(home, asked_bytes, cache_bytes, quick=quick)
        with tempfile.NamedTemporaryFile(dir=home, delete=True):
            pass  # whether a file can be made here shows best by making one
    except OSError as error:
        raise BadInputError(
            f"{home}: no scratch file can be made here: {error.strerror}; name another with --scratch"
        ) from error
    path = _kept_name(home) if keep else home / f"scratch-{os.getpid()}.brick"
    if not keep:
        path.unlink(missing_ok=True)
    try:
        yield Scratch(path, size, (*left, *notes))
    finally:
        if not keep:
            path.unlink(missing_ok=True)


def _kept_name(home: Path) -> Path:
    """A name that no later run takes for a leftover."""
    return next(path for number in count(1) if not os.path.lexists(path := home / f"kept-{number}.brick"))


def _remove_leftovers(home: Path) -> list[str]:
    """Takes away scratch files of processes that were killed before they could, and tells which."""
    notes = []
    for path in sorted(home.glob("scratch-*.brick")):
        owner = path.stem.removeprefix("scratch-")
        if not owner.isdigit() or Path("/proc", owner).exists():
            continue
        size = _abandoned_bytes(path)
        if size is not None:
            path.unlink(missing_ok=True)
            notes.append(f"removed {path} ({format_size(size)}), the scratch file of a run that was killed")
    return notes


def _abandoned_bytes(path: Path) -> int | None:
    """The size of a file with our header that nobody has locked, or None.

    Whoever measures a file holds a lock on it, also where its process cannot be seen from here.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or os.pread(handle, len(HEADER_MAGIC), 0) != HEADER_MAGIC:
            return None
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return found.st_size
    except OSError:
        return None
    finally:
        os.close(handle)

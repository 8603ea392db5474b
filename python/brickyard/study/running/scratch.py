"""Duty: make a place for a scratch file, size it, and take it away again.

Refusal: only files that this module named are removed; their content is written by the core alone.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from brickyard import _core, outputs
from brickyard.analysis.judging.caveats_site import CACHE_FACTOR
from brickyard.errors import BadInputError, one_line
from brickyard.study.running.check import nearest_folder
from brickyard.units import format_size

MAX_DEFAULT_BYTES = 2 << 30  # filled within seconds on most disks; larger only when the user says so
QUICK_BYTES = 512 << 20
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
        if asked_bytes < MIN_BYTES:
            asked, least = format_size(asked_bytes), format_size(MIN_BYTES)
            raise BadInputError(f"--size {asked}: a scratch file is at least {least}")
        size = asked_bytes
    else:
        wanted = QUICK_BYTES if quick else MAX_DEFAULT_BYTES
        size = min(max(wanted, CACHE_FACTOR * (cache_bytes or 0)), MAX_DEFAULT_BYTES, free // FREE_SHARE)
        size -= size % ALIGN_BYTES
    if size < MIN_BYTES:
        raise BadInputError(
            f"{directory}: has room for only {format_size(size)}, but at least {format_size(MIN_BYTES)} are needed; "
            f"free some space, or name another directory with --scratch"
        )
    if cache_bytes is None:
        return size, ["the cache size is unknown, so the scratch file may be smaller than four times the cache"]
    if size < CACHE_FACTOR * cache_bytes:
        return size, [
            f"the scratch file ({format_size(size)}) is smaller than four times the cache"
            f" ({format_size(cache_bytes)}); --size {format_size(CACHE_FACTOR * cache_bytes)} is enough"
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
    """A scratch file that is ours as long as the context lasts; the core makes and fills it. Removed at the end.

    What is removed is the file that was made: whatever else has come to bear its name is somebody's, and stays.
    """
    home = directory or cache_home()
    try:
        if directory is None:
            outputs.folder(home)
        left = _remove_leftovers(home) if home.is_dir() else []
        size, notes = plan_size(home, asked_bytes, cache_bytes, quick=quick)
        path = _free_name(home, "kept" if keep else f"scratch-{os.getpid()}")
        held = _core.make_target(str(path), size)
    except OSError as error:
        raise BadInputError(
            f"{home}: no scratch file can be made here: {error.strerror}; name another with --scratch"
        ) from error
    except ValueError as error:
        raise BadInputError(one_line(error)) from error
    is_kept = keep
    try:
        yield Scratch(path, size, (*left, *notes))
    except BadInputError:
        is_kept = False  # nothing was measured on it
        raise
    finally:
        if not is_kept:
            outputs.remove(path, held)
        os.close(held)


def check_scratch(directory: Path | None, asked_bytes: int | None, cache_bytes: int | None) -> tuple[Path, int]:
    """Refuses what `scratch_file` would refuse; nothing is made. Gives a name for the file, and its size."""
    home = directory or cache_home()
    outputs.check_folder(home)
    existing = nearest_folder(home)
    size, _ = plan_size(existing, asked_bytes, cache_bytes)
    path = _free_name(existing, f"scratch-{os.getpid()}")
    try:
        _core.could_make_target(str(path), size)
    except ValueError as error:
        raise BadInputError(one_line(error)) from error
    return path, size


def _free_name(home: Path, stem: str) -> Path:
    """`scratch-PID-1.brick`, `kept-1.brick`: a kept one has a name that no later run takes for a leftover."""
    return next(path for number in count(1) if not os.path.lexists(path := home / f"{stem}-{number}.brick"))


def _remove_leftovers(home: Path) -> list[str]:
    """Takes away scratch files of processes that were killed before they could, and tells which."""
    notes = []
    for path in sorted(home.glob("scratch-*.brick")):
        owner = path.stem.removeprefix("scratch-").partition("-")[0]
        if not owner.isdigit() or Path("/proc", owner).exists():
            continue
        size = _remove_abandoned(path)
        if size is not None:
            notes.append(f"removed {path} ({format_size(size)}), the scratch file of a run that was killed")
    return notes


def _remove_abandoned(path: Path) -> int | None:
    """Removes a file with our header that nobody has locked, and gives its size; None where it stays.

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
        return found.st_size if outputs.remove(path, handle) else None
    except OSError:
        return None
    finally:
        os.close(handle)

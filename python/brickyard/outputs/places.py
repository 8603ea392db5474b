"""Duty: which directory and name a path stands for, and whether a file of ours may be there.

Refusal: nothing is written or made.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from brickyard import _core
from brickyard.errors import BadInputError

ELSEWHERE = "name another place"
KINDS = {
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
}


@dataclass(frozen=True)
class Place:
    """A name in an open directory. `path` is as it was given, for messages."""

    path: Path
    directory: int
    name: str


def refuse(path: Path, why: str, remedy: str = ELSEWHERE) -> BadInputError:
    return BadInputError(f"{path}: {why}; {remedy}")


def cannot(path: Path, error: OSError) -> BadInputError:
    return refuse(path, f"cannot be written: {error.strerror}")


@contextmanager
def place_of(path: Path) -> Iterator[Place]:
    """The directory and the name that a path leads to through all links; refused where no file may be made."""
    _refuse_kind(path)
    if os.path.islink(path) and not os.path.exists(path):
        raise refuse(path, "is a symbolic link to nothing, so nobody named the file that would be made", "remove it")
    real = Path(os.path.realpath(path))
    if not real.name or str(path).endswith("/"):
        raise refuse(path, "names no file", "name a file")
    try:
        directory = os.open(real.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise refuse(path, "cannot be written: its directory does not exist", "make it first") from error
    except OSError as error:
        raise cannot(path, error) from error
    try:
        refuse_kernels(path, directory)
        yield Place(path, directory, real.name)
    finally:
        os.close(directory)


def refuse_kernels(path: Path, directory: int) -> None:
    if why := _core.kernels(directory):
        raise refuse(path, f"its directory {why}")


def refuse_unwritable(path: Path, directory: int) -> None:
    """Whether a name can be made in the directory; also root may not where a file system is read-only."""
    if not os.access(f"/proc/self/fd/{directory}", os.W_OK | os.X_OK):
        why = "is on a read-only file system" if _is_read_only(directory) else "its directory may not be written"
        raise refuse(path, why)


def _is_read_only(directory: int) -> bool:
    return bool(os.fstatvfs(directory).f_flag & os.ST_RDONLY)


def _refuse_kind(path: Path) -> None:
    """What exists and is no regular file, known before anything is opened."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot(path, error) from error
    if kind != stat.S_IFREG:
        raise refuse(path, f"is {KINDS.get(kind, 'no regular file')}, which is never written", "name a file")


def seen(place: Place) -> os.stat_result | None:
    """What bears the name, if it is a regular file; None where nothing does."""
    try:
        found = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise cannot(place.path, error) from error
    if not stat.S_ISREG(found.st_mode):
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "no regular file")
        raise refuse(place.path, f"is {kind}, which is never written", "name a file")
    return found


def opened(place: Place, flags: int) -> int | None:
    """A descriptor of the regular file that bears the name, or None; a link is not followed."""
    found = seen(place)
    if found is None:
        return None
    try:
        handle = os.open(
            place.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=place.directory
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise cannot(place.path, error) from error
    if not os.path.samestat(os.fstat(handle), found):
        os.close(handle)
        raise refuse(place.path, "was replaced while it was opened", "try again")
    return handle

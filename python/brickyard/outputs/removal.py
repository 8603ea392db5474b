"""Duty: take away exactly what we made. What has come to bear its name meanwhile is somebody's, and stays.

Refusal: nothing is removed by its name alone.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from brickyard import _core

_HEAD_BYTES = 4096
ASIDE_MOST = 100


def remove_name(directory: int, name: str, file: int) -> bool:
    """Removes a name of the file that the descriptor refers to; False where something else bears it."""
    aside = _core.set_aside(directory, name, file)
    if aside:
        os.unlink(aside, dir_fd=directory)
    return aside is not None


def remove(path: Path, file: int) -> bool:
    """The same by its path; True also where nothing bears the name."""
    directory = _parent(path)
    if directory is None:
        return True
    try:
        return remove_name(directory, path.name, file)
    finally:
        os.close(directory)


def set_aside(path: Path) -> Path:
    """Gives a damaged file another name beside its own, one that is free; raises OSError where there is none."""
    for number in range(1, ASIDE_MOST + 1):
        aside = path.with_name(f"{path.name}.damaged-{number}")
        try:
            os.link(path, aside, follow_symlinks=False)
        except FileExistsError:
            continue
        os.unlink(path)
        return aside
    raise OSError(errno.EEXIST, "too many damaged files beside it")


def remove_ours(path: Path, mark: re.Pattern[bytes]) -> bool:
    """Removes a regular file whose head carries the mark; False where it was left, being another's."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        with suppress(OSError):
            return mark.search(os.pread(file, _HEAD_BYTES, 0)) is not None and remove(path, file)
        return False
    finally:
        os.close(file)


def remove_file(path: Path) -> bool:
    """Removes the regular file that the path names when it is called; False where something else bears the name.
    For files in a folder that was empty before they were made."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        return remove(path, file)
    finally:
        os.close(file)


def held_folder(path: Path) -> int:
    """A descriptor of a folder that stands for it whatever becomes of its name. A link is not followed."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def remove_folder(path: Path, held: int, last: str | None = None) -> bool:
    """Empties the folder that the descriptor refers to, `last` after all else, then removes it if it has this name.

    What cannot be removed stays, and the folder with it.
    """
    names = sorted(os.listdir(held), key=lambda name: name == last)
    for name in names:
        with suppress(OSError):
            try:
                os.unlink(name, dir_fd=held)
            except IsADirectoryError:
                shutil.rmtree(name, dir_fd=held)
    directory = _parent(path)
    if directory is None:
        return True
    try:
        aside = _core.set_aside(directory, path.name, held)
        if aside:
            try:
                os.rmdir(aside, dir_fd=directory)
            except OSError:
                _core.give_name(directory, aside, path.name)
        return aside is not None
    finally:
        os.close(directory)


def _parent(path: Path) -> int | None:
    try:
        return os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None

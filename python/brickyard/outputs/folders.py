"""Duty: folders for what is written.

Refusal: none is made, or written into, among devices or in the kernel's file systems.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.outputs.places import cannot, refuse, refuse_kernels, refuse_unwritable
from brickyard.outputs.removal import held_folder, remove_folder

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def check_folder(path: Path) -> Path:
    """Refuses now what `folder` would refuse later; nothing is made."""
    with _nearest(path) as (directory, _):
        refuse_unwritable(path, directory)
    return path


def check_parent(path: Path) -> Path:
    """Refuses a name in a folder that does not exist, which is more often mistyped than meant."""
    if not path.absolute().parent.exists():
        raise refuse(path, "cannot be written: its directory does not exist", "make it first")
    return path


def may_hold_files(directory: Path) -> bool:
    """Whether files are made in this folder: it is neither among devices nor in a file system of the kernel."""
    handle = os.open(directory, _DIRECTORY)
    try:
        return not _core.kernels(handle)
    finally:
        os.close(handle)


def folder(path: Path) -> Path:
    """A folder that is there, or is made with all above it."""
    with _nearest(path) as (nearest, missing):
        directory = os.dup(nearest)
    try:
        for name in missing:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=directory)
            below = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = below
            refuse_kernels(path, directory)
    except OSError as error:
        raise cannot(path, error) from error
    finally:
        os.close(directory)
    return path


@contextmanager
def _nearest(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The innermost folder of a path that is there, and the names that are missing below it."""
    for part in (path, *path.parents):
        if os.path.islink(part) and not os.path.exists(part):
            reason = "is a symbolic link to nothing, so nobody named the folder that would be made"
            raise refuse(part, reason, "remove it")
    real = Path(os.path.realpath(path))
    missing: list[str] = []
    while not real.exists() and real.name:
        missing.insert(0, real.name)
        real = real.parent
    try:
        directory = os.open(real, _DIRECTORY)
    except NotADirectoryError as error:
        raise refuse(path, f"{real} is no directory" if missing else "is no directory", "name a folder") from error
    except OSError as error:
        raise cannot(path, error) from error
    try:
        refuse_kernels(path, directory)
        yield directory, missing
    finally:
        os.close(directory)


def fresh_folder(prefix: str, home: Path) -> Path:
    """A new folder with a name of its own, which only this account may enter."""
    path = home / f"{prefix}{secrets.token_hex(6)}"
    directory = os.open(home, _DIRECTORY)
    try:
        refuse_kernels(home, directory)
        os.mkdir(path.name, 0o700, dir_fd=directory)
    finally:
        os.close(directory)
    return path


@contextmanager
def temporary_folder(prefix: str, above: Path | None = None) -> Iterator[Path]:
    """A folder for as long as a context lasts, where the system keeps temporary files unless another is named."""
    path = fresh_folder(prefix, above or Path(tempfile.gettempdir()))
    held = held_folder(path)
    try:
        yield path
    finally:
        remove_folder(path, held)
        os.close(held)


def remove_empty(path: Path) -> None:
    """Takes a folder away if nothing is in it."""
    with suppress(OSError):
        os.rmdir(path)


def rename_folder(path: Path, name: str) -> Path:
    """Another name beside the old one, if it is free."""
    held, directory = held_folder(path), os.open(path.parent, _DIRECTORY)
    try:
        aside = _core.set_aside(directory, path.name, held)
        if not aside:
            raise BadInputError(f"{path}: was replaced meanwhile; try again")
        try:
            _core.give_name(directory, aside, name)
        except OSError:
            _core.give_name(directory, aside, path.name)
            raise
    finally:
        os.close(held)
        os.close(directory)
    return path.with_name(name)


def copy_tree(source: Path, target: Path) -> None:
    """A copy with its links, in a folder of ours."""
    shutil.copytree(source, target, symlinks=True)

"""Duty: files that are made whole, and files of ours that are added to.

Refusal: a file without our mark is neither replaced nor added to, be it empty.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.outputs.folders import check_folder
from brickyard.outputs.places import Place, opened, place_of, refuse, refuse_unwritable, seen
from brickyard.outputs.removal import remove_name
from brickyard.outputs.streams import stream_of

HEAD_BYTES = 4096  # of a page, its generator stands in there; of a log, the software that wrote it
PAGE_MARK = re.compile(rb'name="generator" content="Brickyard')

Mark = re.Pattern[bytes]
"""What the head of a file of ours holds."""


def check_file(path: Path, mark: Mark | None = None, *, stream: bool = False) -> Path:
    """Refuses now what `whole_file` would refuse later; nothing is made. `mark` None takes only a name that is free."""
    if stream and (handle := stream_of(path)) is not None:
        os.close(handle)
        return path
    with place_of(path) as place:
        handle = _of_ours(place, mark, os.O_RDONLY)
        if handle is not None:
            os.close(handle)
        refuse_unwritable(path, place.directory)
    return path


def _of_ours(place: Place, mark: Mark | None, flags: int) -> int | None:
    """A descriptor of the file that is there, if it carries the mark; None where nothing bears the name."""
    handle = opened(place, flags)
    if handle is None:
        return None
    try:
        if mark is None or mark.search(os.pread(handle, HEAD_BYTES, 0)) is None:
            raise BadInputError(f"{place.path}: exists and would be lost; remove it or name another place")
    except BaseException:
        os.close(handle)
        raise
    return handle


def check_place(path: Path) -> Path:
    """Refuses what can be no file of ours, whatever is in it; of what is missing, its folder may be missing too."""
    if os.path.lexists(path) or path.parent.is_dir():
        with place_of(path) as place:
            if seen(place) is None:
                refuse_unwritable(path, place.directory)
    else:
        check_folder(path.parent)
    return path


@contextmanager
def whole_file(
    path: Path, mark: Mark | None = None, *, stream: bool = False, durable: bool = False, mode: int = 0o666
) -> Iterator[BinaryIO]:
    """A file without this name, which takes it at the end; where that fails, it is removed.

    With `stream`, `/dev/stdout` and its like are written to as they are, if they are a pipe or a terminal. With
    `durable`, the file and its name are on the medium when this ends.
    """
    if stream and (handle := stream_of(path)) is not None:
        with os.fdopen(handle, "wb") as file:
            yield file
        return
    with place_of(path) as place:
        replaced = _of_ours(place, mark, os.O_RDONLY)
        try:
            with part_of(place, mode) as (part, file):
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                _core.give_name(place.directory, part, place.name, replaced)
                if durable:
                    sync_directory(place.directory)
        except FileExistsError as error:
            raise refuse(path, "was made by somebody else meanwhile") from error
        finally:
            if replaced is not None:
                os.close(replaced)


@contextmanager
def part_of(place: Place, mode: int = 0o666) -> Iterator[tuple[str, BinaryIO]]:
    """A file of a name of its own, which is removed if it did not get another."""
    part = f".{place.name[:200]}.{secrets.token_hex(6)}.part"
    handle = os.open(part, _NEW | os.O_WRONLY, mode, dir_fd=place.directory)
    with os.fdopen(handle, "wb") as file:
        try:
            yield part, file
        except BaseException:
            remove_name(place.directory, part, file.fileno())
            raise


_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_whole(
    path: Path,
    content: bytes | str,
    mark: Mark | None = None,
    *,
    stream: bool = False,
    durable: bool = False,
    mode: int = 0o666,
) -> None:
    with whole_file(path, mark, stream=stream, durable=durable, mode=mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def open_journal(path: Path, mark: Mark, head: bytes) -> int:
    """A descriptor to read and write a file that is only added to; a new one begins with `head`, whole at once."""
    with place_of(path) as place:
        while True:
            handle = _of_ours(place, mark, os.O_RDWR)
            if handle is not None:
                return handle
            try:
                _make(place, head)
            except FileExistsError:
                continue  # another process was faster; its file is looked at like any other


def append_to(path: Path, content: bytes, mark: Mark) -> None:
    """Adds to a file of ours, or makes it; on the medium when this returns."""
    with place_of(path) as place:
        handle = _of_ours(place, mark, os.O_RDWR)
        if handle is None:
            _make(place, content)
            return
    with os.fdopen(handle, "r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _make(place: Place, content: bytes) -> None:
    """A file under a name that must be free, on the medium with it."""
    with part_of(place) as (part, file):
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        _core.give_name(place.directory, part, place.name)
    sync_directory(place.directory)


def fresh_file(home: Path, prefix: str, suffix: str, content: bytes) -> Path:
    """A new file with a name of its own in a directory, on the medium with its name."""
    path = home / f"{prefix}{secrets.token_hex(6)}{suffix}"
    with place_of(path) as place:
        _make(place, content)
    return path


def sync_directory(directory: int) -> None:
    """A name is durable only with its directory; a descriptor that only holds a place cannot be flushed."""
    handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

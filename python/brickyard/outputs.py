"""Duty: see that what is about to be written replaces no file that is not ours.

What is written takes its name when it is whole, so that a full disk leaves nothing that looks finished.

Refusal: scratch files and targets have a guard of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from brickyard.errors import BadInputError

HEAD_BYTES = 4096  # of a page, its generator stands in there; of a log, the software that wrote it
PAGE_MARK = b'name="generator" content="Brickyard'


def new_file(path: Path, mark: bytes | None = None) -> Path:
    """The path, if there is nothing in the way: no file, an empty one, or one that carries `mark`."""
    if not path.is_file() or not path.stat().st_size:
        return path
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if mark is None or mark not in head:
        raise BadInputError(f"{path}: exists and would be lost; remove it or name another place")
    return path


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file beside `path` that becomes it at the end; where that fails, it is removed."""
    if path.exists() and not path.is_file():  # a pipe or /dev/stdout is no file to be replaced
        with path.open("wb") as there:
            yield there
        return
    path = path.resolve()  # what a link points to is replaced, not the link
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes | str) -> None:
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def new_page(page: Path, *beside: Path) -> Path:
    """The same of a report's page and of what is written beside it: with a page of ours, they are ours too."""
    if page.is_file() and page.stat().st_size:
        return new_file(page, PAGE_MARK)
    for path in beside:
        new_file(path)
    return page

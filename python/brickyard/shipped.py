"""Duty: find a text or a table that ships with Brickyard by its name, or a file of the same kind by its path.

Refusal: no parsing but of columns; what a text may say is known to the room that asks for it.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from brickyard.errors import BadInputError

ENDING = ".toml"


@dataclass(frozen=True)
class Text:
    name: str
    text: str
    place: str


def names(home: Traversable) -> list[str]:
    """Of the texts in a folder that ships."""
    return sorted(item.name.removesuffix(ENDING) for item in home.iterdir() if item.name.endswith(ENDING))


def folder(package: str) -> Traversable:
    return resources.files(package)


def read(kind: str, package: str, word: str) -> Text | None:
    """A shipped text by its name, or any file by its path; None for a word that is neither."""
    found = folder(package) / f"{word}{ENDING}"
    if "/" not in word and found.is_file():
        return Text(word, found.read_text("utf-8"), str(found))
    path = Path(word)
    if "/" in word or path.suffix == ENDING:
        return Text(path.stem, text_of(f"{word}: {kind}", path), str(path))
    return None


def rows(package: str, name: str) -> list[dict[str, str]]:
    """Of a published table that ships as CSV, by the headings of its columns."""
    return list(csv.DictReader((folder(package) / f"{name}.csv").read_text("utf-8").splitlines()))


def text_of(what: str, path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise BadInputError(f"{what} cannot be read: {reason}") from error

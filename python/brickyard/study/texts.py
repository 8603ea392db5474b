"""Duty: find a study by name or path and give its text. Refusal: no parsing; `brickyard.study.design` does that."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from brickyard.errors import BadInputError


@dataclass(frozen=True)
class StudyText:
    name: str
    text: str
    place: str


def names() -> list[str]:
    """The studies that ship with Brickyard as files."""
    here = resources.files("brickyard.studies")
    return sorted(item.name.removesuffix(".toml") for item in here.iterdir() if item.name.endswith(".toml"))


def read(name_or_path: str, also: tuple[str, ...] = ()) -> StudyText:
    """A shipped study by its name, or any file by its path. `also` are names that others answer to."""
    shipped = resources.files("brickyard.studies") / f"{name_or_path}.toml"
    if "/" not in name_or_path and shipped.is_file():
        return StudyText(name_or_path, shipped.read_text("utf-8"), f"{name_or_path}.toml")
    path = Path(name_or_path)
    if "/" in name_or_path or path.suffix == ".toml":
        try:
            return StudyText(path.stem, path.read_text("utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise BadInputError(f"{name_or_path}: study cannot be read: {reason}") from error
    near = difflib.get_close_matches(name_or_path, [*names(), *also], n=1)
    hint = f"; did you mean {near[0]}?" if near else "; `brickyard study` lists them"
    raise BadInputError(f"{name_or_path}: no such study, and a path needs a slash or the ending .toml{hint}")

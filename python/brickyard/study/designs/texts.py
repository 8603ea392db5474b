"""Duty: find a study by name or path and give its text. Refusal: no parsing; `study.designs.design` does that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from brickyard import shipped
from brickyard.errors import BadInputError, nearest

STUDIES = "brickyard.studies"


@dataclass(frozen=True)
class StudyText:
    name: str
    text: str
    place: str
    folder: Path | None = None
    """Of a file; none where the study ships with Brickyard."""


def names() -> list[str]:
    """The studies that ship with Brickyard as files."""
    return shipped.names(shipped.folder(STUDIES))


def read(name_or_path: str, also: tuple[str, ...] = ()) -> StudyText:
    """A shipped study by its name, or any file by its path. `also` are names that others answer to."""
    found = shipped.read("study", STUDIES, name_or_path)
    if found is None:
        remedy = nearest(name_or_path, [*names(), *also], "`brickyard study` lists them")
        raise BadInputError(f"{name_or_path}: no such study, and a path needs a slash or the ending .toml", remedy)
    is_shipped = name_or_path == found.name
    if is_shipped:
        return StudyText(found.name, found.text, f"{found.name}{shipped.ENDING}")
    return StudyText(found.name, found.text, found.place, Path(found.place).parent)

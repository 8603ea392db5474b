"""Duty: where the page of a report, its pictures and the files beside it are. Refusal: nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from brickyard.outputs.files import PAGE_MARK, check_file
from brickyard.outputs.folders import check_folder
from brickyard.outputs.places import refuse


@dataclass(frozen=True)
class ReportPlace:
    """`stem` begins the names of what is beside a page that has a name of its own."""

    page: Path
    pictures: Path
    stem: str = ""

    def beside(self, name: str) -> Path:
        return self.page.parent / f"{self.stem}{name}"


def report_place(place: Path) -> ReportPlace:
    """A folder with `report.html` in it; a place that ends in .html is the page itself."""
    if place.suffix.lower() in (".html", ".htm") and not place.is_dir():
        stem = f"{place.stem}-"
        return ReportPlace(place, place.parent / f"{stem}pictures", stem)
    return ReportPlace(place / "report.html", place / "pictures")


def _is_of_others(place: Path, page: Path) -> bool:
    """Whether a folder has files already, and no page among them; whose that is, its mark says."""
    try:
        return not page.exists() and any(place.iterdir())
    except OSError:
        return False  # what is not there is made, and what cannot be read is refused by what it is


def check_report(place: Path) -> Path:
    """Refuses now what the writing of a report would refuse later; nothing is made."""
    found = report_place(place)
    if not found.stem and _is_of_others(place, found.page):
        raise refuse(
            place,
            "is not empty and has no report of Brickyard",
            "name a new folder, or the page itself, such as runs.html",
        )
    if found.stem:
        check_folder(found.page.parent)
    else:
        check_folder(place)
    if found.page.parent.is_dir():
        check_file(found.page, PAGE_MARK)
        check_folder(found.pictures)
    return place

"""Duty: a page, its pictures and what is beside it → files. Refusal: what is in them is decided by the callers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from brickyard.errors import BadInputError, one_line
from brickyard.outputs import PAGE_MARK, ReportPlace, check_file, check_report, folder, write_whole
from brickyard.printable import printable
from brickyard.report.picture import Picture, room_for


@dataclass(frozen=True)
class Beside:
    """A file beside a page. With a page of ours, one that begins with `mark` is ours too."""

    name: str
    text: str
    mark: re.Pattern[bytes]


OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def whole_options(text: str) -> Markup:
    """A sentence whose options are not broken at their hyphens, which they would be at the end of a line."""
    return Markup(OPTION.sub(r'<span class="option">\g<0></span>', str(escape(printable(text, lines=True)))))  # noqa: S704


def templates() -> Environment:
    """What is put into a page is escaped, and controls in it are made visible."""
    made = Environment(
        loader=PackageLoader("brickyard.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value, lines=True) if type(value) is str else value,
    )
    made.filters["whole_options"] = whole_options
    return made


def write_page(place: ReportPlace, html: str, pictures: Iterable[Picture], beside: Iterable[Beside] = ()) -> Path:
    """Everything is checked before the first file is written. Gives the page's absolute path."""
    drawn, others = list(pictures), list(beside)
    is_ours = place.page.exists()
    check_report(place.page if place.stem else place.page.parent)
    try:
        folder(place.pictures if drawn else place.page.parent)
        for other in others:
            check_file(place.beside(other.name), other.mark if is_ours else None)
        for picture in drawn:
            room_for(place.pictures, picture.name)
        for picture in drawn:
            picture.write(place.pictures)
        for other in others:
            write_whole(place.beside(other.name), other.text, other.mark if is_ours else None)
        write_whole(place.page, html, PAGE_MARK)
    except OSError as error:
        raise BadInputError(f"{place.page}: report cannot be written: {one_line(error.strerror)}") from error
    return place.page.resolve()

"""Duty: a finished picture, its place in a page and its files. Refusal: it draws none, so that a verb that may draw
need not load what draws."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from brickyard.outputs import check_file, write_whole

PNG_SCALE = 2.0  # twice the nominal size stays sharp on paper and on phones
MARK = "<!-- drawn by Brickyard -->\n"
SVG_MARK = re.compile(re.escape(MARK.strip().encode()))
PNG_MARK = re.compile(rb"\A\x89PNG\r\n\x1a\n")


def room_for(directory: Path, name: str) -> re.Pattern[bytes] | None:
    """Refuses a picture that would take the place of somebody's file. The SVG carries a mark; the PNG goes with it.

    Gives what a PNG that may be replaced looks like, if one may be.
    """
    svg, png = directory / f"{name}.svg", directory / f"{name}.png"
    check_file(svg, SVG_MARK)
    goes_with = PNG_MARK if svg.exists() else None
    check_file(png, goes_with)
    return goes_with


def is_picture(place: Path) -> bool:
    """Whether a name to be written is that of a picture: both its files are then written under it."""
    return place.suffix.lower() in (".svg", ".png")


@dataclass(frozen=True)
class Picture:
    """A finished picture with the sentence that says what it shows."""

    name: str
    alt_text: str
    svg: str

    def write(self, directory: Path) -> None:
        """As SVG and PNG; files of these names that are not pictures of ours are refused."""
        import vl_convert

        png_mark = room_for(directory, self.name)
        write_whole(directory / f"{self.name}.svg", MARK + self.svg, SVG_MARK)
        write_whole(directory / f"{self.name}.png", vl_convert.svg_to_png(self.svg, scale=PNG_SCALE), png_mark)

    def paths(self, directory: Path) -> tuple[str, str]:
        """Where `write` puts it."""
        return str(directory / f"{self.name}.png"), str(directory / f"{self.name}.svg")

    def inline(self) -> str:
        """The picture for a place inside HTML: it takes the width that is there, and shares no id with another."""
        body = re.sub(r"<\?xml[^>]*\?>|<!DOCTYPE[^>]*>", "", self.svg)
        head, rest = re.search(r"<svg\b[^>]*>", body), body
        if head is None:
            return ""
        box = re.search(r'viewBox="[^"]*"', head[0])
        width = re.search(r'\bwidth="([\d.]+)', head[0])
        limit = f"max-width:{float(width[1]) * 1.5:.0f}px" if width else ""
        tag = f'<svg {box[0] if box else ""} role="img" aria-label="{_escaped(self.alt_text)}" style="{limit}">'
        rest = body[: head.start()] + tag + body[head.end() :]
        rest = re.sub(r'\bid="([^"]+)"', rf'id="{self.name}-\1"', rest)
        rest = re.sub(r"url\(#([^)]+)\)", rf"url(#{self.name}-\1)", rest)
        rest = re.sub(r'href="#([^"]+)"', rf'href="#{self.name}-\1"', rest)
        return re.sub(r'\s(?:xmlns(?::\w+)?)="[^"]*"', "", rest)


Pair = tuple[Picture, Picture]
"""A picture for a desk, and the same for a phone."""


def pair(drawn: Callable[[int, str], Picture | None], widths: tuple[int, int]) -> list[Pair]:
    """What is drawn by width and suffix of the name, in both widths; none where there is nothing to draw."""
    wide, narrow = drawn(widths[0], ""), drawn(widths[1], "-narrow")
    return [(wide, narrow)] if wide and narrow else []


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")

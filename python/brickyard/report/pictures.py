"""Duty: charts → SVG and PNG, offline. Refusal: a chart that asks for anything over the network is not drawn."""

from __future__ import annotations

import os
import re
import resource
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import msgspec
import vl_convert

from brickyard.errors import BrickyardError
from brickyard.outputs import check_file, write_whole
from brickyard.printable import printable
from brickyard.report.theme import PALE, dressed
from brickyard.schema import Document

PNG_SCALE = 2.0  # twice the nominal size stays sharp on paper and on phones
DESCRIPTORS_MIN = 24  # a report failed where 20 files could be open in all, and was drawn where 24 could
VEGALITE_VERSION = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])


LETTER = 6.6  # pixels of a letter of a note
DEFAULT_WIDTH, LEAST_LETTERS = 380, 30
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


@dataclass(frozen=True)
class Picture:
    """A finished picture with the sentence that says what it shows."""

    name: str
    alt_text: str
    svg: str

    def write(self, directory: Path) -> None:
        """As SVG and PNG; files of these names that are not pictures of ours are refused."""
        png_mark = room_for(directory, self.name)
        write_whole(directory / f"{self.name}.svg", MARK + self.svg, SVG_MARK)
        write_whole(directory / f"{self.name}.png", vl_convert.svg_to_png(self.svg, scale=PNG_SCALE), png_mark)

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


def inlined(rows: Iterable[msgspec.Struct]) -> alt.InlineData:
    """The rows of a chart, as they are drawn from."""
    return alt.InlineData(values=[msgspec.structs.asdict(row) for row in rows])


def _subtitled(drawn: Document, lines: list[str]) -> None:
    title = drawn.get("title")
    if title is None:
        drawn["title"] = {"text": lines, "fontSize": 12, "fontWeight": "normal", "color": PALE}
        return
    drawn["title"] = {**(title if isinstance(title, dict) else {"text": title}), "subtitle": lines}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def _printable(part: Any) -> Any:
    """A control in a text would make the SVG unreadable."""
    if isinstance(part, dict):
        return {key: _printable(value) for key, value in part.items()}
    if isinstance(part, list):
        return [_printable(value) for value in part]
    return printable(part, lines=True) if isinstance(part, str) else part


def refuse_few_descriptors() -> None:
    """The library that draws stops the process where it can open no more files."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    opened = len(os.listdir("/proc/self/fd"))
    if limit != resource.RLIM_INFINITY and limit - opened < DESCRIPTORS_MIN:
        raise BrickyardError(
            f"pictures need {DESCRIPTORS_MIN} more open files, and {max(0, limit - opened)} are left of {limit};"
            " raise the limit, such as with `ulimit -n 1024`"
        )


def draw(name: str, alt_text: str, chart: Any, *, width: int | None = None, note: str = "") -> Picture:
    """`note` says below the title what the figures depend on; it is broken where the picture is narrow."""
    refuse_few_descriptors()
    dressed_chart = _printable(dressed(chart, width=width).to_dict())
    if note:
        letters = max(int((width or DEFAULT_WIDTH) / LETTER), LEAST_LETTERS)
        _subtitled(dressed_chart, textwrap.wrap(note, letters))
        alt_text = f"{alt_text}; {note}"
    svg = vl_convert.vegalite_to_svg(dressed_chart, VEGALITE_VERSION, allowed_base_urls=[])
    return Picture(name, alt_text, svg)

"""Duty: charts → SVG and PNG, offline. Refusal: a chart that asks for anything over the network is not drawn."""

from __future__ import annotations

import os
import resource
import textwrap
from collections.abc import Iterable
from typing import Any

import altair as alt
import msgspec
import vl_convert
from altair.utils.schemapi import debug_mode

from brickyard.errors import BrickyardError
from brickyard.printable import printable
from brickyard.report.picture import Picture
from brickyard.report.theme import PALE, dressed
from brickyard.schema import Document

DESCRIPTORS_MIN = 24  # a report failed where 20 files could be open in all, and was drawn where 24 could
VEGALITE_VERSION = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])


LETTER = 6.6  # pixels of a letter of a note
DEFAULT_WIDTH, LEAST_LETTERS = 380, 30


def inlined(rows: Iterable[msgspec.Struct]) -> alt.InlineData:
    """The rows of a chart, as they are drawn from. They are not checked one by one, which took a third of a report."""
    with debug_mode(False):
        return alt.InlineData(values=[msgspec.structs.asdict(row) for row in rows])


def _subtitled(drawn: Document, lines: list[str]) -> None:
    title = drawn.get("title")
    if title is None:
        drawn["title"] = {"text": lines, "fontSize": 12, "fontWeight": "normal", "color": PALE}
        return
    drawn["title"] = {**(title if isinstance(title, dict) else {"text": title}), "subtitle": lines}


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
    dressed_chart = _printable(dressed(chart, width=width).to_dict(validate=False))
    if note:
        letters = max(int((width or DEFAULT_WIDTH) / LETTER), LEAST_LETTERS)
        _subtitled(dressed_chart, textwrap.wrap(note, letters, break_on_hyphens=False))
        alt_text = f"{alt_text}; {note}"
    svg = vl_convert.vegalite_to_svg(dressed_chart, VEGALITE_VERSION, allowed_base_urls=[])
    return Picture(name, alt_text, svg)

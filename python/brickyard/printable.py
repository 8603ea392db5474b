"""Duty: text that came from outside, such as file names, URLs, labels, and what other tools say, made harmless to show.

A terminal obeys escape sequences, a reader is misled by marks that turn the direction of writing, and a spreadsheet
computes what begins like a formula. Refusal: nothing is left out: what cannot be shown has a visible sign.
"""

from __future__ import annotations

import re

_PICTURES = 0x2400  # Unicode's signs for the controls below 32; the one for DEL follows them
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
# Directional marks (UAX #9), separators that some terminals take for line ends, and bytes that were no text.
_MISLEADING = re.compile("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c\u2028\u2029\ufeff\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f]")
_LINE_CONTROL = re.compile("[\x00-\x08\x0b-\x1f]")
_FORMULA = re.compile(r"[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+-]?(\d[\d,]*(\.\d*)?|\.\d+)([eE][+-]?\d+)?( ?%)?")


def printable(text: str, *, lines: bool = False) -> str:
    """The text with a sign for every control; with `lines`, line ends and tabs stay."""
    shown = (_LINE_CONTROL if lines else _CONTROL).sub(lambda found: chr(_PICTURES + ord(found[0])), text)
    return _MISLEADING.sub(lambda found: "\N{SYMBOL FOR DELETE}" if found[0] == "\x7f" else _UNKNOWN, shown)


def json_text(text: str) -> str:
    """A JSON document with the same value and no control in it; JSON itself escapes only those below 32."""
    return _MISLEADING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def csv_cell(value: object) -> object:
    """What a spreadsheet takes for text: one that begins like a formula gets an apostrophe; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    shown = printable(value)
    return f"'{shown}" if _FORMULA.match(value) and not _NUMBER.fullmatch(value) else shown

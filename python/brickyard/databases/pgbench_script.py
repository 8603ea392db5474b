"""Duty: what a script of one's own says, for the record of a run: a hash of its content, and its text.

Refusal: a password is never part of what is kept.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from brickyard.errors import BadInputError

HIDDEN = "…"
KEPT_BYTES = 64 << 10
"""Scripts are shorter; of a longer one, the hash tells the rest."""
SECRET = re.compile(
    r"""(?ix) (?P<before> (?:password|passwd|pwd|secret|passphrase) ["']? \s* (?:=|:=|=>|,|\bto\b)? \s* )
    (?: E?'(?:[^'\\]|''|\\.)*' | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ | (?<==)(?![:$'"\s])[^\s;,'"()]+ )""",
    re.DOTALL,
)
"""A literal behind such a word, and `password=word` of a connection string; a variable is no secret."""
OF_URI = re.compile(r"(?P<before>://[^\s:/@'\"]*:)[^\s@'\"]*(?=@)")


def script_hash(place: str) -> str:
    return hashlib.sha256(_content(place)).hexdigest()


def read_script(place: str) -> tuple[str, str]:
    """The hash of its content, and its text as a record keeps it."""
    content = _content(place)
    text = content[:KEPT_BYTES].decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    text = without_passwords(text) + (f"\n{HIDDEN}" if len(content) > KEPT_BYTES else "")
    return hashlib.sha256(content).hexdigest(), text


def without_passwords(text: str) -> str:
    for pattern in (SECRET, OF_URI):
        text = pattern.sub(lambda found: f"{found[1]}{HIDDEN}", text)
    return text


def _content(place: str) -> bytes:
    try:
        return Path(place).read_bytes()
    except OSError as error:
        raise BadInputError(f"--set script={place}: {error.strerror}; check the path") from error

"""Duty: what a script of one's own says, for the record of a run: a hash of its content, and its text.

Refusal: no string literal and no comment is kept, as either may hold a password.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from brickyard.errors import BadInputError

HIDDEN = "…"
KEPT_BYTES = 64 << 10
"""Scripts are shorter; of a longer one, the hash tells the rest."""
LITERALS = re.compile(
    r"""(?isx) (?P<kept> "(?:[^"]|"")*" | 'synchronous_commit' )
    | --[^\n]* | /\*.*?(?:\*/|\Z)
    | \bE'(?:[^'\\]|''|\\.)*(?:'|\Z) | '(?:[^']|'')*(?:'|\Z) | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)"""
)
"""String literals and comments, which may hold secrets of any kind; quoted names are none, nor is the setting on which
durability depends (`set_config('synchronous_commit', …)`)."""
OF_COMMANDS = re.compile(
    r"(?i)(password|passwd|pwd|secret|passphrase)\s*=\s*(?!:)[^\s;,()]+|(://[^\s:/@]*):[^\s@]*(?=@)"
)
"""What a shell command of a script may hold."""


def script_hash(place: str) -> str:
    return hashlib.sha256(_content(place)).hexdigest()


def read_script(place: str) -> tuple[str, str]:
    """The hash of its content, and its text as a record keeps it."""
    content = _content(place)
    text = content[:KEPT_BYTES].decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    text = without_passwords(text) + (f"\n{HIDDEN}" if len(content) > KEPT_BYTES else "")
    return hashlib.sha256(content).hexdigest(), text


def without_passwords(text: str) -> str:
    shown = LITERALS.sub(lambda found: found.group("kept") or HIDDEN, text)
    return OF_COMMANDS.sub(lambda found: f"{found[1]}={HIDDEN}" if found[1] else f"{found[2]}:{HIDDEN}", shown)


def _content(place: str) -> bytes:
    try:
        return Path(place).read_bytes()
    except OSError as error:
        raise BadInputError(f"--set script={place}: {error.strerror}; check the path") from error

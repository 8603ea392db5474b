"""Duty: where the store is unless another is named, and commands that read the store which they are about.

Refusal: nothing is opened or made here.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

IN_MEMORY = ":memory:"


def default_place() -> Path:
    """`$XDG_DATA_HOME/brickyard/runs.db`, after the XDG Base Directory Specification."""
    data = os.getenv("XDG_DATA_HOME", "")
    base = Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
    return base / "brickyard" / "runs.db"


def command_on(place: Path | str, words: str) -> str:
    """A command in backticks, to be pasted: with the store at `place` where that is not the one taken anyway."""
    is_taken_anyway = str(place) == IN_MEMORY or Path(place) == default_place()
    other = "" if is_taken_anyway else f" --store {shlex.quote(str(place))}"
    return f"`brickyard {words}{other}`"

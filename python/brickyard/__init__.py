"""Brickyard puts a known load on a brick of storage and keeps what happened to every request.

The functions for programs are those of `brickyard.api`, and `Store`.

Refusal: nothing is imported before it is asked for, so that `import brickyard` costs nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # that of `typing` would cost its import before anything of ours could heed Ctrl-C
if TYPE_CHECKING:
    from typing import Any

    from brickyard.analysis.judging.gate import Compared
    from brickyard.api import (
        Load,
        Measured,
        Replayed,
        Studied,
        Table,
        characterize,
        check,
        check_replay,
        compare,
        draw,
        measured,
        profile,
        replay,
        run,
        run_study,
        table,
        web_log,
    )
    from brickyard.store import Store

_HOMES = {
    **dict.fromkeys(
        (
            "Load",
            "Measured",
            "Replayed",
            "Studied",
            "Table",
            "characterize",
            "check",
            "check_replay",
            "compare",
            "draw",
            "measured",
            "profile",
            "replay",
            "run",
            "run_study",
            "table",
            "web_log",
        ),
        "brickyard.api",
    ),
    "Compared": "brickyard.analysis.judging.gate",
    "Store": "brickyard.store",
}

__all__ = [
    "Compared",
    "Load",
    "Measured",
    "Replayed",
    "Store",
    "Studied",
    "Table",
    "characterize",
    "check",
    "check_replay",
    "compare",
    "draw",
    "measured",
    "profile",
    "replay",
    "run",
    "run_study",
    "table",
    "web_log",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'brickyard' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

"""Brickyard puts a known load on a brick of storage and keeps what happened to every request.

The functions for programs are those of `brickyard.api`, and `Store`.

Refusal: nothing is imported before it is asked for, so that `import brickyard` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brickyard.api import (
        Compared,
        Load,
        Measured,
        Studied,
        Table,
        characterize,
        check,
        compare,
        draw,
        measured,
        profile,
        run,
        run_study,
        table,
    )
    from brickyard.store import Store

_HOMES = {
    **dict.fromkeys(
        (
            "Compared",
            "Load",
            "Measured",
            "Studied",
            "Table",
            "characterize",
            "check",
            "compare",
            "draw",
            "measured",
            "profile",
            "run",
            "run_study",
            "table",
        ),
        "brickyard.api",
    ),
    "Store": "brickyard.store",
}

__all__ = [
    "Compared",
    "Load",
    "Measured",
    "Store",
    "Studied",
    "Table",
    "characterize",
    "check",
    "compare",
    "draw",
    "measured",
    "profile",
    "run",
    "run_study",
    "table",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'brickyard' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

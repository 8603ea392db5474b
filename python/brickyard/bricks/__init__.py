"""Duty: find the descriptions of modelled bricks that ship with Brickyard and give their texts.

Refusal: no parsing. What a brick may say is known to `crates/sim` alone.
"""

from __future__ import annotations

import json
from importlib import resources

from brickyard.errors import BadInputError, one_line
from brickyard.store import Json

KINDS = ("arrays", "controllers", "drives")
MODELLED = "sim:"


def is_modelled(target: str) -> bool:
    return target.startswith(MODELLED)


def texts() -> dict[str, str]:
    """Every brick file's text, by `KIND/NAME`."""
    home = resources.files(__name__)
    return {
        f"{kind}/{item.name.removesuffix('.toml')}": item.read_text("utf-8")
        for kind in KINDS
        for item in sorted((home / kind).iterdir(), key=lambda item: item.name)
        if item.name.endswith(".toml")
    }


def override_keys() -> list[str]:
    """What `--set` may change of a brick."""
    from brickyard import _core

    return _core.brick_keys()


def resolve(target: str, overrides: list[str]) -> Json:
    """What a brick comes to: its parameters, its capacity, and the texts it is made of."""
    from brickyard import _core

    try:
        resolved: Json = json.loads(_core.brick(target.removeprefix(MODELLED), texts(), overrides))
    except ValueError as error:
        raise BadInputError(one_line(error)) from error
    return resolved

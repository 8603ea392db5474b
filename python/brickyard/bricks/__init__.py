"""Duty: find the descriptions of modelled bricks, shipped and the user's own, and give their texts.

Refusal: no parsing. What a brick may say is known to `crates/sim` alone.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path

from brickyard.errors import BadInputError, one_line
from brickyard.store import Json, default_place

KINDS = ("arrays", "controllers", "drives")
MODELLED = "sim:"


def is_modelled(target: str) -> bool:
    return target.startswith(MODELLED)


def own_directory() -> Path:
    """Where bricks of the user's own are found by name, beside the default store."""
    return default_place().parent / "bricks"


def texts() -> dict[str, str]:
    """Every brick file's text, by `KIND/NAME`; the user's own by `files/NAME`."""
    own = own_directory()
    files = sorted(own.glob("*.toml")) if own.is_dir() else []
    return {**_shipped(), **{f"files/{path.stem}": _read(path) for path in files}}


def texts_for(spoken: str) -> dict[str, str]:
    """The texts for `NAME,key=value`, where NAME may also be the path of a file: `./disk.toml`."""
    name = spoken.removeprefix(MODELLED).split(",", 1)[0].strip()
    if name.endswith(".toml"):
        return {**texts(), f"files/{name}": _read(Path(name).expanduser())}
    return texts()


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise BadInputError(f"{path}: the brick file cannot be read: {reason}") from error


@cache
def _shipped() -> dict[str, str]:
    home = resources.files(__name__)
    return {
        f"{kind}/{item.name.removesuffix('.toml')}": item.read_text("utf-8")
        for kind in KINDS
        for item in sorted((home / kind).iterdir(), key=lambda item: item.name)
        if item.name.endswith(".toml")
    }


def override_keys() -> tuple[list[str], list[str]]:
    """What `--set` may change of a brick, and the parts of one whose own keys it may: `drive.rpm=10000`."""
    from brickyard import _core

    return _core.brick_keys()


def is_override(change: str) -> bool:
    """Whether `KEY=VALUE` changes a brick, and not the profile."""
    keys, parts = override_keys()
    key = change.split("=", 1)[0].strip()
    return key in keys or ("." in key and key.split(".", 1)[0] in parts)


def resolve(target: str, overrides: list[str]) -> Json:
    """What a brick comes to: its parameters, its capacity, and the texts it is made of."""
    from brickyard import _core

    try:
        resolved: Json = json.loads(_core.brick(target.removeprefix(MODELLED), texts_for(target), overrides))
    except ValueError as error:
        raise BadInputError(one_line(error)) from error
    return resolved

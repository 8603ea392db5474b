"""Duty: find the descriptions of modelled bricks, shipped and the user's own, and give their texts.

Refusal: no parsing. What a brick may say is known to `crates/sim` alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from brickyard import shipped
from brickyard.bricks.resolved import Described, ModelledBrick, Resolved, read_described, read_resolved
from brickyard.errors import BadInputError, near, one_line
from brickyard.schema import RunOptions
from brickyard.schema.modelled import MODELLED as MODELLED
from brickyard.schema.modelled import all_modelled as all_modelled
from brickyard.schema.modelled import is_modelled as is_modelled
from brickyard.store import default_place

CACHE_WORDS = {"write_cache_on": "write_cache=true", "write_cache_off": "write_cache=false"}
KINDS = ("arrays", "controllers", "drives")


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
    return shipped.text_of(f"{path}: the brick file", path)


@cache
def _shipped() -> dict[str, str]:
    home = shipped.folder(__name__)
    return {
        f"{kind}/{name}": (home / kind / f"{name}{shipped.ENDING}").read_text("utf-8")
        for kind in KINDS
        for name in shipped.names(home / kind)
    }


def override_keys() -> tuple[list[str], list[str]]:
    """What `--set` may change of a brick, and the parts of one whose own keys it may: `drive.rpm=10000`."""
    from brickyard import _core

    return _core.brick_keys()


def condition_override(condition: str) -> str:
    """A condition as what it changes of a brick; write caches are a setting of the drives, not a state."""
    name = condition.replace("-", "_")
    return CACHE_WORDS.get(name, f"condition={name}")


def condition_of(brick: ModelledBrick, overrides: list[str]) -> str:
    """The condition that a record names: the state of the volume, else how its write caches were set."""
    state = brick.condition
    cached = {override: name for name, override in CACHE_WORDS.items()}
    switched = [cached[text] for text in ("".join(o.split()) for o in overrides) if text in cached]
    return switched[-1] if state == "normal" and switched else state


def failures_ns(targets: list[str], options: RunOptions) -> list[int]:
    """When members of modelled targets are to fail, as the options of a run have it."""
    return sorted({failure.at_ns for brick in resolved_of(targets, options) for failure in brick.failures})


def power_cuts_ns(targets: list[str], options: RunOptions) -> list[int]:
    """When the power of modelled targets is to fail."""
    return sorted({b.power_cut_ns for b in resolved_of(targets, options) if b.power_cut_ns is not None})


def resolved_of(targets: list[str], options: RunOptions) -> list[ModelledBrick]:
    """The same without the texts that they are made of."""
    return [found.brick for found in made_of(targets, options)]


def made_of(targets: list[str], options: RunOptions) -> list[Resolved]:
    """What the modelled targets of a run came to; none where they are real or another version made the record."""
    texts, overrides = options.texts, options.changes
    if not texts or not all_modelled(targets):
        return []
    from brickyard import _core

    try:
        return [read_resolved(_core.brick(target.removeprefix(MODELLED), texts, overrides)) for target in targets]
    except ValueError:
        return []


def is_override(change: str) -> bool:
    """Whether `KEY=VALUE` changes a brick, and not the profile."""
    keys, parts = override_keys()
    key = change.split("=", 1)[0].strip()
    return key in keys or ("." in key and key.split(".", 1)[0] in parts)


def meant(change: str) -> str | None:
    """The key of a brick that was perhaps meant by one that neither bricks nor profiles have."""
    keys, parts = override_keys()
    head, dot, within = change.split("=", 1)[0].strip().partition(".")
    of_profiles = _profile_keys()
    if within.rsplit(".", 1)[-1] in of_profiles or (not dot and head in of_profiles):
        return None
    name = near(head, [*of_profiles, *parts, *([] if dot else keys)])
    return f"{name}{dot}{within}" if name and name not in of_profiles else None


@cache
def _profile_keys() -> frozenset[str]:
    """Every name that is a key somewhere in a profile."""
    from brickyard import _core

    def names(schema: Any) -> Iterator[str]:
        if isinstance(schema, dict):
            yield from schema.get("properties", {})
        for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
            yield from names(part)

    return frozenset(names(json.loads(_core.schema())))


PACES = ("rebuild_min_mb_per_s", "rebuild_max_mb_per_s", "rebuild_writing_mb_per_s")


def paced(found: list[ModelledBrick], bytes_per_s: int) -> tuple[str, ...]:
    """What gives resolved bricks this rebuild pace, whatever users do meanwhile."""
    keepers = {"software" if brick.software else "controller" for brick in found}
    if len(keepers) > 1:
        raise BadInputError("a rebuild rate is for bricks that all have a controller rebuild them, or all software")
    return tuple(f"{keeper}.{pace}={bytes_per_s / 1e6:.6f}" for keeper in keepers for pace in PACES)


def resolve(target: str, overrides: Sequence[str] = (), texts: dict[str, str] | None = None) -> Resolved:
    """What a brick comes to: its parameters, its capacity, and the texts it is made of."""
    return read_resolved(_resolved_text(target, overrides, texts_for(target) if texts is None else texts))


def describe(target: str, overrides: Sequence[str] = ()) -> Described:
    """The same with all that the model knows of it."""
    return read_described(_resolved_text(target, overrides, texts_for(target)))


def _resolved_text(target: str, overrides: Sequence[str], texts: dict[str, str]) -> str:
    from brickyard import _core

    try:
        return _core.brick(target.removeprefix(MODELLED), texts, list(overrides))
    except ValueError as error:
        raise BadInputError(one_line(error)) from error

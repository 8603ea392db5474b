"""Duty: a profile, built as plain data, written as the TOML text that a person would write.

Refusal: no validation; the core does that with every profile.
"""

from __future__ import annotations

import json
from typing import Any

from brickyard import _core, profiles
from brickyard.store import Json

WHOLE = {"read": 100}


def profile_text(name: str, title: str, source: str, about: list[str], phases: list[Json], **top: Any) -> str:
    """TOML of a profile; refused in one line where the core refuses it."""
    head = {"title": title, "source": source, **({"about": " ".join(about)} if about else {}), **top}
    lines = [f"{key} = {_value(value)}" for key, value in head.items()]
    for phase in phases:
        lines += ["", "[[phase]]", *_fields(phase, "stream")]
        for stream in phase["stream"]:
            lines += ["", "[[phase.stream]]", *_fields(stream, "")]
    text = "\n".join(lines) + "\n"
    profiles.validate(profiles.ProfileText(name, text, name), [])
    return text


def _fields(table: Json, without: str) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in table.items() if key != without and value is not None]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's too; DEL alone may stand bare in the one and not in the other.
        clean = value.encode("utf-8", "replace").decode("utf-8")
        return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return repr(value)


def size(size_bytes: int) -> str:
    return _core.format_bytes(size_bytes)


def duration(time_us: int) -> str:
    for unit_us, unit in ((1_000_000, "s"), (1_000, "ms")):
        if time_us % unit_us == 0:
            return f"{time_us // unit_us}{unit}"
    return f"{time_us}us"


def request(shares: dict[int, float]) -> Any:
    """A size, or a mix whose shares sum to 100."""
    if len(shares) == 1:
        return size(next(iter(shares)))
    total = sum(shares.values())
    return [{"size": size(item), "share": share / total * 100} for item, share in shares.items()]


def request_by_operation(sizes: dict[str, dict[int, float]]) -> list[Json]:
    """A mix for each operation; the shares of each sum to 100."""
    return [
        {"size": size(item), "share": share / sum(shares.values()) * 100, "of": name}
        for name, shares in sizes.items()
        for item, share in shares.items()
    ]


def operations(read: float, trim: float = 0) -> Json:
    named = {"read": read, "write": 100 - read - trim, "trim": trim}
    return {key: share for key, share in named.items() if share or key == "read"}


def region(from_bytes: int, length_bytes: int | None) -> str | None:
    if not from_bytes and length_bytes is None:
        return None
    end = "100%" if length_bytes is None else size(from_bytes + length_bytes)
    return f"{size(from_bytes)}..{end}"

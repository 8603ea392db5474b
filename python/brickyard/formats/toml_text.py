"""Duty: a profile, made of its parts, written as the TOML text that a person would write.

Refusal: no validation; the core does that with every profile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from brickyard import _core, profiles
from brickyard.formats.profile_parts import Address, ProfilePhase, ProfileSize, Shares


def profile_text(
    name: str, title: str, source: str, about: list[str], phases: list[ProfilePhase], **top: str | float
) -> str:
    """TOML of a profile; refused in one line where the core refuses it."""
    head = {"title": title, "source": source, **({"about": " ".join(about)} if about else {}), **top}
    lines = [f"{key} = {_value(value)}" for key, value in head.items()]
    for phase in phases:
        named = [] if phase.name is None else [f"name = {_value(phase.name)}"]
        lines += ["", "[[phase]]", *named, *_lines(phase.limits)]
        for stream in phase.streams:
            lines += ["", "[[phase.stream]]", *_lines(stream)]
    text = "\n".join(lines) + "\n"
    profiles.validate(profiles.ProfileText(name, text, name), [])
    return text


def _set(part: Any) -> Iterator[tuple[str, object]]:
    """Fields that say something, in their order."""
    for each in fields(part):
        if (value := getattr(part, each.name)) is not None:
            yield each.name, value


def _lines(part: Any) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in _set(part)]


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's too; DEL alone may stand bare in the one and not in the other.
        clean = value.encode("utf-8", "replace").decode("utf-8")
        return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, Shares):
        return _value({"read": value.read, **value.by_name})
    if isinstance(value, Address) and value == Address(value.kind):
        return _value(value.kind)
    if is_dataclass(value):
        return _value(dict(_set(value)))
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return repr(value)


def address_words(address: Address) -> str:
    return address.kind if address == Address(address.kind) else _value(address)


def size(size_bytes: int) -> str:
    return _core.format_bytes(size_bytes)


def request(shares: dict[int, float]) -> str | list[ProfileSize]:
    """A size, or a mix whose shares sum to 100."""
    if len(shares) == 1:
        return size(next(iter(shares)))
    total = sum(shares.values())
    return [ProfileSize(size(item), share / total * 100) for item, share in shares.items()]


def request_by_operation(sizes: dict[str, dict[int, float]]) -> list[ProfileSize]:
    """A mix for each operation; the shares of each sum to 100."""
    return [
        ProfileSize(size(item), share / sum(shares.values()) * 100, name)
        for name, shares in sizes.items()
        for item, share in shares.items()
    ]


def operations(read: float, trim: float = 0) -> Shares:
    return Shares(read, 100 - read - trim, trim)


def region(from_bytes: int, length_bytes: int | None) -> str | None:
    if not from_bytes and length_bytes is None:
        return None
    end = "100%" if length_bytes is None else size(from_bytes + length_bytes)
    return f"{size(from_bytes)}..{end}"

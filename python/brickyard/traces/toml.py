"""Duty: texts as TOML has them. Refusal: nothing else."""

from __future__ import annotations


def quoted(text: str) -> str:
    """A basic string; what TOML does not allow in one becomes a blank."""
    clean = "".join(letter if letter.isprintable() else " " for letter in text)
    return '"' + clean.replace("\\", "\\\\").replace('"', '\\"') + '"'

"""Duty: sizes, times and lists as fio reads them. Refusal: fio's arithmetic in job files is refused, not guessed."""

from __future__ import annotations

import re

from brickyard.errors import BadInputError
from brickyard.schema.fio_words import PREFIX

TIME_US = {
    "us": 1,
    "usec": 1,
    "ms": 1_000,
    "msec": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}

LARGEST = 1 << 62
"""A number of fio's above this is none that a profile or a record holds."""


def fio_bytes(option: str, text: str) -> int:
    match = re.fullmatch(r"(0x[0-9a-f]+|[0-9]+)\s*(?:([kmgtp])(i?b?)|b)?", text.strip().lower())
    if not match:
        raise BadInputError(f"{option}={text}: not a size as fio writes it, such as 4k")
    number = int(match[1], 16) if match[1].startswith("0x") else int(match[1])
    base = 1000 if match[3] == "ib" else 1024
    value: int = number * base ** PREFIX.get(match[2] or "", 0)
    if value > LARGEST:
        raise BadInputError(f"{option}={text}: too large")
    return value


def in_thousands(text: str) -> str:
    """Sizes that fio read with kb_base=1000, as it reads them without: there k, ki and kb are 1000, and kib is 1024."""

    def unit(found: re.Match[str]) -> str:
        return found[1] if found[2] == "ib" else f"{found[1]}ib"

    return re.sub(r"([0-9]\s*[kmgtp])(ib|i|b)?(?![a-z])", unit, text.lower())


def fio_letters(text: str) -> str:
    """Sizes of Brickyard's in the one form that means the same to fio: a letter alone is a power of 1024."""
    return re.sub(r"(\d[kmgtp])i?b?\b", lambda found: found[1].lower(), text, flags=re.IGNORECASE)


def fio_time_us(option: str, text: str, *, default: str) -> int:
    match = re.fullmatch(r"([0-9]+)\s*(usec|us|msec|ms|s|m|h|d)?", text.strip().lower())
    if not match or int(match[1]) * TIME_US[match[2] or default] > LARGEST:
        raise BadInputError(f"{option}={text}: not a time as fio writes it, such as 30s")
    return int(match[1]) * TIME_US[match[2] or default]


def fio_rate(option: str, text: str) -> float:
    """Requests/s. With a unit they are read as a size is: k is 1024."""
    return float(fio_bytes(option, text)) if has_unit(text) else fio_number(option, text)


def has_unit(text: str) -> bool:
    return re.fullmatch(r"[0-9]+[kmgtp]i?b?", text.strip().lower()) is not None


def fio_number(option: str, text: str, *, low: float = 0, high: float = LARGEST) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise BadInputError(f"{option}={text}: must be a number from {low:g} to {high:g}")
    return value


def fio_int(option: str, text: str, *, low: int = 0, high: int = LARGEST) -> int:
    value = fio_number(option, text, low=low, high=high)
    if value != int(value):
        raise BadInputError(f"{option}={text}: must be a whole number")
    return int(value)


def fio_flag(option: str, text: str) -> bool:
    if text.strip() in ("", "1", "true"):
        return True
    if text.strip() in ("0", "false"):
        return False
    raise BadInputError(f"{option}={text}: must be 0 or 1")


def by_direction(text: str, default: str = "") -> dict[str, str]:
    """`read,write,trim`: a value that is missing at the end repeats the one before, an empty one is fio's default."""
    parts = [part.strip() for part in text.split(",")]
    parts += [parts[-1]] * (3 - len(parts))
    return {name: part or default for name, part in zip(("read", "write", "trim"), parts, strict=False)}

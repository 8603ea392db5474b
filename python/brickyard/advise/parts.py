"""Duty: the parts a search may use: which modelled drives and controllers, what fits what, and prices.

Refusal: no price is guessed; a part without one stays without one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from brickyard import bricks
from brickyard.errors import BadInputError, one_line

LEVELS = ("raid0", "raid1", "raid5", "raid6", "raid10", "jbod")


@dataclass(frozen=True)
class Part:
    """A drive or a controller. `fits` are a drive's interface or what a controller takes; empty: anything.

    `bits_per_read_error`: the data sheet states one unreadable sector in so many bits read.
    """

    name: str
    usd: float | None = None
    source: str = ""
    fits: tuple[str, ...] = ()
    levels: tuple[str, ...] = LEVELS
    bits_per_read_error: float | None = None


@dataclass(frozen=True)
class Parts:
    drives: tuple[Part, ...]
    controllers: tuple[Part, ...]

    def unpriced(self) -> list[str]:
        return [part.name for part in (*self.drives, *self.controllers) if part.usd is None]


def read(words: Sequence[str], prices: Sequence[str] = ()) -> Parts:
    """Names of modelled parts and files of parts; without any, all parts that ship with a price.

    A file holds `[drives.NAME]` and `[controllers.NAME]` with `usd`, `source`, `interface`, `bits_per_read_error`,
    `takes` and `levels`; what it leaves out is taken from the parts that ship.
    """
    known = shipped()
    chosen: dict[str, Part] = {}
    for word in words:
        if "/" in word or word.endswith(".toml"):
            chosen.update(_parse(word, _text(word), known))
        else:
            place = _place(word)
            chosen[place] = known.get(place, Part(word))
    if not words:
        chosen = {place: part for place, part in known.items() if part.usd is not None}
    for text in prices:
        place, usd = _price(text)
        if place not in chosen:
            raise BadInputError(f"--price {text}: this part is not among those of --parts; name it there as well")
        chosen[place] = replace(chosen[place], usd=usd, source="as given")
    return Parts(*(tuple(p for place, p in chosen.items() if place.startswith(k)) for k in ("drives/", "controllers/")))


def shipped() -> dict[str, Part]:
    """What is known of the parts that ship, by `drives/NAME` and `controllers/NAME`."""
    return _parse("parts", (resources.files("brickyard.advise") / "parts.toml").read_text("utf-8"), {})


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise BadInputError(f"--parts {path}: cannot be read: {reason}") from error


def _place(name: str) -> str:
    texts = bricks.texts()
    for place in (f"drives/{name}", f"controllers/{name}"):
        if place in texts:
            return place
    own = texts.get(f"files/{name}")
    if own is None:
        raise BadInputError(f"{name}: no modelled drive or controller; `brickyard advise parts` lists them")
    try:
        keys = tomllib.loads(own)
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(f"{name}: {one_line(error)}") from error
    if "kind" in keys or "ports" in keys:
        return f"drives/{name}" if "kind" in keys else f"controllers/{name}"
    raise BadInputError(
        f"{name}: an array of your own is no part; `brickyard run` and `advise predict` take sim:{name}"
    )


def _price(text: str) -> tuple[str, float]:
    name, sign, amount = text.partition("=")
    try:
        usd = float(amount)
    except ValueError:
        usd = -1.0
    if not sign or not 0 <= usd < float("inf"):
        raise BadInputError(f"--price {text}: write NAME=USD, such as wd2500jd=250")
    return _place(name.strip()), usd


def _parse(at: str, text: str, known: dict[str, Part]) -> dict[str, Part]:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(f"{at}: {one_line(error)}") from error
    found: dict[str, Part] = {}
    for kind, items in table.items():
        if kind not in ("drives", "controllers") or not isinstance(items, dict):
            raise BadInputError(f"{at}: {one_line(kind)}: there are [drives.NAME] and [controllers.NAME]")
        for name, item in items.items():
            place = _place(name)
            if not place.startswith(kind) or not isinstance(item, dict):
                raise BadInputError(f"{at}: {name} is not one of the {kind}")
            found[place] = _part(f"{at}: {name}", known.get(place, Part(name)), item)
    return found


def _part(at: str, base: Part, item: dict[str, Any]) -> Part:
    unknown = sorted(set(item) - {"usd", "source", "interface", "takes", "levels", "bits_per_read_error"})
    if unknown:
        raise BadInputError(f"{at}: unknown key {one_line(unknown[0])}")
    usd = _number(at, "usd", item.get("usd", base.usd), 0)
    bits = _number(at, "bits_per_read_error", item.get("bits_per_read_error", base.bits_per_read_error), 1e9)
    takes = item.get("takes", [item["interface"]] if "interface" in item else list(base.fits))
    levels = item.get("levels", list(base.levels))
    if not all(isinstance(words, list) and all(isinstance(w, str) for w in words) for words in (takes, levels)):
        raise BadInputError(f"{at}: interface is a word; takes and levels are lists of words")
    if wrong := sorted(set(levels) - set(LEVELS)):
        raise BadInputError(f"{at}: no level {one_line(wrong[0])}; there are {', '.join(LEVELS)}")
    source = str(item.get("source", "" if "usd" in item else base.source))
    return Part(base.name, usd, source, tuple(takes), tuple(levels), bits)


def _number(at: str, key: str, value: object, least: float) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
        raise BadInputError(f"{at}: {key} must be a number, {least:g} or more")
    return float(value)

"""Duty: the parts a search may use: which modelled drives, controllers and volumes, what fits what, and prices with the
date and the place that each is from.

Refusal: no price is guessed; a part without one stays without one, and one that a file assumes says so.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TypeGuard

from brickyard import _core, bricks
from brickyard.advise.costs import UNITS, Volume
from brickyard.errors import BadInputError, one_line

ASSUMED = "assumed"
TEMPLATE = "prices-2026.toml"
KINDS = ("drives", "controllers", "volumes")
_PLAIN, _ZFS = _core.brick_levels()
LEVELS = tuple(sorted(_PLAIN, key="jbod".__eq__))
"""Those that a search tries, disks without an array last."""
ZFS_LEVELS = tuple(_ZFS)
UNPROTECTED = ("jbod", "raid0")
"""Kept by software.linux-zfs alone; a search takes them where `--level` names them."""


@dataclass(frozen=True)
class Part:
    """A drive, a controller or a cloud volume. `fits` are a drive's interface or what a controller takes; empty:
    anything.

    `bits_per_read_error`: the data sheet states one unreadable sector in so many bits read. `drive` is the model of a
    volume, whose size and rates `volume` lets a buyer choose.
    """

    name: str
    usd: float | None = None
    source: str = ""
    fits: tuple[str, ...] = ()
    levels: tuple[str, ...] = LEVELS
    bits_per_read_error: float | None = None
    dated: str = ""
    usd_a_month: float = 0.0
    watts: float | None = None
    annual_failures: float | None = None
    failures_from: str = ""
    volume: Volume | None = None
    drive: str = ""

    @property
    def priced(self) -> bool:
        return self.usd is not None or self.volume is not None

    @property
    def is_assumed(self) -> bool:
        """Whether its price is nobody's offer."""
        return self.source.startswith(ASSUMED)


@dataclass(frozen=True)
class Parts:
    drives: tuple[Part, ...]
    controllers: tuple[Part, ...]
    volumes: tuple[Part, ...] = ()

    def unpriced(self) -> list[str]:
        return [part.name for part in (*self.drives, *self.controllers) if not part.priced]


def read(words: Sequence[str], prices: Sequence[str] = ()) -> Parts:
    """Names of modelled parts and files of parts; without any, the classes of the template of prices that ships.

    A file holds `[drives.NAME]`, `[controllers.NAME]` and `[volumes.NAME]` with prices, their dates and sources, and
    what fits; what it leaves out is taken from the parts that ship.
    """
    known = shipped()
    offered = _parse("template", template(), known)
    chosen: dict[str, Part] = {} if words else dict(offered)
    for word in words:
        if "/" in word or word.endswith(".toml"):
            chosen.update(_parse(word, _text(word), known))
        elif f"volumes/{word}" in offered:
            chosen[f"volumes/{word}"] = offered[f"volumes/{word}"]
        else:
            place = _place(word)
            chosen[place] = _one(place, word, known, offered)
    for text in prices:
        place, usd = _price(text)
        if place not in chosen:
            raise BadInputError(f"--price {text}: this part is not among those of --parts; name it there as well")
        chosen[place] = replace(chosen[place], usd=usd, source="as given", dated="today")
    return Parts(*(tuple(p for place, p in chosen.items() if place.startswith(f"{kind}/")) for kind in KINDS))


def _one(place: str, word: str, known: dict[str, Part], offered: dict[str, Part]) -> Part:
    """A part that is named: as it was published, else as the template has it."""
    part = known.get(place, Part(word))
    return offered[place] if part.usd is None and place in offered else part


def shipped() -> dict[str, Part]:
    """What is known of the parts that ship, by `drives/NAME` and `controllers/NAME`: prices are those of the
    studies."""
    return _parse("parts", (resources.files("brickyard.advise") / "parts.toml").read_text("utf-8"), {})


def template() -> str:
    """A file of parts with prices and volumes to put one's own offers into."""
    return (resources.files("brickyard.advise") / TEMPLATE).read_text("utf-8")


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
        f"{name}: an array of your own is not a part; use it as sim:{name} with `brickyard run` and `advise predict`"
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
        if kind not in KINDS or not isinstance(items, dict):
            raise BadInputError(f"{at}: {one_line(kind)}: there are [drives.NAME], [controllers.NAME], [volumes.NAME]")
        for name, item in items.items():
            if not isinstance(item, dict):
                raise BadInputError(f"{at}: {name} is not one of the {kind}")
            if kind == "volumes":
                found[f"volumes/{name}"] = _volume(f"{at}: {name}", name, item)
                continue
            place = _place(name)
            if not place.startswith(kind):
                raise BadInputError(f"{at}: {name} is not one of the {kind}")
            found[place] = _part(f"{at}: {name}", known.get(place, Part(name)), item)
    return found


PRICE_NUMBERS = ("usd", "usd_a_month", "watts", "annual_failures")
PRICED = {*PRICE_NUMBERS, "dated", "source", "failures_from"}


def _part(at: str, base: Part, item: Mapping[str, object]) -> Part:
    unknown = sorted(set(item) - PRICED - {"interface", "takes", "levels", "bits_per_read_error"})
    if unknown:
        raise BadInputError(f"{at}: unknown key {one_line(unknown[0])}")
    bits = _number(at, "bits_per_read_error", item.get("bits_per_read_error", base.bits_per_read_error), 1e9)
    takes = item.get("takes", [item["interface"]] if "interface" in item else list(base.fits))
    levels = item.get("levels", list(base.levels))
    if not _are_words(takes) or not _are_words(levels):
        raise BadInputError(f"{at}: interface is a word; takes and levels are lists of words")
    if wrong := sorted(set(levels) - {*LEVELS, *ZFS_LEVELS}):
        raise BadInputError(f"{at}: no level {one_line(wrong[0])}; there are {', '.join(LEVELS + ZFS_LEVELS)}")
    part = replace(base, fits=tuple(takes), levels=tuple(levels), bits_per_read_error=bits)
    return _with_prices(at, part, item)


def _are_words(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _with_prices(at: str, base: Part, item: Mapping[str, object]) -> Part:
    """A price that is given takes its source and date with it."""
    is_new = "usd" in item
    usd, usd_a_month, watts, failures = (
        _number(at, key, item.get(key, getattr(base, key)), 0) for key in PRICE_NUMBERS
    )
    if failures is not None and failures >= 1:
        raise BadInputError(f"{at}: annual_failures is a share below 1, such as 0.014")
    source, dated = (str(item.get(key, "" if is_new else getattr(base, key))) for key in ("source", "dated"))
    return replace(
        base,
        usd=usd,
        usd_a_month=usd_a_month or 0.0,
        watts=watts,
        source=source,
        dated=dated,
        annual_failures=failures,
        failures_from=str(item.get("failures_from", base.failures_from)),
    )


VOLUME_NUMBERS = (
    "least_gib",
    "most_gib",
    "base_iops",
    "most_iops",
    "iops_a_gib",
    "base_throughput",
    "most_throughput",
    "throughput_an_iops",
    "usd_a_gib_month",
    "usd_a_throughput_month",
)


VOLUME_WORDS: dict[str, object] = {
    "drive": None,
    "usd_an_iops_month": None,
    "throughput_unit": None,
    "throughput_follows_iops": False,
    "limits_from": "",
}


def _volume(at: str, name: str, item: Mapping[str, object]) -> Part:
    if unknown := sorted(set(item) - PRICED - set(VOLUME_WORDS) - set(VOLUME_NUMBERS)):
        raise BadInputError(f"{at}: unknown key {one_line(unknown[0])}")
    needed = {*VOLUME_NUMBERS, *(key for key, value in VOLUME_WORDS.items() if value is None)}
    if missing := sorted(needed - set(item)):
        raise BadInputError(f"{at}: {missing[0]} is missing")
    numbers = {key: _number(at, key, item[key], 0) or 0.0 for key in VOLUME_NUMBERS}
    drive, steps, unit, follows, limits_from = (item.get(key, value) for key, value in VOLUME_WORDS.items())
    if not isinstance(steps, list) or not all(isinstance(step, list) and len(step) == 2 for step in steps):
        raise BadInputError(f"{at}: usd_an_iops_month is a list of [from IOPS, USD each], such as [[3000, 0.005]]")
    priced = [tuple(_number(at, "usd_an_iops_month", value, 0) or 0.0 for value in step) for step in steps]
    if priced != sorted(priced):
        raise BadInputError(f"{at}: usd_an_iops_month: the steps must rise")
    if not isinstance(unit, str) or unit not in UNITS:
        raise BadInputError(f"{at}: throughput_unit is {' or '.join(UNITS)}")
    if not _place(str(drive)).startswith("drives/"):
        raise BadInputError(f"{at}: {drive} is no modelled volume")
    volume = Volume(
        **numbers,
        usd_an_iops_month=tuple((above, usd) for above, usd in priced),
        unit_bytes=UNITS[unit],
        throughput_follows_iops=bool(follows),
        limits_from=str(limits_from),
    )
    if not volume.iops_a_gib:
        raise BadInputError(f"{at}: iops_a_gib must be above 0")
    made = Part(name, fits=("cloud",), levels=UNPROTECTED, volume=volume, drive=str(drive))
    return _with_prices(at, made, item)


def _number(at: str, key: str, value: object, least: float) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
        raise BadInputError(f"{at}: {key} must be a number, {least:g} or more")
    return float(value)

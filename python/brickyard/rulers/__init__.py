"""Duty: find a ruler (a named requirement with thresholds) by name, by path, or as written out: `p99<=5ms`.

Refusal: nothing is judged here; `brickyard.analysis.judging.verdict` holds a record against a ruler.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace

from brickyard import _core, shipped
from brickyard.errors import BadInputError, one_line
from brickyard.reading import parsed_bytes, parsed_share
from brickyard.store import CHAINS, METADATA

RATES = ("iops", "throughput")
TIMES = ("mean", "p50", "p90", "p99", "p99.9", "p99.99", "max")
SHARES = ("errors",)  # of all requests, those that failed
COUNTS = ("dropped",)  # frames of video that were missing when their buffer ran out
MEASURES = ("service", "response")
OPERATIONS = ("read", "write", "flush", "trim", "append", "put", "get", *sorted(METADATA), *sorted(CHAINS))
ADDRESSES = (
    *(
        "sequential",
        "random",
        "permutation",
        "strided",
        "mixed",
        "runs",
        "zipf",
        "pareto",
        "hot_spots",
        "zones",
        "normal",
    ),
)
LOAD_KEYS = ("address", "request_at_least")  # which loads a requirement is for
CONDITIONS = (
    "normal",
    "degraded",
    "rebuilding",
    "neighbour_rebuilding",
    "initializing",
    "scrubbing",
    "write_cache_on",
    "write_cache_off",
)
MIB = 1 << 20
HOW = "write for example 'p99<=5ms', 'iops>=2000', 'errors<=1%' or 'throughput>=118.65MiB/s'"


@dataclass(frozen=True)
class Requirement:
    """One threshold. `threshold` is in requests/s, bytes/s or ns; rates must reach it, times must not pass it.

    `stream` is a pattern with `*`; `operation` and `stream` choose what is looked at, all of it where they are None.
    With `stream`, times and shares must hold in each stream that matches; without, in all requests taken together.
    Rates add up.
    """

    name: str
    figure: str
    threshold: float
    measure: str = "response"
    operation: str | None = None
    stream: str | None = None
    condition: str | None = None
    """Only runs in this condition are judged; without one, this is not measured."""
    address: str | None = None
    request_bytes_min: int | None = None
    """What the streams must be for the figure to mean anything: their addresses, and their smallest request."""

    @property
    def is_count(self) -> bool:
        return self.figure in COUNTS

    @property
    def is_share(self) -> bool:
        return self.figure in SHARES

    @property
    def is_rate(self) -> bool:
        return self.figure in RATES


@dataclass(frozen=True)
class Ruler:
    name: str
    title: str
    source: str
    about: str
    requirements: tuple[Requirement, ...]
    text: str = ""


def names() -> list[str]:
    """The rulers that ship with Brickyard."""
    return shipped.names(shipped.folder(__name__))


def read(word: str) -> Ruler:
    """A ruler by name, `NAME:REQUIREMENT` for one line of it, a path, or a requirement written out."""
    if "<" in word or ">" in word:
        return _written_out(word)
    name, _, part = word.partition(":")
    text = shipped.read("ruler", __name__, name)
    if text is None:
        hint = shipped.hint(name, names(), "brickyard rulers")
        raise BadInputError(f"{word}: no such ruler; {hint} Or {HOW}")
    found = parse(text.name, text.text)
    return _narrowed(found, part) if part else found


def _narrowed(ruler: Ruler, part: str) -> Ruler:
    chosen = tuple(r for r in ruler.requirements if _plain(r.name) == _plain(part))
    if not chosen:
        known = ", ".join(r.name for r in ruler.requirements)
        raise BadInputError(f"{ruler.name}:{part}: this ruler has no such line; it has {known}")
    return replace(ruler, name=f"{ruler.name}:{chosen[0].name}", requirements=chosen)


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _written_out(word: str) -> Ruler:
    match = re.fullmatch(r"\s*([a-z0-9.]+)\s*(<=?|>=?)\s*(\S.*?)\s*", word.lower())
    if not match:
        raise BadInputError(f"{word}: not a ruler; {HOW}")
    figure, sign, limit = match.groups()
    _check_figure(word, figure)
    if (sign[0] == ">") != (figure in RATES):
        rule = "a rate must be reached (>=)" if figure in RATES else "a time is a limit (<=)"
        raise BadInputError(f"{word}: {f'{figure} is a limit (<=)' if figure in COUNTS + SHARES else rule}")
    requirement = Requirement(f"{figure} {sign} {limit}", figure, _threshold(word, figure, limit))
    return Ruler(word, requirement.name, "as requested", "", (requirement,))


def parse(name: str, text: str) -> Ruler:
    """Reads the TOML text of a ruler; what it doesn't know is refused by name."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(f"ruler {name}: {one_line(error)}") from error
    _only(name, table, {"title", "source", "about", "require"})
    required = table.get("require")
    if not isinstance(required, list) or not required or not all(isinstance(item, dict) for item in required):
        raise BadInputError(f"ruler {name}: needs at least one [[require]]")
    words = {key: _word(name, table, key) or "" for key in ("title", "source", "about")}
    requirements = tuple(_requirement(name, number, item) for number, item in enumerate(required, 1))
    return Ruler(name, words["title"] or name, words["source"], words["about"], requirements, text)


def _requirement(ruler: str, number: int, item: dict[str, object]) -> Requirement:
    at = f"{ruler}, require {number}"
    _only(
        at, item, {"name", "figure", "at_least", "at_most", "measure", "operation", "stream", *LOAD_KEYS, "condition"}
    )
    figure = _word(at, item, "figure") or ""
    _check_figure(f"ruler {at}", figure)
    key, other = ("at_least", "at_most") if figure in RATES else ("at_most", "at_least")
    limit = _word(at, item, key)
    if limit is None or other in item:
        raise BadInputError(f"ruler {at}: {figure} needs {key} and no {other}")
    measure, operation = _word(at, item, "measure") or "response", _word(at, item, "operation")
    if measure not in MEASURES:
        raise BadInputError(f"ruler {at}: measure {measure} is not one of {', '.join(MEASURES)}")
    if operation is not None and operation not in OPERATIONS:
        raise BadInputError(f"ruler {at}: operation {operation} is not one of {', '.join(OPERATIONS)}")
    return Requirement(
        name=_word(at, item, "name") or f"{figure} {limit}",
        figure=figure,
        threshold=_threshold(f"ruler {at}", figure, limit),
        measure=measure,
        operation=operation,
        stream=_word(at, item, "stream"),
        condition=_condition(at, item),
        address=_address(at, item),
        request_bytes_min=_request_bytes(at, item),
    )


def _address(at: str, item: dict[str, object]) -> str | None:
    word = _word(at, item, "address")
    if word is not None and word not in ADDRESSES:
        raise BadInputError(f"ruler {at}: address {word} is not one of {', '.join(ADDRESSES)}")
    return word


def _request_bytes(at: str, item: dict[str, object]) -> int | None:
    text = _word(at, item, "request_at_least")
    return None if text is None else parsed_bytes(text, f"ruler {at}: request_at_least")


def _condition(at: str, item: dict[str, object]) -> str | None:
    word = _word(at, item, "condition")
    known = CONDITIONS
    plain = word.replace("-", "_") if word else None
    if plain is not None and plain not in known:
        raise BadInputError(f"ruler {at}: condition {word} is not one of {', '.join(known)}")
    return plain


def _only(at: str, table: dict[str, object], known: set[str]) -> None:
    unknown = sorted(set(table) - known)
    if unknown:
        raise BadInputError(f"ruler {at}: unknown key {one_line(unknown[0])}; there are {', '.join(sorted(known))}")


def _word(at: str, table: dict[str, object], key: str) -> str | None:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        if key in ("at_least", "at_most") and isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        raise BadInputError(f"ruler {at}: {key} must be text in quotes")
    return value


def _check_figure(at: str, figure: str) -> None:
    known = RATES + TIMES + SHARES + COUNTS
    if figure not in known:
        raise BadInputError(f"{at}: figure {figure or 'missing'}; there are {', '.join(known)}")


def _threshold(at: str, figure: str, limit: str) -> float:
    try:
        value = _limit(figure, limit)
    except ValueError as error:
        raise BadInputError(f"{at}: {one_line(error)}") from error
    if figure in COUNTS + SHARES and value == 0:
        return value
    if not 0 < value < float("inf"):
        raise BadInputError(f"{at}: {limit} must be above 0")
    return value


def _limit(figure: str, limit: str) -> float:
    if figure in TIMES:
        return _core.parse_limit_ns(limit)
    if figure in SHARES:
        return parsed_share(limit)
    if figure in COUNTS or figure == "iops":
        try:
            return float(limit.replace(",", ""))
        except ValueError:
            raise ValueError(f"{limit} is not a number{' of requests a second' if figure == 'iops' else ''}") from None
    return _core.parse_bytes_per_s(limit)

"""Duty: find a ruler (a named requirement with thresholds) by name, by path, or as written out: `p99<=5ms`.

Refusal: nothing is judged here; `brickyard.analysis.judging.verdict` holds a record against a ruler.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar, get_args

import msgspec

from brickyard import _core, shipped
from brickyard.errors import BadInputError, Edit, Remedy, edit_of, nearest, one_line
from brickyard.percentiles import MEDIAN, PERCENTILE_NAMES
from brickyard.reading import parsed_bytes, parsed_share
from brickyard.ready import ready
from brickyard.schema import Counted, HeldCondition, tag_of
from brickyard.schema.plan import Address

RATES = ("iops", "throughput")
TIMES = ("mean", *PERCENTILE_NAMES, "max")
SHARES = ("errors",)  # of all requests, those that failed
COUNTS = ("dropped",)  # frames of video that were missing when their buffer ran out
MEASURES = ("service", "response")
OPERATIONS = tuple(str(counted) for counted in Counted if counted not in (Counted.CALL, Counted.LOAD))
"""Replays and loaders are judged elsewhere."""
ADDRESSES = tuple(map(tag_of, get_args(Address)))
CONDITIONS = tuple(map(str, HeldCondition))
THOUSANDS = {"k": 1e3, "m": 1e6}
"""Of requests; of bytes, some mean powers of 1024."""
MEANT = {
    "avg": "mean",
    "average": "mean",
    "bandwidth": "throughput",
    "bw": "throughput",
    "lat": "mean",
    "latency": "mean",
    "median": MEDIAN,
}
"""What other tools call the figures."""
HOW = "write for example 'p99<=5ms', 'iops>=2000', 'errors<=1%' or 'throughput>=118.65MiB/s'"


@dataclass(frozen=True)
class Requirement:
    """One threshold. `threshold` is in requests/s, bytes/s or ns; rates must reach it, times must not pass it.

    `stream` is a pattern with `*`; `operation` and `stream` choose what is looked at, all of it where they are None.
    With `stream`, times and shares must hold in each stream that matches; without, in all requests to each target taken
    together. Rates add up.
    """

    name: str
    figure: str
    threshold: float
    measure: str = "response"
    operation: str | None = None
    stream: str | None = None
    condition: str | None = None
    """Only runs and parts of runs in this condition are judged; without one, this is not measured."""
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
    def is_response(self) -> bool:
        """A time from when a request was due."""
        return self.figure in TIMES and self.measure == "response"

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
        remedy = nearest(name, names(), "`brickyard rulers` lists them.")
        raise BadInputError(f"{word}: no such ruler", remedy._replace(words=f"{remedy.words} Or {HOW}"))
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
    match = re.fullmatch(r"\s*([a-z0-9._]+)\s*(<=?|>=?)\s*(\S.*?)\s*", word.lower())
    if not match:
        raise BadInputError(f"{word}: not a ruler; {HOW}")
    operation, figure = _operation_of(match[1])
    sign, limit = match.groups()[1:]
    _check_figure(word, figure)
    if operation and figure in COUNTS:
        raise BadInputError(f"{word}: {figure} counts frames, and names no operation")
    if (sign[0] == ">") != (figure in RATES):
        rule = "a rate must be reached (>=)" if figure in RATES else "a time is a limit (<=)"
        raise BadInputError(f"{word}: {f'{figure} is a limit (<=)' if figure in COUNTS + SHARES else rule}")
    if "=" not in sign:
        meant = word.replace(sign, f"{sign}=", 1)
        raise BadInputError(
            f"{word}: a limit itself is within it, so {sign} is not accepted",
            Remedy(f"write '{meant}'", Edit((word,), (meant,))),
        )
    name = f"{operation} {figure}" if operation else figure
    written = word.strip()[-len(limit) :]  # 20MiB/s, as it was written
    requirement = Requirement(f"{name} {sign} {written}", figure, _threshold(word, figure, limit), operation=operation)
    return Ruler(word, requirement.name, "as requested", "", (requirement,))


def _operation_of(text: str) -> tuple[str | None, str]:
    """`commit.p99` names an operation and a figure; `p99.9` is a figure alone."""
    first, dot, rest = text.partition(".")
    return (first, rest) if dot and first in OPERATIONS else (None, text)


def parse(name: str, text: str) -> Ruler:
    """Reads the TOML text of a ruler; what it doesn't know is refused by name."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(f"ruler {name}: {one_line(error)}") from error
    told = _typed(name, table, _RulerTable)
    required = told.require
    if not isinstance(required, list) or not required or not all(isinstance(item, dict) for item in required):
        raise BadInputError(f"ruler {name}: needs at least one [[require]]")
    requirements = tuple(_requirement(f"{name}, require {number}", item) for number, item in enumerate(required, 1))
    return Ruler(name, told.title or name, told.source, told.about, requirements, text)


class _RulerTable(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a ruler; `require` has tables, each of which is read by itself, so that errors name it."""

    title: str = ""
    source: str = ""
    about: str = ""
    require: object = None


class _RequireTable(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""
    figure: str = ""
    at_least: str | int | float | None = None
    at_most: str | int | float | None = None
    measure: str = ""
    operation: str | None = None
    stream: str | None = None
    address: str | None = None
    """Which loads a requirement is for, with the next one."""
    request_at_least: str | None = None
    condition: str | None = None


T = TypeVar("T", _RulerTable, _RequireTable)


def _typed(at: str, table: Mapping[str, object], kind: type[T]) -> T:
    known = kind.__struct_fields__
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise BadInputError(f"ruler {at}: unknown key {one_line(unknown[0])}; there are {', '.join(sorted(known))}")
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        key = str(error).rpartition("$.")[2].rstrip("`")
        raise BadInputError(f"ruler {at}: {key} must be text in quotes") from error


ready(_RulerTable, _RequireTable)


def _requirement(at: str, item: Mapping[str, object]) -> Requirement:
    told = _typed(at, item, _RequireTable)
    _check_figure(f"ruler {at}", told.figure)
    is_rate = told.figure in RATES
    key, other = ("at_least", "at_most") if is_rate else ("at_most", "at_least")
    limit, unfit = (told.at_least, told.at_most) if is_rate else (told.at_most, told.at_least)
    if limit is None or unfit is not None:
        raise BadInputError(f"ruler {at}: {told.figure} needs {key} and no {other}")
    measure = told.measure or "response"
    if measure not in MEASURES:
        raise BadInputError(f"ruler {at}: measure {measure} is not one of {', '.join(MEASURES)}")
    if told.operation is not None and told.operation not in OPERATIONS:
        raise BadInputError(f"ruler {at}: operation {told.operation} is not one of {', '.join(OPERATIONS)}")
    if told.address is not None and told.address not in ADDRESSES:
        raise BadInputError(f"ruler {at}: address {told.address} is not one of {', '.join(ADDRESSES)}")
    least = told.request_at_least
    return Requirement(
        name=told.name or f"{told.figure} {limit}",
        figure=told.figure,
        threshold=_threshold(f"ruler {at}", told.figure, str(limit)),
        measure=measure,
        operation=told.operation,
        stream=told.stream,
        condition=_condition(at, told.condition),
        address=told.address,
        request_bytes_min=None if least is None else parsed_bytes(least, f"ruler {at}: request_at_least"),
    )


def _condition(at: str, word: str | None) -> str | None:
    plain = word.replace("-", "_") if word else None
    if plain is not None and plain not in CONDITIONS:
        raise BadInputError(f"ruler {at}: condition {word} is not one of {', '.join(CONDITIONS)}")
    return plain


def _check_figure(at: str, figure: str) -> None:
    known = RATES + TIMES + SHARES + COUNTS
    if figure not in known:
        meant = MEANT.get(figure)
        remedy = Remedy("", Edit((at,), (at.replace(figure, meant, 1),))) if meant else Remedy("")
        raise BadInputError(f"{at}: figure {figure or 'missing'}; there are {', '.join(known)}", remedy)


def _threshold(at: str, figure: str, limit: str) -> float:
    try:
        value = _limit(figure, limit)
    except ValueError as error:
        raise BadInputError(f"{at}: {one_line(error)}", _with_unit(at, limit, error)) from error
    if figure in COUNTS + SHARES and value == 0:
        return value
    if not 0 < value < float("inf"):
        raise BadInputError(f"{at}: {limit} must be above 0")
    return value


def _with_unit(at: str, limit: str, error: ValueError) -> Remedy:
    """Nothing but the limit of this requirement is changed: another option may have the same number."""
    edit, place = edit_of(error), at.lower().rfind(limit)
    if not isinstance(edit, Edit) or place < 0:
        return Remedy("")
    return Remedy("", Edit((at,), (f"{at[:place]}{edit.meant[0]}{at[place + len(limit) :]}",)))


def _limit(figure: str, limit: str) -> float:
    if figure in TIMES:
        return _core.parse_limit_ns(limit)
    if figure in SHARES:
        return parsed_share(limit)
    if figure in COUNTS or figure == "iops":
        try:
            return float(limit.replace(",", ""))
        except ValueError:
            of = " of requests a second" if figure == "iops" else ""
            thousands = re.fullmatch(r"(\d+\.?\d*)([km])", limit)
            write = f"; write {float(thousands[1]) * THOUSANDS[thousands[2]]:.0f}" if thousands else ""
            raise ValueError(f"{limit} is not a number{of}{write}") from None
    return _core.parse_bytes_per_s(limit)

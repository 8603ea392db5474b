"""Duty: the options --ruler, --check, --price and what comes of them, for every verb that shows a run.

Refusal: no judging; `brickyard.analysis` does that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from brickyard import rulers
from brickyard.analysis.figures.price import Price, price_document
from brickyard.analysis.figures.servers import server_failures
from brickyard.analysis.judging.failing import too_much, without_figures
from brickyard.analysis.judging.models import near_words
from brickyard.analysis.judging.verdict import Verdict, all_pass, verdict, verdict_document
from brickyard.analysis.judging.verdict_words import (
    PRICE_COLUMNS,
    VERDICT_COLUMNS,
    price_rows,
    together_line,
    verdict_line,
    verdict_rows,
    verdict_title,
    worst_of,
)
from brickyard.cli.parts import options
from brickyard.cli.parts.output import table
from brickyard.errors import FAILED, BadInputError, Edit, NoRequirementError, Remedy, nearest
from brickyard.reading import parsed_bytes, parsed_share
from brickyard.schema import Document
from brickyard.store import Record

Rulers = Annotated[
    tuple[str, ...],
    Parameter(
        name="--ruler",
        group=options.JUDGING,
        negative="",
        show_default=False,
        help="Compare the run with a requirement: a ruler's name, NAME:LINE, a path, or 'p99<=5ms'. May be repeated.",
    ),
]
Check = Annotated[
    bool,
    Parameter(
        name="--check",
        group=options.JUDGING,
        negative="",
        show_default=False,
        help="Exit with 1 unless each verdict is pass. A requirement may follow: --check hd-video, --check 'p99<=5ms'. "
        "May be repeated.",
    ),
]
Usd = Annotated[float | None, Parameter(name="--price", group=options.JUDGING, help="What the storage costs, in USD.")]
Capacity = Annotated[
    str | None,
    Parameter(
        name="--capacity", group=options.JUDGING, help="Its capacity as sold, such as 4TB of 10^12 bytes; with --price."
    ),
]
Ports = Annotated[
    int | None,
    Parameter(name="--ports", group=options.JUDGING, help="Number of ports included in the price; with --price."),
]


@dataclass(frozen=True)
class Judging:
    """What the user wants runs to be compared with."""

    rulers: tuple[rulers.Ruler, ...]
    check: bool
    price: Price | None
    judges_errors: bool = False
    """Whether a run fails for too many failed requests; `most_errors` is the share that the user allowed."""
    most_errors: float | None = None

    @property
    def is_asked(self) -> bool:
        return bool(self.rulers or self.price)

    def verdicts(self, record: Record) -> list[Verdict]:
        return [verdict(record, ruler, lasting=True) for ruler in self.rulers]

    def _of_each_ruler(self, records: Sequence[Record]) -> list[list[Verdict]]:
        return [[verdict(record, ruler, lasting=True) for record in records] for ruler in self.rulers]

    def pass_together(self, records: Sequence[Record]) -> bool:
        return all(map(all_pass, self._of_each_ruler(records)))

    def together_lines(self, records: Sequence[Record]) -> list[str]:
        """What repetitions come to, a line for each ruler."""
        runs = [record.info.id for record in records]
        said = []
        for found in self._of_each_ruler(records):
            worst = worst_of(found)
            said.append(together_line(runs, found, near_words(records[worst], found[worst])))
        return said

    def together_document(self, records: Sequence[Record]) -> Document:
        """Keys to add to the document of repetitions; none where nothing was asked."""
        found = [
            {"ruler": held[0].ruler.name, "passed": all_pass(held), "runs_met": sum(one.passed for one in held)}
            for held in self._of_each_ruler(records)
        ]
        return {"verdicts": found} if found else {}

    def document(self, record: Record) -> Document:
        """Keys to add to the document of a run; none where nothing was asked."""
        found: Document = {}
        if self.rulers:
            found["verdicts"] = [verdict_document(item) for item in self.verdicts(record)]
        if self.price:
            found["price"] = price_document(record, self.price)
        return found

    def lines(self, record: Record) -> list[str]:
        """The verdicts for the answer of a run, a line each."""
        return [verdict_line(item, near_words(record, item)) for item in self.verdicts(record)]

    def summary(self, records: Sequence[Record]) -> list[str]:
        """The verdicts on one run or on several together, a line for each ruler."""
        return self.lines(records[0]) if len(records) == 1 else self.together_lines(records)

    def tables(self, record: Record) -> list[tuple[str, tuple[str, ...], list[list[str]]]]:
        """Title, columns and rows of each."""
        found: list[tuple[str, tuple[str, ...], list[list[str]]]] = [
            (verdict_title(item), VERDICT_COLUMNS, verdict_rows(item)) for item in self.verdicts(record)
        ]
        if self.price:
            found.append((f"Price: {self.price.usd:,.2f} USD", PRICE_COLUMNS, price_rows(record, self.price)))
        return found

    def print(self, console: Console, record: Record) -> None:
        for title, columns, rows in self.tables(record):
            console.print()
            sides = [(name, "left" if number == 0 else "right") for number, name in enumerate(columns)]
            console.print(table(title, sides, rows))

    def exit_code(self, records: Sequence[Record], otherwise: int) -> int:
        if otherwise == 0 and (self._is_failed(records) or (self.check and not self.pass_together(records))):
            return FAILED
        return otherwise

    def _is_failed(self, records: Sequence[Record]) -> bool:
        return bool(self.failures(records)) or (self.judges_errors and any(map(without_figures, records)))

    def failures(self, records: Sequence[Record]) -> list[str]:
        """Streams that failed too much, and why SQLIOSim or Jetstress failed, a line each."""
        if not self.judges_errors:
            return []
        streams = [line for record in records for line in too_much(record, self.most_errors)]
        return [*streams, *(line for record in records for line in server_failures(record))]


def most_errors(text: str) -> float:
    try:
        return parsed_share(text)
    except ValueError as error:
        raise BadInputError(f"--max-errors: {error}") from None


def judging(
    words: tuple[str, ...],
    check: bool = False,
    usd: float | None = None,
    capacity: str | None = None,
    ports: int | None = None,
) -> Judging:
    """Everything is read before anything is measured, so that a mistake costs nobody a run."""
    if check and not words:
        raise NoRequirementError(
            "--check: no requirement to compare with; name one, such as --check hd-video or --check 'p99<=5ms'"
        )
    if usd is None and (capacity is not None or ports is not None):
        raise BadInputError("--capacity and --ports say what a price buys; add --price")
    if usd is not None and not (0 < usd < math.inf):
        raise BadInputError(f"--price {usd:g}: must be above 0")
    if ports is not None and ports < 1:
        raise BadInputError(f"--ports {ports}: at least 1")
    price = None if usd is None else Price(usd, sold_capacity(capacity), ports)
    return Judging(tuple(rulers.read(word) for word in words), check, price)


def sold_capacity(text: str | None) -> int | None:
    if text is None:
        return None
    number = re.fullmatch(r"\s*([\d.]*[1-9][\d.]*)\s*", text)
    if number:
        in_tb = Edit(("--capacity", text), ("--capacity", f"{number[1]}TB"))
        raise BadInputError(f"--capacity {text}: needs a unit", Remedy(f"write {number[1]}GB or {number[1]}TB", in_tb))
    capacity_bytes = parsed_bytes(text, "--capacity")
    if capacity_bytes == 0:
        raise BadInputError(f"--capacity {text}: must be above 0")
    return capacity_bytes


def spread_check(given: list[str]) -> list[str]:
    """`--check RULER` becomes `--check --ruler RULER`, and `--check` stands once; what follows and is no ruler stays an
    argument of its own, unless the option is repeated, which is for rulers alone."""
    ours = given[: given.index("--")] if "--" in given else given
    is_repeated = sum(word.startswith("--check=") or word == "--check" for word in ours) > 1
    spread: list[str] = []
    for number, word in enumerate(ours):
        is_after = number > 0 and ours[number - 1] == "--check"
        if word.startswith("--check="):
            spread += ["--check", "--ruler", word.removeprefix("--check=")]
        elif is_after and (_names_a_ruler(word) or (is_repeated and not word.startswith("-"))):
            spread += ["--ruler", word]
        else:
            spread.append(word)
    first = spread.index("--check") if "--check" in spread else 0
    return [word for number, word in enumerate(spread) if word != "--check" or number == first] + given[len(ours) :]


def no_ruler(given: list[str], error: NoRequirementError) -> BadInputError:
    """What follows `--check`, where that was meant to be a requirement."""
    after = given[given.index("--check") + 1 :] if "--check" in given else []
    if not after or after[0].startswith("-"):
        return error
    remedy = nearest(after[0], rulers.names(), f"`brickyard rulers` lists them; or {rulers.HOW}; or --ruler FILE")
    return BadInputError(f"--check: {after[0]} is no ruler", remedy)


def _names_a_ruler(word: str) -> bool:
    return "<" in word or ">" in word or word.partition(":")[0] in rulers.names()

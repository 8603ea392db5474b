"""Duty: a table that fits the width it is printed in: first its headings take more lines, then its long texts, and then
it goes on below, with its first columns again.

Refusal: no figure is cut, and no column left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

GAP = 2  # between columns
TEXT_LEAST = 12  # a column of text that is narrower than this is read word by word
KEYS_SHARE = 0.6  # of a line, at the most, goes to the columns that are there again


@dataclass(frozen=True)
class Column:
    """`head` is what it has in common with its neighbours of the same head, told above the first of them."""

    name: str
    side: str
    cells: tuple[str, ...]
    head: str = ""
    is_broken: bool = False
    """Its words may be broken, as those of addresses are."""
    lines: tuple[str, ...] = ()
    """Its heading, as it is printed."""
    width: int | None = None
    """To which its cells are wrapped."""

    @cached_property
    def natural(self) -> int:
        told = self.lines or self.name.split("\n")
        return max((cell_len(text) for text in (*told, *self.cells)), default=0)

    @property
    def room(self) -> int:
        return self.natural if self.width is None else self.width

    @cached_property
    def least(self) -> int:
        """What cells of text need at the least; figures stay whole."""
        if self.is_broken:
            return TEXT_LEAST
        if self.side == "right":
            return self.room
        words = [word for text in (self.name, *self.cells) for word in text.split()]
        return max([TEXT_LEAST, *map(cell_len, words)])

    def folded(self) -> Column:
        """With a heading no wider than its cells or its longest word."""
        words = [word for line in self.name.split("\n") for word in line.split()]
        least = max((cell_len(text) for text in (*words, *self.cells)), default=0)
        return replace(self, lines=tuple(line for part in self.name.split("\n") for line in _folded(part, least)))


class Fitted:
    """A table as rich prints it."""

    def __init__(self, title: str, columns: Sequence[Column], keys: int) -> None:
        self.title, self.columns, self.keys = title, list(columns), keys

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title:
            yield Text(self.title, style="bold")
        for number, block in enumerate(blocks(self.columns, self.keys, options.max_width)):
            if number:
                yield ""
            yield _table(block)


def blocks(columns: Sequence[Column], keys: int, width: int) -> list[list[Column]]:
    """The tables that it takes, each no wider than that where this can be had."""
    if _total(columns) <= width:
        return [list(columns)]
    folded = [column.folded() for column in columns]
    for tried in (folded, _wrapped(folded, width)):
        if _total(tried) <= width:
            return [_unfolded(columns, tried, width)]
    widest = max((min(column.least, column.room) for column in folded[keys:]), default=0)
    share = min(int(width * KEYS_SHARE), width - GAP - widest)
    while keys > 1 and _total(_wrapped(folded[:keys], share)) > share:
        keys -= 1
    again = _wrapped(folded[:keys], share)
    left = width - _total(again) - GAP
    rest = [replace(c, width=left) if c.room > left >= c.least else c for c in folded[keys:]]
    found = _filled(again, rest, width)
    # As many tables, but none with a single column that was left over.
    for narrower in range(width - 1, 0, -1):
        balanced = _filled(again, rest, narrower)
        if len(balanced) > len(found):
            break
        found = balanced
    return found


def _filled(again: Sequence[Column], rest: Sequence[Column], width: int) -> list[list[Column]]:
    found: list[list[Column]] = [[*again]]
    for column in rest:
        if len(found[-1]) > len(again) and _total([*found[-1], column]) > width:
            found.append([*again])
        found[-1].append(column)
    return found


def _unfolded(columns: Sequence[Column], folded: Sequence[Column], width: int) -> list[Column]:
    """Headings that save least are told in one line again, as far as there is room."""
    fitting = list(folded)
    for place in sorted(range(len(columns)), key=lambda place: columns[place].natural - folded[place].natural):
        if folded[place].width is None:
            tried = [*fitting[:place], columns[place], *fitting[place + 1 :]]
            fitting = tried if _total(tried) <= width else fitting
    return fitting


def _wrapped(columns: Sequence[Column], width: int) -> list[Column]:
    """Columns of text share what the others leave; the widest gives first."""
    made = list(columns)
    texts = [place for place, column in enumerate(columns) if column.least < column.natural]
    rest = width - _total(columns) + sum(columns[place].natural for place in texts)
    for number, place in enumerate(sorted(texts, key=lambda place: columns[place].natural)):
        share = max(columns[place].least, rest // (len(texts) - number))
        if columns[place].natural > share:
            made[place] = replace(columns[place], width=share)
        rest -= made[place].room
    return made


def _total(columns: Sequence[Column]) -> int:
    rooms = (max(column.room, cell_len(head)) for column, head in zip(columns, _heads(columns), strict=True))
    return sum(rooms) + GAP * max(len(columns) - 1, 0)


def _heads(columns: Sequence[Column]) -> list[str]:
    """What stands above each: nothing where it is that of the column before."""
    before = ["", *(column.head for column in columns)]
    return [column.head if column.head != last else "" for column, last in zip(columns, before, strict=False)]


def _folded(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        tried = f"{lines[-1]} {word}".strip()
        if cell_len(tried) <= width or not lines[-1]:
            lines[-1] = tried
        else:
            lines.append(word)
    return lines


def _table(columns: Sequence[Column]) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, 1))
    heads = _heads(columns)
    told = [column.lines or tuple(column.name.split("\n")) for column in columns]
    most = max((len(lines) for lines in told), default=1)
    for column, head, lines in zip(columns, heads, told, strict=True):
        above = [head] if any(heads) else []
        justify: Literal["left", "right"] = "right" if column.side == "right" else "left"
        made.add_column(
            # Headings end at the line above the cells.
            "\n".join([*above, *[""] * (most - len(lines)), *lines]),
            justify=justify,
            header_style="bold dim",
            no_wrap=column.width is None,
            overflow="fold",
            width=column.width,
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        made.add_row(*(Text(cell) for cell in row))
    return made

"""Duty: a table that fits the width it is printed in: first its headings take more lines, then its long texts, and then
it goes on below, with its first columns again.

Refusal: no figure is cut, and no column left out.
"""

from __future__ import annotations

import re
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
    """`head` is what it has in common with its neighbours of the same head, told above all of them."""

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

    def broken(self) -> Column:
        """Its cells in lines that end where a reader would break them: behind a sign of an address or a name."""
        if not self.is_broken or self.width is None:
            return self
        return replace(self, cells=tuple("\n".join(_folded_at_signs(cell, self.width)) for cell in self.cells))


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
            if heads := _heads_line(block):
                yield Text(heads, style="bold dim", no_wrap=True, overflow="crop")
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
    return sum(_rooms(columns)) + GAP * max(len(columns) - 1, 0)


def _spans(columns: Sequence[Column]) -> list[tuple[int, int, str]]:
    """Neighbours of one head: the first, the one behind the last, and the head."""
    found: list[tuple[int, int, str]] = []
    for place, column in enumerate(columns):
        if column.head and found and found[-1][1:] == (place, column.head):
            found[-1] = found[-1][0], place + 1, column.head
        elif column.head:
            found.append((place, place + 1, column.head))
    return found


def _rooms(columns: Sequence[Column]) -> list[int]:
    """Where a head is wider than what it stands above, its first column is."""
    rooms = [column.room for column in columns]
    for first, end, head in _spans(columns):
        rooms[first] += max(0, cell_len(head) - sum(rooms[first:end]) - GAP * (end - first - 1))
    return rooms


def _heads_line(columns: Sequence[Column]) -> str:
    """Each head in the middle above its columns."""
    rooms, line = _rooms(columns), ""
    for first, end, head in _spans(columns):
        begin = sum(rooms[:first]) + GAP * first
        span = sum(rooms[first:end]) + GAP * (end - first - 1)
        line = line.ljust(begin + (span - cell_len(head)) // 2) + head
    return line


def _folded(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        tried = f"{lines[-1]} {word}".strip()
        if cell_len(tried) <= width or not lines[-1]:
            lines[-1] = tried
        else:
            lines.append(word)
    return lines


def _folded_at_signs(text: str, width: int) -> list[str]:
    """Pieces that are longer than a line are left to be cut."""
    lines = [""]
    for piece in re.findall(r"[^\s/,:_-]*[\s/,:_-]+|[^\s/,:_-]+", text):
        if lines[-1] and cell_len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _table(columns: Sequence[Column]) -> Table:
    columns = [column.broken() for column in columns]
    made = Table(box=None, pad_edge=False, padding=(0, 1))
    told = [column.lines or tuple(column.name.split("\n")) for column in columns]
    most = max((len(lines) for lines in told), default=1)
    for column, room, lines in zip(columns, _rooms(columns), told, strict=True):
        justify: Literal["left", "right"] = "right" if column.side == "right" else "left"
        made.add_column(
            # Headings end at the line above the cells.
            "\n".join([*[""] * (most - len(lines)), *lines]),
            justify=justify,
            header_style="bold dim",
            no_wrap=column.width is None,
            overflow="fold",
            width=room if room > column.room else column.width,
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        made.add_row(*(Text(cell) for cell in row))
    return made

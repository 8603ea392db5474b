"""Duty: what goes to stdout and what to stderr. Refusal: no figures are computed here.

Stdout carries the answer: tables, or with `--json` exactly one document. Everything else goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TextIO

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from brickyard.cli.parts.fitted import Column, Fitted
from brickyard.errors import DONE, FAILED, INTERRUPTED
from brickyard.printable import json_text, printable
from brickyard.schema import RunWarning

EXIT_CODES = {"done": DONE, "interrupted": INTERRUPTED, "failed": FAILED}
"""By the outcome of a run or study."""
TABLE_WIDTH = 400  # where nobody looks, a line of a table is a line


class Screen(Console):
    """Whatever is printed, the only controls that reach the terminal are rich's own."""

    def on_broken_pipe(self) -> None:
        """Rich would end with the code of a failed run."""
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text, lines=True)
            yield segment if text == segment.text else Segment(text, segment.style)


def stdout() -> Console:
    """As wide as the terminal, or as COLUMNS says; else as the widest table."""
    return Screen(highlight=False, emoji=False, width=_width(sys.stdout))


def stderr() -> Console:
    return Screen(stderr=True, highlight=False, emoji=False, width=_width(sys.stderr))


def print_text(text: str) -> None:
    """A text of several lines as it is, but for controls: a profile, a mapping, a ruler."""
    sys.stdout.write(printable(text, lines=True))
    sys.stdout.flush()


def _width(stream: TextIO) -> int | None:
    return None if stream.isatty() or "COLUMNS" in os.environ else TABLE_WIDTH


def print_line(console: Console, text: str | Text, style: str | None = None) -> None:
    """A sentence: whole words in each line where somebody looks, else one line however long."""
    console.print(text, markup=False, soft_wrap=console.width >= TABLE_WIDTH, style=style)


def print_labelled(
    console: Console, lines: Sequence[tuple[str | Text, str | Text]], justify: Literal["left", "right"] = "left"
) -> None:
    """What is said of each label, beside it. A label that is a `Text` has a style of its own."""
    parts = [(label if isinstance(label, Text) else Text(label, "dim"), Text.assemble(text)) for label, text in lines]
    if console.width >= TABLE_WIDTH:
        width = max((len(label) for label, _ in parts), default=0)
        for label, text in parts:
            label.align(justify, width)
            console.print(Text.assemble(label, "  ", text), soft_wrap=True)
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, justify=justify)
    grid.add_column(overflow="fold")
    for label, text in parts:
        grid.add_row(label, text)
    console.print(grid)


def emit(document: Mapping[str, object]) -> None:
    """The one document of `--json`. NaN and infinity are not JSON and are refused."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1, default=msgspec.to_builtins)
    sys.stdout.write(json_text(text) + "\n")
    sys.stdout.flush()


def table(
    title: str,
    columns: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[str]],
    *,
    wrapped: Sequence[str] = (),
    heads: Sequence[str] = (),
    keys: int | None = None,
) -> Fitted:
    """A table whose columns are (heading, "left" or "right"). Cells are text, never markup.

    Where the terminal is narrow, texts take more lines, and the words of the columns named by `wrapped` are broken;
    then the table goes on below, with its first `keys` columns again: else those at the left that are no figures.
    `heads` stand above what they begin.
    """
    made = [
        Column(
            name,
            side,
            # A row may end before the last column.
            tuple(printable(row[place], lines=True) if place < len(row) else "" for row in rows),
            heads[place] if heads else "",
            name in wrapped,
        )
        for place, (name, side) in enumerate(columns)
    ]
    if keys is None:
        sides = [side for _, side in columns]
        keys = sides.index("right") if "right" in sides else 1
    return Fitted(title, made, keys)


SEVERITY_STYLE = {"error": "bold red", "warning": "yellow", "info": "cyan", "note": "cyan"}


def warning_text(warning: RunWarning) -> Text:
    severity = warning.severity
    text = Text(f"{severity}: ", style=SEVERITY_STYLE.get(severity, "yellow"))
    text.append(warning.text, style="default")
    if warning.remedy:
        text.append(f" → {warning.remedy}", style="dim")
    return text

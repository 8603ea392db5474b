"""Duty: what goes to stdout and what to stderr. Refusal: no figures are computed here.

Stdout carries the answer: tables, or with `--json` exactly one document. Everything else goes to stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from brickyard.store import Json

TABLE_WIDTH = 400  # no table is cut to a terminal's width: a figure that is cut is lost, one that wraps is not


def stdout(*, fitted: bool = False) -> Console:
    """As wide as the widest table, as figures are never cut; `fitted` to the terminal where a table can be wrapped."""
    return Console(highlight=False, width=None if fitted and sys.stdout.isatty() else TABLE_WIDTH)


def stderr() -> Console:
    return Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else TABLE_WIDTH)


def emit(document: Json) -> None:
    """The one document of `--json`. NaN and infinity are not JSON and are refused."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n")
    sys.stdout.flush()


def table(
    title: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], *, wrapped: Sequence[str] = ()
) -> Table:
    """A table whose columns are (heading, "left" or "right"). Cells are text, never markup. The columns named by
    `wrapped` take more lines where the terminal is narrow."""
    made = Table(
        title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 1)
    )
    for heading, side in columns:
        justify: Literal["left", "right"] = "right" if side == "right" else "left"
        made.add_column(
            heading,
            justify=justify,
            header_style="bold dim",
            no_wrap=heading not in wrapped,
            overflow="fold" if heading in wrapped else "ellipsis",
        )
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made


SEVERITY_STYLE = {"error": "bold red", "warning": "yellow", "info": "cyan", "note": "cyan"}


def warning_text(warning: Json) -> Text:
    severity = str(warning.get("severity", "warning"))
    text = Text(f"{severity}: ", style=SEVERITY_STYLE.get(severity, "yellow"))
    text.append(str(warning.get("text", "")), style="default")
    if warning.get("remedy"):
        text.append(f" → {warning['remedy']}", style="dim")
    return text

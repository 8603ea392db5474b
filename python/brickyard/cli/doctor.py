"""Duty: `brickyard doctor`. Refusal: the checks themselves are in `brickyard.facts`."""

from __future__ import annotations

import os

from rich.text import Text

from brickyard import facts
from brickyard.cli import options
from brickyard.cli.output import emit, stdout
from brickyard.errors import BadInputError
from brickyard.store import Json, default_place


def doctor(target: str | None = None, /, *, store: options.StorePlace = None, json: options.Json = False) -> int:
    """Tell what this host can and cannot measure, and why.

    Parameters
    ----------
    target
        Also look at this file or device.
    """
    if target and ":" not in target and not os.path.exists(target):
        raise BadInputError(f"{target}: no such file, directory or device; name one that exists")
    found: list[Json] = facts.doctor(target, str(store or default_place()))
    if json:
        emit({"checks": found})
        return 0
    console = stdout()
    for check in found:
        console.print(_line(check), soft_wrap=True)
    return 0


def _line(check: Json) -> Text:
    state = str(check["state"])
    text = Text(f"{state:>8}  ", style={"ok": "green", "limited": "yellow", "missing": "red"}.get(state, "yellow"))
    text.append(str(check.get("text", "")), style="default")
    if check.get("remedy"):
        text.append(f" → {check['remedy']}", style="dim")
    return text

"""Duty: `brickyard doctor`. Refusal: the checks themselves are in `brickyard.facts`."""

from __future__ import annotations

import os
from dataclasses import asdict

from rich.text import Text

from brickyard import arrays, conditions, facts
from brickyard.arrays import lock
from brickyard.cli import options
from brickyard.cli.output import emit, stdout
from brickyard.errors import BadInputError, BrickyardError
from brickyard.store import default_place


def doctor(target: str | None = None, /, *, store: options.StorePlace = None, json: options.Json = False) -> int:
    """Tell what this host can and cannot measure, and why.

    Parameters
    ----------
    target
        Also look at this file or device.
    """
    if target and ":" not in target and not os.path.exists(target):
        raise BadInputError(f"{target}: no such file, directory or device; name one that exists")
    checked, left = facts.doctor(target, str(store or default_place())), _arrays()
    if json:
        emit({"checks": [asdict(check) for check in (*checked, *left)]})
        return 0
    console = stdout()
    for check in (*checked, *left):
        console.print(_line(check), soft_wrap=True)
    return 0


def _line(check: facts.Ability) -> Text:
    style = {"ok": "green", "limited": "yellow", "missing": "red"}.get(check.state, "yellow")
    text = Text(f"{check.state:>8}  ", style=style)
    text.append(check.text, style="default")
    if check.remedy:
        text.append(f" → {check.remedy}", style="dim")
    return text


def _arrays() -> list[facts.Ability]:
    """What killed runs have left, and arrays whose rebuilds and scrubs are frozen while nobody holds them."""
    entries = conditions.leftovers()
    found = [
        facts.Ability("left by a killed run", "limited", entry.words, "brickyard array restore") for entry in entries
    ]
    known = {identity for entry in entries for identity in entry.identities}
    for array in arrays.every_array(arrays.Host(), {}):
        try:
            sheet = array.sheet()
        except BrickyardError:
            continue  # `array list` says why; the doctor looks for what was left
        if sheet.frozen and sheet.key not in known and lock.current(sheet.key) is None:
            found.append(facts.Ability("frozen array", "limited", f"{sheet.name}: {sheet.frozen}"))
    return found

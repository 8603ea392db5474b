"""Duty: `brickyard doctor`. Refusal: the checks themselves are in `brickyard.facts`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from rich.text import Text

from brickyard import arrays, conditions, facts
from brickyard.arrays import lock
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_labelled, print_line, stdout
from brickyard.errors import BadInputError, BrickyardError
from brickyard.store import default_place


def doctor(target: str | None = None, /, *, store: options.StorePlace = None, json: options.Json = False) -> int:
    """Report what this host can and cannot measure, and why.

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
    print_line(console, _answer(target, [*checked, *left]), "bold")
    print_labelled(console, [_line(check) for check in (*checked, *left)], "right")
    return 0


def _answer(target: str | None, checks: Sequence[facts.Ability]) -> str:
    """How requests of a run would be made there, and how much stands in the way."""
    states = {check.item: check.state for check in checks}
    ways = {"O_DIRECT": "direct I/O", "io_uring": "io_uring"}
    of = {way: states[item] == "ok" for item, way in ways.items() if item in states}
    yes, no = ([way for way, ok in of.items() if ok is wanted] for wanted in (True, False))
    said = [f"{' and '.join(yes)} can be used" if yes else "", f"{' and '.join(no)} cannot" if no else ""]
    said = [part for part in said if part]
    where = target or "this directory"
    counts = Counter(check.state for check in checks)
    bad = ", ".join(f"{counts[state]} {state}" for state in ("limited", "missing") if counts[state])
    whole = f"{counts['ok']} of {len(checks)} checks are ok" + (f", {bad}" if bad else "")
    if "O_DIRECT" not in states:
        return f"{whole}."
    return f"For runs on {where} {', '.join(said)}; {whole}."


def _line(check: facts.Ability) -> tuple[Text, Text]:
    style = {"ok": "green", "limited": "yellow", "missing": "red"}.get(check.state, "yellow")
    text = Text(check.text)
    if check.remedy:
        text.append(f" → {check.remedy}", style="dim")
    return Text(check.state, style), text


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

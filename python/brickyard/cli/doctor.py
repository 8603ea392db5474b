"""Duty: `brickyard doctor`. Refusal: the checks themselves are in `brickyard.facts`."""

from __future__ import annotations

from rich.text import Text

from brickyard.cli import options
from brickyard.cli.output import emit, stdout
from brickyard.store import Json


def doctor(target: str | None = None, /, *, json: options.Json = False) -> int:
    """Tell what this host can and cannot measure, and why.

    Parameters
    ----------
    target
        Also look at this file or device.
    """
    from brickyard import facts

    found: list[Json] = facts.doctor(target)
    if json:
        emit({"checks": found})
        return 0
    console = stdout()
    for check in found:
        console.print(_line(check), soft_wrap=True)
    return 0


def _line(check: Json) -> Text:
    state = str(check.get("state", check.get("severity", "")))
    style = {"ok": "green", "yes": "green", "info": "cyan", "no": "yellow", "warning": "yellow", "error": "red"}
    text = Text(f"{state:>8}  ", style=style.get(state, "yellow"))
    text.append(str(check.get("text", "")), style="default")
    if check.get("remedy"):
        text.append(f" → {check['remedy']}", style="dim")
    return text

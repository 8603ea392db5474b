"""Duty: `brickyard array`: what arrays there are, how they stand, and the commands that change them.

Refusal: nothing is changed without `--manage`; what may be changed is decided in `brickyard.arrays` and the core.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console

from brickyard import arrays, conditions
from brickyard.arrays import Sheet
from brickyard.cli import options
from brickyard.cli.output import emit, stderr, stdout, table
from brickyard.errors import DONE, FAILED
from brickyard.units import format_mib_per_s, format_percent, format_seconds, format_size

app = App(name="array", help="The arrays of this host: states, members, progress, and what is done to them.")

Address = Annotated[str, Parameter(help="/dev/md0, a mount point of btrfs, zfs:POOL, lvm:VG/LV, storcli:/c0/v1 …")]


@app.command(name="list", help="Every array that the kernel or an installed controller tool tells of.")
def list_(*, json: options.Json = False) -> int:
    sheets = [array.sheet() for array in arrays.all_arrays()]
    if json:
        emit({"arrays": [sheet.document() for sheet in sheets]})
        return DONE
    if not sheets:
        stdout().print("no array is known on this host")
        return DONE
    columns = [
        ("array", "left"),
        ("kind", "left"),
        ("level", "left"),
        ("size", "right"),
        ("members", "right"),
        ("state", "left"),
        ("done", "right"),
    ]
    stdout().print(table("", columns, [_row(sheet) for sheet in sheets]))
    return DONE


def _row(sheet: Sheet) -> list[str]:
    active = sum(member.state == "active" for member in sheet.members)
    members = f"{active} of {sheet.wanted}" if sheet.wanted else str(active)
    state = sheet.state
    return [
        sheet.name,
        sheet.kind,
        sheet.level,
        "–" if sheet.size_bytes is None else format_size(sheet.size_bytes),
        members,
        state.name,
        "" if state.progress_share is None else format_percent(state.progress_share),
    ]


@app.command(name="show", help="One array: its state, its members, and how far its work is.")
def show(address: Address, /, *, json: options.Json = False) -> int:
    sheet = arrays.named(address).sheet()
    if json:
        emit(sheet.document())
    else:
        _print(stdout(), sheet)
    return DONE


def _print(console: Console, sheet: Sheet) -> None:
    size = "size unknown" if sheet.size_bytes is None else format_size(sheet.size_bytes)
    console.print(f"[bold]{sheet.name}[/bold]  {sheet.kind} {sheet.level}, {size}", soft_wrap=True)
    state = sheet.state
    words = state.name + (f": {state.detail}" if state.detail and state.detail != state.name else "")
    if state.progress_share is not None:
        words += f", {format_percent(state.progress_share)} done"
    if state.rate_bytes_per_s:
        words += f" at {format_mib_per_s(state.rate_bytes_per_s)} MiB/s{_remaining(sheet)}"
    console.print(words, markup=False, soft_wrap=True)
    columns = [("slot", "right"), ("member", "left"), ("state", "left"), ("errors", "right")]
    rows = [
        [
            "–" if member.slot is None else str(member.slot),
            member.name,
            member.state,
            "" if member.errors is None else f"{member.errors:,}",
        ]
        for member in sheet.members
    ]
    if rows:
        console.print(table("", columns, rows))


def _remaining(sheet: Sheet) -> str:
    """How long it still takes; a rate is of one member, whose part of the array is what is worked through."""
    component, state = sheet.extra.get("component_bytes"), sheet.state
    if not component or not state.rate_bytes_per_s or state.progress_share is None:
        return ""
    return f", {format_seconds(component * (1 - state.progress_share) / state.rate_bytes_per_s)} left"


@app.command(name="restore", help="Undo what a run that was killed has left: members taken out, limits, write caches.")
def restore(*, json: options.Json = False) -> int:
    console = stderr()
    told = conditions.restore(say=lambda text: console.print(text, markup=False, soft_wrap=True))
    failed = [item for item in told if item["error"]]
    if json:
        emit({"restored": told})
    else:
        for item in failed:
            console.print(f"error: {item['error']}", markup=False, soft_wrap=True)
        if not told:
            stdout().print("nothing was left to be undone")
    return FAILED if failed else DONE

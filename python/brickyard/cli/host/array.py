"""Duty: `brickyard array`: what arrays there are, how they stand, and the commands that change them.

Refusal: nothing is changed without `--manage`; what may be changed is decided in `brickyard.arrays` and the core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console

from brickyard import arrays, conditions, managing
from brickyard.arrays import Array, Sheet, life, lock
from brickyard.cli.parts import options
from brickyard.cli.parts.conditioning import parse_rate
from brickyard.cli.parts.output import emit, print_line, stderr, stdout, table
from brickyard.errors import DONE, FAILED, BadInputError, BrickyardError
from brickyard.reading import parsed_bytes
from brickyard.schema import Document, stored
from brickyard.units import format_mib_per_s, format_percent, format_size

app = App(name="array", help="The arrays of this host: list, watch and change them.")

app.command(
    "brickyard.cli.host.array_watch:watch",
    name="watch",
    help="Watch arrays, drives and file systems; report each event once.",
)

Address = Annotated[str, Parameter(help="/dev/md0, a mount point of btrfs, zfs:POOL, lvm:VG/LV, storcli:/c0/v1 …")]


@app.command(name="list", help="Every array that the kernel or an installed controller tool reports.")
def list_(*, json: options.Json = False) -> int:
    sheets: list[Sheet] = []
    problems: dict[str, str] = {}
    for array in arrays.every_array(arrays.Host(), problems):
        try:
            sheets.append(array.sheet())
        except BrickyardError as error:
            problems[array.name] = str(error)
    for name, problem in problems.items():
        _say(f"{name}: {problem}")
    if json:
        left = [entry.words for entry in conditions.leftovers()]
        emit({"arrays": [_document(sheet) for sheet in sheets], "problems": list(problems.values()), "left": left})
        return DONE
    if not sheets:
        stdout().print("no array can be read" if problems else "no array is known on this host")
        _say_left(sheets)
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
    for sheet in sheets:
        for finding in _findings(sheet):
            print_line(stdout(), f"! {sheet.name}: {finding}")
    _say_left(sheets)
    return DONE


def _say_left(sheets: Sequence[Sheet]) -> None:
    """What was left of arrays that are not there, and of write caches."""
    shown = {sheet.key for sheet in sheets}
    for entry in conditions.leftovers():
        if not entry.identities & shown:
            print_line(stdout(), f"! {entry.words}")


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


@app.command(name="show", help="One array: its state, its members, and the progress of its rebuild or scrub.")
def show(address: Address, /, *, json: options.Json = False) -> int:
    _show(arrays.named(address).sheet(), json)
    return DONE


def _document(sheet: Sheet) -> Document:
    return {**sheet.document(), "holder": _holder(sheet), "left": conditions.left_of(sheet.key)}


def _holder(sheet: Sheet) -> str:
    found = lock.current(sheet.key)
    return "" if found is None else found.words


def _findings(sheet: Sheet) -> list[str]:
    return managing.findings(sheet, _holder(sheet), conditions.left_of(sheet.key))


def _print(console: Console, sheet: Sheet) -> None:
    size = "size unknown" if sheet.size_bytes is None else format_size(sheet.size_bytes)
    console.print(f"[bold]{sheet.name}[/bold]  {sheet.kind} {sheet.level}, {size}", soft_wrap=True)
    state = sheet.state
    words = state.name + (f": {state.detail}" if state.detail and state.detail != state.name else "")
    if state.progress_share is not None:
        words += f", {format_percent(state.progress_share)} done"
    if state.rate_bytes_per_s:
        words += f" at {format_mib_per_s(state.rate_bytes_per_s)} MiB/s{managing.remaining_words(sheet)}"
    print_line(console, words)
    for finding in _findings(sheet):
        print_line(console, f"! {finding}")
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


@app.command(name="restore", help="Undo what a killed run left behind: members taken out, speed limits, write caches.")
def restore(
    *,
    forget: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Forget changes that cannot be undone, for example because the array is gone.",
        ),
    ] = False,
    json: options.Json = False,
) -> int:
    console = stderr()
    told = conditions.restore(say=lambda text: print_line(console, text), forget=forget)
    failed = [item for item in told if item.error and not forget]
    if json:
        emit({"restored": stored(told)})
    else:
        for item in failed:
            print_line(console, f"error: {item.error}")
        if not told:
            stdout().print("nothing to undo")
    return FAILED if failed else DONE


Wait = Annotated[
    bool,
    Parameter(name="--wait", negative="", show_default=False, help="Return when the array is normal; show progress."),
]


def _need(manage: bool, what: str) -> None:
    if not manage:
        raise BadInputError(f"{what}: would change an array; add --manage")


def _managed(address: str, manage: bool) -> Array:
    """The array that is to be changed."""
    _need(manage, address)
    return arrays.named(address)


def _say(text: str) -> None:
    print_line(stderr(), text)


def _ended(array: Array, wait: bool, json: bool) -> int:
    """Waits where that is wished, then tells how the array stands."""
    if wait:
        conditions.wait_for_normal(array, _say)
    _show(array.sheet(), json)
    return DONE


def _show(sheet: Sheet, json: bool) -> None:
    if json:
        emit(_document(sheet))
    else:
        _print(stdout(), sheet)


@app.command(name="create", help="Make an array of idle devices: md at /dev/md0, btrfs at an empty directory.")
def create(
    place: Annotated[str, Parameter(help="/dev/mdN or /dev/md/NAME for md; an empty directory for btrfs.")],
    level: Annotated[str, Parameter(help="md: raid0, 1, 4, 5, 6, 10; btrfs: raid0, raid1, raid1c3, raid10 …")],
    /,
    *devices: str,
    manage: options.Manage = False,
    spare: Annotated[
        tuple[str, ...], Parameter(negative="", show_default=False, help="A hot spare. May be repeated.")
    ] = (),
    chunk: Annotated[str | None, Parameter(help="Stripe unit of md, such as 64KiB.")] = None,
    assume_clean: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Skip the initial resync; correct only if all devices have the same contents.",
        ),
    ] = False,
    i_know_this_destroys_data: options.DestroysData = False,
    wait: Wait = False,
    json: options.Json = False,
) -> int:
    """All data on the devices are lost. A device that is in use is refused."""
    _need(manage, place)
    destroys = i_know_this_destroys_data
    made: Array
    keys = [lock.device_key(device) for device in [*devices, *spare, place]]
    if place.startswith("/dev/"):
        chunk_bytes = None if chunk is None else parsed_bytes(chunk, "--chunk")
        with lock.held(keys, "array create", place):
            made = life.create_md(
                place,
                level,
                devices,
                spares=spare,
                chunk_bytes=chunk_bytes,
                assume_clean=assume_clean,
                destroys_data=destroys,
            )
    else:
        if spare or chunk or assume_clean:
            raise BadInputError(f"{place}: --spare, --chunk and --assume-clean are for md (/dev/md0), not for btrfs")
        with lock.held(keys, "array create", place):
            made = life.create_btrfs(place, level, devices, destroys_data=destroys)
    return _ended(made, wait, json)


@app.command(name="destroy", help="Stop an array and erase its metadata from the members.")
def destroy(
    address: Address,
    /,
    *,
    manage: options.Manage = False,
    i_know_this_destroys_data: options.DestroysData = False,
    json: options.Json = False,
) -> int:
    array = _managed(address, manage)
    freed = managing.destroy(array, destroys_data=i_know_this_destroys_data)
    if json:
        emit({"destroyed": array.name, "freed": freed})
    else:
        print_line(stdout(), f"{array.name} is gone; free again: {', '.join(freed)}")
    return DONE


@app.command(name="fail", help="Take a member out, never beyond the array's redundancy.")
def fail(
    address: Address,
    member: Annotated[str | None, Parameter(help="The member to take out; by default the last active one.")] = None,
    /,
    *,
    manage: options.Manage = False,
    json: options.Json = False,
) -> int:
    """If the array has a hot spare, the spare replaces the member at once."""
    array = _managed(address, manage)
    chosen = managing.take_out(array, member)
    _say(f"{chosen} was taken out of {array.name}; `brickyard array spare {address} {chosen} --manage` puts it back")
    return _ended(array, False, json)


@app.command(name="spare", help="Add a device to an array: as a hot spare, or at once in place of a missing member.")
def spare(
    address: Address,
    device: str,
    /,
    *,
    manage: options.Manage = False,
    i_know_this_destroys_data: options.DestroysData = False,
    wait: Wait = False,
    json: options.Json = False,
) -> int:
    array = _managed(address, manage)
    managing.add_spare(array, device, destroys_data=i_know_this_destroys_data)
    return _ended(array, wait, json)


@app.command(
    name="replace",
    help="Copy a member to another device while the array is in use; if the member is faulty, rebuild it on that "
    "device.",
)
def replace(
    address: Address,
    old: str,
    new: str,
    /,
    *,
    manage: options.Manage = False,
    i_know_this_destroys_data: options.DestroysData = False,
    wait: Wait = False,
    json: options.Json = False,
) -> int:
    array = _managed(address, manage)
    _say(managing.replace(array, old, new, destroys_data=i_know_this_destroys_data))
    return _ended(array, wait, json)


@app.command(name="remove", help="Remove a faulty member, or a spare.")
def remove(address: Address, member: str, /, *, manage: options.Manage = False, json: options.Json = False) -> int:
    """The data on the device stay. To take out an active member, use `array fail`."""
    array = _managed(address, manage)
    managing.remove(array, member)
    _say(f"{member} is no longer a member of {array.name}")
    return _ended(array, False, json)


@app.command(name="grow", help="Spread an array over more devices.")
def grow(
    address: Address,
    /,
    *devices: str,
    manage: options.Manage = False,
    i_know_this_destroys_data: options.DestroysData = False,
    wait: Wait = False,
    json: options.Json = False,
) -> int:
    if not devices:
        raise BadInputError(f"{address}: name the devices to add")
    array = _managed(address, manage)
    with managing.locked(array, "array grow", *devices):
        life.grow(array, devices, destroys_data=i_know_this_destroys_data)
    return _ended(array, wait, json)


@app.command(name="scrub", help="Read all members and compare their copies or parity.")
def scrub(
    address: Address,
    /,
    *,
    manage: options.Manage = False,
    rate: Annotated[str | None, Parameter(help="The most bytes per second, such as 20MiB; needs --wait.")] = None,
    stop: Annotated[bool, Parameter(negative="", show_default=False, help="Stop the scrub that is running.")] = False,
    wait: Wait = False,
    json: options.Json = False,
) -> int:
    array = _managed(address, manage)
    if stop:  # also while another process waits for it, which then says that it was stopped
        array.stop_scrub()
        return _ended(array, False, json)
    if rate and not wait:
        raise BadInputError(
            "--rate: the limit is removed when the scrub ends, so the command has to wait for that; add --wait"
        )
    if not wait:
        managing.begin_scrub(array)
        return _ended(array, False, json)
    sheet = conditions.scrub_through(array, parse_rate(rate, "--rate"), _say)
    _show(sheet, json)
    if sheet.scrub.complete is False or sheet.state.name != "normal":
        _say(f"error: {array.name}: the scrub is not complete: it was stopped, or the array is {sheet.state.name}")
        return FAILED
    return FAILED if sheet.scrub.mismatches else DONE

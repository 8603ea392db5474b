"""Duty: `brickyard lab`: emulated disks. Refusal: they are made, broken and removed in `brickyard.lab.disks`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_labelled, print_line, stderr, stdout, table
from brickyard.errors import BadInputError
from brickyard.lab import disks, power
from brickyard.lab.disks import About, Status, Wanted
from brickyard.reading import parsed_bytes
from brickyard.schema.modelled import is_modelled
from brickyard.units import format_ns, format_size

app = App(name="lab", help="Emulated disks under real software, and what a power cut leaves on them.")
app.command("brickyard.cli.durability.lab_crash:app", name="crash", help="Record a workload; look at its crash states.")
app.command(
    "brickyard.cli.durability.lab_crash:durability",
    name="durability",
    help="What each configuration of a database loses in a power cut.",
)

LEAST_BYTES = 1 << 20  # of a disk on which anything can be done
Name = Annotated[str, Parameter(help="The disk, as `lab up` named it.")]
When = Annotated[
    str | None,
    Parameter(
        name="--when",
        help="Do this once, when this flush or write comes: flush:NUMBER or write:OFFSET, such as flush:1000.",
    ),
]


@app.command
def up(
    name: str,
    /,
    *,
    model: Annotated[
        str | None,
        Parameter(help="A modelled brick, such as sim:msr-2003-wd; without a model, requests are not delayed."),
    ] = None,
    size: Annotated[
        str | None, Parameter(name="--size", help="Size of the disk, such as 4GiB; by default that of the model.")
    ] = None,
    cache: Annotated[str, Parameter(help="honest, off, lying (flushes do nothing) or lossy:1/50.")] = "honest",
    cache_size: Annotated[str, Parameter(help="Size of the volatile cache.")] = "8MiB",
    fs: Annotated[str | None, Parameter(name="--fs", help="Make and mount ext4, xfs or btrfs.")] = None,
    at: Annotated[Path | None, Parameter(validator=options.FOLDER, help="An empty folder to mount it on.")] = None,
    speed: Annotated[float, Parameter(help="Speed relative to the model.")] = 1.0,
    json: options.Json = False,
) -> int:
    """Create an emulated disk: a block device whose timing comes from a model and which loses what a real disk would
    lose.

    Parameters
    ----------
    name
        Name of the disk.
    """
    if not 0.001 <= speed <= 1e6:
        raise BadInputError(f"--speed {speed:g}: use a factor from 0.001 to 1,000,000")
    if at is not None and fs is None:
        raise BadInputError("--at needs --fs, since only a file system can be mounted; add --fs ext4")
    if model is not None and not is_modelled(model):
        raise BadInputError(f"--model {model}: not a modelled brick; see brickyard bricks, such as sim:msr-2003-wd")
    size_bytes = parsed_bytes(size, "--size") if size else None
    if size_bytes is not None and size_bytes < LEAST_BYTES:
        raise BadInputError(f"--size {size}: use at least {format_size(LEAST_BYTES)}")
    about = disks.up(Wanted(name, model, size_bytes, cache, parsed_bytes(cache_size, "--cache-size"), fs, at, speed))
    if json:
        emit(disks.document(about))
    else:
        _print(about, None)
        if model is not None and size is not None:
            print_line(
                stdout(), f"only a part of {model}: its arms move less, so random requests are faster; see docs/lab.md"
            )
    return 0


@app.command(name="list")
def list_(*, json: options.Json = False) -> int:
    """List the disks that are up. What killed disks left behind is cleaned up first."""
    for why in disks.clean().values():
        print_line(stderr(), why)
    found = disks.listed()
    if json:
        emit({"disks": [disks.document(about) for about in found]})
        return 0
    if not found:
        print_line(stdout(), "no disk is up")
        return 0
    columns = [(word, "left") for word in ("name", "model", "cache")] + [("size", "right")]
    columns += [("device", "left"), ("mounted on", "left")]
    rows = [[a.name, a.model, a.cache, format_size(a.size_bytes), a.device, _places(a) or "–"] for a in found]
    stdout().print(table("Emulated disks", columns, rows))
    return 0


@app.command
def status(name: Name, /, *, json: options.Json = False) -> int:
    """Show a disk: its properties, the requests that it served, and the faults that were injected."""
    about, answer = disks.named(name), disks.ask(name, "status")
    if json:
        emit(disks.document(about, answer.status))
    else:
        _print(about, answer.status)
    return 0


@app.command
def down(name: Name, /) -> int:
    """Unmount a disk, and remove it with all its data."""
    disks.down(name)
    print_line(stdout(), f"{name} is down")
    return 0


def _broken(name: str, words: str, when: str | None) -> int:
    trigger = ""
    if when is not None:
        kind, _, value = when.partition(":")
        if kind not in ("flush", "write") or not value:
            raise BadInputError(f"--when {when}: use flush:NUMBER or write:OFFSET")
        if kind == "flush" and value.strip("0") == "":
            raise BadInputError(f"--when {when}: the first flush is flush:1")
        trigger = f"when {kind} {value} "
    disks.ask(name, trigger + words)
    print_line(stdout(), f"{name}: {words}" + (f", at {when}" if when else ""))
    return 0


@app.command(name="power-cut")
def power_cut(name: Name, /, *, when: When = None) -> int:
    """Fail all requests, and lose all volatile data.

    On a disk with --fs, the file system is unmounted, the power comes back, and the file system is mounted again. On
    other disks, and after --when, the power stays off until `power-on`.
    """
    if when is not None:
        _broken(name, "power-cut", when)
        print_line(stdout(), f"afterwards the power is off until brickyard lab power-on {name}")
        return 0
    about = power.cut(name)
    print_line(stdout(), f"{name}: power-cut")
    if about.at:
        return power_on(name)
    print_line(
        stdout(), f"the power is off; unmount {about.device}, end what uses it, and run brickyard lab power-on {name}"
    )
    return 0


@app.command(name="power-on")
def power_on(name: Name, /) -> int:
    """Switch a disk on again after a power cut.

    The file system of the disk is unmounted first, and mounted again afterwards. Data that the kernel still has in
    memory never reach the disk.
    """
    about = power.switch_on(name)
    mounted = f", {about.file_system} mounted on {about.at} again" if about.at else ""
    print_line(stdout(), f"{name}: power-on{mounted}")
    return 0


@app.command
def slow(name: Name, factor: float, /, *, when: When = None) -> int:
    """Let everything take FACTOR times as long; 1 ends it."""
    return _broken(name, f"slow {factor:g}", when)


@app.command
def stall(name: Name, time: str, /, *, when: When = None) -> int:
    """Let no request end for TIME, such as 5s."""
    if time[-1:].isdecimal():
        raise BadInputError(f"stall {time}: give a unit, such as {time}s")
    return _broken(name, f"stall {time}", when)


@app.command
def fail(name: Name, member: int = 0, /, *, when: When = None) -> int:
    """Let a member of the model fail, counted from 0; a single drive is member 0."""
    return _broken(name, f"fail {member}", when)


@app.command(name="bad-sectors")
def bad_sectors(name: Name, offset: str, length: str, /, *, when: When = None) -> int:
    """Let reads of LENGTH bytes at OFFSET fail until they are written."""
    return _broken(name, f"bad-sectors {offset} {length}", when)


@app.command
def corrupt(name: Name, kind: str, offset: str, /, *, when: When = None) -> int:
    """Flip a bit at OFFSET, or let the next write there arrive torn, misplaced or not at all (stale)."""
    return _broken(name, f"corrupt {kind} {offset}", when)


@app.command
def full(name: Name, state: str = "on", /, *, when: When = None) -> int:
    """Let writes fail for lack of space (ENOSPC); `full NAME off` ends it."""
    return _broken(name, f"full {state}", when)


def _places(about: About) -> str:
    return ", ".join(str(mount.place) for mount in disks.mounts_of(about))


def _print(about: About, status: Status | None) -> None:
    mounted = ", ".join(f"{mount.kind} on {mount.place}" for mount in disks.mounts_of(about)) or "nothing"
    speed = f", {about.speed:g} times as fast" if about.speed != 1 else ""
    lines = [
        ("disk", about.name),
        ("model", f"{about.model}{speed}"),
        ("size", format_size(about.size_bytes)),
        ("cache", about.cache),
        ("device", about.device),
        ("mounted", mounted),
    ]
    if status is not None:
        late = f", {status.late:,} of them late (check the load of the host)" if status.late else ""
        if status.off:
            lines.append(("power", f"off since a power cut, until brickyard lab power-on {about.name}"))
        lines += [("active", fault) for fault in status.active]
        lines += [("armed", fault) for fault in status.armed]
        lines += [
            ("ended", f"{status.reads:,} reads, {status.writes:,} writes, {status.flushes:,} flushes{late}"),
            ("failed", f"{status.failed:,}"),
            ("in flight", f"{status.in_flight:,}"),
            ("volatile", format_size(status.volatile_bytes)),
        ]
        if about.host_ns:
            lines.append(("host", f"{format_ns(about.host_ns)} per request, subtracted from the disk's time"))
        lines.append(("way", "FUSE over io_uring" if about.is_over_ring else "FUSE over /dev/fuse"))
        lines += [(f"at {item.at_ms / 1000:.1f} s", item.what) for item in status.history]
    print_labelled(stdout(), lines)

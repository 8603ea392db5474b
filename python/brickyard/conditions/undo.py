"""Duty: undo the steps of a journal, the last one first. Each may be undone twice without harm.

Refusal: it touches only arrays whose identity and members whose superblock are those that were noted.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from brickyard.arrays import Array, Host, Member, all_arrays, lock
from brickyard.arrays.md import Md
from brickyard.arrays.steps import FileStep, MemberStep, MountStep, ScrubStep, UndoStep, UnknownStep, WriteCacheStep
from brickyard.conditions import journal, write_cache
from brickyard.errors import BrickyardError

Say = Callable[[str], None]


def silent(text: str) -> None:
    """Says nothing."""


class Restored(msgspec.Struct, kw_only=True):
    """What became of one entry."""

    about: journal.Purpose
    undone: list[str]
    """In words."""
    error: str
    """Why not all was; empty where it was."""
    journal: str
    """The file of the entry."""


def restore(host: Host | None = None, say: Say = silent, *, forget: bool = False) -> list[Restored]:
    """Undoes what runs that were killed have left. `forget` drops what cannot be undone."""
    place = host or Host()
    told: list[Restored] = []
    for entry in journal.leftovers():
        done: list[str] = []
        error = ""
        try:
            with lock.held(_keys(entry, place), "array restore", entry.about.array or str(entry.path)):
                if not entry.path.exists():  # another restore was first
                    continue
                done = undo(entry, place, say)
                entry.close()
        except BrickyardError as problem:
            error = str(problem)
            if forget:
                entry.close()
        told.append(Restored(about=entry.about, undone=done, error=error, journal=str(entry.path)))
    return told


def _keys(entry: journal.Entry, host: Host) -> list[str]:
    """What is held while it is undone: the arrays and drives that it changed, and the entry itself."""
    drives = [f"{host.roots.dev}/{step.drive}" for step in entry.steps if isinstance(step, WriteCacheStep)]
    return [*entry.identities, *(lock.device_key(drive) for drive in drives), f"journal {entry.path}"]


def undo(entry: journal.Entry, host: Host, say: Say) -> list[str]:
    """What was undone, in words. An error leaves the entry as it is, so that it can be tried again."""
    done = []
    for step in reversed(entry.steps):
        words = _undo_step(step, entry, host)
        if words:
            say(words)
            done.append(words)
    return done


def _undo_step(step: UndoStep, entry: journal.Entry, host: Host) -> str:
    match step:
        case FileStep():
            # What is written to sysfs is gone with the boot in which it was written, and names may stand for other
            # devices.
            if not entry.same_boot or not os.path.exists(step.path):
                return ""
            host.write(step.path, step.value)
            return f"{step.path} is {step.value} again"
        case WriteCacheStep():
            return write_cache.put_back(host, step) if entry.same_boot else ""
        case MountStep():
            if os.path.ismount(step.place):
                return ""
            host.must("mount", "-t", step.type, "-o", step.options, step.source, step.place)
            return f"{step.place} is mounted again"
        case MemberStep():
            return _give_back(_array(step, host), step, entry, host)
        case ScrubStep():
            _array(step, host).stop_scrub()
            return ""
    kind = step.kind if isinstance(step, UnknownStep) else type(step).__name__
    raise BrickyardError(f"{entry.path}: step {kind!r} is of a newer Brickyard; restore with that one")


def _array(step: MemberStep | ScrubStep, host: Host) -> Array:
    found = next((array for array in all_arrays(host) if array.identity() == step.identity), None)
    if found is None:
        raise BrickyardError(
            f"{step.array} ({step.identity}) is not there; assemble it, then `brickyard array restore`;"
            " if it is gone for good, `brickyard array restore --forget`"
        )
    return found


def _give_back(array: Array, step: MemberStep, entry: journal.Entry, host: Host) -> str:
    member = step.member
    if not entry.same_boot and isinstance(array, Md):
        member = _member_by_superblock(array, host) or ""
        if not member:
            raise BrickyardError(
                f"{array.name}: the host restarted, and the superblocks do not show which device was the removed member"
                f" ({step.member}); give it back with `mdadm --manage {array.name} --add DEVICE`"
            )
    if any(os.path.realpath(found.name) == os.path.realpath(member) for found in _present(array)):
        return ""
    array.give_back(member)
    return f"{member} is given back to {array.name}, which rebuilds it"


def _present(array: Array) -> list[Member]:
    return [member for member in array.sheet().members if member.state in ("active", "rebuilding", "spare")]


def _member_by_superblock(array: Md, host: Host) -> str | None:
    """The one device that says it is of this array and is in none."""
    names = [name for name in os.listdir(host.roots.at_sys("class", "block")) if not name.startswith(("loop", "ram"))]
    found = []
    for name in sorted(names):
        if os.listdir(host.roots.at_sys("class", "block", name, "holders")):
            continue
        device = os.path.join(host.roots.dev, name)
        if array.was_member(device):
            found.append(device)
    return found[0] if len(found) == 1 else None

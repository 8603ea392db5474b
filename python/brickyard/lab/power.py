"""Duty: the power of an emulated disk, off and on again.

While it is off, every request fails. It comes on when nothing of the disk is left in the kernel's memory, which would
otherwise be written to the disk, and show what a real power cut loses.

Refusal: nothing that others mounted, built on the disk, or have open is taken from them; the power stays off.
"""

from __future__ import annotations

from pathlib import Path

from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.lab import disks, kernel, mounts
from brickyard.lab.disks import About


def cut(name: str) -> About:
    """From here on every request fails; the file system of the disk writes nothing any more."""
    disks.ask(name, "power-cut")
    about = disks.named(name)
    for mount in mounts.of_devices(mounts.all_mounts(), [about.device]):
        kernel.shut_down(mount.place)
    return about


def switch_on(name: str) -> About:
    """Makes the kernel forget the disk, switches it on, and mounts the file system that it was made with."""
    about, answer = disks.named(name), disks.ask(name, "status")
    if answer.status is None or not answer.status.off:
        raise BadInputError(f"{name}: its power is on")
    room = disks.room_of(name)
    with disks.alone(room):
        try:
            _forget(room, about)
        except BrickyardError as error:
            raise BrickyardError(f"{error}. The power stays off until brickyard lab power-on {name}") from error
        if about.at:
            _mount(about)
    return about


def _forget(room: Path, about: About) -> None:
    disks.check_mounts(room, [about.device])
    found = mounts.of_devices(mounts.all_mounts(), [about.device])
    for mount in found:
        if str(mount.place) != about.at:
            raise BrickyardError(f"{about.device}: is mounted on {mount.place}; unmount it")
        kernel.shut_down(mount.place)
    disks.check_use([about.device])
    for mount in found:
        if not kernel.unmount_unused(mount.place):
            raise BrickyardError(f"{mount.place}: is in use; end what uses it (fuser -vm {mount.place} lists that)")
    try:
        with kernel.alone_with(about.device):
            disks.order(room, "power-on")
    except OSError as error:
        raise BrickyardError(f"{about.device}: {one_line(error)}") from error


def _mount(about: About) -> None:
    try:
        kernel.mount(about.device, Path(about.at), about.file_system)
    except OSError as error:
        raise BrickyardError(
            f"{about.name}: the power is on, but its {about.file_system} cannot be mounted: {one_line(error)}; "
            f"look at {about.device}"
        ) from error

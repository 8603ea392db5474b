"""Duty: from a target or an address to its array, and all arrays of this host. Refusal: it changes nothing.

Addresses: `/dev/md0`, `btrfs:/mnt`, `lvm:VG/LV`, `zfs:POOL`, `storcli:/c0/v1`, `perccli:/c0/v1`, `tw_cli:/c0/u0`,
`arcconf:1/0` (controller and logical device), `ssacli:0/1` (slot and logical drive).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from brickyard.arrays.array import Array
from brickyard.arrays.btrfs import Btrfs, btrfs_mounts
from brickyard.arrays.controllers import CLASSES, CONTROLLERS, controller_arrays, controller_of
from brickyard.arrays.host import Host
from brickyard.arrays.lvm import LvmRaid, lvm_names
from brickyard.arrays.md import Md, md_names
from brickyard.arrays.zfs import Zfs, zfs_pools
from brickyard.errors import BadInputError, BrickyardError
from brickyard.facts import stack
from brickyard.facts.target import target_facts
from brickyard.schema.target_sheet import MountSheet

KINDS: dict[str, type[Array]] = {"md": Md, "btrfs": Btrfs, "lvm": LvmRaid, "zfs": Zfs, **CLASSES}


def named(address: str, host: Host | None = None) -> Array:
    """The array of an address."""
    place = host or Host()
    kind, separator, rest = address.partition(":")
    if separator and kind in ("btrfs", "zfs", "lvm", *CONTROLLERS):
        if not rest:
            raise BadInputError(f"{address}: names no array; write for example storcli:/c0/v1 or btrfs:/mnt")
        if kind in CONTROLLERS:
            return controller_of(kind, rest, place)
        return {"btrfs": Btrfs, "zfs": Zfs, "lvm": LvmRaid}[kind](rest, place)
    if not os.path.exists(address):
        raise BadInputError(f"{address}: no such array; `brickyard array list` shows what there is")
    if os.path.isdir(address) and os.path.ismount(address):
        return Btrfs(address, place)
    found = find(address, place)
    if found is None:
        raise BadInputError(
            f"{address}: is not on an array that is known here; `brickyard array list` shows what there is"
        )
    return found


def find(target: str, host: Host | None = None) -> Array | None:
    """The array that a target lies on, the nearest first; None where there is none that this host's kernel knows."""
    place = host or Host()
    facts = target_facts(target, False, place.roots)
    mount = facts.mount or MountSheet()
    if mount.file_system == "zfs":
        return Zfs((mount.source or "").split("/")[0], place)
    missing = mount.btrfs.missing_members if mount.btrfs else None
    if mount.file_system == "btrfs" and (missing or len(stack.tops(facts.stack)) > 1):
        return Btrfs(mount.mount_point or "", place)
    for node in stack.walk(facts.stack):
        if node.type == "md":
            return Md(node.name, place)
        if node.dm and node.dm.owner == "lvm" and node.dm.raid and node.dm.mapping:
            return LvmRaid.of_mapping(node.dm.mapping, place)
    return None


def of_target(target: str, host: Host | None = None) -> Array | None:
    """Like `find`, and asks the controllers' own tools as well where the kernel knows of no array."""
    place = host or Host()
    array = find(target, place)
    if array is not None:
        return array
    below = stack.devices(target_facts(target, False, place.roots).stack)
    disks = {f"{place.roots.dev}/{node.name}" for node in below}
    return next(
        (
            found
            for kind in CONTROLLERS
            for found in controller_arrays(place, kind)
            if found.sheet().extra.device in disks
        ),
        None,
    )


def all_arrays(host: Host | None = None) -> list[Array]:
    """Every array that the kernel or an installed controller tool tells of; an error where one kind cannot be read."""
    unread: dict[str, str] = {}
    found = list(every_array(host or Host(), unread))
    if unread:
        raise BrickyardError("; ".join(unread.values()))
    return found


def every_array(host: Host, unread: dict[str, str]) -> Iterator[Array]:
    """Every array that can be listed; `unread` gets the kinds that cannot be, and why."""
    kinds: list[tuple[str, Callable[[], Iterable[Array]]]] = [
        ("md", lambda: [Md(name, host) for name in md_names(host)]),
        ("btrfs", lambda: [Btrfs(path, host) for path in btrfs_mounts(host)]),
        ("lvm", lambda: [LvmRaid(name, host) for name in lvm_names(host)]),
        ("zfs", lambda: [Zfs(name, host) for name in zfs_pools(host)]),
        *((kind, partial(controller_arrays, host, kind)) for kind in CONTROLLERS),
    ]
    for kind, listed in kinds:
        try:
            yield from listed()
        except BrickyardError as error:
            unread[kind] = str(error)

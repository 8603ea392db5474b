"""Duty: make, grow, change and take away arrays of md and btrfs, of devices that the core's guard lets us have.

Refusal: a device in use is never taken, one that carries a signature only with the consent to destroy it. Whoever calls
has `--manage` in hand.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence

from brickyard import _core
from brickyard.arrays.array import Array
from brickyard.arrays.btrfs import LOSABLE as BTRFS_LOSABLE
from brickyard.arrays.btrfs import Btrfs
from brickyard.arrays.host import Host, wait_until
from brickyard.arrays.md import KIB, Md
from brickyard.errors import BadInputError, one_line
from brickyard.units import named_words

# mdadm(8): the least number of devices of each level.
MD_LEAST = {"0": 2, "1": 2, "4": 3, "5": 3, "6": 4, "10": 2}
BTRFS_LEAST = {"raid1": 2, "raid1c3": 3, "raid1c4": 4, "raid10": 2, "raid0": 1, "raid5": 2, "raid6": 3, "single": 1}

REBUILT = (Md, Btrfs)
"""Kinds that take spares and successors of members, and can be taken away."""


def check_free(devices: Sequence[str], *, destroys_data: bool) -> None:
    """Nothing may use them, and nothing may be on them that was not given up."""
    for device in devices:
        if not stat.S_ISBLK(_mode(device)):
            raise BadInputError(f"{device}: is no block device; name disks or partitions")
        try:
            _core.check_idle(device, destroys_data)
        except ValueError as error:
            raise BadInputError(one_line(error)) from error
    real = [os.path.realpath(device) for device in devices]
    twice = next((device for device, path in zip(devices, real, strict=True) if real.count(path) > 1), None)
    if twice is not None:
        raise BadInputError(f"{twice}: is named twice")


def _mode(device: str) -> int:
    try:
        return os.stat(device).st_mode
    except OSError as error:
        raise BadInputError(f"{device}: {error.strerror}; check the path") from error


def create_md(
    name: str,
    level: str,
    devices: Sequence[str],
    *,
    spares: Sequence[str] = (),
    chunk_bytes: int | None = None,
    assume_clean: bool = False,
    destroys_data: bool = False,
    host: Host | None = None,
) -> Md:
    place = host or Host()
    number = level.lower().removeprefix("raid").removeprefix("-")
    if number not in MD_LEAST:
        raise BadInputError(f"level {level}: md has raid0, raid1, raid4, raid5, raid6 and raid10")
    if len(devices) < MD_LEAST[number]:
        raise BadInputError(f"raid{number} takes at least {MD_LEAST[number]} devices, and {named_words(len(devices))}")
    if not re.fullmatch(r"/dev/(md\d{1,3}|md/[\w.-]{1,32})", name):
        raise BadInputError(f"{name}: write /dev/md0 or /dev/md/NAME")
    if os.path.exists(name):
        raise BadInputError(f"{name}: is there already; choose another name, `brickyard array list` shows all")
    check_free([*devices, *spares], destroys_data=destroys_data)
    options = [f"--chunk={chunk_bytes // KIB}"] if chunk_bytes and number != "1" else []
    options += ["--assume-clean"] if assume_clean else []
    options += [f"--spare-devices={len(spares)}"] if spares else []
    shape = [f"--level={number}", f"--raid-devices={len(devices)}"]
    place.must("mdadm", "--create", name, "--run", *shape, *options, *devices, *spares)
    wait_until(lambda: os.path.exists(name), f"{name}: its device")
    return Md(os.path.basename(os.path.realpath(name)), place)


def create_btrfs(
    mount_point: str, level: str, devices: Sequence[str], *, destroys_data: bool = False, host: Host | None = None
) -> Btrfs:
    place = host or Host()
    profile = level.lower()
    if profile not in BTRFS_LEAST:
        raise BadInputError(f"level {level}: btrfs has {', '.join(BTRFS_LEAST)}")
    if len(devices) < BTRFS_LEAST[profile]:
        raise BadInputError(f"{profile} takes at least {BTRFS_LEAST[profile]} devices, and {named_words(len(devices))}")
    if os.listdir(mount_point) or os.path.ismount(mount_point):
        raise BadInputError(f"{mount_point}: is not empty; name an empty directory to mount it on")
    check_free(devices, destroys_data=destroys_data)
    # Metadata get redundancy where the data have it.
    metadata = profile if profile in BTRFS_LOSABLE else "raid1" if len(devices) > 1 else "dup"
    place.must("mkfs.btrfs", "-q", "-f", "-d", profile, "-m", metadata, *devices)
    members = ",".join(f"device={device}" for device in devices)
    place.must("mount", "-t", "btrfs", "-o", members, devices[0], mount_point)
    return Btrfs(mount_point, place)


def destroy(array: Array, *, destroys_data: bool) -> list[str]:
    """Takes the array away and its marks off the members; gives them back by name.

    Always with consent: data without a signature, such as a database on the bare device, look like none.
    """
    if isinstance(array, Md | Btrfs) and not destroys_data:
        raise BadInputError(
            f"{array.name}: what it holds is lost, with or without a signature; it is destroyed only with"
            " --i-know-this-destroys-data"
        )
    if isinstance(array, Md):
        check_free([array.name], destroys_data=True)
        members = [member.name for member in array.members() if member.name != "–"]
        array.host.must("mdadm", "--stop", array.name)
        for member in members:
            array.forget_superblock(member)
        return members
    if isinstance(array, Btrfs):
        members = [member.name for member in array.members() if member.name != "–"]
        array.host.must("umount", array.place)
        for member in members:
            array.host.must("wipefs", "--quiet", "--all", "--types", "btrfs", member)
        return members
    raise array.cannot("be destroyed")


def replace(array: Array, old: str, new: str, *, destroys_data: bool) -> str:
    """What was begun, in words. The data of a working member are copied before it goes, which keeps the redundancy."""
    if not isinstance(array, Md | Btrfs):
        raise array.cannot("replace a member")
    is_spare = any(member.name == new and member.state == "spare" for member in array.sheet().members)
    if not (isinstance(array, Md) and is_spare):
        check_free([new], destroys_data=destroys_data or array.was_member(new))
    return array.replace(old, new)


def add_spare(array: Array, device: str, *, destroys_data: bool) -> None:
    if isinstance(array, Btrfs) and not any(member.state == "missing" for member in array.members()):
        raise BadInputError(f"{array.name}: misses no member, and btrfs keeps no spares; see `brickyard array grow`")
    if not isinstance(array, Md | Btrfs):
        raise array.cannot("keep a spare")
    was_member = array.was_member(device)
    check_free([device], destroys_data=destroys_data or was_member)
    if was_member or isinstance(array, Btrfs):
        array.give_back(device)
    else:
        array.add(device)


def grow(array: Array, devices: Sequence[str], *, destroys_data: bool) -> None:
    """More members; md moves its data so that all carry their part, btrfs is balanced."""
    if not isinstance(array, Md | Btrfs):
        raise array.cannot("grow")
    if array.state().name != "normal":
        raise BadInputError(f"{array.name}: is {array.state().name}; it grows only when it is normal")
    check_free(devices, destroys_data=destroys_data)
    before = len([member for member in array.members() if member.state == "active"])
    for device in devices:
        array.add(device)
    if isinstance(array, Md):
        array.host.must("mdadm", "--grow", array.name, f"--raid-devices={before + len(devices)}")
    else:
        array.host.must("btrfs", "balance", "start", "--background", "--full-balance", array.place)

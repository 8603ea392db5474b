"""Duty: which caches of a resolved brick end writes or answer reads, in figures and in words.

Refusal: no parsing; no files.
"""

from __future__ import annotations

from brickyard.bricks.resolved import (
    CloudVolume,
    FlashDrive,
    ModelledBrick,
    ModelledDrive,
    ModelledKeeper,
    RotatingDrive,
)
from brickyard.units import format_size


def keeps_drive_caches_off(brick: ModelledBrick) -> bool:
    return brick.keeper is not None and not brick.keeper.drive_write_cache


def caches_writes(brick: ModelledBrick, drive: ModelledDrive) -> bool:
    """Whether writes end in a drive's cache, as the drive, its controller and the brick's setting have it."""
    if drive.power_loss_protection:
        return drive.write_cache
    if isinstance(drive, CloudVolume) or keeps_drive_caches_off(brick):
        return False
    return drive.write_cache if brick.write_cache is None else brick.write_cache


def write_back(brick: ModelledBrick) -> ModelledKeeper | None:
    """The controller or software that ends writes in its own cache, if there is one."""
    keepers = (brick.controller, brick.software)
    return next((k for k in keepers if k and k.write_back and k.cache_bytes), None)


def to_write_bytes(brick: ModelledBrick) -> int:
    """How much the caches that end writes hold: the controller's, and those of all drives; flash ends writes in its SLC
    cache whatever is set."""
    back = write_back(brick)
    counts = [brick.members - brick.other_members, brick.other_members]
    of_drives = sum(
        count * ((drive.cached_bytes if caches_writes(brick, drive) else 0) + slc_bytes(drive))
        for drive, count in zip(brick.drives, counts, strict=False)
    )
    return of_drives + (back.cache_bytes if back else 0) + dirty_bytes(brick)


def slc_bytes(drive: ModelledDrive) -> int:
    return drive.slc_cache_bytes if isinstance(drive, FlashDrive) else 0


def to_read_bytes(brick: ModelledBrick) -> int:
    """How much the caches that answer reads again hold: those of disks, and the controller's."""
    counts = [brick.members - brick.other_members, brick.other_members]
    of_drives = sum(
        count * drive.cache_bytes
        for drive, count in zip(brick.drives, counts, strict=False)
        if isinstance(drive, RotatingDrive)
    )
    return of_drives + (brick.keeper.cache_bytes if brick.keeper else 0)


def dirty_bytes(brick: ModelledBrick) -> int:
    """What ZFS keeps of writes in memory; 0 where it is not ZFS."""
    keeper = brick.keeper
    return keeper.zfs.dirty_data_max if keeper and keeper.zfs else 0


def words(brick: ModelledBrick) -> str:
    """What a reader of figures must know of a brick's caches, in a line."""
    parts = [_of_drive(brick, drive) for drive in brick.drives]
    found = brick.keeper
    if found is not None and found.cache_bytes:
        kind = "write-back" if found.write_back else "for reads alone"
        battery = (", with a battery" if found.battery else ", no battery") if found.write_back else ""
        parts.append(f"controller: {format_size(found.cache_bytes)} {kind}{battery}")
    if dirty := dirty_bytes(brick):
        parts.append(f"ZFS: up to {format_size(dirty)} of writes in memory")
    return "; ".join(dict.fromkeys(parts))


def _of_drive(brick: ModelledBrick, drive: ModelledDrive) -> str:
    if isinstance(drive, CloudVolume):
        return "none of its own is modelled in the volume"
    slc = f"; SLC cache: {format_size(slc_bytes(drive))} each" if slc_bytes(drive) else ""
    if not drive.cached_bytes:
        return f"drives: none{slc}"
    if drive.power_loss_protection and drive.write_cache:
        state = "write cache on, protected against power loss"
    elif caches_writes(brick, drive):
        state = "write cache on"
    elif keeps_drive_caches_off(brick):
        state = "write cache kept off by the controller"
    else:
        state = "write cache off"
    return f"drives: {format_size(drive.cached_bytes)} each, {state}{slc}"


def volatile(brick: ModelledBrick) -> list[str]:
    """The caches whose acknowledged writes a power cut takes."""
    found = []
    if any(caches_writes(brick, drive) and not drive.power_loss_protection for drive in brick.drives):
        found.append("its drives cache writes without power-loss protection")
    back = write_back(brick)
    if back is not None and not back.battery:
        found.append("its controller caches writes without a battery")
    if dirty_bytes(brick):
        found.append("ZFS keeps writes in memory until their transaction group is written")
    return found


def cannot_switch_off(brick: ModelledBrick) -> str | None:
    """Why write_cache=false changes nothing, or None where it does."""
    back = write_back(brick)
    stays = f"; the {format_size(back.cache_bytes)} write-back cache of its controller stays" if back else ""
    is_protected = all(drive.power_loss_protection for drive in brick.drives)
    if keeps_drive_caches_off(brick) and not is_protected:
        return f"its controller keeps the write caches of its drives off already{stays}"
    if is_protected:
        return f"the cache of its drives is protected against power loss and cannot be switched{stays}"
    if not any(drive.write_cache for drive in brick.drives):
        return f"the write caches of its drives are off already{stays}"
    return None

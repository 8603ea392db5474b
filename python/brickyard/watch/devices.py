"""Duty: which block devices there are, and what the kernel calls them. Refusal: opens none."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from brickyard.errors import BadInputError
from brickyard.printable import printable
from brickyard.units import SECTOR_BYTES

MOST = 64
BLOCK = Path("/sys/block")


@dataclass(frozen=True)
class BlockDevice:
    name: str
    number: int
    capacity_bytes: int
    sector_bytes: int

    @property
    def statistics(self) -> Path:
        return BLOCK / self.name / "stat"

    @property
    def is_there(self) -> bool:
        """A loop device that is detached keeps its name, and has no size."""
        try:
            return self.capacity_bytes == 0 or int((BLOCK / self.name / "size").read_text()) > 0
        except (OSError, ValueError):
            return False


def _disk(name: str) -> BlockDevice:
    folder = BLOCK / name
    try:
        major, minor = (int(word) for word in (folder / "dev").read_text().split(":"))
        sectors = int((folder / "size").read_text())
        sector_bytes = int((folder / "queue/logical_block_size").read_text())
    except (OSError, ValueError) as error:
        raise BadInputError(f"{printable(name)}: is no block device any more; see lsblk") from error
    return BlockDevice(name, major << 20 | minor, sectors * SECTOR_BYTES, sector_bytes)


def found(paths: tuple[str, ...]) -> list[BlockDevice]:
    """Those that are named; a partition stands for its disk, whose requests are all counted. All disks unless named."""
    if not paths:
        every = [_disk(entry.name) for entry in sorted(BLOCK.iterdir()) if _has_size(entry)]
        if not every:
            raise BadInputError("there is no block device to watch; see lsblk")
        if len(every) > MOST:
            raise BadInputError(f"there are {len(every)} block devices, and {MOST} can be watched at once; name some")
        return every
    named = [_disk(_disk_name(path)) for path in paths]
    unique = {device.name: device for device in named}
    if len(unique) > MOST:
        raise BadInputError(f"at most {MOST} devices can be watched at once")
    return list(unique.values())


def found_by_number(numbers: Sequence[str]) -> list[BlockDevice]:
    """Disks by MAJOR:MINOR, of themselves or of a partition."""
    disks = {}
    for number in numbers:
        folder = Path(f"/sys/dev/block/{number}")
        if not folder.exists():
            raise BadInputError(f"{printable(number)}: the kernel has no such device any more; see lsblk")
        disk = _disk(_whole(folder.resolve()))
        disks[disk.name] = disk
    return list(disks.values())[:MOST]


def _whole(folder: Path) -> str:
    return folder.parent.name if (folder / "partition").exists() else folder.name


def _has_size(entry: Path) -> bool:
    try:
        return int((entry / "size").read_text()) > 0
    except (OSError, ValueError):
        return False


def _disk_name(path: str) -> str:
    full = path if "/" in path else f"/dev/{path}"
    if not os.path.exists(full) and os.path.exists(path):
        full = path  # a file of the working directory, which is refused by what it is
    try:
        about = os.stat(full)
    except OSError as error:
        raise BadInputError(f"{printable(path)}: does not exist; see lsblk for block devices") from error
    if not stat.S_ISBLK(about.st_mode):
        raise BadInputError(
            f"{printable(path)}: is not a block device, and watch takes only those; lsblk lists them, and "
            f"`df {printable(path)}` shows the one below a file"
        )
    place = Path(f"/sys/dev/block/{os.major(about.st_rdev)}:{os.minor(about.st_rdev)}")
    if not place.exists():
        raise BadInputError(f"{printable(path)}: the kernel has no such device any more; see lsblk")
    return _whole(place.resolve())


def md_arrays(devices: list[BlockDevice]) -> list[str]:
    """md devices that are watched, or that have a watched one as a member."""
    names = {device.name for device in devices}
    arrays = {name for name in names if (BLOCK / name / "md").is_dir()}
    for name in names:
        arrays |= {holder.name for holder in BLOCK.glob(f"{name}/holders/*") if (holder / "md").is_dir()}
        arrays |= {holder.name for holder in BLOCK.glob(f"{name}/{name}*/holders/*") if (holder / "md").is_dir()}
    return sorted(arrays)


def part_name(number: int) -> str:
    """Of a partition or disk, by its number in the kernel."""
    try:
        return Path(f"/sys/dev/block/{number >> 20}:{number & 0xFFFFF}").resolve(strict=True).name
    except OSError:
        return f"{number >> 20}:{number & 0xFFFFF}"

"""Duty: how long a rebuild takes, whether it comes to its end, and how long until data are lost.

A brick of N drives of mean time to failure F loses data when a drive fails and its rebuild, which takes R, does not
come to its end. The mean time to that is F / N over the chance that a rebuild fails:

- RAID-0 and drives by themselves: 1, because any failure loses data;
- RAID-1 of two, and RAID-10: 1 - (1 - R / F) * (1 - u): the partner fails, or has a sector that cannot be read;
- RAID-1 of more: the product of (N - k) * R / F for the further failures k = 1 to N - 2 that it survives, and that of
  RAID-1 of two for the last copy;
- RAID-5: 1 - (1 - (N - 1) * R / F) * (1 - u) ** (N - 1): the same of any of the others;
- RAID-6: (N - 1) * R / F * (1 - (1 - (N - 2) * R / F) * (1 - u) ** (N - 2)): a second fails, and then a third does or
  cannot be read. With one drive missing it still corrects a sector that cannot be read;
- ZFS: pairs of mirrors as RAID-10, raidz1 and draid1 as RAID-5, raidz2 and draid2 as RAID-6; raidz3 and draid3 by one
  failure more: (N - 1) * (N - 2) * (R / F)² * (1 - (1 - (N - 3) * R / F) * (1 - u) ** (N - 3)). Of a dRAID any further
  failure counts, since its groups are spread over all disks; R is the time until the distributed spare is whole.

Without unreadable sectors (u = 0) these are F² / (N · R), F² / (N · (N - 1) · R) (Patterson, Gibson, Katz: A Case for
Redundant Arrays of Inexpensive Disks, SIGMOD 1988, with one group) and F³ / (N · (N - 1) · (N - 2) · R²) (Chen, Lee,
Gibson, Katz, Patterson: RAID: High-Performance, Reliable Secondary Storage, ACM Computing Surveys 26(2), 1994).
The same survey counts uncorrectable bit errors so: u = 1 - (1 - 1 / B) ** bits, the chance that a drive read whole has
an unreadable sector where the data sheet states one in B bits.

Failures are independent and exponential and R is much shorter than F. Failures that come in groups, controllers,
software and people are left out, each of which loses data sooner: these figures rank, they promise nothing.

Refusal: no failure rate of a product is made up; one rate stands for all drives of a class unless a file of prices or
the user gives another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from brickyard.advise.costs import HOURS_A_YEAR
from brickyard.advise.parts import UNPROTECTED
from brickyard.analysis.figures.background import RebuildPace, rebuild_pace
from brickyard.bricks.resolved import ModelledBrick, ModelledKeeper, ModelledZfs, RotatingDrive
from brickyard.errors import BadInputError
from brickyard.store import Record

DEFAULT_MTTF_HOURS = HOURS_A_YEAR / 0.03
"""3 % of drives are replaced a year: the middle of the 2 to 4 % that are common in the field, where data sheets say
under 1 %; SATA drives no oftener than SCSI and FC (Schroeder and Gibson: Disk Failures in the Real World, FAST
2007).
"""


@dataclass(frozen=True)
class FailureRate:
    """The share of drives or volumes of a class that fail in a year."""

    a_year: float
    source: str

    @property
    def mttf_hours(self) -> float:
        return HOURS_A_YEAR / self.a_year


DISKS = FailureRate(0.0137, "disks: 1.37 % a year (Backblaze, drive statistics of 2022, 230,000 drives)")
OLD_DISKS = FailureRate(0.03, "disks below 1 TB: 3 % a year (Schroeder and Gibson, FAST 2007)")
FLASH = FailureRate(0.0098, "flash: 0.98 % a year (Backblaze, SSD statistics of 2022, mostly boot drives)")
OLD_DISKS_BELOW = 1e12


def failures_of(kind: str, capacity_bytes: float) -> FailureRate | None:
    """By the kind of a modelled drive; None for a cloud volume, whose provider states its own."""
    if kind == "rotating":
        return OLD_DISKS if capacity_bytes < OLD_DISKS_BELOW else DISKS
    return None if kind == "cloud" else FLASH


def unreadable(capacity_bytes: float, bits_per_error: float | None) -> float:
    """The chance that a drive that is read whole has a sector that cannot be read; 0 where no rate is known."""
    return -math.expm1(-capacity_bytes * 8 / bits_per_error) if bits_per_error else 0.0


_LIKE = {
    "zmirror": "raid10",
    "raidz1": "raid5",
    "draid1": "raid5",
    "raidz2": "raid6",
    "draid2": "raid6",
    "draid3": "raidz3",
}
"""Levels of ZFS whose data are lost as those of another level."""


def rebuild_fails(level: str, members: int, mttf_hours: float, repair_hours: float, unreadable_share: float) -> float:
    """The chance that data are lost once a member has failed."""
    if level in UNPROTECTED:
        return 1.0
    if repair_hours <= 0:
        raise BadInputError("the repair time must be above 0")
    level = _LIKE.get(level, level)
    one_of = {"raid1": 1, "raid10": 1, "raid5": members - 1, "raid6": members - 1, "raidz3": members - 1}
    others = one_of.get(level)
    if others is None:
        raise BadInputError(f"{level}: no formula for the mean time to data loss of this level")
    if level == "raid1":
        survived = (min(1.0, left * repair_hours / mttf_hours) for left in range(members - 1, 1, -1))
        return math.prod(survived) * _lost(min(1.0, repair_hours / mttf_hours), 1, unreadable_share)
    second = min(1.0, others * repair_hours / mttf_hours)
    if level not in ("raid6", "raidz3"):
        return _lost(second, others, unreadable_share)
    if level == "raidz3":
        third = min(1.0, (members - 2) * repair_hours / mttf_hours)
        fourth = min(1.0, (members - 3) * repair_hours / mttf_hours)
        return second * third * _lost(fourth, members - 3, unreadable_share)
    return second * _lost(min(1.0, (members - 2) * repair_hours / mttf_hours), members - 2, unreadable_share)


def _lost(fails: float, read: int, unreadable_share: float) -> float:
    """Either a drive fails, or one of those that are read has an unreadable sector."""
    errors = -math.expm1(read * math.log1p(-unreadable_share)) if unreadable_share < 1 else 1.0
    return fails + errors - fails * errors


def data_loss_hours(
    level: str, members: int, mttf_hours: float, repair_hours: float, unreadable_share: float = 0.0
) -> float:
    """Mean time to data loss in hours."""
    return mttf_hours / members / rebuild_fails(level, members, mttf_hours, repair_hours, unreadable_share)


def simulated_rebuild_hours(brick: ModelledBrick, record: Record) -> float:
    """By the rebuild of a simulated run; one that made no progress beside this load never ends."""
    pace = rebuild_pace(record)
    return math.inf if pace is None else rebuild_hours(brick, pace)


def rebuild_hours(brick: ModelledBrick, pace: RebuildPace) -> float:
    """How long a member takes to be whole again at the pace of a simulated rebuild beside users: never quicker than the
    drive that is written can be on the mean of its tracks. A distributed spare is on all drives."""
    own = math.inf if brick.draid_spares else brick.drive.own_mb_per_s * 1e6
    return pace.whole_s(own) / 3600


def assumed_rebuild_hours(brick: ModelledBrick, *, writes: bool) -> float | None:
    """The same where no rebuild was simulated, assumed beside users who always have requests for each member; None
    where nothing rebuilds it.

    The controller's pace beside users (that beside writes where the load writes), but never above what the drive itself
    can take: the mean of its outer and inner rate, or its interface. Where a keeper only lets users go first, as Linux
    md has since 4.1, `draining_mb_per_s` is its pace.
    """
    keeper = brick.keeper
    if keeper is None or brick.level in UNPROTECTED:
        return None
    if keeper.zfs is not None:
        allocated = brick.drive.capacity_bytes * keeper.zfs.fill_percent / 100
        return allocated / (resilver_mb_per_s(brick, keeper.zfs) * 1e6) / 3600
    pace = keeper.rebuild_writing_mb_per_s if writes else keeper.rebuild_min_mb_per_s
    if keeper.rebuild_drains:
        pace = max(pace, min(draining_mb_per_s(brick, keeper), keeper.rebuild_max_mb_per_s))
    own = brick.drive.own_mb_per_s
    return brick.drive.capacity_bytes / (min(pace, own) * 1e6) / 3600 if pace > 0 else None


def resilver_mb_per_s(brick: ModelledBrick, zfs: ModelledZfs) -> float:
    """The pace of a resilver beside users that always have a request for each disk: its commands and theirs take turns.
    Onto a distributed spare it scales with the disks over the width of a group (OpenZFS documentation, dRAID)."""
    drive = brick.drive
    rotating = isinstance(drive, RotatingDrive)
    chunk = zfs.vdev_aggregation_limit if rotating else zfs.vdev_aggregation_limit_non_rotating
    pace = chunk / 1e6 / (2 * drive.access_s + chunk / (drive.own_mb_per_s * 1e6))
    if not brick.draid_spares:
        return pace
    parity = int(brick.level[-1])
    data = brick.draid_data or min(8, brick.members - parity - brick.draid_spares)
    return pace * (brick.members - 1) / (data + parity)


def draining_mb_per_s(brick: ModelledBrick, keeper: ModelledKeeper) -> float:
    """The pace of a rebuild whose next chunk begins when all chunks before have ended, beside users that always have a
    request for each member: a chunk is read behind one of their requests, and then written behind one."""
    drive, chunk = brick.drive, keeper.rebuild_chunk_bytes
    return chunk / 1e6 / (2 * (2 * drive.access_s + chunk / (drive.own_mb_per_s * 1e6)))

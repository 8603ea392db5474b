"""Duty: how long a rebuild takes and how long until data are lost, from a brick's parameters.

Mean time to data loss of N drives of mean time to failure F, when a failed one is whole again after R:

- RAID-0 and drives by themselves: F / N, because any failure loses data;
- RAID-1 and RAID-10: F² / (N · R): any of N fails first, then its one partner within R;
- RAID-5: F² / (N · (N - 1) · R) (Patterson, Gibson, Katz: A Case for Redundant Arrays of Inexpensive Disks,
  SIGMOD 1988, with one group);
- RAID-6: F³ / (N · (N - 1) · (N - 2) · R²) (Chen, Lee, Gibson, Katz, Patterson: RAID: High-Performance, Reliable
  Secondary Storage, ACM Computing Surveys 26(2), 1994, "P + Q").

Failures are independent and exponential and R is much shorter than F. Unreadable sectors, failures that come in
groups, controllers, software and people are left out, each of which loses data sooner: these figures rank, they promise
nothing.

Refusal: no failure rate of a product is made up; one rate stands for all drives unless the user gives another.
"""

from __future__ import annotations

from brickyard.errors import BadInputError
from brickyard.store import Json

HOURS_A_YEAR = 8766.0
DEFAULT_MTTF_HOURS = HOURS_A_YEAR / 0.03
"""3 % of drives are replaced a year: the middle of the 2 to 4 % that are common in the field, where data sheets say
under 1 % (Schroeder and Gibson: Disk Failures in the Real World, FAST 2007)."""


def data_loss_hours(level: str, members: int, mttf_hours: float, repair_hours: float) -> float:
    """Mean time to data loss in hours."""
    f, n, r = mttf_hours, members, repair_hours
    if level in ("raid0", "jbod"):
        return f / n
    if r <= 0:
        raise BadInputError("the repair time must be above 0")
    if level in ("raid1", "raid10"):
        return f * f / (n * r)
    if level == "raid5":
        return f * f / (n * (n - 1) * r)
    if level == "raid6":
        return f**3 / (n * (n - 1) * (n - 2) * r * r)
    raise BadInputError(f"{level}: no formula for the mean time to data loss of this level")


def rebuild_hours(brick: Json, *, writes: bool) -> float | None:
    """How long a member takes to be whole again under load all day; None where nothing rebuilds it.

    The controller's pace beside users (that beside writes where the load writes), but never above what the drive itself
    can take: the mean of its outer and inner rate, or its interface.
    """
    keeper = brick.get("software") or brick.get("controller")
    if keeper is None or brick["level"] in ("raid0", "jbod"):
        return None
    drive = brick["drive"]
    own = (
        (float(drive["outer_mb_per_s"]) + float(drive["inner_mb_per_s"])) / 2
        if drive["kind"] == "rotating"
        else float(drive.get("interface_mb_per_s") or drive["mb_per_s"])
    )
    pace = float(keeper["rebuild_writing_mb_per_s" if writes else "rebuild_min_mb_per_s"])
    return _bytes(drive["capacity_bytes"]) / (min(pace, own) * 1e6) / 3600 if pace > 0 else None


def _bytes(value: object) -> float:
    from brickyard import _core

    return float(value) if isinstance(value, int | float) else float(_core.parse_bytes(str(value)))

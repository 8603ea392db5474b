"""Duty: the charts of drive classes (Demartek 2009) and interfaces (Overland 2007), computed from single drives.

The mean service time of random 512 B reads, one at a time, without half a rotation and the command, is a drive's seek;
sequential reads of 1 MiB give the transfer rate at its inner and its outer end; random 8 KiB reads with one and with
four in flight the I/Os per second, since the guide does not say how many there were. A computed range agrees with a
published one when it touches it, and with a single published figure when it comes within 25 % of it: the guides round
that much.

Refusal: a class without a modelled drive has no figure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from brickyard.advise.chart_loads import plan
from brickyard.advise.simulate import Brick, rates, simulate
from brickyard.analysis.figures.totals import totals
from brickyard.bricks.resolved import RotatingDrive
from brickyard.errors import BadInputError
from brickyard.units import three_digits

AGREES_WITHIN = 0.25
CLASSES = {
    "Enterprise": ("cheetah-15k4-300", "cheetah-15k5-300"),
    "Desktop": ("barracuda-7200-11-500", "barracuda-es-750"),
    "Notebook": ("travelstar-5k160",),
    "Consumer": ("microdrive-3k4",),
    "ATA/IDE": ("deskstar-75gxp", "fireball-plus-60"),
    "SATA II": ("barracuda-es-500", "barracuda-es-750"),
    "SCSI": ("cheetah-x15", "cheetah-15k5-300-scsi"),
    "SAS": ("cheetah-15k4-300", "cheetah-15k5-300"),
    "FC": ("cheetah-10k-36-fc", "cheetah-15k5-300-fc"),
}
"""Modelled drives of the classes and interfaces that the charts speak of, as near to their years as there are."""

WHY = {
    (
        "ATA/IDE",
        "I/Os per s",
    ): "50 a second are 20 ms a read: a drive of 5,400 rpm (5.6 ms) with a seek near 14 ms; the "
    "modelled ones turn 7,200 times and seek in 8.5 ms; without a queue, depth changes nothing",
    (
        "SATA II",
        "I/Os per s",
    ): "130 take a queue of more than four: one at a time, 8.5 ms of seek and 4.2 ms of rotation allow 78",
    ("SCSI", "I/Os per s"): "140 are 10,000 rpm with one in flight; the modelled ones turn 15,000 times",
    ("SAS", "I/Os per s"): "210 lie between one and four in flight",
    ("FC", "I/Os per s"): "10,000 rpm (2001) to 15,000 rpm (2007)",
    ("ATA/IDE", "transfer MB/s"): "the modelled ones are ATA/100; 133 is the last ATA",
    ("SCSI", "transfer MB/s"): "Ultra160 (2000) to Ultra320",
    ("FC", "transfer MB/s"): "2 Gb to 4 Gb; 100 is the 1 Gb of 1997",
    ("Consumer", "transfer MB/s"): "a 1-inch drive is the slow end; 40 are 1.8-inch drives, of which none is modelled",
}
"""What lies behind a computed figure where it is not plain; facts of the drives, none is used in computing."""


@dataclass(frozen=True)
class DriveFigures:
    seek_ms: float
    transfer_mb_per_s: tuple[float, float]
    ios_per_s: tuple[float, float]
    interface_mb_per_s: float


@cache
def drive_figures(name: str) -> DriveFigures:
    brick = Brick(name)
    drive = brick.resolve().brick.drive
    if not isinstance(drive, RotatingDrive):
        raise BadInputError(f"{name}: has no arm, so it has no seek time")
    single = totals(simulate(plan("seeks", "512", "random", 1), brick))[0].measures["service"].mean_ns
    half_rotation_ns = 60e9 / float(drive.rpm) / 2
    seek_ns = single - half_rotation_ns - drive.command_overhead.ns
    # Ends that are read once: what is read again would come out of the drive's cache.
    ends = [
        rates(simulate(plan("transfer", "1MiB", "sequential", 2, region=region, seconds=5), brick))[1] / 1e6
        for region in ("96%..100%", "0..4%")
    ]
    ios = [rates(simulate(plan("reads", "8KiB", "random", depth), brick))[0] for depth in (1, 4)]
    return DriveFigures(seek_ns / 1e6, (min(ends), max(ends)), (min(ios), max(ios)), drive.interface_mb_per_s)


def computed_range(item: str, chart: str, criterion: str) -> tuple[float, float] | None:
    """The least and the largest figure of the drives of a class."""
    drives = CLASSES.get(item, ())
    if not drives:
        return None
    figures = [drive_figures(name) for name in drives]
    if criterion == "average seek ms":
        values = [f.seek_ms for f in figures]
    elif criterion == "I/Os per s":
        values = [end for f in figures for end in f.ios_per_s]
    elif chart == "interface":
        values = [f.interface_mb_per_s for f in figures]
    else:
        values = [end for f in figures for end in f.transfer_mb_per_s]
    return min(values), max(values)


def ends_of(said: str) -> tuple[float, float]:
    """`3-5`, or a single figure."""
    ends = [float(word.replace(",", "")) for word in said.split("-")]
    return ends[0], ends[-1]


def agrees(low: float, high: float, said: str) -> bool:
    """Whether a computed range touches a published one, or comes within 25 % of a single figure."""
    least, most = ends_of(said)
    slack = AGREES_WITHIN if least == most else 0.0
    return low <= most * (1 + slack) and high >= least * (1 - slack)


def range_text(low: float, high: float) -> str:
    ends = list(dict.fromkeys((three_digits(low), three_digits(high))))
    return "-".join(ends)

"""Duty: histograms of VMware's vscsiStats (`vscsiStats -p all -c`) → a profile.

Sizes of reads and writes, the share of sequential ones, the rate and the depth are in the histograms. Where requests go
and how arrivals are spread is not. The disk with the most commands is taken.

Refusal: a text without sizes of reads or writes, or without the times between arrivals, makes no profile.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from brickyard.errors import BadInputError
from brickyard.formats import toml_text
from brickyard.formats.fio_job import Imported
from brickyard.formats.profile_parts import RANDOM, SEQUENTIAL, Address, Limits, OpenLoop, ProfilePhase, ProfileStream
from brickyard.units import SECTOR_BYTES, format_percent

HEAD = re.compile(r"Histogram: ([^,]+),.*worldgroup ID *: *(\d+).*handle ID *: *(\d+)")
LINE = re.compile(r"\s*(\d+)\s*,\s*>?\s*(-?\d+)\s*$")
MEAN, LARGEST = (re.compile(rf"\s*{name}\s*,\s*(-?\d+)\s*$") for name in ("mean", "max"))
SIZES = {"read": "IO lengths of Read commands", "write": "IO lengths of Write commands"}
PLACES = {
    "read": "distance (in LBNs) between successive Read commands",
    "write": "distance (in LBNs) between successive Write commands",
}
DEPTHS = "number of outstanding IOs when a new IO is issued"
GAPS = "latency of IO interarrival time in Microseconds (us)"
NEXT = 1
"""A command that begins at the next sector is sequential."""
PAGE_BYTES = 4096
PARTLY, NEARLY_ALL = 0.25, 0.98
"""From here on a stream is made of runs, and from there on it is one."""
DURATION = "60s"
ROOM = 4


@dataclass
class Histogram:
    counts: list[tuple[int, int]] = field(default_factory=list)
    """Upper limit of a bucket, and how many are in it."""
    mean: int = 0
    largest: int = 0

    @property
    def total(self) -> int:
        return sum(count for _, count in self.counts)

    def share_of(self, limit: int) -> float:
        return sum(count for upper, count in self.counts if upper == limit) / self.total if self.total else 0.0


Disk = dict[str, Histogram]


def is_vscsistats(text: str) -> bool:
    return HEAD.search(text) is not None


def import_vscsistats(name: str, text: str) -> Imported:
    disks = read_histograms(text)
    handle, disk = max(disks.items(), key=lambda item: _commands(item[1]))
    notes = []
    if len(disks) > 1:
        notes.append(f"{len(disks)} disks are in the file; the profile is of {handle}, which has the most commands.")
    if not _commands(disk):
        raise BadInputError("no histogram of IO lengths of Read or Write commands; print them with -p all -c")
    gap_us = disk.get(GAPS, Histogram()).mean
    if gap_us <= 0:
        raise BadInputError("no mean of the times between arrivals (IO interarrival); print them with -p all -c")
    notes += [
        "The histograms do not say where requests go; they are spread over the whole target.",
        "Arrivals are independent of each other; the histograms do not say how bursts follow each other.",
    ]
    rate = 1e6 / gap_us
    depth = max((limit for limit, count in disk.get(DEPTHS, Histogram()).counts if count), default=32)
    streams = [
        _stream(disk, operation, rate, max(depth * ROOM, 32), notes)
        for operation in SIZES
        if disk.get(SIZES[operation], Histogram()).total
    ]
    about = [f"Made of histograms of {_commands(disk):,} commands, of which {rate:,.1f}/s arrived."]
    phase = ProfilePhase(None, Limits(duration=DURATION), streams)
    return Imported(
        toml_text.profile_text(name, f"like {name}", "vscsiStats", about, [phase]), [handle.split(" ")[-1]], notes
    )


def read_histograms(text: str) -> dict[str, Disk]:
    """By world and handle."""
    disks: dict[str, Disk] = {}
    at: Histogram | None = None
    for line in text.splitlines():
        if head := HEAD.search(line):
            what, world, handle = head.groups()
            at = disks.setdefault(f"world {world}, handle {handle}", {}).setdefault(what.strip(), Histogram())
        elif at is not None and (found := LINE.match(line)):
            at.counts.append((int(found.group(2)), int(found.group(1))))
        elif at is not None and (found := MEAN.match(line)):
            at.mean = int(found.group(1))
        elif at is not None and (found := LARGEST.match(line)):
            at.largest = int(found.group(1))
    if not disks:
        raise BadInputError("no histogram of vscsiStats; print them with -p all -c")
    return disks


def _commands(disk: Disk) -> int:
    return sum(disk.get(name, Histogram()).total for name in SIZES.values())


def _stream(disk: Disk, operation: str, rate: float, depth: int, notes: list[str]) -> ProfileStream:
    sizes = disk[SIZES[operation]]
    share = sizes.total / _commands(disk)
    sequential = disk.get(PLACES[operation], Histogram()).share_of(NEXT)
    sizes_kept = _whole_sizes(sizes, operation, notes)
    return ProfileStream(
        name=f"{operation}s",
        operations=toml_text.operations(100 if operation == "read" else 0),
        request=toml_text.request(sizes_kept),
        align=toml_text.size(math.gcd(*sizes_kept) & -math.gcd(*sizes_kept)),
        address=_address(sequential),
        depth=depth,
        pace=OpenLoop(round(rate * share, 3), "poisson"),
    )


def _whole_sizes(sizes: Histogram, operation: str, notes: list[str]) -> dict[int, float]:
    """Buckets that hold one size are named by it (4096); others (4095, 8191) hold what lies below, down to the last."""
    found: dict[int, float] = {}
    rounded, before = 0, SECTOR_BYTES - 1
    for number, (limit, count) in enumerate(sizes.counts):
        is_last = number == len(sizes.counts) - 1 and number and limit == sizes.counts[number - 1][0]
        upper = max(sizes.largest, limit) if is_last else limit
        unit = PAGE_BYTES if upper >= PAGE_BYTES else SECTOR_BYTES
        whole = max(upper // unit * unit, SECTOR_BYTES)
        if count:
            found[whole] = found.get(whole, 0) + count
            rounded += 0 if limit == before + 1 and not is_last else count
        before = limit
    if rounded:
        text = format_percent(rounded / sizes.total)
        notes.append(
            f"{text} of {operation}s are in buckets of several sizes; they have the largest whole pages of each."
        )
    return found


def _address(sequential: float) -> Address:
    if sequential >= NEARLY_ALL:
        return SEQUENTIAL
    if sequential >= PARTLY:
        return Address("runs", random=round((1 - sequential) * 100, 2))
    return RANDOM

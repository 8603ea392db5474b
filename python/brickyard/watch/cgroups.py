"""Duty: names of cgroups, what limits they have on a device, and how near to these they were. Refusal: changes none."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from brickyard.watch.devices import BlockDevice
from brickyard.watch.seen import NS, WatchInterval

ROOT = Path("/sys/fs/cgroup")
MOST_FOLDERS = 20_000
FILES_V1 = {"rbps": "read_bps", "wbps": "write_bps", "riops": "read_iops", "wiops": "write_iops"}
MOVED = {"rbps": "read_bytes", "wbps": "write_bytes", "riops": "reads", "wiops": "writes"}
"""What a limit of this name is about."""
OWN = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class Throttle:
    """A limit of a cgroup on a device: rbps, wbps, riops or wiops."""

    kind: str
    per_s: int


def cgroup_names(wanted: set[int]) -> dict[int, str]:
    """By the number that the kernel has for each; one that is gone has no name."""
    names: dict[int, str] = {}
    seen = 0
    for folder, _, _ in os.walk(ROOT):
        seen += 1
        if seen > MOST_FOLDERS or wanted <= set(names):
            break
        try:
            number = os.stat(folder).st_ino
        except OSError:
            continue
        name = "/" + str(Path(folder).relative_to(ROOT)).removeprefix(".")
        if number in wanted and (number not in names or _limits_io(Path(folder))):
            names[number] = name
    return names


def _limits_io(folder: Path) -> bool:
    return (folder / "io.max").exists() or (folder / "blkio.throttle.read_bps_device").exists()


def throttles(name: str, device: BlockDevice) -> list[Throttle]:
    """What `io.max`, or cgroups of version 1, allow a cgroup on a device."""
    folder, number = ROOT / name.lstrip("/"), f"{device.number >> 20}:{device.number & 0xFFFFF}"
    found = []
    for line in _lines(folder / "io.max"):
        words = line.split()
        if words[:1] == [number]:
            pairs = (word.partition("=") for word in words[1:])
            found += [Throttle(kind, int(value)) for kind, _, value in pairs if value.isdigit()]
    for kind, file in FILES_V1.items():
        for line in _lines(folder / f"blkio.throttle.{file}_device"):
            words = line.split()
            if len(words) == 2 and words[0] == number and words[1].isdigit():
                found.append(Throttle(kind, int(words[1])))
    return found


def own_cgroups(names: dict[int, str]) -> dict[int, str]:
    """Those of this process, out of what `cgroup_names` found."""
    paths = set()
    for line in _lines(OWN):
        _, controllers, path = line.split(":", 2)
        hierarchies = [*controllers.split(","), controllers] if controllers else ["", "unified"]
        paths |= {f"/{one}{path}".replace("//", "/").rstrip("/") for one in hierarchies}
    return {number: name for number, name in names.items() if name.rstrip("/") in paths}


def rate_of(kind: str, interval: WatchInterval, device: int, cgroup: int) -> float:
    owners = [one for one in interval.owners if one.device == device and one.cgroup == cgroup]
    seconds = max((interval.end_ns - interval.start_ns) / NS, 1e-9)
    return sum(getattr(one, MOVED[kind]) for one in owners) / seconds if kind in MOVED else 0.0


def _lines(place: Path) -> list[str]:
    try:
        return place.read_text().splitlines()
    except OSError:
        return []

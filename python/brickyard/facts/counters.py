"""The kernel's running counters, kept open so that a sample costs microseconds.

Duty: block-layer counters of a device, CPU time, thermal throttling. Refusal: it computes no rates; that is `watch`.
"""

from __future__ import annotations

import os
import re

from brickyard.schema.watch_sheet import CpuShares

from .roots import SECTOR_BYTES, Roots, as_number, entries

# In the order of the file; sectors become bytes under the second name. Discards came with Linux 4.18, flushes with 5.5.
STAT_FIELDS = (
    "read_requests",
    "reads_merged",
    "read_bytes",
    "read_ms",
    "write_requests",
    "writes_merged",
    "write_bytes",
    "write_ms",
    "in_flight",
    "busy_ms",
    "weighted_ms",
    "discard_requests",
    "discards_merged",
    "discard_bytes",
    "discard_ms",
    "flush_requests",
    "flush_ms",
)
# These are levels, not counters: a difference of them means nothing.
LEVELS = {"in_flight"}
# The kernel prints its milliseconds as 32-bit numbers, which start again after 49 days of waiting.
MILLISECONDS_MODULUS = 1 << 32

# proc_stat(5): user nice system idle iowait irq softirq steal; guest time that follows is counted within user already.
CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
IDLE = {"idle", "iowait"}
STEAL = "steal"


class OpenFile:
    """A file of /sys or /proc that is read again and again from its start."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            self.handle = -1

    def read(self, limit: int = 1 << 16) -> bytes | None:
        if self.handle < 0:
            return None
        try:
            return os.pread(self.handle, limit, 0)
        except OSError:
            # A device that was pulled answers ENODEV.
            return None

    def close(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


def parse_stat(content: bytes | None) -> dict[str, int] | None:
    """The counters of one device, in requests, bytes and milliseconds; None for anything that is not such a line."""
    words = (content or b"").split()
    if len(words) < 11:
        return None
    found: dict[str, int] = {}
    for name, word in zip(STAT_FIELDS, words, strict=False):
        if not word.isdigit() or len(word) > 20:
            return None
        found[name] = int(word) * (SECTOR_BYTES if name.endswith("_bytes") else 1)
    return found


def counted(name: str, before: int, after: int) -> int:
    """How far a counter went; negative where it was set back, which the kernel's milliseconds do by themselves."""
    delta = after - before
    return delta % MILLISECONDS_MODULUS if delta < 0 and name.endswith("_ms") else delta


def difference(before: dict[str, int], after: dict[str, int]) -> dict[str, int] | None:
    """What was counted in between, or None where a counter went back, as when a device was replaced by another."""
    result = {
        name: counted(name, before[name], value)
        for name, value in after.items()
        if name not in LEVELS and name in before
    }
    return None if any(delta < 0 for delta in result.values()) else result


def parse_cpus(content: bytes | None, total_only: bool = False) -> dict[str, dict[str, int]]:
    """Clock ticks by kind for "cpu" (all of them) and, unless only the total is wanted, each of cpu0, cpu1 …"""
    if total_only:
        content = (content or b"").partition(b"\n")[0]
    found: dict[str, dict[str, int]] = {}
    for line in (content or b"").decode("ascii", "replace").splitlines():
        words = line.split()
        if not words or not words[0].startswith("cpu"):
            # The lines of CPUs come first; what follows may be long on a host with many interrupts.
            break
        ticks = [as_number(word) for word in words[1:9]]
        if len(ticks) >= 4 and all(tick is not None for tick in ticks):
            found[words[0]] = {name: tick or 0 for name, tick in zip(CPU_FIELDS, ticks, strict=False)}
    return found


def cpu_shares(before: dict[str, int], after: dict[str, int]) -> CpuShares:
    """Shares of the time that went by: busy (steal left out), steal, and steal of the time that was wanted."""
    # Idle time may step back a little where a CPU sleeps without ticks; such a step counts as none.
    delta = {name: max(0, after[name] - before.get(name, 0)) for name in after}
    total = sum(delta.values())
    steal = delta.get(STEAL, 0)
    busy = total - steal - sum(delta.get(name, 0) for name in IDLE)
    if not total:
        return CpuShares()
    return CpuShares(
        busy_share=busy / total,
        steal_share=steal / total,
        steal_of_demand_share=steal / (busy + steal) if busy + steal else 0.0,
    )


def throttle_files(roots: Roots) -> list[OpenFile]:
    """Core counters of each CPU, and one of each package: siblings would count the package's again."""
    base = roots.at_sys("devices", "system", "cpu")
    found: list[OpenFile] = []
    packages: set[str] = set()
    for core in entries(base):
        directory = os.path.join(base, core, "thermal_throttle")
        if not re.fullmatch(r"cpu\d+", core) or not os.path.isdir(directory):
            continue
        found.append(OpenFile(os.path.join(directory, "core_throttle_count")))
        topology = OpenFile(os.path.join(base, core, "topology", "physical_package_id"))
        package = (topology.read() or core.encode()).decode("ascii", "replace").strip()
        topology.close()
        if package not in packages:
            packages.add(package)
            found.append(OpenFile(os.path.join(directory, "package_throttle_count")))
    return found


def read_number(file: OpenFile) -> int | None:
    content = file.read(256)
    return None if content is None else as_number(content.decode("ascii", "replace").strip())

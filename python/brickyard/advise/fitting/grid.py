"""Duty: the loads that a fit measures where there are no runs yet: a few sizes and depths, each a second or so.

Refusal: it gives no consent; where writes are refused the model's write path stays assumed.
"""

from __future__ import annotations

from brickyard import profiles
from brickyard.schema.plan import Plan

KIB, MIB = 1024, 1 << 20
READS = (
    # random small requests: latency at the first, parallelism and the limit at the others
    *(("random", 100, 4 * KIB, depth) for depth in (1, 2, 4, 8, 16, 32, 64)),
    *(("random", 100, size, 1) for size in (16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB)),
    *(("random", 100, 128 * KIB, depth) for depth in (4, 16)),
    ("random", 100, MIB, 16),
    *(("sequential", 100, size, 1) for size in (4 * KIB, 64 * KIB, MIB)),
    *(("sequential", 100, MIB, depth) for depth in (4, 16)),
    ("sequential", 100, 64 * KIB, 16),
)
WRITES = (
    *(("random", 0, 4 * KIB, depth) for depth in (1, 2, 4, 16, 32)),
    *(("random", 0, size, 4) for size in (16 * KIB, 64 * KIB)),
    *(("sequential", 0, size, 1) for size in (4 * KIB, 64 * KIB, MIB)),
    *(("sequential", 0, MIB, depth) for depth in (4, 16)),
    ("random", 70, 4 * KIB, 16),
    ("random", 70, 8 * KIB, 4),
    ("random", 50, 64 * KIB, 8),
)
TOML = """title = "{title}"
source = "a load that `brickyard advise fit` measures"
interval = "{interval:.3f}s"
[[phase]]
duration = "{seconds:.3f}s"
{limit}warmup = "{warmup:.3f}s"
[[phase.stream]]
name = "load"
operations = {{ read = {reads}, write = {writes} }}
request = {size}
address = "{address}"
depth = {depth}
sync = "{sync}"
"""
DURABLE = ("sequential", 0, 4 * KIB, 1)
"""Each on the medium before the next is sent: a disk then writes one a revolution."""


WARMUP_S = 0.1
ENOUGH_REQUESTS = 500
MOST_LONGER = 10.0
MODELLED_S, MODELLED_REQUESTS = 60.0, 50_000
"""In virtual time a slow brick costs nothing, and a fast one has filled its cache after so many requests."""
MODELLED_LONG_S, MODELLED_LONG_REQUESTS = 120.0, 250_000
"""For the caches of controllers: close to 1 GiB of 4 KiB."""

LONG = {
    "random-writes": ("random", 0, 4 * KIB, 32),
    "sequential-writes": ("sequential", 0, MIB, 4),
    "random-reads": ("random", 100, 4 * KIB, 32),
}
"""What one long load may be: it fills caches, or spends credits."""
LONG_INTERVALS = 240


def longer(seconds: float, iops: float) -> float:
    """How long each load lasts where one request after the other comes at this rate."""
    return seconds * min(max(ENOUGH_REQUESTS / max(iops * seconds, 1.0), 1.0), MOST_LONGER)


def plans(seconds: float, *, writes: bool, requests: int | None = None) -> list[Plan]:
    """Reads first: no read then waits for what writes have left behind in caches. The first is of one at a time."""
    limit = "" if requests is None else f"requests = {requests}\n"
    loads = [(*load, "none") for load in (READS + WRITES if writes else READS)]
    loads += [(*DURABLE, "dsync")] if writes else []
    return [_plan(*load, seconds, limit) for load in loads]


def long_plan(load: str, seconds: float, *, requests: int | None = None) -> Plan:
    """Of one load as long as is asked, with intervals that show when its rate falls."""
    limit = "" if requests is None else f"requests = {requests}\n"
    return _plan(*LONG[load], "none", seconds, limit, max(0.05, seconds / LONG_INTERVALS))


def _plan(
    address: str, reads: int, size: int, depth: int, sync: str, seconds: float, limit: str, interval_s: float = 0.25
) -> Plan:
    title = f"{address} {reads} % reads of {size} B, {depth} in flight"
    text = TOML.format(
        title=title,
        interval=interval_s,
        seconds=seconds,
        warmup=WARMUP_S,
        limit=limit,
        reads=reads,
        writes=100 - reads,
        size=size,
        address=address,
        depth=depth,
        sync=sync,
    )
    return profiles.validate(profiles.ProfileText("fit", text, ""), [])

"""Duty: why a request was slow, from what was seen while it was under way. Refusal: where the evidence does not say,
the cause is unknown.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.units import format_ns, format_percent, format_size
from brickyard.watch.seen import NS, Pairs, SeenCell, SlowRequest, class_of, time_ns
from brickyard.watch.totals import DeviceTotals, WatchTotals, median_ns, percentile_ns

BEFORE, SCHEDULER, FLUSH, OTHERS, OWN = (
    "before the queue",
    "scheduler",
    "behind a flush",
    "other processes",
    "own requests",
)
DEVICE, PERIODIC, RESYNC, STEAL, UNKNOWN = "device", "device, periodic", "resync", "CPU steal", "unknown"
CAUSES = (BEFORE, SCHEDULER, FLUSH, OTHERS, OWN, DEVICE, PERIODIC, RESYNC, STEAL, UNKNOWN)
MEANINGS = {
    BEFORE: "waited for a free request: the queue was full, or write-back was throttled",
    SCHEDULER: "waited in the kernel's queue: the device had all the requests that it takes",
    FLUSH: "a flush was under way for most of the time",
    OTHERS: "the device served other processes first",
    OWN: "the device served earlier requests of the same process first",
    DEVICE: "the device was slow: it ended fewer requests meanwhile than it usually does, or had no other",
    PERIODIC: "as before, and at regular times, as the work inside a drive is (garbage collection)",
    RESYNC: "an array was rebuilding or being scrubbed at that time",
    STEAL: "the hypervisor ran something else on this CPU",
    UNKNOWN: "the evidence does not show the cause",
}
HALF = 0.5
STOLEN = 0.2
"""Less steal than a fifth of all CPUs' time explains no outlier."""
OUTLIER = 2.0
"""Within twice the usual time of the device, a request was not slow there."""
STALLED = 0.5
"""It ended less than half of what it usually does in that time."""
LEAST_EXPECTED = 2.0
"""Where the device usually ends fewer than two requests in that time, none is no evidence."""
CACHED = 0.2
"""Reads of two kinds, from the drive's own cache and from its medium, are told apart where each has this share."""
BETWEEN = 0.05
"""… and hardly any lies between them, in two octaves: times that merely vary fill these."""
APART = 8
LEAST_ALIKE = 20
"""Requests of like size, without which nothing is usual for that size."""
SERVED_BY_TASKS = ("loop", "md", "dm-", "nbd", "zram", "ublk", "drbd", "rbd", "bcache")
"""Devices whose requests tasks of this host serve: without a CPU, they are as slow as a slow device."""
EPISODES = 5
EPISODE_GAP_NS = 50_000_000
REGULAR = 0.15
"""Coefficient of variation of the distances between episodes; of random ones it is about 1."""


@dataclass(frozen=True)
class Explained:
    request: SlowRequest
    cause: str
    evidence: str


def explained(totals: WatchTotals) -> list[Explained]:
    """Each slow request that was told, the slowest first."""
    names = list(totals.devices)
    told = [_explained(one, totals.devices[names[one.device]]) for one in totals.slow if one.device < len(names)]
    return sorted(_periodic(told), key=lambda one: -one.request.total_ns)


def cause_shares(told: Sequence[Explained]) -> list[tuple[str, int, float]]:
    """Cause, requests, and share of the time of all of them; the largest first."""
    time_of: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for one in told:
        time_of[one.cause] += one.request.total_ns
        count[one.cause] += 1
    whole = sum(time_of.values())
    return [(cause, count[cause], ns / whole) for cause, ns in time_of.most_common()] if whole else []


def _explained(one: SlowRequest, device: DeviceTotals) -> Explained:
    cause, evidence = _cause(one, device)
    return Explained(one, cause, evidence)


def _cause(one: SlowRequest, device: DeviceTotals) -> tuple[str, str]:
    total = max(one.total_ns, 1)
    if one.before_ns + one.queue_ns >= HALF * total:
        before = f"{format_percent(one.before_ns / total)} of its time before it became a request"
        queued = f"{format_percent(one.queue_ns / total)} of its time between insertion and issue"
        return (BEFORE, before) if one.before_ns >= one.queue_ns else (SCHEDULER, queued)
    if one.operation == "flush":
        return FLUSH, "is a flush itself"
    if one.flush_ns >= HALF * total:
        return FLUSH, f"a flush was in the device for {format_percent(one.flush_ns / total)} of its time"
    if one.resync_per_s > 0:
        return RESYNC, f"it progressed at {one.resync_per_s / (1 << 20):.1f} MiB/s meanwhile"
    if one.steal_share >= STOLEN:
        return STEAL, f"{format_percent(one.steal_share)} of all CPU time was stolen"
    return _in_device(one, device)


def _in_device(one: SlowRequest, device: DeviceTotals) -> tuple[str, str]:
    cell = device.cells.get(one.operation)
    if cell is None or not cell.device or one.device_ns < HALF * one.total_ns:
        return UNKNOWN, "too little was seen of it"
    took = f"{format_ns(one.device_ns)} in the device"
    usual, cached = _usual_ns(one, cell), _cached(cell)
    if usual is None:
        alone = f"{took}; too few requests of {format_size(one.bytes)} to know what is usual for that size"
    elif cached is None:
        alone = f"{took}, usually {format_ns(usual)} for that size"
    else:
        usual *= cached.others_longer
        alone = (
            f"{took}, usually {format_ns(usual)} for that size without the {format_percent(cached.share)} of reads that"
            f" took less than {format_ns(cached.below_ns)}, as from a cache of the drive"
        )
    ended = one.done_own + one.done_others + one.done_unknown
    if usual is not None and one.device_ns >= OUTLIER * usual and (stalled := _stalled(one, device, ended)):
        if device.name.startswith(SERVED_BY_TASKS) and one.cpu_wait_ns >= HALF * one.device_ns:
            waited = f"tasks waited up to {format_ns(one.cpu_wait_ns)} for a CPU around that time"
            return UNKNOWN, f"{alone}; {waited}, and tasks of this host serve the device"
        return DEVICE, f"{alone}; {stalled}"
    if one.done_unknown:
        return UNKNOWN, f"{alone}; {one.done_unknown:,} requests of processes that cannot be told apart ended before it"
    if one.done_others > one.done_own and one.done_others >= 2:
        return (
            OTHERS,
            f"{one.done_others:,} requests of other processes and {one.done_own:,} of its own ended before it",
        )
    if one.done_own >= 2:
        return OWN, f"{one.done_own:,} requests of its own process and {one.done_others:,} of others ended before it"
    return UNKNOWN, alone


def _usual_ns(one: SlowRequest, cell: SeenCell) -> float | None:
    """What others of like size took in the device on average; of requests without data, what half of them took. None
    where too few are alike.
    """
    if not one.bytes:
        return median_ns(cell.device)
    requests, device_ns = next((sums for number, *sums in cell.classes if number == class_of(one.bytes)), (0, 0))
    if requests - 1 < LEAST_ALIKE:
        return None
    return (device_ns - one.device_ns) / (requests - 1)


@dataclass(frozen=True)
class _Cached:
    """Reads that a cache of the drive answered."""

    share: float
    below_ns: int
    others_longer: float
    """Mean time of the other reads over that of all."""


def _cached(cell: SeenCell) -> _Cached | None:
    """By the times of reads in the device alone; None where they are of one kind."""
    slow_ns = percentile_ns(cell.device, 90.0)
    if cell.operation != "read" or slow_ns is None:
        return None
    count = sum(number for _, number in cell.device)
    below_ns = slow_ns // APART
    hits = [(bucket, number) for bucket, number in cell.device if time_ns(bucket + 1) <= below_ns]
    between = sum(number for bucket, number in cell.device if below_ns // 2 <= time_ns(bucket) < below_ns * 2)
    share = sum(number for _, number in hits) / count
    if not CACHED <= share <= 1 - CACHED or between > BETWEEN * count:
        return None
    all_ns, hit_ns = _sum_ns(cell.device), _sum_ns(hits)
    return _Cached(share, below_ns, (all_ns - hit_ns) / (1 - share) / all_ns)


def _sum_ns(times: Pairs) -> float:
    """By the middle of each bucket."""
    return sum((time_ns(bucket) + time_ns(bucket + 1)) / 2 * number for bucket, number in times)


def _stalled(one: SlowRequest, device: DeviceTotals, ended: int) -> str:
    """How it shows that the device itself was slow, if it does."""
    if one.depth == 1 and not ended:
        return "no other request was in the device when it arrived, and none ended meanwhile"
    expected = one.device_ns / NS * device.active_per_s
    if expected >= LEAST_EXPECTED and ended < STALLED * expected:
        return f"meanwhile it ended {ended:,} others, usually about {expected:,.0f}"
    return ""


def _periodic(told: list[Explained]) -> list[Explained]:
    """Slow times of the device that come at regular distances. Those of one kind are of one length: what took less than
    half of the longest is something else."""
    changed = list(told)
    for number in {one.request.device for one in told}:
        slow = [one for one in told if one.cause == DEVICE and one.request.device == number]
        longest_ns = max((one.request.device_ns for one in slow), default=0)
        mine = [one for one in slow if one.request.device_ns >= HALF * longest_ns]
        kind = {id(one) for one in mine}
        starts: list[int] = []
        last = 0
        for one in sorted(mine, key=lambda one: one.request.arrived_ns):
            if not starts or one.request.arrived_ns > last + EPISODE_GAP_NS:
                starts.append(one.request.arrived_ns)
            last = max(last, one.request.arrived_ns + one.request.total_ns)
        gaps = [after - before for before, after in itertools.pairwise(starts)]
        if len(starts) < EPISODES:
            continue
        mean = statistics.fmean(gaps)
        if statistics.stdev(gaps) > REGULAR * mean:
            continue
        words = f"; one of {len(starts)} at intervals of {format_ns(mean)}"
        changed = [
            Explained(one.request, PERIODIC, one.evidence + words) if id(one) in kind else one for one in changed
        ]
    return changed

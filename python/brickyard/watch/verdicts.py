"""Duty: what an expert would say of the figures, each sentence with those that it follows from.

Refusal: nothing from fewer than 100 requests, but that some failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.units import format_counted, format_percent, format_size, three_digits
from brickyard.watch.cgroups import Throttle
from brickyard.watch.seen import NS, READS, WRITES, SeenCell
from brickyard.watch.totals import DeviceTotals, aligned_share, mean_depth, share_at_depth_one

ENOUGH = 100
PAGE = 4096
SMALL = 64 << 10
MUCH = 0.05
AT_LIMIT = 0.9
LEAST_AT_LIMIT = 2
WAITING = 0.2
WASTED = 2
"""So many times what is used are read ahead; a stream that goes on has but its last windows unused."""
LEAST_FLUSHES = 10
"""One flush that took long says nothing of flushes."""


@dataclass(frozen=True)
class Opinion:
    """A sentence, and the name and value of the figure behind it."""

    device: str
    text: str
    figure: str
    value: float


def opinions(device: DeviceTotals, stripe_bytes: int, seconds: float) -> list[Opinion]:
    """Of a device that was watched for so long."""
    found = [
        *_alignment(device, stripe_bytes),
        *_depth(device),
        *_flushes(device, seconds),
        *_waiting(device),
        *_sequence(device),
        *_ahead(device),
        *_failures(device),
    ]
    return [Opinion(device.name, text, figure, value) for text, figure, value in found]


_Said = list[tuple[str, str, float]]


def _alignment(device: DeviceTotals, stripe_bytes: int) -> _Said:
    writes = device.cell(*WRITES)
    said: _Said = []
    if writes.requests < ENOUGH or not writes.alignments:
        return said
    if stripe_bytes:
        off = 1 - writes.stripe_aligned / writes.requests
        if off > MUCH:
            text = f"{format_percent(off)} of writes are not aligned to the {format_size(stripe_bytes)} stripe"
            said.append((text, "unaligned_to_stripe_share", off))
        full = writes.stripe_full_bytes / max(writes.bytes, 1)
        if full < 1 - MUCH:
            text = (
                f"{format_percent(full)} of the bytes written fill whole stripes of {format_size(stripe_bytes)} within"
                " one request; for the others, an array with parity reads before it writes, unless it gathers them"
            )
            said.append((text, "full_stripe_share", full))
    aligned = aligned_share(writes, PAGE)
    if aligned is not None and aligned < 1 - MUCH:
        text = (
            f"{format_percent(1 - aligned)} of writes are not aligned to 4 KiB: drives with 4 KiB sectors read before"
            " they write them"
        )
        said.append((text, "unaligned_to_4k_share", 1 - aligned))
    return said


def _depth(device: DeviceTotals) -> _Said:
    said: _Said = []
    for words, operations in (("reads", READS), ("writes", WRITES)):
        cell = device.cell(*operations)
        alone, depth = share_at_depth_one(cell), mean_depth(cell)
        if cell.requests < ENOUGH or alone is None or depth is None:
            continue
        if alone > 0.9 and _waiting_share(cell) <= WAITING:
            text = f"{format_percent(alone)} of {words} are alone in the device: more disks will not help"
            said.append((text, f"{words}_one_deep_share", alone))
        elif depth > 32:
            text = (
                f"{words} share the device with {depth - 1:.0f} other requests on average: the device is the limit, and"
                " more disks will help"
            )
            said.append((text, f"{words}_mean_depth", depth))
    return said


def _flushes(device: DeviceTotals, seconds: float) -> _Said:
    asked, waiting = device.asked, device.cell("flush", "durable_write")
    if asked.requests < ENOUGH or waiting.requests < LEAST_FLUSHES or not asked.total_ns:
        return []
    share = waiting.total_ns / asked.total_ns
    if share <= 0.2:
        return []
    text = (
        f"flushes and durable writes take {format_percent(share)} of all request time, which is"
        f" {format_percent(waiting.total_ns / NS / seconds)} of the time watched"
    )
    return [(text, "flush_time_share", share)]


def _waiting_share(cell: SeenCell) -> float:
    """Of the sum of their times, what was before they reached the device. Who waits there finds others before it."""
    return (cell.before_ns + cell.queue_ns) / max(cell.total_ns, 1)


def _waiting(device: DeviceTotals) -> _Said:
    asked = device.asked
    if asked.requests < ENOUGH or not asked.device_ns:
        return []
    share = _waiting_share(asked)
    if share <= WAITING:
        return []
    text = (
        f"requests wait before they reach the device for {format_percent(share)} of all request time: they arrive "
        "faster than the device accepts them, at least in bursts"
    )
    return [(text, "waiting_share", share)]


def _sequence(device: DeviceTotals) -> _Said:
    said: _Said = []
    reads, writes = device.cell(*READS), device.cell(*WRITES)
    for words, cell in (("reads", reads), ("writes", writes)):
        if cell.requests >= ENOUGH and cell.bytes and cell.sequential:
            share, mean = cell.sequential_bytes / cell.bytes, cell.sequential_bytes / cell.sequential
            if share > 0.8 and mean < SMALL:
                text = (
                    f"{words} are sequential ({format_percent(share)} of their bytes) but small"
                    f" ({format_size(mean)}): larger requests would reduce their number"
                )
                said.append((text, f"sequential_{words}_share", share))
    if reads.requests >= ENOUGH and reads.read_ahead_bytes > 0.5 * reads.bytes:
        share = reads.read_ahead_bytes / reads.bytes
        said.append(
            (f"{format_percent(share)} of the bytes read are requested by read-ahead", "read_ahead_share", share)
        )
    if writes.requests >= ENOUGH and device.merged_bios > 0.5 * writes.requests:
        ratio = device.merged_bios / max(device.merged_bios + reads.requests + writes.requests, 1)
        said.append((f"the kernel merged {format_percent(ratio)} of the submitted I/O (bios)", "merged_share", ratio))
    return said


def _ahead(device: DeviceTotals) -> _Said:
    reads = device.cell(*READS)
    followed, used = reads.ahead_followed_bytes, reads.ahead_used_bytes
    if reads.read_ahead < ENOUGH or not followed or followed < WASTED * used:
        return []
    brought = (
        f"read-ahead reads {three_digits(followed / used)} times what is used"
        if used
        else "nothing of what is read ahead is used"
    )
    text = (
        f"{brought} ({format_size(used)} of {format_size(followed)} so far): lower read_ahead_kb of the device, or let"
        " the program advise that it reads at random (POSIX_FADV_RANDOM, MADV_RANDOM)"
    )
    return [(text, "read_ahead_used_share", used / followed)]


def _failures(device: DeviceTotals) -> _Said:
    errors = device.asked.errors
    return (
        [(f"{format_counted(errors, 'requests')} failed; see the kernel's log", "errors", float(errors))]
        if errors
        else []
    )


def held_back(device: str, cgroup: str, limit: Throttle, rates_per_s: Sequence[float]) -> Opinion | None:
    """A cgroup that runs at its limit, by its rates in the intervals of a watch."""
    at_limit = [rate for rate in rates_per_s if rate >= AT_LIMIT * limit.per_s]
    if len(at_limit) < LEAST_AT_LIMIT:
        return None
    share = len(at_limit) / len(rates_per_s)
    unit = "requests/s" if limit.kind.endswith("iops") else "bytes/s"
    text = (
        f"cgroup {cgroup} ran at its limit of {limit.per_s:,} {unit} ({limit.kind}) in {len(at_limit):,} of"
        f" {len(rates_per_s):,} intervals: the kernel holds its requests back before the watch sees them, so their "
        f"latency does not include the delay"
    )
    return Opinion(device, text, "cgroup_at_limit_share", share)

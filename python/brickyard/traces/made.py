"""Duty: a profile whose load is like that of a trace, in what the language of profiles has.

Reads and writes become streams of their own. Sizes and their shares are kept as they are. Offsets are `runs` where many
requests go on behind earlier ones; else Zipf's over the region that was touched, with the exponent at which as many
requests would come back to a block as did in the trace (two parameters, region and exponent); or uniform. The loop is
closed where requests wait for each other, else open with arrivals that have the bursts of the trace.

Refusal: it reads no trace and runs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.traces.contents import Buckets, Examined, OperationFigures, TraceFigures
from brickyard.traces.toml import quoted
from brickyard.units import format_percent

SIZES_KEPT = 12
SIZE_LEAST = 0.005
SECTOR_BITS = 9
ALIGNED = 0.99  # of offsets and sizes
SEQUENTIAL = 0.25  # from here on a stream is made of runs
RANDOM = 0.02  # a larger share of requests that come back than by chance is locality
THETA_MOST = 3.0
CLOSED_SHARE = 0.8  # so many requests find the same number of others under way in a closed loop
CLOSED_BUSY = 0.3  # and so much of the time they are: of independent arrivals, 30 % would then find another number
STEADY_GAPS = 0.3  # variation of gaps below which arrivals are at equal distances
BURST_MOST = 1024
DEPTH_MOST = 1024
ROOM = 4
FUA_SHARE = 0.5


@dataclass(frozen=True)
class Made:
    text: str
    notes: list[str]


@dataclass
class _Making:
    examined: Examined
    notes: list[str] = field(default_factory=list)

    @property
    def figures(self) -> TraceFigures:
        return self.examined.figures

    @property
    def seconds(self) -> float:
        return self.examined.contents.summary.duration_ns / 1e9


def make_profile(examined: Examined, name: str) -> Made:
    """The profile as TOML text, and what of the trace it does not have."""
    making = _Making(examined)
    figures = examined.figures
    moved = figures.read.requests + figures.write.requests
    if moved < 2 or making.seconds <= 0:
        raise BadInputError(f"{name}: too few reads and writes at different times to make a profile of")
    if torn := examined.contents.torn:
        making.notes.append(f"{name}: cut off: {torn}; the profile is of what stands before that")
    if figures.discard.requests:
        making.notes.append(f"{figures.discard.requests:,} discards are left out")
    if figures.flush.requests and not figures.write.requests:
        making.notes.append("flushes without writes are left out")
    lines = [
        f"title = {quoted(f'like the trace {name}')}",
        f"source = {quoted(examined.contents.header.source or name)}",
        f"about = {quoted(_about(making))}",
        "[[phase]]",
        'name = "trace"',
        f'duration = "{max(making.seconds, 1.0):.3f}s"',
    ]
    closed = _closed_depth(making)
    for operation, item in (("read", figures.read), ("write", figures.write)):
        if item.requests:
            lines += _stream(making, operation, item, closed)
    text = "\n".join(lines) + "\n"
    _core.validate(text)  # what is made here is always a profile
    return Made(text, making.notes)


def _about(making: _Making) -> str:
    summary = making.examined.contents.summary
    return f"made of {summary.requests:,} requests in {making.seconds:.1f} s; check it with `brickyard trace compare`"


def _stream(making: _Making, operation: str, item: OperationFigures, closed: int | None) -> list[str]:
    figures = making.figures
    align = _align(item)
    lines = ["[[phase.stream]]", f'name = "{operation}s"', f"operations = {_operations(operation)}"]
    lines.append(f"request = {_request(item, align)}")
    lines.append(f'align = "{align}B"')
    lines.append(f"address = {_address(making, operation, item, align)}")
    start = figures.from_bytes // align * align
    lines.append(f'region = "{start}B..{-(-figures.to_bytes // align) * align}B"')
    if operation == "write" and (flushes := figures.flush.requests):
        lines.append(f"flush_every = {{ writes = {max(round(item.requests / flushes), 1)} }}")
        if flushes > item.requests:
            making.notes.append("the trace has more flushes than writes; the profile has one after each write")
    if item.fua / item.requests > FUA_SHARE:
        lines.append('sync = "dsync"')
    elif item.fua:
        making.notes.append(f"{format_percent(item.fua / item.requests)} of {operation}s are FUA; the profile has none")
    return lines + _pace(making, item, closed)


def _operations(operation: str) -> str:
    return "{ read = 100 }" if operation == "read" else "{ read = 0, write = 100 }"


def _align(item: OperationFigures) -> int:
    """The largest power of two of nearly all offsets and sizes."""
    align = 1 << SECTOR_BITS
    for bit, (aligned, whole) in enumerate(zip(item.aligned, item.whole, strict=True)):
        if min(aligned, whole) >= ALIGNED * item.requests:
            align = 1 << SECTOR_BITS + bit
    return align


def _request(item: OperationFigures, align: int) -> str:
    sizes: dict[int, int] = {}
    for size, count in item.sizes:
        whole = max(-(-size // align) * align, align)
        sizes[whole] = sizes.get(whole, 0) + count
    frequent = sorted(sizes, key=lambda size: (-sizes[size], size))[:SIZES_KEPT]
    kept = {size: 0 for size in frequent if sizes[size] >= SIZE_LEAST * item.requests} or {frequent[0]: 0}
    for size, count in sizes.items():
        # What is rare has the next of the kept sizes.
        kept[min(kept, key=lambda near: (abs(near - size), near))] += count
    if len(kept) == 1:
        return f'"{next(iter(kept))}B"'
    total = sum(kept.values())
    shares = {size: round(count / total * 100, 6) for size, count in sorted(kept.items())}
    largest = max(shares, key=lambda size: shares[size])
    shares[largest] = round(100 - sum(share for size, share in shares.items() if size != largest), 6)
    return "[" + ", ".join(f'{{ size = "{size}B", share = {share!r} }}' for size, share in shares.items()) + "]"


def _address(making: _Making, operation: str, item: OperationFigures, align: int) -> str:
    sequential = item.sequential / item.requests
    if sequential >= 1 - RANDOM:
        return '"sequential"'
    if sequential >= SEQUENTIAL:
        return f'{{ kind = "runs", random = {round((1 - sequential) * 100, 3)!r} }}'
    if sequential > RANDOM:
        making.notes.append(f"{format_percent(sequential)} of {operation}s are sequential; the profile has none")
    figures = making.figures
    blocks = max((figures.to_bytes - figures.from_bytes) // align, 1)
    theta = _theta(blocks, figures.locality.requests, figures.locality.reused)
    return '"random"' if theta is None else f'{{ kind = "zipf", theta = {round(theta, 3)!r} }}'


def _theta(blocks: int, requests: int, reused: float) -> float | None:
    """The exponent at which that share of the requests comes back to a block; None where a uniform draw does that."""
    if reused <= _expected_reuse(blocks, requests, 0.0) + RANDOM:
        return None
    low, high = 0.0, THETA_MOST
    for _ in range(40):
        middle = (low + high) / 2
        if _expected_reuse(blocks, requests, middle) < reused:
            low = middle
        else:
            high = middle
    return max(low, 0.001)


def _expected_reuse(blocks: int, requests: int, theta: float) -> float:
    """Of so many draws over so many blocks, the share that has been drawn before: 1 - sum(1 - (1 - p)^n) / n."""
    exact = min(blocks, 10_000)
    ranks = np.arange(1, exact + 1, dtype=np.float64)
    widths = np.ones(exact)
    if blocks > exact:
        edges = np.geomspace(exact + 0.5, blocks + 0.5, 2_000)
        ranks = np.concatenate([ranks, np.sqrt(edges[:-1] * edges[1:])])
        widths = np.concatenate([widths, np.diff(edges)])
    weights = ranks**-theta
    chances = weights / np.sum(weights * widths)
    different = np.sum(-np.expm1(requests * np.log1p(-np.minimum(chances, 1 - 1e-12))) * widths)
    return float(1 - different / requests)


def _closed_depth(making: _Making) -> int | None:
    """Requests in flight, where the next one waits for the end of another; None of an open loop."""
    figures = making.figures
    total = sum(count for _, count in figures.depths)
    if not total:
        making.notes.append("the trace does not say when requests ended; the profile is an open loop")
        return None
    found, count = max(figures.depths, key=lambda pair: pair[1])
    if count < CLOSED_SHARE * total:
        return None
    # One after the other may be by chance where little is under way at all.
    if _mean_latency_ns(figures) * 1.0 < CLOSED_BUSY * figures.gap_mean_ns * (found + 1):
        return None
    return found + 1


def _mean_latency_ns(figures: TraceFigures) -> float:
    buckets: Buckets = [pair for item in figures.operations.values() for pair in item.service]
    total = sum(count for _, count in buckets)
    return sum(end * count for end, count in buckets) / max(total, 1)


def _pace(making: _Making, item: OperationFigures, closed: int | None) -> list[str]:
    figures = making.figures
    moved = figures.read.requests + figures.write.requests
    if closed is not None:
        depth = max(round(closed * item.requests / moved), 1)
        think_ns = max(figures.gap_mean_ns * closed - _mean_latency_ns(figures), 0.0)
        return [f"depth = {depth}", *([f'think = "{round(think_ns)}ns"'] if think_ns >= 1_000 else [])]
    depth = min(max((figures.depth_max + 1) * ROOM, 32), DEPTH_MOST)
    rate = item.requests / making.seconds
    constant = figures.gap_variation < STEADY_GAPS
    # Of bursts of b requests each, the variation of gaps has the square 2 b - 1.
    burst = 1 if constant else min(max(round((figures.gap_variation**2 + 1) / 2), 1), BURST_MOST)
    arrivals = "constant" if constant else "poisson"
    bursts = f", burst = {burst}" if burst > 1 else ""
    return [f"depth = {depth}", f'pace = {{ loop = "open", rate = {rate!r}, arrivals = "{arrivals}"{bursts} }}']

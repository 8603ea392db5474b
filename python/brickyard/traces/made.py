"""Duty: a profile whose load is like that of a trace, in what the language of profiles has.

The loop is closed where requests wait for each other, and one stream then has both reads and writes, so that their mix
and depth stay; else it is open, and reads and writes are streams of their own, with arrivals that have the bursts of
the trace. Sizes and their shares are kept as they are. Offsets are `runs` where many requests go on behind earlier
ones; else Zipf's over the region that the stream's requests touched, with the exponent at which as many of them would
come back to a block as did in the trace (two parameters, region and exponent); or uniform.

Refusal: it reads no trace and runs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.traces.contents import Buckets, Examined, OperationFigures, TraceFigures
from brickyard.traces.replayed import DEPTH_MOST, ROOM
from brickyard.traces.toml import quoted
from brickyard.units import format_percent, format_size

SIZES_KEPT = 12
SIZE_LEAST = 0.005  # of the requests, or of the bytes
REQUEST_MOST = 1 << 30  # the largest request of a profile
BYTES_OFF = 0.05  # a mean size may be rounded this much; half of what `trace compare` allows
SECTOR_BITS = 9
ALIGNED = 0.99  # of offsets and sizes
SEQUENTIAL = 0.25  # from here on a stream is made of runs
RANDOM = 0.02  # a larger share of requests that come back than by chance is locality
THETA_MOST = 3.0
CLOSED_SHARE = 0.8  # so many requests find the same number of others under way in a closed loop
CLOSED_BUSY = 0.3  # and so much of the time they are: of independent arrivals, 30 % would then find another number
STEADY_GAPS = 0.3  # variation of gaps below which arrivals are at equal distances
BURST_MOST = 1024
FUA_SHARE = 0.5
WRITE = "write"
YEAR_S = 365.25 * 86_400
LONGEST_S = 285 * YEAR_S  # the longest duration of a phase
FLUSHES_OFF = 0.05
"""A number of writes for each flush may be rounded this much; half of what `trace compare` allows."""


@dataclass(frozen=True)
class Made:
    text: str
    notes: list[str]


@dataclass(frozen=True)
class _Part:
    """A stream: its operations, and the flushes among its requests."""

    name: str
    items: dict[str, OperationFigures]
    flushes: int = 0

    @property
    def requests(self) -> int:
        return sum(item.requests for item in self.items.values())

    @property
    def from_bytes(self) -> int:
        return min(item.from_bytes for item in self.items.values())

    @property
    def to_bytes(self) -> int:
        return max(item.to_bytes for item in self.items.values())

    def reused(self, figures: TraceFigures) -> float:
        """Share of its requests that come back to a block."""
        if len(self.items) > 1:
            return figures.locality.reused
        (item,) = self.items.values()
        return item.reused

    @property
    def flush_every(self) -> int | None:
        return _writes_a_flush(self.items[WRITE].requests, self.flushes) if self.flushes else None


def _writes_a_flush(writes: int, flushes: int) -> int | None:
    """None where no whole number of writes has as many flushes."""
    every = max(round(writes / flushes), 1)
    return every if abs(writes / every / flushes - 1) <= FLUSHES_OFF else None


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
    if making.seconds > LONGEST_S:
        raise BadInputError(
            f"{name}: its requests span {making.seconds / YEAR_S:.0f} years, longer than a phase may last; a time in it"
            " is wrong"
        )
    if len(examined.contents.counted) > 1:
        names = ", ".join(f"{number} ({examined.contents.name_of(number)})" for number in examined.contents.counted)
        raise BadInputError(f"{name}: has requests of several devices: {names}; choose one with --trace-device N")
    if lost := examined.contents.summary.lost:
        making.notes.append(f"{name}: events lost while it was taken: {lost:,}; the profile does not have them")
    if torn := examined.contents.torn:
        making.notes.append(f"{name}: cut off: {torn}; the profile is made from the part before that")
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
    for part in _parts(figures, closed):
        lines += _stream(making, part, closed)
    text = "\n".join(lines) + "\n"
    _core.validate(text)  # what is made here is always a profile
    return Made(text, making.notes)


def _about(making: _Making) -> str:
    summary = making.examined.contents.summary
    return f"made of {summary.requests:,} requests in {making.seconds:.1f} s; check it with `brickyard trace compare`"


def _parts(figures: TraceFigures, closed: int | None) -> list[_Part]:
    """Requests that wait for each other are one stream: of two, the faster one would issue more than its share."""
    items = {name: item for name, item in (("read", figures.read), ("write", figures.write)) if item.requests}
    flushes = figures.flush.requests if "write" in items else 0
    if closed is not None and len(items) > 1:
        return [_Part("requests", items, flushes)]
    return [_Part(f"{name}s", {name: item}, flushes if name == "write" else 0) for name, item in items.items()]


def _stream(making: _Making, part: _Part, closed: int | None) -> list[str]:
    align = min(_align(item) for item in part.items.values())
    lines = ["[[phase.stream]]", f'name = "{part.name}"', f"operations = {_operations(part)}"]
    lines.append(f"request = {_requests(making, part, align)}")
    lines.append(f'align = "{align}B"')
    lines.append(f"address = {_address(making, part, align)}")
    start = part.from_bytes // align * align
    lines.append(f'region = "{start}B..{-(-part.to_bytes // align) * align}B"')
    if every := part.flush_every:
        lines.append(f"flush_every = {{ writes = {every} }}")
    elif part.flushes:
        making.notes.append("flushes are as many as in the trace, but at random among the writes")
    if write := part.items.get(WRITE):
        if write.fua / write.requests > FUA_SHARE:
            lines.append('sync = "dsync"')
        elif write.fua:
            share = format_percent(write.fua / write.requests)
            making.notes.append(f"{share} of writes are FUA; the profile has none")
    return lines + _pace(making, part, closed)


def _operations(part: _Part) -> str:
    """Flushes of `flush_every` are beside these shares."""
    counts = {name: item.requests for name, item in part.items.items()}
    if part.flushes and part.flush_every is None:
        counts |= {"flush": part.flushes}
    shares = _shares(counts)
    return "{ " + ", ".join(f"{name} = {share!r}" for name, share in ({"read": 0} | shares).items()) + " }"


def _shares(counts: dict[str, int]) -> dict[str, float]:
    """In per cent; they sum to 100."""
    total = sum(counts.values())
    shares = {name: round(count / total * 100, 6) for name, count in counts.items()}
    largest = max(shares, key=lambda name: shares[name])
    shares[largest] = round(100 - sum(share for name, share in shares.items() if name != largest), 6)
    return shares


def _align(item: OperationFigures) -> int:
    """The largest power of two of nearly all offsets and sizes."""
    align = 1 << SECTOR_BITS
    for bit, (aligned, whole) in enumerate(zip(item.aligned, item.whole, strict=True)):
        if min(aligned, whole) >= ALIGNED * item.requests:
            align = 1 << SECTOR_BITS + bit
    return align


def _requests(making: _Making, part: _Part, align: int) -> str:
    """The sizes of each operation, or one list where they are the same."""
    found = {name: _sizes(making, name, item, align) for name, item in part.items.items()}
    sizes = list(found.values())
    if len(found) == 1 or all(one == sizes[0] for one in sizes):
        return _listed([(size, share, "") for size, share in sizes[0].items()])
    return _listed([(size, share, name) for name, shares in found.items() for size, share in shares.items()])


def _listed(sizes: list[tuple[str, float, str]]) -> str:
    if len(sizes) == 1:
        return quoted(sizes[0][0])
    of = {name: f', of = "{name}"' if name else "" for _, _, name in sizes}
    return "[" + ", ".join(f'{{ size = "{size}", share = {share!r}{of[name]} }}' for size, share, name in sizes) + "]"


def _sizes(making: _Making, name: str, item: OperationFigures, align: int) -> dict[str, float]:
    """Sizes, in bytes, with their shares in per cent. Few large requests may move most of the bytes, so a size counts
    by its share of these as well.
    """
    sizes: dict[int, int] = {}
    for size, count in item.sizes:
        whole = min(max(-(-size // align) * align, align), REQUEST_MOST)
        sizes[whole] = sizes.get(whole, 0) + count
    moved = sum(size * count for size, count in sizes.items())
    weight = {size: max(count / item.requests, size * count / moved) for size, count in sizes.items()}
    frequent = sorted(sizes, key=lambda size: (-weight[size], size))[:SIZES_KEPT]
    kept = {size: 0 for size in frequent if weight[size] >= SIZE_LEAST} or {frequent[0]: 0}
    for size, count in sizes.items():
        # What is rare has the next of the kept sizes.
        kept[min(kept, key=lambda near: (abs(near - size), near))] += count
    mean, made = item.bytes / item.requests, sum(size * count for size, count in kept.items()) / item.requests
    if abs(made / mean - 1) > BYTES_OFF:
        making.notes.append(
            f"{name}s of the trace have a mean size of {format_size(mean)}, those of the profile {format_size(made)}: a"
            f" profile has at most {SIZES_KEPT} sizes for an operation, of at most {format_size(REQUEST_MOST)}"
        )
    return _shares({f"{size}B": count for size, count in sorted(kept.items())})


def _address(making: _Making, part: _Part, align: int) -> str:
    names = " and ".join(f"{name}s" for name in part.items)
    sequential = _sequential(making, part)
    if sequential >= 1 - RANDOM:
        return '"sequential"'
    if sequential >= SEQUENTIAL:
        return f'{{ kind = "runs", random = {round((1 - sequential) * 100, 3)!r} }}'
    if sequential > RANDOM:
        making.notes.append(f"{format_percent(sequential)} of {names} are sequential; the profile has none")
    blocks = max((part.to_bytes - part.from_bytes) // align, 1)
    theta = _theta(blocks, part.requests, part.reused(making.figures))
    return '"random"' if theta is None else f'{{ kind = "zipf", theta = {round(theta, 3)!r} }}'


def _sequential(making: _Making, part: _Part) -> float:
    """Share of the requests that go on: each operation behind its own, or all of them behind each other."""
    shares = {name: item.sequential / item.requests for name, item in part.items.items()}
    own = sum(item.sequential for item in part.items.values()) / part.requests
    if len(part.items) == 1:
        return own
    together = sum(count for distance, count in making.figures.seeks if distance == 0) / part.requests
    if together < own and max(shares.values()) - min(shares.values()) > SEQUENTIAL:
        words = ", ".join(f"{format_percent(share)} of {name}s" for name, share in shares.items())
        making.notes.append(f"{words} are sequential; in the profile, reads and writes share one order")
    return max(together, own)


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


def _pace(making: _Making, part: _Part, closed: int | None) -> list[str]:
    figures = making.figures
    if closed is not None:
        think_ns = max(figures.gap_mean_ns * closed - _mean_latency_ns(figures), 0.0)
        return [f"depth = {closed}", *([f'think = "{round(think_ns)}ns"'] if think_ns >= 1_000 else [])]
    depth = min(max((figures.depth_max + 1) * ROOM, 32), DEPTH_MOST)
    # Flushes that a mix draws take their part of a stream's rate; those that writes owe come on top of it.
    mixed_flushes = 0 if part.flush_every else part.flushes
    rate = (part.requests + mixed_flushes) / making.seconds
    spread = _spread_of_arrivals(figures)
    constant = spread - 1 < STEADY_GAPS**2
    # Of bursts of b requests each, the variation of gaps has the square 2 b - 1.
    burst = 1 if constant else min(max(round(spread / 2), 1), BURST_MOST)
    arrivals = "constant" if constant else "poisson"
    bursts = f", burst = {burst}" if burst > 1 else ""
    return [f"depth = {depth}", f'pace = {{ loop = "open", rate = {rate!r}, arrivals = "{arrivals}"{bursts} }}']


def _spread_of_arrivals(figures: TraceFigures) -> float:
    """The mean square of the gaps between arrivals by their squared mean, which is the squared variation plus 1.

    A flush that a write owes follows it at once, and no pace decides its gap. Without a share f of gaps of 0, the mean
    and the mean square of the rest are 1 / (1 - f) as large.
    """
    writes, flushes = figures.write.requests, figures.flush.requests
    owed = flushes if flushes and _writes_a_flush(writes, flushes) else 0
    requests = sum(item.requests for item in figures.operations.values())
    return (1 - owed / requests) * (figures.gap_variation**2 + 1)

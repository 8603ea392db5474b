"""Duty: members that are slower than their peers, by a regression over what the kernel counted of all of them.

A member is compared with the other members of its array alone, since they are asked for much the same. In each window
between two looks a member has a rate and a mean service time. Over the windows of its peers,

    log(mean service time) = a + b · log(requests per second)

is fitted by least squares, as Perseus does for drives of a node (Lu et al., FAST '23), and the window is slow where the
member's time is above the 99.9 % bound of that line and at least twice what the line predicts. A member is slow where
at least 80 % of its last windows are.

Of two members, as a mirror has, the other alone does not show which one is slow: they need not be alike, nor be asked
for the same. Each is compared with its own past as well, by a line through its own earlier windows, over the rate, the
size of a request and the share of reads. Let x and y be what the members take over what their own lines predict. A
window of the first is slow where x is above the line's own bound and at least 2, where x / y is above the bound of such
ratios in the past and at least 2: what slows both is the load. It is judged only where its past has the like of what is
asked of it: a rate as high, and requests as large, as small, and as often reads.

The past is the last two days of load, and beside it the first day of both members: what becomes slow over many days
takes the one along and not the other. No window becomes past while a member is suspected, so that one that stays slow
is not forgiven.

Refusal: a member with too few windows or peers is not judged; a window in which an array was not whole and idle of its
own work counts for nobody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import mul, sub
from statistics import fmean, median

import msgspec

Z = 3.0902
"""One-sided 99.9 % of a normal distribution."""
TIMES = 2.0
"""A difference below this is seen between healthy drives of one model (zones of a disk, wear of an SSD)."""
SLOW_SHARE, WELL_SHARE = 0.8, 0.3
"""A member is slow from the first share of its windows on, and well again below the second."""
WINDOWS_KEPT = 60
WINDOWS_JUDGED = 20
"""The newest, ten minutes of a watch that looks every 30 s."""
PEERS_MIN = 2
PAST_EVERY_S = 600.0
PAST_KEPT, PAST_MIN = 288, 72
"""Of two members: two days of load, a window every ten minutes, and at least the half of a day, so that what is asked
by day and by night is in it."""
FIRST_KEPT = 144
"""Of two members: the first day of load since both are there."""
LIKE_MIN = 5
"""So many windows of the past have requests as large, as small, or as often reads, before more of these are judged."""
FLAT = 1e-6
"""The variance of a logarithm or a share below which a quantity does not change."""
REQUESTS_MIN = 50
"""Of one window: below, a mean says little, and the kernel counts whole milliseconds."""


class MemberCounters(msgspec.Struct, frozen=True):
    """What the kernel has counted of one member since it is there."""

    requests: int
    busy_ms: int
    """Summed over all requests."""
    bytes: int = 0
    reads: int = 0


class Window(msgspec.Struct, frozen=True, array_like=True):
    """One member between two looks."""

    rate_per_s: float
    service_ms: float
    request_bytes: float = 0.0
    """0 in what an earlier version of the watch has kept."""
    read_share: float = 0.0


class PeersMemory(msgspec.Struct):
    """Of one array; plain data, since it outlives the watch."""

    looked_s: float = 0.0
    last: dict[str, MemberCounters] = {}
    windows: dict[str, list[Window]] = {}
    past: list[dict[str, Window]] = []
    """Of an array of two members: earlier windows of both, each at the same time."""
    past_s: float = 0.0
    """When the last of them was taken."""
    first: list[dict[str, Window]] = []
    """The first of them, which stay."""


@dataclass(frozen=True)
class MemberPace:
    """How a member does beside its peers."""

    member: str
    times: float
    """Its mean service time over what its peers' line predicts, in the median of its windows; of two members, over
    what its own line predicts."""
    slow_share: float
    windows: int


def take(memory: PeersMemory, counted: Mapping[str, MemberCounters], now_s: float) -> None:
    """One look at an array that is whole; what was counted since the last becomes a window of each member."""
    span_s = now_s - memory.looked_s
    if memory.last.keys() == counted.keys() and 0 < span_s < 3600:
        fresh = {name: _window(memory.last[name], now, span_s) for name, now in counted.items()}
        # All or none: a line is only drawn through what was asked of the members at the same time.
        if all(window is not None for window in fresh.values()):
            for name, window in fresh.items():
                if window is not None:
                    memory.windows[name] = [*memory.windows.get(name, []), window][-WINDOWS_KEPT:]
    memory.looked_s, memory.last = now_s, dict(counted)
    memory.windows = {name: kept for name, kept in memory.windows.items() if name in counted}
    _remember(memory, now_s)


def _remember(memory: PeersMemory, now_s: float) -> None:
    """Of two members, a window of both becomes past as it leaves those that are judged, now and then."""
    both = memory.windows
    memory.past = _of_these(memory.past, both)
    memory.first = _of_these(memory.first, both)
    if len(both) != 2 or any(len(kept) <= WINDOWS_JUDGED for kept in both.values()):
        return
    if 0 <= now_s - memory.past_s < PAST_EVERY_S or any(pace.slow_share >= WELL_SHARE for pace in paces(memory)):
        return
    then = {name: kept[-WINDOWS_JUDGED - 1] for name, kept in both.items()}
    if any(not window.request_bytes for window in then.values()):
        return
    memory.past = [*memory.past, then][-PAST_KEPT:]
    memory.first = [*memory.first, then][:FIRST_KEPT]
    memory.past_s = now_s


def _of_these(past: Sequence[dict[str, Window]], members: Mapping[str, object]) -> list[dict[str, Window]]:
    """Windows that have the size of requests, and are of these members."""
    return [then for then in past if then.keys() == members.keys() and all(w.request_bytes for w in then.values())]


def forget(memory: PeersMemory) -> None:
    """Whoever takes the place of a lost member has a past of its own, under the same name perhaps."""
    memory.past, memory.first, memory.windows = [], [], {}


def pause(memory: PeersMemory) -> None:
    """A look at an array that rebuilds, scrubs or lacks a member: the windows stay, and no window spans it."""
    memory.last = {}


def _window(before: MemberCounters, after: MemberCounters, span_s: float) -> Window | None:
    requests, busy_ms = after.requests - before.requests, after.busy_ms - before.busy_ms
    if requests < REQUESTS_MIN or busy_ms <= 0:
        return None
    size, reads = (after.bytes - before.bytes) / requests, (after.reads - before.reads) / requests
    return Window(requests / span_s, busy_ms / requests, max(size, 0.0), min(max(reads, 0.0), 1.0))


def paces(memory: PeersMemory) -> list[MemberPace]:
    """Every member that can be judged."""
    if len(memory.windows) == 2:
        return _pair(memory)
    found = []
    for name, own in memory.windows.items():
        others = [kept for other, kept in memory.windows.items() if other != name]
        judged = own[-WINDOWS_JUDGED:]
        if len(others) < PEERS_MIN or len(judged) < WINDOWS_JUDGED:
            continue
        line = _line([window for kept in others for window in kept], _rate)
        ratios = [line.times(window) for window in judged]
        slow = [ratio for ratio in ratios if ratio > max(TIMES, line.bound)]
        found.append(MemberPace(name, median(ratios), len(slow) / len(judged), len(judged)))
    return found


def _pair(memory: PeersMemory) -> list[MemberPace]:
    """Two members, each beside its own past and beside the other: the worse of what either past says."""
    judged = {name: kept[-WINDOWS_JUDGED:] for name, kept in memory.windows.items()}
    if any(len(kept) < WINDOWS_JUDGED for kept in judged.values()):
        return []
    pasts = [_of_these(memory.past, judged)]
    if len(memory.first) >= FIRST_KEPT:
        pasts.append(_of_these(memory.first, judged))
    found = [_beside(past, judged) for past in pasts if len(past) >= PAST_MIN]
    return [max(told, key=lambda pace: pace.slow_share) for told in zip(*found, strict=True)]


def _beside(past: Sequence[Mapping[str, Window]], judged: Mapping[str, Sequence[Window]]) -> list[MemberPace]:
    first, second = judged
    both = _both(tuple(then[first] for then in past), tuple(then[second] for then in past))
    ratios = [[line.times(window) for window in judged[name]] for name, line in zip(judged, both.lines, strict=True)]
    found = []
    for place, name in enumerate((first, second)):
        line, is_like = both.lines[place], both.likes[place]
        slow = [
            own
            for own, beside, window in zip(ratios[place], ratios[1 - place], judged[name], strict=True)
            if own > max(TIMES, line.bound) and own / beside > both.least and is_like(window)
        ]
        found.append(MemberPace(name, median(ratios[place]), len(slow) / WINDOWS_JUDGED, WINDOWS_JUDGED))
    return found


@dataclass(frozen=True)
class _Both:
    """What the past of two members says of each, in their order."""

    lines: tuple[_Line, _Line]
    likes: tuple[Callable[[Window], bool], Callable[[Window], bool]]
    least: float
    """The ratio of the two above which they are further apart than in the past."""


@lru_cache(maxsize=64)
def _both(first: tuple[Window, ...], second: tuple[Window, ...]) -> _Both:
    lines = _line(first, _asked), _line(second, _asked)
    apart = [a - b for a, b in zip(lines[0].left, lines[1].left, strict=True)]
    least = max(TIMES, math.exp(Z * math.sqrt(_dot(apart, apart) / len(apart))))
    return _Both(lines, (_likeness(first), _likeness(second)), least)


def _likeness(past: Sequence[Window]) -> Callable[[Window], bool]:
    """Whether the past has the like of what is asked in a window."""
    highest_per_s = max(window.rate_per_s for window in past)
    sizes = sorted(window.request_bytes for window in past)
    shares = sorted(window.read_share for window in past)

    def is_within(value: float, known: Sequence[float]) -> bool:
        # Sizes and shares of a load that does not change are all alike; a hundredth more is not another load.
        return known[LIKE_MIN - 1] * 0.99 <= value <= known[-LIKE_MIN] * 1.01

    return lambda window: (
        window.rate_per_s <= highest_per_s
        and is_within(window.request_bytes, sizes)
        and is_within(window.read_share, shares)
    )


def _rate(window: Window) -> tuple[float, ...]:
    return (math.log(window.rate_per_s),)


def _asked(window: Window) -> tuple[float, ...]:
    """All that is known of what a member was asked for."""
    return (math.log(window.rate_per_s), math.log(max(window.request_bytes, 1.0)), window.read_share)


@dataclass(frozen=True)
class _Line:
    of: Callable[[Window], tuple[float, ...]]
    middle: tuple[float, ...]
    intercept: float
    slopes: tuple[float, ...]
    left: tuple[float, ...]
    """The logarithm of each window's time over the prediction."""
    bound: float
    """How many times the prediction the 99.9 % bound is."""

    def times(self, window: Window) -> float:
        """How many times the prediction a window takes."""
        apart = map(sub, self.of(window), self.middle)
        return window.service_ms / math.exp(self.intercept + _dot(self.slopes, apart))


def _line(windows: Sequence[Window], of: Callable[[Window], tuple[float, ...]]) -> _Line:
    """By least squares; what hardly changes, or changes only as another does, has no slope."""
    told = list(zip(*map(of, windows), strict=True))
    middle = tuple(fmean(column) for column in told)
    columns = [[x - mean for x in column] for column, mean in zip(told, middle, strict=True)]
    y = [math.log(window.service_ms) for window in windows]
    intercept = fmean(y)
    left = [one - intercept for one in y]
    slopes = _slopes(columns, left)
    for slope, column in zip(slopes, columns, strict=True):
        left = [one - slope * x for one, x in zip(left, column, strict=True)]
    free = max(1, len(windows) - 1 - len(slopes))
    return _Line(of, middle, intercept, slopes, tuple(left), math.exp(Z * math.sqrt(_dot(left, left) / free)))


def _slopes(columns: Sequence[Sequence[float]], y: Sequence[float]) -> tuple[float, ...]:
    """Gram and Schmidt: each column without what the earlier ones say of it."""
    bare: list[list[float]] = []
    shares: list[list[float]] = []
    found: list[float] = []
    for column in columns:
        own, of_earlier = list(column), []
        for earlier in bare:
            share = _share(own, earlier)
            own = [a - share * b for a, b in zip(own, earlier, strict=True)]
            of_earlier.append(share)
        if _dot(own, own) <= FLAT * len(own):
            own = [0.0] * len(own)
        bare.append(own)
        shares.append(of_earlier)
        found.append(_share(y, own))
    for place in reversed(range(len(found))):
        for earlier_place, share in enumerate(shares[place]):
            found[earlier_place] -= share * found[place]
    return tuple(found)


def _share(of: Sequence[float], column: Sequence[float]) -> float:
    """How much of a column is in another."""
    norm = _dot(column, column)
    return _dot(of, column) / norm if norm else 0.0


def _dot(a: Iterable[float], b: Iterable[float]) -> float:
    return float(sum(map(mul, a, b)))

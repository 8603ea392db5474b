"""Duty: members that are slower than their peers, by a regression over what the kernel counted of all of them.

A member is compared with the other members of its array alone, since they are asked for much the same. In each window
between two looks a member has a rate and a mean service time. Over the windows of its peers,

    log(mean service time) = a + b · log(requests per second)

is fitted by least squares, as Perseus does for drives of a node (Lu et al., FAST '23), and the window is slow where the
member's time is above the 99.9 % bound of that line and at least twice what the line predicts. A member is slow where
at least 80 % of its last windows are. Refusal: a member with too few windows or peers is not judged; a window in which
an array was not whole and idle of its own work counts for nobody.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
REQUESTS_MIN = 50
"""Of one window: below, a mean says little, and the kernel counts whole milliseconds."""


class MemberCounters(msgspec.Struct, frozen=True):
    """What the kernel has counted of one member since it is there."""

    requests: int
    busy_ms: int
    """Summed over all requests."""


class Window(msgspec.Struct, frozen=True, array_like=True):
    """One member between two looks."""

    rate_per_s: float
    service_ms: float


class PeersMemory(msgspec.Struct):
    """Of one array; plain data, since it outlives the watch."""

    looked_s: float = 0.0
    last: dict[str, MemberCounters] = {}
    windows: dict[str, list[Window]] = {}


@dataclass(frozen=True)
class MemberPace:
    """How a member does beside its peers."""

    member: str
    times: float
    """Its mean service time over what its peers' line predicts, in the median of its windows."""
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


def pause(memory: PeersMemory) -> None:
    """A look at an array that rebuilds, scrubs or lacks a member: the windows stay, and no window spans it."""
    memory.last = {}


def _window(before: MemberCounters, after: MemberCounters, span_s: float) -> Window | None:
    requests, busy_ms = after.requests - before.requests, after.busy_ms - before.busy_ms
    if requests < REQUESTS_MIN or busy_ms <= 0:
        return None
    return Window(requests / span_s, busy_ms / requests)


def paces(memory: PeersMemory) -> list[MemberPace]:
    """Every member that can be judged."""
    found = []
    for name, own in memory.windows.items():
        others = [kept for other, kept in memory.windows.items() if other != name]
        judged = own[-WINDOWS_JUDGED:]
        if len(others) < PEERS_MIN or len(judged) < WINDOWS_JUDGED:
            continue
        line = _line([window for kept in others for window in kept])
        ratios = [window.service_ms / line.predicted(window.rate_per_s) for window in judged]
        slow = [ratio for ratio in ratios if ratio > max(TIMES, line.bound)]
        found.append(MemberPace(name, median(ratios), len(slow) / len(judged), len(judged)))
    return found


@dataclass(frozen=True)
class _Line:
    intercept: float
    slope: float
    bound: float
    """How many times the prediction the 99.9 % bound is."""

    def predicted(self, rate_per_s: float) -> float:
        return math.exp(self.intercept + self.slope * math.log(rate_per_s))


def _line(windows: Sequence[Window]) -> _Line:
    x = [math.log(window.rate_per_s) for window in windows]
    y = [math.log(window.service_ms) for window in windows]
    mean_x, mean_y = fmean(x), fmean(y)
    spread = sum((one - mean_x) ** 2 for one in x)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread if spread > 1e-9 else 0.0
    intercept = mean_y - slope * mean_x
    left = sum((b - intercept - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    return _Line(intercept, slope, math.exp(Z * math.sqrt(left / max(1, len(windows) - 2))))

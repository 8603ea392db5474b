"""Mirrors of two disks by simulation: how often the watch takes a healthy member for a slow one, and finds a slow one.

`python tests/mirrors.py [DRAWS]` prints the figures of docs/web.md. Seeds are fixed, so that a figure is the same in
every run.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from brickyard.arrays import Member, Sheet, State
from brickyard.arrays.keys import read_key
from brickyard.arrays.looking import Seen
from brickyard.arrays.peers import MemberCounters
from brickyard.arrays.watching import ArrayWatcher, WatchMemory

DAY_S = 86_400.0
SMALL, LARGE = 16 << 10, 512 << 10
STREAM_HOURS = (1.0, 5.0)
DISKS = ("/dev/sda", "/dev/sdb")


@dataclass(frozen=True)
class Mirror:
    """Two disks that are not alike, by day and by night. Writes go to both, reads to one of them. Whatever is to happen
    begins at `since_day`."""

    days: float
    every_s: float = 600.0
    since_day: float = 1.0
    jitter: float = 0.15
    """Standard deviation of the logarithm of a window's service time."""
    slow: float = 1.0
    """The first takes so many times as long,"""
    slow_in_days: float = 0.0
    """at once, or at the end of so many days."""
    both: float = 1.0
    """Both take so many times as long."""
    stream: float = 0.0
    """Four hours a night one stream of large reads goes to the first, each of which takes so many times as long as a
    small one; small ones wait behind it."""
    stream_since_day: float | None = None
    """Else with the rest."""
    size: float = 1.0
    """Requests of both are so many times as large, and take their share longer."""
    skew: float = 0.5
    """The most that one disk gets of the reads, or leaves of them, beyond 0.35 to 0.65."""


def looks(mirror: Mirror, seed: int) -> Iterator[Seen]:
    dice = random.Random(seed)
    array = Sheet("md", "/dev/md0", "raid1", 1 << 40, State("normal"), tuple(Member(n, "active") for n in DISKS), 2)
    sums = [[0, 0, 0, 0], [0, 0, 0, 0]]
    streams_from = mirror.since_day if mirror.stream_since_day is None else mirror.stream_since_day
    for look in range(int(mirror.days * DAY_S / mirror.every_s)):
        day = look * mirror.every_s / DAY_S
        hour = day % 1 * 24
        has_begun = day >= mirror.since_day
        rate = dice.uniform(20, 60) if hour < 12 else dice.uniform(60, 300)
        share = dice.uniform(0.35, 0.65)
        if has_begun and mirror.skew != 0.5:
            share = mirror.skew if dice.random() < 0.5 else 1 - mirror.skew
        small = SMALL * dice.uniform(0.8, 1.25) * (mirror.size if has_begun else 1.0)
        streams = mirror.stream if day >= streams_from and STREAM_HOURS[0] <= hour < STREAM_HOURS[1] else 0.0
        streamed_per_s = dice.uniform(20, 60) if streams else 0.0
        for place, counted in enumerate(sums):
            reads_per_s = rate * 0.7 * (share if place == 0 else 1 - share)
            writes_per_s = rate * 0.3
            times = (1.6 if place else 1.0) * math.exp(dice.gauss(0, mirror.jitter))
            times *= 1 + (reads_per_s + writes_per_s) / 160
            times *= 1 + small / (128 << 10)
            if has_begun:
                times *= mirror.both * (1.0 if place else slowness(mirror, day))
            is_streamed = streams and place == 0
            waits = (1 + streams) / 2 if is_streamed else 1.0
            requests = [int(each * mirror.every_s) for each in (reads_per_s, writes_per_s)]
            streamed = int(streamed_per_s * mirror.every_s) if is_streamed else 0
            busy_ms = times * (waits * (5 * requests[0] + 1.5 * requests[1]) + 5 * streams * streamed)
            counted[0] += sum(requests) + streamed
            counted[1] += int(busy_ms)
            counted[2] += int(sum(requests) * small) + streamed * LARGE
            counted[3] += requests[0] + streamed
        yield Seen((array,), counted={array.key: {n: MemberCounters(*c) for n, c in zip(DISKS, sums, strict=True)}})


def slowness(mirror: Mirror, day: float) -> float:
    if not mirror.slow_in_days:
        return mirror.slow
    return float(mirror.slow ** min(1.0, (day - mirror.since_day) / mirror.slow_in_days))


class LookClock:
    """Looks that are so far apart."""

    def __init__(self, every_s: float) -> None:
        self.every_s, self.now_s = every_s, 1e9

    def __call__(self) -> float:
        self.now_s += self.every_s
        return self.now_s


@dataclass(frozen=True)
class Raised:
    """A warning of a member, and on which day it came."""

    member: str
    day: float


def restarted(memory: WatchMemory) -> WatchMemory:
    """As a watch that is started again reads it."""
    return msgspec.json.decode(msgspec.json.encode(memory, enc_hook=str), type=WatchMemory, dec_hook=read_key)


def watched(mirror: Mirror, seed: int) -> list[Raised]:
    watcher = ArrayWatcher(clock=LookClock(mirror.every_s))
    return [
        Raised(notice.key.part, number * mirror.every_s / DAY_S)
        for number, seen in enumerate(looks(mirror, seed))
        for notice in watcher.look(seen)
        if notice.kind == "begins"
    ]


HEALTHY = {
    "healthy, 15 % scatter": Mirror(3),
    "healthy, 40 % scatter": Mirror(3, jitter=0.4),
    "healthy for 60 days, 40 % scatter": Mirror(60, every_s=3000, jitter=0.4),
    "a load that makes both 5 times as slow": Mirror(3, both=5),
    "a nightly stream to one member, 2 times as long": Mirror(6, stream=2),
    "a nightly stream to one member, 4 times as long": Mirror(6, stream=4),
    "a nightly stream to one member, 8 times as long": Mirror(6, stream=8),
    "a nightly stream, 4 times as long, 40 % scatter": Mirror(6, stream=4, jitter=0.4),
    "requests 4 times as large": Mirror(4, size=4),
    "reads by turns to one member": Mirror(4, skew=0.97),
    "reads by turns to one member, 40 % scatter": Mirror(4, skew=0.97, jitter=0.4),
}
SLOW = {
    "2 times as slow": Mirror(3, since_day=2, slow=2),
    "2.5 times as slow": Mirror(3, since_day=2, slow=2.5),
    "3 times as slow": Mirror(3, since_day=2, slow=3),
    "3 times as slow, a nightly stream since the first day": Mirror(
        5, since_day=3, stream=4, stream_since_day=0, slow=3
    ),
    "3 times as slow over 20 days": Mirror(50, every_s=3000, since_day=10, slow=3, slow_in_days=20),
    "3 times as slow over 40 days": Mirror(60, every_s=3000, since_day=10, slow=3, slow_in_days=40),
    "4 times as slow over 20 days, 25 % scatter": Mirror(
        50, every_s=3000, since_day=10, slow=4, slow_in_days=20, jitter=0.25
    ),
}


def main(draws: int) -> None:
    for name, mirror in (HEALTHY | SLOW).items():
        found = [watched(mirror, seed) for seed in range(draws)]
        right = [told for told in found if told and {one.member for one in told} == {DISKS[0]}]
        days = sorted(told[0].day - mirror.since_day for told in right)
        others = sum(any(one.member == DISKS[1] for one in told) for told in found)
        when = f", by the median after {days[len(days) // 2]:.1f} days" if name in SLOW and days else ""
        print(f"{name}: of {draws} {len(right)} warned of the first{when}, {others} of the second", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)

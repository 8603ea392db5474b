"""Duty: how many different blocks the requests of a stream are expected to touch whose addresses favour some blocks.

Blocks come in groups in which each is as likely as the others, by the arithmetic of the distribution: of a group of
`c` blocks that gets `n` requests, about `c * (1 - exp(-n / c))` are touched (as balls that fall into bins).

Refusal: which blocks these are is not computed, and addresses that favour none have no figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise

from brickyard.analysis.figures.reach import region_bytes
from brickyard.schema.plan import (
    Address,
    HotSpotsAddress,
    NormalAddress,
    ParetoAddress,
    Stream,
    ZipfAddress,
    ZonesAddress,
)

Groups = Iterator[tuple[float, float]]
"""How many blocks, and their share of the requests."""
SINGLE_RANKS = 256
GROWTH = 1.05  # of groups of later ranks; a rank's share changes little from one end to the other
STEPS = 256
NORMAL_DEVIATION = 1 / 12  # of the mean of twelve uniform numbers
SHIFTS = 16


def distinct_bytes(stream: Stream, length: int, requests: int, request_bytes: float) -> float | None:
    """Of so many requests to a target of so many bytes; None where the addresses favour no blocks."""
    region = region_bytes(stream.region, length)
    block = stream.align or min((size.size for size in stream.request), default=0)
    if not block or not region or stream.program or stream.trace:
        return None
    groups = _groups(stream.address, max(1, region // block), region)
    if groups is None:
        return None
    touched = sum(count * -math.expm1(-requests * share / count) for count, share in groups if count > 0)
    return min(touched * request_bytes, region)


def _groups(address: Address, blocks: int, region: int) -> Groups | None:
    match address:
        case ZipfAddress(theta=theta):
            return _by_rank(blocks, _zipf_up_to(theta))
        case ParetoAddress(skew=skew):
            power = math.log(skew / 100) / math.log(1 - skew / 100)
            return _by_rank(blocks, lambda rank: (rank / blocks) ** power)
        case NormalAddress(deviation=deviation):
            return _of_normal(blocks, min(deviation / 100, 0.5))
        case ZonesAddress(zones=zones):
            whole = sum(zone.requests for zone in zones)
            return (
                (blocks * region_bytes(zone.region, region) / region, zone.requests / whole) for zone in zones if whole
            )
        case HotSpotsAddress(requests=hot, space=space):
            rest = 1 - hot / 100
            inside = space / 100
            return iter(((blocks * inside, hot / 100 + rest * inside), (blocks * (1 - inside), rest * (1 - inside))))
    return None


def _zipf_up_to(theta: float) -> Callable[[float], float]:
    """The sum of rank^-theta; past the first ranks it is near to an integral."""
    single = [0.0, *accumulate(math.pow(rank, -theta) for rank in range(1, SINGLE_RANKS + 1))]

    def area(x: float) -> float:
        return math.log(x) if abs(theta - 1) < 1e-9 else math.pow(x, 1 - theta) / (1 - theta)

    def up_to(rank: float) -> float:
        if rank <= SINGLE_RANKS:
            return single[int(rank)]
        return single[-1] + area(rank + 0.5) - area(SINGLE_RANKS + 0.5)

    return up_to


def _by_rank(blocks: int, up_to: Callable[[float], float]) -> Groups:
    """The first ranks, which get the most, each by itself; `up_to` is in any unit."""
    edges = [float(rank) for rank in range(min(SINGLE_RANKS, blocks) + 1)]
    while edges[-1] < blocks:
        edges.append(min(float(blocks), edges[-1] * GROWTH))
    whole = up_to(float(blocks)) - up_to(0.0)
    return ((last - first, (up_to(last) - up_to(first)) / whole) for first, last in pairwise(edges))


def _of_normal(blocks: int, spread: float) -> Groups:
    shifts = [spread * ((number + 0.5) / SHIFTS - 0.5) for number in range(SHIFTS)]

    def up_to(place: float) -> float:
        scale = NORMAL_DEVIATION * math.sqrt(2)
        return sum(math.erf((place - 0.5 - shift) / scale) for shift in shifts) / (2 * SHIFTS)

    edges = [step / STEPS for step in range(STEPS + 1)]
    return ((blocks * (last - first), up_to(last) - up_to(first)) for first, last in pairwise(edges))

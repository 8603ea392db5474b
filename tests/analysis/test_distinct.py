"""How many blocks addresses touch that favour some, against as many drawn by the distribution's own rule."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate
from math import log
from pathlib import Path
from typing import Any

import pytest

from brickyard.analysis.figures.distinct import distinct_bytes
from brickyard.analysis.judging import cached
from brickyard.analysis.judging.answers import answer
from brickyard.schema.plan import (
    Address,
    HotSpotsAddress,
    NormalAddress,
    ParetoAddress,
    PermutationAddress,
    RandomAddress,
    SizeShare,
    Stream,
    ZipfAddress,
    Zone,
    ZonesAddress,
)
from brickyard.store import Store
from support import MS, SECOND, add_run, cell, interval, phase_end, plan, stream

BLOCKS, REQUESTS, BLOCK = 20_000, 10_000, 4096
DRAWS = random.Random(1)


def zipf() -> int:
    return bisect_left(WEIGHTS, DRAWS.random() * WEIGHTS[-1])


def pareto() -> int:
    return int(BLOCKS * DRAWS.random() ** (log(0.2) / log(0.8)))


def normal() -> int:
    return int(BLOCKS * (sum(DRAWS.random() for _ in range(12)) / 12 + (DRAWS.random() - 0.5) / 10))


def zones() -> int:
    low, high = (0, BLOCKS // 10) if DRAWS.random() < 0.6 else (BLOCKS // 10, BLOCKS)
    return DRAWS.randrange(low, high)


def hot_spots() -> int:
    return DRAWS.randrange(BLOCKS // 10 if DRAWS.random() < 0.9 else BLOCKS)


WEIGHTS = list(accumulate(rank**-1.2 for rank in range(1, BLOCKS + 1)))
DRAWN: list[tuple[Address, Callable[[], int]]] = [
    (ZipfAddress(theta=1.2), zipf),
    (ParetoAddress(skew=80.0), pareto),
    (NormalAddress(deviation=10.0), normal),
    (
        ZonesAddress(zones=[Zone(requests=60.0, region="0..10%"), Zone(requests=40.0, region="10%..100%")]),
        zones,
    ),
    (HotSpotsAddress(requests=90.0, space=10.0, spots=4), hot_spots),
]


@pytest.mark.parametrize(("address", "draw"), DRAWN)
def test_as_many_blocks_are_expected_as_are_drawn(address: Address, draw: Callable[[], int]) -> None:
    asked = Stream(address=address, request=[SizeShare(size=BLOCK)])
    expected = distinct_bytes(asked, BLOCKS * BLOCK, REQUESTS, BLOCK)
    assert expected == pytest.approx(len({draw() for _ in range(REQUESTS)}) * BLOCK, rel=0.03)


@pytest.mark.parametrize("address", [RandomAddress(), PermutationAddress()])
def test_addresses_that_favour_no_block_have_no_figure(address: Address) -> None:
    assert distinct_bytes(Stream(address=address, request=[SizeShare(size=BLOCK)]), 1 << 30, 10, BLOCK) is None


def belief(tmp_path: Path, address: Any, *, cache_bytes: int | None = None) -> str:
    """Of 256 MiB of reads of 1 GiB, 64 KiB each."""
    known = {"targets": [{"cache_bytes": cache_bytes}]} if cache_bytes else {}
    noted = [] if cache_bytes else [{"id": cached.CACHE_UNKNOWN, "severity": "note", "text": "It is unknown."}]
    reads = interval(0, SECOND, cell([MS] * 4096, request_bytes=64 << 10))
    with Store(tmp_path / "runs.db") as store:
        asked = plan(stream(address=address, request=[{"size": 64 << 10, "share": 100}]))
        run = add_run(store, [reads, phase_end()], warnings=noted, plan_=asked, facts=known)
        return answer([store.record(run)], {}).belief


def test_reads_that_repeat_blocks_may_be_those_of_a_cache(tmp_path: Path) -> None:
    said = belief(tmp_path, {"kind": "zipf", "theta": 1.2})
    assert "The rate of reads may be that of a cache (256 MiB were read of about 57.5 MiB, since the addresses" in said
    assert "favour some blocks, and its size is not known): a larger part may show a lower one." in said
    for kind in ({"kind": "random"}, {"kind": "permutation"}, {"kind": "zipf", "theta": 0.1}):
        assert "that of a cache" not in belief(tmp_path, kind), "hardly any block was read twice"


def test_a_known_cache_is_compared_with_the_blocks_that_were_read(tmp_path: Path) -> None:
    skewed = {"kind": "zipf", "theta": 1.2}
    assert "favour some blocks, and it has 1 GiB)" in belief(tmp_path, skewed, cache_bytes=1 << 30)
    assert "that of a cache" not in belief(tmp_path, skewed, cache_bytes=8 << 20)

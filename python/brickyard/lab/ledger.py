"""Duty: what workloads share: the count of a log's records, and the acknowledgements that were given at it.

Refusal: no clock is read; order is that of the log alone.
"""

from __future__ import annotations

import mmap
import os
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from brickyard.lab.orders import Promise


class Ledger:
    """Acknowledgements of a workload, each with how many records the log had when its client had it."""

    def __init__(self, count: memoryview) -> None:
        self._count = count
        self._lock = threading.Lock()
        self.promises: list[Promise] = []
        self.marks: list[tuple[int, int]] = []

    def records(self) -> int:
        return int(self._count[0])

    def acknowledged(self, client: int, number: int) -> None:
        at = self.records()
        with self._lock:
            self.promises.append(Promise(at, client, number))

    @contextmanager
    def stretch(self) -> Iterator[None]:
        """What is written meanwhile is of interest, such as a checkpoint."""
        begin = self.records()
        yield
        with self._lock:
            self.marks.append((begin, self.records()))


@contextmanager
def ledger(count: Path) -> Iterator[Ledger]:
    """Over the counter that `brickyard-lab` keeps in shared memory."""
    handle = os.open(count, os.O_RDONLY | os.O_CLOEXEC)
    try:
        shared = mmap.mmap(handle, 8, prot=mmap.PROT_READ)
    finally:
        os.close(handle)
    words = memoryview(shared).cast("Q")
    try:
        yield Ledger(words)
    finally:
        words.release()
        shared.close()


class Owed:
    """What each client may count on at a cut: its numbers up to this one."""

    def __init__(self, promises: Iterable[Promise]) -> None:
        self._by_client: dict[int, tuple[list[int], list[int]]] = {}
        for promise in sorted(promises, key=lambda p: (p.at, p.number)):
            places, numbers = self._by_client.setdefault(promise.client, ([], []))
            places.append(promise.at)
            numbers.append(max(promise.number, numbers[-1] if numbers else 0))

    def at(self, cut: int) -> dict[int, int]:
        found = {}
        for client, (places, numbers) in self._by_client.items():
            if known := bisect_right(places, cut):
                found[client] = numbers[known - 1]
        return found

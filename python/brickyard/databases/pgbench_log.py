"""Duty: pgbench's log of transactions, read while it is written, as intervals of a run.

Each thread of pgbench writes a pipe, so that the log takes neither disk nor memory however long the run is. A line has
client, number, time in microseconds, script and the instant of its end; with a rate, also how late it began.

Refusal: no time is measured here. Times are pgbench's own.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from brickyard import _core
from brickyard.databases.pgbench_plan import INTERVAL_NS
from brickyard.errors import BrickyardError
from brickyard.schema import CellEvent, CellEventMeasures, Counted, Cpu, Interval, Measure

PIPE_BYTES = 1 << 20  # a pipe's largest size for any account: 25,000 transactions until pgbench would wait for us
READ_BYTES = 1 << 18
COLUMNS, RATE_COLUMNS = 6, 7
INTERVAL_US = INTERVAL_NS // 1000
ABORTED = b"aborted"
NOT_DONE = (b"failed", b"skipped", b"serialization", b"deadlock", ABORTED)


@dataclass
class Tally:
    """Transactions that ended within one interval, by what the log says of them: the time, and with a rate how late it
    began. Counted as text, since pgbench would have to wait for who reads each number."""

    lines: Counter[bytes | tuple[bytes, bytes]] = field(default_factory=Counter)

    def add(self, times: list[bytes], lags: list[bytes] | None) -> None:
        self.lines.update(times if lags is None else zip(times, lags, strict=True))

    def counts(self) -> Counts:
        made = Counts()
        for line, number in self.lines.items():
            time, lag = line if isinstance(line, tuple) else (line, b"0")
            if time in NOT_DONE:
                made.failed[time.decode()] += number
                continue
            took_us, late_us = int(time), max(int(lag), 0)
            made.response_us[took_us] += number
            made.service_us[max(took_us - late_us, 0)] += number
            made.lateness_us[late_us] += number
        return made


@dataclass
class Counts:
    """The same as numbers; times in microseconds."""

    response_us: Counter[int] = field(default_factory=Counter)
    service_us: Counter[int] = field(default_factory=Counter)
    lateness_us: Counter[int] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)


def _instant_us(seconds: bytes, rest: bytes) -> int:
    return int(seconds) * 1_000_000 + int(rest)


def _took_us(time: bytes) -> int:
    return 0 if time in NOT_DONE else int(time)


class _Pipe:
    """One thread's log. `seen_us` is the newest instant that it has told.

    `is_closed` of a pipe whose thread ended, which is before the others where all its clients were given up; and before
    it began, but no thread has a transaction before all have opened their logs.
    """

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.rest = b""
        self.seen_us = 0
        self.is_closed = False
        with suppress(OSError):
            fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def lines(self) -> bytes:
        """Whole lines that have come since the last look."""
        got = []
        while True:
            try:
                data = os.read(self.handle, READ_BYTES)
            except BlockingIOError:
                self.is_closed = False
                break
            if not data:
                self.is_closed = True
                break
            got.append(data)
        whole, newline, self.rest = (self.rest + b"".join(got)).rpartition(b"\n")
        return whole + newline


class LogReader:
    """The logs of all threads as intervals, each told when every thread has passed its end."""

    def __init__(self, handles: list[int], *, has_rate: bool, clients: int) -> None:
        self._pipes = [_Pipe(handle) for handle in handles]
        self._columns = RATE_COLUMNS if has_rate else COLUMNS
        self._has_rate, self._clients = has_rate, clients
        self._tallies: dict[int, Tally] = {}
        self.origin_us: int | None = None
        self.last_us = 0
        self.told = 0
        self.transactions = 0
        self.failures: Counter[str] = Counter()

    def look(self) -> None:
        for pipe in self._pipes:
            if text := pipe.lines():
                self._take(pipe, text)

    def _take(self, pipe: _Pipe, text: bytes) -> None:
        words, columns = text.split(), self._columns
        if len(words) % columns:
            raise BrickyardError("pgbench's log has lines of another form; its version is not known")
        times, seconds, rests = words[2::columns], words[4::columns], words[5::columns]
        lags = words[6::columns] if self._has_rate else None
        ends_us = _instant_us(seconds[0], rests[0]), _instant_us(seconds[-1], rests[-1])
        # A thread writes its lines in the order of their ends, so the first and the last tell where all belong.
        first, last = (self._tally(end_us, _took_us(times[0])) for end_us in ends_us)
        if first is last:
            first.add(times, lags)
        else:
            for number, (time, second, rest) in enumerate(zip(times, seconds, rests, strict=True)):
                tally = self._tally(_instant_us(second, rest), 0)
                tally.add([time], lags[number : number + 1] if lags is not None else None)
        pipe.seen_us = max(pipe.seen_us, ends_us[1])
        self.last_us = max(self.last_us, ends_us[1])

    def abort(self, at_us: int, begun_us: int) -> None:
        """Counts the transaction with which a client was given up, of which the log has no line. `begun_us` is when
        pgbench was started: the origin where no transaction has ended."""
        if self.origin_us is None:
            self.origin_us = min(begun_us, at_us)
        self._tally(at_us, 0).add([ABORTED], [b"0"] if self._has_rate else None)
        self.last_us = max(self.last_us, at_us)

    def _tally(self, end_us: int, took_us: int) -> Tally:
        """Of its interval. The first line that is read tells when pgbench began: its clients all began with it."""
        if self.origin_us is None:
            self.origin_us = end_us - took_us
        # What ends at a boundary belongs to the interval that ends there, as no interval may be empty of time.
        index = max((end_us - self.origin_us - 1) // INTERVAL_US, self.told)
        found = self._tallies.get(index)
        if found is None:
            found = self._tallies[index] = Tally()
        return found

    def close(self) -> None:
        for pipe in self._pipes:
            os.close(pipe.handle)
        self._pipes = []

    def whole(self, *, is_over: bool = False) -> Iterator[Interval]:
        """Intervals that no thread can add to any more; all of them once pgbench has ended."""
        if self.origin_us is None:
            return
        open_us = [pipe.seen_us for pipe in self._pipes if not pipe.is_closed]
        passed_us = self.last_us if is_over else min(open_us, default=self.last_us)
        span_us = passed_us - self.origin_us
        while (self.told + 1) * INTERVAL_US <= span_us:
            yield self._interval((self.told + 1) * INTERVAL_NS)
        if is_over and (span_us > self.told * INTERVAL_US or self._tallies):
            yield self._interval(max(span_us * 1000, self.told * INTERVAL_NS + 1))

    def _interval(self, end_ns: int) -> Interval:
        tally = self._tallies.pop(self.told, Tally()).counts()
        start_ns = self.told * INTERVAL_NS
        index, self.told = self.told, self.told + 1
        requests = sum(tally.response_us.values())
        self.transactions += requests
        self.failures.update(tally.failed)
        cells = []
        if requests or tally.failed:
            response = measure(tally.response_us)
            measures = CellEventMeasures(
                response=response,
                service=measure(tally.service_us) if self._has_rate else response,
                lateness=measure(tally.lateness_us) if self._has_rate else None,
            )
            cells.append(
                CellEvent(
                    stream=0,
                    operation=Counted.CALL,
                    requests=requests,
                    bytes=0,
                    errors=sum(tally.failed.values()),
                    depth_max=self._clients,
                    measures=measures,
                )
            )
        return Interval(
            phase=0,
            index=index,
            start_ns=start_ns,
            end_ns=end_ns,
            warmup=False,
            drain=False,
            cells=cells,
            cpu=Cpu(user_ns=0, system_ns=0),
            loop_busy_share=0.0,
        )


def measure(times_us: Counter[int]) -> Measure | None:
    count = sum(times_us.values())
    if not count:
        return None
    histogram = _core.Histogram.of_counts([(time * 1000, number) for time, number in sorted(times_us.items())])
    p50, p99 = histogram.percentiles_ns([50.0, 99.0])
    return Measure(
        mean_ns=sum(time * number for time, number in times_us.items()) * 1000 / count,
        p50_ns=p50,
        p99_ns=p99,
        max_ns=max(times_us) * 1000,
        histogram=histogram.text(),
    )

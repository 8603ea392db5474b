"""Duty: the drivers of a replay, each its own process, as one run: their intervals merge, their ends add up.

Where they run is for `Places` to say: here, or on the hosts of a fleet.

Refusal: nothing is measured here. A password goes down a pipe and nowhere else.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import structs

from brickyard import _core
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.schema import (
    Bound,
    Cpu,
    DriverLost,
    DriverShare,
    End,
    ErrorEvent,
    Event,
    HostDriverEnded,
    HostReason,
    Interval,
    PhaseEnd,
    PhaseReason,
    PhaseStart,
    ReplayEnd,
    RunOutcome,
    StreamCounts,
    decode,
    encode,
    failed_end,
    words_of,
)
from brickyard.schema import Drivers as DriversEvent

if TYPE_CHECKING:
    from brickyard.study.replays.run import DriverOrder

READY_S = 120.0  # logs are probed and hundreds of sessions opened one after another
SORTED_BYTES_PER_S = 2_000_000  # of packed logs, by a busy processor; a sorting driver is waited for so much longer
PATIENCE_S = 1.0  # an interval is told so long after the first driver told it, even if another has not
GO_AFTER_NS = 20_000_000  # drivers begin together, this long after the last is ready
STDIN = "-"  # of the logs, the one that is read once
QUIT_S = 5.0  # a driver that was abandoned ends at once, or is killed
DRAIN_S = 5.0  # a database answers in this time what it was asked, or it hangs
SAY_AFTER_S = 0.5  # an end that needs longer than this is explained


class ServerSaid(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of itself; the volume is known only where it lies on this host."""

    version: str
    data_directory: str | None
    server_address: str | None
    database_bytes: int | None
    settings: list[tuple[str, str]]


class ServerReached(msgspec.Struct, frozen=True, kw_only=True):
    """A database as a driver found it, or why it was not reached."""

    facts: ServerSaid | None
    failure: str | None


class DriverReady(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="ready"):
    """A driver is connected and waits."""

    bricks: list[ServerReached]


class DriverRefused(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="refused"):
    """A driver cannot do what it was told."""

    bad_input: bool
    message: str


_FIRST_WORD: msgspec.json.Decoder[DriverReady | DriverRefused] = msgspec.json.Decoder(DriverReady | DriverRefused)


class Driver(Protocol):
    """One driver, wherever it runs; `tell` has each of its lines, and None after the last."""

    host: str
    """Empty where it is this one."""

    def send(self, text: str) -> None: ...
    def why_ended(self) -> HostReason: ...
    def kill(self) -> None: ...
    def hang_up(self) -> None:
        """No more orders: it ends, which nobody waits for yet."""

    def close(self) -> None: ...


class Places(Protocol):
    """Where drivers run."""

    lead_ns: int
    """From the word to the common instant."""
    patience_s: float
    """An interval is told so long after the first driver told it, even if another has not."""

    def begin(self, number: int, order: DriverOrder, tell: Callable[[str | None], None]) -> Driver: ...
    def instants(self, drivers: Sequence[Driver]) -> list[int]:
        """The common start, by the monotonic clock of each driver."""

    def started(self) -> list[str]:
        """Events behind the first."""

    def lost(self, number: int, why: HostReason) -> list[str] | None:
        """Events about a driver that ended unexpectedly; None where the others are to end as well."""

    def ended(self, outcomes: Mapping[int, RunOutcome]) -> list[str]:
        """Events before the last."""


class LocalDriver:
    """A process of this host."""

    host = ""

    def __init__(self, order: DriverOrder, tell: Callable[[str | None], None]) -> None:
        taken, given = os.pipe()
        self._orders = os.fdopen(given, "w", encoding="utf-8")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "brickyard.study.replays.driver", str(taken)],
                stdin=None if STDIN in order.logs else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                env=os.environ,
                pass_fds=(taken,),
                start_new_session=True,  # Ctrl-C reaches a driver through us
            )
        except BaseException:
            self._orders.close()
            raise
        finally:
            os.close(taken)
        self._thread = threading.Thread(target=self._listen, args=(tell,), daemon=True)
        self._thread.start()
        self.send(encode(order))

    def _listen(self, tell: Callable[[str | None], None]) -> None:
        for line in self._process.stdout or ():
            tell(line)
        tell(None)

    def send(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._orders.write(text + "\n")
            self._orders.flush()

    def why_ended(self) -> HostReason:
        return HostDriverEnded(exit_code=self._process.wait(), said="")

    def kill(self) -> None:
        self._process.kill()

    def hang_up(self) -> None:
        with suppress(OSError, ValueError):
            self._orders.close()

    def close(self) -> None:
        try:
            self._process.wait(QUIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(QUIT_S)
        if self._process.stdout is not None:
            self._process.stdout.close()


class Here:
    """All drivers on this host, whose processes share a clock."""

    lead_ns = GO_AFTER_NS
    patience_s = PATIENCE_S

    def begin(self, number: int, order: DriverOrder, tell: Callable[[str | None], None]) -> Driver:
        del number
        return LocalDriver(order, tell)

    def instants(self, drivers: Sequence[Driver]) -> list[int]:
        return [time.clock_gettime_ns(time.CLOCK_MONOTONIC) + self.lead_ns] * len(drivers)

    def started(self) -> list[str]:
        return []

    def lost(self, number: int, why: HostReason) -> None:
        del number, why

    def ended(self, outcomes: Mapping[int, RunOutcome]) -> list[str]:
        del outcomes
        return []


class Drivers:
    """Drivers that are connected and wait; then a run under way, with the face of the core's."""

    def __init__(
        self,
        orders: list[DriverOrder],
        say: Callable[[str], None],
        *,
        sorted_bytes: int = 0,
        places: Places | None = None,
    ) -> None:
        """Starts a process for each order; what one of them refuses is bad input. `say` tells what is waited for.

        `sorted_bytes` is how much log each sorts before it is ready.
        """
        self._ready_s = READY_S + sorted_bytes / SORTED_BYTES_PER_S
        self._told: queue.Queue[tuple[int, str | None]] = queue.Queue()
        self._drivers: list[Driver] = []
        self._places: Places = places or Here()
        self._ended: dict[int, End] = {}
        self._phase_ends: dict[int, PhaseEnd] = {}
        self._parts: dict[int, dict[int, str]] = defaultdict(dict)
        self._since: dict[int, float] = {}
        self._told_up_to: dict[int, int] = {}
        self._streams: dict[int, Counter[str]] = defaultdict(Counter)
        self._pending: list[str] = []
        self._finished = False
        self._say = say
        self._ending = Ending()
        self.ready: list[DriverReady] = []
        try:
            for number, order in enumerate(orders):
                self._spawn(number, order)
            self.ready = [self._awaited() for _ in orders]
        except BaseException:
            self.close()
            raise

    def _spawn(self, number: int, order: DriverOrder) -> None:
        def tell(line: str | None) -> None:
            self._told.put((number, line))

        self._drivers.append(self._places.begin(number, order, tell))

    def _awaited(self) -> DriverReady:
        """The next driver that is ready."""
        try:
            number, line = self._told.get(timeout=self._ready_s)
        except queue.Empty:
            raise BrickyardError(
                f"a driver was not ready within {self._ready_s:.0f} s; see the database's load"
            ) from None
        driver = self._drivers[number]
        if line is None:
            why = words_of(driver.why_ended())
            raise BrickyardError(f"{self._name(number)} ended before it began ({why}); see its memory")
        word = _FIRST_WORD.decode(line)
        if isinstance(word, DriverRefused):
            kind = BadInputError if word.bad_input else BrickyardError
            said = one_line(word.message or "a driver refused")
            raise kind(f"{driver.host}: {said}" if driver.host else said)
        return word

    def _name(self, number: int) -> str:
        host = self._drivers[number].host
        return f"driver {number + 1}" + (f" on {host}" if host else "")

    def go(self, start: Mapping[str, object], phase: str) -> None:
        """All begin at the same instant. `start` is the run's first event, but for that instant."""
        for driver, start_ns in zip(self._drivers, self._places.instants(self._drivers), strict=True):
            driver.send(f"go {start_ns}")
        begun = {**start, "start_unix_ns": time.time_ns() + self._places.lead_ns}
        first = json.dumps(begun, default=msgspec.to_builtins)
        self._pending = [first, *self._places.started(), encode(PhaseStart(phase=0, name=phase, start_ns=0))]

    def stop(self) -> None:
        self._ending.begin()
        for driver in self._drivers:
            driver.send("stop")

    def abandon(self) -> None:
        for driver in self._drivers:
            driver.send("abandon")

    def finished(self) -> bool:
        return self._finished

    def events(self, timeout_ms: int) -> list[str]:
        """Events since the last call as JSON; waits up to `timeout_ms` for the first."""
        taken, self._pending = self._pending, []
        wait_s = 0.0 if taken else timeout_ms / 1000
        while not self._finished:
            try:
                number, line = self._told.get(timeout=wait_s) if wait_s else self._told.get_nowait()
            except queue.Empty:
                break
            wait_s = 0.0
            taken += self._heard(number, line)
        if not self._finished:
            self._hurry()
        taken += self._whole_intervals()
        if len(self._ended) == len(self._drivers) and not self._finished:
            taken += self._closing()
            self._finished = True
            self.close()
        return taken

    def _hurry(self) -> None:
        """A database that hangs holds nobody: what it has not answered after a while is counted as outstanding."""
        due = self._ending.due()
        if due == "say":
            self._say(
                f"waiting up to {DRAIN_S:.0f} s for calls that the database has not answered; Ctrl-C again ends at once"
            )
        elif due == "abandon":
            self._say(f"the database has not answered within {DRAIN_S:.0f} s; its calls are counted as outstanding")
            self.abandon()
        elif due == "kill":
            for driver in self._drivers:
                driver.kill()

    def _heard(self, number: int, line: str | None) -> list[str]:
        if line is None:
            return self._lost(number) if number not in self._ended else []
        match decode(line):
            case Interval(index=index):
                self._parts[index][number] = line
                self._since.setdefault(index, time.monotonic())
                self._told_up_to[number] = index
                return []
            case PhaseEnd() as phase_end:
                self._phase_ends[number] = phase_end
                return []
            case End() as end:
                self._ended[number] = end
                if end.outcome is RunOutcome.FAILED:
                    self.stop()
                return []
            case ErrorEvent() as error if len(self._drivers) > 1:
                return [encode(structs.replace(error, text=f"{error.text} ({self._name(number)})"))]
        return [line.strip()]

    def _lost(self, number: int) -> list[str]:
        """A driver that ended without saying so."""
        driver = self._drivers[number]
        why = driver.why_ended()
        lost = DriverLost(driver=number + 1, drivers=len(self._drivers), host=driver.host, reason=why)
        self._ended[number] = failed_end(lost)
        events = self._places.lost(number, why)
        if events is None:
            self.stop()
        return events or []

    def _whole_intervals(self) -> list[str]:
        """Intervals that all drivers have told, or for which the others have been waited for long enough."""
        taken = []
        now = time.monotonic()
        for index in sorted(self._parts):
            missing = [
                number
                for number in range(len(self._drivers))
                if number not in self._ended and self._told_up_to.get(number, -1) < index
            ]
            if missing and now - self._since[index] < self._places.patience_s:
                break
            parts = self._parts.pop(index)
            self._since.pop(index, None)
            merged = _core.replay_merge([parts[number] for number in sorted(parts)])
            self._count(decode(merged))
            taken += [merged, encode(_shares(parts))]
        return taken

    def _count(self, interval: Event) -> None:
        for cell in interval.cells if isinstance(interval, Interval) else ():
            self._streams[cell.stream].update(rows=cell.rows or 0, diverged=cell.diverged or 0)

    def _closing(self) -> list[str]:
        ends = [self._phase_ends[number] for number in sorted(self._phase_ends)]
        outcomes = {number: end.outcome for number, end in self._ended.items()}
        failed = [end for end in self._ended.values() if end.outcome is RunOutcome.FAILED]
        outcome = RunOutcome.FAILED if failed else RunOutcome.INTERRUPTED
        if set(outcomes.values()) == {RunOutcome.DONE}:
            outcome = RunOutcome.DONE
        end = End(
            end_ns=max(item.end_ns for item in self._ended.values()),
            outcome=outcome,
            message=failed[0].message if failed else None,
        )
        by_stream = [StreamCounts(stream=stream, **counts) for stream, counts in sorted(self._streams.items())]
        whole = [encode(merged_end(ends, by_stream))] if ends else []
        return [*whole, *self._places.ended(outcomes), encode(end)]

    def close(self) -> None:
        """Ends all processes that still live."""
        for driver in self._drivers:
            driver.hang_up()
        for driver in self._drivers:
            driver.close()


class Ending:
    """What is due, and when, once drivers were told to stop: a word, then no more patience, then force."""

    STEPS = (("say", SAY_AFTER_S), ("abandon", DRAIN_S), ("kill", DRAIN_S + QUIT_S))

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._done = 0

    def begin(self) -> None:
        self._since_s = self._since_s or time.monotonic()

    def due(self) -> str:
        """The next step, once; empty while nothing is due."""
        if self._since_s is None or self._done == len(self.STEPS):
            return ""
        step, after_s = self.STEPS[self._done]
        if time.monotonic() - self._since_s < after_s:
            return ""
        self._done += 1
        return step


def _shares(parts: dict[int, str]) -> DriversEvent:
    """What each driver did in one interval."""
    decoded = ((number, decode(text)) for number, text in sorted(parts.items()))
    told = [(number, interval) for number, interval in decoded if isinstance(interval, Interval)]
    return DriversEvent(
        phase=0,
        start_ns=min(interval.start_ns for _, interval in told),
        end_ns=max(interval.end_ns for _, interval in told),
        drivers=[
            DriverShare(
                driver=number,
                requests=sum(cell.requests for cell in interval.cells),
                errors=sum(cell.errors for cell in interval.cells),
                bytes=sum(cell.bytes for cell in interval.cells),
                drain=interval.drain,
                loop_busy_share=interval.loop_busy_share,
            )
            for number, interval in told
        ],
    )


def merged_end(ends: list[PhaseEnd], by_stream: list[StreamCounts]) -> PhaseEnd:
    """The ends of all drivers as that of one phase."""
    bound = [end for end in ends if end.generator_bound]
    # The first that was cut off tells more than those whose logs had ended.
    reasons = sorted((end.reason for end in ends), key=lambda reason: reason is PhaseReason.END_OF_LOG)
    cut_off = (reason for reason in reasons if reason not in (PhaseReason.END_OF_LOG, PhaseReason.DURATION))
    return structs.replace(
        ends[0],
        end_ns=max(end.end_ns for end in ends),
        reason=next(cut_off, reasons[0]),
        unsent=sum(end.unsent for end in ends),
        outstanding=sum(end.outstanding for end in ends),
        errors_by_errno=_sum(end.errors_by_errno for end in ends),
        errors_by_kind=_sum(end.errors_by_kind for end in ends),
        cpu=Cpu(user_ns=sum(end.cpu.user_ns for end in ends), system_ns=sum(end.cpu.system_ns for end in ends)),
        generator_bound=bool(bound),
        generator_bound_reason=bound[0].generator_bound_reason if bound else Bound.NO,
        loops=len(ends),
        loop_busy_share=max(end.loop_busy_share for end in ends),
        loop_cpu_share=max((one for end in ends if (one := end.loop_cpu_share) is not None), default=None),
        replay=ReplayEnd(
            drivers=[driver for end in ends if end.replay for driver in end.replay.drivers], by_stream=by_stream
        ),
    )


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for item in counts:
        total.update(item)
    return dict(sorted(total.items()))

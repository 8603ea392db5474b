"""Duty: record a workload, draw crash states of its log, have each distinct one judged, and count the verdicts.

A state that could not be judged, or whose check hung, is counted as such and never as passed.

Refusal: no state is mounted in this process.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from brickyard import outputs
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.lab import kernel
from brickyard.lab.checks import SHIPPED
from brickyard.lab.orders import (
    CORRUPT,
    KEPT,
    LOST,
    NOT_JUDGED,
    CheckOrder,
    LogFacts,
    Plan,
    Ready,
    Recording,
    RecordOrder,
    Refused,
    Setup,
    State,
    States,
    Verdict,
)
from brickyard.lab.program import plan
from brickyard.lab.worker import STORY

STATE_S = 60.0  # a state whose check has not ended by then is not judged
END_S = 20.0
STOP_S = 5.0  # a worker that is interrupted cleans up within it, or is killed
ALONE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child=KILL")
"""In a PID namespace, so that nothing outlives a worker; and the worker does not outlive us."""


@dataclass
class Outcome:
    """What was found: counts of drawn states, with the seed of the first of each kind."""

    states: int = 0
    distinct: int = 0
    kept: int = 0
    lost: int = 0
    corrupt: int = 0
    not_judged: int = 0
    first: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By kind: the seed, and why."""
    log: LogFacts | None = None
    drawn: list[State] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    """By seed, of each drawn state."""

    @property
    def found(self) -> int:
        return self.lost + self.corrupt

    def add(self, state: State, verdict: Verdict) -> None:
        self.states += 1
        self.drawn.append(state)
        name = {KEPT: "kept", LOST: "lost", CORRUPT: "corrupt"}.get(verdict.kind, "not_judged")
        setattr(self, name, getattr(self, name) + 1)
        self.verdicts[state.seed] = verdict
        if verdict.kind != KEPT:
            self.first.setdefault(verdict.kind, (state.seed, verdict.why))


class Worker:
    """A process of `brickyard.lab.worker`."""

    def __init__(self, order: RecordOrder | CheckOrder) -> None:
        self._process = subprocess.Popen(
            [*ALONE, sys.executable, "-P", "-m", "brickyard.lab.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C at the terminal is ours to handle
            env=os.environ,
        )
        self.tell(msgspec.json.encode(order))

    def tell(self, line: bytes) -> None:
        if self._process.stdin is not None:
            with suppress(OSError):  # it has ended, and its answer says why
                self._process.stdin.write(line + b"\n")
                self._process.stdin.flush()

    def line(self, within_s: float | None) -> bytes:
        """Its next answer; nothing where it has ended or took too long, and then it is killed."""
        if self._process.stdout is None:
            return b""
        watch = threading.Timer(within_s, self._process.kill) if within_s else None
        if watch:
            watch.daemon = True
            watch.start()
        try:
            return self._process.stdout.readline()
        finally:
            if watch:
                watch.cancel()

    def interrupt(self) -> None:
        """As Ctrl-C at a terminal would, for the worker and all that it started; then it is killed."""
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGINT)
        watch = threading.Timer(STOP_S, self._process.kill)
        watch.daemon = True
        watch.start()

    def end(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
        finally:
            self._process.kill()
            self._process.wait()


def refusal(line: bytes) -> BrickyardError:
    try:
        return BadInputError(msgspec.json.decode(line, type=Refused).error)
    except msgspec.MsgspecError:
        return BrickyardError(
            f"a worker of the lab ended without an answer: {one_line(line[:200].decode(errors='replace')) or 'killed'}"
        )


def record(setup: Setup, log: Path) -> Recording:
    """Records a workload into a new folder."""
    if log.exists() and any(log.iterdir()):
        raise BadInputError(f"{log}: is not empty; name a new folder for the log")
    outputs.folder(log)
    worker = Worker(RecordOrder(setup, str(log.resolve())))
    try:
        line = worker.line(None)
    except BaseException:
        worker.interrupt()
        raise
    finally:
        worker.end()
    try:
        recording = msgspec.json.decode(line, type=Recording)
    except msgspec.ValidationError as error:
        raise refusal(line) from error
    except msgspec.DecodeError as error:
        raise refusal(line) from error
    outputs.write_whole(log / STORY, msgspec.json.encode(recording))
    return recording


def read_recording(log: Path) -> Recording:
    try:
        return msgspec.json.decode((log / STORY).read_bytes(), type=Recording)
    except OSError as error:
        raise BadInputError(f"{log / STORY}: {error.strerror}; name the folder of a recorded log") from error
    except msgspec.MsgspecError as error:
        raise BadInputError(f"{log / STORY}: not a recording of the lab: {one_line(error)}") from error


def refuse_foreign(check: str, workload: str) -> None:
    """A shipped check knows what its own workload promises, and would find any other log at fault."""
    if check in SHIPPED and check != workload:
        own = f"--check {workload}, or " if workload in SHIPPED else ""
        raise BadInputError(
            f"--check {check}: the log is of {workload}, which promises other things; use {own}a command after --"
        )


@dataclass(frozen=True)
class Exploration:
    """What to look at, and how many workers do it."""

    log: Path
    check: str
    cache: str = "honest"
    aim: str = "mixed"
    torn_bytes: int = 0
    states: int = 1000
    seed: int = 1
    only: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    workers: int = 2

    def drawing(self, recording: Recording) -> States:
        return States(str(self.log.resolve()), recording.story, self.cache, self.aim, self.torn_bytes)

    def judging(self, recording: Recording) -> CheckOrder:
        place = str((self.log / STORY).resolve())
        return CheckOrder(place, self.drawing(recording), self.check, list(self.command), timeout_s=STATE_S)


def explore(wanted: Exploration, tell: Callable[[int, int], None] = lambda _done, _all: None) -> Outcome:
    """Judges each distinct state once; `tell` hears how many of them are done."""
    recording = read_recording(wanted.log)
    refuse_foreign(wanted.check, recording.setup.workload)
    drawn = wanted.drawing(recording)
    facts, states = plan(Plan(drawn, wanted.states, wanted.seed, list(wanted.only)))
    distinct: dict[tuple[str, int], State] = {}
    for state in states:
        distinct.setdefault((state.image, state.promised), state)
    workers = wanted.workers if kernel.at_once(recording.setup.file_system) else 1
    verdicts = _judged(wanted.judging(recording), list(distinct.values()), workers, tell)
    outcome = Outcome(distinct=len(distinct), log=facts)
    for state in states:
        outcome.add(state, verdicts[distinct[state.image, state.promised].seed])
    return outcome


def _judged(
    order: CheckOrder, states: list[State], workers: int, tell: Callable[[int, int], None]
) -> dict[str, Verdict]:
    """Each worker gets a stretch of the log, so that its image rolls forward once."""
    share = -(-len(states) // max(1, workers))
    parts = [states[at : at + share] for at in range(0, len(states), share)]
    told: queue.Queue[Verdict | BaseException] = queue.Queue()
    stop = Halting()
    threads = [threading.Thread(target=_work, args=(order, part, told, stop), daemon=True) for part in parts]
    verdicts: dict[str, Verdict] = {}
    try:
        for thread in threads:
            thread.start()
        while len(verdicts) < len(states):
            heard = told.get()
            if isinstance(heard, BaseException):
                raise heard
            verdicts[heard.seed] = heard
            tell(len(verdicts), len(states))
    except BaseException:
        stop.at_once()
        raise
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return verdicts


class Halting(threading.Event):
    """Ends what workers do: after their states, or at once."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._workers: set[Worker] = set()

    def at_once(self) -> None:
        with self._lock:
            self.set()
            for worker in self._workers:
                worker.interrupt()

    @contextmanager
    def started(self, order: CheckOrder) -> Iterator[Worker | None]:
        """A worker; none where everything is to end."""
        with self._lock:
            worker = None if self.is_set() else Worker(order)
            self._workers |= {worker} if worker else set()
        try:
            yield worker
        finally:
            if worker:
                worker.end()
                with self._lock:
                    self._workers.discard(worker)


def _work(order: CheckOrder, states: list[State], told: queue.Queue[Verdict | BaseException], stop: Halting) -> None:
    """Has states judged by one worker, and by another where one hung or died."""
    left = list(states)
    try:
        while left and not stop.is_set():
            with stop.started(order) as worker:
                if worker is None:
                    return
                line = worker.line(order.timeout_s)
                try:
                    msgspec.json.decode(line, type=Ready)
                except msgspec.MsgspecError:
                    raise refusal(line) from None
                _ask(worker, order, left, told, stop)
    except BaseException as error:  # goes to the thread that waits
        told.put(error)


def _ask(
    worker: Worker,
    order: CheckOrder,
    left: list[State],
    told: queue.Queue[Verdict | BaseException],
    stop: Halting,
) -> None:
    while left and not stop.is_set():
        state = left[0]
        worker.tell(state.seed.encode())
        line = worker.line(order.timeout_s)
        left.pop(0)
        try:
            verdict = msgspec.json.decode(line, type=Verdict)
            told.put(verdict)
            if verdict.is_last:
                return
        except msgspec.MsgspecError:
            why = (
                one_line(line[:200].decode(errors="replace"))
                or f"the check did not end within {order.timeout_s:.0f} s, or was killed"
            )
            told.put(Verdict(state.seed, NOT_JUDGED, why))
            return

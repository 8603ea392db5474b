"""Duty: record a workload, draw crash states of its log, have each distinct one judged, and count the verdicts.

A state that could not be judged, or whose check hung, is counted as such and never as passed.

Refusal: no state is mounted in this process.
"""

from __future__ import annotations

import hashlib
import math
import os
import queue
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from brickyard import outputs
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.lab import kernel
from brickyard.lab.checks import COMMAND, POSTGRES, SHIPPED, found_program, refuse_unknown
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
    Story,
    Verdict,
)
from brickyard.lab.program import plan
from brickyard.lab.rooms import own_folder
from brickyard.lab.worker import STORY

UNFINISHED = {"records", "data", "count", "medium"}  # what a log has before its story is written
UNLIKELY = 0.05  # the chance of being wrong that a bound allows
STATE_S = 60.0  # a state whose check has not ended by then is not judged
END_S = 20.0
FRESH_S = 5.0  # so long does the good state's verdict count
STOP_S = 5.0  # a worker that is interrupted cleans up within it, or is killed
LOGS_GONE = (
    "The logs were not kept, so no state can be mounted or judged again; --logs FOLDER keeps those of another run."
)
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
    cuts: set[int] = field(default_factory=set)
    """Where states were judged, as records of the log. States of one cut share what they promise and most of what they
    hold, so that they say little more than one of them."""
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    """By seed, of each drawn state."""
    is_chosen: bool = False
    """Whether the states were named, so that they show nothing about those that are drawn."""

    @property
    def found(self) -> int:
        return self.lost + self.corrupt

    @property
    def share_at_most(self) -> float | None:
        """Of cuts that are drawn like these, the share that may show something though nothing was found, with 95 %
        confidence: where it were larger, so many cuts without a finding had a chance below 5 %. None where something
        was found, nothing judged, or nothing drawn."""
        if not self.cuts or self.found or self.is_chosen:
            return None
        share: float = 1 - UNLIKELY ** (1 / len(self.cuts))
        return share

    def add(self, state: State, verdict: Verdict) -> None:
        self.states += 1
        self.drawn.append(state)
        name = {KEPT: "kept", LOST: "lost", CORRUPT: "corrupt"}.get(verdict.kind, "not_judged")
        setattr(self, name, getattr(self, name) + 1)
        self.verdicts[state.seed] = verdict
        if verdict.kind != NOT_JUDGED:
            self.cuts.add(state.cut)
        if verdict.kind != KEPT:
            self.first.setdefault(verdict.kind, (state.seed, verdict.why))


def bound_words(outcome: Outcome) -> str:
    """What a search that found nothing says of what it did not see."""
    if outcome.share_at_most is None:
        return ""
    rarest = math.floor(1 / outcome.share_at_most)
    count = len(outcome.cuts)
    if rarest < 2:
        return f"nothing was found at {count} {'cut' if count == 1 else 'cuts'}: too few for a bound"
    return (
        f"nothing was found at {count:,} cuts: with 95 % confidence, fewer than 1 in {rarest:,} of the cuts"
        " of this log, drawn and looked at like these, shows anything"
    )


class Worker:
    """A process of `brickyard.lab.worker`, and the folder that it works in, which is gone after it however it ends."""

    def __init__(self, order: RecordOrder | CheckOrder) -> None:
        self._ending = ExitStack()
        room = self._ending.enter_context(own_folder())
        with ExitStack() as failing:
            failing.push(self._ending)
            self._process = subprocess.Popen(
                [*ALONE, sys.executable, "-P", "-m", "brickyard.lab.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C at the terminal is ours to handle
                env=os.environ,
            )
            failing.pop_all()
        self.tell(msgspec.json.encode(msgspec.structs.replace(order, room=str(room))))

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
            self._ending.close()


def refusal(line: bytes) -> BrickyardError:
    try:
        return BadInputError(msgspec.json.decode(line, type=Refused).error)
    except msgspec.MsgspecError:
        return BrickyardError(
            f"a worker of the lab ended without an answer: {one_line(line[:200].decode(errors='replace')) or 'killed'}"
        )


def _verdict(line: bytes, seed: str, timeout_s: float) -> Verdict:
    """A worker's answer; where it gave none, it is of no more use."""
    try:
        return msgspec.json.decode(line, type=Verdict)
    except msgspec.MsgspecError:
        why = str(refusal(line)) if line else f"the check did not end within {timeout_s:.0f} s, or was killed"
        return Verdict(seed, NOT_JUDGED, why, is_last=True)


class Judge:
    """Has states judged one at a time, by one worker, and by another where that hung or died."""

    def __init__(self, order: CheckOrder) -> None:
        self._order = order
        self._worker: Worker | None = None

    def judged(self, seed: str, *more: str) -> Verdict:
        """With what a worker takes besides a seed."""
        try:
            if self._worker is None:
                self._worker = Worker(self._order)
                line = self._worker.line(self._order.timeout_s)
                try:
                    msgspec.json.decode(line, type=Ready)
                except msgspec.MsgspecError:
                    raise refusal(line) from None
            self._worker.tell(" ".join([seed, *more]).encode())
            verdict = _verdict(self._worker.line(self._order.timeout_s), seed, self._order.timeout_s)
        except BaseException:
            if self._worker is not None:
                self._worker.interrupt()
            self.end()
            raise
        if verdict.is_last:
            self.end()
        return verdict

    def end(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None


class Witness:
    """Has a state judged that is known to be good, beside those in which a check finds damage: where it finds damage
    there too, or cannot judge, the check or the host is at fault and not a disk.
    """

    def __init__(self, order: CheckOrder, *, beside: bool = True) -> None:
        self._order, self._judge, self._beside = order, Judge(order), beside
        self._seed = ""
        self._asked_s: float | None = None
        self._fault: str | None = None
        self._waiting: list[Verdict] = []

    def __enter__(self) -> Witness:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._judge.end()

    @property
    def _is_old(self) -> bool:
        return self._asked_s is None or time.monotonic() - self._asked_s >= FRESH_S

    def _ask(self) -> None:
        self._fault, self._asked_s = self._found(), time.monotonic()

    def believed(self, verdict: Verdict) -> Verdict:
        """The verdict, or what it is instead."""
        if verdict.kind != CORRUPT:
            return verdict
        if self._fault or self._is_old:
            self._ask()
        return self._doubted(verdict) if self._fault else verdict

    def _found(self) -> str | None:
        try:
            if not self._seed:
                _, (good,) = plan(Plan(self._order.states, 1))
                self._seed = good.seed
            verdict = self._judge.judged(self._seed)
        except (BrickyardError, OSError) as error:
            return one_line(error)
        return None if verdict.kind in (KEPT, LOST) else verdict.why

    def add(self, verdict: Verdict) -> None:
        if verdict.kind == CORRUPT:
            self._waiting.append(verdict)

    @property
    def is_due(self) -> bool:
        """Whether to ask while others judge, which some file systems do not allow."""
        return self._beside and bool(self._waiting) and self._is_old

    def doubted(self) -> dict[str, Verdict]:
        """Those of the added verdicts that do not count, as what they are instead."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return {}
        self._ask()  # what began before the last of them was found is known only now
        return {one.seed: self._doubted(one) for one in waiting} if self._fault else {}

    def _doubted(self, verdict: Verdict) -> Verdict:
        told = f"a state that is known to be good fails too ({self._fault}); look at the check, at memory, and at space"
        return Verdict(verdict.seed, NOT_JUDGED, f"{verdict.why}: {told} in {tempfile.gettempdir()} and /dev/shm")


def record(setup: Setup, log: Path) -> Recording:
    """Records a workload into a new folder."""
    refuse_unknown(setup)
    setup = msgspec.structs.replace(setup, command=found_program(setup.command))
    if log.exists() and (there := {place.name for place in log.iterdir()}):
        if there <= UNFINISHED:
            raise BadInputError(f"{log}: holds a recording that was not finished; remove the folder, or name a new one")
        raise BadInputError(f"{log}: is not empty; name a new folder for the log")
    outputs.folder(log)
    with ExitStack() as failing:
        failing.callback(_discard, log)
        recording = _recorded(setup, log)
        failing.pop_all()
    outputs.write_whole(log / STORY, msgspec.json.encode(recording))
    return recording


def _discard(log: Path) -> None:
    """What a recording that failed has left in its folder, so that it can be begun again."""
    for name in UNFINISHED:
        with suppress(OSError):
            outputs.remove_file(log / name)


def _recorded(setup: Setup, log: Path) -> Recording:
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
    facts, _ = plan(Plan(States(str(log.resolve()), recording.story), 0))
    return sealed(msgspec.structs.replace(recording, log_hash=facts.hash, records=facts.records))


def sealed(recording: Recording) -> Recording:
    """With its own hash."""
    bare = msgspec.json.encode(msgspec.structs.replace(recording, story_hash=""))
    return msgspec.structs.replace(recording, story_hash=hashlib.sha256(bare).hexdigest())


def read_recording(log: Path) -> Recording:
    try:
        content = (log / STORY).read_bytes()
        recording = msgspec.json.decode(content, type=Recording)
    except OSError as error:
        raise BadInputError(f"{log / STORY}: {error.strerror}; name the folder of a recorded log") from error
    except msgspec.MsgspecError as error:
        raise BadInputError(f"{log / STORY}: not a recording of the lab: {one_line(error)}") from error
    told = recording.story_hash
    if not told or not recording.log_hash:
        raise BadInputError(
            f"{log / STORY}: has no hash, so that nobody can see whether it has changed; older versions recorded such "
            "logs; record again"
        )
    if hashlib.sha256(content.replace(f'"{told}"'.encode(), b'""')).hexdigest() != told:
        raise BadInputError(f"{log / STORY}: has been changed since it was recorded; record again")
    return recording


def facts_of(wanted: Exploration, recording: Recording) -> LogFacts:
    """What the log is, which has to be the recording's own."""
    facts, _ = plan(Plan(wanted.drawing(recording), 0))
    refuse_other_log(wanted.log, recording, facts)
    return facts


def refuse_other_log(log: Path, recording: Recording, facts: LogFacts) -> None:
    if facts.hash == recording.log_hash and not facts.torn_bytes:
        return
    missing = recording.records - facts.records
    cut_short = f", or was cut short: {missing:,} of {recording.records:,} records are missing" if missing > 0 else ""
    raise BadInputError(f"{log}: its log is not the one that {STORY} was recorded with{cut_short}; record again")


def refuse_foreign(check: str, workload: str, command: Sequence[str]) -> None:
    """A shipped check knows what its own workload promises, and would find any other log at fault. The command of a
    recording is the workload, and judges nothing."""
    if check == COMMAND and not command:
        raise BadInputError("a check by a command needs one; give it after --")
    if check != COMMAND and command:
        raise BadInputError(f"--check {check}: takes no command; leave out --check, or what stands after --")
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
    log_stays: bool = True
    """Whether the log is there when all is done, so that a state can be looked at again."""

    @property
    def options(self) -> str:
        """As a user writes them beside a seed, which draws this state with them alone."""
        return f"--cache {self.cache} --torn {self.torn_bytes or 'none'} --aim {self.aim}"

    def named(self, seed: str) -> str:
        """A state in a user's words; without its log nobody can draw it again."""
        if not self.log_stays:
            return f"state {seed}"
        return f"--log {shlex.quote(str(self.log))} --only {seed} {self.options}"

    def drawing(self, recording: Recording) -> States:
        return States(str(self.log.resolve()), recording.story, self.cache, self.aim, self.torn_bytes)

    def judging(self, recording: Recording) -> CheckOrder:
        place = str((self.log / STORY).resolve())
        return CheckOrder(place, self.drawing(recording), self.check, found_program(self.command), timeout_s=STATE_S)

    def good(self, recording: Recording, facts: LogFacts) -> CheckOrder:
        """Judges one state that is good whatever was recorded: all of the log, after the file system was unmounted; of
        a server, which leaves no data when it has ended, all before its load began, which was synced."""
        at = recording.story.begin if recording.setup.workload == POSTGRES else facts.records
        states = States(str(self.log.resolve()), Story(at, at, [at]), "off", "acknowledgements")
        return msgspec.structs.replace(self.judging(recording), states=states)


def explore(wanted: Exploration, tell: Callable[[int, int], None] = lambda _done, _all: None) -> Outcome:
    """Judges each distinct state once; `tell` hears how many of them are done."""
    recording = read_recording(wanted.log)
    refuse_foreign(wanted.check, recording.setup.workload, wanted.command)
    order, drawn = wanted.judging(recording), wanted.drawing(recording)
    facts, states = plan(Plan(drawn, wanted.states, wanted.seed, list(wanted.only)))
    distinct: dict[tuple[str, int], State] = {}
    for state in states:
        distinct.setdefault((state.image, state.promised), state)
    refuse_other_log(wanted.log, recording, facts)
    at_once = kernel.at_once(recording.setup.file_system)
    workers = wanted.workers if at_once else 1
    with Witness(wanted.good(recording, facts), beside=at_once) as witness:
        verdicts = _judged(order, list(distinct.values()), workers, tell, witness)
    outcome = Outcome(distinct=len(distinct), log=facts, is_chosen=bool(wanted.only))
    for state in states:
        outcome.add(state, verdicts[distinct[state.image, state.promised].seed])
    return outcome


def _judged(
    order: CheckOrder, states: list[State], workers: int, tell: Callable[[int, int], None], witness: Witness
) -> dict[str, Verdict]:
    """Each worker gets a stretch of the log, so that its image rolls forward once. Damage counts when a good state has
    been judged after it was found."""
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
            witness.add(heard)
            tell(len(verdicts), len(states))
            if witness.is_due:
                verdicts |= witness.doubted()
    except BaseException:
        stop.at_once()
        raise
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return verdicts | witness.doubted()


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
        verdict = _verdict(worker.line(order.timeout_s), state.seed, order.timeout_s)
        left.pop(0)
        told.put(verdict)
        if verdict.is_last:
            return

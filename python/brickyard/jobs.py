"""Duty: start a run, a characterization or a study in a process of its own, which outlives whoever started it, and stop
it in good order. Each job has a folder that says what was ordered and what became of it.

Refusal: nothing is measured here but by the functions of `brickyard.api`, and no process is signalled that is not, by
its start and the boot, the one of the job.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from brickyard import outputs
from brickyard.databases.connect import refuse_password, spoken
from brickyard.databases.pgbench_plan import BUILT_IN
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.ready import ready
from brickyard.schema import ProcessMark
from brickyard.schema.plan import OtherPlan, Plan
from brickyard.store import Store
from brickyard.store.process import is_alive, own_process, process_of

Kind = Literal["run", "characterize", "study", "replay", "web-log"]
MARK = re.compile(rb'\A{"job":')
NAME = re.compile(r"[0-9a-f]{16}")
SERVERS = ("wheel", "debian")
ORDER, STARTED, STATE = "order.json", "started.json", "state.json"
STARTING, RUNNING, LOST = "starting", "running", "lost"
OVER_KEPT = 200
"""Our choice: jobs that have ended, of which a page shows ten."""
FIRST_WORD_S = 60.0  # whoever wrote an order has started its process by then, or was killed


class NoJobError(BadInputError):
    """There is no job of that name."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run. `name` is a profile, a study, a trace's file or the mapping of web logs; without a target a
    scratch file is made. Of `web-log` targets are databases, whose passwords are in no order."""

    job: str = "order"
    kind: Kind
    name: str = ""
    changes: list[str] = []
    targets: list[str] = []
    condition: str | None = None
    size: str | None = None
    repetitions: int = 1
    mode: Literal["quick", "default", "full"] = "quick"
    only: list[str] = []
    timing: str = "timed"
    """Of a trace that is replayed: `timed`, `dependent` or `fire_hose`."""
    speed: float = 1.0
    fit: str = "exact"
    """How a trace is fitted into the target: `exact`, or as `brickyard run --fit` has it."""
    logs: list[str] = []
    """Web logs; what follows is of their replay too."""
    pace: str = "time-synchronized"
    log_speed: str = "1x"
    drivers: int = 1
    sessions: int = 20
    duration: str | None = None
    overwrite: list[str] = []
    store: str | None = None
    by: str = ""
    """Who ordered it, in words."""


class JobState(msgspec.Struct, kw_only=True):
    """What became of a job, as its own process says; until then, as whoever started it says."""

    job: str = "state"
    pid: int
    start_ticks: int | None
    boot_id: str | None
    outcome: str = RUNNING
    message: str = ""
    notes: list[str] = []
    runs: list[int] = []


class StartedJob(msgspec.Struct, frozen=True):
    """An order with its state; None for a moment, until its process is started."""

    name: str
    order: Order
    state: JobState | None

    @property
    def is_running(self) -> bool:
        state = self.state
        return state is not None and state.outcome in (STARTING, RUNNING) and is_alive(_process(state))

    @property
    def outcome(self) -> str:
        """`starting`, `running`, `done`, `interrupted`, `failed` or `refused`; `lost` where its process was killed."""
        if self.state is None:
            return STARTING
        is_said_to_live = self.state.outcome in (STARTING, RUNNING)
        return LOST if is_said_to_live and not self.is_running else self.state.outcome


def _process(state: JobState) -> ProcessMark:
    return ProcessMark(pid=state.pid, start_ticks=state.start_ticks, boot_id=state.boot_id)


class Jobs:
    """The jobs of one folder. The processes that were started here are waited for as they end."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._children: list[subprocess.Popen[bytes]] = []
        self._over: dict[str, tuple[int, StartedJob]] = {}
        """Jobs that have ended, which nothing changes any more, with the instants of their folders."""

    def start(self, order: Order) -> StartedJob:
        """Starts a job at once; refused where one is running on the same target."""
        if order.kind == "web-log":
            for dsn in order.targets:
                refuse_password(dsn, "the database")
        for other in self.running():
            if is_on_scratch(other.order) and is_on_scratch(order):
                raise BadInputError(
                    f"a scratch file: job {other.name} is running on one, and both would be on the same file system;"
                    " wait for its end, or stop it"
                )
            shared = set(other.order.targets) & set(order.targets)
            if shared:
                raise BadInputError(f"{min(shared)}: job {other.name} is running on it; wait for its end, or stop it")
        outputs.folder(self.home)
        name = secrets.token_hex(8)
        place = self.home / name
        outputs.folder(place)
        outputs.write_whole(place / ORDER, msgspec.json.encode(order), MARK, durable=True, mode=0o600)
        # A stop that comes before the process can heed it waits: what is blocked here is blocked there.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            child = subprocess.Popen(
                [sys.executable, "-m", "brickyard.jobs", str(place)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        except OSError as error:
            failed = JobState(pid=0, start_ticks=None, boot_id=None, outcome="failed", message=one_line(error))
            outputs.write_whole(place / STATE, msgspec.json.encode(failed), MARK, mode=0o600)
            raise BrickyardError(f"no process can be started: {error.strerror}; see the host's memory") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._children.append(child)
        self._forget_old()
        mark = process_of(child.pid)
        state = JobState(pid=mark.pid, start_ticks=mark.start_ticks, boot_id=mark.boot_id, outcome=STARTING)
        outputs.write_whole(place / STARTED, msgspec.json.encode(state), MARK, mode=0o600)
        return StartedJob(name, order, state)

    def all(self) -> list[StartedJob]:
        """Newest last."""
        return [job for _, job in self._all()]

    def _all(self) -> list[tuple[int, StartedJob]]:
        """With the instants of their folders. One that has ended is read once."""
        self._reap()
        try:
            places = [place for place in self.home.iterdir() if NAME.fullmatch(place.name)]
        except OSError:
            return []
        over = {place.name: self._over[place.name] for place in places if place.name in self._over}
        found = list(over.values())
        for place in places:
            if place.name in over:
                continue
            job = _read(place)
            if job is not None and job.outcome == LOST:
                job = _read(place)  # its last word may have come between that look at its file and at its process
            try:
                at_ns = place.stat().st_mtime_ns
            except OSError:  # removed meanwhile
                continue
            if job is None:
                continue
            if job.outcome not in (STARTING, RUNNING):
                over[place.name] = at_ns, _settled(job)
            found.append(over.get(place.name, (at_ns, job)))
        self._over = over
        return sorted(found, key=lambda item: item[0])

    def _forget_old(self) -> None:
        """Of jobs that have ended only the newest are kept; what they measured is in the store."""
        over = [job.name for _, job in self._all() if job.name in self._over]
        for name in over[:-OVER_KEPT]:
            with contextlib.suppress(OSError):
                for part in (STATE, STARTED, ORDER):
                    outputs.remove_ours(self.home / name / part, MARK)
                outputs.remove_empty(self.home / name)
            del self._over[name]

    def running(self) -> Iterator[StartedJob]:
        for job in self.all():
            if job.is_running or job.state is None:
                yield job

    def named(self, name: str) -> StartedJob:
        found = next((job for job in self.all() if job.name == name), None)
        if found is None:
            raise NoJobError("no such job; it may be too old")
        return found

    def stop(self, name: str) -> StartedJob:
        """As Ctrl-C would: nothing more is issued, and all that was measured is kept. A second time it waits for
        nothing that is in flight."""
        job = self.named(name)
        if job.state is None or not job.is_running:
            raise BadInputError(f"job {name}: is not running")
        try:
            handle = os.pidfd_open(job.state.pid)
        except OSError as error:
            raise BadInputError(f"job {name}: has ended") from error
        try:
            if not is_alive(_process(job.state)):  # the descriptor is of whoever bears the number now
                raise BadInputError(f"job {name}: has ended")
            signal.pidfd_send_signal(handle, signal.SIGINT)
        finally:
            os.close(handle)
        return job

    def _reap(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]


def _settled(job: StartedJob) -> StartedJob:
    """What became of it, for good: nobody has to look for its process again."""
    if job.state is None:
        return job
    return msgspec.structs.replace(job, state=msgspec.structs.replace(job.state, outcome=job.outcome))


def is_on_scratch(order: Order) -> bool:
    """Whether it makes a scratch file; all of them are made in one place. A study names targets of its own."""
    return order.kind in ("run", "replay", "characterize") and not order.targets


def _read(place: Path) -> StartedJob | None:
    try:
        order = msgspec.json.decode((place / ORDER).read_bytes(), type=Order)
        for written in (place / STATE, place / STARTED):
            if written.exists():
                return StartedJob(place.name, order, msgspec.json.decode(written.read_bytes(), type=JobState))
        age_s = time.time() - (place / ORDER).stat().st_mtime
    except (OSError, msgspec.DecodeError):
        return None
    nobody = JobState(pid=0, start_ticks=None, boot_id=None, outcome=STARTING)
    return StartedJob(place.name, order, None if 0 <= age_s < FIRST_WORD_S else nobody)


def _carry_out(order: Order, say: Any, made: list[int]) -> tuple[list[int], str]:
    """Run numbers, and what is to be said at the end. `made` gets the numbers of what a stopped or failed job has
    measured."""
    with Store(order.store) as store:
        newest = store.newest()
        try:
            return _done(order, store, say)
        except BaseException:
            with contextlib.suppress(BrickyardError, sqlite3.Error, OSError):
                later = [head.id for head in store.heads(1 if newest is None else newest.id + 1)]
                made += [info.id for info in store.runs(later) if info.facts.process == own_process()]
            raise


def _done(order: Order, store: Store, say: Any) -> tuple[list[int], str]:
    from brickyard import api

    if order.kind in ("run", "replay"):
        modelled = any(api.is_modelled(target) for target in order.targets)
        found = api.run(
            store,
            load_of(order),
            order.targets,
            condition=order.condition if modelled else None,
            repetitions=order.repetitions,
            size=order.size,
            overwrite=order.overwrite,
            say=say,
        )
        return [item.run for item in found], ""
    if order.kind == "web-log":
        replayed = api.replay(store, web_log_of(order), order.pace, repetitions=order.repetitions, say=say)
        told = [*([f"study s{replayed.study}"] if replayed.study is not None else []), *replayed.failed]
        return [item.run for item in replayed.runs], "; ".join(told)
    if order.kind == "characterize":
        target = order.targets[0] if order.targets else None
        studied = api.characterize(
            store, target, mode=order.mode, changes=order.changes, overwrite=order.overwrite, say=say
        )
    else:
        studied = api.run_study(
            store,
            order.name,
            targets=order.targets,
            only=order.only,
            changes=order.changes,
            overwrite=order.overwrite,
            say=say,
        )
    return studied.runs, f"study s{studied.study}" if studied.study is not None else ""


def load_of(order: Order) -> Any:
    """The load of a run or a replay; raises BadInputError where it is none."""
    from brickyard import api

    if order.kind == "run":
        return api.profile(order.name, *order.changes)
    from brickyard.traces.replayed import replay_profile

    made = replay_profile(order.name, timing=order.timing, speed=order.speed, fit=order.fit)
    return api.profile(made.name, *order.changes, text=made.text)


def shown_database(dsn: str) -> str:
    """What is shown of a connection string."""
    return spoken(dsn)


def shown_targets(order: Order) -> list[str]:
    if order.kind != "web-log":
        return order.targets
    try:
        return [spoken(dsn) for dsn in order.targets]
    except BadInputError:  # an order of an earlier version
        return ["a database"]


def check_order(order: Order, traces: Collection[str]) -> None:
    """Raises BadInputError where a run of the order would be refused, or reads a file that is not one of `traces`.

    Changes may name files too: traces, scripts and programs of pgbench.
    """
    for plan in _plans(order):
        if isinstance(plan, Plan):
            streams = [stream for phase in plan.phase for stream in phase.stream]
            if any(stream.trace is not None and stream.trace.file not in traces for stream in streams):
                raise BadInputError("changes: no such trace; start the server with --allow-trace FILE")
        elif plan.pgbench is not None and not (plan.pgbench.script in BUILT_IN and plan.pgbench.server in SERVERS):
            raise BadInputError(f"changes: script is {', '.join(BUILT_IN)} here, server is {' or '.join(SERVERS)}")


def _plans(order: Order) -> Sequence[Plan | OtherPlan]:
    from brickyard import api

    if order.kind == "study":
        return api.plans_of_study(order.name, targets=order.targets, only=order.only, changes=order.changes)
    if order.kind == "characterize":
        target = order.targets[0] if order.targets else None
        return api.plans_of_characterization(target, mode=order.mode, changes=order.changes, overwrite=order.overwrite)
    load = load_of(order)
    api.check(load, order.targets, condition=order.condition, overwrite=order.overwrite, size=order.size)
    return [load.plan]


def web_log_of(order: Order) -> Any:
    """What a replay of web logs is made of; raises BadInputError where it is nothing."""
    from brickyard import api

    return api.web_log(
        order.logs,
        order.name,
        order.targets,
        speed=order.log_speed,
        drivers=order.drivers,
        sessions=order.sessions,
        duration=order.duration,
    )


def main(place: Path) -> int:
    """What a job's own process does."""
    order = msgspec.json.decode((place / ORDER).read_bytes(), type=Order)
    own = own_process()
    state = JobState(pid=own.pid, start_ticks=own.start_ticks, boot_id=own.boot_id)

    def keep() -> None:
        outputs.write_whole(place / STATE, msgspec.json.encode(state), MARK, mode=0o600)

    def say(text: str) -> None:
        state.notes = [*state.notes, text]
        keep()

    keep()
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # also where whoever started us ignores it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        state.runs, state.message = _carry_out(order, say, state.runs)
        state.outcome = "done"
    except KeyboardInterrupt:
        state.outcome, state.message = "interrupted", "stopped; what was measured is kept"
    except BadInputError as error:
        state.outcome, state.message = "refused", one_line(error)
    except (BrickyardError, OSError, sqlite3.Error) as error:
        state.outcome, state.message = "failed", one_line(error)
    except BaseException as error:
        state.outcome, state.message = "failed", f"unexpected {type(error).__name__}: {one_line(error)}"
        raise
    finally:
        keep()
    return 0


ready(Order, JobState)

if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

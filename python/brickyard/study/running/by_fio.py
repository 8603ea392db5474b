"""Duty: a plan carried out by an installed fio instead of our engine, recorded in the same form.

The core goes first: it opens the targets, makes and fills what is missing, refuses what may not be written, and tells
where the data lie. fio then gets that part alone, so that our header and everything outside stay as they are.

fio is given the descriptors that the guard has opened, never a path, so that it can open nothing else.

Refusal: fio's own runs have no intervals, no response time from a due instant and no watchdog, and none are made up.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import structs

from brickyard import _core, outputs
from brickyard.errors import BadInputError, BrickyardError, core_refusals, one_line
from brickyard.formats.fio_export import check_fio, export_fio
from brickyard.formats.fio_json import read_result
from brickyard.formats.fio_result import SeenBeside, store_result
from brickyard.formats.fio_stream import FLUSHES_ONCE_FROM, flushes_again, version_words
from brickyard.schema import (
    Duration,
    End,
    RunOutcome,
    RunWatch,
    Start,
    decode,
    encode,
    plan_text,
    warned,
    words_of,
)
from brickyard.schema.plan import CacheState, EngineChoice, IoMode, Plan
from brickyard.store import Record, Store
from brickyard.study.running import circumstances, summaries
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import EVENT_WAIT_MS, Listener, RunResult, RunSpec
from brickyard.study.running.sizes import data_of
from brickyard.watch.beside import NoWatch

GLOBAL = "[global]\n"
WAIT_S = 0.1  # how soon the end of fio is seen
NO_RESPONSE = warned(
    "by-fio",
    "note",
    "Measured by fio: one interval for each phase; its latency, with the submission (lat), is the service time.",
    "leave --engine out to see the course over time",
)


def fio_place() -> str:
    place = shutil.which("fio")
    if place is None:
        raise BadInputError("fio is not installed; apt-get install fio, or leave --engine fio out")
    return place


def refuse_by_fio(plan: Plan, targets: Sequence[str] = ()) -> str:
    """Where fio is. Without it, and for what the one that is there cannot carry out as the plan asks, nothing begins; a
    region in parts is known to fit once all targets are there."""
    place = fio_place()
    check_fio(plan)
    refuse_flushes(plan, _version(place))
    data = [found for path in targets if (found := data_of(path))]
    if targets and len(data) == len(targets):
        export_fio(plan, list(targets), data)
    return place


def run_fio(
    store: Store, listener: Listener, interrupt: Interrupt, spec: RunSpec, study: int | None = None
) -> RunResult:
    """One run of a plan by fio; what fio can't express is refused before anything is touched."""
    plan = spec.profile_plan
    place = refuse_by_fio(plan, spec.targets)
    opened = prepare(plan, spec, interrupt)
    facts = circumstances.collect(spec.targets)
    plan = structs.replace(plan, io=IoMode(opened.io))  # where the file system has no O_DIRECT, fio must not try either
    if plan.io is IoMode.BUFFERED:
        # The core has dropped the cache, once, as it does for a run; fio would drop it at every pass over the file.
        plan = structs.replace(plan, cache=CacheState.AS_IS)
    listener.note(f"{_version(place)} runs {spec.profile}")
    watch = circumstances.Watching(spec.targets, NoWatch("fio does not tell which of its requests were slow"))
    with _held(plan, spec) as held:
        data = [(target.data_start_bytes, target.data_bytes) for target in held]
        files = [target.file for target in held]
        job = export_fio(plan, _paths(files), data).replace(GLOBAL, f"{GLOBAL}lat_percentiles=1\n", 1)
        with watch:
            told, is_stopped = _carry_out(place, job, files, interrupt, watch.look)

    def watched(record: Record) -> SeenBeside:
        found = watch.results(record)
        return SeenBeside(RunWatch(targets=list(found)), circumstances.warnings(store, record, found))

    run = store_result(
        store,
        read_result(told),
        profile=spec.profile,
        plan=spec.profile_plan,
        profile_hash=spec.profile_hash,
        targets=spec.targets,
        facts=facts,
        opened=opened,
        study=study,
        labels=spec.marks,
        warnings=[NO_RESPONSE],
        watched=watched,
        is_stopped=is_stopped,
    )
    record = store.record(run)
    info = record.info
    if info.outcome == "done":
        summaries.keep(store, record)
    return RunResult(run, info.outcome, info.message, info.start)


def refuse_flushes(plan: Plan, version: str) -> None:
    """Flushed writes would be another load by a fio that flushes more often than it is told to."""
    said = re.fullmatch(r"fio-(\d+)\.(\d+).*", version)
    if not said or (int(said[1]), int(said[2])) >= FLUSHES_ONCE_FROM:
        return
    for stream in (stream for phase in plan.phase for stream in phase.stream):
        if not (flush := stream.flush_every) or not stream.operations.write:
            continue
        depth = 1 if plan.engine is EngineChoice.PSYNC else stream.depth
        if again := flushes_again(reads=bool(stream.operations.read), depth=depth, writes=flush.writes):
            raise BadInputError(
                f"{version} flushes again {again}, so its load would be another; use fio"
                f" {version_words(FLUSHES_ONCE_FROM)} or later, or leave --engine fio out"
            )


@contextmanager
def _held(plan: Plan, spec: RunSpec) -> Iterator[list[_core.OpenTarget]]:
    """The targets as the guard has opened them, locked and claimed until fio has ended."""
    held: list[_core.OpenTarget] = []
    options = encode(structs.replace(spec.options, create_bytes=None))
    try:
        for number, path in enumerate(spec.targets):
            try:
                held.append(_core.open_target(path, _is_written(plan, number), False, options))
            except ValueError as error:
                raise BadInputError(one_line(error)) from error
        yield held
    finally:
        for target in held:
            os.close(target.file)


def _is_written(plan: Plan, target: int) -> bool:
    streams = [stream for phase in plan.phase for stream in phase.stream if stream.target == target]
    return any(stream.operations.write or stream.operations.trim for stream in streams)


def _paths(files: list[int]) -> list[str]:
    """What fio opens: the very files that were checked, whatever has come to bear their names meanwhile."""
    return [f"/proc/self/fd/{file}" for file in files]


def prepare(plan: Plan, spec: RunSpec, interrupt: Interrupt) -> Start:
    """One request of each phase through the core, with all its checks; gives back what it says about the targets."""
    phases = [structs.replace(phase, requests=1, warmup=Duration(0)) for phase in plan.phase]
    with core_refusals():
        handle = _core.start(plan_text(structs.replace(plan, phase=phases)), spec.targets, encode(spec.options))
    interrupt.attach(handle)
    opened: Start | None = None
    try:
        while not handle.finished():
            for event in map(decode, handle.events(EVENT_WAIT_MS)):
                if isinstance(event, Start):
                    opened = event
                elif isinstance(event, End) and event.outcome is RunOutcome.FAILED:
                    raise BrickyardError(
                        f"the targets could not be prepared: {words_of(event.message) or event.outcome}"
                    )
    finally:
        interrupt.attach(None)
        if not handle.finished():
            handle.abandon()
    if interrupt.requested:
        raise KeyboardInterrupt
    if opened is None:
        raise BrickyardError("the targets could not be prepared: the core ended without a word")
    return opened


class _Process:
    """fio as something that can be stopped: SIGINT makes it report what it has, a second one doesn't wait."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def abandon(self) -> None:
        self.process.kill()


def _carry_out(
    place: str, job: str, files: list[int], interrupt: Interrupt, look: Callable[[], None]
) -> tuple[str, bool]:
    """What fio has told, and whether it was stopped; calls `look` while fio runs."""
    with outputs.temporary_folder("brickyard-fio-") as directory:
        file, result = directory / "job.fio", directory / "result.json"
        outputs.write_whole(file, job)
        # A session of its own: Ctrl-C reaches fio once, through us.
        process = subprocess.Popen(
            [place, "--output-format=json+", f"--output={result}", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=directory,
            start_new_session=True,
            pass_fds=files,
        )
        interrupt.attach(_Process(process))
        try:
            complaint = _wait(process, look)
        finally:
            interrupt.attach(None)
            if process.poll() is None:
                process.kill()
                process.wait()
        text = result.read_text("utf-8") if result.exists() else ""
    if "{" not in text:
        if interrupt.requested:
            raise KeyboardInterrupt
        said = one_line(complaint or text) or f"it ended with {process.returncode}"
        raise BrickyardError(f"fio measured nothing: {said}")
    return text, interrupt.requested


def _wait(process: subprocess.Popen[str], look: Callable[[], None]) -> str:
    while True:
        try:
            return process.communicate(timeout=WAIT_S)[1]
        except subprocess.TimeoutExpired:
            look()  # signals are handled between two


def _version(place: str) -> str:
    return subprocess.run([place, "--version"], capture_output=True, text=True, check=False).stdout.strip() or "fio"

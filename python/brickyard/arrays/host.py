"""Duty: read and write small files of the system and run its programs, with errors that are one line.

Refusal: it knows no array. Nothing waits for ever: every program has a time limit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, TypeVar

import msgspec

from brickyard import outputs
from brickyard.errors import BrickyardError, one_line
from brickyard.facts.roots import Roots
from brickyard.ready import ready

# An mdadm --create that writes superblocks on slow drives takes seconds, and so does the start of a btrfs replace.
PROGRAM_TIMEOUT_S = 120.0
SETTLE_S = (
    10.0  # the kernel takes a failed member out of an array within milliseconds; udev may hold it open for longer
)
LOOK_S = 0.05
INTERRUPTED_S = 0.25  # as long as Python's own subprocess.run waits after Ctrl-C
T = TypeVar("T")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    error: str


@dataclass(frozen=True)
class Host:
    roots: Roots = field(default_factory=Roots)

    def write(self, path: str, value: str) -> None:
        try:
            outputs.write_knob(path, value)
        except OSError as error:
            raise BrickyardError(
                f"{path}: {value!r} was refused: {error.strerror}; root rights may be needed"
            ) from error

    def run(self, program: str, *arguments: str, timeout_s: float = PROGRAM_TIMEOUT_S) -> Done:
        """Whatever the exit code; a program that is missing or hangs is an error."""
        path = self.roots.tools.find(program)
        if path is None:
            raise BrickyardError(f"{program} is not installed; install it, or use the array's own tool")
        # Into files, not pipes: what such a program leaves running in the background would hold a pipe open.
        with outputs.nameless_file() as out, outputs.nameless_file() as error:
            try:
                child = subprocess.Popen(
                    [path, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=error,
                    env={**os.environ, "LC_ALL": "C"},
                    start_new_session=True,
                )
            except OSError as problem:
                raise BrickyardError(f"{program}: could not be run: {problem.strerror}") from problem
            try:
                code = child.wait(timeout_s)
            except subprocess.TimeoutExpired as problem:
                _end(child, signal.SIGKILL)
                raise BrickyardError(
                    f"{program} {' '.join(arguments)}: no answer within {timeout_s:.0f} s"
                ) from problem
            except BaseException:  # Ctrl-C does not reach a session of its own by itself
                _end(child, signal.SIGINT)
                raise
            return Done(code, _read(out), _read(error))

    def must(self, program: str, *arguments: str, timeout_s: float = PROGRAM_TIMEOUT_S) -> str:
        """The output of a program that succeeds, or an error that has its words."""
        done = self.run(program, *arguments, timeout_s=timeout_s)
        if done.code != 0:
            words = one_line(done.error or done.out) or f"exit code {done.code}"
            raise BrickyardError(f"{program} {' '.join(arguments)}: {words}")
        return done.out


def told_as(content: str, kind: type[T]) -> T | None:
    """What a tool printed as JSON; None where it is something else."""
    ready(kind)
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _end(child: subprocess.Popen[bytes], first: signal.Signals) -> None:
    """Ends a program with all that it has started; what it has under way ends within a moment, or is killed."""
    for number in dict.fromkeys((first, signal.SIGKILL)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(INTERRUPTED_S)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def wait_until(condition: Callable[[], bool], what: str, limit_s: float = SETTLE_S) -> None:
    until = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > until:
            raise BrickyardError(f"{what} did not come about within {limit_s:.0f} s")
        time.sleep(LOOK_S)


def persistently(attempt: Callable[[], object], limit_s: float = SETTLE_S) -> None:
    """Tries again what another program, such as udev's, may hold up for a moment."""
    until = time.monotonic() + limit_s
    while True:
        try:
            attempt()
            return
        except BrickyardError:
            if time.monotonic() > until:
                raise
        time.sleep(LOOK_S)

"""Duty: a workload or a check that is any command of the user's. Refusal: it is run as it is, without a shell.

A workload is started in the folder of the file system. Each line that it prints acknowledges something durable. A
check reads on its standard input how many lines were acknowledged at the cut, and says by its exit code what it found:
0 all is there, 1 something is lost, 2 something is damaged; any other number judges nothing.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.lab.checks import Began, Corrupt, Lost, NotJudged, Stage
from brickyard.lab.ledger import Ledger, Owed
from brickyard.lab.orders import Missing, Recording, Setup, State
from brickyard.lab.program import END_S

CHECK_S = 40.0
READ_BYTES = 1 << 16
SAID_BYTES = 4096  # of what a check prints, each of its output and its errors
SAID_MOST = 200


def _environment(stage: Stage) -> dict[str, str]:
    return {**os.environ, "BRICKYARD_LAB_MOUNT": str(stage.mount), "BRICKYARD_LAB_DEVICE": stage.device}


def _lines(process: subprocess.Popen[bytes], deadline: float) -> Iterator[None]:
    """For each line that it prints, until it ends or its time is over; the last line may have no end. No line is kept,
    however long it is."""
    assert process.stdout is not None
    handle, rest = process.stdout.fileno(), b""
    while (left_s := deadline - time.monotonic()) > 0:
        if not select.select([handle], [], [], left_s)[0]:
            return
        part = os.read(handle, READ_BYTES)
        if not part:
            if rest:
                yield
            return
        for _ in range(part.count(b"\n")):
            yield
        rest = (rest + part)[-1:].strip(b"\n")


class CommandLoad:
    def run(self, stage: Stage, setup: Setup, ledger: Ledger, began: Began) -> tuple[str, str]:
        began()
        deadline, number = time.monotonic() + setup.load_s, 0
        try:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *setup.command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                cwd=stage.mount,
                env=_environment(stage),
            )
        except OSError as error:
            raise BadInputError(f"{setup.command[0]}: cannot be started: {error.strerror}") from error
        with process:
            for _ in _lines(process, deadline):
                number += 1
                ledger.acknowledged(0, number)
            is_over = process.poll() is None and time.monotonic() >= deadline
            if is_over:
                process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
        if process.returncode > 0 and not is_over:
            raise BrickyardError(f"{setup.command[0]}: the workload ended with exit code {process.returncode}")
        return "", one_line(" ".join(setup.command))


class CommandCheck:
    """Its standard input is the number of lines that were acknowledged."""

    def __init__(self, recording: Recording, command: list[str]) -> None:
        if not command:
            raise BadInputError("a check by a command needs one; give it after --")
        self._command, self._owed = command, Owed(recording.promises)

    def __call__(self, stage: Stage, recording: Recording, state: State) -> None:
        owed = self._owed.at(state.cut).get(0, 0)
        environment = {**_environment(stage), "BRICKYARD_LAB_ACKNOWLEDGED": str(owed)}
        try:
            code, text = _ended(self._command, stage.mount, environment, f"{owed}\n".encode())
        except OSError as error:
            raise NotJudged(one_line(error)) from error
        said = one_line(text)[:SAID_MOST]
        if code == 1:
            raise Lost(said or "the check found something lost", Missing(0, owed))
        if code == 2:
            raise Corrupt(said or "the check found damage")
        if code:
            raise NotJudged(f"the check ended with exit code {code}: {said}")


def _ended(command: list[str], place: Path, environment: dict[str, str], given: bytes) -> tuple[int, str]:
    """Its exit code, and how what it printed begins: its errors, or else its output. The rest is read and dropped.

    It has ended when its process has, though a child that it leaves may still hold its output open.
    """
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=place,
        env=environment,
    )
    with process, ExitStack() as ending:
        ending.callback(process.kill)  # before it is waited for
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with suppress(BrokenPipeError):  # it need not read
            process.stdin.write(given)
            process.stdin.close()
        over = os.pidfd_open(process.pid)
        ending.callback(os.close, over)
        said = {process.stderr.fileno(): b"", process.stdout.fileno(): b""}
        open_, deadline, ready = set(said), time.monotonic() + CHECK_S, list[int]()
        while over not in ready:
            if (left_s := deadline - time.monotonic()) < 0:
                raise NotJudged(f"the check did not end within {CHECK_S:.0f} s")
            ready = select.select([over, *open_], [], [], left_s)[0]
            for handle in open_ & set(ready):
                part = os.read(handle, READ_BYTES)
                said[handle] += part[: SAID_BYTES - len(said[handle])]
                open_ -= set() if part else {handle}
        text = next((text for text in said.values() if text), b"")
        return process.wait(), text.decode(errors="replace")

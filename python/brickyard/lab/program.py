"""Duty: find and start `brickyard-lab`, and speak with it in lines of JSON. Refusal: it decides nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TypeVar

import msgspec

from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.lab.orders import Describe, LogFacts, Plan, Ready, Refused, Serve, Show, State, Surroundings, WritePart

NAME = "brickyard-lab"
END_S = 10.0
T = TypeVar("T")


def program() -> Path:
    """The program that was built with this package."""
    place = Path(__file__).parent / NAME
    if not place.is_file():
        raise BadInputError(f"{place}: the lab's program is missing; build it with make .venv/.built")
    return place


class Lab:
    """A `brickyard-lab` that lives as long as a context; it ends when its input does, so also when we die."""

    def __init__(self, word: str, orders: Serve | Plan | Describe | Show) -> None:
        self._process = subprocess.Popen(
            [str(program()), word],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C at the terminal is ours to handle
        )
        self.tell(msgspec.json.encode(orders))

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def tell(self, line: bytes) -> None:
        if self._process.stdin is not None:
            try:
                self._process.stdin.write(line + b"\n")
                self._process.stdin.flush()
            except OSError:  # it has ended; what it said last is read next
                return

    def line(self) -> bytes:
        return self._process.stdout.readline() if self._process.stdout is not None else b""

    def heard(self, kind: type[T]) -> T:
        """The next answer; a refusal of the program is ours."""
        line = self.line()
        if not line:
            raise BrickyardError("brickyard-lab ended without an answer; see the host's memory")
        try:
            return msgspec.json.decode(line, type=kind)
        except msgspec.ValidationError as error:
            raise _refusal(line) from error

    def end(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _refusal(line: bytes) -> BrickyardError:
    try:
        return BadInputError(one_line(msgspec.json.decode(line, type=Refused).error))
    except msgspec.MsgspecError:
        return BrickyardError(f"brickyard-lab said what is not known: {one_line(line[:200].decode(errors='replace'))}")


def serving(orders: Serve) -> Lab:
    lab = Lab("serve", orders)
    try:
        lab.heard(Ready)
    except BaseException:
        lab.end()
        raise
    return lab


def plan(orders: Plan) -> tuple[LogFacts, list[State]]:
    """The states of a log, in the order in which they are shown at the least cost."""
    with Lab("plan", orders) as lab:
        facts = lab.heard(LogFacts)
        count = len(orders.only) or orders.count
        return facts, [lab.heard(State) for _ in range(count)]


def describe(orders: Describe) -> tuple[list[WritePart], list[Surroundings]]:
    """What a log holds, and what lies around each state that was asked for."""
    with Lab("describe", orders) as lab:
        return lab.heard(list[WritePart]), [lab.heard(Surroundings) for _ in orders.only]

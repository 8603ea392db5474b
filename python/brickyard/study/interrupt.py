"""Duty: Ctrl-C. The first one (or SIGTERM, or the SIGHUP of a terminal that has gone) ends the run in good order, the
second one waits for nothing in flight.

Refusal: it never ends the process; whoever drives the run does, once the record is complete.
"""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Protocol, Self

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stoppable(Protocol):
    def stop(self) -> None: ...
    def abandon(self) -> None: ...


class Interrupt:
    """While entered, turns signals into calls on the run that is attached."""

    def __init__(self) -> None:
        self.count = 0
        self._run: Stoppable | None = None
        self._before: dict[int, object] = {}

    @property
    def requested(self) -> bool:
        return self.count > 0

    def attach(self, run: Stoppable | None) -> None:
        self._run = run
        if run is not None and self.requested:
            run.stop()

    def __enter__(self) -> Self:
        for number in ENDING:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # nohup: the run outlives its terminal
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 2:
            raise KeyboardInterrupt
        if self._run is not None:
            (self._run.stop if self.count == 1 else self._run.abandon)()

"""Duty: Ctrl-C. The first one (or SIGTERM, or the SIGHUP of a terminal that has gone) ends the run in good order and
waits for what is in flight, but not for ever: storage may hang. The second one waits for nothing in flight.

Refusal: it never ends the process; whoever drives the run does, once the record is complete.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Protocol, Self

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

DRAIN_S = 15.0
"""How long the first signal waits for what is in flight. The default of `hang_after`: after that a request hangs."""
SILENT_S = 1.0  # most runs end sooner, and nothing needs to be said


@contextmanager
def ends_like_ctrl_c() -> Iterator[None]:
    """Before and after runs too, SIGTERM and the SIGHUP of a terminal that has gone are Ctrl-C, so that what was made
    is taken away again."""
    found = {number: signal.getsignal(number) for number in ENDING}
    own = [number for number, handler in found.items() if handler is signal.SIG_DFL]
    for number in own:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in own:
            signal.signal(number, signal.SIG_DFL)


class Stoppable(Protocol):
    def stop(self) -> None: ...
    def abandon(self) -> None: ...


class Interrupt:
    """While entered, turns signals into calls on the run that is attached."""

    def __init__(self) -> None:
        self.count = 0
        self._first_s = 0.0
        self._has_said = False
        self._has_given_up = False
        self._run: Stoppable | None = None
        self._before: dict[int, object] = {}

    @property
    def requested(self) -> bool:
        return self.count > 0

    def attach(self, run: Stoppable | None) -> None:
        self._run = run
        if run is not None and self.requested:
            run.stop()

    def heed(self, say: Callable[[str], None]) -> None:
        """Whoever waits for the end of a run calls this between two looks."""
        if self._run is None or not self.requested or self._has_given_up:
            return
        waited_s = time.monotonic() - self._first_s
        if waited_s > SILENT_S and not self._has_said and self.count == 1:
            self._has_said = True
            say(f"ending: waiting at most {DRAIN_S:.0f} s for requests in flight; press Ctrl-C again to end at once")
        if waited_s > DRAIN_S:
            self._has_given_up = True
            say(f"ended while requests were still in flight after {DRAIN_S:.0f} s")
            self._run.abandon()

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
        if self.count == 1:
            self._first_s = time.monotonic()
        if self.count > 2:
            raise KeyboardInterrupt
        if self._run is not None:
            (self._run.stop if self.count == 1 else self._run.abandon)()

"""Duty: find and start `brickyard-watch`, and hear its intervals. Refusal: it computes nothing."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.watch.devices import BlockDevice, md_arrays
from brickyard.watch.seen import WatchInterval

NAME = "brickyard-watch"
END_S = 10.0
RING_BYTES = 4 << 20
EXACT_RING_BYTES = 64 << 20
BPF, TRACEPOINTS = "bpf", "tracepoints"
REMEDIES = {
    "no-btf": "--method tracepoints or counters works without it",
    "no-rights": "run it as root, or use --method counters",
    "no-program": "--method tracepoints or counters needs no program",
}
LEAVE_OUT = "leave --save out, and --method counters works"
SAVING = {
    "no-btf": "use --method tracepoints",
    "no-rights": f"run it as root, or {LEAVE_OUT}",
    "no-program": "use --method tracepoints",
}
POINTS_DO_NOT_SEE = (
    "cgroups, the time before the queue apart from that in it, zeroes that the device writes by itself, the flushes"
    " around a durable write, how much of what is read ahead is used"
)
"""By tracepoints without programs in the kernel."""
AHEAD_NEEDS = "only programs in the kernel (--method bpf) see the page cache"


class NotHereError(BadInputError):
    """The kernel allows this method not; others may do."""

    def __init__(self, why: str, remedy: str, saving: str = "") -> None:
        super().__init__(f"{why}; {remedy}")
        self.saving = f"{why}; {saving or remedy}"
        """Where single requests are to be kept, which counters do not see."""


class _Watched(msgspec.Struct):
    name: str
    number: int
    capacity_bytes: int
    sector_bytes: int


class _Orders(msgspec.Struct, omit_defaults=True):
    devices: list[_Watched]
    every_ms: int
    ring_bytes: int
    stripe_bytes: int = 0
    trace_fd: int | None = None
    method: str = BPF
    arrays: list[str] = []
    read_ahead: bool = False


class _Line(msgspec.Struct):
    ready: bool = False
    start_ns: int = 0
    ahead_unseen: str = ""
    ahead_by_folios: bool = False
    error: str = ""
    end: bool = False
    traced: int = 0


@dataclass
class Ended:
    """What the program says last."""

    traced: int = 0


class Capture:
    """Programs in the kernel for as long as a context lasts; they go with their process, however that ends."""

    def __init__(
        self,
        devices: list[BlockDevice],
        every_s: float,
        *,
        stripe_bytes: int = 0,
        trace: int | None = None,
        method: str = BPF,
        read_ahead: bool = False,
    ) -> None:
        place = Path(__file__).parent / NAME
        if not place.is_file():
            raise NotHereError(f"{place}: the program of watch is missing", "build it with make .venv/.built")
        orders = _Orders(
            [_Watched(one.name, one.number, one.capacity_bytes, one.sector_bytes) for one in devices],
            max(1, round(every_s * 1000)),
            RING_BYTES if trace is None else EXACT_RING_BYTES,
            stripe_bytes,
            trace,
            method,
            md_arrays(devices),
            read_ahead and method == BPF,
        )
        self.ended = Ended()
        self._process = subprocess.Popen(
            [str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=() if trace is None else (trace,),
            start_new_session=True,  # Ctrl-C at the terminal is ours to handle
        )
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(orders) + b"\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended; what it said last is read next
        try:
            said = self._ready()
        except BaseException:
            self.__exit__()
            raise
        self.start_ns, self.ahead_by_folios = said.start_ns, said.ahead_by_folios
        self.ahead_unseen = "" if method == BPF else AHEAD_NEEDS
        """Why it is not seen how much of what is read ahead is used."""
        if said.ahead_unseen:
            self.ahead_unseen = one_line(said.ahead_unseen.partition(": ")[2])

    @property
    def process(self) -> int:
        return self._process.pid

    def _ready(self) -> _Line:
        said = self._heard(self._line())
        if not said.ready:
            raise BrickyardError("brickyard-watch did not begin")
        return said

    def _line(self) -> bytes:
        """Nothing where it has ended, also in the middle of a line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return line if line.endswith(b"\n") else b""

    def _heard(self, line: bytes) -> _Line:
        if not line:
            raise BrickyardError("brickyard-watch ended without an answer; see the host's memory")
        said = msgspec.json.decode(line, type=_Line)
        if said.error:
            kind, _, text = said.error.partition(": ")
            remedy = REMEDIES.get(kind)
            if remedy or kind == "refused":
                raise NotHereError(one_line(text), remedy or "use --method counters", SAVING.get(kind, LEAVE_OUT))
            raise BrickyardError(one_line(said.error))
        return said

    def intervals(self) -> Iterator[WatchInterval | None]:
        """Each when it ends, to the last; None about ten times a second meanwhile, so that a caller can stop."""
        assert self._process.stdout is not None
        while True:
            readable, _, _ = select.select([self._process.stdout], [], [], 0.1)
            if not readable:
                yield None
                continue
            line = self._line()
            if line.startswith(b'{"start_ns"'):
                yield msgspec.json.decode(line, type=WatchInterval)
                continue
            said = self._heard(line)
            if said.end:
                self.ended.traced = said.traced
                return

    def stop(self) -> None:
        """What was seen since the last interval is told as one more."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except OSError:
                return

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        try:
            assert self._process.stdout is not None
            os.set_blocking(self._process.stdout.fileno(), True)
            self._process.stdout.close()
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

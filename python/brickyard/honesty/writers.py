"""Duty: several writers that tell a recorder of each write, and only after storage has acknowledged it as durable.

Refusal: their rate is no benchmark figure: they are Python, and wait for the recorder after each write.
"""

from __future__ import annotations

import mmap
import os
import secrets
import socket
import threading
import time
from dataclasses import dataclass, field

from brickyard import _core
from brickyard.errors import BadInputError, one_line
from brickyard.honesty.journal import RunEntry, WriteEntry
from brickyard.honesty.recorder import OK, RecorderError
from brickyard.honesty.slots import STAMP_BYTES, Layout, block, opened_target
from brickyard.schema import RunOptions, encode

SYNCS = ("dsync", "fdatasync", "fsync")
RECORDER_TIMEOUT_S = 30.0  # as long as databases wait for a lock: a witness that is silent for longer has gone
WRITERS_MAX, SLOTS_MAX = 256, 1 << 20


@dataclass
class Written:
    """What came of it."""

    layout: Layout
    direct: bool
    acknowledged: list[int] = field(default_factory=list)
    elapsed_s: float = 0.0
    outcome: str = "done"
    message: str = ""


class Channel:
    """A connection to the recorder; `tell` returns once the line is durable there."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._name = f"{address[0]}:{address[1]}"
        try:
            self._socket = socket.create_connection(address, RECORDER_TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            text = f"recorder {self._name}: {one_line(error)}; start `brickyard recorder` there"
            raise RecorderError(text) from error

    def tell(self, line: bytes) -> None:
        try:
            self._socket.sendall(line)
            answer = b""
            while not answer.endswith(b"\n") and (piece := self._socket.recv(64)):
                answer += piece
        except OSError as error:
            raise RecorderError(f"recorder {self._name}: {one_line(error)}; the writers stop") from error
        if answer != OK:
            said = "closed the connection" if not answer else "did not take a line"
            raise RecorderError(f"recorder {self._name}: {said}; the writers stop")

    def close(self) -> None:
        self._socket.close()


class Writers:
    """Threads, one a writer; `stop` ends them after the write that is under way."""

    def __init__(
        self, target: str, recorder: tuple[str, int], layout: Layout, sync: str, options: RunOptions | None = None
    ) -> None:
        if sync not in SYNCS:
            raise BadInputError(f"--sync {sync}: one of {', '.join(SYNCS)}")
        if not 1 <= layout.writers <= WRITERS_MAX or not 1 <= layout.slots <= SLOTS_MAX:
            raise BadInputError(f"1 to {WRITERS_MAX} writers with 1 to {SLOTS_MAX:,} slots each")
        if layout.block_bytes % STAMP_BYTES or not STAMP_BYTES <= layout.block_bytes <= 1 << 20:
            raise BadInputError(f"--block: a multiple of {STAMP_BYTES} bytes, at most 1 MiB")
        self.target, self.recorder, self.layout, self.sync = target, recorder, layout, sync
        self.options = options or RunOptions()
        self._stopping = threading.Event()
        self._failures: list[Exception] = []

    def stop(self) -> None:
        self._stopping.set()

    abandon = stop

    def run(self, *, writes: int | None = None, duration_s: float | None = None) -> Written:
        """Until all have written so often, time is over, or `stop`. The target is made or claimed first."""
        with opened_target(self.target, write=True, options=encode(self.options)) as opened:
            if opened.data_bytes < self.layout.data_bytes:
                raise BadInputError(
                    f"{self.target}: {self.layout.data_bytes:,} bytes are needed for the slots, it has room for"
                    f" {opened.data_bytes:,}; fewer --writers or --slots, or a larger target"
                )
            layout = self.layout
            channel = Channel(self.recorder)
            try:
                entry = RunEntry(layout.run, opened.uuid, layout.writers, layout.slots, layout.block_bytes)
                channel.tell(entry.line())
                return self._write(opened, writes, duration_s)
            finally:
                channel.close()

    def _write(self, opened: _core.OpenTarget, writes: int | None, duration_s: float | None) -> Written:
        written = Written(self.layout, opened.direct, [0] * self.layout.writers)
        began = time.monotonic()
        until = None if duration_s is None else began + duration_s
        threads = [
            threading.Thread(target=self._writer, args=(number, opened, written, writes, until))
            for number in range(self.layout.writers)
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                # In pieces: a signal reaches its handler only between them.
                while thread.is_alive():
                    thread.join(0.1)
        finally:
            # Whatever happened: the descriptor must not be closed, and its number given away, under a write.
            self._stopping_for_good(threads)
        written.elapsed_s = time.monotonic() - began
        if self._failures:
            written.outcome, written.message = "failed", one_line(self._failures[0])
        elif self._stopping.is_set():
            written.outcome = "interrupted"
        return written

    def _stopping_for_good(self, threads: list[threading.Thread]) -> None:
        running = [thread for thread in threads if thread.is_alive()]
        if running:
            self._stopping.set()
        for thread in running:
            thread.join()

    def _writer(
        self, number: int, opened: _core.OpenTarget, written: Written, writes: int | None, until: float | None
    ) -> None:
        sequence = 0
        try:
            channel = Channel(self.recorder)
            try:
                with mmap.mmap(-1, self.layout.block_bytes) as memory:
                    while not self._is_over(sequence, writes, until):
                        sequence += 1
                        memory[:] = block(self.layout, number, sequence)
                        self._durably(opened.file, memory, self.layout.offset(number, sequence % self.layout.slots))
                        channel.tell(WriteEntry(self.layout.run, number, sequence).line())
                        written.acknowledged[number] = sequence
            finally:
                channel.close()
        except (RecorderError, OSError) as error:
            self._failures.append(error)
            self._stopping.set()

    def _is_over(self, sequence: int, writes: int | None, until: float | None) -> bool:
        spent = writes is not None and sequence >= writes
        return spent or self._stopping.is_set() or (until is not None and time.monotonic() >= until)

    def _durably(self, file: int, memory: mmap.mmap, offset: int) -> None:
        count = os.pwritev(file, [memory], offset, os.RWF_DSYNC if self.sync == "dsync" else 0)
        if count != len(memory):
            raise OSError(f"{self.target}: only {count} of {len(memory)} bytes were written at {offset:,}")
        if self.sync == "fdatasync":
            os.fdatasync(file)
        elif self.sync == "fsync":
            os.fsync(file)


def new_layout(writers: int, slots: int, block_bytes: int) -> Layout:
    """A run of its own, so that blocks of an earlier one are never taken for this one's."""
    return Layout(secrets.token_hex(8), writers, slots, block_bytes)

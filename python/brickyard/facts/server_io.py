"""What a PostgreSQL server on this host itself reads from and writes to its devices.

Duty: the kernel's accounts of the server's processes, those that have ended included, at two instants. Refusal: where
they may not be read, or do not tell of one device alone, it says so instead of guessing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from brickyard.ready import ready
from brickyard.schema.sheets import not_known

from .roots import Roots, text


class ProcessIo(msgspec.Struct):
    """Bytes by the kernel's account of a process, and of its children that have ended."""

    read_bytes: int = 0
    write_bytes: int = 0
    wchar: int = 0
    """Handed over to the kernel."""
    cancelled_write_bytes: int = 0

    def plus(self, other: ProcessIo) -> ProcessIo:
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return ProcessIo(*(one + another for one, another in pairs))

    def since(self, first: ProcessIo) -> ProcessIo:
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(first), strict=True)
        return ProcessIo(*(max(0, last - before) for last, before in pairs))


def parse_process_io(content: str) -> ProcessIo:
    """Out of /proc/PID/io."""
    rows = (line.partition(": ") for line in content.splitlines())
    return msgspec.convert({name: int(count) for name, _, count in rows if count.isdecimal()}, ProcessIo)


@dataclass(frozen=True)
class ServerCounts:
    """What a server read and wrote."""

    pid: int
    read_bytes: int
    write_bytes: int
    dirty_bytes: int
    """Written before by whomever, and not on the device when it began."""


@dataclass(frozen=True)
class NotCounted:
    reason: str


class ServerIo:
    """The server whose data lie in a directory: `start()`, later `stop()`, then `told()`."""

    def __init__(self, data_directory: str, roots: Roots | None = None) -> None:
        self.roots = roots or Roots()
        self.data_directory = os.path.realpath(data_directory)
        self.reason = ""
        self.pid: int | None = None
        self.dirty_bytes = 0
        self._first: ProcessIo | None = None
        self._last: ProcessIo | None = None
        self._possible_ends: list[ProcessIo | None] = []

    def start(self) -> None:
        self.pid = self._postmaster()
        if self.pid is None:
            self.reason = "the server's processes are not seen from here"
        elif not self._is_on_one_device():
            self.reason = "its log or tablespaces lie on further devices"
        else:
            self._first = self._sums()
        # Written by whomever, it may reach the device only now.
        self.dirty_bytes = self._dirty()

    def stop(self) -> None:
        if self._first and not self._last:
            self._last = self._sums()

    def may_end(self) -> None:
        """Reads what `end_at` can make the end."""
        self._possible_ends.append(self._sums() if self._first and not self._last else None)

    def end_at(self, number: int) -> None:
        """After `stop`: counts up to one of the possible ends, by their order."""
        self._last = self._possible_ends[number]

    def told(self) -> ServerCounts | NotCounted:
        """Bytes since the start, or why they are not known."""
        if self._first and self.pid != self._postmaster():
            self.reason = "the server was started again meanwhile"
        if self.reason or self.pid is None or self._first is None or self._last is None:
            return NotCounted(not_known(self.reason or "nothing was counted"))
        told = self._last.since(self._first)
        # A cache in large folios counts a whole one, such as 1 MiB, for each page written in it; what was handed over
        # to the kernel is no such guess, and neither is less than what reached the device, its journal aside.
        written = min(max(0, told.write_bytes - told.cancelled_write_bytes), told.wchar)
        return ServerCounts(self.pid, told.read_bytes, written, self.dirty_bytes)

    def _postmaster(self) -> int | None:
        """The server writes its process down; another namespace's number may be somebody else's here."""
        lines = (_read(os.path.join(self.data_directory, "postmaster.pid")) or "").splitlines()
        if not lines or not lines[0].strip().isdecimal():
            return None
        pid = int(lines[0])
        with suppress(OSError):
            if os.readlink(self.roots.at_proc(str(pid), "cwd")) == self.data_directory:
                return pid
        return None

    def _is_on_one_device(self) -> bool:
        with suppress(OSError):
            spaces = os.path.join(self.data_directory, "pg_tblspc")
            places = [os.path.join(spaces, name) for name in os.listdir(spaces)]
            places.append(os.path.join(self.data_directory, "pg_wal"))
            own = os.stat(self.data_directory).st_dev
            return all(os.stat(place).st_dev == own for place in places)
        return False

    def _sums(self) -> ProcessIo | None:
        """Of the postmaster, which inherits the accounts of those that have ended, and of its children."""
        total = ProcessIo()
        # The postmaster last: who ends in between is counted twice rather than never.
        for pid in [*self._children(), self.pid]:
            told = text(self.roots.at_proc(str(pid), "io"))
            if told is None:
                if pid == self.pid or os.path.exists(self.roots.at_proc(str(pid))):
                    self.reason = "only root and the server's account may read what its processes did"
                    return None
                continue  # it has ended in this moment
            total = total.plus(parse_process_io(told))
        return total

    def _children(self) -> list[int]:
        found = []
        for name in os.listdir(self.roots.at_proc()):
            if name.isdecimal():
                stat = text(self.roots.at_proc(name, "stat")) or ""
                # The name in parentheses may hold anything; the parent is the second word behind it.
                words = stat.rpartition(")")[2].split()
                if len(words) > 1 and words[1] == str(self.pid):
                    found.append(int(name))
        return found

    def _dirty(self) -> int:
        kib = 0
        for line in (text(self.roots.at_proc("meminfo")) or "").splitlines():
            name, _, rest = line.partition(":")
            if name in ("Dirty", "Writeback"):
                kib += int(rest.split()[0])
        return kib << 10


def _read(place: str) -> str | None:
    with suppress(OSError, UnicodeDecodeError), open(place, encoding="utf-8") as file:
        return file.read()
    return None


ready(ProcessIo)

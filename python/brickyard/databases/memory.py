"""Duty: the memory that a server on this host has: how much, a limit on it, and its files' page cache.

A limit is a control group of version 1 or 2, whichever the host has, made below or beside our own and removed with the
server. Refusal: no group is touched that was not made here, and no other file's cache than the server's is dropped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from brickyard import outputs
from brickyard.errors import BadInputError, one_line
from brickyard.facts.cgroups import directories, memory_limit
from brickyard.facts.roots import Roots

EMPTY_S, POLL_S = 5.0, 0.02  # a process that has ended leaves its group within ms


@dataclass(frozen=True)
class ServerMemory:
    bytes: int
    set_by: str
    """`host` or `control group`."""


def memory_of_server(data_directory: str) -> ServerMemory | None:
    """Bytes that a local server and its page cache can have, and what sets them."""
    roots = Roots()
    host = _host_bytes(roots)
    with suppress(OSError, ValueError, IndexError):
        pid = Path(data_directory, "postmaster.pid").read_text("utf-8").split("\n", 1)[0].strip()
        # Another namespace's number may be somebody else's here.
        if pid.isdecimal() and os.readlink(roots.at_proc(pid, "cwd")) == os.path.realpath(data_directory):
            limit = memory_limit(roots, pid)
            if limit is not None and (host is None or limit < host):
                return ServerMemory(limit, "control group")
    return ServerMemory(host, "host") if host is not None else None


def _host_bytes(roots: Roots) -> int | None:
    with suppress(OSError, ValueError):
        for line in Path(roots.at_proc("meminfo")).read_text("ascii").splitlines():
            name, _, rest = line.partition(":")
            if name == "MemTotal":
                return int(rest.split()[0]) << 10
    return None


def drop_file_caches(data_directory: str) -> None:
    """Writes the files of a data directory out and drops their pages, of these files alone. The server's own cache
    (shared_buffers) stays.

    Raises BadInputError where the files may not be read.
    """
    places = [data_directory]
    with suppress(OSError):
        spaces = os.path.join(data_directory, "pg_tblspc")
        places += [os.path.realpath(os.path.join(spaces, name)) for name in os.listdir(spaces)]
    for path in (path for place in places for path in _files(place)):
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            continue  # the server has removed it
        except OSError as error:
            raise BadInputError(
                f"--drop-caches: {path}: {one_line(error.strerror)}; run as root or as the server's account"
            ) from error
        try:
            os.fdatasync(handle)  # dirty pages stay
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def _files(place: str) -> Iterator[str]:
    def refuse(error: OSError) -> None:
        raise BadInputError(
            f"--drop-caches: {error.filename}: {one_line(error.strerror)}; run as root or as the server's account"
        ) from error

    for folder, _, names in os.walk(place, onerror=refuse):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


@dataclass(frozen=True)
class MemoryGroup:
    """A control group for a server. `limit` may be set once the server runs in it, and again."""

    directory: Path

    @property
    def version(self) -> int:
        return 2 if (self.directory / "memory.max").exists() else 1

    @property
    def entrance(self) -> Path:
        """A process that writes its number in here belongs to the group, with all that it starts."""
        return self.directory / "cgroup.procs"

    def killed(self) -> int:
        """Processes that the kernel killed since the group's memory was used up; 0 where it does not count them."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        try:
            told = [line.split() for line in (self.directory / name).read_text().splitlines()]
        except OSError:
            return 0
        return next((int(count) for of, count in told if of == "oom_kill"), 0)

    def limit(self, limit_bytes: int) -> None:
        """Takes memory away at once where more is used; raises BadInputError where that cannot be."""
        names = ("memory.max", "memory.swap.max") if self.version == 2 else ("memory.limit_in_bytes",)
        try:
            outputs.write_knob(str(self.directory / names[0]), str(limit_bytes))
        except OSError as error:
            raise BadInputError(
                f"the server's memory cannot be limited to {limit_bytes:,} bytes: {one_line(error.strerror)}"
            ) from error
        with suppress(OSError):  # a host without swap has none to limit
            for name in names[1:]:
                outputs.write_knob(str(self.directory / name), "0")


@contextmanager
def memory_group() -> Iterator[MemoryGroup | str]:
    """A new group, gone afterwards; or why none can be made."""
    made: Path | None = None
    reasons = []
    # In version 2 a group that has processes has no groups with controllers below it: one beside ours, then.
    for above in map(Path, (*directories(Roots(), "memory")[:1], *directories(Roots(), ""))):
        outputs.remove_abandoned_groups(above)
        try:
            place = outputs.make_group(above)
        except OSError as error:
            reasons.append(f"{above}: {one_line(error.strerror)}")
            continue
        if any((place / name).exists() for name in ("memory.limit_in_bytes", "memory.max")):
            made = place
            break
        outputs.remove_group(place)
        reasons.append(f"{above}: its groups have no memory controller")
    if made is None:
        yield reasons[0] if reasons else "this host has no control groups"
        return
    try:
        yield MemoryGroup(made)
    finally:
        until = time.monotonic() + EMPTY_S
        while not outputs.remove_group(made) and time.monotonic() < until:
            time.sleep(POLL_S)

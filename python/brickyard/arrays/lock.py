"""Duty: one manager at a time for each array and device, seen by every user of the host, gone with its process.

A lock is flock(2) on a file below `home()`; beside it stands who holds it, for others to read. Refusal: it never waits,
and it decides nothing about arrays: whoever holds a lock repeats its checks under it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from brickyard import outputs
from brickyard.errors import BrickyardError
from brickyard.ready import ready
from brickyard.schema import ProcessMark
from brickyard.store.process import is_alive, own_process

MARK = re.compile(rb"\Abrickyard lock\n")
HOLDER_MARK = re.compile(rb'\A{"pid": ')
OVERRIDE = "BRICKYARD_STATE_HOME"
"""Names a directory for locks and journals instead of the system's, such as one that containers share."""


class LockedError(BrickyardError):
    """Another process holds it."""


@dataclass(frozen=True)
class Holder:
    """A process that has an array in its hands."""

    pid: int
    start_ticks: int | None
    """When it was started, as `ProcessMark` has it."""
    boot_id: str | None
    verb: str
    """The command, as `array fail` or `run --condition degraded`."""
    taken: int = 0
    """How many members it keeps out of the array on purpose."""

    @property
    def process(self) -> ProcessMark:
        return ProcessMark(pid=self.pid, start_ticks=self.start_ticks, boot_id=self.boot_id)

    @property
    def words(self) -> str:
        return f"`brickyard {self.verb}` (pid {self.pid})"


def home() -> Path:
    """`/run/brickyard` for root, whom arrays belong to; a directory of their own for others, who can change few."""
    named = os.environ.get(OVERRIDE, "")
    if os.path.isabs(named):
        return Path(named) / "locks"
    if os.geteuid() == 0:
        return SYSTEM_HOME
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(own) / "brickyard" if os.path.isabs(own) else Path(f"/tmp/brickyard-{os.geteuid()}")  # noqa: S108


SYSTEM_HOME = Path("/run/brickyard")


def _place(key: str, base: Path | None = None) -> Path:
    return (base or home()) / hashlib.sha256(key.encode()).hexdigest()[:24]


def device_key(device: str) -> str:
    return f"device {os.path.realpath(device)}"


@contextmanager
def held(keys: Iterable[str], verb: str, what: str, taken: int = 0) -> Iterator[None]:
    """All of these locks, or LockedError at once. `what` names the array for the message."""
    process = own_process()
    holder = Holder(process.pid, process.start_ticks, process.boot_id, verb, taken)
    with ExitStack() as stack:
        for key in sorted(set(keys)):
            stack.enter_context(_one(key, holder, what))
        yield


@contextmanager
def _one(key: str, holder: Holder, what: str) -> Iterator[None]:
    place = _place(key)
    try:
        _make_home(place.parent)
        handle = outputs.open_journal(place.with_suffix(".lock"), MARK, b"brickyard lock\n")
        os.fchmod(handle, 0o600)  # whoever can open it could hold it
    except OSError as error:
        raise BrickyardError(
            f"{place.parent}: {what} cannot be locked against other managers ({error.strerror}), so nothing was"
            " changed; check the directory"
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _refusal(what, _read(place)) from None
        root = None if os.geteuid() == 0 else current(key)
        if root is not None:
            raise _refusal(what, root)
        _write(place, holder)
        try:
            yield
        finally:
            with suppress(OSError):
                outputs.remove_ours(place.with_suffix(".holder"), HOLDER_MARK)
    finally:
        os.close(handle)  # the lock file stays: to remove it would let two processes lock two files of one name


def _refusal(what: str, other: Holder | None) -> LockedError:
    words = "another process" if other is None else other.words
    return LockedError(f"{what}: is held by {words}; nothing was changed; wait until that has ended")


def _make_home(place: Path) -> None:
    outputs.folder(place)
    found = os.lstat(place)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o002:
        raise OSError(0, "it belongs to somebody else, or others can write to it")


def _write(place: Path, holder: Holder) -> None:
    path = place.with_suffix(".holder")
    try:
        outputs.write_whole(path, json.dumps(asdict(holder)), HOLDER_MARK, mode=0o644)
    except OSError as error:
        raise BrickyardError(f"{path}: cannot be written: {error.strerror}; nothing was changed") from error


def _read(place: Path) -> Holder | None:
    try:
        return msgspec.json.decode(place.with_suffix(".holder").read_bytes(), type=Holder)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None


def check_free(key: str, what: str) -> None:
    """Refuses what `held` would refuse, and holds nothing."""
    other = current(key)
    if other is not None:
        raise _refusal(what, other)


def current(key: str) -> Holder | None:
    """Who holds it now; None where nobody does. Anybody may ask, and sees what root holds as well."""
    for base in dict.fromkeys([home(), *([] if OVERRIDE in os.environ else [SYSTEM_HOME])]):
        found = _read(_place(key, base))
        if found is not None and is_alive(found.process):
            return found
    return None


ready(Holder)

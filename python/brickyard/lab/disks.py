"""Duty: emulated disks that a user has up: made, listed, asked, broken, taken down, and cleaned up after a kill.

Each has a folder with a marker that its daemon keeps locked, so that a disk whose daemon is gone is known for ours.

Refusal: no mount and no loop device is touched that does not stand on the file of such a folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from brickyard import bricks, outputs
from brickyard.arrays.lock import OVERRIDE, SYSTEM_HOME
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.lab import kernel
from brickyard.lab.orders import Ready, Refused, Serve
from brickyard.lab.program import program
from brickyard.printable import printable

MARKER, ABOUT, SOCKET = "marker", "about.json", "control"
MARK = re.compile(rb"\Abrickyard lab\n")
ABOUT_MARK = re.compile(rb'\A{"name":')
NAMES = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
ANSWER_S = 10.0
BACKING = Path("/var/tmp")  # noqa: S108 - on a disk, which /tmp need not be; the file there has no name


class About(msgspec.Struct):
    """What a disk is made of."""

    name: str
    model: str
    cache: str
    size_bytes: int
    device: str
    pid: int
    file_system: str = ""
    at: str = ""
    speed: float = 1.0
    log: str = ""


class Happened(msgspec.Struct):
    at_ms: int
    what: str


class Status(msgspec.Struct):
    reads: int
    writes: int
    flushes: int
    failed: int
    late: int
    records: int
    in_flight: int
    volatile_bytes: int
    history: list[Happened]


class Answer(msgspec.Struct):
    ok: bool
    error: str = ""
    status: Status | None = None


class Wanted(msgspec.Struct):
    name: str
    model: str | None
    size_bytes: int | None
    cache: str
    cache_bytes: int
    file_system: str | None
    at: Path | None
    speed: float
    log: Path | None
    backing: Path = BACKING


def home() -> Path:
    named = os.environ.get(OVERRIDE, "")
    return (Path(named) if os.path.isabs(named) else SYSTEM_HOME) / "lab"


def _room(name: str) -> Path:
    if not NAMES.fullmatch(name):
        raise BadInputError(f"{printable(name)}: not a name for a disk; use small letters, digits and hyphens")
    return home() / name


def up(wanted: Wanted) -> About:
    """Makes a disk, and with `file_system` mounts it; nothing stays where that fails."""
    if os.geteuid() != 0:
        raise BadInputError("the lab mounts disks, which only root may; run it as root")
    room = _free_room(wanted.name)
    if wanted.file_system is not None:
        kernel.check_file_system(wanted.file_system)
    at = wanted.at.resolve() if wanted.at else room / "mount"
    if wanted.at and (not at.is_dir() or any(at.iterdir())):
        raise BadInputError(f"{at}: is not an empty folder; make one")
    log = wanted.log.resolve() if wanted.log else None
    if log is not None and (log.exists() and (not log.is_dir() or any(log.iterdir()))):
        raise BadInputError(f"{log}: is there already and not empty; name a new folder for the log")
    wanted = msgspec.structs.replace(wanted, log=log)
    outputs.folder(room / "fuse")
    with ExitStack() as failing:
        failing.callback(_take_down, room)
        ready = _start(wanted, room)
        loop = kernel.Loop(room / "fuse" / "disk", autoclear=False)
        try:
            about = _planned(wanted)
            about.size_bytes, about.device, about.pid = ready.size_bytes, loop.path, ready.pid
            _note(room, about)
            if wanted.file_system is not None:
                kernel.make_file_system(wanted.file_system, loop.path)
                if not wanted.at:
                    outputs.folder(at)
                kernel.mount(loop.path, at, wanted.file_system)
                about.file_system, about.at = wanted.file_system, str(at)
        except OSError as error:
            raise BrickyardError(f"{wanted.name}: the disk cannot be mounted: {one_line(error)}") from error
        finally:
            loop.close()
        _note(room, about)
        failing.pop_all()
    return about


def _free_room(name: str) -> Path:
    clean()
    room = _room(name)
    if not (room / MARKER).exists():  # whoever made the folder was killed before it began anything
        for place in (room / "fuse", room):
            outputs.remove_empty(place)
    if room.exists():
        raise BadInputError(f"{name}: is up already; see brickyard lab status {name}")
    return room


def _planned(wanted: Wanted) -> About:
    """What is known before there is a device."""
    log = str(wanted.log or "")
    size_bytes = wanted.size_bytes or 0
    return About(wanted.name, wanted.model or "none", wanted.cache, size_bytes, "", 0, speed=wanted.speed, log=log)


def _note(room: Path, about: About) -> None:
    outputs.write_whole(room / ABOUT, msgspec.json.encode(about), ABOUT_MARK)


def _start(wanted: Wanted, room: Path) -> Ready:
    """Starts the daemon, which holds the lock of the marker from then on."""
    marker = outputs.open_journal(room / MARKER, MARK, b"brickyard lab\n")
    if wanted.log is not None:
        outputs.folder(wanted.log)
    backing = outputs.fresh_folder("brickyard-lab-", wanted.backing)
    held = outputs.held_folder(backing)
    model = wanted.model.removeprefix(bricks.MODELLED) if wanted.model else None
    orders = Serve(
        mount=str(room / "fuse"),
        medium=str(backing / "medium"),
        cache=wanted.cache,
        cache_bytes=wanted.cache_bytes,
        size_bytes=wanted.size_bytes,
        log=str(wanted.log) if wanted.log else None,
        socket=str(room / SOCKET),
        model=model,
        bricks=bricks.texts_for(model) if model else {},
        speed=wanted.speed,
        lives_with_input=False,
    )
    try:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _note(room, _planned(wanted))  # from here on it is listed and taken down, whoever is killed
        process = subprocess.Popen(
            [str(program()), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(marker,),
            start_new_session=True,
            cwd="/",
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(orders) + b"\n")
        process.stdin.close()
        line = process.stdout.readline()
        process.stdout.close()
    finally:
        os.close(marker)
        outputs.remove_folder(backing, held)
        os.close(held)
    try:
        return msgspec.json.decode(line, type=Ready, strict=True) if b'"ready"' in line else _refuse(line)
    except msgspec.MsgspecError as error:
        raise BrickyardError(f"the disk did not start: {one_line(line[:200].decode(errors='replace'))}") from error


def _refuse(line: bytes) -> Ready:
    if not line:
        raise BrickyardError("the disk's program ended without an answer; see the host's memory")
    raise BadInputError(one_line(msgspec.json.decode(line, type=Refused).error))


def listed() -> list[About]:
    """Those that are up, after those were cleaned up whose daemons are gone."""
    clean()
    return [about for room in _rooms() if (about := _about(room)) is not None]


def _rooms() -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(place for place in home().iterdir() if (place / MARKER).is_file())


def _about(room: Path) -> About | None:
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((room / ABOUT).read_bytes(), type=About)
    return None


def named(name: str) -> About:
    clean()
    about = _about(_room(name))
    if about is None:
        others = ", ".join(found.name for found in listed()) or "none"
        raise BadInputError(f"{printable(name)}: no disk of that name is up; there are: {others}")
    return about


def ask(name: str, order: str) -> Answer:
    """An order for a disk; it has taken effect when this returns."""
    named(name)
    answer = _ask(_room(name), order)
    if not answer.ok:
        raise BadInputError(f"{name}: {one_line(answer.error)}")
    return answer


def _ask(room: Path, order: str) -> Answer:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(ANSWER_S)
            line.connect(str(room / SOCKET))
            line.sendall(order.encode() + b"\n")
            with line.makefile("rb") as answers:
                return msgspec.json.decode(answers.readline(), type=Answer)
    except (OSError, msgspec.MsgspecError) as error:
        raise BrickyardError(f"{room.name}: the disk does not answer: {one_line(error)}") from error


def down(name: str) -> None:
    """Unmounts a disk, ends its daemon and removes what it was made of. Its content is gone."""
    named(name)
    _take_down(_room(name))


def clean() -> list[str]:
    """Takes down disks whose daemons are gone; nobody holds their markers' locks."""
    cleaned = []
    for room in _rooms():
        with suppress(OSError):
            marker = os.open(room / MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            finally:
                os.close(marker)
            _take_down(room)
            cleaned.append(room.name)
    return cleaned


def _take_down(room: Path) -> None:
    """In the order that lets each thing end: what is mounted, the loop device, the daemon, its mount."""
    backing = room / "fuse" / "disk"
    for order in ("stall 0s", "slow 1", "full off"):  # what is written while it is unmounted would wait, or fail
        with suppress(BrickyardError):
            _ask(room, order)
    for device in _loops_on(backing):
        for place in _mounts_of(device):
            kernel.unmount(place)
        with suppress(OSError):
            kernel.detach(device)
    with suppress(BrickyardError):
        _ask(room, "stop")
    with suppress(OSError):
        kernel.unmount(room / "fuse")
    with suppress(OSError):
        held = outputs.held_folder(room)
        try:
            outputs.remove_folder(room, held, MARKER)
        finally:
            os.close(held)


def _loops_on(backing: Path) -> list[str]:
    """Loop devices on this very file, by the kernel's word."""
    found = []
    for entry in sorted(Path("/sys/block").glob("loop*/loop/backing_file")):
        with suppress(OSError):
            if entry.read_text("utf-8", "replace").strip().removesuffix(" (deleted)") == str(backing):
                found.append(f"/dev/{entry.parts[3]}")
    return found


def _mounts_of(device: str) -> list[Path]:
    """Where a device is mounted, the newest first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines():
        words, _, rest = line.partition(" - ")
        if rest.split()[1:2] == [device]:
            place = words.split()[4]
            found.append(Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), place)))
    return found[::-1]


def document(about: About, status: Status | None = None) -> dict[str, object]:
    """For `--json`."""
    told = json.loads(msgspec.json.encode(about))
    return {**told, "status": json.loads(msgspec.json.encode(status))} if status else dict(told)

"""Duty: emulated disks that a user has up: made, listed, asked, broken, taken down, and cleaned up after a kill.

Each has a folder with a marker that its daemon keeps locked, so that a disk whose daemon is gone is known for ours.

Refusal: no mount and no loop device is touched that does not stand on the file of such a folder. A disk stays where
something else is mounted on it or below it, or is still in use.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import signal
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from brickyard import bricks, outputs
from brickyard.arrays.lock import OVERRIDE, SYSTEM_HOME
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.lab import kernel, mounts
from brickyard.lab.orders import Ready, Refused, Serve
from brickyard.lab.program import END_S, NAME, program
from brickyard.printable import printable

MARKER, ABOUT, SOCKET = "marker", "about.json", "control"
MARK = re.compile(rb"\Abrickyard lab\n")
ABOUT_MARK = re.compile(rb'\A{"name":')
NAMES = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
ANSWER_S = 10.0
SOCKET_PATH_BYTES = 107  # sun_path of linux/un.h, without its end
NO_MODEL = "none"
PROBES, PROBE_NS = 50, 5_000_000
LONGEST_LEAD_NS = 1_000_000
"""On a host so busy that it takes longer, requests would come too early once it is not."""
BACKING = Path("/var/tmp")  # noqa: S108 - on a disk, which /tmp need not be; the file there has no name


class About(msgspec.Struct):
    """What a disk is made of."""

    name: str
    model: str
    cache: str
    size_bytes: int
    device: str
    pid: int
    """0 until the disk is made."""
    file_system: str = ""
    at: str = ""
    speed: float = 1.0
    host_ns: int = 0
    """What a request takes on this host besides the disk, by a measurement at the start: the disk takes it off."""
    is_over_ring: bool = False
    """Whether requests come by FUSE over io_uring, which takes less of that."""


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
    off: bool
    active: list[str]
    armed: list[str]
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
    backing: Path = BACKING


def home() -> Path:
    named = os.environ.get(OVERRIDE, "")
    return Path(os.path.realpath(named if os.path.isabs(named) else SYSTEM_HOME)) / "lab"


def room_of(name: str) -> Path:
    if not NAMES.fullmatch(name):
        raise BadInputError(f"{printable(name)}: not a name for a disk; use small letters, digits and hyphens")
    return home() / name


def up(wanted: Wanted) -> About:
    """Makes a disk, and with `file_system` mounts it; nothing stays where that fails."""
    if os.geteuid() != 0:
        raise BadInputError("the lab mounts disks, which only root may; run it as root")
    room = room_of(wanted.name)
    if len(os.fsencode(room / SOCKET)) > SOCKET_PATH_BYTES:
        raise BadInputError(
            f"{room / SOCKET}: is longer than the {SOCKET_PATH_BYTES} bytes of a socket's path; "
            f"set {OVERRIDE} to a shorter folder"
        )
    if wanted.file_system is not None:
        kernel.check_file_system(wanted.file_system)
    at = wanted.at.resolve() if wanted.at else room / "mount"
    if wanted.at and (not at.is_dir() or any(at.iterdir())):
        raise BadInputError(f"{at}: is not an empty folder; make one")
    staying = clean().get(wanted.name)
    if staying:
        raise BrickyardError(staying)
    for other in map(_about, _rooms()):  # also one that could not be mounted again after a power cut
        if other is not None and other.at == str(at):
            raise BadInputError(f"{at}: is the folder of the disk {other.name}; make another")
    with _new_room(room):
        return _made(wanted, room, at)


def _made(wanted: Wanted, room: Path, at: Path) -> About:
    with ExitStack() as failing:
        failing.callback(_take_down, room, forced=True)
        outputs.folder(room / "fuse")
        ready = _start(wanted, room)
        loop = kernel.Loop(room / "fuse" / "disk", autoclear=False)
        try:
            about = _planned(wanted)
            about.size_bytes, about.device = ready.size_bytes, loop.path
            about.is_over_ring = ready.is_over_ring
            note(room, about)
            if wanted.model is not None:
                about.host_ns = _led(room, loop.path)
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
        about.pid = ready.pid
        note(room, about)
        failing.pop_all()
    return about


def _led(room: Path, device: str) -> int:
    """Measures what a request takes between here and the disk, by requests of a known time, and tells the disk."""
    order(room, f"probe {PROBE_NS}ns")
    took_ns = []
    with kernel.direct_reader(device) as read:
        for number in range(PROBES):
            before_ns = time.perf_counter_ns()
            read(number * kernel.BLOCK_BYTES)
            took_ns.append(time.perf_counter_ns() - before_ns)
    host_ns = min(LONGEST_LEAD_NS, max(0, round(statistics.median(took_ns)) - PROBE_NS))
    order(room, f"lead {host_ns}ns")
    return host_ns


def order(room: Path, words: str) -> None:
    answer = _ask(room, words)
    if not answer.ok:
        raise BrickyardError(f"{room.name}: {one_line(answer.error)}")


@contextmanager
def _new_room(room: Path) -> Iterator[None]:
    """A folder that no disk has, for this command alone until it ends."""
    with ExitStack() as ending:
        for left in reversed(range(kernel.TRIES)):
            outputs.folder(room)
            try:
                ending.enter_context(alone(room))
                break
            except FileNotFoundError:  # another command took the disk down meanwhile
                if not left:
                    raise
        if (room / MARKER).exists():
            raise BadInputError(f"{room.name}: is up already; see brickyard lab status {room.name}")
        yield


@contextmanager
def alone(room: Path, tries: int = kernel.TRIES) -> Iterator[None]:
    """One command at a time makes a disk or takes it down; a killed one no longer does."""
    for left in reversed(range(tries)):
        held = outputs.held_folder(room)
        with ExitStack() as ending:
            ending.callback(os.close, held)
            with suppress(BlockingIOError):
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(held), os.stat(room)):
                    ending.pop_all()
                    break
        if left:
            time.sleep(kernel.PAUSE_S)
    else:
        raise BadInputError(f"{room.name}: another brickyard lab command is at work on it; wait until it has ended")
    try:
        yield
    finally:
        os.close(held)


def _planned(wanted: Wanted) -> About:
    """What is known before there is a device."""
    size_bytes = wanted.size_bytes or 0
    return About(wanted.name, wanted.model or NO_MODEL, wanted.cache, size_bytes, "", 0, speed=wanted.speed)


def note(room: Path, about: About) -> None:
    outputs.write_whole(room / ABOUT, msgspec.json.encode(about), ABOUT_MARK)


def _start(wanted: Wanted, room: Path) -> Ready:
    """Starts the daemon, which holds the lock of the marker from then on."""
    marker = outputs.open_journal(room / MARKER, MARK, b"brickyard lab\n")
    backing = outputs.fresh_folder("brickyard-lab-", wanted.backing)
    held = outputs.held_folder(backing)
    model = wanted.model.removeprefix(bricks.MODELLED) if wanted.model else None
    orders = Serve(
        mount=str(room / "fuse"),
        medium=str(backing / "medium"),
        cache=wanted.cache,
        cache_bytes=wanted.cache_bytes,
        size_bytes=wanted.size_bytes,
        log=None,
        socket=str(room / SOCKET),
        model=model,
        bricks=bricks.texts_for(model) if model else {},
        speed=wanted.speed,
        lives_with_input=False,
    )
    try:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        note(room, _planned(wanted))  # from here on it is listed and taken down, whoever is killed
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
    staying = clean()
    return [about for room in _rooms() if room.name not in staying and (about := _about(room)) is not None]


def _rooms() -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(place for place in home().iterdir() if (place / MARKER).is_file())


def _about(room: Path) -> About | None:
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((room / ABOUT).read_bytes(), type=About)
    return None


def named(name: str) -> About:
    staying = clean().get(name)
    if staying:
        raise BrickyardError(staying)
    about = _about(room_of(name))
    if about is None:
        others = ", ".join(found.name for found in listed()) or "none"
        raise BadInputError(f"{printable(name)}: no disk of that name is up; there are: {others}")
    return about


def ask(name: str, order: str) -> Answer:
    """An order for a disk; it has taken effect when this returns."""
    about = named(name)
    if about.model == NO_MODEL and "slow" in order.split():
        raise BadInputError(f"{name}: has no model, so that nothing takes time; make the disk with --model")
    answer = _ask(room_of(name), order)
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


def mounts_of(about: About) -> list[mounts.Mount]:
    """Where the disk is mounted now, by the kernel's word: not after a power cut that damaged its file system, and
    perhaps where somebody mounted it by hand."""
    return mounts.of_devices(mounts.all_mounts(), [about.device]) if about.device else []


def down(name: str) -> None:
    """Unmounts a disk, ends its daemon and removes what it was made of. Its content is gone."""
    named(name)
    room = room_of(name)
    try:
        with alone(room):
            about = _about(room)
            _take_down(room, forced=about is None or not about.pid)
    except FileNotFoundError as error:
        raise BadInputError(f"{name}: another brickyard lab command took it down meanwhile") from error


def clean() -> dict[str, str]:
    """Takes down disks whose daemons or makers are gone. Returns those that have to stay, by name, and why."""
    staying = {}
    for room in _rooms():
        with suppress(OSError, BadInputError), alone(room, tries=1):  # else another command is at work on it
            if _is_served(room) and not _is_half_made(room):
                continue
            try:
                _take_down(room, forced=True)
            except BrickyardError as error:
                staying[room.name] = f"{error}, then run brickyard lab list to remove what its killed program left"
    return staying


def _is_half_made(room: Path) -> bool:
    """Whether nobody finished making it, where no command is at work on it."""
    about = _about(room)
    return about is None or not about.pid


def _is_served(room: Path) -> bool:
    """Whether somebody holds the lock of the marker."""
    marker = os.open(room / MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(marker)
    return False


def _take_down(room: Path, *, forced: bool) -> None:
    """In the order that lets each thing end: what is mounted, the loop device, the daemon, its mount.

    `forced`: also from below those that use it, since it works no more, or never did.
    """
    backing = room / "fuse" / "disk"
    devices = _loops_on(backing)
    check_mounts(room, devices)
    if not forced:
        check_use(devices)
    # What is written while it is unmounted would wait, or fail; and for ever where nobody answers.
    if not _obeys(room, "stall 0s", "slow 1", "full off"):
        _kill(room)
        forced = True
    for mount in mounts.of_devices(mounts.all_mounts(), devices):
        _unmount(mount, forced=forced)
    for device in devices:
        with suppress(OSError):
            kernel.detach(device)
    if not forced:
        _await_detached(room, backing)
    if not _obeys(room, "stop"):
        _kill(room)
    for mount in mounts.of_program(mounts.all_mounts(), room / "fuse"):
        with suppress(OSError):  # its daemon was faster
            kernel.unmount(mount.place)
    for mount in mounts.all_mounts():
        if mount.place.is_relative_to(room):
            raise BrickyardError(f"{room.name}: {mount.kind} is mounted on {mount.place}; unmount it first")
    with suppress(OSError):
        held = outputs.held_folder(room)
        try:
            outputs.remove_folder(room, held, MARKER)
        finally:
            os.close(held)


def check_mounts(room: Path, devices: list[str]) -> None:
    everything = mounts.all_mounts()
    ours = mounts.of_devices(everything, devices) + mounts.of_program(everything, room / "fuse")
    found = mounts.in_the_way(everything, ours, room)
    if found:
        raise BrickyardError(f"{room.name}: {found}")


def check_use(devices: list[str]) -> None:
    for device in devices:
        for holder in Path(f"/sys/block/{Path(device).name}/holders").glob("*"):
            raise BrickyardError(f"{device}: {holder.name} is built on it; remove that first")
    ours = mounts.of_devices(mounts.all_mounts(), devices)
    for mount in ours:
        if not any(other.above == mount.number for other in ours) and kernel.is_in_use(mount.place):
            raise _in_use(mount.place)
    for left in reversed(range(kernel.TRIES)):  # workers of the lab leave them soon
        other = mounts.elsewhere(devices)
        if other is None:
            return
        if left:
            time.sleep(kernel.PAUSE_S)
    raise BrickyardError(f"{devices[0]}: is mounted for {other} too, which has mounts of its own; end that first")


def _in_use(place: Path) -> BrickyardError:
    return BrickyardError(f"{place}: is in use; end what uses it (fuser -vm {place} lists that), then try again")


def _unmount(mount: mounts.Mount, *, forced: bool) -> None:
    if mounts.number_at(mount.place) != mount.number:
        raise BrickyardError(f"{mount.place}: something else was mounted there meanwhile; unmount it first")
    if forced:
        kernel.unmount(mount.place)
    elif not kernel.unmount_unused(mount.place):
        raise _in_use(mount.place)


def _await_detached(room: Path, backing: Path) -> None:
    """Whoever has the device open, or has mounts of his own with it, keeps it attached."""
    for _ in range(kernel.TRIES):
        devices = _loops_on(backing)
        if not devices:
            return
        time.sleep(kernel.PAUSE_S)
    about = _about(room)
    if about is not None:
        note(room, msgspec.structs.replace(about, file_system="", at=""))
    raise _in_use(Path(devices[0]))


def _obeys(room: Path, *orders: str) -> bool:
    """Whether the daemon answers; what it says does not matter."""
    try:
        for order in orders:
            _ask(room, order)
    except BrickyardError:
        return False
    return True


def _kill(room: Path) -> None:
    """Ends a daemon that does not answer; it is the one that holds the marker."""
    for place in Path("/proc").glob("[1-9]*"):
        with suppress(OSError), ExitStack() as ending:
            if (place / "comm").read_text("utf-8", "replace").strip() != NAME:
                continue
            process = os.pidfd_open(int(place.name))
            ending.callback(os.close, process)
            if any(os.readlink(file) == str(room / MARKER) for file in (place / "fd").iterdir()):
                signal.pidfd_send_signal(process, signal.SIGKILL)
                select.select([process], [], [], END_S)


def _loops_on(backing: Path) -> list[str]:
    """Loop devices on this very file, by the kernel's word."""
    found = []
    for entry in sorted(Path("/sys/block").glob("loop*/loop/backing_file")):
        with suppress(OSError):
            if entry.read_text("utf-8", "replace").strip().removesuffix(" (deleted)") == str(backing):
                found.append(f"/dev/{entry.parts[3]}")
    return found


def document(about: About, status: Status | None = None) -> dict[str, object]:
    """For `--json`; `at` is where it is mounted, or empty."""
    places = [str(mount.place) for mount in mounts_of(about)]
    at = about.at if about.at in places else next(iter(places), "")
    told = json.loads(msgspec.json.encode(msgspec.structs.replace(about, at=at)))
    return {**told, "status": json.loads(msgspec.json.encode(status))} if status else dict(told)

"""Duty: mounts, loop devices and namespaces, by the kernel's own calls. Refusal: it knows no disk of ours."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from brickyard.errors import BadInputError, BrickyardError, one_line

# From linux/loop.h, linux/fs.h, linux/sched.h, sys/mount.h and fs/xfs/libxfs/xfs_fs.h.
LOOP_CTL_GET_FREE, LOOP_CONFIGURE, LOOP_CLR_FD = 0x4C82, 0x4C0A, 0x4C01
LO_FLAGS_AUTOCLEAR, LO_FLAGS_DIRECT_IO = 4, 16
LOOP_CONFIG = struct.Struct("<II5Q4I64s64s32s2Q8Q")
BLKFLSBUF = 0x1261
FS_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2  # of ext4 and XFS
CLONE_NEWNS, MS_REC, MS_SLAVE = 0x20000, 0x4000, 0x80000
MNT_DETACH, MNT_EXPIRE, UMOUNT_NOFOLLOW = 2, 4, 8
MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
FIRST = 1  # the number of the first process of a PID namespace, with which all others of it end
TRIES, PAUSE_S = 50, 0.02
BLOCK_BYTES = 4096
CAUSE_CHARACTERS = 200
TOO_SMALL = re.compile(r"larger than|too small|not enough space", re.IGNORECASE)
FILE_SYSTEMS = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", "-J", "size=16"],
    "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
    "btrfs": ["mkfs.btrfs", "-q", "-f", "-K"],
}
# They only look; what a journal holds was replayed by the mount before.
FSCK = {
    "ext4": ["e2fsck", "-fn"],
    "xfs": ["xfs_repair", "-n"],
    "btrfs": ["btrfs", "check", "--readonly"],
}
FSCK_S = 30.0
# Two states of one file system are two disks with one name, which XFS refuses unless it is told to.
ALWAYS = {"xfs": "nouuid"}
TEMPORARY_FSID = Path("/sys/fs/btrfs/features/temp_fsid")  # kernels from 6.7 on tell such disks apart

_libc = ctypes.CDLL(None, use_errno=True)


def _call(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


@contextmanager
def direct_reader(device: str) -> Iterator[Callable[[int], None]]:
    """Reads of one sector at an offset, past the page cache."""
    place = os.open(device, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        with mmap.mmap(-1, BLOCK_BYTES) as buffer:
            yield lambda offset_bytes: _whole(os.preadv(place, [buffer], offset_bytes), device)
    finally:
        os.close(place)


def _whole(read_bytes: int, device: str) -> None:
    if read_bytes != BLOCK_BYTES:
        raise OSError(errno.EIO, f"{device}: a read of {BLOCK_BYTES} bytes gave {read_bytes}")


def enter_private_mounts() -> None:
    """From here on, no mount of this process is seen by others; all are gone when it and its children are. What others
    unmount is unmounted here too, where the host shares its mounts."""
    _call(_libc.unshare(CLONE_NEWNS), "unshare")
    _call(_libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None), "/")


def enter_private_processes() -> None:
    """The first process of a PID namespace sees its own processes in /proc from here on."""
    if os.getpid() != FIRST:
        raise BrickyardError("a worker of the lab has no PID namespace of its own; it is started by the lab alone")
    _call(_libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID_NODEV_NOEXEC, None), "/proc")


def end_others(staying: set[int]) -> bool:
    """Kills every process of this PID namespace but the first and those named; whether all of them have ended."""
    if os.getpid() != FIRST:
        raise BrickyardError("processes are ended in a PID namespace of the lab alone")
    for _ in range(TRIES):
        others = {int(place.name) for place in Path("/proc").glob("[1-9]*")} - staying - {FIRST}
        if not others:
            return True
        for pid in others:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):  # its parent is one of the others, and not yet gone
                os.waitpid(pid, os.WNOHANG)
        time.sleep(PAUSE_S / 10)
    return False


def mount(device: str, at: Path, kind: str, options: str = "") -> None:
    options = ",".join(part for part in (options, ALWAYS.get(kind, "")) if part)
    _call(_libc.mount(device.encode(), os.fsencode(at), kind.encode(), 0, options.encode()), str(at))


def sync_file_system(at: Path) -> None:
    """This one alone: `sync` waits for every file system of the host, and for whoever mounts or unmounts one."""
    handle = os.open(at, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _call(_libc.syncfs(handle), str(at))
    finally:
        os.close(handle)


def unmount(at: Path) -> bool:
    """As `unmount_unused`. If it is in use, it is gone from the folder alone, with all that is mounted below it."""
    with suppress(OSError):
        if unmount_unused(at):
            return True
    leave(at)
    return False


def leave(at: Path) -> None:
    """Takes a mount from its folder, with all that is mounted below it; who uses it keeps it."""
    _call(_libc.umount2(os.fsencode(at), MNT_DETACH), str(at))


def unmount_unused(at: Path) -> bool:
    """Waits for those that are about to leave it; whether they have. If not, it stays."""
    return _left(at, 0)


def is_in_use(at: Path) -> bool:
    """Whether files are open on a mount, or others stand on it; for those that are about to leave it, it waits."""
    return not _left(at, MNT_EXPIRE)


def _left(at: Path, flags: int) -> bool:
    for left in reversed(range(TRIES)):
        if _libc.umount2(os.fsencode(at), flags | UMOUNT_NOFOLLOW) == 0:
            return True
        number = ctypes.get_errno()
        if flags == MNT_EXPIRE and number == errno.EAGAIN:  # it could be unmounted, and is not
            return True
        if number != errno.EBUSY:
            raise OSError(number, f"{at}: {os.strerror(number)}")
        if left:
            time.sleep(PAUSE_S)
    return False


def shut_down(at: Path) -> None:
    """Makes a file system refuse all work, and write nothing any more, where its kind can."""
    with suppress(OSError):  # btrfs cannot, and one that met a dead disk has done so by itself
        handle = os.open(at, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(handle, FS_IOC_SHUTDOWN, NO_LOG_FLUSH.to_bytes(4, sys.byteorder))
        finally:
            os.close(handle)


@contextmanager
def alone_with(device: str) -> Iterator[None]:
    """Nobody can mount a device or build on it meanwhile; what the kernel kept of its content is dropped."""
    handle = _exclusively(device)
    try:
        fcntl.ioctl(handle, BLKFLSBUF)
        yield
    finally:
        os.close(handle)


def _exclusively(device: str) -> int:
    for left in reversed(range(TRIES)):  # udev looks at a device for a moment
        users = _openers(device)
        if not users:
            try:
                return os.open(device, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
        if left:
            time.sleep(PAUSE_S)
    use = f"open in {users[0]}" if users else "in use by another namespace of mounts, or a device that is built on it"
    raise BrickyardError(f"{device}: is {use}; end that")


def _openers(device: str) -> list[str]:
    """Processes that have a device open, each by its number and its program."""
    found = []
    for place in Path("/proc").glob("[1-9]*"):
        with suppress(OSError):
            if any(os.readlink(file) == device for file in (place / "fd").iterdir()):
                found.append(f"process {place.name} ({(place / 'comm').read_text('utf-8', 'replace').strip()})")
    return found


class Loop:
    """A loop device; with `autoclear` it is detached when nothing has it open any more."""

    def __init__(self, backing: Path, *, autoclear: bool = True) -> None:
        file = os.open(backing, os.O_RDWR | os.O_CLOEXEC | os.O_DIRECT)
        try:
            self.path, self.handle = _attached(file, os.fsencode(backing), autoclear)
        finally:
            os.close(file)

    def forget(self) -> None:
        """Drops what the kernel keeps of the device's content."""
        fcntl.ioctl(self.handle, BLKFLSBUF)

    def close(self) -> None:
        os.close(self.handle)


def detach(device: str) -> None:
    """At once where nobody else uses it; else when the last user has gone."""
    handle = os.open(device, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(handle, LOOP_CLR_FD)
    finally:
        os.close(handle)


def _attached(file: int, name: bytes, autoclear: bool) -> tuple[str, int]:
    try:
        control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise BadInputError(f"/dev/loop-control: {error.strerror}; the lab needs loop devices and root") from error
    flags = LO_FLAGS_DIRECT_IO | (LO_FLAGS_AUTOCLEAR if autoclear else 0)
    info = (0, 0, 0, 0, 0, 0, 0, 0, flags, name[:63], b"", b"", 0, 0)
    config = LOOP_CONFIG.pack(file, 0, *info, *[0] * 8)
    try:
        for left in reversed(range(TRIES)):
            path = f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_GET_FREE)}"
            try:
                handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except OSError as error:
                raise BadInputError(f"{path}: {error.strerror}; the lab needs loop devices and root") from error
            try:
                fcntl.ioctl(handle, LOOP_CONFIGURE, config)
            except OSError as error:
                os.close(handle)
                if error.errno != errno.EBUSY or not left:  # another process was faster
                    raise
            else:
                return path, handle
    finally:
        os.close(control)
    raise BrickyardError("no loop device is free; detach some with losetup -d")


@contextmanager
def attached(backing: Path) -> Iterator[Loop]:
    loop = Loop(backing)
    try:
        yield loop
    finally:
        loop.close()


@contextmanager
def mounted(device: str, at: Path, kind: str, options: str = "") -> Iterator[None]:
    mount(device, at, kind, options)
    try:
        yield
    finally:
        unmount(at)


@contextmanager
def newly_mounted(device: str, at: Path, kind: str, options: str) -> Iterator[None]:
    """A file system that was just made: what is invalid can only be the options."""
    try:
        mount(device, at, kind, options)
    except OSError as error:
        if not options or error.errno != errno.EINVAL:
            raise
        raise BadInputError(f"--mount-options {options}: {kind} does not take them; see man 5 {kind}") from error
    try:
        yield
    finally:
        unmount(at)


def check_file_system(kind: str) -> None:
    if kind not in FILE_SYSTEMS:
        raise BadInputError(f"{kind}: not a file system of the lab; use {', '.join(FILE_SYSTEMS)}")
    if shutil.which(FILE_SYSTEMS[kind][0]) is None:
        raise BadInputError(f"{FILE_SYSTEMS[kind][0]} is missing; install the package that has it")


def make_file_system(kind: str, device: str) -> None:
    check_file_system(kind)
    done = subprocess.run([*FILE_SYSTEMS[kind], device], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BrickyardError(f"no {kind} can be made: {_cause(done.stderr or done.stdout)}")


def _cause(said: str) -> str:
    """The first line of what mkfs says, without its name; after it, some print their whole usage."""
    first = next((line for line in said.splitlines() if line.strip()), "it says nothing; see dmesg")
    first = one_line(re.sub(r"\A(mkfs\.\w+|ERROR): ", "", first)).rstrip(".")[:CAUSE_CHARACTERS]
    return f"{first}; use a larger --size" if TOO_SMALL.search(first) else first


def at_once(kind: str) -> bool:
    """Whether two states of one file system can be mounted at once. Older kernels take one btrfs for the other."""
    return kind != "btrfs" or TEMPORARY_FSID.exists()


def damage(kind: str, device: str) -> str | None:
    """What the file system's own checker finds on a device that is not mounted; raises where it cannot say."""
    try:
        done = subprocess.run(
            [*FSCK[kind], device], capture_output=True, text=True, errors="replace", timeout=FSCK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrickyardError(one_line(error)) from error
    if done.returncode == 0:
        return None
    return f"{FSCK[kind][0]} ends with {done.returncode}: {one_line((done.stdout + done.stderr).strip()[-200:])}"

"""What this host can and cannot measure, and why.

Duty: one line an ability, with its remedy. Refusal: it changes no setting; the one thing it writes is one block into
an unnamed file beside the target, to see whether O_DIRECT works there.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from brickyard.errors import BadInputError
from brickyard.outputs import nameless_file
from brickyard.schema.host_sheet import HostSheet, UringSheet
from brickyard.schema.target_sheet import TargetSheet

from . import stack
from .cgroups import cgroup_facts
from .host import host_facts
from .mounts import mount_of
from .roots import Roots, number
from .target import target_facts

DIRECT_BYTES = 4096
# They accept O_DIRECT and ignore it; runs on them are buffered (crates/block/src/guard/direct.rs).
MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")
# statx(2): the struct, what is asked for, and where in it the two alignments stand.
STATX_BYTES, STATX_DIOALIGN, STATX_DIO_AT, AT_EMPTY_PATH = 256, 0x2000, 152, 0x1000
# Registered buffers of one worker at depth 128 with 1 MiB requests.
MEMLOCK_BYTES = 128 << 20
# The scratch file is at most 2 GiB; twice that leaves the system room.
FREE_BYTES = 4 << 30
# Linux gives a thread 50 µs (prctl(2), PR_SET_TIMERSLACK).
TIMER_SLACK_DEFAULT_NS = 50_000
CLOCKS_FAST = {"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"}


@dataclass(frozen=True)
class Ability:
    """What the host can measure, or not."""

    item: str
    state: str
    """`ok`, `limited` or `missing`."""
    text: str
    remedy: str = ""


def line(item: str, state: str, words: str, remedy: str = "") -> Ability:
    return Ability(item, state, words, remedy)


def doctor(target: str | None = None, store: str | None = None, roots: Roots | None = None) -> list[Ability]:
    """Of a target, else of the current directory."""
    place = roots or Roots()
    path = target or os.getcwd()
    host = host_facts(place)
    facts = target_facts(path, False, place)
    checks: tuple[Callable[[], list[Ability]], ...] = (
        lambda: uring(host),
        lambda: direct(facts),
        lambda: clock(host),
        lambda: huge_pages(host),
        lambda: memlock(host),
        lambda: rights(host),
        lambda: groups(place),
        lambda: governor(host),
        lambda: [program(place, "smartctl", "report of the health, temperature and wear of drives", "smartmontools")],
        lambda: [program(place, "fio", "second measurement of the same workload (`crosscheck`)", "fio")],
        lambda: free_space(facts),
        lambda: counters(facts),
        lambda: polling(place, facts),
        lambda: slack(host),
        lambda: store_place(place, store, facts if target else None),
    )
    found: list[Ability] = []
    for check in checks:
        try:
            found += check()
        except BadInputError as error:
            if target:
                raise  # a place that no run may use is the user's to change
            found.append(_unusable(path, error))
        except Exception as error:
            found.append(
                line("check", "limited", f"A check failed ({type(error).__name__}: {error}).", "Report this line.")
            )
    return found


def _unusable(directory: str, error: BadInputError) -> Ability:
    """Nobody named the current directory: the rest of the host is of interest there, too."""
    why = str(error).removeprefix(f"{directory}: ").partition(";")[0]
    words = f"No run can use the current directory {directory}: it {why}."
    return line("current directory", "missing", words.replace("it its", "its"), "Name a directory or a device.")


def uring(host: HostSheet) -> list[Ability]:
    facts = host.io_uring or UringSheet()
    if facts.usable:
        return [line("io_uring", "ok", "io_uring can be used.")]
    setup, disabled = facts.setup, facts.disabled
    if setup == "ENOSYS":
        return [line("io_uring", "missing", "This kernel has no io_uring; psync is used.", "Use Linux 5.10 or later.")]
    if disabled:
        words = f"io_uring is forbidden (kernel.io_uring_disabled = {disabled}); psync is used."
        return [line("io_uring", "missing", words, "sysctl kernel.io_uring_disabled=0")]
    words = f"io_uring is refused ({setup}), as a container's seccomp filter does; psync is used."
    return [
        line(
            "io_uring",
            "missing",
            words,
            "Allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile.",
        )
    ]


def try_direct(path: str) -> str:
    """ "ok", or the name of the error; an existing file or device is only read."""
    if os.path.isdir(path):
        return try_direct_write(path)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        refuse_silent_fallback(handle)
        with mmap.mmap(-1, DIRECT_BYTES) as page:
            os.preadv(handle, [page], 0)
        return "ok"
    finally:
        os.close(handle)


def try_direct_write(directory: str) -> str:
    with nameless_file(Path(directory)) as file:
        handle = os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
        try:
            refuse_silent_fallback(handle)
            with mmap.mmap(-1, DIRECT_BYTES) as page:
                os.pwritev(handle, [page], 0)
        finally:
            os.close(handle)
    return "ok"


def refuse_silent_fallback(handle: int) -> None:
    """EOPNOTSUPP where the kernel says that O_DIRECT is taken but goes through the page cache (statx(2), Linux 6.1)."""
    found = ctypes.create_string_buffer(STATX_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.statx(handle, b"", AT_EMPTY_PATH, STATX_DIOALIGN, found) != 0:
        return
    (known,) = struct.unpack_from("=I", found, 0)
    if known & STATX_DIOALIGN and struct.unpack_from("=II", found, STATX_DIO_AT) == (0, 0):
        raise OSError(errno.EOPNOTSUPP, "direct I/O is not supported on this file")


def direct(facts: TargetSheet) -> list[Ability]:
    path = facts.place or facts.path
    if facts.kind in ("sim", "service", None):
        return []
    file_system = (facts.mount.file_system if facts.mount else None) or "the device"
    if file_system in MEMORY_FILE_SYSTEMS and not stat.S_ISBLK(os.stat(path).st_mode):
        words = f"{file_system} at {path} keeps files in memory, so direct I/O has no device to reach."
        return [line("O_DIRECT", "missing", words, "Choose a target on ext4, XFS or btrfs, or the device itself.")]
    try:
        try_direct(path)
        return [line("O_DIRECT", "ok", f"O_DIRECT works at {path} ({file_system}).")]
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, str(error))
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return [
                line(
                    "O_DIRECT",
                    "limited",
                    f"O_DIRECT could not be tried at {path} ({name}).",
                    "Look for the cause: a mount, a read-only medium, or the device rules of a container."
                    if os.geteuid() == 0
                    else "Choose a target you may write, or use root rights.",
                )
            ]
        words = (
            f"O_DIRECT does not work on {file_system} at {path} ({name}); the page cache becomes part of the figures."
        )
        return [line("O_DIRECT", "missing", words, "Choose a target on ext4, XFS or btrfs, or the device itself.")]


def clock(host: HostSheet) -> list[Ability]:
    source = host.clock_source
    if source == "tsc" and host.cpu and host.cpu.invariant_tsc:
        return [
            line(
                "clock",
                "ok",
                "The kernel's clock is the processor's time-stamp counter: reading the time takes one instruction.",
            )
        ]
    if source in CLOCKS_FAST:
        return [line("clock", "ok", f"The clock source is {source}, which is read without a system call.")]
    remedy = "Boot with `clocksource=tsc` if the processor's counter is invariant."
    return [
        line(
            "clock",
            "limited",
            f"The clock source is {source or 'not known'}: reading the time may take a system call.",
            remedy,
        )
    ]


def huge_pages(host: HostSheet) -> list[Ability]:
    mode = host.memory.transparent_huge_pages if host.memory else None
    if mode in ("always", "madvise"):
        return [line("huge pages", "ok", f"Transparent huge pages can be used for buffers ({mode}).")]
    words = f"Transparent huge pages are {'off' if mode == 'never' else 'not known'}: large requests cost more CPU."
    return [line("huge pages", "limited", words, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")]


def memlock(host: HostSheet) -> list[Ability]:
    limit = host.limits.memlock_bytes if host.limits else None
    # CAP_IPC_LOCK, which root has, lifts the limit.
    if limit == "unlimited" or host.root or (isinstance(limit, int) and limit >= MEMLOCK_BYTES):
        return [
            line(
                "locked memory",
                "ok",
                f"Buffers can be registered (limit {limit}{', lifted for root' if host.root else ''}).",
            )
        ]
    words = f"Only {limit} bytes of memory can be locked: deep queues of large requests cannot have registered buffers."
    return [line("locked memory", "limited", words, "ulimit -l unlimited, or LimitMEMLOCK=infinity in the service.")]


def rights(host: HostSheet) -> list[Ability]:
    if host.root:
        return [line("rights", "ok", "Root rights: devices can be opened, caches dropped, and SMART read.")]
    words = (
        "No root rights: files can be measured, but devices cannot be opened, caches cannot be dropped, and SMART "
        "cannot be read."
    )
    return [line("rights", "limited", words, "Run with sudo to measure devices.")]


def groups(roots: Roots) -> list[Ability]:
    facts = cgroup_facts(roots)
    found: list[Ability] = []
    cores = facts.cpu_cores_limit
    if cores is not None:
        found.append(
            line(
                "control group",
                "limited",
                f"The control group allows {cores:g} cores.",
                "Raise the container's CPU limit.",
            )
        )
    for limit in facts.io_limits:
        found.append(
            line(
                "control group",
                "limited",
                f"The control group throttles device {limit.device} ({limit.words()}).",
                "Lift the group's I/O limit.",
            )
        )
    return found or [line("control group", "ok", "No control group limits CPU or I/O.")]


def governor(host: HostSheet) -> list[Ability]:
    governors = host.frequency.governors if host.frequency else None
    if not governors:
        return [
            line(
                "CPU frequency",
                "limited",
                "The frequency governor is not known: the host below may change the frequency.",
                "Ask who runs the host.",
            )
        ]
    if set(governors) == {"performance"}:
        return [line("CPU frequency", "ok", "The frequency governor is performance on every core.")]
    words = ", ".join(f"{name} on {count} cores" for name, count in governors.items())
    return [
        line("CPU frequency", "limited", f"The frequency governor is {words}.", "cpupower frequency-set -g performance")
    ]


def program(roots: Roots, name: str, use: str, package: str) -> Ability:
    if roots.tools.find(name):
        return line(name, "ok", f"{name} is installed, for a {use}.")
    return line(name, "missing", f"{name} is not installed, so there is no {use}.", f"Install the package {package}.")


def free_space(facts: TargetSheet) -> list[Ability]:
    mount = facts.mount
    available = mount.space.available_bytes if mount and mount.space else None
    if mount is None or available is None:
        return []
    words = f"{available / 2**30:.1f} GiB are free at {mount.mount_point}."
    if available >= FREE_BYTES:
        return [line("free space", "ok", words)]
    return [
        line("free space", "limited", words + " A scratch file will be small.", "Make room, or choose another place.")
    ]


def counters(facts: TargetSheet) -> list[Ability]:
    nodes = stack.devices(facts.stack)
    if facts.kind in ("sim", "service"):
        return []
    if not nodes:
        return [
            line(
                "device",
                "limited",
                f"The device below cannot be seen ({facts.why('stack', 'no device')}), so other load on it is unknown.",
                "Measure a target on a local device.",
            )
        ]
    off = [node.name for node in nodes if node.queue and node.queue.iostats is False]
    if off:
        return [
            line(
                "device",
                "limited",
                f"The kernel does not count the I/O of {', '.join(off)}.",
                f"echo 1 > /sys/block/{off[0]}/queue/iostats",
            )
        ]
    return [line("device", "ok", f"The kernel counts the I/O of {' over '.join(node.name for node in nodes)}.")]


def polling(roots: Roots, facts: TargetSheet) -> list[Ability]:
    nodes = stack.bottom(facts.stack)
    if not nodes:
        return []
    polled = [node.name for node in nodes if node.queue and node.queue.io_poll]
    if polled and len(polled) == len(nodes):
        return [line("polling", "ok", f"{', '.join(polled)} can complete by polling.")]
    remedy = "No action needed: only NVMe drives have such queues."
    if any(node.name.startswith("nvme") for node in nodes):
        queues = number(roots.at_sys("module", "nvme", "parameters", "poll_queues"))
        remedy = f"Boot with nvme.poll_queues=N (now {queues if queues is not None else 'not known'})."
    return [
        line("polling", "missing", "The drives have no queues for polling, so completions come by interrupt.", remedy)
    ]


def slack(host: HostSheet) -> list[Ability]:
    value = host.timer_slack_ns
    if value is not None and value <= TIMER_SLACK_DEFAULT_NS:
        return [line("timer slack", "ok", f"The timer slack is {value / 1000:g} µs; waiting threads set their own.")]
    words = "not known" if value is None else f"{value / 1000:g} µs"
    return [
        line(
            "timer slack",
            "limited",
            f"The timer slack is {words}: paced requests may be late.",
            "Run under a shell whose timer slack is the default of 50 µs.",
        )
    ]


def store_place(roots: Roots, store: str | None, facts: TargetSheet | None) -> list[Ability]:
    home = os.getenv("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    path = store or os.path.join(home, "brickyard")
    here = target_facts(path, False, roots)
    shared = set(here.leaf_devices) & set(facts.leaf_devices if facts else [])
    if shared:
        words = f"The store {path} is on the device under test and writes to it every second."
        return [line("store", "limited", words, "Put the store on another device with --store.")]
    mount = mount_of(roots, here.place or path)
    file_system = mount.file_system if mount else "a file system"
    if file_system in ("tmpfs", "ramfs"):
        return [
            line(
                "store",
                "limited",
                f"The store {path} is in memory and is lost at a restart.",
                "Put it on a disk with --store.",
            )
        ]
    words = f"The store {path} lies on {file_system}"
    return [line("store", "ok", words + (" apart from the target." if facts else "."))]

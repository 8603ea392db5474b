"""Duty: what runs on a host: it starts our worker there, passes on what the worker says, and speaks to it.

Ray gets this module by value, so that a host needs Python and Ray and nothing of ours. It knows the standard library
alone. Worker, plan and bricks lie in memory, and the worker keeps its own record; logs and traces lie in files without
names.

Refusal: nothing is measured, read or judged here. A worker is spoken to only when somebody asks for its words.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import glob
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, TypedDict

MOST_LINES = 2_000  # in one answer; an interval of ten streams takes some 20 kB
ERRORS_CHARS = 4_000  # of what a worker wrote to standard error
QUIT_S = 3.0
ANSWER_S = 1.0
COMPUTE_S = 3_600.0
MOST_BYTES = 4_000_000  # of a kept record in one answer
DISK = "/var/tmp"  # noqa: S108 - for files without names; /tmp may be memory
TIMEX_BYTES = 208  # of adjtimex(2), with 64-bit longs
MAX_ERROR_AT, STATUS_AT = 24, 40
UNSYNCHRONIZED, TIME_ERROR = 0x40, 5
READINGS = 64  # of both clocks, as the worker takes them
LOOK_S = 20.0  # programs that are asked about drives have 5 s each
REAPED_S = 2.0  # a worker that has told its end is gone soon
EYES = """
import importlib.machinery, importlib.util, sys, types

class Native:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "msgspec._core":
            loader = importlib.machinery.ExtensionFileLoader(name, sys.argv[2])
            return importlib.util.spec_from_file_location(name, sys.argv[2], loader=loader)

sys.path.insert(0, sys.argv[1])
sys.meta_path.insert(0, Native)
sys.modules["brickyard._core"] = types.ModuleType("brickyard._core")
from brickyard.facts.far import main
main()
"""
"""Runs `brickyard.facts` out of memory: an archive of sources, and the compiled half of msgspec."""
RECORD = '{"brickyard_record": 1, '  # how a record of a run begins
COMMON_NAME = "QEMU HARDDISK"  # a disk of QEMU has this name in every machine, unless it was given a serial number
OTHER_CORES = 3  # from so many cores on, one is left to everything but the load


def memory_file(name: str, content: bytes) -> int:
    """A file without a place; it goes with its last descriptor."""
    handle = os.memfd_create(name)
    with os.fdopen(os.dup(handle), "wb") as file:
        file.write(content)
    return handle


def path_of(handle: int) -> str:
    return f"/proc/self/fd/{handle}"


def records_home() -> str:
    """Where workers keep their records on this host."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = state if os.path.isabs(state) else os.path.expanduser("~/.local/state")
    return os.path.join(base, "brickyard", "fleet")


class AgentFacts(TypedDict):
    """What this host and its targets are."""

    facts: dict[str, str]
    cpus: int
    identities: list[str]


class AgentTaken(TypedDict):
    """What a worker has said, and its exit code once it has said everything."""

    lines: list[str]
    next: int
    code: int | None
    errors: str


class Agent:
    """The head's hand on one host."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._worker: subprocess.Popen[bytes] | None = None
        self._program: int | None = None
        self._lines: list[str] = []
        self._first = 0
        self._told = threading.Condition()
        self._code: int | None = None
        self._errors = ""
        self._logs: list[Any] = []
        self._record = ""
        self._asked_s = 0.0
        self._apart_ns = apart_ns()
        self._eyes: subprocess.Popen[str] | None = None

    def now(self) -> int:
        """Real time as it was set when this began, and on from there: it is compared, and nobody sets it."""
        return time.monotonic_ns() + self._apart_ns

    def begin(self, phase: int, instant_ns: int) -> int:
        """Names the worker the start of a phase, an instant by `now`; gives it back by the clock as it is set."""
        own_ns = instant_ns + apart_ns() - self._apart_ns
        self.say(f"go {phase} {own_ns}")
        return own_ns

    def monotonic(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def clock(self) -> tuple[bool, int]:
        """What the kernel says of the real-time clock: whether it is synchronized, and its greatest error in ns."""
        timex = ctypes.create_string_buffer(TIMEX_BYTES)
        state = ctypes.CDLL(None).adjtimex(timex)
        status = int.from_bytes(timex.raw[STATUS_AT : STATUS_AT + 4], "little")
        error_us = int.from_bytes(timex.raw[MAX_ERROR_AT : MAX_ERROR_AT + 8], "little")
        return 0 <= state < TIME_ERROR and not status & UNSYNCHRONIZED, error_us * 1000

    def pid(self) -> int:
        return os.getpid()

    def facts(self, targets: list[str]) -> AgentFacts:
        """What this host and its targets are."""
        found = {
            "kernel": platform.release(),
            "processor": _processor(),
            "cpus": str(len(os.sched_getaffinity(0))),
            "clock source": _text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        }
        for number, target in enumerate(targets):
            found.update({f"target {number} {name}": value for name, value in _target_facts(target).items()})
        return {
            "facts": {name: value for name, value in found.items() if value},
            "cpus": len(os.sched_getaffinity(0)),
            "identities": [_identity(target) for target in targets],
        }

    def look(self, archive: bytes, native: bytes, targets: list[str]) -> str:
        """Starts what looks at this host and these targets; gives back what it sees, in JSON."""
        files = [memory_file("brickyard-facts", archive), memory_file("msgspec", native)]
        order = {"host": self.host, "targets": targets, "records": records_home(), "beside": [os.getpid()]}
        self._eyes = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", EYES, *map(path_of, files)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=files,
            text=True,
            start_new_session=True,
        )
        for handle in files:
            os.close(handle)
        return self._seen(json.dumps(order), LOOK_S)

    def watch(self) -> None:
        """From here on it is to be known what happens beside the worker."""
        if self._eyes is not None and self._eyes.stdin is not None and self._worker is not None:
            with contextlib.suppress(OSError, ValueError):
                self._eyes.stdin.write(f"begin {self._worker.pid}\n")
                self._eyes.stdin.flush()

    def watched(self) -> str:
        """What happened since `watch`, in JSON. A worker that has ended is reaped first: then its use is ours."""
        with self._told:
            self._told.wait_for(lambda: self._code is not None, REAPED_S)
        return self._seen("end", LOOK_S)

    def _seen(self, word: str, within_s: float) -> str:
        eyes = self._eyes
        if eyes is None or eyes.stdin is None or eyes.stdout is None or eyes.stderr is None:
            raise RuntimeError("nothing looks at this host")
        late = threading.Timer(within_s, eyes.kill)
        late.start()
        try:
            with contextlib.suppress(OSError, ValueError):
                eyes.stdin.write(word + "\n")
                eyes.stdin.flush()
            line = eyes.stdout.readline()
            if not line:
                said = eyes.stderr.read().strip().splitlines()
                raise RuntimeError(said[-1] if said else f"no answer within {within_s:.0f} s")
            return line
        finally:
            late.cancel()

    def place(self, program: bytes) -> None:
        """Takes the worker, which then runs out of memory."""
        if self._program is None:
            self._program = memory_file("brickyard-worker", program)

    def start(self, run: str, plan: str, targets: list[str], bricks: str, note: str, words: list[str]) -> str:
        """Starts the worker; gives back where its record will lie. `plan`, `bricks` and `note` are JSON."""
        texts = {"plan": plan, "bricks": bricks, "note": note}
        files = [memory_file(name, text.encode()) for name, text in texts.items()]
        plan_file, bricks_file, note_file = map(path_of, files)
        record = os.path.join(records_home(), run, f"{self.host}.jsonl")
        asked = [plan_file, *targets, "--together", "--record", record, "--order", note_file]
        asked += ["--bricks", bricks_file] if bricks else []
        self._record = record
        self._run([*asked, *words], [*files, *(log.fileno() for log in self._logs)], os.environ)
        for handle in files:
            os.close(handle)
        return record

    def keep_log(self, number: int, piece: bytes) -> str:
        """Takes a piece of a log or trace; gives back by which path the worker opens it. It goes with this process."""
        if number == len(self._logs):
            self._logs.append(tempfile.TemporaryFile(dir=os.environ.get("TMPDIR") or DISK))  # noqa: SIM115
        log = self._logs[number]
        log.write(piece)
        log.flush()
        return path_of(log.fileno())

    def drive(self, order: str, variables: dict[str, str]) -> None:
        """Starts a driver of a replay, whose orders may hold passwords."""
        self._run(["--replay"], [log.fileno() for log in self._logs], {**os.environ, **variables})
        self.say(order)

    def _run(self, words: list[str], files: list[int], variables: Any) -> None:
        if self._program is None:
            raise RuntimeError("there is no worker on this host")
        self._worker = subprocess.Popen(
            ["brickyard-worker", *words],
            executable=path_of(self._program),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[*files, self._program],
            env=variables,
            preexec_fn=leave_a_core,  # noqa: PLW1509  # it sets the affinity and nothing else
            start_new_session=True,
        )
        threading.Thread(target=self._listen, args=(self._worker,), daemon=True).start()

    def _listen(self, worker: subprocess.Popen[bytes]) -> None:
        if worker.stdout is None or worker.stderr is None:
            return
        for line in worker.stdout:
            with self._told:
                self._lines.append(line.decode())
                self._told.notify_all()
        errors = worker.stderr.read().decode(errors="replace")[-ERRORS_CHARS:]
        code = worker.wait()
        with self._told:
            self._errors, self._code = errors, code
            self._told.notify_all()

    def say(self, words: str) -> bool:
        """Speaks to the worker; whether it still listens."""
        if self._worker is None or self._worker.stdin is None:
            return False
        try:
            self._worker.stdin.write(f"{words}\n".encode())
            self._worker.stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    def take(self, since: int, wait_s: float) -> AgentTaken:
        """Lines from number `since` on, those before which are forgotten; at once where there are some.

        Whoever asks lives: this alone is what the worker hears of the head.
        """
        self._greet()
        with self._told:
            gone = since - self._first
            if gone > 0:
                del self._lines[:gone]
                self._first = since
            if not self._lines and self._code is None:
                self._told.wait(wait_s)
            lines = self._lines[:MOST_LINES]
            whole = len(lines) == len(self._lines)
            code = self._code if whole else None
            return {"lines": lines, "next": self._first + len(lines), "code": code, "errors": self._errors}

    def _greet(self) -> None:
        """Once a second a worker has to answer, so that one that hangs is silent; drivers know no such word."""
        now_s = time.monotonic()
        must_answer = bool(self._record) and now_s - self._asked_s >= ANSWER_S
        if must_answer:
            self._asked_s = now_s
        self.say("clock" if must_answer else "alive")

    def forget(self) -> None:
        """The head has all of the record: the worker removes it; one that ended long before the others cannot."""
        if self.say("forget") or self._code is None:
            return
        with contextlib.suppress(OSError):
            with open(self._record, encoding="utf-8") as file:
                first = file.readline(len(RECORD))
            if first == RECORD:
                os.remove(self._record)
                os.rmdir(os.path.dirname(self._record))

    def end(self) -> None:
        """Ends the worker, whatever it does."""
        if self._eyes is not None:
            self._eyes.kill()
            self._eyes.wait()
        worker = self._worker
        if worker is None:
            return
        if worker.stdin is not None:
            with contextlib.suppress(OSError):
                worker.stdin.close()
        try:
            worker.wait(QUIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()

    def kept(self) -> list[str]:
        """Records that lie on this host, by name."""
        return sorted(
            os.path.relpath(path, records_home()) for path in glob.glob(f"{records_home()}/*/{self.host}.jsonl")
        )

    def read(self, name: str, offset: int) -> str:
        """A part of a kept record, in base64."""
        if name not in self.kept():
            raise FileNotFoundError(name)
        with open(os.path.join(records_home(), name), "rb") as file:
            file.seek(offset)
            return base64.b64encode(file.read(MOST_BYTES)).decode()

    def remove(self, name: str, size: int) -> str:
        """Removes a kept record that was read whole; why it is not removed, or nothing."""
        if name not in self.kept():
            return "is gone already"
        path = os.path.join(records_home(), name)
        try:
            if _is_open(path):
                return "a worker is still writing it"
            with open(path, encoding="utf-8") as file:
                first = file.readline(len(RECORD))
            if os.path.getsize(path) != size:
                return "has become longer since it was read"
            if size and first != RECORD:
                return "is no record that a host of a fleet kept"
            os.remove(path)
            with contextlib.suppress(OSError):  # records of other hosts may lie beside it
                os.rmdir(os.path.dirname(path))
        except (OSError, UnicodeDecodeError) as error:
            return f"cannot be removed: {error}"
        return ""

    def compute(self, tasks: str) -> list[str]:
        """Simulations by our worker, a line each in and out."""
        if self._program is None:
            raise RuntimeError("there is no worker on this host")
        done = subprocess.run(
            ["brickyard-worker", "--sweep"],
            executable=path_of(self._program),
            pass_fds=[self._program],
            input=tasks.encode(),
            capture_output=True,
            check=False,
            timeout=COMPUTE_S,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr.decode(errors="replace")[-ERRORS_CHARS:].strip())
        return done.stdout.decode().splitlines()


def apart_ns() -> int:
    """Real time less monotonic time, by the closest of some pairs of readings."""
    pairs = []
    for _ in range(READINGS):
        before_ns, real_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        pairs.append((after_ns - before_ns, real_ns - (before_ns + after_ns) // 2))
    return min(pairs)[1]


def leave_a_core() -> None:
    """The first core is left to Ray, the network and the kernel where there are enough."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= OTHER_CORES:
        os.sched_setaffinity(0, cores[1:])


def _is_open(path: str) -> bool:
    """Whether a process has a file open, as far as this user sees."""
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.path.samefile(link, path):
                return True
    return False


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _processor() -> str:
    for line in _text("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _identity(target: str) -> str:
    """The same text on all hosts that see one and the same device or file; empty where nothing tells. What lies within
    a disk or partition begins with the words of that.

    A disk has a worldwide name; a file has one by its number on such a disk, or on an export of NFS; one that is yet to
    be made by its name in a directory that has one. What lies on this host alone is told by the host's boot.
    """
    try:
        status = os.stat(target)
    except OSError:
        folder, name = os.path.split(os.path.realpath(target))
        place = _identity(folder) if name and os.path.isdir(folder) else ""
        return place and f"{place}/{_word(name)}"
    is_device = (status.st_mode & 0o170000) == 0o060000
    device = status.st_rdev if is_device else status.st_dev
    export = "" if is_device else _export_of(device)
    if export:
        return f"{_word(export)} {status.st_ino}"
    name = _block_name(os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"), device)
    return name if is_device else f"{name} {status.st_ino}"


def _block_name(home: str, device: int) -> str:
    """Of a disk or partition by its folder in sysfs. Volumes and arrays in software are known by their disks as well,
    since machines that are copies of one another have volumes of the same number."""
    part = _text(f"{home}/partition")
    disk = os.path.dirname(home) if part else home
    own = _text(f"{disk}/dm/uuid") or _text(f"{disk}/md/uuid")
    wide = _text(f"{disk}/wwid") or _text(f"{disk}/device/wwid") or (own if "mpath-" in own else "")
    if wide and COMMON_NAME not in wide:
        return f"{_wide_name(wide)} {part}".strip()
    below = [os.path.realpath(path) for path in sorted(glob.glob(f"{disk}/slaves/*"))]
    if below:
        return " ".join([*sorted(_block_name(path, _number_of(path)) for path in below), own, part]).strip()
    number = _text(f"{disk}/dev") or f"{os.major(device)}:{os.minor(device)}"
    return f"{_text('/proc/sys/kernel/random/boot_id')} {number} {part}".strip()


def _word(text: str) -> str:
    """One word of an identity."""
    return re.sub(r"\s", "%20", text)


def _number_of(home: str) -> int:
    major, _, minor = _text(f"{home}/dev").partition(":")
    return os.makedev(int(major or 0), int(minor or 0))


def _wide_name(text: str) -> str:
    """A disk's name, by whichever path: `naa.6…` of a disk is `mpath-36…` of what dm-multipath makes of its paths, and
    `part1-mpath-36…` its first partition."""
    found = re.match(r"(?:part(\d+)-)?mpath-", text)
    name = text[found.end() :] if found else text
    for begin, designator in (("naa.", "3"), ("eui.", "2")):
        if name.startswith(begin):
            name = designator + name.removeprefix(begin)
    name = _word(name)
    return f"{name} {found[1]}" if found and found[1] else name


def _export_of(device: int) -> str:
    """The NFS export that a device number stands for: SERVER:/PATH."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in _text("/proc/self/mountinfo").splitlines():
        mount, _, source = line.partition(" - ")
        words = source.split()
        if mount.split()[2] == number and len(words) > 1 and words[0].startswith("nfs"):
            return words[1]
    return ""


def _target_facts(target: str) -> dict[str, str]:
    """Model, firmware and settings of the disk below a path, as sysfs has them."""
    try:
        status = os.stat(target if os.path.lexists(target) else os.path.dirname(target) or ".")
    except OSError:
        return {}
    device = status.st_rdev if os.path.exists(target) and (status.st_mode & 0o170000) == 0o060000 else status.st_dev
    home = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if os.path.exists(os.path.join(home, "partition")):
        home = os.path.dirname(home)
    scheduler = _text(f"{home}/queue/scheduler")
    chosen = scheduler[scheduler.find("[") + 1 : scheduler.find("]")] if "[" in scheduler else scheduler
    return {
        "device": os.path.basename(home) if os.path.isdir(f"{home}/queue") else "",
        "model": _text(f"{home}/device/model"),
        "firmware": _text(f"{home}/device/rev") or _text(f"{home}/device/firmware_rev"),
        "scheduler": chosen,
        "write cache": _text(f"{home}/queue/write_cache"),
        "queue": _text(f"{home}/queue/nr_requests"),
    }

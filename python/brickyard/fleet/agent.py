"""Duty: what runs on a host: it starts our worker there, passes on what the worker says, and speaks to it.

Ray gets this module by value, so that a host needs Python and Ray and nothing of ours. It knows the standard library
alone. It writes no file: worker, plan and bricks lie in memory, and the worker keeps its own record.

Refusal: nothing is measured, read or judged here. A worker hears `alive` only when somebody asks for its words.
"""

from __future__ import annotations

import base64
import contextlib
import glob
import os
import platform
import signal
import subprocess
import threading
import time
from typing import Any

Json = dict[str, Any]

MOST_LINES = 2_000  # in one answer; an interval of ten streams takes some 20 kB
ERRORS_CHARS = 4_000  # of what a worker wrote to standard error
QUIT_S = 3.0
COMPUTE_S = 3_600.0
MOST_BYTES = 4_000_000  # of a kept record in one answer
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

    def now(self) -> int:
        return time.time_ns()

    def pid(self) -> int:
        return os.getpid()

    def facts(self, targets: list[str]) -> Json:
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

    def place(self, program: bytes) -> None:
        """Takes the worker, which then runs out of memory."""
        if self._program is None:
            self._program = memory_file("brickyard-worker", program)

    def start(self, order: Json) -> str:
        """Starts the worker; gives back where its record will lie."""
        if self._program is None:
            raise RuntimeError("there is no worker on this host")
        files = [memory_file(name, order[name].encode()) for name in ("plan", "bricks", "note")]
        plan, bricks, note = files
        record = os.path.join(records_home(), order["run"], f"{self.host}.jsonl")
        words = [path_of(plan), *order["targets"], "--together", "--record", record, "--order", path_of(note)]
        words += ["--bricks", path_of(bricks)] if order["bricks"] else []
        words += order["words"]
        self._worker = subprocess.Popen(
            ["brickyard-worker", *words],
            executable=path_of(self._program),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[*files, self._program],
            preexec_fn=leave_a_core,  # noqa: PLW1509  # it sets the affinity and nothing else
            start_new_session=True,
        )
        for handle in files:
            os.close(handle)
        threading.Thread(target=self._listen, args=(self._worker,), daemon=True).start()
        return record

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

    def take(self, since: int, wait_s: float) -> Json:
        """Lines from number `since` on, those before which are forgotten; at once where there are some.

        Whoever asks lives: this alone is what the worker hears of the head.
        """
        self.say("alive")
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

    def end(self) -> None:
        """Ends the worker, whatever it does."""
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


def leave_a_core() -> None:
    """The first core is left to Ray, the network and the kernel where there are enough."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= OTHER_CORES:
        os.sched_setaffinity(0, cores[1:])


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
    """The same text on all hosts that see one and the same device or file; empty where nothing tells.

    A disk has a worldwide name; a file has one by its number on such a disk, or on an export of NFS. What lies on this
    host alone is told by the host's boot.
    """
    try:
        status = os.stat(target)
    except OSError:
        return ""
    is_device = (status.st_mode & 0o170000) == 0o060000
    device = status.st_rdev if is_device else status.st_dev
    export = "" if is_device else _export_of(device)
    if export:
        return f"{export} {status.st_ino}"
    home = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    part = _text(f"{home}/partition")
    disk = os.path.dirname(home) if part else home
    names = (f"{disk}/wwid", f"{disk}/device/wwid", f"{disk}/dm/uuid", f"{disk}/md/uuid")
    name = next((text for text in map(_text, names) if text), "")
    if not name:
        name = f"{_text('/proc/sys/kernel/random/boot_id')} {os.major(device)}:{os.minor(device)}"
    return f"{name} {part}" if is_device else f"{name} {part} {status.st_ino}"


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

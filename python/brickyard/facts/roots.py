"""Reads small files of /sys, /proc and /etc, and asks optional programs.

Duty: hand out text, numbers, links and directory entries, or None where they cannot be had. Refusal: it never raises on
anything the system answers, and never writes.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

SECTOR_BYTES = 512
"""The kernel counts sizes and transfers in these, whatever a device's block size (Documentation/ABI/stable/sysfs-block,
Documentation/block/stat.rst)."""

# Files of /proc and /sys are small; the cap keeps a garbage tree from filling the memory.
READ_LIMIT_BYTES = 4 << 20
TOOL_TIMEOUT_S = 5.0
# Administrators' programs live here, and this is often missing from an ordinary user's PATH.
ADMIN_PATH = "/usr/sbin:/sbin:/usr/local/sbin:/opt/MegaRAID/storcli:/opt/MegaRAID/perccli"


class Tools:
    """Optional programs of the system: each is run only if it is installed, with a time limit."""

    def find(self, program: str) -> str | None:
        return shutil.which(program, path=os.getenv("PATH", "/usr/bin:/bin") + ":" + ADMIN_PATH)

    def run(self, program: str, *arguments: str) -> tuple[str | None, str]:
        """The standard output, or None and the reason. The exit code is not judged: smartctl reports health in it."""
        path = self.find(program)
        if path is None:
            return None, f"not known: {program} is not installed"
        environment = {**os.environ, "LC_ALL": "C"}
        try:
            done = subprocess.run(
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TOOL_TIMEOUT_S,
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, f"not known: {program} did not answer within {TOOL_TIMEOUT_S:.0f} s"
        except (OSError, ValueError) as error:
            return None, f"not known: {program} could not be run: {error}"
        text = done.stdout.decode("utf-8", "replace")
        if not text.strip():
            complaint = done.stderr.decode("utf-8", "replace").strip().splitlines()
            return None, f"not known: {program} said: {complaint[0] if complaint else f'exit code {done.returncode}'}"
        return text, ""


class NoTools(Tools):
    """A system without any optional program."""

    def find(self, program: str) -> str | None:
        return None


@dataclass(frozen=True)
class Roots:
    """Where the system's own files are; other places are for trees that were written to look like a system."""

    sys: str = "/sys"
    proc: str = "/proc"
    etc: str = "/etc"
    dev: str = "/dev"
    run: str = "/run"
    tools: Tools = field(default_factory=Tools)

    def at_sys(self, *parts: str) -> str:
        return os.path.join(self.sys, *parts)

    def at_proc(self, *parts: str) -> str:
        return os.path.join(self.proc, *parts)


def binary(path: str) -> bytes | None:
    """The content of a regular file, or None."""
    try:
        # Non-blocking, so that a pipe or a terminal in an unexpected place cannot hold us up.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        parts: list[bytes] = []
        room = READ_LIMIT_BYTES
        while room > 0 and (part := os.read(handle, min(room, 1 << 16))):
            parts.append(part)
            room -= len(part)
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(handle)


def text(*parts: str) -> str | None:
    """The stripped text of a file, or None where there is no such file or nothing in it."""
    content = binary(os.path.join(*parts))
    if content is None:
        return None
    return content.decode("utf-8", "replace").replace("\0", "").strip() or None


def as_number(word: str | None) -> int | None:
    """An integer in decimal or 0x notation, or None."""
    if word is None or len(word) > 40:
        return None
    try:
        return int(word, 0) if word.lower().startswith(("0x", "-0x")) else int(word)
    except ValueError:
        return None


def number(*parts: str) -> int | None:
    return as_number(text(*parts))


def flag(*parts: str) -> bool | None:
    value = number(*parts)
    return None if value is None else value != 0


def entries(*parts: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(*parts)))
    except (OSError, ValueError):
        return []


def link_name(*parts: str) -> str | None:
    """The last part of what a symbolic link points to, as for a driver."""
    try:
        return os.path.basename(os.readlink(os.path.join(*parts))) or None
    except (OSError, ValueError):
        return None


def ancestors(path: str, stop: str) -> Iterator[str]:
    """The real directory and those above it, nearest first, up to `stop`, which is left out."""
    here, stop = os.path.realpath(path), os.path.realpath(stop)
    while here.startswith(stop + "/"):
        yield here
        here = os.path.dirname(here)

"""Duty: standard output and its like, where a path names them. Refusal: only pipes and terminals are written."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path

from brickyard.outputs.places import refuse

_NAMES = {"/dev/stdout": 1, "/dev/stderr": 2}
_NUMBERED = re.compile(r"(?:/dev/fd|/proc/self/fd)/(\d{1,6})")


def stream_of(path: Path) -> int | None:
    """A descriptor of the stream that a path names; None where it names none.

    Written is the descriptor that we were given. A file or device behind it is refused: it would be opened anew.
    """
    text = str(path)
    match = _NUMBERED.fullmatch(text)
    number = int(match[1]) if match else _NAMES.get(text)
    if number is None:
        return None
    try:
        kind = os.fstat(number).st_mode
        if stat.S_ISFIFO(kind) or os.isatty(number):
            sys.stdout.flush()
            return os.dup(number)
    except OSError as error:
        raise refuse(path, f"cannot be written: {error.strerror}") from error
    raise refuse(path, "is neither a pipe nor a terminal", "name the file itself, or leave --output out")


def silence_stdout() -> None:
    """What is still to be printed goes nowhere: whoever read it has gone, and Python would complain at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def private_pipe(path: Path) -> int:
    """A named pipe in a folder of ours, opened for reading; whoever writes it needs no disk."""
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)

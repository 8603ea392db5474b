"""Duty: a script goes to a host's shell by standard input, and what it says comes back. Refusal: no script is known."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from brickyard.errors import BrickyardError, one_line


class ShellError(BrickyardError):
    """`said` is what the script wrote to standard output before it failed; None where it may go on there."""

    said: str | None = None


def answer(name: str, command: Sequence[str], script: str, within_s: float) -> str:
    try:
        done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=within_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise ShellError(f"{name}: did not answer within {within_s:.0f} s") from error
    except OSError as error:
        raise _failed(f"{name}: cannot be reached: {one_line(error)}", "") from error
    if done.returncode != 0:
        cause = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise _failed(f"{name}: {one_line(cause)} (exit code {done.returncode})", done.stdout)
    return done.stdout


def _failed(message: str, said: str) -> ShellError:
    error = ShellError(message)
    error.said = said
    return error


def filled(script: str, **values: str) -> str:
    for key, value in values.items():
        script = script.replace(f"@{key}@", value)
    return script

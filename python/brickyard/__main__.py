"""Duty: the command line as a process: `brickyard`, and `python -m brickyard`. Ctrl-C is one line and exit code 130
whenever it comes, also while modules are imported and while the interpreter ends.

Refusal: what a verb does about signals is the verb's own affair (`study.running.interrupt`).
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # as in `brickyard` itself
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130  # as in `brickyard.errors`, which is not imported yet


def end_at_once(*_: object) -> None:
    """Where nothing was begun, and nothing has to be tidied up."""
    os.write(2, b"brickyard: interrupted\n")
    os._exit(INTERRUPTED)


def begin() -> NoReturn:
    # Where a shell started us in the background, SIGINT is ignored, and stays so.
    heeds = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeds:
        signal.signal(signal.SIGINT, end_at_once)
    from brickyard.cli import main

    if heeds:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = main()
    except KeyboardInterrupt:  # another one, while the first was answered
        code = INTERRUPTED
    if heeds:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done; the interpreter must not be torn while it ends
    # CPython kills itself at its end if a KeyboardInterrupt ended an exec, also if it was handled; this forgets it.
    eval("0")  # noqa: S307
    sys.exit(code)


if __name__ == "__main__":
    begin()
